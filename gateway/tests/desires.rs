//! Wakes that nobody asked for, and the operator's share that a folder does itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use dormouse_gateway::{
    Directory,
    directory::{
        Key, Record,
        folder::{Cleanup, FolderDirectory, StaticPod},
    },
    state::state_of,
};
use dormouse_protocol::session::State;
use dormouse_testkit::wait::eventually;
use serde_json::json;
use support::{FakePod, Trust, serve_whole, until};

const SESSIONS: &str = "/v1/namespaces/default/sessions";
const SESSION: &str = "/v1/namespaces/default/sessions/a";

#[derive(Default)]
struct Cleaned(AtomicUsize);

#[async_trait]
impl Cleanup for Cleaned {
    async fn clean(&self, _record: &Record) -> anyhow::Result<()> {
        // The first try fails: it has to be repeated.
        if self.0.fetch_add(1, Ordering::SeqCst) == 0 { Err(anyhow::anyhow!("not yet")) } else { Ok(()) }
    }
}

async fn opened(trust: &Trust, pod: &FakePod, cleanup: Option<Arc<dyn Cleanup>>) -> (tempfile::TempDir, Arc<FolderDirectory>) {
    let folder = tempfile::tempdir().unwrap();
    let pods = vec![StaticPod { pod: pod.name.into(), namespace: "default".into(), address: pod.address, boot: pod.boot.clone() }];
    let directory = FolderDirectory::open(folder.path(), pods, trust.operator(), cleanup).await.unwrap();
    // Before anything happens that it should see.
    eventually("the follower is there", async || pod.reports.receiver_count() > 0).await;
    (folder, directory)
}

fn state(directory: &FolderDirectory) -> Option<State> {
    directory.get(&Key::new("default", "a")).map(|record| state_of(&record.status))
}

#[tokio::test]
async fn a_session_starts_sleeps_and_wakes_as_its_spec_says() {
    let trust = Trust::new();
    let pod = trust.pod("one", 4).await;
    let (_folder, directory) = opened(&trust, &pod, None).await;
    let (client, shutdown) = serve_whole(&trust, directory.clone()).await;
    client.json("POST", SESSIONS, json!({"name": "a"})).await;
    until(&*directory, "it starts by itself", || state(&directory) == Some(State::Idle)).await;
    client.json("PATCH", SESSION, json!({"spec": {"operatingMode": "Hibernated"}})).await;
    until(&*directory, "it sleeps", || state(&directory) == Some(State::Hibernated)).await;
    client.json("PATCH", SESSION, json!({"spec": {"operatingMode": "Running"}})).await;
    until(&*directory, "it wakes", || state(&directory) == Some(State::Idle)).await;
    client.json("PATCH", SESSION, json!({"spec": {"idleSeconds": 7}})).await;
    until(&*directory, "its pod has the new spec", || {
        directory.get(&Key::new("default", "a")).is_some_and(|record| record.status.observed_generation == Some(4))
    })
    .await;
    let epochs: Vec<_> = pod.wakes.lock().unwrap().iter().map(|assignment| assignment.epoch).collect();
    assert!(epochs.len() >= 3 && epochs.iter().all(|epoch| *epoch == 1), "it woke in place: {epochs:?}");
    assert_eq!(pod.wakes.lock().unwrap().last().unwrap().spec.idle_seconds, 7);
    shutdown.cancel();
}

#[tokio::test]
async fn a_deletion_goes_on_until_the_storage_is_clean() {
    let trust = Trust::new();
    let pod = trust.pod("one", 4).await;
    let cleaned = Arc::new(Cleaned::default());
    let (folder, directory) = opened(&trust, &pod, Some(cleaned.clone())).await;
    let (client, shutdown) = serve_whole(&trust, directory.clone()).await;
    client.json("POST", SESSIONS, json!({"name": "a"})).await;
    until(&*directory, "it starts", || state(&directory) == Some(State::Idle)).await;
    let (status, _) = client.json("DELETE", SESSION, json!({})).await;
    assert_eq!(status, 202);
    until(&*directory, "it is gone", || state(&directory).is_none()).await;
    assert_eq!(cleaned.0.load(Ordering::SeqCst), 2);
    assert!(pod.forgets.load(Ordering::SeqCst) >= 1);
    assert!(!folder.path().join("default/a.json").exists());
    shutdown.cancel();
}
