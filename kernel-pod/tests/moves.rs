//! Two pods over one store: moves, lost replies, takeovers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::common::{Faulty, World, assign, call, eval, timers_done, try_eval, until, value, without_rest};
use dormouse_protocol::ErrorCode;
use dormouse_protocol::eval::Woke;
use dormouse_protocol::kernel::{Assignment, ReportLine};
use dormouse_protocol::session::State;
use dormouse_store::SnapshotStore as _;
use dormouse_testkit::wait::eventually;
use futures::StreamExt as _;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_closure_survives_sleep_and_a_move() {
    let world = World::default();
    let (a, b) = (world.pod("a"), world.pod("b"));
    let on_a = assign(&a, "u1", 1);
    value(&a, &on_a, "const counter = (() => { let n = 0; return () => ++n })(); class P { constructor(public x: number) {} }; const m = new Map([['p', new P(4)]]); counter()").await;
    let report = a.hibernate(on_a).await.unwrap();
    assert_eq!((report.state, report.snapshot.map(|snapshot| snapshot.sequence)), (State::Hibernated, Some(1)));
    let moved = eval(&b, &assign(&b, "u1", 2), "[counter(), m.get('p').x, m.get('p') instanceof P]").await;
    assert_eq!((moved.value, moved.stats.woke, moved.cell), (Some(json!([2, 4, true])), Woke::Storage, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pending_tool_call_is_answered_after_a_lost_pod_and_made_once() {
    let world = World::default();
    let (a, b) = (world.pod("a"), world.pod("b"));
    let on_a = assign(&a, "u1", 1);
    value(&a, &on_a, "globalThis.answer = callTool('slow', { id: 5 }); 0").await;
    world.tools.attempts(1).await;
    a.forget(on_a).await.unwrap();
    let on_b = assign(&b, "u1", 2);
    b.wake(on_b.clone()).await.unwrap();
    assert_eq!(world.tools.attempts(2).await, [false, true], "the second pod cannot know whether the first one's call arrived");
    world.tools.open();
    assert_eq!(value(&b, &on_b, "await answer").await, json!({ "id": 5 }));
    assert_eq!(world.tools.effects.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_that_awaits_goes_on_in_another_pod_and_its_retry_joins_it() {
    let world = World::default();
    let (a, b) = (world.pod("a"), world.pod("b"));
    let on_a = assign(&a, "u1", 1);
    let code = "globalThis.runs = (globalThis.runs ?? 0) + 1; const got = await callTool('slow', { id: 6 }); [runs, got.id]";
    let lost = tokio::spawn({
        let (a, call) = (a.clone(), call(&on_a, code, "the-key"));
        async move { a.eval(call).await }
    });
    until(&a, "u1", |report| report.state == State::WaitingForTool).await;
    world.tools.attempts(1).await;
    a.drain().await;
    let error = lost.await.unwrap().unwrap_err();
    assert_eq!((error.code, error.retryable), (ErrorCode::SessionGone, true));
    assert!(a.info().draining && a.info().used == 0);
    assert_eq!(try_eval(&a, &on_a, "1").await.unwrap_err().code, ErrorCode::SessionGone);

    let again = tokio::spawn({
        let (b, call) = (b.clone(), call(&assign(&b, "u1", 2), code, "the-key"));
        async move { b.eval(call).await }
    });
    world.tools.attempts(2).await;
    world.tools.open();
    let result = again.await.unwrap().unwrap();
    assert_eq!((result.value, result.cell), (Some(json!([1, 6])), 1));
    assert_eq!(world.tools.effects.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_takeover_the_old_pod_acks_nothing() {
    let world = World::default();
    let (a, b) = (world.pod("a"), world.pod("b"));
    let on_a = assign(&a, "u1", 1);
    value(&a, &on_a, "let n = 1; n").await;
    let on_b = assign(&b, "u1", 2);
    assert_eq!(value(&b, &on_b, "++n").await, json!(2));
    let mut lines = Box::pin(a.report());
    assert_eq!(try_eval(&a, &on_a, "n = 100").await.unwrap_err().code, ErrorCode::SessionGone);
    while lines.next().await.unwrap() != (ReportLine::Forgotten { uid: "u1".to_owned(), epoch: 1 }) {}
    assert_eq!(value(&b, &on_b, "++n").await, json!(3));
    // Nor does it restore under its old right.
    assert_eq!(try_eval(&a, &on_a, "n").await.unwrap_err().code, ErrorCode::SessionGone);
}

/// Whatever kept it from beginning: a pool is not to be larger for it than it need be.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_could_not_begin_is_told_of_as_one_without_a_slot() {
    let world = World::default();
    let pod = world.pod("a");
    value(&pod, &assign(&pod, "other", 1), "1").await;
    world.store.down.store(true, Ordering::SeqCst);
    let session = assign(&pod, "u1", 1);
    assert_eq!(try_eval(&pod, &session, "1").await.unwrap_err().code, ErrorCode::StorageUnavailable);
    let told = until(&pod, "u1", |report| !report.holds_slot).await;
    assert_eq!((told.snapshot, pod.info().used), (None, 1));
    world.store.down.store(false, Ordering::SeqCst);
    value(&pod, &session, "1").await;
    until(&pod, "u1", |report| report.holds_slot).await;
}

/// The operator tells a pod so that does not know that a session is another's.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_lets_go_of_a_session_under_the_epoch_that_is_named_and_of_no_other() {
    let world = World::default();
    let (a, b) = (world.pod("a"), world.pod("b"));
    let on_a = assign(&a, "u1", 1);
    value(&a, &on_a, "let n = 1; n").await;
    let elsewhere = Assignment { boot: "another".to_owned(), ..on_a.clone() };
    for other in [assign(&a, "u1", 2), assign(&a, "u2", 1), elsewhere] {
        assert_eq!(a.leave(other).await.unwrap_err().code, ErrorCode::SessionGone);
    }
    assert_eq!(a.info().used, 1);
    let on_b = assign(&b, "u1", 2);
    assert_eq!(value(&b, &on_b, "++n").await, json!(2));
    a.leave(on_a).await.unwrap();
    assert_eq!(a.info().used, 0);
    assert_eq!(value(&b, &on_b, "++n").await, json!(3), "whose it is keeps it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_after_the_commit_and_before_the_ack_runs_nothing_twice() {
    let world = World::default();
    let (a, b) = (world.pod("a"), world.pod("b"));
    let on_a = assign(&a, "u1", 1);
    value(&a, &on_a, "let n = 0; n").await;
    let first = a.eval(call(&on_a, "++n", "once")).await.unwrap();
    let here = a.eval(call(&on_a, "++n", "once")).await.unwrap();
    assert_eq!(here.value, Some(json!(1)));
    let on_b = assign(&b, "u1", 2);
    let there = b.eval(call(&on_b, "++n", "once")).await.unwrap();
    assert_eq!((there.value, there.cell, there.sequence), (first.value, first.cell, first.sequence));
    assert_eq!(value(&b, &on_b, "n").await, json!(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_attempt_that_waited_in_another_pod_runs_nothing_again() {
    let world = World::default();
    let (a, b) = (world.pod("a"), world.pod("b"));
    let on_a = assign(&a, "u1", 1);
    value(&a, &on_a, "let n = 0; n").await;
    a.eval(call(&on_a, "++n", "late")).await.unwrap();
    value(&a, &on_a, "++n").await;
    // The client has the answer, from A, and went on; its first attempt only now gets its turn in B.
    let on_b = assign(&b, "u1", 2);
    let again = b.eval(call(&on_b, "++n", "late")).await.unwrap();
    assert_eq!((again.value, again.cell), (Some(json!(1)), 2));
    assert_eq!(value(&b, &on_b, "n").await, json!(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_attempt_whose_answer_was_large_hears_which_cell_it_was() {
    let world = World::default();
    let (a, b) = (world.pod("a"), world.pod("b"));
    let on_a = assign(&a, "u1", 1);
    value(&a, &on_a, "let n = 0; n").await;
    a.eval(call(&on_a, "++n; 'x'.repeat(20000)", "late")).await.unwrap();
    value(&a, &on_a, "++n").await;
    let on_b = assign(&b, "u1", 2);
    let error = b.eval(call(&on_b, "++n; 'x'.repeat(20000)", "late")).await.unwrap_err();
    assert_eq!((error.code, error.retryable), (ErrorCode::Conflict, false));
    assert_eq!(error.details.unwrap()["cell"], json!(2));
    assert_eq!(value(&b, &on_b, "n").await, json!(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_of_the_store_is_found_out() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    value(&pod, &session, "let n = 0; n").await;
    world.store.lose_reply.store(true, Ordering::SeqCst);
    let result = eval(&pod, &session, "++n").await;
    assert_eq!((result.value, result.sequence), (Some(json!(1)), 2));
    assert_eq!(value(&pod, &session, "++n").await, json!(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_predecessors_late_commit_is_restored_and_the_cell_runs_on_it() {
    let world = World::default();
    let (a, b) = (world.pod("a"), world.pod("b"));
    let on_a = assign(&a, "u1", 1);
    value(&a, &on_a, "let n = 1; n").await;
    let on_b = assign(&b, "u1", 2);
    b.wake(on_b.clone()).await.unwrap();
    // B has restored and not committed: A still owns the session, and acks.
    assert_eq!(without_rest(&b, &on_b, value(&a, &on_a, "n += 10")).await, json!(11));
    assert_eq!(value(&b, &on_b, "++n").await, json!(12));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_comes_back_does_not_wake_from_a_stale_copy() {
    let world = World::default();
    let (a, b) = (world.pod("a"), world.pod("b"));
    let on_a = assign(&a, "u1", 1);
    value(&a, &on_a, "let n = 1; n").await;
    a.hibernate(on_a).await.unwrap();
    value(&b, &assign(&b, "u1", 2), "n = 5").await;
    let back = eval(&a, &assign(&a, "u1", 3), "n").await;
    assert_eq!((back.value, back.stats.woke), (Some(json!(5)), Woke::Storage));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_fires_after_the_sleep_in_which_it_was_due() {
    let world = World::default();
    let (a, b) = (world.pod("a"), world.pod("b"));
    let on_a = assign(&a, "u1", 1);
    // Long enough for a busy machine to put the session to sleep before.
    value(&a, &on_a, "let fired = 0; setTimeout(() => { fired++ }, 2000); fired").await;
    let asleep = a.hibernate(on_a).await.unwrap();
    assert!(asleep.next_wake_time.is_some());
    let on_b = assign(&b, "u1", 2);
    timers_done(&b, &on_b).await;
    assert_eq!(value(&b, &on_b, "fired").await, json!(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_process_of_the_same_name_takes_nothing() {
    let world = World::default();
    let (before, after) = (world.pod("a"), world.pod("a"));
    let error = try_eval(&after, &assign(&before, "u1", 1), "1").await.unwrap_err();
    assert_eq!(error.code, ErrorCode::SessionGone);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsafe_store_is_refused_by_name() {
    let world = World::default();
    world.store.ignore_conditions.store(true, Ordering::SeqCst);
    let pod = world.pod("a");
    let error = try_eval(&pod, &assign(&pod, "u1", 1), "1").await.unwrap_err();
    assert_eq!(error.code, ErrorCode::StorageUnsafe);
    let reasons = pod.readiness().reasons();
    assert!(reasons.iter().any(|reason| reason.reason.contains("StorageUnsafe")), "{reasons:?}");
}

#[tokio::test]
async fn a_pod_that_ends_while_it_probes_its_store_leaves_nothing_there() {
    let world = World { store: Arc::new(Faulty::default().slow(10_000)), ..World::default() };
    let pod = world.pod("a");
    eventually("the probe begins", async || world.store.puts() > 0).await;
    pod.drain().await;
    assert_eq!(world.store.list("").await.unwrap(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_comes_up_later_makes_the_pod_ready() {
    let world = World::default();
    world.store.down.store(true, Ordering::SeqCst);
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    assert_eq!(try_eval(&pod, &session, "1").await.unwrap_err().code, ErrorCode::StorageUnavailable);
    until(&pod, "u1", |report| report.state == State::Failed).await;
    world.store.down.store(false, Ordering::SeqCst);
    let mut answer = None;
    let answers = async || {
        let answered = try_eval(&pod, &session, "1").await;
        let away = answered.as_ref().is_err_and(|error| error.code == ErrorCode::StorageUnavailable);
        answer = Some(answered);
        !away
    };
    eventually("the pod finds its store", answers).await;
    assert_eq!(answer.unwrap().unwrap().value, Some(json!(1)));
    assert!(pod.readiness().is_ready());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_heap_moves_whole_and_leaves_no_segment_behind() {
    let world = World::default();
    let (a, b) = (world.pod("a"), world.pod("b"));
    let on_a = assign(&a, "u1", 1);
    value(&a, &on_a, "const blocks: Uint32Array[] = []; let seed = 1; const fill = () => { const block = new Uint32Array(50000); for (let i = 0; i < block.length; i++) { seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0; block[i] = seed } blocks.push(block) }; 0").await;
    let sum = "let sum = 0; for (const block of blocks) for (const x of block) sum = (sum + x) >>> 0; sum";
    for _ in 0..12 {
        value(&a, &on_a, "fill(); 0").await;
    }
    let expected = value(&a, &on_a, sum).await;
    a.hibernate(on_a).await.unwrap();
    let on_b = assign(&b, "u1", 2);
    assert_eq!(value(&b, &on_b, sum).await, expected);

    let key = "p/t/team/s/default/u1/head";
    let mut objects = 0;
    let settled = async || {
        let head = world.store.get(key).await.unwrap().unwrap();
        let head = dormouse_lifecycle::Head::decode(&head.bytes).unwrap();
        let named: BTreeSet<String> = head.named_keys().chain([key]).map(str::to_owned).collect();
        let stored: BTreeSet<String> = world.store.list("p/t/team/s/default/u1/").await.unwrap().into_iter().collect();
        objects = named.len();
        named == stored
    };
    eventually("only what the head names stays", settled).await;
    assert!((2..=10).contains(&objects), "{objects} objects");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_owners_first_commit_sweeps_what_predecessors_left() {
    let world = World::default();
    let (a, b) = (world.pod("a"), world.pod("b"));
    value(&a, &assign(&a, "u1", 1), "let n = 1; n").await;
    let key = |name: &str| format!("p/t/team/s/default/u1/{name}");
    let put = async |name: &str| world.store.put(&key(name), "x".into(), dormouse_store::Condition::None).await.unwrap();
    let hash = "ab".repeat(16);
    let (litter, ahead) = (format!("1-2-{hash}"), format!("3-1-{hash}"));
    for name in [litter.as_str(), ahead.as_str(), "not-ours"] {
        put(name).await;
    }
    let on_b = assign(&b, "u1", 2);
    b.wake(on_b.clone()).await.unwrap();
    assert!(world.store.get(&key(&litter)).await.unwrap().is_some(), "a restore alone proves nothing about predecessors");
    value(&b, &on_b, "++n").await;
    eventually("the litter goes", async || world.store.get(&key(&litter)).await.unwrap().is_none()).await;
    let mut left = world.store.list(&key("")).await.unwrap();
    left.sort();
    assert_eq!(left, [key(&ahead), key("head"), key("not-ours")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sleeping_cell_goes_on_without_its_client_and_its_answer_is_kept() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    let code = "globalThis.runs = (globalThis.runs ?? 0) + 1; (await callTool('slow', { id: 8 })).id + runs";
    let lost = tokio::spawn({
        let (pod, call) = (pod.clone(), call(&session, code, "kept"));
        async move { pod.eval(call).await }
    });
    until(&pod, "u1", |report| report.state == State::WaitingForTool).await;
    // The report comes before the call has left, and a call that has not left when the session goes to sleep leaves at the wake only.
    world.tools.attempts(1).await;
    assert_eq!(pod.hibernate(session.clone()).await.unwrap().state, State::Hibernated);
    assert_eq!(lost.await.unwrap().unwrap_err().code, ErrorCode::SessionGone);
    pod.wake(session.clone()).await.unwrap();
    world.tools.attempts(2).await;
    world.tools.open();
    until(&pod, "u1", |report| report.state == State::Idle).await;
    let kept = pod.eval(call(&session, code, "kept")).await.unwrap();
    assert_eq!((kept.value, kept.cell), (Some(json!(9)), 1));
    assert_eq!(world.tools.effects.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_spec_is_in_force_without_losing_the_heap() {
    let world = World::default();
    let pod = world.pod("a");
    let mut session = assign(&pod, "u1", 1);
    session.spec.limits.heap_bytes = 8 << 20;
    value(&pod, &session, "let n = 1; n").await;
    let large =
        "(() => { const all: string[] = []; for (let i = 0; i < 200; i++) all.push('x'.repeat(1 << 16) + i); return all.length })()";
    assert_eq!(eval(&pod, &session, large).await.error.unwrap().code, ErrorCode::MemoryLimitError);
    session.generation = 2;
    session.spec.limits.heap_bytes = 64 << 20;
    assert_eq!(pod.wake(session.clone()).await.unwrap().generation, 2);
    assert_eq!(value(&pod, &session, large).await, json!(200));
    assert_eq!(value(&pod, &session, "n").await, json!(1));
}
