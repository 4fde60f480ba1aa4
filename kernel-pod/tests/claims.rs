//! Sessions whose assignment is only claimed so far: they restore and run, and nothing of it leaves before status has the assignment.

use std::time::Duration;

use crate::common::{World, assign, call, eval, try_eval, until, value};
use dormouse_kernel::{Claim, Pod};
use dormouse_lifecycle::Head;
use dormouse_protocol::eval::EvalResult;
use dormouse_protocol::kernel::{Assignment, ReportLine};
use dormouse_protocol::{ApiError, ErrorCode};
use dormouse_store::SnapshotStore as _;
use dormouse_testkit::wait::eventually;
use futures::StreamExt as _;
use serde_json::json;
use tokio::task::JoinHandle;

/// How long what must not happen is given to happen.
const GRACE: Duration = Duration::from_millis(150);

fn claimed(pod: &Pod, session: &Assignment, code: &str, key: &str, claim: &Claim) -> JoinHandle<Result<EvalResult, ApiError>> {
    let (pod, call, claim) = (pod.clone(), call(session, code, key), claim.clone());
    tokio::spawn(async move { pod.eval_claimed(call, Some(claim)).await })
}

async fn head(world: &World, uid: &str) -> Option<Head> {
    let object = world.store.get(&format!("p/t/team/s/default/{uid}/head")).await.unwrap()?;
    Some(Head::decode(&object.bytes).unwrap())
}

/// Waits until a head of this epoch is stored.
async fn stored(world: &World, uid: &str, epoch: u64) {
    eventually("it is stored", async || head(world, uid).await.is_some_and(|head| head.epoch >= epoch)).await;
}

/// Whether the pod has told anybody of the session.
async fn is_told(pod: &Pod, uid: &str) -> bool {
    let mut lines = Box::pin(pod.report());
    while let Ok(Some(line)) = tokio::time::timeout(GRACE, lines.next()).await {
        match line {
            ReportLine::Session(report) if report.uid == uid => return true,
            ReportLine::Forgotten { uid: gone, .. } if gone == uid => return true,
            _ => {}
        }
    }
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claimed_cell_is_stored_and_answered_once_the_claim_is_confirmed() {
    let world = World::default();
    let (a, b) = (world.pod("a"), world.pod("b"));
    assert_eq!(value(&a, &assign(&a, "u", 1), "var n = 1; n").await, json!(1));
    let (session, claim) = (assign(&b, "u", 2), Claim::default());
    let asked = claimed(&b, &session, "++n", "k", &claim);
    stored(&world, "u", 2).await;
    assert!(!is_told(&b, "u").await, "the operator hears of what status has");
    assert!(!asked.is_finished());
    claim.confirm();
    let result = asked.await.unwrap().unwrap();
    assert_eq!((result.value, result.stats.woke), (Some(json!(2)), dormouse_protocol::eval::Woke::Storage));
    until(&b, "u", |report| report.epoch == 2).await;
    assert_eq!(value(&b, &session, "n").await, json!(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_lost_leaves_a_valid_state_to_another_epoch_only() {
    let world = World::default();
    let (a, b, c) = (world.pod("a"), world.pod_with("b", 1), world.pod("c"));
    eval(&a, &assign(&a, "u", 1), "var n = 1; n").await;
    let (session, claim) = (assign(&b, "u", 2), Claim::default());
    let asked = claimed(&b, &session, "++n", "k", &claim);
    stored(&world, "u", 2).await;
    claim.withdraw();
    assert_eq!(asked.await.unwrap().unwrap_err().code, ErrorCode::SessionGone);
    assert!(!is_told(&b, "u").await, "what never was is not told to be gone");
    // A moment after the answer.
    eventually("its only slot is free again", async || b.info().used == 0).await;
    assert_eq!(value(&b, &assign(&b, "other", 1), "1").await, json!(1));
    // Status gave the epoch to another process: the head says whose it is.
    let gone = try_eval(&c, &assign(&c, "u", 2), "n").await.unwrap_err();
    assert_eq!(gone.code, ErrorCode::SessionGone, "{gone}");
    let next = assign(&c, "u", 3);
    assert_eq!(c.eval(call(&next, "++n", "k")).await.unwrap().value, Some(json!(2)), "the cell has run; its key says so");
    assert_eq!(value(&c, &next, "n").await, json!(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sessions_first_head_waits_for_its_claim() {
    let world = World::default();
    let pod = world.pod("a");
    let (session, claim) = (assign(&pod, "u", 1), Claim::default());
    let asked = claimed(&pod, &session, "1 + 1", "k", &claim);
    assert!(!is_told(&pod, "u").await);
    assert!(head(&world, "u").await.is_none(), "nobody would remove it");
    claim.confirm();
    assert_eq!(asked.await.unwrap().unwrap().value, Some(json!(2)));
    assert!(head(&world, "u").await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_call_leaves_under_a_claim() {
    let world = World::default();
    let (a, b) = (world.pod("a"), world.pod("b"));
    let (owner, awaits) = (a.clone(), call(&assign(&a, "u", 1), "await callTool('slow', { n: 1 })", "one"));
    let waiting = tokio::spawn(async move { owner.eval(awaits).await });
    world.tools.attempts(1).await;
    let (session, claim) = (assign(&b, "u", 2), Claim::default());
    let asked = claimed(&b, &session, "await callTool('echo', { n: 2 })", "two", &claim);
    assert!(!is_told(&b, "u").await);
    assert_eq!(world.tools.attempts(1).await, [false], "the call of the restored heap is not asked for again");
    claim.confirm();
    assert_eq!(world.tools.attempts(2).await, [false, true]);
    world.tools.open();
    assert_eq!(asked.await.unwrap().unwrap().value, Some(json!({ "n": 2 })));
    waiting.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_has_it_from_status_confirms_the_claim() {
    let world = World::default();
    let (a, b) = (world.pod("a"), world.pod("b"));
    eval(&a, &assign(&a, "u", 1), "var n = 1; n").await;
    let (session, claim) = (assign(&b, "u", 2), Claim::default());
    let asked = claimed(&b, &session, "++n", "k", &claim);
    stored(&world, "u", 2).await;
    // Another gateway has won with the same place; the first learns that it lost.
    assert_eq!(value(&b, &session, "++n").await, json!(3));
    claim.withdraw();
    assert_eq!(asked.await.unwrap().unwrap().value, Some(json!(2)));
    assert_eq!(value(&b, &session, "n").await, json!(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_on_a_session_that_is_here_waits() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u", 1);
    eval(&pod, &session, "var n = 1; n").await;
    let (later, claim) = (assign(&pod, "u", 2), Claim::default());
    let asked = claimed(&pod, &later, "++n", "k", &claim);
    assert_eq!(value(&pod, &session, "n").await, json!(1), "the old right holds while the new one is claimed");
    claim.withdraw();
    assert_eq!(asked.await.unwrap().unwrap_err().code, ErrorCode::SessionGone);
    assert_eq!(value(&pod, &session, "n").await, json!(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_under_a_claim_is_made_once_the_claim_is_confirmed() {
    let world = World::default();
    let (a, b) = (world.pod("a"), world.pod("b"));
    eval(&a, &assign(&a, "u", 1), "0").await;
    world.tools.open();
    let (session, claim) = (assign(&b, "u", 2), Claim::default());
    let asked = claimed(&b, &session, "await callTool('echo', { id: 7 })", "k", &claim);
    stored(&world, "u", 2).await;
    assert!(!is_told(&b, "u").await);
    assert_eq!(world.tools.effects.load(std::sync::atomic::Ordering::SeqCst), 0, "nothing leaves before status has the assignment");
    claim.confirm();
    let result = asked.await.unwrap().unwrap();
    assert_eq!((result.ok, result.value), (true, Some(json!({ "id": 7 }))), "{:?}", result.error);
    assert_eq!(world.tools.effects.load(std::sync::atomic::Ordering::SeqCst), 1);
}
