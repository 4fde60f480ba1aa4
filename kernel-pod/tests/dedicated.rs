//! A pod of the isolation class `dedicated`: one session in its life, which it can run with what it is given for that one, and nothing that is kept
//! of it. And the pod that tells what such sessions have stored. `processes::dedicated` has the processes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::common::{Faulty, PATIENCE, UNUSABLE_KEY, World, assign, assign_spec, eval, grant, metric, ready, spec, try_eval, until, value};
use dormouse_crds::session::{KernelSessionSpec, Source};
use dormouse_kernel::{Claim, Pod};
use dormouse_protocol::kernel::{Assignment, JournalCall, RunsCall, StoredCall, UsageCall};
use dormouse_protocol::{ErrorCode, eval::Woke};
use dormouse_testkit::wait::eventually;
use serde_json::json;

/// Longer than a pod waits for the session that it was given to.
const LONG: Duration = Duration::from_secs(120);

/// A pod with what it needs for this session.
fn granted(world: &World, name: &str, uid: &str) -> Pod {
    let pod = world.dedicated_pod(name);
    pod.grant(&grant(&pod, uid, "key")).unwrap();
    pod
}

async fn ends(pod: &Pod) {
    tokio::time::timeout(PATIENCE, pod.spent()).await.expect("the pod ends");
}

fn stored(session: &Assignment) -> StoredCall {
    StoredCall { namespace: session.namespace.clone(), name: session.name.clone(), uid: session.uid.clone(), anchor: None }
}

fn journal(session: &Assignment) -> JournalCall {
    JournalCall { session: stored(session), after: 0, limit: 10 }
}

fn runs(session: &Assignment) -> RunsCall {
    RunsCall { session: stored(session), run: None, wait_ms: 0 }
}

fn usage() -> UsageCall {
    UsageCall { namespace: "team".to_owned(), days: vec!["2030-01-01".to_owned()] }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dedicated_pod_takes_one_session_and_refuses_every_other() {
    let world = World::default();
    let pod = world.dedicated_pod("a");
    assert_eq!((pod.info().slots, pod.info().used, pod.info().idle), (1, 0, 0), "whatever it is told of slots");
    pod.grant(&grant(&pod, "u1", "key")).unwrap();
    assert_eq!((pod.info().used, pod.info().idle), (1, 0), "nobody else is to be sent here");
    let session = assign(&pod, "u1", 1);
    assert_eq!(value(&pod, &session, "let n = 1; n").await, json!(1));
    assert_eq!((pod.info().used, pod.info().idle), (1, 0));
    let other = assign(&pod, "u2", 1);
    let refused = try_eval(&pod, &other, "1").await.unwrap_err();
    assert_eq!((refused.code, refused.retryable), (ErrorCode::CapacityExhausted, true));
    assert_eq!(pod.wake(other.clone()).await.unwrap_err().code, ErrorCode::CapacityExhausted);
    assert_eq!(value(&pod, &session, "++n").await, json!(2), "its own goes on");

    pod.hibernate(session).await.unwrap();
    ends(&pod).await;
    assert_eq!(pod.info().used, 1, "it is used up, also without the session");
    assert_eq!(try_eval(&pod, &other, "1").await.unwrap_err().code, ErrorCode::CapacityExhausted);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dedicated_pod_keeps_no_copy_of_a_session_that_sleeps() {
    let world = World::default();
    let (shared, dedicated) = (world.pod("a"), granted(&world, "b", "u2"));
    for (pod, uid, woke) in [(&shared, "u1", Woke::Cache), (&dedicated, "u2", Woke::Storage)] {
        let session = assign(pod, uid, 1);
        value(pod, &session, "let n = 1; n").await;
        pod.hibernate(session.clone()).await.unwrap();
        assert_eq!(metric(pod, "kernel_copies_bytes") > 0, woke == Woke::Cache, "{uid}");
        assert_eq!(eval(pod, &session, "n").await.stats.woke, woke, "{uid}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_what_it_needs_a_session_goes_elsewhere_and_its_pod_waits_for_another() {
    let world = World::default();
    let pod = world.dedicated_pod("a");
    assert!(pod.readiness().is_ready(), "else nothing would be placed on it: {:?}", pod.readiness().reasons());
    let refused = pod.wake(assign(&pod, "u1", 1)).await.unwrap_err();
    assert_eq!((refused.code, refused.retryable), (ErrorCode::CapacityExhausted, true));
    assert!(refused.message.contains("operator"), "{}", refused.message);
    assert_eq!(world.store.requests(), 0, "it has no store to ask");
    assert!(tokio::time::timeout(LONG, pod.spent()).await.is_err(), "it waits for a session as long as that takes");
    assert_eq!(pod.info().used, 0);
    pod.grant(&grant(&pod, "u2", "key")).unwrap();
    assert_eq!(value(&pod, &assign(&pod, "u2", 1), "6 * 7").await, json!(42));
    assert_eq!(pod.wake(assign(&pod, "u1", 2)).await.unwrap_err().code, ErrorCode::CapacityExhausted);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_comes_first_waits_for_what_it_needs() {
    let world = World::default();
    let pod = world.dedicated_pod("a");
    let session = assign(&pod, "u1", 1);
    let cell = tokio::spawn({
        let (pod, session) = (pod.clone(), session.clone());
        async move { try_eval(&pod, &session, "6 * 7").await }
    });
    eventually("the pod has the session", async || pod.info().used == 1).await;
    assert_eq!(pod.grant(&grant(&pod, "u2", "key")).unwrap_err().code, ErrorCode::CapacityExhausted, "that is another session's");
    assert!(world.keys_in_use.lock().unwrap().is_empty());
    pod.grant(&grant(&pod, "u1", "key")).unwrap();
    assert_eq!(cell.await.unwrap().unwrap().value, Some(json!(42)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_was_merely_claimed_leaves_a_pod_as_it_was() {
    let world = World::default();
    let (pod, claim) = (world.dedicated_pod("a"), Claim::default());
    let waking = tokio::spawn({
        let (pod, session, claim) = (pod.clone(), assign(&pod, "u1", 1), claim.clone());
        async move { pod.wake_claimed(session, Some(claim)).await }
    });
    eventually("the pod has the session", async || pod.info().used == 1).await;
    claim.withdraw();
    assert_eq!(waking.await.unwrap().unwrap_err().code, ErrorCode::SessionGone);
    eventually("it has none", async || pod.info().used == 0).await;
    pod.grant(&grant(&pod, "u2", "key")).unwrap();
    assert_eq!(value(&pod, &assign(&pod, "u2", 1), "6 * 7").await, json!(42));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_pod_is_given_is_for_this_process_and_its_session_and_may_be_replaced() {
    let world = World::default();
    let pod = world.dedicated_pod("a");
    let for_another = dormouse_protocol::kernel::Grant { boot: "another".to_owned(), ..grant(&pod, "u1", "key") };
    assert_eq!(pod.grant(&for_another).unwrap_err().code, ErrorCode::SessionGone);
    assert_eq!(pod.grant(&grant(&pod, "u1", UNUSABLE_KEY)).unwrap_err().code, ErrorCode::InvalidRequest);
    assert_eq!(pod.info().used, 0, "what cannot be used takes no pod");
    for other in [world.pod("b"), world.reader("c")] {
        assert_eq!(other.grant(&grant(&other, "u1", "key")).unwrap_err().code, ErrorCode::InvalidRequest);
    }

    pod.grant(&grant(&pod, "u1", "first")).unwrap();
    let session = assign(&pod, "u1", 1);
    value(&pod, &session, "let n = 1; n").await;
    pod.grant(&grant(&pod, "u1", "second")).unwrap();
    assert_eq!(pod.grant(&grant(&pod, "u2", "third")).unwrap_err().code, ErrorCode::CapacityExhausted);
    assert_eq!(pod.grant(&grant(&pod, "u1", UNUSABLE_KEY)).unwrap_err().code, ErrorCode::InvalidRequest);
    assert_eq!(*world.keys_in_use.lock().unwrap(), ["first", "second"]);
    assert_eq!(value(&pod, &session, "++n").await, json!(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dedicated_pod_asks_for_nothing_but_its_sessions_objects() {
    let others = Faulty::counting(|key| !key.starts_with("p/t/team/s/default/u1/"));
    let world = World { store: Arc::new(others), ..World::default() };
    let pod = granted(&world, "a", "u1");
    let session = assign(&pod, "u1", 1);
    value(&pod, &session, "let n = 1; n").await;
    pod.checkpoint(session.clone(), "here".to_owned()).await.unwrap();
    value(&pod, &session, "await callTool('echo', { x: 1 })").await;
    pod.hibernate(session.clone()).await.unwrap();
    assert_eq!(value(&pod, &session, "n").await, json!(1));
    assert_eq!(world.store.requests(), 0);
    pod.drain().await;
    assert!(world.store.puts() > 0 && world.store.requests() == world.store.puts(), "of what was used it tells, and reads nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_reads_objects_of_its_parent_and_lists_none() {
    let listings = Faulty::counting(|key| key.starts_with("p/t/team/s/default/u1") && key.ends_with('/'));
    let world = World { store: Arc::new(listings), ..World::default() };
    let shared = world.pod("a");
    let parent = assign(&shared, "u1", 1);
    value(&shared, &parent, "let n = 7; n").await;
    shared.drain().await;

    let pod = granted(&world, "b", "u2");
    let source = Source { session: parent.name.clone(), checkpoint: None };
    let forked = assign_spec(&pod, "u2", 1, KernelSessionSpec { source: Some(source), ..spec() });
    let child = Assignment { source_uid: Some(parent.uid.clone()), ..forked };
    assert_eq!(value(&pod, &child, "n").await, json!(7));
    assert_eq!(world.store.requests(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dedicated_pod_tells_what_is_stored_of_its_own_session_and_of_no_other() {
    let world = World::default();
    let shared = world.pod("a");
    let other = assign(&shared, "u2", 1);
    value(&shared, &other, "1").await;
    let pod = world.dedicated_pod("b");
    let session = assign(&pod, "u1", 1);
    assert_eq!(pod.stored_status(&stored(&session)).await.unwrap_err().code, ErrorCode::SessionGone, "it has none yet");
    pod.grant(&grant(&pod, "u1", "key")).unwrap();
    value(&pod, &session, "let n = 1; n").await;
    assert!(!pod.stored_journal(&journal(&session)).await.unwrap().entries.is_empty());
    assert!(pod.stored_status(&stored(&session)).await.unwrap().snapshot.is_some());
    pod.stored_checkpoints(&stored(&session)).await.unwrap();
    pod.runs(&runs(&session)).await.unwrap();

    let refused = [
        pod.stored_journal(&journal(&other)).await.map(drop),
        pod.stored_status(&stored(&other)).await.map(drop),
        pod.stored_checkpoints(&stored(&other)).await.map(drop),
        pod.stored_approvals(&stored(&other)).await.map(drop),
        pod.stored_hostcalls(&stored(&other)).await.map(drop),
        pod.stored_mcp(&stored(&other)).await.map(drop),
        pod.runs(&runs(&other)).await.map(drop),
        pod.stored_usage(&usage()).await.map(drop),
    ];
    for refused in refused {
        assert_eq!(refused.unwrap_err().code, ErrorCode::SessionGone, "whoever asks tries another pod");
    }
    pod.live_usage(&usage()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_pod_ends_whose_session_does_not_come_or_cannot_begin() {
    let world = World::default();
    let unused = granted(&world, "a", "u1");
    tokio::time::timeout(LONG, unused.spent()).await.expect("its session does not come");

    world.store.down.store(true, Ordering::SeqCst);
    let pod = granted(&world, "b", "u1");
    assert_eq!(pod.wake(assign(&pod, "u1", 1)).await.unwrap_err().code, ErrorCode::StorageUnavailable);
    tokio::time::timeout(LONG, pod.spent()).await.expect("its session cannot begin");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_does_not_end_before_it_is_known_whether_its_session_is_stored() {
    let world = World::default();
    let pod = granted(&world, "a", "u1");
    let session = assign(&pod, "u1", 1);
    value(&pod, &session, "let n = 1; n").await;
    world.store.down.store(true, Ordering::SeqCst);
    assert_eq!(try_eval(&pod, &session, "++n").await.unwrap_err().code, ErrorCode::StorageUnavailable);
    // When this is answered, all that came of the one before is done.
    assert_eq!(try_eval(&pod, &session, "n").await.unwrap_err().code, ErrorCode::StorageUnavailable);
    until(&pod, "u1", |report| !report.holds_slot).await;
    world.store.down.store(false, Ordering::SeqCst);
    assert_eq!(value(&pod, &session, "n").await, json!(2));
    pod.hibernate(session).await.unwrap();
    ends(&pod).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_ends_whose_session_is_elsewhere_or_deleted() {
    let world = World::default();
    let pod = granted(&world, "a", "u1");
    let session = assign(&pod, "u1", 1);
    value(&pod, &session, "let n = 1; n").await;
    let shared = world.pod("b");
    assert_eq!(value(&shared, &assign(&shared, "u1", 2), "++n").await, json!(2));
    assert_eq!(try_eval(&pod, &session, "++n").await.unwrap_err().code, ErrorCode::SessionGone);
    ends(&pod).await;

    let pod = granted(&world, "c", "u3");
    let session = assign(&pod, "u3", 1);
    value(&pod, &session, "1").await;
    pod.forget(session).await.unwrap();
    ends(&pod).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_tells_what_is_stored_and_runs_no_session() {
    let world = World::default();
    let pod = granted(&world, "a", "u1");
    let session = assign(&pod, "u1", 1);
    value(&pod, &session, "let n = 1; n").await;
    pod.hibernate(session.clone()).await.unwrap();
    pod.drain().await;

    let reader = world.reader("r");
    ready(&reader).await;
    assert_eq!((reader.info().slots, reader.info().used, reader.info().idle), (0, 0, 0), "whatever it is told of slots");
    assert!(!reader.stored_journal(&journal(&session)).await.unwrap().entries.is_empty());
    assert!(reader.stored_status(&stored(&session)).await.unwrap().snapshot.is_some());
    reader.runs(&runs(&session)).await.unwrap();
    reader.stored_usage(&usage()).await.unwrap();
    let here = assign(&reader, "u1", 2);
    for refused in [try_eval(&reader, &here, "n").await.map(drop), reader.wake(here.clone()).await.map(drop)] {
        let refused = refused.unwrap_err();
        assert_eq!((refused.code, refused.retryable), (ErrorCode::CapacityExhausted, true));
        assert!(refused.message.contains("runs no session"), "{}", refused.message);
    }
}
