//! Pools without pods: how they come to have none, and to have one again.

use crate::support::{Cluster, FakePod, apply, pool};
use dormouse_crds::session::SnapshotStatus;
use dormouse_protocol::{kernel::StoredStatus, session::State};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

/// No sweep in between.
const FLAGS: [&str; 1] = ["--orphan-sweep-interval-seconds=0"];

/// A session that sleeps on `pod`, whose status says so.
async fn asleep(cluster: &Cluster, pod: &FakePod, name: &str) -> String {
    let uid = cluster.session(name, "");
    cluster.place(name, pod, 1);
    pod.report(name, &uid, |report| report.state = State::Hibernated);
    cluster.server.kubectl(&["wait", "--for=condition=Hibernated", "kernelsession", name, "-n", "team", "--timeout=120s"]).unwrap();
    uid
}

fn delete(cluster: &Cluster, pod: &FakePod) {
    cluster.server.kubectl(&["delete", "pod", &pod.name, "-n", "team", "--force", "--grace-period=0"]).unwrap();
}

fn replicas(cluster: &Cluster) -> String {
    cluster.get(&["deployment", "dormouse-kernel-default"], "{.spec.replicas}")
}

fn placement(cluster: &Cluster, name: &str) -> String {
    cluster.get(&["kernelsession", name], "{.status.placement.pod}")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_pod_goes_when_everybody_sleeps_and_what_it_told_last_is_believed() {
    let cluster = Cluster::start(&FLAGS).await;
    apply(&cluster.server, &pool("warmPods: 0"));
    let pod = cluster.pod(1, 10).await;
    let uid = asleep(&cluster, &pod, "a").await;
    let silent = asleep(&cluster, &pod, "b").await;
    cluster.until("the pool is to have no pod", async || replicas(&cluster) == "0").await;
    // While it stops, it stores a timer and tells of it.
    let due = "2031-01-01T00:00:00Z";
    pod.report("a", &uid, |report| {
        report.next_wake_time = Some(due.to_owned());
        report.snapshot.as_mut().unwrap().sequence = 7;
    });
    pod.drained();
    cluster.until("the report is in status", async || cluster.get(&["kernelsession", "a"], "{.status.nextWakeTime}") == due).await;
    delete(&cluster, &pod);
    for name in ["a", "b"] {
        cluster.until("the placement is cleared", async || placement(&cluster, name).is_empty()).await;
    }
    let status = cluster.get(&["kernelsession", "a"], "{.status.snapshot.sequence} {.status.conditions[?(@.type==\"Hibernated\")].status}");
    assert_eq!((status.as_str(), replicas(&cluster).as_str()), ("7 True", "0"), "nobody was needed to read what is stored ({silent})");
    let reason = || cluster.get(&["kernelpool", "default"], "{.status.conditions[0].reason}");
    cluster.until("the pool says so", async || reason() == "ScaledToZero").await;
    // Also once another operator leads.
    let mut cluster = cluster;
    cluster.restart(&FLAGS, async {}).await;
    cluster.leases(2).await;
    assert_eq!(replicas(&cluster), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_whose_last_pod_ended_without_a_word_has_one_until_what_it_stored_is_read() {
    let cluster = Cluster::start(&FLAGS).await;
    apply(&cluster.server, &pool("warmPods: 0"));
    let pod = cluster.pod(1, 10).await;
    asleep(&cluster, &pod, "a").await;
    cluster.until("the pool is to have no pod", async || replicas(&cluster) == "0").await;
    delete(&cluster, &pod);
    cluster.until("somebody has to read", async || replicas(&cluster) == "1").await;
    assert_eq!(placement(&cluster, "a"), "k1", "as long as nobody has");
    let (engine_digest, time, due) = ("e".to_owned(), "2026-01-02T00:00:00Z".to_owned(), "2031-01-01T00:00:00Z");
    let reader = cluster.pod(2, 10).await;
    *reader.stored.lock().unwrap() = Some(StoredStatus {
        snapshot: Some(SnapshotStatus { epoch: 1, sequence: 9, bytes: 10, engine_digest, time, encrypted: false }),
        next_wake_time: Some(due.to_owned()),
        ..StoredStatus::default()
    });
    cluster.until("the placement is cleared", async || placement(&cluster, "a").is_empty()).await;
    let status = cluster.get(&["kernelsession", "a"], "{.status.snapshot.sequence} {.status.nextWakeTime}");
    assert_eq!(status, format!("9 {due}"));
    assert_eq!(replicas(&cluster), "1", "it is read again after a while");
    cluster.server.kubectl(&["delete", "kernelsession", "a", "-n", "team", "--wait=true", "--timeout=120s"]).unwrap();
    cluster.until("nobody has to read any more", async || replicas(&cluster) == "0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_a_session_of_a_pool_without_pods_gets_one_and_an_old_word_does_not() {
    let cluster = Cluster::start(&FLAGS).await;
    apply(&cluster.server, &pool("warmPods: 0"));
    cluster.session("new", "operatingMode: Hibernated");
    cluster.until("nobody is awake", async || replicas(&cluster) == "0").await;
    let requested = |time: Option<String>| {
        let patch = json!({ "status": { "wakeRequestedTime": time } }).to_string();
        let args = ["patch", "kernelsession", "new", "-n", "team", "--subresource=status", "--type=merge", "-p", &patch];
        cluster.server.kubectl(&args).unwrap();
    };
    let wants = |ago: i64| {
        requested(Some((Timestamp::now() - SignedDuration::from_secs(ago)).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()));
    };
    // Nothing follows from it: the pool is looked at, and keeps what it has.
    wants(3_600);
    cluster.leases(2).await;
    assert_eq!(replicas(&cluster), "0");
    wants(0);
    cluster.until("a pod is made", async || replicas(&cluster) == "1").await;
    // Nor does the operator forget it with the last pod of before.
    let (since, pod) = (cluster.writes(), cluster.pod(1, 10).await);
    cluster.until("the pod's stream is open", async || cluster.operator.output().contains("report stream open")).await;
    delete(&cluster, &pod);
    cluster.leases(2).await;
    assert_eq!(replicas(&cluster), "1");
    let written = cluster.written(since);
    assert!(written.iter().all(|write| write.resource != "deployments"), "{written:#?}");
    // Who was served has slept again before its pod told anything: a gateway that places a session takes the request back.
    let pod = cluster.pod(2, 10).await;
    let uid = cluster.get(&["kernelsession", "new"], "{.metadata.uid}");
    cluster.place("new", &pod, 1);
    requested(None);
    pod.report("new", &uid, |report| report.state = State::Hibernated);
    cluster.until("nobody waits any more", async || replicas(&cluster) == "0").await;
}
