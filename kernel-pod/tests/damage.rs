//! Stored bytes that do not verify: the session says so, and nothing of it is overwritten.

use std::collections::BTreeMap;

use crate::common::{World, assign, try_eval, until, value};
use bytes::Bytes;
use dormouse_kernel::Pod;
use dormouse_protocol::ErrorCode;
use dormouse_protocol::session::State;
use dormouse_store::{Condition, SnapshotStore as _};
use serde_json::json;

const HEAD: &str = "p/t/team/s/default/u1/head";

/// Everything that is stored of the session.
async fn stored(world: &World) -> BTreeMap<String, Bytes> {
    let mut objects = BTreeMap::new();
    for key in world.store.list("p/t/team/s/default/").await.unwrap() {
        let object = world.store.get(&key).await.unwrap().unwrap();
        objects.insert(key, object.bytes);
    }
    objects
}

async fn overwrite(world: &World, key: &str, bytes: Bytes) {
    world.store.put(key, bytes, Condition::None).await.unwrap();
}

fn flipped(bytes: &Bytes, at: usize) -> Bytes {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= 0x10;
    bytes.into()
}

/// A session on pod `a`, asleep, with a head and at least one segment.
async fn asleep(world: &World, a: &Pod) -> String {
    let on_a = assign(a, "u1", 1);
    let noise = "let n = 41; const noise = new Uint32Array(30000); let seed = 1; \
                 for (let i = 0; i < noise.length; i++) { seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0; noise[i] = seed }; n";
    value(a, &on_a, noise).await;
    a.hibernate(on_a).await.unwrap();
    world.store.list("p/t/team/s/default/u1/").await.unwrap().into_iter().find(|key| key != HEAD).expect("a segment")
}

/// The session is refused on `pod` for what is stored, and stays as it is stored.
async fn is_refused(world: &World, pod: &Pod, epoch: u64) {
    let before = stored(world).await;
    let on = assign(pod, "u1", epoch);
    for _ in 0..2 {
        let error = try_eval(pod, &on, "n = 0").await.unwrap_err();
        assert_eq!((error.code, error.retryable), (ErrorCode::SnapshotCorrupt, false), "{error}");
    }
    // Put to sleep it may be, as nothing of it is live; it is not called asleep.
    match pod.hibernate(on).await {
        Ok(report) => assert_eq!(report.state, State::Failed),
        Err(error) => assert_eq!(error.code, ErrorCode::SnapshotCorrupt),
    }
    let report = until(pod, "u1", |report| report.state == State::Failed).await;
    assert_eq!(report.failure.unwrap().code, ErrorCode::SnapshotCorrupt);
    assert_eq!(stored(world).await, before, "every byte stays in its place");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_head_or_segment_fails_the_session_and_stays_in_its_place() {
    let world = World::default();
    let segment = asleep(&world, &world.pod("a")).await;
    let whole = stored(&world).await;
    let (mut epoch, b) = (1, world.pod("b"));
    for key in [HEAD, &segment] {
        let bytes = &whole[key];
        let damages = [
            flipped(bytes, 0),
            flipped(bytes, bytes.len() / 2),
            flipped(bytes, bytes.len() - 1),
            bytes.slice(..bytes.len() / 2),
            Bytes::new(),
            whole[if key == HEAD { segment.as_str() } else { HEAD }].clone(),
        ];
        for damaged in damages {
            overwrite(&world, key, damaged).await;
            epoch += 1;
            is_refused(&world, &b, epoch).await;
        }
        overwrite(&world, key, bytes.clone()).await;
    }
    // Put right by a person, it runs without anything being restarted.
    assert_eq!(value(&b, &assign(&b, "u1", epoch), "++n").await, json!(42));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_segment_fails_the_session() {
    let world = World::default();
    let segment = asleep(&world, &world.pod("a")).await;
    world.store.delete(&segment).await.unwrap();
    is_refused(&world, &world.pod("b"), 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_sessions_head_is_no_head_of_this_one() {
    let world = World::default();
    let a = world.pod("a");
    asleep(&world, &a).await;
    value(&a, &assign(&a, "u2", 1), "let n = 1; n").await;
    let other = world.store.get("p/t/team/s/default/u2/head").await.unwrap().unwrap();
    overwrite(&world, HEAD, other.bytes).await;
    is_refused(&world, &world.pod("b"), 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_session_does_not_write_over_damage() {
    let world = World::default();
    let a = world.pod("a");
    let on_a = assign(&a, "u1", 1);
    value(&a, &on_a, "let n = 1; n").await;
    let head = world.store.get(HEAD).await.unwrap().unwrap();
    overwrite(&world, HEAD, flipped(&head.bytes, 40)).await;
    is_refused(&world, &a, 1).await;
    overwrite(&world, HEAD, head.bytes).await;
    assert_eq!(value(&a, &on_a, "n").await, json!(1), "what was refused was not acked");
}
