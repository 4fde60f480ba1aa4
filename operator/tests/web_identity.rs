//! An operator without an access key: the store gives it a role for its ServiceAccount's token.

use std::time::Duration;

use crate::support::{Cluster, SYSTEM, apply, pool};
use bytes::Bytes;
use dormouse_lifecycle::SessionKey;
use dormouse_store::{Condition, CredentialSource, Credentials, S3, S3Options, SnapshotStore as _, StoreError};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::json;

const FLAGS: [&str; 1] = ["--orphan-sweep-interval-seconds=0"];
const AUDIENCE: &str = "dormouse";
const SECRET: &str = "dormouse-storage-default";

/// The store with what the operator has minted for the pool.
async fn store_of_pool(cluster: &Cluster) -> S3 {
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), "team");
    cluster.until("credentials are minted", async || secrets.get_opt(SECRET).await.unwrap().is_some()).await;
    let data = secrets.get(SECRET).await.unwrap().data.unwrap();
    let text = |key: &str| String::from_utf8(data[key].0.clone()).unwrap();
    let credentials =
        Credentials { session_token: Some(text("sessionToken")), ..Credentials::new(text("accessKeyId"), text("secretAccessKey")) };
    S3::new(&S3Options { credentials: CredentialSource::Static(credentials), ..cluster.minio.options("sessions") })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_enough_to_mint_for_a_pool_and_to_delete_what_its_sessions_stored() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::start_by_token(&folder.path().join("token"), AUDIENCE, &FLAGS).await;
    apply(&cluster.server, &pool("warmPods: 0"));
    let store = store_of_pool(&cluster).await;
    let uid = cluster.session("a", "");
    let key = SessionKey { store_prefix: String::new(), tenant: "team".to_owned(), pool: "default".into(), uid, name: String::new() };
    let objects = [key.head(), key.segment(1, 1, "ab")];
    for object in &objects {
        store.put(object, Bytes::from_static(b"x"), Condition::Absent).await.unwrap();
    }
    let other = store.get("t/team/s/other/u/head").await;
    assert!(matches!(other, Err(StoreError::Denied { .. })), "the policy of the pool counts: {other:?}");

    let snapshot = json!({ "epoch": 1, "sequence": 1, "bytes": 1, "engineDigest": "e", "time": "2026-01-01T00:00:00Z" });
    let status = json!({ "status": { "snapshot": snapshot } }).to_string();
    let patch = ["patch", "kernelsession", "a", "-n", "team", "--subresource=status", "--type=merge", "-p", &status];
    cluster.server.kubectl(&patch).unwrap();
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
    let cluster = Cluster::start_by_token(&token, "somebody-else", &FLAGS).await;
    apply(&cluster.server, &pool("warmPods: 0"));
    let ready = |field: &str| cluster.get(&["kernelpool", "default"], &format!("{{.status.conditions[?(@.type==\"Ready\")].{field}}}"));
    // Before the first token was written there was none, which is a reason, too.
    cluster.until("the pool says why", async || ready("message").contains("refuses credentials")).await;
    assert_eq!(ready("reason"), "StorageCredentialsInvalid", "{}", ready("message"));

    cluster.write_token(&token, AUDIENCE);
    let store = store_of_pool(&cluster).await;
    tokio::time::timeout(Duration::from_secs(10), store.get("t/team/s/default/u/head")).await.unwrap().unwrap();
}
