//! How cells end, whatever they do: once under a key, recorded before it is told, and with a session that goes on.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::common::{PATIENCE, World, assign, assign_spec, call, eval, spec, until, value, without_rest};
use dormouse_crds::session::{Bootstrap, Durability, KernelSessionSpec};
use dormouse_kernel::Pod;
use dormouse_protocol::ErrorCode;
use dormouse_protocol::eval::{EvalResult, EvalStats};
use dormouse_protocol::kernel::{Assignment, EvalCall, JournalCall, StoredCall};
use dormouse_protocol::session::State;
use serde_json::json;

/// One operation that no interrupt handler ends.
const OVERRUN: &str = "new Array(4e9).join('')";

fn hasty() -> KernelSessionSpec {
    let mut hasty = spec();
    hasty.limits.eval_timeout_ms = 600;
    hasty
}

async fn answered(pod: &Pod, call: &EvalCall) -> EvalResult {
    tokio::time::timeout(PATIENCE, pod.eval(call.clone())).await.expect("it is answered").unwrap()
}

/// What a retry hears: the same, without what it cost.
fn repeated(result: &EvalResult) -> EvalResult {
    EvalResult { stats: EvalStats::default(), ..result.clone() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_that_overruns_after_a_call_has_one_end_and_one_effect() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign_spec(&pod, "u1", 1, hasty());
    value(&pod, &session, "let kept = 1; kept").await;
    let cell = call(&session, &format!("kept = 2; await callTool('echo', 1); {OVERRUN}"), "charge");
    let first = answered(&pod, &cell).await;
    assert_eq!((first.ok, first.error.as_ref().unwrap().code, first.cell), (false, ErrorCode::TimeoutError, 2));
    assert_eq!(first.idempotency_key.as_deref(), Some("charge"));
    assert_eq!(answered(&pod, &cell).await, repeated(&first));
    // Nor does a pod that has never seen it begin it again.
    let other = world.pod("b");
    let moved = assign_spec(&other, "u1", 2, hasty());
    assert_eq!(answered(&other, &EvalCall { assignment: moved.clone(), ..cell }).await, repeated(&first));
    assert_eq!(world.tools.effects.load(Ordering::SeqCst), 1);
    assert_eq!(value(&other, &moved, "kept").await, json!(2), "what it did before the call is committed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_that_overruns_at_once_is_not_run_again_under_its_key() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign_spec(&pod, "u1", 1, hasty());
    let cell = call(&session, &format!("globalThis.began = 1; {OVERRUN}"), "k");
    let first = answered(&pod, &cell).await;
    assert_eq!((first.ok, first.cell), (false, 1));
    let other = world.pod("b");
    let moved = assign_spec(&other, "u1", 2, hasty());
    assert_eq!(answered(&other, &EvalCall { assignment: moved.clone(), ..cell }).await, repeated(&first));
    assert_eq!(value(&other, &moved, "typeof began").await, json!("undefined"));
}

/// The process before had the same cell, and stored its end after this one had read the session and before it stored anything itself.
#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_another_process_has_recorded_meanwhile_is_the_end() {
    let world = World::default();
    let (one, other) = (world.pod("a"), world.pod("b"));
    let session = assign_spec(&one, "u1", 1, hasty());
    value(&one, &session, "let kept = 1; kept").await;
    let moved = assign_spec(&other, "u1", 2, hasty());
    let cell = call(&session, OVERRUN, "k");
    let first = without_rest(&other, &moved, answered(&one, &cell)).await;
    assert_eq!(first.error.as_ref().unwrap().code, ErrorCode::TimeoutError);
    assert_eq!(answered(&other, &EvalCall { assignment: moved.clone(), ..cell }).await, repeated(&first));
    assert_eq!(value(&other, &moved, "kept").await, json!(1));
    let stored = StoredCall { namespace: moved.namespace.clone(), name: moved.name.clone(), uid: moved.uid.clone(), anchor: moved.anchor };
    let page = other.stored_journal(&JournalCall { session: stored, after: 0, limit: 100 }).await.unwrap();
    let begun = page.entries.iter().filter(|entry| serde_json::to_string(entry).unwrap().contains("\"idempotencyKey\":\"k\"")).count();
    assert_eq!(begun, 1, "{:?}", page.entries);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_that_ended_its_processes_has_an_end_and_is_never_begun_again() {
    for durability in [Durability::PerEval, Durability::Batched, Durability::OnIdle] {
        let world = World::default();
        let pod = world.pod("a");
        let durable = KernelSessionSpec { durability, ..hasty() };
        let session = assign_spec(&pod, "u1", 1, durable.clone());
        value(&pod, &session, "let n = 1; n").await;
        let cell = call(&session, "n = 2; await callTool('echo', 1)", "deadly");
        let first = answered(&pod, &EvalCall { lost: true, ..cell.clone() }).await;
        let error = first.error.as_ref().unwrap();
        assert_eq!((error.code, first.cell, first.durable), (ErrorCode::Internal, 0, true), "{error:?}");
        assert_eq!(answered(&pod, &cell).await, repeated(&first), "also for a retry that knows of no lost process");
        let other = world.pod("b");
        let moved = assign_spec(&other, "u1", 2, durable);
        assert_eq!(answered(&other, &EvalCall { assignment: moved.clone(), ..cell }).await, repeated(&first));
        assert_eq!(value(&other, &moved, "n").await, json!(1));
        assert_eq!(world.tools.effects.load(Ordering::SeqCst), 0);
    }
}

/// Whoever sends it again would else have it end its processes once more.
#[tokio::test(flavor = "multi_thread")]
async fn a_cell_that_ended_its_processes_has_its_end_although_its_client_has_left() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    let (owner, awaits) = (pod.clone(), call(&session, "await callTool('slow', 1)", "awaits"));
    let first = tokio::spawn(async move { owner.eval(awaits).await });
    world.tools.attempts(1).await;
    let deadly = call(&session, "1", "deadly");
    // It waits behind the first when its client leaves.
    let mut left = Box::pin(pod.eval(EvalCall { lost: true, ..deadly.clone() }));
    assert!(futures::poll!(left.as_mut()).is_pending());
    drop(left);
    world.tools.open();
    assert!(first.await.unwrap().unwrap().ok);
    assert_eq!(answered(&pod, &deadly).await.error.unwrap().code, ErrorCode::Internal);
}

/// Processes may end by chance: what is stored of the cell counts.
#[tokio::test(flavor = "multi_thread")]
async fn a_cell_of_which_something_is_stored_goes_on_whatever_became_of_its_processes() {
    let world = World::default();
    let (a, b) = (world.pod("a"), world.pod("b"));
    let session = assign(&a, "u1", 1);
    let over = call(&session, "let n = 5; n", "over");
    let first = answered(&a, &over).await;
    let awaits = call(&session, "await callTool('slow', 7)", "awaits");
    let (owner, cell) = (a.clone(), awaits.clone());
    let waiting = tokio::spawn(async move { owner.eval(cell).await });
    world.tools.attempts(1).await;
    let moved = assign(&b, "u1", 2);
    let lost = |call: EvalCall| EvalCall { assignment: moved.clone(), lost: true, ..call };
    let (other, cell) = (b.clone(), lost(awaits));
    let goes_on = tokio::spawn(async move { other.eval(cell).await });
    world.tools.attempts(2).await;
    world.tools.open();
    assert_eq!(goes_on.await.unwrap().unwrap().value, Some(json!(7)));
    assert_eq!(answered(&b, &lost(over)).await, repeated(&first));
    assert_eq!(world.tools.effects.load(Ordering::SeqCst), 1);
    waiting.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_is_too_large_to_be_stored_ends_its_cell_and_not_its_session() {
    let world = World::default();
    let pod = world.pod("a");
    let mut chatty = spec();
    chatty.limits.output_bytes = 64 << 20;
    let session = assign_spec(&pod, "u1", 1, chatty);
    value(&pod, &session, "let n = 1; n").await;
    // Its output so far is part of the record, and more than a record may have.
    let cell = call(
        &session,
        "n = 2; await callTool('echo', 1); n = 3; console.log('x'.repeat(17 << 20)); await callTool('echo', 2); n = 4",
        "large",
    );
    let first = answered(&pod, &cell).await;
    assert_eq!((first.ok, first.error.as_ref().unwrap().code), (false, ErrorCode::SizeAdmissionError), "{:?}", first.error);
    assert_eq!(answered(&pod, &cell).await, repeated(&first));
    assert_eq!(value(&pod, &session, "n").await, json!(2), "it goes on from the cell's last commit");
    assert_eq!(world.tools.effects.load(Ordering::SeqCst), 1, "the second call never left");
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_that_no_record_has_room_for_are_refused_when_the_call_is_made() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    let code = "await sleep(1); const big = 'x'.repeat(9 << 20), some = 'x'.repeat(4 << 20); \
                const both = await Promise.allSettled([callTool('echo', { big }), callTool('echo', { some }), callTool('echo', { some })]); \
                both.map(it => it.reason?.code ?? it.status)";
    assert_eq!(value(&pod, &session, code).await, json!(["SizeAdmissionError", "fulfilled", "QuotaExceeded"]));
    assert_eq!(value(&pod, &session, "1 + 1").await, json!(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_are_ahead_of_storage_outlive_a_cell_that_takes_its_instance_with_it() {
    let world = World::default();
    let pod = world.pod("a");
    let lagging = KernelSessionSpec { durability: Durability::OnIdle, ..hasty() };
    let session = assign_spec(&pod, "u1", 1, lagging.clone());
    assert!(eval(&pod, &session, "const list = []; let n = 0").await.durable);
    for n in 1..=100 {
        assert!(!eval(&pod, &session, &format!("list.push('entry {n}'.repeat(50)); host.ctx.put('c', `${{++n}}`); n")).await.durable);
    }
    let cell = call(&session, &format!("list.length = 0; host.ctx.delete('c'); {OVERRUN}"), "k");
    let first = answered(&pod, &cell).await;
    assert_eq!((first.ok, first.error.as_ref().unwrap().code), (false, ErrorCode::TimeoutError));
    assert_eq!(value(&pod, &session, "[list.length, list[99].length, n, host.ctx.get('c')]").await, json!([100, 9 * 50, 100, "100"]));
    // All of it is stored with the next commit, the end of the cell among it.
    pod.hibernate(session.clone()).await.unwrap();
    let other = world.pod("b");
    let moved = assign_spec(&other, "u1", 2, lagging);
    assert_eq!(value(&other, &moved, "[list.length, list[99].length, n, host.ctx.get('c')]").await, json!([100, 9 * 50, 100, "100"]));
    let stored = EvalResult { durable: true, sequence: 2, ..repeated(&first) };
    assert_eq!(answered(&other, &EvalCall { assignment: moved, ..cell }).await, stored);
}

/// Otherwise it would be answered, and so would be what comes after it, and nothing of all that could ever be stored.
#[tokio::test(flavor = "multi_thread")]
async fn a_cell_that_can_never_be_stored_is_not_answered_ahead_of_storage() {
    for durability in [Durability::Batched, Durability::OnIdle] {
        let world = World::default();
        let pod = world.pod("a");
        let mut lagging = KernelSessionSpec { durability, ..spec() };
        lagging.limits.pending_operations = 65_536;
        lagging.limits.eval_timeout_ms = 60_000;
        lagging.limits.heap_bytes = 512 << 20;
        let session = assign_spec(&pod, "u1", 1, lagging.clone());
        eval(&pod, &session, "globalThis.n = 1").await;
        assert!(!eval(&pod, &session, "n = 2").await.durable);
        let timers = "n = 3; for (let it = 0; it < 400_000; it++) setTimeout(() => {}, 1e9); n";
        let error = eval(&pod, &session, timers).await.error.unwrap();
        assert_eq!(error.code, ErrorCode::SizeAdmissionError, "{error:?}");
        // The longest names that there are: not all are constants.
        for name in ["a", "b"].map(|letter| letter.repeat(200 << 10)) {
            eval(&pod, &session, &format!("const {name} = 1")).await;
        }
        pod.hibernate(session).await.unwrap();
        let other = world.pod("b");
        assert_eq!(value(&other, &assign_spec(&other, "u1", 2, lagging), "n").await, json!(2), "{durability:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_are_ahead_of_storage_outlive_an_outage_of_the_store() {
    let world = World::default();
    let pod = world.pod("a");
    let lagging = KernelSessionSpec { durability: Durability::OnIdle, ..spec() };
    let session = assign_spec(&pod, "u1", 1, lagging.clone());
    eval(&pod, &session, "let n = 0").await;
    assert!(!eval(&pod, &session, "n = 100").await.durable);
    world.store.down.store(true, Ordering::SeqCst);
    let error = tokio::time::timeout(PATIENCE, pod.hibernate(session.clone())).await.unwrap().unwrap_err();
    assert_eq!((error.code, error.retryable), (ErrorCode::StorageUnavailable, true), "{error}");
    until(&pod, "u1", |report| report.state == State::Failed).await;
    world.store.down.store(false, Ordering::SeqCst);
    assert_eq!(value(&pod, &session, "n").await, json!(100));
    pod.hibernate(session).await.unwrap();
    let other = world.pod("b");
    assert_eq!(value(&other, &assign_spec(&other, "u1", 2, lagging), "n").await, json!(100));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_of_unknown_outcome_is_not_forgotten_and_nothing_overtakes_it() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    value(&pod, &session, "let n = 1; n").await;
    world.store.falls.store(true, Ordering::SeqCst);
    let cell = call(&session, "++n", "once");
    let error = tokio::time::timeout(PATIENCE, pod.eval(cell.clone())).await.unwrap().unwrap_err();
    assert_eq!((error.code, error.retryable), (ErrorCode::StorageUnavailable, true), "{error}");
    world.store.down.store(false, Ordering::SeqCst);
    // Another cell comes first, and finds what the commit has stored.
    assert_eq!(value(&pod, &session, "n").await, json!(2));
    assert_eq!(answered(&pod, &cell).await.value, Some(json!(2)));
}

fn begins_with(code: &str) -> KernelSessionSpec {
    KernelSessionSpec { bootstrap: Some(Bootstrap { code: code.to_owned(), ..Bootstrap::default() }), ..hasty() }
}

const ENDLESS: &str = "setInterval(() => {}, 3_600_000); await new Promise(() => {})";

/// A cell that waits for bootstrap code which never ends.
async fn waiting(pod: &Pod, session: &Assignment) -> tokio::task::JoinHandle<Result<EvalResult, dormouse_protocol::ApiError>> {
    let cell = tokio::spawn({
        let (pod, cell) = (pod.clone(), call(session, "1", "k"));
        async move { pod.eval(cell).await }
    });
    until(pod, &session.uid, |report| report.next_wake_time.is_some()).await;
    cell
}

#[tokio::test(flavor = "multi_thread")]
async fn bootstrap_code_that_never_ends_can_be_interrupted_put_to_sleep_and_deleted() {
    let world = World::default();
    let pod = world.pod("a");
    let interrupted = assign_spec(&pod, "u1", 1, begins_with(ENDLESS));
    let cell = waiting(&pod, &interrupted).await;
    pod.interrupt(interrupted.clone()).await.unwrap();
    let error = cell.await.unwrap().unwrap_err();
    assert_eq!(error.code, ErrorCode::Interrupted, "{error}");
    let deleted = assign_spec(&pod, "u2", 1, begins_with(ENDLESS));
    let cell = waiting(&pod, &deleted).await;
    tokio::time::timeout(PATIENCE, pod.forget(deleted)).await.unwrap().unwrap();
    assert_eq!(cell.await.unwrap().unwrap_err().code, ErrorCode::SessionGone);
    let asleep = assign_spec(&pod, "u3", 1, begins_with(ENDLESS));
    let cell = waiting(&pod, &asleep).await;
    tokio::time::timeout(PATIENCE, pod.hibernate(asleep)).await.unwrap().unwrap();
    assert_eq!(cell.await.unwrap().unwrap_err().code, ErrorCode::SessionGone);
    assert_eq!(pod.info().used, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn bootstrap_code_that_overruns_is_not_run_again_before_the_spec_changes() {
    let world = World::default();
    let pod = world.pod("a");
    let bad = assign_spec(&pod, "u1", 1, begins_with(OVERRUN));
    let error = pod.eval(call(&bad, "1", "k")).await.unwrap_err();
    assert_eq!((error.code, error.retryable), (ErrorCode::TimeoutError, false), "{error}");
    let wakes = crate::common::metric(&pod, "kernel_wakes_total{source=\"fresh\"}");
    assert_eq!(pod.eval(call(&bad, "1", "k")).await.unwrap_err().code, ErrorCode::TimeoutError);
    assert_eq!(pod.wake(bad.clone()).await.unwrap_err().code, ErrorCode::TimeoutError);
    assert_eq!(crate::common::metric(&pod, "kernel_wakes_total{source=\"fresh\"}"), wakes);
    let good = Assignment { generation: 2, spec: begins_with("globalThis.ready = 1"), ..bad };
    assert_eq!(value(&pod, &good, "ready").await, json!(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn bootstrap_code_that_fails_after_it_awaited_ends_who_waits() {
    let world = World::default();
    let pod = world.pod("a");
    let bad = assign_spec(&pod, "u1", 1, begins_with("await callTool('echo', 1); throw new RangeError('not today')"));
    let error = tokio::time::timeout(PATIENCE, pod.eval(call(&bad, "1", "k"))).await.unwrap().unwrap_err();
    assert!(error.message.contains("not today"), "{error}");
    assert_eq!(world.tools.effects.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_whose_client_left_does_not_hold_those_who_wait() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign_spec(&pod, "u1", 1, hasty());
    let left = tokio::spawn({
        let (pod, cell) = (pod.clone(), call(&session, "await callTool('slow', {})", "left"));
        async move { pod.eval(cell).await }
    });
    until(&pod, "u1", |report| report.state == State::WaitingForTool).await;
    left.abort();
    assert_eq!(tokio::time::timeout(PATIENCE, pod.eval(call(&session, "7", "next"))).await.unwrap().unwrap().value, Some(json!(7)));
    let end = answered(&pod, &call(&session, "await callTool('slow', {})", "left")).await;
    assert_eq!(end.error.unwrap().code, ErrorCode::Interrupted, "it has its end, and did not run again");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_behind_a_cell_that_awaits_hears_so_within_its_budget() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign_spec(&pod, "u1", 1, hasty());
    let first = tokio::spawn({
        let (pod, cell) = (pod.clone(), call(&session, "await callTool('slow', { id: 1 })", "first"));
        async move { pod.eval(cell).await }
    });
    until(&pod, "u1", |report| report.state == State::WaitingForTool).await;
    let error = tokio::time::timeout(PATIENCE, pod.eval(call(&session, "7", "next"))).await.unwrap().unwrap_err();
    assert_eq!((error.code, error.retryable), (ErrorCode::SessionBusy, true), "{error}");
    world.tools.open();
    assert_eq!(first.await.unwrap().unwrap().value, Some(json!({ "id": 1 })));
    assert_eq!(answered(&pod, &call(&session, "7", "next")).await.value, Some(json!(7)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_not_read_from_a_process_that_has_lost_the_session() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    value(&pod, &session, "require('fs').writeFileSync('/f', 'old'); 0").await;
    let other = world.pod("b");
    value(&other, &assign(&other, "u1", 2), "require('fs').writeFileSync('/f', 'new'); 0").await;
    let read = dormouse_protocol::file::FileCall {
        assignment: session,
        path: "/f".to_owned(),
        recursive: false,
        preconditions: Default::default(),
    };
    let error = tokio::time::timeout(PATIENCE, pod.read_file(read)).await.unwrap().map(drop).unwrap_err();
    assert_eq!(error.code, ErrorCode::SessionGone, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_was_read_is_not_taken_back() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    let cell = tokio::spawn({
        let (pod, code) = (pod.clone(), "await sleep(1); require('fs').writeFileSync('/f', 'seen'); await callTool('slow', {})");
        let cell = call(&session, code, "k");
        async move { pod.eval(cell).await }
    });
    world.tools.attempts(1).await;
    let path = "/f".to_owned();
    let read = dormouse_protocol::file::FileCall { assignment: session, path, recursive: false, preconditions: Default::default() };
    let body = pod.read_file(read.clone()).await.unwrap().into_body();
    assert_eq!(axum::body::to_bytes(body, 100).await.unwrap(), "seen");
    let other = world.pod("b");
    let moved = dormouse_protocol::file::FileCall { assignment: assign(&other, "u1", 2), ..read };
    let body = tokio::time::timeout(Duration::from_secs(60), other.read_file(moved)).await.unwrap().unwrap().into_body();
    assert_eq!(axum::body::to_bytes(body, 100).await.unwrap(), "seen");
    cell.abort();
}
