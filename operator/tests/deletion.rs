//! Sessions, pools and their credentials go in any order, with the store up, down or gone: nothing is left behind, and what stays says why.

use std::sync::atomic::Ordering;

use crate::support::{Cluster, SYSTEM, apply, metrics::looks_at_pools, says_that_it_is_stored, stores};
use dormouse_erasure::clusters::TenantPrefix;
use dormouse_operator::controller::CONCURRENCY_OF_NAMESPACE;
use dormouse_store::{S3, SnapshotStore as _};

/// A pool of the namespace `team` with a bucket and credentials of its own.
fn pool(cluster: &Cluster, name: &str, endpoint: &str) {
    pool_with(cluster, name, endpoint, &format!("s3-{name}"));
}

/// The same whose credentials are in this Secret.
fn pool_with(cluster: &Cluster, name: &str, endpoint: &str, secret: &str) {
    let credentials = cluster.minio.credentials();
    let (id, key) = (credentials.access_key_id, credentials.secret_access_key);
    apply(
        &cluster.server,
        &format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: {secret}, namespace: team}}\n\
             stringData: {{accessKeyId: {id}, secretAccessKey: {key}}}\n---\n\
             apiVersion: dormouse.dev/v1alpha1\nkind: KernelPool\nmetadata: {{name: {name}, namespace: team}}\n\
             spec: {{storage: {{bucket: theirs, endpoint: \"{endpoint}\", credentialsSecretRef: {{name: {secret}}}}}}}\n"
        ),
    );
}

/// A session that has stored something, as its status says.
async fn stored(cluster: &Cluster, bucket: Option<&S3>, name: &str, pool: &str) {
    cluster.session(name, &format!("pool: {pool}"));
    let finalizers = || cluster.get(&["kernelsession", name], "{.metadata.finalizers}");
    cluster.until("the operator knows it", async || finalizers().contains("dormouse.dev/storage")).await;
    match bucket {
        Some(bucket) => drop(stores(&cluster.server, bucket, "team", name, pool).await),
        None => says_that_it_is_stored(&cluster.server, "team", name),
    }
}

fn delete(cluster: &Cluster, kind: &str, name: &str) {
    cluster.server.kubectl(&["delete", kind, name, "-n", "team", "--wait=false"]).unwrap();
}

fn ready(cluster: &Cluster, kind: &str, name: &str) -> String {
    cluster.get(&[kind, name], "{.status.conditions[?(@.type==\"Ready\")].reason}")
}

fn kept(cluster: &Cluster) -> usize {
    let names = cluster.server.kubectl(&["get", "secrets", "-n", SYSTEM, "-o", "jsonpath={.items[*].metadata.name}"]).unwrap();
    names.split(' ').filter(|name| name.starts_with("dormouse-kept-")).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_goes_first_with_its_secret_and_its_store_down_leaves_nothing_in_the_end() {
    let mut cluster = Cluster::start(&["--orphan-sweep-interval-seconds=0"]).await;
    let theirs = cluster.minio.create_bucket("theirs").await.unwrap();
    pool(&cluster, "own", &cluster.minio.endpoint());
    stored(&cluster, Some(&theirs), "a", "own").await;
    stored(&cluster, Some(&theirs), "b", "own").await;
    // What their pods do before they write anything.
    let name = cluster.server.kubectl(&["get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}"]).unwrap();
    let place = TenantPrefix { store_prefix: String::new(), tenant: "team".to_owned() };
    place.join(&theirs, &name).await.unwrap();
    cluster.until("the credentials are kept", async || kept(&cluster) == 1).await;

    cluster.minio.kill();
    delete(&cluster, "kernelpool", "own");
    delete(&cluster, "secret", "s3-own");
    delete(&cluster, "kernelsession", "a");
    cluster.until("the session says why it stays", async || ready(&cluster, "kernelsession", "a") == "StorageUnavailable").await;
    cluster.until("the pool says why it stays", async || ready(&cluster, "kernelpool", "own") == "SessionsRemain").await;

    cluster.minio.restart().await.unwrap();
    let there = |kind: &str, name: &str| !cluster.get(&[kind, name], "{.metadata.uid}").is_empty();
    cluster.until("it goes once the store is back", async || !there("kernelsession", "a")).await;
    assert!(there("kernelpool", "own"), "the other session is stored there");
    delete(&cluster, "kernelsession", "b");
    cluster.until("the pool goes with its last session", async || !there("kernelpool", "own")).await;
    assert_eq!(theirs.list("t/").await.unwrap(), [""; 0], "{}", cluster.operator.output());
    assert_eq!(kept(&cluster), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_waits_for_its_sessions_reads_them_when_the_last_is_gone() {
    let (cluster, between) = Cluster::start_through(&["--orphan-sweep-interval-seconds=0"]).await;
    apply(&cluster.server, &crate::support::pool("warmPods: 1"));
    stored(&cluster, Some(&cluster.bucket), "a", "default").await;
    let finalizers = || cluster.get(&["kernelpool", "default"], "{.metadata.finalizers}");
    cluster.until("the pool stays", async || !finalizers().is_empty()).await;
    delete(&cluster, "kernelpool", "default");
    cluster.until("it waits for its session", async || ready(&cluster, "kernelpool", "default") == "SessionsRemain").await;
    let looks = looks_at_pools(&cluster.admin).await;
    cluster.until("it is looked at again", async || looks_at_pools(&cluster.admin).await >= looks + 2).await;
    // Watches list those of all namespaces.
    let lists = || between.reads("/namespaces/team/kernelsessions?").len();
    assert_eq!(lists(), 0);
    delete(&cluster, "kernelsession", "a");
    cluster
        .until("the pool goes with its last session", async || cluster.get(&["kernelpool", "default"], "{.metadata.uid}").is_empty())
        .await;
    assert!(lists() > 0, "the watch may have missed one");
}

#[tokio::test(flavor = "multi_thread")]
async fn pools_that_share_credentials_and_go_at_once_leave_none_behind() {
    const POOLS: usize = 6;
    let cluster = Cluster::start(&["--orphan-sweep-interval-seconds=0"]).await;
    let theirs = cluster.minio.create_bucket("theirs").await.unwrap();
    let names: Vec<String> = (0..POOLS).map(|number| format!("p{number}")).collect();
    for name in &names {
        pool_with(&cluster, name, &cluster.minio.endpoint(), "shared");
        stored(&cluster, Some(&theirs), name, name).await;
    }
    cluster.until("the credentials are kept", async || kept(&cluster) == 1).await;
    for name in &names {
        delete(&cluster, "kernelpool", name);
    }
    for name in &names {
        cluster.until("it waits for its session", async || ready(&cluster, "kernelpool", name) == "SessionsRemain").await;
    }
    cluster.server.kubectl(&["delete", "kernelsessions", "--all", "-n", "team", "--wait=false"]).unwrap();
    let pools = || cluster.server.kubectl(&["get", "kernelpools", "-n", "team", "-o", "name"]).unwrap();
    cluster.until("all go", async || !names.iter().any(|name| pools().contains(&format!("/{name}")))).await;
    assert_eq!(kept(&cluster), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_store_is_gone_for_good_goes_when_somebody_says_so() {
    let cluster = Cluster::start(&["--orphan-sweep-interval-seconds=0"]).await;
    pool(&cluster, "gone", "http://127.0.0.1:1");
    stored(&cluster, None, "a", "gone").await;
    delete(&cluster, "kernelsession", "a");
    cluster.until("it says why it stays", async || ready(&cluster, "kernelsession", "a") == "StorageUnavailable").await;
    let message = cluster.get(&["kernelsession", "a"], "{.status.conditions[?(@.type==\"Ready\")].message}");
    assert!(message.contains("dormouse.dev/abandon-storage=true"), "{message}");
    cluster.server.kubectl(&["annotate", "kernelsession", "a", "-n", "team", "dormouse.dev/abandon-storage=true"]).unwrap();
    delete(&cluster, "kernelpool", "gone");
    let left = || cluster.get(&["kernelsession", "a"], "{.metadata.uid}") + &cluster.get(&["kernelpool", "gone"], "{.metadata.uid}");
    cluster.until("both go", async || left().is_empty()).await;
}

/// What a namespace's pods do not answer holds up that namespace: of the operator's work it has its part, and no more.
#[tokio::test(flavor = "multi_thread")]
async fn pods_that_do_not_answer_hold_up_no_other_namespaces_deletions() {
    let cluster = Cluster::start(&["--orphan-sweep-interval-seconds=0"]).await;
    apply(&cluster.server, &crate::support::pool("warmPods: 1"));
    let pod = cluster.pod(1, 64).await;
    pod.hangs.store(true, Ordering::Relaxed);
    let names: Vec<String> = (0..2 * CONCURRENCY_OF_NAMESPACE).map(|number| format!("s{number}")).collect();
    for name in &names {
        cluster.session(name, "");
    }
    cluster.server.kubectl(&["create", "namespace", "calm"]).unwrap();
    let calm = "apiVersion: dormouse.dev/v1alpha1\nkind: KernelSession\nmetadata: {name: calm, namespace: calm}\nspec: {}\n";
    apply(&cluster.server, calm);
    let list = |namespace: &str, path: &str| cluster.server.kubectl(&["get", "kernelsessions", "-n", namespace, "-o", path]).unwrap();
    let held = || list("team", "jsonpath={.items[*].metadata.finalizers}") + &list("calm", "jsonpath={.items[*].metadata.finalizers}");
    cluster.until("the operator knows them", async || held().matches("dormouse.dev/storage").count() == names.len() + 1).await;
    for name in &names {
        cluster.place(name, &pod, 1);
    }
    cluster.server.kubectl(&["delete", "kernelsessions", "--all", "-n", "team", "--wait=false"]).unwrap();
    cluster.until("the pod is asked", async || pod.asked.lock().unwrap().0 == CONCURRENCY_OF_NAMESPACE).await;
    cluster.server.kubectl(&["delete", "kernelsession", "calm", "-n", "calm", "--wait=false"]).unwrap();
    cluster.until("the other goes", async || list("calm", "name").is_empty()).await;
    assert_eq!(list("team", "name").lines().count(), names.len(), "none of them went meanwhile");
    assert_eq!(pod.asked.lock().unwrap().1, CONCURRENCY_OF_NAMESPACE, "at most");
    pod.hangs.store(false, Ordering::Relaxed);
    cluster.until("they go, too", async || list("team", "name").is_empty()).await;
}
