//! An operator of some namespaces, with the rights that the chart gives it there.

use crate::support::{Cluster, OPERATOR, apply};
use dormouse_operator::account::ACCOUNT;
use dormouse_protocol::session::State;

const FLAGS: [&str; 3] = ["--orphan-sweep-interval-seconds=1", "--watch-namespaces=team,second", "--storage-cluster=here"];

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_of_some_namespaces_does_its_work_there_and_has_no_right_elsewhere() {
    let cluster = Cluster::start_in(&["team", "second"], &FLAGS).await;
    cluster.server.kubectl(&["create", "namespace", "other"]).unwrap();
    let object = |namespace: &str| {
        format!("apiVersion: dormouse.dev/v1alpha1\nkind: KernelSession\nmetadata: {{name: a, namespace: {namespace}}}\nspec: {{}}\n")
    };
    ["other", "second"].iter().for_each(|namespace| apply(&cluster.server, &object(namespace)));
    let uid = cluster.session("a", "");
    let in_namespace = |namespace: &str, object: &[&str], path: &str| {
        let path = format!("jsonpath={path}");
        let args = [&["get"], object, &["-n", namespace, "--ignore-not-found", "-o", &path]].concat();
        cluster.server.kubectl(&args).unwrap()
    };
    for namespace in ["team", "second"] {
        let made = async || !in_namespace(namespace, &["deployment", "dormouse-kernel-default"], "{.metadata.uid}").is_empty();
        cluster.until("the pool of a session has pods", made).await;
        assert!(!in_namespace(namespace, &["secret", "dormouse-kernel-default-tls"], "{.data.tls\\.crt}").is_empty());
    }
    let pod = cluster.pod(1, 10).await;
    cluster.place("a", &pod, 1);
    pod.report("a", &uid, |report| report.state = State::Hibernated);
    cluster.server.kubectl(&["wait", "--for=condition=Hibernated", "kernelsession", "a", "-n", "team", "--timeout=120s"]).unwrap();
    cluster.server.kubectl(&["delete", "kernelsession", "a", "-n", "team", "--wait=true", "--timeout=120s"]).unwrap();
    // Everything above came after the other's object, and nobody has touched that.
    let untouched = in_namespace("other", &["kernelsession", "a"], "{.metadata.finalizers}{.status}");
    assert_eq!((untouched.as_str(), in_namespace("other", &["kernelpool", "default"], "{.metadata.uid}").as_str()), ("", ""));
    let may = |verb: &str, what: &str, namespace: &str| {
        // Its answer is also its exit code.
        let answer = cluster.server.kubectl(&["auth", "can-i", verb, what, "-n", namespace, "--as", OPERATOR]);
        answer.is_ok_and(|answer| answer.trim() == "yes")
    };
    assert!(may("list", "secrets", "team") && may("patch", "deployments.apps", "second"));
    let token = |account: &str, namespace: &str| {
        let what = format!("serviceaccounts/{account}");
        let answer = cluster.server.kubectl(&["auth", "can-i", "create", &what, "--subresource=token", "-n", namespace, "--as", OPERATOR]);
        answer.is_ok_and(|answer| answer.trim() == "yes")
    };
    assert!(token(ACCOUNT, "team") && !token("default", "team"), "of one ServiceAccount");
    for namespace in ["other", "kube-system", "default"] {
        for (verb, what) in
            [("get", "secrets"), ("list", "secrets"), ("create", "deployments.apps"), ("get", "kernelsessions.dormouse.dev")]
        {
            assert!(!may(verb, what, namespace), "{verb} {what} in {namespace}");
        }
        assert!(!token(ACCOUNT, namespace), "a token in {namespace}");
    }
    assert!(!cluster.operator.output().contains("Forbidden"), "{}", cluster.operator.output());
}
