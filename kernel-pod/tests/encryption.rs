//! Encryption at rest: what is stored says nothing, opens only as what it was, and never by itself becomes something else.

use std::collections::BTreeMap;

use crate::common::{World, assign, assign_spec, keys, spec, try_eval, until, value};
use bytes::Bytes;
use dormouse_crds::session::Source;
use dormouse_kernel::Pod;
use dormouse_lifecycle::Head;
use dormouse_protocol::ErrorCode;
use dormouse_protocol::history::JournalBody;
use dormouse_protocol::kernel::{Anchor, Assignment, JournalCall, StoredCall};
use dormouse_protocol::session::State;
use dormouse_store::{Condition, SnapshotStore as _};
use dormouse_testkit::wait::eventually;
use serde_json::json;

const CANARY: &str = "canary-7f3a91";

/// Everything that is stored of the session `uid`.
async fn stored(world: &World, uid: &str) -> BTreeMap<String, Bytes> {
    let mut objects = BTreeMap::new();
    for key in world.store.list(&format!("p/t/team/s/default/{uid}/")).await.unwrap() {
        let object = world.store.get(&key).await.unwrap().unwrap();
        objects.insert(key, object.bytes);
    }
    objects
}

async fn overwrite(world: &World, key: &str, bytes: Bytes) {
    world.store.put(key, bytes, Condition::None).await.unwrap();
}

fn is_sealed(bytes: &[u8]) -> bool {
    bytes.starts_with(b"DMSEAL\0")
}

/// A session with a segment, a checkpoint, a part of a journal and a head, asleep.
async fn asleep(pod: &Pod, uid: &str) -> Anchor {
    let session = assign(pod, uid, 1);
    let noise = format!(
        "let n = 41, canary = '{CANARY}'; const noise = new Uint32Array(30000); let seed = {}; \
         for (let i = 0; i < noise.length; i++) {{ seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0; noise[i] = seed }}; n",
        uid.len() + usize::from(uid.as_bytes()[1])
    );
    value(pod, &session, &noise).await;
    pod.checkpoint(session.clone(), "good".to_owned()).await.unwrap();
    for _ in 0..2 {
        value(pod, &session, &format!("n; /* {CANARY} {} */", "x".repeat(15000))).await;
    }
    let report = pod.hibernate(session).await.unwrap();
    let snapshot = report.snapshot.unwrap();
    assert!(snapshot.encrypted);
    Anchor::from(&snapshot)
}

fn anchored(pod: &Pod, uid: &str, epoch: u64, anchor: Anchor) -> Assignment {
    Assignment { anchor: Some(anchor), ..assign(pod, uid, epoch) }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_session_is_in_clear_and_all_of_it_comes_back() {
    let world = World::default();
    let anchor = asleep(&world.sealing_pod("a", keys(&["k1"], "k1")), "u1").await;
    let objects = stored(&world, "u1").await;
    let kinds: Vec<char> = objects.keys().filter_map(|key| key.rsplit('/').next()?.chars().next()).collect();
    assert!(['h', 'c', 'j', '1'].iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
    for (key, bytes) in &objects {
        assert!(is_sealed(bytes), "{key}");
        assert!(!bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes()), "{key}");
    }
    let b = world.sealing_pod("b", keys(&["k1"], "k1"));
    let session = anchored(&b, "u1", 2, anchor);
    assert_eq!(value(&b, &session, "`${n} ${canary}`").await, json!(format!("41 {CANARY}")));
    let call = StoredCall { namespace: "team".into(), name: session.name.clone(), uid: "u1".into(), anchor: Some(anchor) };
    let page = b.stored_journal(&JournalCall { session: call.clone(), after: 0, limit: 100 }).await.unwrap();
    assert!(page.damage.is_none() && page.entries.iter().any(|it| matches!(it.body, JournalBody::Cell { cell: 1, .. })), "{page:?}");
    value(&b, &session, "n = 7").await;
    b.restore(session.clone(), "good".to_owned()).await.unwrap();
    assert_eq!(value(&b, &session, "n").await, json!(41));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_key_is_named_and_loses_nothing() {
    let world = World::default();
    let anchor = asleep(&world.sealing_pod("a", keys(&["k1"], "k1")), "u1").await;
    let before = stored(&world, "u1").await;
    for (epoch, pod) in [(2, world.pod("b")), (3, world.sealing_pod("c", keys(&["k2"], "k2")))] {
        let error = try_eval(&pod, &anchored(&pod, "u1", epoch, anchor), "n").await.unwrap_err();
        assert_eq!((error.code, error.retryable), (ErrorCode::StorageUnavailable, true), "{error}");
        assert!(error.message.contains("`k1`"), "{error}");
    }
    assert_eq!(stored(&world, "u1").await, before);
    // Rotation: the old key stays and the new one is current.
    let d = world.sealing_pod("d", keys(&["k1", "k2"], "k2"));
    assert_eq!(value(&d, &anchored(&d, "u1", 4, anchor), "++n").await, json!(42));
    let head = stored(&world, "u1").await["p/t/team/s/default/u1/head"].clone();
    assert_ne!(head, before["p/t/team/s/default/u1/head"]);
    let session = anchored(&d, "u1", 4, anchor);
    d.restore(session.clone(), "good".to_owned()).await.unwrap();
    assert_eq!(value(&d, &session, "n").await, json!(41), "a checkpoint under the old key");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_from_before_is_sealed_at_its_next_commit() {
    let world = World::default();
    let a = world.pod("a");
    let session = assign_spec(
        &a,
        "u1",
        1,
        dormouse_crds::session::KernelSessionSpec { checkpoints: dormouse_crds::session::Checkpoints { keep: 0 }, ..spec() },
    );
    value(
        &a,
        &session,
        "let n = 1; const noise = crypto.getRandomValues(new Uint8Array(60000)), more = crypto.getRandomValues(new Uint8Array(60000)); n",
    )
    .await;
    let report = a.hibernate(session).await.unwrap();
    let anchor = Anchor::from(&report.snapshot.unwrap());
    assert!(!anchor.encrypted);
    let b = world.sealing_pod("b", keys(&["k1"], "k1"));
    let session = anchored(&b, "u1", 2, anchor);
    assert_eq!(value(&b, &session, "++n").await, json!(2));
    b.hibernate(session).await.unwrap();
    let head = "p/t/team/s/default/u1/head";
    assert!(is_sealed(&stored(&world, "u1").await[head]));
    // What it was in clear goes with the sweep that follows a first commit.
    eventually("nothing stays in clear", async || stored(&world, "u1").await.values().all(|bytes| is_sealed(bytes))).await;
    // Leaving encryption: nothing new is sealed, and what was is readable.
    let c = world.sealing_pod("c", keys(&["k1"], "none"));
    let sealed = Anchor { encrypted: true, ..anchor };
    assert_eq!(value(&c, &anchored(&c, "u1", 3, sealed), "++n").await, json!(3));
    assert!(!is_sealed(&stored(&world, "u1").await[head]));
    assert_eq!(value(&c, &anchored(&c, "u1", 3, sealed), "noise.length").await, json!(60000));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stripped_seal_is_not_believed() {
    let world = World::default();
    let anchor = asleep(&world.sealing_pod("a", keys(&["k1"], "k1")), "u1").await;
    let head = "p/t/team/s/default/u1/head";
    let sealed = stored(&world, "u1").await[head].clone();
    // A head that somebody without a key made: it verifies, is newer, and is not encrypted.
    let plain = World::default();
    let forger = plain.pod("f");
    value(&forger, &assign(&forger, "u1", 1), "let n = 666; n").await;
    let mut forged = Head::decode(&plain.store.get(head).await.unwrap().unwrap().bytes).unwrap();
    (forged.epoch, forged.sequence) = (anchor.epoch, anchor.sequence + 1);
    overwrite(&world, head, forged.encode().unwrap()).await;
    let b = world.sealing_pod("b", keys(&["k1"], "k1"));
    let session = anchored(&b, "u1", 2, anchor);
    let error = try_eval(&b, &session, "n").await.unwrap_err();
    assert_eq!(error.code, ErrorCode::SnapshotCorrupt, "{error}");
    assert!(error.message.contains("not encrypted"), "{error}");
    let failed = until(&b, "u1", |report| report.state == State::Failed).await;
    assert_eq!(failed.failure.unwrap().code, ErrorCode::SnapshotCorrupt);
    // Neither is a checkpoint that nobody vouches for.
    let aside = "p/t/team/s/default/u1/c1-99-abababababababababababababababab";
    overwrite(&world, aside, Head { label: Some("forged".to_owned()), ..forged.clone() }.encode().unwrap()).await;
    let call = StoredCall { namespace: "team".into(), name: session.name.clone(), uid: "u1".into(), anchor: Some(anchor) };
    let listed = b.stored_checkpoints(&call).await.unwrap();
    assert_eq!(listed.items.iter().filter_map(|it| it.label.as_deref()).collect::<Vec<_>>(), ["good"], "{listed:?}");
    world.store.delete(aside).await.unwrap();
    // One that says of itself that it was sealed is refused without an anchor, too.
    forged.sealed = true;
    overwrite(&world, head, forged.encode().unwrap()).await;
    let session = assign(&b, "u1", 3);
    assert_eq!(try_eval(&b, &session, "n").await.unwrap_err().code, ErrorCode::SnapshotCorrupt);
    overwrite(&world, head, sealed).await;
    assert_eq!(value(&b, &session, "n").await, json!(41));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_swap_between_objects_sessions_and_keys_is_refused() {
    let world = World::default();
    let a = world.sealing_pod("a", keys(&["k1"], "k1"));
    let (one, _) = (asleep(&a, "u1").await, asleep(&a, "u2").await);
    let c = world.sealing_pod("c", keys(&["k1", "k2"], "k2"));
    asleep(&c, "u3").await;
    let whole = stored(&world, "u1").await;
    let others: Vec<(String, Bytes)> =
        whole.clone().into_iter().chain(stored(&world, "u2").await).chain(stored(&world, "u3").await).collect();
    let b = world.sealing_pod("b", keys(&["k1", "k2"], "k1"));
    let needed = ["p/t/team/s/default/u1/head", whole.keys().find(|key| key.contains("/1-")).unwrap()];
    let mut epoch = 1;
    for key in needed {
        for (from, bytes) in others.iter().filter(|(from, _)| from != key) {
            overwrite(&world, key, bytes.clone()).await;
            epoch += 1;
            let error = try_eval(&b, &anchored(&b, "u1", epoch, one), "n").await.unwrap_err();
            assert_eq!(error.code, ErrorCode::SnapshotCorrupt, "{from} at {key}: {error}");
        }
        overwrite(&world, key, whole[key].clone()).await;
    }
    // What is read without the head is told apart, too: a journal or checkpoint of another session, or in another's place.
    for key in whole.keys().filter(|key| key.contains("/c") || key.contains("/j")) {
        for (from, bytes) in others.iter().filter(|(from, _)| from != key) {
            overwrite(&world, key, bytes.clone()).await;
            let call = StoredCall { namespace: "team".into(), name: "session-u1".into(), uid: "u1".into(), anchor: Some(one) };
            let page = b.stored_journal(&JournalCall { session: call, after: 0, limit: 100 }).await.unwrap();
            assert!(!key.contains("/j") || page.damage.is_some(), "{from} at {key}");
        }
        overwrite(&world, key, whole[key].clone()).await;
    }
    assert_eq!(value(&b, &anchored(&b, "u1", epoch + 1, one), "n").await, json!(41));
}

#[tokio::test(flavor = "multi_thread")]
async fn flips_cuts_and_additions_in_sealed_objects_are_refused() {
    let world = World::default();
    let anchor = asleep(&world.sealing_pod("a", keys(&["k1"], "k1")), "u1").await;
    let whole = stored(&world, "u1").await;
    let b = world.sealing_pod("b", keys(&["k1"], "k1"));
    let mut epoch = 1;
    for key in ["p/t/team/s/default/u1/head", whole.keys().find(|key| key.contains("/1-")).unwrap().as_str()] {
        let bytes = &whole[key];
        // Magic, length, key id, data key, session, name, engine, nonce, body, tag.
        let offsets = [0, 7, 8, 10, 11, 14, 30, 75, 90, 115, 140, 200, 250, bytes.len() / 2, bytes.len() - 17, bytes.len() - 1];
        let mut damages: Vec<Bytes> = offsets.iter().map(|at| flipped(bytes, *at)).collect();
        damages.extend([bytes.slice(..bytes.len() / 2), bytes.slice(..bytes.len() - 1), bytes.slice(..9), Bytes::new()]);
        damages.push([bytes.as_ref(), b"x"].concat().into());
        for (case, damaged) in damages.into_iter().enumerate() {
            overwrite(&world, key, damaged).await;
            epoch += 1;
            let error = try_eval(&b, &anchored(&b, "u1", epoch, anchor), "n").await.unwrap_err();
            // A flip in the key's id asks for a key that is not there.
            let named = error.code == ErrorCode::StorageUnavailable && error.message.contains("is encrypted with key");
            assert!(error.code == ErrorCode::SnapshotCorrupt || named, "{key} {case}: {error}");
        }
        overwrite(&world, key, bytes.clone()).await;
    }
    assert_eq!(value(&b, &anchored(&b, "u1", epoch, anchor), "n").await, json!(41));
}

fn flipped(bytes: &Bytes, at: usize) -> Bytes {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= 0x10;
    bytes.into()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_reads_its_copies_under_its_own_keys_and_outlives_its_parent() {
    let world = World::default();
    let a = world.sealing_pod("a", keys(&["k1"], "k1"));
    let anchor = asleep(&a, "u1").await;
    let b = world.sealing_pod("b", keys(&["k1", "k2"], "k2"));
    let mut child = assign(&b, "u2", 1);
    child.spec.source = Some(Source { session: "session-u1".to_owned(), checkpoint: None });
    child.source_uid = Some("u1".to_owned());
    child.source_anchor = Some(anchor);
    assert_eq!(value(&b, &child, "canary").await, json!(CANARY));
    let copies = stored(&world, "u2").await;
    assert!(copies.len() > 1 && copies.values().all(|bytes| is_sealed(bytes)), "{:?}", copies.keys());
    for key in stored(&world, "u1").await.keys() {
        world.store.delete(key).await.unwrap();
    }
    b.hibernate(child.clone()).await.unwrap();
    let c = world.sealing_pod("c", keys(&["k1", "k2"], "k2"));
    let again = Assignment { epoch: 2, boot: c.info().boot, ..child };
    assert_eq!(value(&c, &again, "++n").await, json!(42));
    // A grandchild copies what was copied.
    let mut grandchild = assign(&c, "u3", 1);
    grandchild.spec.source = Some(Source { session: "session-u2".to_owned(), checkpoint: None });
    grandchild.source_uid = Some("u2".to_owned());
    assert_eq!(value(&c, &grandchild, "canary").await, json!(CANARY));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_is_resolved_as_without_encryption() {
    let world = World::default();
    let a = world.sealing_pod("a", keys(&["k1"], "k1"));
    let session = assign(&a, "u1", 1);
    value(&a, &session, "let n = 0; n").await;
    for expected in 1..=20 {
        world.store.lose_reply.store(true, std::sync::atomic::Ordering::SeqCst);
        assert_eq!(value(&a, &session, "++n").await, json!(expected));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_sealed_head_keeps_its_checkpoints_and_journal() {
    let world = World::default();
    let anchor = asleep(&world.sealing_pod("a", keys(&["k1"], "k1")), "u1").await;
    overwrite(&world, "p/t/team/s/default/u1/head", Bytes::from_static(b"damaged")).await;
    let b = world.sealing_pod("b", keys(&["k1"], "k1"));
    let session = anchored(&b, "u1", 2, anchor);
    assert_eq!(try_eval(&b, &session, "n").await.unwrap_err().code, ErrorCode::SnapshotCorrupt);
    let call = StoredCall { namespace: "team".into(), name: session.name.clone(), uid: "u1".into(), anchor: Some(anchor) };
    let listed = b.stored_checkpoints(&call).await.unwrap();
    assert_eq!(listed.items.iter().filter_map(|it| it.label.as_deref()).collect::<Vec<_>>(), ["good"]);
    let page = b.stored_journal(&JournalCall { session: call, after: 0, limit: 100 }).await.unwrap();
    assert!(page.damage.is_some() && !page.entries.is_empty(), "{page:?}");
    b.restore(session.clone(), "good".to_owned()).await.unwrap();
    assert_eq!(value(&b, &session, "n").await, json!(41));
}
