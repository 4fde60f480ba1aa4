//! Encryption at rest with the key in a KMS: a real Transit engine, asked once a data key; what goes on without it and what waits for it.

use std::{path::Path, sync::atomic::Ordering, time::Duration};

use crate::common::{World, assign, keys, try_eval, value};
use dormouse_crds::session::Source;
use dormouse_kernel::Pod;
use dormouse_kms::{KeyLocation, KmsArgs, transit::Transit};
use dormouse_protocol::ErrorCode;
use dormouse_protocol::kernel::{Anchor, Assignment};
use dormouse_seal::Seal;
use dormouse_store::SnapshotStore as _;
use dormouse_testkit::transit::Transit as Kms;
use serde_json::json;

/// Longer than a pod waits before it probes again.
const PATIENCE: Duration = Duration::from_secs(30);

fn args(kms: &Kms) -> KmsArgs {
    KmsArgs {
        kms_url: Some(kms.url()),
        kms_key: Some("sessions".to_owned()),
        kms_mount: "transit".to_owned(),
        kms_credentials_dir: kms.credentials(),
    }
}

/// A pod whose keys are the KMS's.
fn pod(world: &World, name: &str, kms: &Kms) -> Pod {
    world.pod_that_seals(name, dormouse_kms::seal("team", None, &args(kms)).unwrap())
}

/// A pod with keys of a Secret as well, of which `current` says who seals.
fn pod_beside(world: &World, name: &str, kms: &Kms, current: &str) -> Pod {
    let place = KeyLocation::new(&kms.url(), "transit", "sessions").unwrap();
    let service = std::sync::Arc::new(Transit::new(place, kms.credentials()));
    world.pod_that_seals(name, Seal::with_service("team", Some(keys(&["k1"], current)), service))
}

fn anchored(pod: &Pod, uid: &str, epoch: u64, anchor: Anchor) -> Assignment {
    Assignment { anchor: Some(anchor), ..assign(pod, uid, epoch) }
}

async fn asleep(pod: &Pod, session: &Assignment) -> Anchor {
    let snapshot = pod.hibernate(session.clone()).await.unwrap().snapshot.unwrap();
    assert!(snapshot.encrypted);
    Anchor::from(&snapshot)
}

/// Which keys the objects of a session name.
async fn ids(world: &World, uid: &str) -> Vec<String> {
    let mut ids = Vec::new();
    for key in world.store.list(&format!("p/t/team/s/default/{uid}/")).await.unwrap() {
        let bytes = world.store.get(&key).await.unwrap().unwrap().bytes;
        assert!(bytes.starts_with(b"DMSEAL\0"), "{key}");
        let length = usize::from(bytes[10]);
        ids.push(String::from_utf8(bytes[11..11 + length].to_vec()).unwrap());
    }
    ids
}

async fn answers_soon(pod: &Pod, session: &Assignment, code: &str) -> serde_json::Value {
    let answer = async {
        loop {
            match try_eval(pod, session, code).await {
                Ok(result) => return result.value.unwrap(),
                Err(error) => assert_eq!((error.code, error.retryable), (ErrorCode::StorageUnavailable, true), "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, answer).await.expect("it recovers by itself")
}

const WORK: &str =
    "let n = 0; const noise = crypto.getRandomValues(new Uint8Array(60000)), more = crypto.getRandomValues(new Uint8Array(60000)); n";

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_asks_once_for_its_own_key_and_once_for_each_it_meets() {
    let (world, kms) = (World::default(), Kms::start("sessions").await.unwrap());
    let a = pod(&world, "a", &kms);
    let mut anchors = Vec::new();
    for uid in ["u1", "u2", "u3"] {
        let session = assign(&a, uid, 1);
        value(&a, &session, WORK).await;
        for expected in 1..=5 {
            assert_eq!(value(&a, &session, "++n").await, json!(expected));
        }
        anchors.push((uid, asleep(&a, &session).await));
        let ids = ids(&world, uid).await;
        assert!(ids.len() > 1 && ids.iter().all(|id| id == "kms:transit/sessions"), "{ids:?}");
    }
    assert_eq!(kms.asked().await.unwrap(), (1, 0), "18 commits of three sessions");
    let b = pod(&world, "b", &kms);
    for (uid, anchor) in anchors {
        assert_eq!(value(&b, &anchored(&b, uid, 2, anchor), "++n").await, json!(6));
    }
    assert_eq!(kms.asked().await.unwrap(), (2, 1), "three sessions in another pod");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_kms_a_pod_goes_on_with_what_it_knows_and_others_wait() {
    let (world, mut kms) = (World::default(), Kms::start("sessions").await.unwrap());
    let (a, b) = (pod(&world, "a", &kms), pod(&world, "b", &kms));
    let (one, two) = (assign(&a, "u1", 1), assign(&b, "u2", 1));
    value(&a, &one, WORK).await;
    value(&b, &two, WORK).await;
    let anchor = asleep(&b, &two).await;
    kms.kill();
    assert_eq!(value(&a, &one, "++n").await, json!(1), "commits");
    a.hibernate(one.clone()).await.unwrap();
    a.forget(one.clone()).await.unwrap();
    let back = assign(&a, "u1", 2);
    assert_eq!(value(&a, &back, "++n").await, json!(2), "its own objects, out of the store");
    let before = ids(&world, "u2").await;
    let moved = anchored(&a, "u2", 2, anchor);
    let error = try_eval(&a, &moved, "++n").await.unwrap_err();
    assert_eq!((error.code, error.retryable), (ErrorCode::StorageUnavailable, true), "{error}");
    assert!(error.message.contains("KMS") && error.message.contains(&kms.url()), "{error}");
    let started = pod(&world, "c", &kms);
    let late = anchored(&started, "u2", 3, anchor);
    let error = try_eval(&started, &late, "++n").await.unwrap_err();
    assert!(error.code == ErrorCode::StorageUnavailable && error.message.contains(&kms.url()), "{error}");
    assert_eq!(ids(&world, "u2").await, before, "nothing was written");
    kms.restart().await.unwrap();
    assert_eq!(answers_soon(&a, &moved, "++n").await, json!(1));
    assert_eq!(answers_soon(&started, &late, "n").await, json!(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_moves_from_the_secret_to_the_kms_and_back() {
    let (world, kms) = (World::default(), Kms::start("sessions").await.unwrap());
    let a = world.sealing_pod("a", keys(&["k1"], "k1"));
    let session = assign(&a, "u1", 1);
    value(&a, &session, WORK).await;
    a.checkpoint(session.clone(), "secret".to_owned()).await.unwrap();
    let anchor = asleep(&a, &session).await;
    let b = pod_beside(&world, "b", &kms, "kms");
    let session = anchored(&b, "u1", 2, anchor);
    assert_eq!(value(&b, &session, "++n").await, json!(1));
    b.checkpoint(session.clone(), "kms".to_owned()).await.unwrap();
    let anchor = asleep(&b, &session).await;
    let mixed = ids(&world, "u1").await;
    assert!(["k1", "kms:transit/sessions"].iter().all(|id| mixed.iter().any(|it| it == id)), "{mixed:?}");
    let only_kms = pod(&world, "c", &kms);
    let error = try_eval(&only_kms, &anchored(&only_kms, "u1", 3, anchor), "n").await.unwrap_err();
    assert!(error.code == ErrorCode::StorageUnavailable && error.message.contains("`k1`"), "the Secret must stay: {error}");
    let back = pod_beside(&world, "d", &kms, "k1");
    let session = anchored(&back, "u1", 4, anchor);
    assert_eq!(value(&back, &session, "++n").await, json!(2));
    for (checkpoint, expected) in [("secret", 0), ("kms", 1)] {
        back.restore(session.clone(), checkpoint.to_owned()).await.unwrap();
        assert_eq!(value(&back, &session, "n").await, json!(expected));
    }
    // A fork's copies stay as they were sealed.
    let mut child = assign(&back, "u2", 1);
    child.spec.source = Some(Source { session: "session-u1".to_owned(), checkpoint: Some("kms".to_owned()) });
    child.source_uid = Some("u1".to_owned());
    assert_eq!(value(&back, &child, "++n").await, json!(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_is_sent_again_is_the_same_bytes() {
    let (world, kms) = (World::default(), Kms::start("sessions").await.unwrap());
    let a = pod(&world, "a", &kms);
    let session = assign(&a, "u1", 1);
    value(&a, &session, "let n = 0; n").await;
    for expected in 1..=20 {
        world.store.lose_reply.store(true, Ordering::SeqCst);
        assert_eq!(value(&a, &session, "++n").await, json!(expected));
    }
    assert_eq!(kms.asked().await.unwrap(), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_key_under_the_same_name_is_damage_until_the_right_one_is_back() {
    let (world, kms, another) = (World::default(), Kms::start("sessions").await.unwrap(), Kms::start("sessions").await.unwrap());
    let a = pod(&world, "a", &kms);
    let session = assign(&a, "u1", 1);
    value(&a, &session, "let n = 41; n").await;
    let anchor = asleep(&a, &session).await;
    let wrong = pod(&world, "b", &another);
    let error = try_eval(&wrong, &anchored(&wrong, "u1", 2, anchor), "n").await.unwrap_err();
    assert!(error.code == ErrorCode::SnapshotCorrupt && error.message.contains("kms:transit/sessions"), "{error}");
    let right = pod(&world, "c", &kms);
    assert_eq!(value(&right, &anchored(&right, "u1", 3, anchor), "++n").await, json!(42));
}

#[test]
fn flags_without_a_key_service_are_what_they_were() {
    assert!(dormouse_kms::seal("team", Some(Path::new("/nowhere")), &KmsArgs::default()).is_ok());
    let clear = KmsArgs {
        kms_url: Some("http://vault".to_owned()),
        kms_key: Some("k".to_owned()),
        kms_mount: "transit".to_owned(),
        ..KmsArgs::default()
    };
    assert!(dormouse_kms::seal("team", None, &clear).is_err(), "no key travels in clear");
}
