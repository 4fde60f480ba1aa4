//! What an upgrade of the operator may change under pools, and what they say then.

use crate::support::{Cluster, apply, pool, stores};
use dormouse_store::SnapshotStore as _;
use serde_json::json;

/// No sweep in between.
const FLAGS: [&str; 1] = ["--orphan-sweep-interval-seconds=0"];
/// The operator's own store is another one.
const MOVED: [&str; 2] = [FLAGS[0], "--s3-prefix=new/"];
const DEPLOYMENT: [&str; 2] = ["deployment", "dormouse-kernel-default"];

fn patch(cluster: &Cluster, args: &[&str], patch: &serde_json::Value) {
    let patch = patch.to_string();
    let args = [&["patch", "-n", "team", "--type=merge", "-p", &patch], args].concat();
    cluster.server.kubectl(&args).unwrap();
}

/// What is stored, but for the names of the clusters that store there.
async fn stored(cluster: &Cluster) -> Vec<String> {
    let mut keys = cluster.bucket.list("").await.unwrap();
    keys.retain(|key| !key.ends_with("/clusters"));
    keys
}

fn ready(cluster: &Cluster, kind: &str, name: &str, field: &str) -> String {
    cluster.get(&[kind, name], &format!("{{.status.conditions[?(@.type==\"Ready\")].{field}}}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_whose_store_an_upgrade_changed_says_so_and_neither_it_nor_its_sessions_change_until_it_is_named_again() {
    let mut cluster = Cluster::start(&FLAGS).await;
    apply(&cluster.server, &pool("warmPods: 1"));
    cluster.session("a", "");
    cluster.until("the pool has its pods", async || !cluster.get(&DEPLOYMENT, "{.metadata.uid}").is_empty()).await;
    let pods = json!({ "status": { "replicas": 1, "readyReplicas": 1, "availableReplicas": 1 } });
    patch(&cluster, &[DEPLOYMENT[0], DEPLOYMENT[1], "--subresource=status"], &pods);
    let stored_in = |cluster: &Cluster| cluster.get(&["kernelpool", "default"], "{.status.storedIn.bucket}:{.status.storedIn.prefix}");
    cluster.until("it is said where sessions are stored", async || stored_in(&cluster) == "sessions:").await;
    let objects = stores(&cluster.server, &cluster.bucket, "team", "a", "default").await;

    let generation = cluster.get(&DEPLOYMENT, "{.metadata.generation}");
    cluster.restart(&MOVED, async {}).await;
    cluster.until("the pool says it", async || ready(&cluster, "kernelpool", "default", "reason") == "InvalidSpec").await;
    let message = ready(&cluster, "kernelpool", "default", "message");
    assert_eq!(
        message,
        "Sessions of KernelPool default are stored in bucket `sessions` under the prefix ``. It now says bucket `sessions` under the prefix \
         `new/`, where they would not be found, so nothing of it is changed and none of its sessions is deleted. Name the former again: for \
         the operator (storage.bucket and storage.prefix of the chart), or in spec.storage of this pool, with a credentialsSecretRef or webIdentity. Another \
         pool may store at the new place."
    );
    assert_eq!((cluster.get(&DEPLOYMENT, "{.metadata.generation}"), stored_in(&cluster)), (generation, "sessions:".to_owned()));

    cluster.server.kubectl(&["delete", "kernelsession", "a", "-n", "team", "--wait=false"]).unwrap();
    let why = || ready(&cluster, "kernelsession", "a", "message");
    cluster.until("the session says why it stays", async || why().contains(&message)).await;
    assert_eq!(ready(&cluster, "kernelsession", "a", "reason"), "InvalidSpec");
    let mut there = stored(&cluster).await;
    there.sort();
    let mut all = objects.to_vec();
    all.sort();
    assert_eq!(there, all, "nothing is erased, and nothing is written where nothing was");

    // Another pool stores at the new place.
    let credentials = cluster.minio.credentials();
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s3", "namespace": "team" },
        "stringData": { "accessKeyId": credentials.access_key_id, "secretAccessKey": credentials.secret_access_key } });
    let other = "apiVersion: dormouse.dev/v1alpha1\nkind: KernelPool\nmetadata: {name: other, namespace: team}\nspec: {}\n";
    apply(&cluster.server, &format!("{other}---\n{secret}\n"));
    let prefix = "{.spec.template.spec.containers[0].env[?(@.name==\"DORMOUSE_S3_PREFIX\")].value}";
    let another = || cluster.get(&["deployment", "dormouse-kernel-other"], prefix);
    cluster.until("another pool has pods", async || another() == "new/").await;

    let storage =
        json!({ "bucket": "sessions", "endpoint": cluster.minio.endpoint(), "prefix": "", "credentialsSecretRef": { "name": "s3" } });
    patch(&cluster, &["kernelpool", "default"], &json!({ "spec": { "storage": storage } }));
    cluster.until("the pool is well", async || ready(&cluster, "kernelpool", "default", "reason") == "PodsReady").await;
    cluster.until("the session goes", async || cluster.get(&["kernelsession", "a"], "{.metadata.uid}").is_empty()).await;
    assert_eq!(stored(&cluster).await, [""; 0], "{}", cluster.operator.output());
}
