//! Without access keys: the store gives a role for the token of a ServiceAccount, the operator's own in its store, that of a pool's namespace in a
//! store of the pool's.

use std::time::Duration;

use crate::support::{Cluster, OPERATOR, SYSTEM, apply, pool, stores};
use bytes::Bytes;
use dormouse_erasure::clusters::TenantPrefix;
use dormouse_operator::account::ACCOUNT;
use dormouse_store::{Condition, S3, SnapshotStore as _, StoreError};
use serde_json::json;

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

/// The pool `default`, in a bucket of its own with the role of its namespace's ServiceAccount.
fn pool_with_a_role(cluster: &Cluster) {
    let (endpoint, role, audience) = (cluster.minio.endpoint(), cluster.minio.role_arn(), cluster.minio.audience());
    let identity = format!("webIdentity: {{roleArn: \"{role}\", audience: {audience}, stsEndpoint: \"{endpoint}\"}}");
    apply(
        &cluster.server,
        &pool(&format!("warmPods: 0, storage: {{bucket: theirs, prefix: p/, endpoint: \"{endpoint}\", region: us-east-1, {identity}}}")),
    );
}

/// What the API server says against an object.
fn try_apply(cluster: &Cluster, yaml: &str) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), yaml).unwrap();
    cluster.server.kubectl(&["apply", "-f", file.path().to_str().unwrap()]).unwrap_err().to_string()
}

fn serviceaccount(cluster: &Cluster) {
    cluster.server.kubectl(&["create", "serviceaccount", ACCOUNT, "-n", "team"]).unwrap();
}

/// What is kept for deletions.
fn kept(cluster: &Cluster) -> Vec<String> {
    let names = cluster.server.kubectl(&["get", "secrets", "-n", SYSTEM, "-o", "jsonpath={.items[*].metadata.name}"]).unwrap();
    names.split(' ').filter(|name| name.starts_with("dormouse-kept-")).map(str::to_owned).collect()
}

async fn denied(store: &S3, key: &str) {
    let read = store.get(key).await;
    assert!(matches!(read, Err(StoreError::Denied { .. })), "{key} is read: {read:?}");
    let written = store.put(key, Bytes::from_static(b"z"), Condition::None).await;
    assert!(written.is_err(), "{key} is written");
}

/// Keys of sessions below the prefix of the pool, with something in each.
async fn stored(cluster: &Cluster, theirs: &S3, name: &str) -> Vec<String> {
    cluster.session(name, "");
    let finalizers = || cluster.get(&["kernelsession", name], "{.metadata.finalizers}");
    cluster.until("the operator knows it", async || finalizers().contains("dormouse.dev/storage")).await;
    let mut keys = Vec::new();
    for key in stores(&cluster.server, theirs, "team", name, "default").await {
        theirs.delete(&key).await.unwrap();
        keys.push(format!("p/{key}"));
    }
    for key in &keys {
        theirs.put(key, Bytes::from_static(b"x"), Condition::None).await.unwrap();
    }
    keys
}

async fn are_gone(theirs: &S3, keys: &[String]) {
    for key in keys {
        assert_eq!(theirs.get(key).await.unwrap(), None, "{key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_a_pools_own_takes_the_serviceaccount_of_its_namespace_for_pods_brokers_and_deletions() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::start_by_token(&folder.path().join("token"), None, &FLAGS).await;
    let theirs = cluster.minio.create_bucket("theirs").await.unwrap();
    for (wrong, sentence) in [
        ("credentialsSecretRef: {name: s3}, webIdentity: {audience: a}", "write credentialsSecretRef or webIdentity, and not both"),
        ("webIdentity: {audience: ''}", "audience: write whom the token is meant for"),
        ("webIdentity: {audience: a, roleArn: theirs}", "roleArn: write the ARN of the role"),
        ("webIdentity: {audience: a, stsEndpoint: 'https://user:password@sts'}", "stsEndpoint: write the URL of the STS service"),
    ] {
        let refused = try_apply(&cluster, &pool(&format!("storage: {{bucket: theirs, endpoint: 'https://s3', {wrong}}}")));
        assert!(refused.contains(sentence), "{wrong}: {refused}");
    }
    pool_with_a_role(&cluster);
    let ready = |field: &str| cluster.get(&["kernelpool", "default"], &format!("{{.status.conditions[?(@.type==\"Ready\")].{field}}}"));
    cluster.until("the pool says what to make", async || ready("message").contains("ServiceAccount dormouse-storage does not exist")).await;
    assert_eq!(ready("reason"), "StorageCredentialsInvalid");
    assert_eq!(
        cluster.get(&["secret", SECRET], "{.metadata.name}"),
        "",
        "the operator, which may do anything at this MinIO, mints nothing"
    );

    serviceaccount(&cluster);
    let pods = cluster.bucket_by(SECRET, "theirs").await;
    assert!(!cluster.get(&["secret", SECRET], "{.metadata.annotations.dormouse\\.dev/renew-at}").is_empty(), "it is renewed in time");
    let writes = cluster.server.writes().unwrap();
    let asked = writes.iter().any(|write| write.user == OPERATOR && write.resource == "serviceaccounts/token");
    assert!(asked, "for a token of the ServiceAccount: {writes:?}");
    let keys = stored(&cluster, &theirs, "a").await;
    for own in &keys[..2] {
        pods.put(own, Bytes::from_static(b"y"), Condition::None).await.unwrap();
        assert_eq!(pods.get(own).await.unwrap().unwrap().bytes, Bytes::from_static(b"y"));
    }
    for others in ["p/t/other/s/default/u/head", "p/t/team/s/other/u/head", "t/team/s/default/u/head", keys[2].as_str()] {
        denied(&pods, others).await;
    }
    denied(&cluster.store_by(SECRET).await, "t/team/s/default/u/head").await;

    apply(
        &cluster.server,
        "apiVersion: dormouse.dev/v1alpha1\nkind: ToolBroker\nmetadata: {name: tools, namespace: team}\nspec: {services: [], tools: []}\n",
    );
    let broker = cluster.bucket_by("tools-broker-storage", "theirs").await;
    broker.put("p/t/team/b/probe", Bytes::from_static(b"y"), Condition::None).await.unwrap();
    denied(&broker, &keys[0]).await;

    cluster.until("what deletions need is kept", async || kept(&cluster).len() == 1).await;
    let before = kept(&cluster);
    let sts = json!({ "spec": { "storage": { "webIdentity": { "stsEndpoint": format!("{}/", cluster.minio.endpoint()) } } } }).to_string();
    cluster.server.kubectl(&["patch", "kernelpool", "default", "-n", "team", "--type=merge", "-p", &sts]).unwrap();
    let replaced = async || kept(&cluster).len() == 1 && kept(&cluster) != before;
    cluster.until("what was kept of a role that no pool names any more goes", replaced).await;
    cluster.server.kubectl(&["delete", "kernelsession", "a", "-n", "team", "--timeout=60s"]).unwrap();
    are_gone(&theirs, &keys).await;
    cluster.server.kubectl(&["delete", "kernelpool", "default", "-n", "team", "--timeout=60s"]).unwrap();
    assert_eq!(kept(&cluster), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_goes_without_its_serviceaccount_is_cleaned_with_what_was_kept_and_says_what_it_needs_after_that() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    let mut cluster = Cluster::start_by_token(&token, None, &FLAGS).await;
    let theirs = cluster.minio.create_bucket("theirs").await.unwrap();
    serviceaccount(&cluster);
    pool_with_a_role(&cluster);
    let (a, b) = (stored(&cluster, &theirs, "a").await, stored(&cluster, &theirs, "b").await);
    let place = TenantPrefix { store_prefix: "p/".to_owned(), tenant: "team".to_owned() };
    let cluster_name = cluster.server.kubectl(&["get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}"]).unwrap();
    place.join(&theirs, &cluster_name).await.unwrap();
    cluster.until("what deletions need is kept", async || kept(&cluster).len() == 1).await;

    // Another operator, which has nothing in its memory.
    let flags = [
        FLAGS[0],
        &format!("--s3-web-identity-token-file={}", token.display()),
        &format!("--storage-role-arn={}", cluster.minio.role_arn()),
    ];
    cluster.server.kubectl(&["delete", "serviceaccount", ACCOUNT, "-n", "team"]).unwrap();
    cluster.server.kubectl(&["delete", "namespace", "team", "--wait=false"]).unwrap();
    cluster.restart(&flags, async {}).await;
    cluster.server.kubectl(&["delete", "kernelsession", "a", "-n", "team", "--timeout=60s"]).unwrap();
    are_gone(&theirs, &a).await;

    let kept_name = kept(&cluster).pop().unwrap();
    let patch = |data: serde_json::Value| {
        let patch = json!({ "stringData": data }).to_string();
        cluster.server.kubectl(&["patch", "secret", &kept_name, "-n", SYSTEM, "--type=merge", "-p", &patch]).unwrap();
    };
    patch(json!({ "expiration": "2000-01-01T00:00:00Z" }));
    cluster.server.kubectl(&["delete", "kernelsession", "b", "-n", "team", "--wait=false"]).unwrap();
    let message = || cluster.get(&["kernelsession", "b"], "{.status.conditions[?(@.type==\"Ready\")].message}");
    let wanted = format!("into the Secret {kept_name} of the namespace {SYSTEM}");
    cluster.until("it says what it needs", async || message().contains(&wanted)).await;
    let keys = cluster.minio.credentials();
    let gone = json!({ "data": { "expiration": null, "sessionToken": null } }).to_string();
    cluster.server.kubectl(&["patch", "secret", &kept_name, "-n", SYSTEM, "--type=merge", "-p", &gone]).unwrap();
    patch(json!({ "accessKeyId": keys.access_key_id, "secretAccessKey": keys.secret_access_key }));
    cluster.until("it goes", async || cluster.get(&["kernelsession", "b"], "{.metadata.uid}").is_empty()).await;
    are_gone(&theirs, &b).await;
    cluster.server.kubectl(&["delete", "kernelpool", "default", "-n", "team", "--timeout=60s"]).unwrap();
    assert_eq!(theirs.list("p/").await.unwrap(), [""; 0], "{}", cluster.operator.output());
    assert_eq!(kept(&cluster), [""; 0]);
}
