//! An operator without an access key: the store gives it a role for its ServiceAccount's token.

use std::time::Duration;

use crate::support::{Cluster, SYSTEM, apply, pool, stores};
use bytes::Bytes;
use dormouse_store::{Condition, SnapshotStore as _, StoreError};

const FLAGS: [&str; 1] = ["--orphan-sweep-interval-seconds=0"];
const SECRET: &str = "dormouse-storage-default";

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_enough_to_mint_for_a_pool_and_to_delete_what_its_sessions_stored() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::start_by_token(&folder.path().join("token"), None, &FLAGS).await;
    apply(&cluster.server, &pool("warmPods: 0"));
    let store = cluster.store_by(SECRET).await;
    cluster.session("a", "");
    let objects = stores(&cluster.server, &cluster.bucket, "team", "a", "default").await;
    for own in &objects[..2] {
        store.put(own, Bytes::from_static(b"y"), Condition::None).await.unwrap();
        assert_eq!(store.get(own).await.unwrap().unwrap().bytes, Bytes::from_static(b"y"));
    }
    let other = store.get("t/team/s/other/u/head").await;
    assert!(matches!(other, Err(StoreError::Denied { .. })), "the policy of the pool counts: {other:?}");

    cluster.server.kubectl(&["delete", "kernelsession", "a", "-n", "team", "--timeout=60s"]).unwrap();
    for object in &objects {
        assert_eq!(cluster.bucket.get(object).await.unwrap(), None, "{object}");
    }
    assert_eq!(cluster.server.kubectl(&["get", "secrets", "-n", SYSTEM, "-o", "name"]).unwrap().matches("storage").count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_for_somebody_else_is_a_reason_and_the_next_one_is_taken_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    let cluster = Cluster::start_by_token(&token, Some("somebody-else"), &FLAGS).await;
    apply(&cluster.server, &pool("warmPods: 0"));
    let ready = |field: &str| cluster.get(&["kernelpool", "default"], &format!("{{.status.conditions[?(@.type==\"Ready\")].{field}}}"));
    cluster.until("the pool says why", async || ready("message").contains("refuses credentials")).await;
    assert_eq!(ready("reason"), "StorageCredentialsInvalid", "{}", ready("message"));

    cluster.write_token(&token, None);
    let store = cluster.store_by(SECRET).await;
    tokio::time::timeout(Duration::from_secs(10), store.get("t/team/s/default/u/head")).await.unwrap().unwrap();
}
