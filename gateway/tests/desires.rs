//! Wakes that nobody asked for, and the operator's share that a folder does itself.

use std::{
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::support::{FakePod, Trust, serve_whole, until};
use async_trait::async_trait;
use dormouse_control::{precedence, session::state_of};
use dormouse_crds::session::{Placement, SnapshotStatus};
use dormouse_gateway::{
    Directory, Gateway,
    auth::loopback::Loopback,
    desires::{Need, decide},
    directory::{
        Key, NewSession, Record,
        folder::{Cleanup, FolderDirectory, StaticPod},
    },
    peers::{Members, Peers},
};
use dormouse_protocol::{kernel::StoredStatus, session::State};
use dormouse_testkit::wait::eventually;
use serde_json::json;
use tokio::sync::watch::Sender;
use tokio_util::sync::CancellationToken;

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
    let directory =
        FolderDirectory::open(dormouse_durable::System::shared(), folder.path(), pods, trust.operator(), cleanup).await.unwrap();
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
    shutdown.cancel();
    drop(directory);
    assert!(killed(&trust, folder.path(), &pod).await.list(None).is_empty(), "and does not come back");
}

/// The folder after the end of its process: nothing that was not written by then is there.
async fn killed(trust: &Trust, folder: &std::path::Path, next: &FakePod) -> Arc<FolderDirectory> {
    let pods = vec![StaticPod { pod: next.name.into(), namespace: "default".into(), address: next.address, boot: next.boot.clone() }];
    FolderDirectory::open(dormouse_durable::System::shared(), folder, pods, trust.operator(), None).await.unwrap()
}

#[tokio::test]
async fn what_slept_when_the_process_was_killed_sleeps_and_its_timers_are_known() {
    let trust = Trust::new();
    let (old, next) = (trust.pod("old", 4).await, trust.pod("next", 4).await);
    let (folder, directory) = opened(&trust, &old, None).await;
    let key = Key::new("default", "a");
    let new = NewSession { key: key.clone(), labels: Default::default(), spec: Default::default() };
    let made = directory.create(new).await.unwrap();
    let placement = Placement { pod: "old".into(), pod_uid: "boot-old".into(), boot: "boot-old".into(), epoch: 1 };
    directory.assign(&made, placement).await.unwrap();
    // It commits, acks, and is put to sleep; then everything ends before a report of that is on disk.
    drop(directory);
    let snapshot = SnapshotStatus { epoch: 1, encrypted: false, sequence: 3, bytes: 1, engine_digest: "e".into(), time: "t".into() };
    let due = "2999-01-01T00:00:00Z";
    let told = StoredStatus { snapshot: Some(snapshot.clone()), next_wake_time: Some(due.to_owned()), ..StoredStatus::default() };
    *next.stored.lock().unwrap() = Some(told);
    let directory = killed(&trust, folder.path(), &next).await;
    let record = directory.get(&key).unwrap();
    assert_eq!((state_of(&record.status), &record.status.snapshot), (State::Hibernated, &Some(snapshot)));
    assert_eq!((&record.status.placement, record.status.last_epoch), (&None, Some(1)));
    assert_eq!(decide(&record, None, jiff::Timestamp::now()), Need::At(due.parse().unwrap()), "it is not started anew");
}

#[tokio::test]
async fn a_session_that_nobody_can_tell_of_is_asked_about_until_somebody_can() {
    let trust = Trust::new();
    let (old, next) = (trust.pod("old", 4).await, trust.pod("next", 4).await);
    let (folder, directory) = opened(&trust, &old, None).await;
    let key = Key::new("default", "a");
    let new = NewSession { key: key.clone(), labels: Default::default(), spec: Default::default() };
    let made = directory.create(new).await.unwrap();
    let placement = Placement { pod: "old".into(), pod_uid: "boot-old".into(), boot: "boot-old".into(), epoch: 1 };
    directory.assign(&made, placement).await.unwrap();
    drop(directory);
    *next.stored.lock().unwrap() = None;
    let directory = killed(&trust, folder.path(), &next).await;
    let placed = || directory.get(&key).unwrap().status.placement.is_some();
    assert!(placed(), "as long as it is there, it is known that something may be stored");
    *next.stored.lock().unwrap() = Some(StoredStatus::default());
    until(&*directory, "it is settled", || !placed()).await;
}

/// Pods that hang have their own namespace's orders wait, and nobody else's.
#[tokio::test]
async fn pods_that_hang_hold_up_no_other_namespace() {
    const HANGING: usize = 300;
    let trust = Trust::new();
    let pod = trust.pod("one", 4).await;
    // It takes connections and never says a word.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let hanging =
        StaticPod { pod: "slow".into(), namespace: "a-slow".into(), address: silent.local_addr().unwrap(), boot: "boot-slow".into() };
    let pods = vec![hanging, StaticPod { pod: pod.name.into(), namespace: "default".into(), address: pod.address, boot: pod.boot.clone() }];
    let directory = FolderDirectory::open(dormouse_durable::System::shared(), folder.path(), pods, trust.operator(), None).await.unwrap();
    eventually("the follower is there", async || pod.reports.receiver_count() > 0).await;
    for number in 0..HANGING {
        let key = Key::new("a-slow", format!("s{number}"));
        let made = directory.create(NewSession { key, labels: Default::default(), spec: Default::default() }).await.unwrap();
        let placement = Placement { pod: "slow".into(), pod_uid: "boot-slow".into(), boot: "boot-slow".into(), epoch: 1 };
        directory.assign(&made, placement).await.unwrap();
    }
    let key = Key::new("default", "a");
    directory.create(NewSession { key, labels: Default::default(), spec: Default::default() }).await.unwrap();
    let (_client, shutdown) = serve_whole(&trust, directory.clone()).await;
    let started = until(&*directory, "it starts", || state(&directory) == Some(State::Idle));
    tokio::time::timeout(std::time::Duration::from_secs(3), started).await.expect("before any of those that hang has ended");
    shutdown.cancel();
}

/// A gateway that does what nobody asked for, as the first or the second of two.
fn share(trust: &Trust, directory: &Arc<FolderDirectory>, me: &str, shutdown: &CancellationToken) -> Sender<Members> {
    let (peers, tell) = Peers::new(me);
    let names = ["one", "two"].map(|name| (name.to_owned(), Ipv4Addr::LOCALHOST.into()));
    tell.send_if_modified(|members| members.change(names.into()));
    let gateway = Gateway::new(directory.clone(), trust.kernels(), Arc::new(Loopback::default())).with_peers(peers);
    tokio::spawn(gateway.background_wakes(shutdown.clone()));
    tell
}

/// The uids of sessions that were just made, so that each of two gateways is the first for some, and whether the gateway `one` is.
async fn made(directory: &FolderDirectory) -> Vec<(String, bool)> {
    const EACH: usize = 4;
    let mut uids: Vec<(String, bool)> = Vec::new();
    let of = |uids: &[(String, bool)], first: bool| uids.iter().filter(|(_, is_first)| *is_first == first).count();
    while of(&uids, true) < EACH || of(&uids, false) < EACH {
        let key = Key::new("default", format!("s{}", uids.len()));
        let made = directory.create(NewSession { key, labels: Default::default(), spec: Default::default() }).await.unwrap();
        uids.push((made.uid.clone(), precedence::wait(&made.uid, "one", ["one", "two"]).is_zero()));
    }
    uids
}

fn all_are_idle(directory: &FolderDirectory) -> bool {
    directory.list(None).iter().all(|record| state_of(&record.status) == State::Idle)
}

#[tokio::test]
async fn of_two_gateways_each_starts_its_own_sessions_and_no_session_is_started_twice() {
    let trust = Trust::new();
    let pod = trust.pod("one", 100).await;
    let (_folder, directory) = opened(&trust, &pod, None).await;
    let made = made(&directory).await;
    let shutdown = CancellationToken::new();
    let _told = [share(&trust, &directory, "one", &shutdown), share(&trust, &directory, "two", &shutdown)];
    until(&*directory, "all have started", || all_are_idle(&directory)).await;
    let woken: Vec<String> = pod.wakes.lock().unwrap().iter().map(|assignment| assignment.uid.clone()).collect();
    let sessions: std::collections::BTreeSet<&String> = woken.iter().collect();
    assert_eq!((woken.len(), sessions.len()), (made.len(), made.len()), "{woken:?}");
    shutdown.cancel();
}

#[tokio::test]
async fn a_gateway_does_its_own_first_and_then_what_one_that_is_gone_was_to_do() {
    let trust = Trust::new();
    let pod = trust.pod("one", 100).await;
    let (_folder, directory) = opened(&trust, &pod, None).await;
    let made = made(&directory).await;
    let mine = made.iter().filter(|(_, mine)| *mine).count();
    let shutdown = CancellationToken::new();
    let _told = share(&trust, &directory, "one", &shutdown);
    until(&*directory, "all have started", || all_are_idle(&directory)).await;
    let woken: Vec<String> = pod.wakes.lock().unwrap().iter().map(|assignment| assignment.uid.clone()).collect();
    let is_mine = |uid: &String| made.iter().any(|(made, mine)| made == uid && *mine);
    assert!(woken.iter().take(mine).all(is_mine) && !woken.iter().skip(mine).any(is_mine), "its own are first");
    shutdown.cancel();
}
