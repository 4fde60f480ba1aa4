//! Which pods go when a pool gets smaller, by Kubernetes' own controllers.

use std::{collections::BTreeSet, sync::Arc};

use crate::support::{Cluster, FakePod, apply, pool};
use dormouse_protocol::session::State;
use serde_json::json;

/// No sweep in between, and status tells soon what is busy.
const FLAGS: [&str; 2] = ["--orphan-sweep-interval-seconds=0", "--status-interval-ms=500"];
/// Who makes pods, and takes them away.
const CONTROLLERS: [&str; 2] = ["deployment-controller", "replicaset-controller"];

/// The pods that are there: those that have no node go at once.
fn pods(cluster: &Cluster) -> BTreeSet<String> {
    let names = "jsonpath={.items[*].metadata.name}";
    let names = cluster.server.kubectl(&["get", "pods", "-n", "team", "-o", names]).unwrap();
    names.split_whitespace().map(str::to_owned).collect()
}

/// Has `live` sessions of this pod hold a slot.
fn fill(pod: &FakePod, live: usize) {
    for number in 0..live {
        let name = format!("{}-{number}", pod.name);
        pod.report(&name, &name, |report| report.state = State::Idle);
    }
}

fn names<'a>(pods: impl IntoIterator<Item = &'a Arc<FakePod>>) -> BTreeSet<String> {
    pods.into_iter().map(|pod| pod.name.clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_pool_that_gets_smaller_the_emptiest_pods_go_at_one_write_each() {
    let cluster = Cluster::start(&FLAGS).await;
    let controllers = cluster.server.start_controllers(&CONTROLLERS).unwrap();
    apply(&cluster.server, &pool("slotsPerPod: 10, minPods: 5"));
    cluster.until("all are made", async || pods(&cluster).len() == 5).await;
    let mut running = Vec::new();
    for (number, name) in (1..).zip(pods(&cluster)) {
        running.push(cluster.serve(name, number, 10).await);
    }
    // By name, age and everything else that Kubernetes looks at they are in no order of what they have.
    for (pod, live) in running.iter().zip([1, 0, 6, 0, 2]) {
        fill(pod, live);
    }
    let sessions = || cluster.get(&["kernelpool", "default"], "{.status.sessions} {.status.conditions[0].reason}");
    cluster.until("the operator has heard of all of them", async || sessions() == "9 PodsReady").await;

    let (cost, since) = (|write: &dormouse_testkit::apiserver::Write| write.resource == "pods", cluster.writes());
    let smaller = r#"{"spec":{"minPods":0}}"#;
    cluster.server.kubectl(&["patch", "kernelpool", "default", "-n", "team", "--type=merge", "-p", smaller]).unwrap();
    // Nine live sessions are half of two pods.
    cluster.until("three go", async || pods(&cluster).len() == 2).await;
    assert_eq!(pods(&cluster), names([&running[2], &running[4]]), "{}{}", cluster.operator.output(), controllers.output());
    assert_eq!(cluster.written(since).iter().filter(|write| cost(write)).count(), 3, "{:#?}", cluster.written(since));

    // What was the fuller one empties.
    fill(&running[4], 3);
    for number in 0..6 {
        let name = format!("{}-{number}", running[2].name);
        running[2].report(&name, &name, |report| report.state = State::Hibernated);
    }
    cluster.until("one goes", async || pods(&cluster).len() == 1).await;
    assert_eq!(pods(&cluster), names([&running[4]]), "{}{}", cluster.operator.output(), controllers.output());
    assert_eq!(cluster.written(since).iter().filter(|write| cost(write)).count(), 4, "{:#?}", cluster.written(since));
    let before = cluster.writes();
    cluster.leases(2).await;
    assert_eq!(cluster.written(before).iter().filter(|write| cost(write)).count(), 0, "{:#?}", cluster.written(before));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_may_not_choose_makes_the_pool_smaller_all_the_same() {
    let cluster = Cluster::start(&FLAGS).await;
    let role = cluster.server.kubectl(&["get", "clusterrole", "dormouse-operator", "-o", "json"]).unwrap();
    let role: serde_json::Value = serde_json::from_str(&role).unwrap();
    let rule = role["rules"].as_array().unwrap().iter().position(|rule| rule["resources"] == json!(["pods"])).unwrap();
    let as_before = json!([{ "op": "replace", "path": format!("/rules/{rule}/verbs"), "value": ["get", "list", "watch"] }]).to_string();
    cluster.server.kubectl(&["patch", "clusterrole", "dormouse-operator", "--type=json", "-p", &as_before]).unwrap();
    apply(&cluster.server, &pool("slotsPerPod: 10, minPods: 2"));
    let (empty, full) = (cluster.pod(1, 10).await, cluster.pod(2, 10).await);
    fill(&full, 3);
    let sessions = || cluster.get(&["kernelpool", "default"], "{.status.sessions}");
    cluster.until("the operator has heard of them", async || sessions() == "3").await;
    let smaller = r#"{"spec":{"minPods":0}}"#;
    cluster.server.kubectl(&["patch", "kernelpool", "default", "-n", "team", "--type=merge", "-p", smaller]).unwrap();
    let replicas = || cluster.get(&["deployment", "dormouse-kernel-default"], "{.spec.replicas}");
    cluster.until("one pod is to go", async || replicas() == "1").await;
    let refused: Vec<_> = cluster.written(0).into_iter().filter(|write| write.resource == "pods").map(|write| write.code).collect();
    assert_eq!(refused.first(), Some(&403), "{refused:?}");
    assert!(cluster.operator.output().contains("lets the operator patch pods"), "{}", cluster.operator.output());
    let annotations = cluster.get(&["pod", &empty.name], "{.metadata.annotations}");
    assert!(!annotations.contains("pod-deletion-cost"), "{annotations}");
}
