//! A pod whose sessions want more memory than there is: it lives, others are served, and who cannot be served is told.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{PATIENCE, World, assign, assign_spec, call, eval, spec, try_eval, value};
use dormouse_protocol::ErrorCode;
use dormouse_protocol::eval::Woke;
use dormouse_protocol::kernel::ReportLine;
use dormouse_protocol::session::State;
use dormouse_service::memory::Memory;
use futures::{Stream, StreamExt as _};
use serde_json::json;

static USED: AtomicU64 = AtomicU64::new(0);

#[tokio::test(flavor = "multi_thread")]
async fn under_pressure_idle_sessions_sleep_and_who_finds_no_room_is_told() {
    let world = World::default();
    let memory = Memory::with_reading(1_000 << 20, || Some(USED.load(Ordering::SeqCst)));
    let pod = world.pod_with_memory(&memory, 100);
    let grown = "var held = new Uint8Array(50 << 20).fill(1); held.length";
    let sessions: Vec<_> = (0..20).map(|number| assign(&pod, &format!("u{number}"), 1)).collect();
    for session in &sessions {
        assert!(eval(&pod, session, grown).await.ok, "the ones that are idle longest make room");
    }
    assert!(memory.promised() <= 500 << 20);
    assert_eq!(crate::common::until(&pod, "u0", |report| report.state == State::Hibernated).await.cells, 1);
    assert_eq!(value(&pod, &sessions[0], "held.length").await, json!(50 << 20), "nothing is lost");
    // Whatever it is that uses it: nothing new is begun, and it is said.
    USED.store(990 << 20, Ordering::SeqCst);
    let error = try_eval(&pod, &sessions[1], "1").await.unwrap_err();
    assert_eq!(error.code, ErrorCode::CapacityExhausted);
    USED.store(0, Ordering::SeqCst);
    assert_eq!(value(&pod, &sessions[1], "held.length").await, json!(50 << 20));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_most_of_a_memory_that_is_short_sleeps_before_its_next_cell_though_it_never_rests() {
    static USED: AtomicU64 = AtomicU64::new(0);
    let world = World::default();
    let memory = Memory::with_reading(1_000 << 20, || Some(USED.load(Ordering::SeqCst)));
    let pod = world.pod_with_memory(&memory, 100);
    let hog = assign(&pod, "hog", 1);
    assert!(eval(&pod, &hog, "var held = new Uint8Array(50 << 20).fill(1); held.length").await.ok);
    let (owner, awaits) = (pod.clone(), call(&hog, "await callTool('slow', 1)", "awaits"));
    let first = tokio::spawn(async move { owner.eval(awaits).await });
    world.tools.attempts(1).await;
    let mut next = Box::pin(pod.eval(call(&hog, "held.length", "next")));
    assert!(futures::poll!(next.as_mut()).is_pending(), "it waits behind the first");
    USED.store(990 << 20, Ordering::SeqCst);
    memory.look_again();
    world.tools.open();
    assert!(first.await.unwrap().unwrap().ok, "what is under way ends");
    assert_eq!(next.await.unwrap_err().code, ErrorCode::CapacityExhausted, "it needs room like others");
    assert_eq!(memory.promised(), 0, "what it had is there for them");
    USED.store(0, Ordering::SeqCst);
    memory.look_again();
    let again = pod.eval(call(&hog, "held.length", "next")).await.unwrap();
    assert_eq!((again.value, again.stats.woke), (Some(json!(50 << 20)), Woke::Storage));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_holds_little_is_served_and_stays_awake_while_others_hold_all_that_may_be_promised() {
    let world = World::default();
    let memory = Memory::with_reading(1_000 << 20, || Some(0));
    let pod = world.pod_with_memory(&memory, 100);
    let (small, late, grows) = (assign(&pod, "small", 1), assign(&pod, "late", 1), assign(&pod, "grows", 1));
    for session in [&small, &late, &grows] {
        assert!(eval(&pod, session, "let n = 0").await.ok);
    }
    pod.hibernate(late.clone()).await.unwrap();
    let mut large = spec();
    large.limits.heap_bytes = 1 << 30;
    let hog = assign_spec(&pod, "hog", 1, large);
    let takes_all = "var held = []; try { for (;;) held.push(new Uint8Array(1 << 20)) } catch {} await callTool('slow', 1)";
    let (owner, awaits) = (pod.clone(), call(&hog, takes_all, "awaits"));
    let first = tokio::spawn(async move { owner.eval(awaits).await });
    world.tools.attempts(1).await;
    for n in 1..=3 {
        let result = eval(&pod, &small, "++n").await;
        assert_eq!((result.value, result.stats.woke), (Some(json!(n)), Woke::No));
    }
    let grown = "var more = new Uint8Array(2 << 20).fill(1); more.length";
    assert_eq!(value(&pod, &grows, grown).await, json!(2 << 20), "and may grow, where who has most may not");
    let refused = try_eval(&pod, &late, "++n").await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::CapacityExhausted, "what is to come back needs room");
    world.tools.open();
    assert!(first.await.unwrap().unwrap().ok);
    assert_eq!(value(&pod, &late, "++n").await, json!(1), "and whoever holds more makes it");
    assert_eq!(eval(&pod, &small, "++n").await.stats.woke, Woke::No);
    for session in [&small, &late, &grows] {
        pod.hibernate(session.clone()).await.unwrap();
    }
    assert!(value(&pod, &hog, "held.length").await.as_u64() > Some(400), "nothing is lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_cannot_grow_is_told_so_and_gives_back_what_it_had() {
    let world = World::default();
    let memory = Memory::with_reading(400 << 20, || Some(0));
    let pod = world.pod_with_memory(&memory, 100);
    let mut large = spec();
    large.limits.heap_bytes = 1 << 30;
    let hog = assign_spec(&pod, "hog", 1, large);
    let result = eval(&pod, &hog, "var hog = []; for (;;) hog.push(new Uint8Array(1 << 20))").await;
    assert_eq!(result.error.unwrap().code, ErrorCode::MemoryLimitError);
    pod.hibernate(hog.clone()).await.unwrap();
    assert_eq!(memory.promised(), 0);
}

/// Waits until a reader of the pod's report hears such a line.
async fn heard(lines: &mut (impl Stream<Item = ReportLine> + Unpin), wanted: impl Fn(&ReportLine) -> bool) {
    let wait = async { while !wanted(&lines.next().await.expect("the report goes on")) {} };
    tokio::time::timeout(PATIENCE, wait).await.expect("the pod reports what is awaited");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_finds_no_memory_waits_for_it_and_the_pod_counts_as_full_until_there_is_some() {
    const SLOTS: u32 = 100;
    static USED: AtomicU64 = AtomicU64::new(0);
    let world = World::default();
    let memory = Memory::with_reading(1_000 << 20, || Some(USED.load(Ordering::SeqCst)));
    let pod = world.pod_with_memory(&memory, SLOTS);
    let [live, cell, wake] = ["live", "cell", "wake"].map(|uid| assign(&pod, uid, 1));
    assert_eq!(value(&pod, &live, "var held = new Uint8Array(10 << 20).fill(1); held.length").await, json!(10 << 20));
    assert_eq!((pod.info().used, pod.info().exhausted), (1, false));
    let mut lines = Box::pin(pod.report());
    // A cell asks for room before its session is there, and a wake for a slot.
    USED.store(850 << 20, Ordering::SeqCst);
    memory.look_again();
    let refused = [try_eval(&pod, &cell, "1").await.map(drop), pod.wake(wake).await.map(drop)];
    assert!(refused.iter().all(|answer| answer.as_ref().is_err_and(|error| error.code == ErrorCode::CapacityExhausted)), "{refused:?}");
    assert_eq!((pod.info().used, pod.info().idle, pod.info().exhausted), (SLOTS, 0, true), "nobody is sent here");
    heard(&mut lines, |line| matches!(line, ReportLine::Pod(info) if info.exhausted)).await;
    for waits in ["cell", "wake"] {
        heard(&mut lines, |line| matches!(line, ReportLine::Waiting { uid } if uid == waits)).await;
    }
    USED.store(0, Ordering::SeqCst);
    memory.look_again();
    assert!(pod.info().used < SLOTS, "somebody is tried as soon as there is some");
    assert_eq!(value(&pod, &cell, "1").await, json!(1));
    heard(&mut lines, |line| matches!(line, ReportLine::Pod(info) if !info.exhausted)).await;
    assert!(!pod.info().exhausted);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_too_large_for_what_is_left_waits_for_memory_too() {
    let world = World::default();
    let memory = Memory::with_reading(400 << 20, || Some(0));
    let pod = world.pod_with_memory(&memory, 100);
    let mut wide = spec();
    wide.limits.heap_bytes = 1 << 30;
    let [large, other] = ["large", "other"].map(|uid| assign_spec(&pod, uid, 1, wide.clone()));
    assert_eq!(value(&pod, &large, "var held = new Uint8Array(60 << 20).fill(1); held.length").await, json!(60 << 20));
    pod.hibernate(large.clone()).await.unwrap();
    let (owner, awaits) = (pod.clone(), call(&other, "var held = new Uint8Array(130 << 20); await callTool('slow', 1)", "awaits"));
    let first = tokio::spawn(async move { owner.eval(awaits).await });
    world.tools.attempts(1).await;
    assert!(memory.has_room(), "for who needs little");
    let mut lines = Box::pin(pod.report());
    assert_eq!(try_eval(&pod, &large, "held.length").await.unwrap_err().code, ErrorCode::CapacityExhausted);
    heard(&mut lines, |line| matches!(line, ReportLine::Pod(info) if info.exhausted)).await;
    heard(&mut lines, |line| matches!(line, ReportLine::Waiting { uid } if uid == "large")).await;
    world.tools.open();
    assert!(first.await.unwrap().unwrap().ok);
    pod.hibernate(other).await.unwrap();
    assert_eq!(value(&pod, &large, "held.length").await, json!(60 << 20), "nothing is lost");
}
