//! A gateway of some namespaces, with the rights that the chart gives it there.

use std::{path::Path, process::Command};

use crate::support::until;
use dormouse_crds::session::KernelSessionSpec;
use dormouse_gateway::{
    Directory as _,
    directory::{DirectoryError, Key, NewSession, kubernetes::KubernetesDirectory},
};
use dormouse_testkit::{apiserver::ApiServer, tools};
use dormouse_watch::WatchScope;
use tokio_util::sync::CancellationToken;

const SYSTEM: &str = "dormouse-system";

/// A client with what the chart lets the gateway do in these namespaces.
async fn client(server: &ApiServer, namespaces: &[&str]) -> kube::Client {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let watched = format!("watchNamespaces={{{}}}", namespaces.join(","));
    let mut helm = Command::new(tools::path("helm").unwrap());
    helm.args(["template", "dormouse", "charts/dormouse", "--namespace", SYSTEM, "--set", &watched, "--show-only", "templates/rbac.yaml"]);
    let rights = helm.current_dir(&root).output().unwrap();
    assert!(rights.status.success(), "{}", String::from_utf8_lossy(&rights.stderr));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), rights.stdout).unwrap();
    server.kubectl(&["apply", "-f", root.join("crds/yaml").to_str().unwrap()]).unwrap();
    server.kubectl(&["wait", "--for=condition=Established", "crd", "--all"]).unwrap();
    for namespace in [namespaces, &[SYSTEM, "other"]].concat() {
        server.kubectl(&["create", "namespace", namespace]).unwrap();
    }
    server.kubectl(&["apply", "-f", file.path().to_str().unwrap()]).unwrap();
    let token = server.kubectl(&["create", "token", "dormouse-gateway", "-n", SYSTEM]).unwrap();
    let text = std::fs::read_to_string(server.kubeconfig()).unwrap().replace(server.admin_token(), token.trim());
    let config = kube::config::Kubeconfig::from_yaml(&text).unwrap();
    kube::Client::try_from(kube::Config::from_custom_kubeconfig(config, &Default::default()).await.unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_of_some_namespaces_has_their_sessions_and_says_of_others_that_they_are_not_its() {
    dormouse_service::telemetry::install_tls_provider();
    let server = ApiServer::start().await.unwrap();
    let client = client(&server, &["team", "second"]).await;
    let shutdown = CancellationToken::new();
    let directory = KubernetesDirectory::start(client, WatchScope::of(["team", "second"]), &shutdown);
    until(&*directory, "the caches are full", || directory.pending().is_empty()).await;
    let new =
        |namespace: &str| NewSession { key: Key::new(namespace, "a"), labels: Default::default(), spec: KernelSessionSpec::default() };
    for namespace in ["team", "second"] {
        directory.create(new(namespace)).await.unwrap();
    }
    let object = "apiVersion: dormouse.dev/v1alpha1\nkind: KernelSession\nmetadata: {name: b, namespace: second}\nspec: {}\n";
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), object.replace("second", "other") + "---\n" + object).unwrap();
    server.kubectl(&["apply", "-f", file.path().to_str().unwrap()]).unwrap();
    until(&*directory, "what somebody else makes is seen", || directory.get(&Key::new("second", "b")).is_some()).await;
    assert_eq!(directory.list(None).len(), 3, "and nothing of another namespace");
    let says = |outcome: Result<_, DirectoryError>| match outcome.map(drop).unwrap_err() {
        DirectoryError::Denied(message) => message.contains("namespace `other` is not among the watchNamespaces"),
        other => panic!("{other}"),
    };
    assert!(says(directory.create(new("other")).await));
    assert!(says(directory.read(&Key::new("other", "b")).await));
    shutdown.cancel();
}
