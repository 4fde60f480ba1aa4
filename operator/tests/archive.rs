//! Sessions leave etcd and come back as they were, wherever a process is cut off in between: the real operator, with the rights that its chart gives it,
//! on a real API server and a real MinIO.

use std::sync::Arc;

use crate::support::{Cluster, SYSTEM, apply};
use bytes::Bytes;
use dormouse_control::{
    archive::{Archived, ArchivedPage, FindCall, PageCall},
    session::Key,
};
use dormouse_erasure::clusters::TenantPrefix;
use dormouse_lifecycle::{Head, SessionKey, sweep};
use dormouse_operator::shelf::Shelf;
use dormouse_service::{
    ca::{Ca, LEAF_VALIDITY},
    tls::{Identity, PeerClient, Process as Peer, TlsFiles},
};
use dormouse_store::{Condition, SnapshotStore as _};
use dormouse_testkit::process::free_port;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::json;

/// A session that leaves as soon as it sleeps: whatever it was last used, that was long ago.
const LEAVES: &str = "archiveAfterSeconds: 1";

struct World {
    cluster: Cluster,
    shelf: Shelf,
    address: String,
    flags: [String; 2],
}

impl World {
    async fn start() -> Self {
        let address = format!("127.0.0.1:{}", free_port().unwrap());
        let flags = [format!("--archive-listen={address}"), "--orphan-sweep-interval-seconds=1".to_owned()];
        let cluster = Cluster::start(&[&flags[0], &flags[1]]).await;
        let name = cluster.server.kubectl(&["get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}"]).unwrap();
        // What pods do before they write anything: so the sweeps of this test may remove what is nobody's.
        TenantPrefix { store_prefix: String::new(), tenant: "team".to_owned() }.join(&cluster.bucket, &name).await.unwrap();
        let shelf = Shelf::new(Arc::new(cluster.bucket.clone()), "", &name, "team");
        Self { cluster, shelf, address, flags }
    }

    /// Another operator, once `between` is done while there is none.
    async fn restart(&mut self, between: impl Future<Output = ()>) {
        let flags = self.flags.clone();
        self.cluster.restart(&[&flags[0], &flags[1]], between).await;
    }

    /// A session that has run and sleeps, and of which `head` is stored. Answers its uid.
    async fn slept(&self, name: &str, spec: &str) -> String {
        let uid = self.cluster.session(name, spec);
        self.store(name, &uid).await;
        self.tell_stored(name);
        uid
    }

    async fn store(&self, name: &str, uid: &str) {
        let key = key(name, uid);
        let head = Head::decode(&sweep::tombstone_of(&key).unwrap()).unwrap();
        let head = Head { tombstone: false, epoch: 1, sequence: 1, ..head };
        self.cluster.bucket.put(&key.head(), head.encode().unwrap(), Condition::None).await.unwrap();
        self.cluster.bucket.put(&key.calls(), Bytes::from_static(b"calls"), Condition::None).await.unwrap();
    }

    fn tell_stored(&self, name: &str) {
        let snapshot = json!({ "epoch": 1, "sequence": 1, "bytes": 1, "engineDigest": "e", "time": "2026-01-01T00:00:00Z" });
        let patch = json!({ "status": { "snapshot": snapshot, "lastEpoch": 1, "cells": 7 } }).to_string();
        let args = ["patch", "kernelsession", name, "-n", "team", "--subresource=status", "--type=merge", "-p", &patch];
        self.cluster.server.kubectl(&args).unwrap();
    }

    fn there(&self, name: &str) -> bool {
        !self.cluster.get(&["kernelsession", name], "{.metadata.uid}").is_empty()
    }

    async fn until_archived(&self, name: &str, uid: &str) {
        let archived = async || !self.there(name) && self.shelf.find(name).await.unwrap().is_some_and(|it| it.uid == uid);
        self.cluster.until("it leaves etcd", archived).await;
    }

    async fn until_erased(&self, name: &str, uid: &str) {
        let prefix = key(name, uid);
        let left = async || {
            let bucket = &self.cluster.bucket;
            bucket.list(&prefix.prefix()).await.unwrap().len() + bucket.list(&prefix.of_brokers()).await.unwrap().len()
        };
        let gone = async || !self.there(name) && left().await == 0 && self.shelf.find(name).await.unwrap().is_none_or(|it| it.uid != uid);
        self.cluster.until("nothing is left of it", gone).await;
    }

    /// Its objects are as they were.
    async fn assert_stored(&self, name: &str, uid: &str) {
        let key = key(name, uid);
        for object in [key.head(), key.calls()] {
            let bytes = self.cluster.bucket.get(&object).await.unwrap().map(|object| object.bytes);
            assert!(bytes.is_some_and(|bytes| object.ends_with("calls") || !Head::decode(&bytes).unwrap().tombstone), "{object}");
        }
    }

    /// What a gateway does to bring a session back.
    fn bring_back(&self, archived: &Archived) {
        let labels = serde_json::to_string(&archived.labels).unwrap();
        let spec = serde_json::to_string(&archived.spec).unwrap();
        let name = &archived.key.name;
        let mut annotations = archived.annotations.clone();
        annotations.insert("dormouse.dev/archived-as".to_owned(), archived.uid.clone());
        let annotations = serde_json::to_string(&annotations).unwrap();
        apply(
            &self.cluster.server,
            &format!(
                "apiVersion: dormouse.dev/v1alpha1\nkind: KernelSession\nmetadata: {{name: {name}, namespace: team, labels: {labels}, \
                 annotations: {annotations}, finalizers: [dormouse.dev/storage]}}\nspec: {spec}\n"
            ),
        );
    }

    fn identity(&self, name: &str) -> String {
        self.cluster.get(&["kernelsession", name], "{.status.storedAs.uid}")
    }

    async fn until_adopted(&self, name: &str, uid: &str) {
        let adopted = async || self.identity(name) == uid && self.shelf.find(name).await.unwrap().is_none();
        self.cluster.until("it has its identity", adopted).await;
    }

    fn delete(&self, kind: &str, name: &str) {
        self.cluster.server.kubectl(&["delete", kind, name, "-n", "team", "--wait=false"]).unwrap();
    }

    /// What a process with this identity is answered.
    async fn ask(&self, who: Peer, path: &str, call: &impl serde::Serialize) -> reqwest::Response {
        let secrets: Api<Secret> = Api::namespaced(self.cluster.client.clone(), SYSTEM);
        let secret = secrets.get("dormouse-ca").await.unwrap().data.unwrap();
        let text = |key: &str| String::from_utf8(secret[key].0.clone()).unwrap();
        let ca = Ca::from_pem(&text("ca.crt"), &text("ca.key")).unwrap();
        let identity = match who {
            Peer::Kernel => Identity::kernel(SYSTEM, "default", "somebody"),
            _ => Identity::new(who, SYSTEM, "somebody"),
        };
        let pem = ca.issue(&[identity.dns_name()], LEAF_VALIDITY).unwrap();
        let client = PeerClient::new(TlsFiles::from_pem(&pem).unwrap()).unwrap();
        let operator = Identity::new(Peer::Operator, SYSTEM, "operator");
        client.request(reqwest::Method::POST, &operator, &self.address, path).json(call).send().await.unwrap()
    }
}

fn key(name: &str, uid: &str) -> SessionKey {
    SessionKey {
        store_prefix: String::new(),
        tenant: "team".to_owned(),
        pool: "default".into(),
        uid: uid.to_owned(),
        name: name.to_owned(),
    }
}

/// An entry as a cut-off operator leaves it.
fn entry(name: &str, uid: &str) -> Archived {
    let status = json!({ "snapshot": { "epoch": 1, "sequence": 1, "bytes": 1, "engineDigest": "e", "time": "2026-01-01T00:00:00Z" } });
    Archived {
        key: Key::new("team", name),
        uid: uid.to_owned(),
        labels: Default::default(),
        annotations: Default::default(),
        created_time: None,
        archived_time: "2026-01-01T00:00:00Z".to_owned(),
        spec: serde_json::from_value(json!({ "archiveAfterSeconds": 1 })).unwrap(),
        status: serde_json::from_value(status).unwrap(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_leaves_etcd_comes_back_as_it_was_and_goes_for_good() {
    let world = World::start().await;
    let uid = world.slept("a", "").await;
    let kubectl = |args: &[&str]| world.cluster.server.kubectl(args).unwrap();
    kubectl(&["label", "kernelsession", "a", "-n", "team", "app=x"]);
    kubectl(&["annotate", "kernelsession", "a", "-n", "team", "note=y"]);
    kubectl(&["patch", "kernelsession", "a", "-n", "team", "--type=merge", "-p", r#"{"spec":{"archiveAfterSeconds":1}}"#]);
    world.until_archived("a", &uid).await;
    // The sweeps run all the time.
    world.cluster.leases(2).await;
    world.assert_stored("a", &uid).await;

    let found = world.ask(Peer::Gateway, "/v1/archive/find", &FindCall { key: Key::new("team", "a") }).await;
    let found: Option<Archived> = found.json().await.unwrap();
    let found = found.unwrap();
    assert_eq!((found.uid.as_str(), found.status.cells, found.spec.archive_after_seconds), (uid.as_str(), Some(7), 1));
    assert!(found.created_time.is_some() && found.status.placement.is_none());
    assert_eq!((found.labels["app"].as_str(), found.annotations["note"].as_str()), ("x", "y"));
    let call = PageCall { namespace: "team".to_owned(), after: None, limit: 10 };
    let page: ArchivedPage = world.ask(Peer::Gateway, "/v1/archive/list", &call).await.json().await.unwrap();
    assert_eq!((page.sessions.as_slice(), page.next), ([found.clone()].as_slice(), None));
    for who in [Peer::Kernel, Peer::Broker] {
        assert_eq!(world.ask(who, "/v1/archive/list", &call).await.status(), 403, "a process in a tenant's namespace asks in vain");
    }

    // It is not to leave again at once.
    world.bring_back(&Archived { spec: Default::default(), ..found.clone() });
    world.until_adopted("a", &uid).await;
    assert_ne!(world.cluster.get(&["kernelsession", "a"], "{.metadata.uid}"), uid);
    let told = "{.metadata.labels.app} {.status.cells} {.status.snapshot.sequence} {.status.lastEpoch}";
    assert_eq!(world.cluster.get(&["kernelsession", "a"], told), "x 7 1 1");
    let ready = async || world.cluster.get(&["kernelsession", "a"], "{.status.conditions[?(@.type==\"Ready\")].reason}") == "Hibernated";
    world.cluster.until("it is known to sleep", ready).await;
    world.cluster.leases(2).await;
    world.assert_stored("a", &uid).await;

    // It has slept for long enough again, and is what it was.
    kubectl(&["patch", "kernelsession", "a", "-n", "team", "--type=merge", "-p", r#"{"spec":{"archiveAfterSeconds":1}}"#]);
    world.until_archived("a", &uid).await;
    let again = world.shelf.find("a").await.unwrap().unwrap();
    assert_eq!(
        (&again.created_time, &again.labels, &again.annotations["note"]),
        (&found.created_time, &found.labels, &found.annotations["note"])
    );
    assert!(!again.annotations.contains_key("dormouse.dev/archived-as"));
    world.bring_back(&Archived { spec: Default::default(), ..again });
    world.until_adopted("a", &uid).await;
    world.delete("kernelsession", "a");
    world.until_erased("a", &uid).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wherever_an_operator_is_cut_off_the_session_is_there_once() {
    let mut world = World::start().await;
    // Each in a state between two steps, while there is no operator.
    let uids = ["marked", "kept", "kept-deleted", "freed", "made", "made-deleted", "told", "told-deleted"];
    let mut of = std::collections::BTreeMap::new();
    for name in uids {
        of.insert(name, world.slept(name, "").await);
    }
    let finalizers = |name: &str| world.cluster.get(&["kernelsession", name], "{.metadata.finalizers}");
    for name in uids {
        world.cluster.until("it is known", async || finalizers(name).contains("dormouse.dev/storage")).await;
    }
    world.cluster.operator.kill();
    let kubectl = |args: &[&str]| world.cluster.server.kubectl(args).unwrap();
    let patch = |name: &str, patch: serde_json::Value| {
        drop(kubectl(&["patch", "kernelsession", name, "-n", "team", "--type=merge", "-p", &patch.to_string()]));
    };
    for name in uids {
        let session = key(name, &of[name]);
        for marker in session.archived() {
            world.cluster.bucket.put(&marker, Bytes::new(), Condition::Absent).await.unwrap();
        }
        if name != "marked" {
            world.shelf.put(&entry(name, &of[name])).await.unwrap();
        }
    }
    for name in ["marked", "kept", "freed"] {
        patch(name, json!({ "spec": { "archiveAfterSeconds": 1 } }));
    }
    world.delete("kernelsession", "kept-deleted");
    patch("freed", json!({ "metadata": { "finalizers": null } }));
    for name in ["made", "made-deleted", "told", "told-deleted"] {
        // It had left.
        patch(name, json!({ "metadata": { "finalizers": null } }));
        world.cluster.server.kubectl(&["delete", "kernelsession", name, "-n", "team"]).unwrap();
        world.bring_back(&Archived { spec: Default::default(), ..entry(name, &of[name]) });
        if name.starts_with("told") {
            let stored_as = json!({ "uid": of[name], "returnedTime": "2026-01-01T00:00:00Z" });
            let told = json!({ "status": { "storedAs": stored_as, "snapshot": entry(name, "").status.snapshot } }).to_string();
            kubectl(&["patch", "kernelsession", name, "-n", "team", "--subresource=status", "--type=merge", "-p", &told]);
        }
        if name.ends_with("deleted") {
            world.delete("kernelsession", name);
        }
    }
    world.restart(async {}).await;
    for name in ["marked", "kept", "freed"] {
        world.until_archived(name, &of[name]).await;
        world.assert_stored(name, &of[name]).await;
    }
    for name in ["kept-deleted", "made-deleted", "told-deleted"] {
        world.until_erased(name, &of[name]).await;
    }
    world.until_adopted("made", &of["made"]).await;
    // What the archive still has of it counts for nothing, and goes with it.
    world.assert_stored("told", &of["told"]).await;
    world.delete("kernelsession", "told");
    world.until_erased("told", &of["told"]).await;
    world.assert_stored("made", &of["made"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_gets_a_session_by_saying_that_it_was_his() {
    let world = World::start().await;
    let (live, gone) = (world.slept("live", "").await, world.slept("gone", LEAVES).await);
    world.until_archived("gone", &gone).await;
    for (name, of) in [("thief", &live), ("heir", &gone)] {
        world.bring_back(&Archived { spec: Default::default(), ..entry(name, of) });
        let refused = async || {
            let annotation = world.cluster.get(&["kernelsession", name], "{.metadata.annotations.dormouse\\.dev/archived-as}");
            annotation.is_empty() && world.identity(name).is_empty()
        };
        world.cluster.until("it is a new session", refused).await;
        world.delete("kernelsession", name);
        world.cluster.until("it goes", async || !world.there(name)).await;
        world.assert_stored(name, of).await;
    }
    assert_eq!(world.shelf.find("gone").await.unwrap().unwrap().uid, gone);
    // A status that is sent with a new object is nobody's word.
    let status = format!("status: {{storedAs: {{uid: {live}, returnedTime: \"2026-01-01T00:00:00Z\"}}}}");
    let object = "apiVersion: dormouse.dev/v1alpha1\nkind: KernelSession";
    apply(&world.cluster.server, &format!("{object}\nmetadata: {{name: sly, namespace: team}}\nspec: {{}}\n{status}\n"));
    assert_eq!(world.identity("sly"), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_session_hides_the_archived_one_of_its_name_and_leaves_it_alone() {
    let world = World::start().await;
    let old = world.slept("a", LEAVES).await;
    world.until_archived("a", &old).await;
    let new = world.slept("a", LEAVES).await;
    world.cluster.until("it stays", async || world.cluster.operator.output().contains("a session stays in etcd")).await;
    assert!(world.there("a") && world.shelf.find("a").await.unwrap().unwrap().uid == old);
    world.delete("kernelsession", "a");
    world.until_erased("a", &new).await;
    world.assert_stored("a", &old).await;
    let archived = world.shelf.find("a").await.unwrap().unwrap();
    world.bring_back(&Archived { spec: Default::default(), ..archived });
    world.until_adopted("a", &old).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_stays_for_archived_sessions_and_a_namespace_takes_them_with_it() {
    let world = World::start().await;
    let uid = world.slept("a", LEAVES).await;
    world.until_archived("a", &uid).await;
    world.delete("kernelpool", "default");
    let message = || world.cluster.get(&["kernelpool", "default"], "{.status.conditions[?(@.type==\"Ready\")].message}");
    world.cluster.until("the pool says why it stays", async || message().contains("archived sessions")).await;
    world.assert_stored("a", &uid).await;
    world.cluster.server.kubectl(&["delete", "namespace", "team", "--wait=false"]).unwrap();
    world.cluster.until("the pool goes", async || world.cluster.get(&["kernelpool", "default"], "{.metadata.uid}").is_empty()).await;
    assert_eq!(world.cluster.bucket.list("").await.unwrap(), [""; 0], "{}", world.cluster.operator.output());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_limited_held_or_stored_later_than_told_stays() {
    let world = World::start().await;
    let server = &world.cluster.server;
    apply(
        server,
        "apiVersion: dormouse.dev/v1alpha1\nkind: KernelQuota\nmetadata: {name: q, namespace: team}\nspec: {storedBytes: 1000}\n",
    );
    world.slept("limited", LEAVES).await;
    world
        .cluster
        .until("it sleeps", async || world.cluster.get(&["kernelsession", "limited"], "{.status.conditions}").contains("Asleep"))
        .await;
    world.cluster.leases(2).await;
    assert!(world.there("limited"), "what is archived is not counted");
    world.delete("kernelquota", "q");

    let held = world.slept("held", "").await;
    let finalizers =
        json!({ "metadata": { "finalizers": ["example.com/held", "dormouse.dev/storage"] }, "spec": { "archiveAfterSeconds": 1 } });
    server.kubectl(&["patch", "kernelsession", "held", "-n", "team", "--type=merge", "-p", &finalizers.to_string()]).unwrap();
    let later = world.slept("later", "").await;
    let of = key("later", &later);
    let head = world.cluster.bucket.get(&of.head()).await.unwrap().unwrap();
    let head = Head { sequence: 2, ..Head::decode(&head.bytes).unwrap() };
    world.cluster.bucket.put(&of.head(), head.encode().unwrap(), Condition::None).await.unwrap();
    let leaves = json!({ "spec": { "archiveAfterSeconds": 1 } }).to_string();
    server.kubectl(&["patch", "kernelsession", "later", "-n", "team", "--type=merge", "-p", &leaves]).unwrap();
    let other = world.slept("other", LEAVES).await;
    world.until_archived("other", &other).await;
    world.cluster.leases(2).await;
    for (name, uid) in [("held", &held), ("later", &later)] {
        assert!(world.there(name), "{name}");
        world.assert_stored(name, uid).await;
        assert!(world.shelf.find(name).await.unwrap().is_none(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_a_pod_has_is_taken_from_it_first() {
    let world = World::start().await;
    let pod = world.cluster.pod(1, 4).await;
    let uid = world.cluster.session("a", LEAVES);
    world.store("a", &uid).await;
    world.cluster.place("a", &pod, 1);
    pod.report("a", &uid, |report| report.state = dormouse_protocol::session::State::Hibernated);
    let placement = || world.cluster.get(&["kernelsession", "a"], "{.status.placement.pod}");
    let sleeps = || world.cluster.get(&["kernelsession", "a"], "{.status.conditions}").contains("Asleep");
    world.cluster.until("it has no process", async || sleeps() && placement().is_empty()).await;
    world.cluster.leases(1).await;
    assert!(world.there("a"), "a gateway that is behind may send it one more cell: that is read before it leaves");
}
