//! `spec.durability`: what storage holds when a cell is answered, and what a lost pod takes with it.

use std::time::Instant;

use crate::common::{World, assign_spec, eval, spec, until, value};
use dormouse_crds::session::{Durability, KernelSessionSpec};
use dormouse_kernel::Pod;
use dormouse_protocol::eval::Woke;
use serde_json::json;

fn lagging(durability: Durability) -> KernelSessionSpec {
    KernelSessionSpec { durability, ..spec() }
}

/// Waits until storage has this sequence, without asking the session anything.
async fn stored(pod: &Pod, sequence: u64) {
    until(pod, "u1", |report| report.snapshot.as_ref().is_some_and(|snapshot| snapshot.sequence >= sequence)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn batched_cells_share_a_commit_that_comes_by_itself() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign_spec(&pod, "u1", 1, lagging(Durability::Batched));
    assert!(eval(&pod, &session, "let n = 0").await.durable, "the first commit under an epoch makes the owner");
    let began = Instant::now();
    for n in 1..=20 {
        let result = eval(&pod, &session, "++n").await;
        assert_eq!((result.value, result.durable, result.stats.committed_bytes), (Some(json!(n)), false, 0));
    }
    stored(&pod, 2).await;
    let sequence = pod.hibernate(session).await.unwrap().snapshot.unwrap().sequence;
    // The owner's and the last one, and what is due after each half second on a machine that is slow.
    let due = 2 + began.elapsed().as_millis() / 500 + 1;
    assert!(u128::from(sequence) <= due, "twenty cells and {sequence} commits");
    let other = world.pod("b");
    assert_eq!(value(&other, &assign_spec(&other, "u1", 2, lagging(Durability::Batched)), "n").await, json!(20));
}

#[tokio::test(flavor = "multi_thread")]
async fn on_idle_stores_at_rest_and_a_lost_pod_takes_the_rest_with_it() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign_spec(&pod, "u1", 1, lagging(Durability::OnIdle));
    assert!(eval(&pod, &session, "let n = 1").await.durable);
    assert!(!eval(&pod, &session, "n = 2").await.durable);
    assert_eq!(pod.hibernate(session.clone()).await.unwrap().snapshot.unwrap().sequence, 2);
    assert!(!eval(&pod, &session, "n = 3").await.durable);
    let other = world.pod("b");
    let moved = assign_spec(&other, "u1", 2, lagging(Durability::OnIdle));
    assert_eq!(value(&other, &moved, "n").await, json!(2), "what was not stored is gone, and nothing else");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_leaves_only_after_a_commit_whatever_the_durability() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign_spec(&pod, "u1", 1, lagging(Durability::OnIdle));
    value(&pod, &session, "globalThis.before = 'stored with the call'").await;
    assert!(!eval(&pod, &session, "globalThis.alone = 1").await.durable);
    let answer = eval(&pod, &session, "globalThis.answer = callTool('slow', { id: 5 }); 0").await;
    assert!(answer.durable, "the cell that calls is stored before the call leaves");
    world.tools.attempts(1).await;
    let other = world.pod("b");
    let moved = assign_spec(&other, "u1", 2, lagging(Durability::OnIdle));
    world.tools.open();
    assert_eq!(value(&other, &moved, "[alone, (await answer).id]").await, json!([1, 5]));
}

/// On one thread, so that what the first commit set going in the background is over when the session sleeps.
#[tokio::test]
async fn a_wake_in_place_asks_storage_nothing() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign_spec(&pod, "u1", 1, lagging(Durability::OnIdle));
    eval(&pod, &session, "let n = 1").await;
    pod.hibernate(session.clone()).await.unwrap();
    let before = world.store.requests();
    let result = eval(&pod, &session, "++n").await;
    assert_eq!((result.value, result.stats.woke, result.durable), (Some(json!(2)), Woke::Cache, false));
    assert_eq!(world.store.requests(), before, "a wake in place made a storage request");
    pod.hibernate(session.clone()).await.unwrap();
    assert!(world.store.requests() > before, "sleep stores what the cell did");
}
