//! Runs: accepted once, run once, found again by whoever has the session next, and ended truthfully.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use crate::common::{World, assign, assign_spec, call, spec, value};
use dormouse_crds::session::{ClientTool, Durability, KernelSessionSpec};
use dormouse_kernel::Pod;
use dormouse_protocol::ErrorCode;
use dormouse_protocol::broker::ToolAnswer;
use dormouse_protocol::kernel::{AnswerCall, Assignment, CancelRunCall, EvalCall, RunsCall, StoredCall};
use dormouse_protocol::run::{Progress, Run, RunState};
use serde_json::json;

fn look(session: &Assignment, run: &str, wait_ms: u64) -> RunsCall {
    let stored =
        StoredCall { namespace: session.namespace.clone(), name: session.name.clone(), uid: session.uid.clone(), anchor: session.anchor };
    RunsCall { session: stored, run: Some(run.to_owned()), wait_ms }
}

async fn seen(pod: &Pod, session: &Assignment, run: &str) -> Run {
    pod.runs(&look(session, run, 0)).await.unwrap().items.remove(0)
}

async fn ended(pod: &Pod, session: &Assignment, run: &str) -> Run {
    let run = pod.runs(&look(session, run, 30_000)).await.unwrap().items.remove(0);
    assert!(run.state.is_end(), "{run:?}");
    run
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_accepted_once_and_keeps_its_end() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    let cell = call(&session, "globalThis.n = (globalThis.n ?? 0) + 1; console.log('hi'); n", "k");
    let run = pod.accept_run(cell.clone()).await.unwrap();
    assert_eq!(run.idempotency_key, "k");
    let end = ended(&pod, &session, &run.id).await;
    assert_eq!((end.state, end.cell, end.heartbeat_at.clone()), (RunState::Succeeded, Some(1), None));
    let result = end.result.clone().unwrap();
    assert_eq!((result.value, result.console.len()), (Some(json!(1)), 1));
    assert!(end.started_at.is_some() && end.ended_at.is_some());
    assert_eq!(pod.accept_run(cell.clone()).await.unwrap(), end, "the same key is the same run");
    assert_eq!(pod.eval(cell.clone()).await.unwrap().value, Some(json!(1)), "and an eval with it gets its end");
    // A pod that has never seen it reads the same from the store.
    assert_eq!(seen(&world.pod("b"), &session, &run.id).await, end);
    assert_eq!(pod.runs(&look(&session, "r_none", 0)).await.unwrap().items, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_shows_what_its_cell_said_last_of_its_progress_and_stores_nothing_for_it() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    let silent = pod.accept_run(call(&session, "await callTool('echo', 1)", "silent")).await.unwrap();
    let before = ended(&pod, &session, &silent.id).await.result.unwrap().sequence;
    let silent = pod.accept_run(call(&session, "await callTool('echo', 1)", "silent-2")).await.unwrap();
    let after = ended(&pod, &session, &silent.id).await.result.unwrap().sequence;
    let code = "for (let n = 0; n <= 50; n++) host.progress(n / 100, `step ${n}`); await callTool('slow', 1)";
    let run = pod.accept_run(call(&session, code, "telling")).await.unwrap();
    world.tools.attempts(3).await;
    let said = Progress { fraction: 0.5, note: "step 50".to_owned() };
    assert_eq!(seen(&pod, &session, &run.id).await.progress, Some(said));
    assert_eq!(seen(&pod, &session, &silent.id).await.progress, None, "it is that run's alone");
    assert_eq!(seen(&world.pod("b"), &session, &run.id).await.progress, None, "what is stored has none");
    world.tools.open();
    let end = ended(&pod, &session, &run.id).await;
    assert_eq!((end.state, end.progress), (RunState::Succeeded, None));
    assert_eq!(end.result.unwrap().sequence - after, after - before, "as many commits as without a word");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_accepted_and_has_not_ended_goes_on_in_the_next_pod() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    let asked = |code: &str, key: &str| EvalCall { request_id: format!("r-{key}"), ..call(&session, code, key) };
    let first = pod.accept_run(asked("globalThis.order = ['first']; await callTool('slow', 7)", "first")).await.unwrap();
    world.tools.attempts(1).await;
    let second = pod.accept_run(asked("order.push('second'); await callTool('echo', order.length)", "second")).await.unwrap();
    assert_eq!(seen(&pod, &session, &first.id).await.state, RunState::Waiting);
    assert_eq!(second.state, RunState::Queued);
    // The process is lost without a word: whoever looks sees what it had stored.
    drop(pod);
    let other = world.pod("b");
    assert_eq!(seen(&other, &session, &first.id).await.state, RunState::Waiting);
    assert_eq!(seen(&other, &session, &second.id).await.state, RunState::Queued);
    let moved = assign(&other, "u1", 2);
    other.wake(moved.clone()).await.unwrap();
    world.tools.attempts(2).await;
    world.tools.open();
    let (first, second) = (ended(&other, &moved, &first.id).await, ended(&other, &moved, &second.id).await);
    assert_eq!((first.state, first.result.unwrap().value), (RunState::Succeeded, Some(json!(7))));
    assert_eq!((second.state, second.result.unwrap().value), (RunState::Succeeded, Some(json!(2))));
    assert_eq!(world.tools.effects.load(Ordering::SeqCst), 2);
    // Before the loss and after it, each works for the request that it was accepted with; so does the lost one, which knows of nothing.
    let ids: BTreeSet<_> = world.tools.request_ids.lock().unwrap().iter().cloned().collect();
    assert_eq!(ids, ["r-first", "r-second"].map(|id| Some(id.to_owned())).into());
}

/// It still has what it saw itself, and nobody has told it that it lost the session.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_lost_its_session_tells_of_runs_as_they_are_stored() {
    let world = World::default();
    let (one, other) = (world.pod("a"), world.pod("b"));
    let session = assign(&one, "u1", 1);
    let first = one.accept_run(call(&session, "1", "first")).await.unwrap();
    ended(&one, &session, &first.id).await;
    let moved = assign(&other, "u1", 2);
    let second = other.accept_run(call(&moved, "2", "second")).await.unwrap();
    ended(&other, &moved, &second.id).await;
    assert_eq!(seen(&one, &session, &second.id).await.state, RunState::Succeeded);
    // It is not the one to deny it, either.
    let denied = one.cancel_run(CancelRunCall { assignment: session.clone(), run: second.id.clone() }).await.unwrap_err();
    assert_eq!(denied.code, ErrorCode::SessionGone);
}

/// What waits in the process after it is none that this one knows of.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_lost_its_session_does_not_deny_the_call_that_a_client_answers() {
    let world = World::default();
    let (one, other) = (world.pod("a"), world.pod("b"));
    let tool = ClientTool { name: "ask".to_owned(), description: String::new(), input: None };
    let asks = KernelSessionSpec { client_tools: vec![tool], ..spec() };
    let session = assign_spec(&one, "u1", 1, asks.clone());
    value(&one, &session, "1").await;
    let moved = assign_spec(&other, "u1", 2, asks);
    let run = other.accept_run(call(&moved, "await callTool('ask', {})", "k")).await.unwrap();
    while seen(&other, &moved, &run.id).await.state != RunState::Waiting {
        tokio::task::yield_now().await;
    }
    let answer =
        |assignment: &Assignment| AnswerCall { assignment: assignment.clone(), call: 1, answer: ToolAnswer::Ok { value: json!(7) } };
    assert_eq!(one.answer(answer(&session)).await.unwrap_err().code, ErrorCode::SessionGone);
    other.answer(answer(&moved)).await.unwrap();
    assert_eq!(ended(&other, &moved, &run.id).await.result.unwrap().value, Some(json!(7)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_cancelled_before_it_begins_while_it_waits_and_while_it_runs() {
    let world = World::default();
    let pod = world.pod("a");
    let mut slow = spec();
    slow.limits.eval_timeout_ms = 600_000;
    let session = assign_spec(&pod, "u1", 1, slow);
    let cancel = |run: &Run| pod.cancel_run(CancelRunCall { assignment: session.clone(), run: run.id.clone() });
    let waits = pod.accept_run(call(&session, "await callTool('slow', 1)", "waits")).await.unwrap();
    let queued = pod.accept_run(call(&session, "globalThis.began = 1", "queued")).await.unwrap();
    let cancelled = cancel(&queued).await.unwrap();
    assert_eq!((cancelled.state, cancelled.cell), (RunState::Cancelled, None));
    assert_eq!(cancelled.result.clone().unwrap().error.unwrap().code, ErrorCode::Interrupted);
    assert_eq!(cancel(&waits).await.unwrap().state, RunState::Cancelled);
    assert_eq!(cancel(&queued).await.unwrap(), cancelled, "an end stays");
    let runs = pod.accept_run(call(&session, "for (;;) {}", "runs")).await.unwrap();
    assert_eq!(cancel(&runs).await.unwrap().state, RunState::Cancelled);
    assert_eq!(value(&pod, &session, "typeof began").await, json!("undefined"));
    let unknown = pod.cancel_run(CancelRunCall { assignment: session.clone(), run: "r_none".to_owned() }).await.unwrap_err();
    assert_eq!(unknown.code, ErrorCode::RunNotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_cancelled_is_stored_also_where_other_ends_are_told_before() {
    for durability in [Durability::Batched, Durability::OnIdle] {
        let world = World::default();
        let pod = world.pod("a");
        let session = assign_spec(&pod, "u1", 1, KernelSessionSpec { durability, ..spec() });
        let run = pod.accept_run(call(&session, "await callTool('slow', 1)", "k")).await.unwrap();
        world.tools.attempts(1).await;
        let cancelled = pod.cancel_run(CancelRunCall { assignment: session.clone(), run: run.id.clone() }).await.unwrap();
        assert_eq!(cancelled.state, RunState::Cancelled);
        // As a process that dies now would leave it.
        assert_eq!(seen(&world.pod("b"), &session, &run.id).await.state, RunState::Cancelled, "{durability:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_eval_joins_a_run_and_its_leaving_ends_nothing() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    let cell = call(&session, "await callTool('slow', 5)", "k");
    let run = pod.accept_run(cell.clone()).await.unwrap();
    world.tools.attempts(1).await;
    let (joined, asked) = (pod.clone(), cell.clone());
    let left = tokio::spawn(async move { joined.eval(asked).await });
    left.abort();
    assert!(left.await.is_err());
    world.tools.open();
    assert_eq!(ended(&pod, &session, &run.id).await.result.unwrap().value, Some(json!(5)));
    assert_eq!(pod.eval(cell.clone()).await.unwrap().value, Some(json!(5)));
}
