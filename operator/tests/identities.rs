//! What each pool of a namespace has for itself: its certificate and its storage credentials; and what a ToolBroker has.

use std::{collections::BTreeSet, time::SystemTime};

use crate::support::{Cluster, PATIENCE, apply, is_denied, pool};
use bytes::Bytes;
use dormouse_crds::{labels::SESSIONS_FINALIZER, pool::KernelPool};
use dormouse_lifecycle::SessionKey;
use dormouse_service::{
    ca::CertPem,
    tls::{PeerIdentity, TlsFiles},
};
use dormouse_store::{Condition, PutError, SnapshotStore as _, StoreError};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, ResourceExt as _,
    api::{WatchEvent, WatchParams},
};
use serde_json::json;

const FLAGS: [&str; 1] = ["--orphan-sweep-interval-seconds=0"];
const OTHER: &str =
    "apiVersion: dormouse.dev/v1alpha1\nkind: KernelPool\nmetadata: {name: other, namespace: team}\nspec: {slotsPerPod: 1}\n";
const BROKER: &str =
    "apiVersion: dormouse.dev/v1alpha1\nkind: ToolBroker\nmetadata: {name: tools, namespace: team}\nspec: {services: [], tools: []}\n";

async fn secret(cluster: &Cluster, name: &str) -> Option<Secret> {
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), "team");
    secrets.get_opt(name).await.unwrap()
}

async fn text(cluster: &Cluster, name: &str, key: &str) -> String {
    let data = secret(cluster, name).await.unwrap().data.unwrap();
    String::from_utf8(data[key].0.clone()).unwrap()
}

async fn identity(cluster: &Cluster, pool: &str) -> PeerIdentity {
    let name = format!("dormouse-kernel-{pool}-tls");
    let (ca, cert, key) =
        (text(cluster, &name, "ca.crt").await, text(cluster, &name, "tls.crt").await, text(cluster, &name, "tls.key").await);
    TlsFiles::from_pem(&CertPem { ca, cert, key, not_after: SystemTime::now() }).unwrap().identity()
}

fn key(pool: &str) -> SessionKey {
    let uid = "0b9f2c1e-6a57-4d3e-8f10-2c7a5b1d9e01".to_owned();
    SessionKey { store_prefix: String::new(), tenant: "team".to_owned(), pool: pool.to_owned(), uid, name: String::new() }
}

fn pools_of_broker(cluster: &Cluster) -> Vec<String> {
    let list = cluster.get(&["configmap", "tools-broker"], "{.data.pools}");
    list.lines().skip(1).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn pools_of_one_namespace_share_neither_certificate_nor_credentials() {
    let cluster = Cluster::start(&FLAGS).await;
    apply(&cluster.server, &format!("{}---\n{OTHER}---\n{BROKER}", pool("warmPods: 1")));
    let secrets = ["dormouse-storage-default", "dormouse-storage-other", "tools-broker-storage", "dormouse-kernel-other-tls"];
    let all = async || {
        for name in secrets {
            if secret(&cluster, name).await.is_none() {
                return false;
            }
        }
        true
    };
    cluster.until("all have what they need", all).await;

    for pool in ["default", "other"] {
        let identity = identity(&cluster, pool).await;
        assert_eq!((identity.namespace.as_str(), identity.pool.as_deref(), identity.name.as_deref()), ("team", Some(pool), None));
        let made_for = identity.incarnation.unwrap();
        assert_eq!(made_for.uid, cluster.get(&["kernelpool", pool], "{.metadata.uid}"));
        assert!(made_for.issued_seconds > 1_700_000_000);
    }

    let (default, other, broker) = (key("default"), key("other"), key("default").calls());
    for (secret, may, may_not) in [
        ("dormouse-storage-default", default.head(), [other.head(), broker.clone()]),
        ("dormouse-storage-other", other.head(), [default.head(), broker.clone()]),
        ("tools-broker-storage", broker.clone(), [default.head(), other.head()]),
    ] {
        let store = cluster.store_by(secret).await;
        store.put(&may, Bytes::from_static(b"mine"), Condition::Absent).await.unwrap();
        for key in may_not {
            let put = store.put(&key, Bytes::from_static(b"theirs"), Condition::None).await;
            assert!(is_denied(&put), "{secret} writes {key}: {put:?}");
            let get = store.get(&key).await;
            assert!(matches!(get, Err(StoreError::Denied { .. })), "{secret} reads {key}: {get:?}");
        }
        let list = store.list("t/team/").await;
        assert!(matches!(list, Err(StoreError::Denied { .. })), "{secret} lists all: {list:?}");
    }
    // The name of the cluster stands there before any pod could write it, with the namespace found empty.
    let clusters = cluster.bucket.get("t/team/clusters").await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&clusters.bytes).contains("\"accounted\":true"), "{clusters:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_is_told_which_pools_there_are_and_of_a_deleted_one_that_it_is_gone() {
    let cluster = Cluster::start(&FLAGS).await;
    apply(&cluster.server, &format!("{}---\n{BROKER}", pool("warmPods: 1")));
    let uid = |name: &str| cluster.get(&["kernelpool", name], "{.metadata.uid}");
    let default = uid("default");
    cluster.until("the broker knows the first", async || pools_of_broker(&cluster) == [default.clone()]).await;
    apply(&cluster.server, OTHER);
    let other = uid("other");
    let mut both = vec![default.clone(), other.clone()];
    both.sort();
    cluster.until("the broker knows both", async || pools_of_broker(&cluster) == both).await;
    let hash = || cluster.get(&["deployment", "tools-broker"], "{.spec.template.metadata.annotations.dormouse\\.dev/config-hash}");
    let before = hash();
    // Without a garbage collector its Secret has to go by hand.
    cluster.server.kubectl(&["delete", "kernelpool", "other", "-n", "team"]).unwrap();
    cluster.server.kubectl(&["delete", "secret", "dormouse-kernel-other-tls", "-n", "team"]).unwrap();
    cluster.until("the broker knows that it is gone", async || pools_of_broker(&cluster) == [default.clone()]).await;
    assert_eq!(hash(), before, "no pod of it starts anew for that");
    assert!(!other.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pods_of_a_pool_that_cannot_be_built_any_more_keep_their_certificate_and_their_credentials() {
    let mut cluster = Cluster::start(&FLAGS).await;
    apply(&cluster.server, &pool("warmPods: 1"));
    cluster.session("a", "");
    let names = ["dormouse-storage-default", "dormouse-kernel-default-tls"];
    let there = async |cluster: &Cluster| secret(cluster, names[0]).await.is_some() && secret(cluster, names[1]).await.is_some();
    cluster.until("it has both", async || there(&cluster).await).await;
    let pods = json!({ "status": { "replicas": 1, "readyReplicas": 1, "availableReplicas": 1 } }).to_string();
    let deployment = || cluster.get(&["deployment", "dormouse-kernel-default"], "{.metadata.uid}");
    cluster.until("it has pods", async || !deployment().is_empty()).await;
    let patch = ["patch", "deployment", "dormouse-kernel-default", "-n", "team", "--subresource=status", "--type=merge", "-p", &pods];
    cluster.server.kubectl(&patch).unwrap();
    let stored_in = |cluster: &Cluster| cluster.get(&["kernelpool", "default"], "{.status.storedIn.bucket}");
    cluster.until("it is said where sessions are stored", async || stored_in(&cluster) == "sessions").await;

    // An upgrade gives the operator another place, so the pool's spec means one where its sessions are not.
    cluster.restart(&[FLAGS[0], "--s3-prefix=new/"], async {}).await;
    let reason = |cluster: &Cluster| cluster.get(&["kernelpool", "default"], "{.status.conditions[?(@.type==\"Ready\")].reason}");
    cluster.until("the pool says it", async || reason(&cluster) == "InvalidSpec").await;
    for name in names {
        cluster.server.kubectl(&["delete", "secret", name, "-n", "team"]).unwrap();
    }
    cluster.until("it has both again", async || there(&cluster).await).await;
    let store = cluster.store_by(names[0]).await;
    let head = key("default").head();
    store.put(&head, Bytes::from_static(b"mine"), Condition::Absent).await.unwrap();
    let elsewhere = store.put(&format!("new/{head}"), Bytes::from_static(b"x"), Condition::None).await;
    assert!(matches!(elsewhere, Err(PutError::Failed(StoreError::Denied { .. }))), "for where its sessions are: {elsewhere:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_has_only_a_brokers_journal_says_where_that_is_and_stays_as_long_as_it_is_needed() {
    let cluster = Cluster::start(&FLAGS).await;
    apply(&cluster.server, &format!("{}---\n{OTHER}", pool("warmPods: 1")));
    apply(&cluster.server, &BROKER.replace("tools: []", "tools: [], journal: {pool: other}"));
    let stored_in = || cluster.get(&["kernelpool", "other"], "{.status.storedIn.bucket}");
    cluster.session("a", "toolBrokerRef: {name: tools}");
    cluster.until("it is said where the journal is", async || stored_in() == "sessions").await;
    let storage = json!({ "spec": { "storage": { "bucket": "elsewhere", "endpoint": cluster.minio.endpoint() } } }).to_string();
    let moved = cluster.server.kubectl(&["patch", "kernelpool", "other", "-n", "team", "--type=merge", "-p", &storage]);
    assert!(moved.is_err(), "the calls would be forgotten");
    cluster.server.kubectl(&["delete", "kernelpool", "other", "-n", "team", "--wait=false"]).unwrap();
    let reason = || cluster.get(&["kernelpool", "other"], "{.status.conditions[?(@.type==\"Ready\")].reason}");
    cluster.until("it stays", async || reason() == "SessionsRemain").await;
}

/// Whoever hears where sessions are stored may rely on that place staying: a pool that is deleted right then would take the way to them along.
#[tokio::test(flavor = "multi_thread")]
async fn no_pool_says_where_sessions_are_stored_before_it_stays() {
    const POOLS: usize = 8;
    let cluster = Cluster::start(&FLAGS).await;
    let pools: Api<KernelPool> = Api::namespaced(cluster.client.clone(), "team");
    let mut versions = pools.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    let of = |number: usize, text: &str| text.replace("other", &format!("other{number}")).replace("tools,", &format!("tools{number},"));
    let broker = BROKER.replace("tools: []", "tools: [], journal: {pool: other}");
    let all = (0..POOLS).map(|number| of(number, &format!("{OTHER}---\n{broker}")));
    apply(&cluster.server, &all.collect::<Vec<_>>().join("---\n"));
    cluster.session("a", "");
    let mut told = BTreeSet::new();
    while told.len() < POOLS {
        let event = tokio::time::timeout(PATIENCE, versions.next()).await.expect("every pool says it").unwrap().unwrap();
        let WatchEvent::Modified(pool) = event else { continue };
        if pool.status.as_ref().is_some_and(|status| status.stored_in.is_some()) {
            let name = pool.name_any();
            assert!(pool.finalizers().iter().any(|it| it == SESSIONS_FINALIZER), "{name} could still go");
            told.insert(name);
        }
    }
}
