//! Calls that leave beside the write of their assignment.

use std::{sync::Arc, time::Duration};

use crate::support::{FakePod, Trust, directory, serve};
use async_trait::async_trait;
use dormouse_crds::session::Placement;
use dormouse_gateway::{
    Directory,
    directory::{Change, DirectoryError, KernelPod, Key, NewSession, Record, SessionPatch},
};
use serde_json::json;
use tokio::sync::{broadcast, watch};

const EVAL: &str = "/v1/namespaces/default/sessions/a/eval";
const PATIENCE: Duration = Duration::from_secs(20);

/// A directory whose writes of placements wait until a test lets them.
struct Slow {
    inner: Arc<dyn Directory>,
    open: watch::Sender<bool>,
}

#[async_trait]
impl Directory for Slow {
    fn get(&self, key: &Key) -> Option<Arc<Record>> {
        self.inner.get(key)
    }

    async fn read(&self, key: &Key) -> Result<Arc<Record>, DirectoryError> {
        self.inner.read(key).await
    }

    fn list(&self, namespace: Option<&str>) -> Vec<Arc<Record>> {
        self.inner.list(namespace)
    }

    async fn create(&self, new: NewSession) -> Result<Arc<Record>, DirectoryError> {
        self.inner.create(new).await
    }

    async fn patch(&self, key: &Key, patch: SessionPatch) -> Result<Arc<Record>, DirectoryError> {
        self.inner.patch(key, patch).await
    }

    async fn delete(&self, key: &Key) -> Result<(), DirectoryError> {
        self.inner.delete(key).await
    }

    async fn assign(&self, seen: &Record, placement: Placement) -> Result<Arc<Record>, DirectoryError> {
        self.open.subscribe().wait_for(|open| *open).await.unwrap();
        self.inner.assign(seen, placement).await
    }

    fn pods(&self, namespace: &str, pool: &str) -> Vec<KernelPod> {
        self.inner.pods(namespace, pool)
    }

    fn pod(&self, namespace: &str, placement: &Placement) -> Option<KernelPod> {
        self.inner.pod(namespace, placement)
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.inner.changes()
    }

    fn pending(&self) -> Vec<&'static str> {
        self.inner.pending()
    }
}

async fn reaches(count: &watch::Sender<usize>, wanted: usize) {
    tokio::time::timeout(PATIENCE, count.subscribe().wait_for(|now| *now >= wanted)).await.expect("it comes").unwrap();
}

async fn slow(trust: &Trust, pods: &[&Arc<FakePod>]) -> (tempfile::TempDir, Arc<Slow>) {
    let (folder, inner) = directory(trust, pods).await;
    (folder, Arc::new(Slow { inner, open: watch::Sender::new(false) }))
}

#[tokio::test]
async fn a_call_does_not_wait_for_the_write_of_its_assignment_and_its_answer_does() {
    let trust = Trust::new();
    let pod = trust.pod("one", 4).await;
    let (_folder, directory) = slow(&trust, &[&pod]).await;
    let client = serve(&trust, directory.clone()).await;
    client.json("POST", "/v1/namespaces/default/sessions", json!({"name": "a"})).await;
    for accept in ["application/json", "application/x-ndjson"] {
        let cell = client.request("POST", EVAL).header("accept", accept).json(&json!({"code": "1"})).send();
        let asked = tokio::spawn(cell);
        if accept == "application/json" {
            reaches(&pod.claims, 1).await;
            assert!(directory.get(&Key::new("default", "a")).unwrap().status.placement.is_none());
            assert!(pod.evals().is_empty() && !asked.is_finished());
            directory.open.send_replace(true);
        }
        assert_eq!(asked.await.unwrap().unwrap().status(), 200);
    }
    assert_eq!(pod.evals().iter().map(|call| call.assignment.epoch).collect::<Vec<_>>(), [1, 1]);
    assert_eq!((*pod.claims.borrow(), *pod.withdrawn.borrow()), (1, 0), "a session that has its place is called as ever");
}

#[tokio::test]
async fn a_call_whose_assignment_lost_is_cut_off_and_follows_the_winner() {
    let trust = Trust::new();
    let (one, two) = (trust.pod("one", 9).await, trust.pod("two", 4).await);
    let (_folder, directory) = slow(&trust, &[&one, &two]).await;
    let client = serve(&trust, directory.clone()).await;
    client.json("POST", "/v1/namespaces/default/sessions", json!({"name": "a"})).await;
    let seen = directory.get(&Key::new("default", "a")).unwrap();
    let asked = tokio::spawn(async move { client.json("POST", EVAL, json!({"code": "1"})).await });
    reaches(&one.claims, 1).await;
    // Another gateway is first.
    let placement = Placement { pod: "two".into(), pod_uid: two.boot.clone(), boot: two.boot.clone(), epoch: 1 };
    directory.inner.assign(&seen, placement).await.unwrap();
    directory.open.send_replace(true);
    let (status, body) = asked.await.unwrap();
    assert_eq!((status, body["preview"].as_str()), (200, Some("two")), "{body}");
    reaches(&one.withdrawn, 1).await;
    assert!(one.evals().is_empty());
    assert_eq!(two.evals().len(), 1);
}

#[tokio::test]
async fn a_gateway_that_dies_before_the_write_is_answered_leaves_a_call_cut_off() {
    let trust = Trust::new();
    let pod = trust.pod("one", 4).await;
    let (_folder, directory) = slow(&trust, &[&pod]).await;
    let client = serve(&trust, directory.clone()).await;
    client.json("POST", "/v1/namespaces/default/sessions", json!({"name": "a"})).await;
    // Whoever goes away takes the gateway's part of the request along, as a crash does.
    let asked = tokio::spawn(async move { client.json("POST", EVAL, json!({"code": "1"})).await });
    reaches(&pod.claims, 1).await;
    asked.abort();
    reaches(&pod.withdrawn, 1).await;
    assert!(pod.evals().is_empty());
}
