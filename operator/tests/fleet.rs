//! What the operator costs the API server, and how it sizes pools.

use std::time::Duration;

use crate::support::{Cluster, FakePod, apply, metrics::looks_at_pools, pool};
use dormouse_operator::triggers::TRIGGERS_MAX;
use dormouse_protocol::session::State;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::PostParams};
use serde_json::json;

/// No sweep in between.
const FLAGS: [&str; 1] = ["--orphan-sweep-interval-seconds=0"];
/// 32 bytes in base64.
const KEY: &str = "19fX19fX19fX19fX19fX19fX19fX19fX19fX19fX19c=";

/// Makes sessions that sleep on `pod`, and whose status says so.
async fn asleep(cluster: &Cluster, pod: &FakePod, count: usize) -> Vec<(String, String)> {
    let names: Vec<String> = (0..count).map(|number| format!("s{number}")).collect();
    let sessions: Vec<(String, String)> = names.iter().map(|name| (name.clone(), cluster.session(name, ""))).collect();
    for (name, uid) in &sessions {
        cluster.place(name, pod, 1);
        pod.report(name, uid, |report| report.state = State::Hibernated);
    }
    for (name, _) in &sessions {
        cluster.server.kubectl(&["wait", "--for=condition=Hibernated", "kernelsession", name, "-n", "team", "--timeout=120s"]).unwrap();
    }
    sessions
}

/// Until the operator has seen all that `pod` reported before.
async fn seen(cluster: &Cluster, pod: &FakePod, (name, uid): &(String, String), due: &str) {
    pod.report(name, uid, |report| report.next_wake_time = Some(due.to_owned()));
    cluster.until("a timer is in status", async || cluster.get(&["kernelsession", name], "{.status.nextWakeTime}") == due).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wake_costs_the_operator_no_write_and_an_idle_cluster_nothing_but_leases() {
    const SLEEPERS: usize = 31;
    const MOVED: usize = 10;
    let cluster = Cluster::start(&FLAGS).await;
    let (one, two) = (cluster.pod(1, 100).await, cluster.pod(2, 100).await);
    let mut sessions = asleep(&cluster, &one, SLEEPERS).await;
    let marker = sessions.pop().unwrap();
    seen(&cluster, &one, &marker, "2030-01-01T00:00:00Z").await;
    cluster.leases(2).await;

    let before = cluster.writes();
    for (name, uid) in &sessions {
        for state in [State::Waking, State::Running, State::Idle, State::Hibernated] {
            one.report(name, uid, |report| {
                report.state = state;
                report.cells += 1;
                report.snapshot.as_mut().unwrap().sequence += 1;
            });
        }
    }
    seen(&cluster, &one, &marker, "2030-01-02T00:00:00Z").await;
    cluster.leases(1).await;
    let written = cluster.written(before);
    assert_eq!(written.len(), 1, "the marker's own, and none of {} wakes in place: {written:#?}", sessions.len());

    let before = cluster.writes();
    for (name, uid) in sessions.iter().take(MOVED) {
        cluster.place(name, &two, 2);
        two.report(name, uid, |report| (report.epoch, report.cells) = (2, 5));
    }
    seen(&cluster, &one, &marker, "2030-01-03T00:00:00Z").await;
    cluster.leases(1).await;
    let written = cluster.written(before);
    assert_eq!(written.len(), 1, "a move is the gateway's one write: {written:#?}");

    let before = cluster.writes();
    cluster.leases(4).await;
    assert_eq!(cluster.written(before), [], "an idle cluster");
}

/// A pool whose credentials are a copy of a Secret, and whose keys are in another one.
fn pool_with_secrets(cluster: &Cluster, name: &str) -> String {
    let (endpoint, credentials) = (cluster.minio.endpoint(), cluster.minio.credentials());
    let (id, key) = (credentials.access_key_id, credentials.secret_access_key);
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: s3, namespace: team}}\n\
         stringData: {{accessKeyId: {id}, secretAccessKey: {key}}}\n---\n\
         apiVersion: v1\nkind: Secret\nmetadata: {{name: keys, namespace: team}}\nstringData: {{k1: {KEY}, current: k1}}\n---\n{}",
        pool(&format!(
            "warmPods: 1, storage: {{bucket: sessions, endpoint: \"{endpoint}\", credentialsSecretRef: {{name: s3}}}}, \
             encryption: {{keySecretRef: {{name: keys}}}}"
        ))
        .replace("name: default", &format!("name: {name}"))
    )
}

/// Until the operator has looked at `pools` pools several times.
async fn looked_at(cluster: &Cluster, pools: usize) {
    let wanted = looks_at_pools(&cluster.admin).await + 5 * pools as u64;
    cluster.until("pools are looked at", async || looks_at_pools(&cluster.admin).await >= wanted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_pools_that_nothing_happens_to_no_secret_is_read_and_what_somebody_does_to_one_is_seen() {
    const POOLS: [&str; 3] = ["default", "second", "own"];
    let (cluster, between) = Cluster::start_through(&[FLAGS[0], "--status-interval-ms=500"]).await;
    let second = pool("warmPods: 1").replace("name: default", "name: second");
    apply(&cluster.server, &[pool("warmPods: 1"), second, pool_with_secrets(&cluster, "own")].join("---\n"));
    for name in POOLS {
        for secret in [format!("dormouse-kernel-{name}-tls"), format!("dormouse-storage-{name}")] {
            cluster.until(&secret, async || !cluster.get(&["secret", &secret], "{.metadata.uid}").is_empty()).await;
        }
        let deployment = format!("dormouse-kernel-{name}");
        cluster.until(&deployment, async || !cluster.get(&["deployment", &deployment], "{.metadata.uid}").is_empty()).await;
        let ready = r#"{"status":{"replicas":1,"readyReplicas":1,"availableReplicas":1}}"#;
        let patch = ["patch", "deployment", &deployment, "-n", "team", "--subresource=status", "--type=merge", "-p", ready];
        cluster.server.kubectl(&patch).unwrap();
        let reason = || cluster.get(&["kernelpool", name], "{.status.conditions[0].reason}");
        cluster.until("the pool is ready", async || reason() == "PodsReady").await;
    }
    // What the operator has written itself, it has heard of by then.
    cluster.leases(1).await;
    looked_at(&cluster, POOLS.len()).await;
    let reads = || between.reads("/namespaces/team/secrets/");
    let before = reads().len();
    assert!(before > 0);
    cluster.leases(2).await;
    looked_at(&cluster, POOLS.len()).await;
    assert_eq!(reads().split_off(before), [""; 0], "pools that nothing happens to");

    let tls = || cluster.get(&["secret", "dormouse-kernel-default-tls"], "{.metadata.uid}");
    let uid = tls();
    cluster.server.kubectl(&["delete", "secret", "dormouse-kernel-default-tls", "-n", "team"]).unwrap();
    cluster.until("the certificate is made again", async || !tls().is_empty() && tls() != uid).await;
    let other = r#"{"data":{"accessKeyId":"b3RoZXI="}}"#;
    cluster.server.kubectl(&["patch", "secret", "s3", "-n", "team", "--type=merge", "-p", other]).unwrap();
    let copied = || cluster.get(&["secret", "dormouse-storage-own"], "{.data.accessKeyId}");
    cluster.until("the copy is what the original is", async || copied() == "b3RoZXI=").await;
    cluster.server.kubectl(&["delete", "secret", "keys", "-n", "team"]).unwrap();
    let reason = || cluster.get(&["kernelpool", "own"], "{.status.conditions[0].reason}");
    cluster.until("the pool says that its keys are gone", async || reason() == "EncryptionKeysInvalid").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_waits_for_is_told_at_once_and_what_is_merely_busy_after_the_interval() {
    let flags = [FLAGS[0], "--status-interval-ms=3000"];
    let cluster = Cluster::start(&flags).await;
    let pod = cluster.pod(1, 10).await;
    let (name, uid) = asleep(&cluster, &pod, 1).await.pop().unwrap();
    pod.report(&name, &uid, |report| (report.state, report.cells) = (State::Running, 7));
    let cells = || cluster.get(&["kernelsession", &name], "{.status.cells} {.status.conditions[?(@.type==\"Ready\")].reason}");
    cluster.until("status follows a session that stays busy", async || cells() == "7 Running").await;
    let since = std::time::Instant::now();
    pod.report(&name, &uid, |report| report.state = State::Hibernated);
    let waited = ["wait", "--for=condition=Hibernated", "kernelsession", &name, "-n", "team", "--timeout=60s"];
    cluster.server.kubectl(&waited).unwrap();
    assert!(since.elapsed() < Duration::from_secs(30), "{:?}", since.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_has_a_session_which_is_anothers_by_now_is_told_to_put_it_to_sleep() {
    let cluster = Cluster::start(&[FLAGS[0], "--status-interval-ms=500"]).await;
    let (one, two) = (cluster.pod(1, 10).await, cluster.pod(2, 10).await);
    let uid = cluster.session("a", "");
    cluster.place("a", &one, 1);
    one.report("a", &uid, |report| report.cells = 3);
    let status = || cluster.get(&["kernelsession", "a"], "{.status.placement.pod} {.status.cells}");
    cluster.until("its process is seen", async || status() == "k1 3").await;
    assert!(one.put_to_sleep.lock().unwrap().is_empty());
    cluster.place("a", &two, 2);
    two.report("a", &uid, |report| (report.epoch, report.cells) = (2, 5));
    cluster.until("the one is told", async || !one.put_to_sleep.lock().unwrap().is_empty()).await;
    cluster.until("status is the other's", async || status() == "k2 5").await;
    let its_own = (uid, 1, "boot-k1".to_owned());
    assert!(one.put_to_sleep.lock().unwrap().iter().all(|told| *told == its_own), "under its own epoch");
    assert!(two.put_to_sleep.lock().unwrap().is_empty(), "whose it is keeps it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_has_a_pod_for_everybody_who_wants_a_slot() {
    let cluster = Cluster::start(&FLAGS).await;
    apply(&cluster.server, &pool("slotsPerPod: 1, maxPods: 50"));
    let pod = cluster.pod(1, 1).await;
    let replicas = || cluster.get(&["deployment", "dormouse-kernel-default"], "{.spec.replicas}");
    let sessions: Vec<(String, String)> =
        (0..12).map(|number| format!("s{number}")).map(|name| (name.clone(), cluster.session(&name, ""))).collect();
    cluster.until("a pod for each session that has to start", async || replicas() == "12").await;
    // All are placed on the one pod, which has room for one.
    for (name, _) in &sessions {
        cluster.place(name, &pod, 1);
    }
    let (name, uid) = &sessions[0];
    pod.report(name, uid, |_| ());
    cluster.until("the live one is seen", async || cluster.get(&["kernelsession", name], "{.status.cells}") == "0").await;
    assert_eq!(replicas(), "12", "those that were refused still wait");
    for (name, uid) in &sessions[1..] {
        pod.report(name, uid, |report| report.state = State::Hibernated);
    }
    cluster.until("who sleeps needs no pod", async || replicas() == "1").await;
    let told = async || {
        sessions[1..4].iter().for_each(|(_, uid)| pod.waits(uid));
        replicas() == "4"
    };
    cluster.until("one more for each that wants to wake and finds no slot", told).await;
    cluster.until("until nobody tells of them any more", async || replicas() == "1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_whose_pods_have_no_memory_grows_for_who_waits_up_to_its_maximum() {
    let cluster = Cluster::start(&[FLAGS[0], "--status-interval-ms=500"]).await;
    apply(&cluster.server, &pool("slotsPerPod: 10, maxPods: 3"));
    let replicas = || cluster.get(&["deployment", "dormouse-kernel-default"], "{.spec.replicas}");
    let one = cluster.pod(1, 10).await;
    let sessions = asleep(&cluster, &one, 2).await;
    // They are told of as long as they wait.
    let wait = |pod: &FakePod, pods: &str| {
        sessions.iter().for_each(|(_, uid)| pod.waits(uid));
        replicas() == pods
    };
    cluster.until("one pod has slots for who waits", async || wait(&one, "1")).await;
    one.says_exhausted(true);
    cluster.until("slots without memory are none", async || wait(&one, "2")).await;
    let two = cluster.pod(2, 10).await;
    two.says_exhausted(true);
    cluster.until("nor are those of another", async || wait(&two, "3")).await;
    let three = cluster.pod(3, 10).await;
    three.says_exhausted(true);
    let (name, uid) = &sessions[0];
    one.report(name, uid, |report| report.state = State::Idle);
    cluster.until("its live session is seen", async || cluster.get(&["kernelpool", "default"], "{.status.sessions}") == "1").await;
    assert_eq!(replicas(), "3", "never more than maxPods");
    for pod in [&one, &two, &three] {
        pod.says_exhausted(false);
    }
    one.report(name, uid, |report| report.state = State::Hibernated);
    cluster.until("that it sleeps is seen", async || cluster.get(&["kernelpool", "default"], "{.status.sessions}") == "0").await;
    assert_eq!(replicas(), "3", "not at once: those that stay would soon be short of it again");
}

#[tokio::test(flavor = "multi_thread")]
async fn where_sessions_are_stored_stays_as_long_as_there_are_any() {
    let cluster = Cluster::start(&FLAGS).await;
    let (pool, deployment) = (["kernelpool", "default"], "dormouse-kernel-default");
    let patch =
        |kind: &str, name: &str, patch: &str| cluster.server.kubectl(&["patch", kind, name, "-n", "team", "--type=merge", "-p", patch]);
    let moved = r#"{"spec":{"storage":{"bucket":"other","endpoint":"http://127.0.0.1:9","credentialsSecretRef":{"name":"s3"}}}}"#;
    apply(&cluster.server, &crate::support::pool("warmPods: 1"));
    cluster.until("the pool has its pods", async || !cluster.get(&["deployment", deployment], "{.metadata.uid}").is_empty()).await;
    let ready = r#"{"status":{"replicas":1,"readyReplicas":1,"availableReplicas":1}}"#;
    cluster
        .server
        .kubectl(&["patch", "deployment", deployment, "-n", "team", "--subresource=status", "--type=merge", "-p", ready])
        .unwrap();
    let stored_in = || cluster.get(&pool, "{.status.storedIn.bucket}");
    cluster.until("the pool is ready", async || cluster.get(&pool, "{.status.conditions[0].reason}") == "PodsReady").await;
    assert_eq!(stored_in(), "", "nothing is stored yet");
    cluster.session("a", "");
    cluster.until("it is said where sessions are stored", async || stored_in() == "sessions").await;
    let refused = patch("kernelpool", "default", moved).unwrap_err().to_string();
    assert!(refused.contains("make another pool, or delete the pool's sessions first"), "{refused}");
    let same = moved.replace("\"other\"", "\"sessions\"");
    patch("kernelpool", "default", &same).expect("the same bucket behind another endpoint");
    let refused = patch("kernelsession", "a", r#"{"spec":{"pool":"other"}}"#).unwrap_err().to_string();
    assert!(refused.contains("leave pool as it is, or make another session in that pool"), "{refused}");
    patch("kernelsession", "a", r#"{"metadata":{"annotations":{"dormouse.dev/abandon-storage":"true"}}}"#).unwrap();
    cluster.server.kubectl(&["delete", "kernelsession", "a", "-n", "team", "--wait=true", "--timeout=120s"]).unwrap();
    cluster.until("nothing is stored there any more", async || stored_in().is_empty()).await;
    patch("kernelpool", "default", moved).expect("there is nothing that would not be found");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_deletes_or_changes_of_a_pool_is_put_back_at_once() {
    let cluster = Cluster::start(&FLAGS).await;
    let name = "dormouse-kernel-default";
    cluster.session("a", "");
    cluster.until("the pool is made", async || !cluster.get(&["deployment", name], "{.metadata.uid}").is_empty()).await;
    // From now on the pool is looked at every minute.
    let ready = r#"{"status":{"replicas":1,"readyReplicas":1,"availableReplicas":1}}"#;
    cluster.server.kubectl(&["patch", "deployment", name, "-n", "team", "--subresource=status", "--type=merge", "-p", ready]).unwrap();
    let is_ready = || cluster.get(&["kernelpool", "default"], "{.status.conditions[0].reason}");
    cluster.until("the pool is ready", async || is_ready() == "PodsReady").await;
    let since = std::time::Instant::now();
    for kind in ["networkpolicy", "poddisruptionbudget"] {
        let uid = cluster.get(&[kind, name], "{.metadata.uid}");
        cluster.server.kubectl(&["delete", kind, name, "-n", "team"]).unwrap();
        let another = async || {
            let now = cluster.get(&[kind, name], "{.metadata.uid}");
            !now.is_empty() && now != uid
        };
        cluster.until(kind, another).await;
    }
    let open = r#"{"spec":{"policyTypes":["Ingress"]}}"#;
    cluster.server.kubectl(&["patch", "networkpolicy", name, "-n", "team", "--type=merge", "-p", open]).unwrap();
    let shut = || cluster.get(&["networkpolicy", name], "{.spec.policyTypes}").contains("Egress");
    cluster.until("the policy is shut again", async || shut()).await;
    assert!(since.elapsed() < Duration::from_secs(40), "{:?}: by itself it is looked at every minute", since.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_finds_more_pods_than_a_queue_has_places_sizes_every_pool() {
    let mut cluster = Cluster::start(&FLAGS).await;
    let client = cluster.client.clone();
    let pods = async {
        let pods: Api<Pod> = Api::namespaced(client, "team");
        let pods = &pods;
        let made = (0..TRIGGERS_MAX + 100).map(async |number| {
            let labels = json!({"dormouse.dev/component": "kernel", "dormouse.dev/pool": format!("p{number}")});
            let pod = json!({"metadata": {"name": format!("k{number}"), "labels": labels},
                "spec": {"containers": [{"name": "kernel", "image": "k"}]}});
            pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        });
        futures::stream::iter(made).buffer_unordered(16).collect::<Vec<()>>().await;
    };
    cluster.restart(&FLAGS, pods).await;
    cluster.session("a", "");
    let made = async || !cluster.get(&["deployment", "dormouse-kernel-default"], "{.metadata.uid}").is_empty();
    cluster.until("the pool of a session has pods", made).await;
}
