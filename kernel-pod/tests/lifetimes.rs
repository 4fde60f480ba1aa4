//! Sessions that begin, begin anew, and expire, in pods over one store.

use crate::common::{World, assign, assign_spec, call, eval, spec, try_eval, until, value};
use dormouse_crds::KeyRef;
use dormouse_crds::session::{Bootstrap, Checkpoints, KernelSessionSpec, OperatingMode, Ttl};
use dormouse_kernel::Pod;
use dormouse_protocol::ErrorCode;
use dormouse_protocol::kernel::{Assignment, ResetCall, StoredCall};
use dormouse_protocol::session::State;
use serde_json::json;

fn stored(session: &Assignment) -> StoredCall {
    StoredCall { namespace: session.namespace.clone(), name: session.name.clone(), uid: session.uid.clone(), anchor: session.anchor }
}

fn reset(session: &Assignment, operation: &str) -> ResetCall {
    ResetCall { assignment: session.clone(), operation: Some(operation.to_owned()) }
}

async fn checkpoints(pod: &Pod, session: &Assignment) -> usize {
    pod.stored_checkpoints(&stored(session)).await.unwrap().items.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_leaves_nothing_of_the_heap_and_the_state_before_as_a_checkpoint() {
    let world = World::default();
    let pod = world.pod("a");
    let keeps_none = KernelSessionSpec { checkpoints: Checkpoints { keep: 0 }, ..spec() };
    let session = assign_spec(&pod, "u1", 1, keeps_none);
    value(
        &pod,
        &session,
        "const n = 1; require('fs').writeFileSync('/f', 'x'); host.ctx.put('big', 'y'.repeat(100000)); setTimeout(() => 0, 1e9); n",
    )
    .await;
    let before = eval(&pod, &session, "n").await;
    let report = pod.reset(reset(&session, "one")).await.unwrap();
    assert_eq!((report.state, report.next_wake_time.as_deref()), (State::Idle, None), "no timer is left");
    let after = eval(&pod, &session, "[typeof n, require('fs').existsSync('/f'), host.ctx.size('big') ?? null]").await;
    assert_eq!((after.value, after.cell), (Some(json!(["undefined", false, null])), before.cell + 1), "numbers go on");
    assert_eq!(checkpoints(&pod, &session).await, 1);

    // Another sending of it changes nothing, and what it left can be gone back to, from a process that has only the store.
    value(&pod, &session, "const n = 2; n").await;
    pod.reset(reset(&session, "one")).await.unwrap();
    assert_eq!(value(&pod, &session, "n").await, json!(2));
    let other = world.pod("b");
    let moved = Assignment { boot: other.info().boot, epoch: 2, ..session.clone() };
    assert_eq!(value(&other, &moved, "n").await, json!(2), "what came after a reset is stored");
    let before = other.stored_checkpoints(&stored(&moved)).await.unwrap().items[0].id.clone();
    other.restore(moved.clone(), before).await.unwrap();
    assert_eq!(
        value(&other, &moved, "[n, require('fs').readFileSync('/f', 'utf8'), host.ctx.size('big')]").await,
        json!([1, "x", 100_000])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_of_a_sleeping_a_fresh_and_a_damaged_session() {
    let world = World::default();
    let pod = world.pod("a");
    let asleep = assign(&pod, "u1", 1);
    value(&pod, &asleep, "const n = 1; n").await;
    pod.hibernate(asleep.clone()).await.unwrap();
    pod.reset(reset(&asleep, "one")).await.unwrap();
    assert_eq!(value(&pod, &asleep, "typeof n").await, json!("undefined"));

    let fresh = assign(&pod, "u2", 1);
    pod.reset(reset(&fresh, "one")).await.unwrap();
    assert_eq!((value(&pod, &fresh, "1").await, checkpoints(&pod, &fresh).await), (json!(1), 0));

    let bad = Some(Bootstrap {
        code: "globalThis.begun = (globalThis.begun ?? 0) + 1; if (!globalThis.ok) throw 1".to_owned(),
        config_map_ref: None,
    });
    let failing = assign_spec(&pod, "u3", 1, KernelSessionSpec { bootstrap: bad, ..spec() });
    assert!(try_eval(&pod, &failing, "1").await.is_err());
    assert!(pod.reset(reset(&failing, "one")).await.is_err(), "it begins as a new one does");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_ends_cells_that_wait_and_runs_the_bootstrap_code_again() {
    let world = World::default();
    let pod = world.pod("a");
    let bootstrap = Some(Bootstrap { code: "globalThis.n = 41".to_owned(), config_map_ref: None });
    let session = assign_spec(&pod, "u1", 1, KernelSessionSpec { bootstrap, ..spec() });
    assert_eq!(value(&pod, &session, "++n").await, json!(42));
    let waiting = tokio::spawn({
        let (pod, call) = (pod.clone(), call(&session, "await new Promise(done => setTimeout(done, 1e9))", "waits"));
        async move { pod.eval(call).await }
    });
    until(&pod, "u1", |report| report.state == State::Running && report.cells == 2).await;
    pod.reset(reset(&session, "one")).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap_err().code, ErrorCode::Interrupted);
    assert_eq!(value(&pod, &session, "++n").await, json!(42));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_code_of_a_config_map_is_kept_until_it_has_run() {
    let world = World::default();
    let pod = world.pod("a");
    let reference = Some(KeyRef { name: "boot".to_owned(), key: Some("main.ts".to_owned()) });
    let with = |code: &str| KernelSessionSpec {
        bootstrap: Some(Bootstrap { code: code.to_owned(), config_map_ref: reference.clone() }),
        ..spec()
    };
    let without = assign_spec(&pod, "u1", 1, with(""));
    assert_eq!(try_eval(&pod, &without, "n").await.unwrap_err().code, ErrorCode::Conflict, "a session never begins without its code");
    // It awaits, its process goes, and the next one is not told the code.
    let told = assign_spec(&pod, "u2", 1, with("await callTool('slow', {}); globalThis.n = 42"));
    let waking = tokio::spawn({
        let (pod, told) = (pod.clone(), told.clone());
        async move { pod.wake(told).await }
    });
    world.tools.attempts(1).await;
    let other = world.pod("b");
    let moved = assign_spec(&other, "u2", 2, with(""));
    world.tools.open();
    assert_eq!(value(&other, &moved, "n").await, json!(42));
    waking.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unused_session_sleeps_and_takes_no_cells() {
    let world = World::default();
    let pod = world.pod("a");
    let mortal = |seconds| KernelSessionSpec {
        ttl: Ttl { active_seconds: seconds, retained_seconds: 0 },
        operating_mode: OperatingMode::Running,
        ..spec()
    };
    let session = assign_spec(&pod, "u1", 1, mortal(2));
    value(&pod, &session, "const n = 1; n").await;
    let asleep = until(&pod, "u1", |report| report.state == State::Hibernated).await;
    assert!(asleep.last_active_time.is_some());
    assert_eq!(try_eval(&pod, &session, "n").await.unwrap_err().code, ErrorCode::SessionExpired);
    assert_eq!(pod.stored_status(&stored(&session)).await.unwrap().last_active_time, asleep.last_active_time);
    // Whoever raises the time goes on with it; so does who goes back to a state of before.
    let longer = Assignment { generation: 2, ..assign_spec(&pod, "u1", 1, mortal(3600)) };
    assert_eq!(value(&pod, &longer, "n").await, json!(1));
}
