//! `migrate`: a session of an earlier engine, moved to the current one by running its cells again.

use std::sync::atomic::Ordering;

use crate::common::{World, assign, earlier, eval, try_eval, upgraded, value};
use dormouse_kernel::Pod;
use dormouse_lifecycle::Head;
use dormouse_protocol::ErrorCode;
use dormouse_protocol::history::Migration;
use dormouse_protocol::kernel::Assignment;
use dormouse_store::SnapshotStore as _;
use serde_json::json;

async fn engine_of(world: &World) -> String {
    let head = world.store.get("p/t/team/s/default/u1/head").await.unwrap().expect("the head is stored");
    Head::decode(&head.bytes).unwrap().engine_digest
}

/// A session of an earlier engine after these cells, on a pod of the current one.
async fn old_session(world: &World, cells: &[&str]) -> (Pod, Assignment) {
    let old = world.pod_of("old", 10, earlier());
    let session = assign(&old, "u1", 1);
    for cell in cells {
        eval(&old, &session, cell).await;
    }
    old.drain().await;
    let new = world.pod_of("new", 10, upgraded());
    let session = assign(&new, "u1", 2);
    (new, session)
}

fn names(list: &[dormouse_protocol::history::NotCarried]) -> Vec<&str> {
    list.iter().map(|it| it.name.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn cells_are_replayed_and_the_state_before_stays() {
    let world = World::default();
    let cells = [
        "let n = 40; const step: number = 1; const next = () => n += step; next()",
        "class Point { constructor(public x: number) {} } const point = new Point(n); point.x",
        "await sleep(50); next()",
        "throw new Error('as it was')",
        "setTimeout(() => { globalThis.late = true }, 3600e3); 0",
    ];
    let (pod, session) = old_session(&world, &cells).await;
    let before = engine_of(&world).await;
    let dry = pod.migrate(session.clone(), true).await.unwrap();
    assert_eq!((dry.dry_run, dry.migrated, dry.checkpoint.is_none(), engine_of(&world).await), (true, false, true, before.clone()));
    let report = pod.migrate(session.clone(), false).await.unwrap();
    let label = format!("engine-{}", &before[..12]);
    assert_eq!(report, Migration { dry_run: false, migrated: true, checkpoint: Some(label.clone()), ..dry });
    assert_eq!((report.replayed, report.cells.len(), report.globals.len(), report.notes.len()), (5, 0, 0, 0), "{report:?}");
    assert_eq!(engine_of(&world).await, pod.info().engine_digest);
    assert_eq!(value(&pod, &session, "[next(), point instanceof Point, typeof host]").await, json!([43, true, "object"]));
    let refused = eval(&pod, &session, "step = 2").await.error.unwrap();
    assert_eq!(refused.name, "TypeError", "what was constant is");
    assert!(pod.hibernate(session.clone()).await.unwrap().next_wake_time.is_some(), "the timer waits again");

    pod.drain().await;
    let pod = world.pod_of("third", 10, upgraded());
    let session = assign(&pod, "u1", 3);
    assert_eq!(value(&pod, &session, "next()").await, json!(44));
    pod.restore(session.clone(), label).await.unwrap();
    assert_eq!(engine_of(&world).await, before);
    assert_eq!(value(&pod, &session, "n").await, json!(42));
    let again = pod.migrate(session.clone(), false).await.unwrap();
    assert!(again.migrated && again.notes.is_empty(), "{again:?}");
    assert_eq!(value(&pod, &session, "next()").await, json!(43), "what was left behind is not replayed");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_carried_is_said_and_no_call_is_made() {
    let world = World::default();
    let long = format!("const long = '{}'; long.length", "x".repeat(20_000));
    let cells = [
        "const got = await callTool('echo', { id: 7 }); got.id",
        "const seen = got.id + 1",
        "const luck = Math.random()",
        &long,
        "const fine = [1, 2]",
    ];
    let (pod, session) = old_session(&world, &cells).await;
    assert_eq!(world.tools.effects.load(Ordering::SeqCst), 1);
    let report = pod.migrate(session.clone(), false).await.unwrap();
    assert_eq!(world.tools.effects.load(Ordering::SeqCst), 1, "the call is not made again");
    assert_eq!((report.migrated, report.calls, names(&report.cells)), (true, 1, vec!["cell 1", "cell 2", "cell 4"]), "{report:?}");
    assert!(report.cells[0].reason.contains("calls are not made again"), "{report:?}");
    assert_eq!(names(&report.globals), ["got", "long", "luck", "seen"], "{report:?}");
    assert_eq!(value(&pod, &session, "fine").await, json!([1, 2]));
    assert_eq!(value(&pod, &session, "(await callTool('echo', { id: 9 })).id").await, json!(9), "calls are numbered on");
    assert_eq!(world.tools.effects.load(Ordering::SeqCst), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_the_current_engine_stays_and_one_that_waits_is_left_alone() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    value(&pod, &session, "let n = 1; n").await;
    let report = pod.migrate(session.clone(), false).await.unwrap();
    assert!(!report.migrated && report.from == report.to && report.checkpoint.is_none());

    let (pod, session) = old_session(&World::default(), &["let n = 1"]).await;
    let waiting = tokio::spawn({
        let (pod, call) = (pod.clone(), crate::common::call(&session, "await sleep(3600e3)", "waits"));
        async move { pod.eval(call).await }
    });
    crate::common::until(&pod, "u1", |report| report.next_wake_time.is_some()).await;
    assert_eq!(pod.migrate(session.clone(), true).await.unwrap_err().code, ErrorCode::SessionBusy);
    pod.interrupt(session.clone()).await.unwrap();
    waiting.await.unwrap().unwrap();
    assert!(pod.migrate(session.clone(), true).await.is_ok());
    assert!(try_eval(&pod, &session, "n").await.unwrap().ok);
}

/// In a replay, where no call is made, it never ends by itself.
const ENDLESS_IN_A_REPLAY: &str = "try { await callTool('echo', {}) } catch { for (;;); }";

/// What a migration that came to nothing must leave: the session as it was, under its engine, and nothing of the replay in the store.
async fn is_as_it_was(world: &World, pod: &Pod, session: &Assignment) {
    assert_eq!(engine_of(world).await, earlier().digest().as_str());
    assert_eq!(value(pod, session, "[++n, typeof big, host.ctx.size('big')]").await, json!([2, "string", 300_000]));
    let head = world.store.get("p/t/team/s/default/u1/head").await.unwrap().unwrap();
    let head = Head::decode(&head.bytes).unwrap();
    let key = dormouse_lifecycle::SessionKey {
        store_prefix: "p/".into(),
        tenant: "team".into(),
        pool: "default".into(),
        uid: "u1".into(),
        name: session.name.clone(),
    };
    let mut named: std::collections::BTreeSet<String> = head.named_keys().map(str::to_owned).collect();
    named.extend(head.blobs.extents().flat_map(|extent| extent.keys(&key).collect::<Vec<_>>()));
    named.insert(key.head());
    dormouse_testkit::wait::eventually("the store has what the head names, and no more", async || {
        world.store.list(&key.prefix()).await.unwrap().into_iter().collect::<std::collections::BTreeSet<_>>() == named
    })
    .await;
}

const KEEPS_A_CONTENT: &str = "let n = 1; const big = 'x'.repeat(300000); host.ctx.put('big', big); 0";

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_that_is_interrupted_leaves_the_session_as_it_was() {
    let world = World::default();
    let (pod, session) = old_session(&world, &[KEEPS_A_CONTENT, ENDLESS_IN_A_REPLAY]).await;
    value(&pod, &session, "n").await;
    let migrating = tokio::spawn({
        let (pod, session) = (pod.clone(), session.clone());
        async move { pod.migrate(session, true).await }
    });
    // One that comes before the migration has nothing to interrupt.
    dormouse_testkit::wait::eventually("the migration ends", async || {
        let (pod, session) = (pod.clone(), session.clone());
        tokio::spawn(async move { pod.interrupt(session).await });
        migrating.is_finished()
    })
    .await;
    assert_eq!(migrating.await.unwrap().unwrap_err().code, ErrorCode::Interrupted);
    is_as_it_was(&world, &pod, &session).await;
}

#[tokio::test]
async fn a_migration_that_takes_too_long_leaves_the_session_as_it_was() {
    let world = World::default();
    let (pod, session) = old_session(&world, &[KEEPS_A_CONTENT, ENDLESS_IN_A_REPLAY]).await;
    value(&pod, &session, "n").await;
    let mut migrating = Box::pin(pod.migrate(session.clone(), true));
    tokio::time::pause();
    let error = loop {
        tokio::select! {
            biased;
            migrated = &mut migrating => break migrated.unwrap_err(),
            () = tokio::time::advance(std::time::Duration::from_secs(1)) => {}
        }
    };
    tokio::time::resume();
    assert_eq!((error.code, error.message.contains("300 s")), (ErrorCode::TimeoutError, true), "{error}");
    is_as_it_was(&world, &pod, &session).await;
}
