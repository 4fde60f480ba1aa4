//! A pod whose sessions want more memory than there is: it lives, others are served, and who cannot be served is told.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::sync::atomic::{AtomicU64, Ordering};

use common::{World, assign, assign_spec, eval, spec, try_eval, value};
use dormouse_engine::{EngineOptions, Engines};
use dormouse_kernel::{Environment, Pod, growth};
use dormouse_protocol::ErrorCode;
use dormouse_protocol::session::State;
use dormouse_service::memory::{self, Memory};
use serde_json::json;

/// A pod with so much memory.
fn pod(world: &World, memory: &Memory, slots: u32) -> Pod {
    let engines = Engines::new(EngineOptions { growth: Some(growth(memory.clone())), ..EngineOptions::default() }).unwrap();
    world.pod_within("a", slots, engines, Environment { memory: memory.clone(), ..Environment::default() })
}

/// Every means that a tenant has: heaps, output, events that nobody reads, arguments of calls, values. One after the other and all at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_filled_lives_and_serves_others() {
    const ROOM: u64 = 1 << 30;
    let world = World::default();
    let limit = memory::resident().unwrap() + ROOM;
    let memory = Memory::with_reading(limit, memory::resident);
    let pod = pod(&world, &memory, 100);
    let honest = assign(&pod, "honest", 1);
    assert_eq!(value(&pod, &honest, "var mine = 'kept'; mine").await, json!("kept"));
    let fills = [
        "var hog = []; for (;;) hog.push(new Uint8Array(1 << 20).fill(1))",
        "for (;;) console.log('x'.repeat(1 << 16))",
        "for (let i = 0; i < 200; i++) callTool('slow', { text: 'x'.repeat(1 << 20) }); await sleep(3600_000)",
        "'x'.repeat(8 << 20)",
        "for (;;) display.text('x'.repeat(1 << 16))",
        "var held = new Uint8Array(50 << 20).fill(1); held.length",
    ];
    let mut peak = 0;
    let mut refused = 0;
    for round in 0..4 {
        let attacks = (0..24).map(|number| {
            let (pod, code) = (pod.clone(), fills[number % fills.len()]);
            let mut spec = spec();
            (spec.limits.heap_bytes, spec.limits.output_bytes, spec.limits.eval_timeout_ms) = (64 << 20, 8 << 20, 3_000);
            spec.limits.tool_calls = 1_000;
            let session = assign_spec(&pod, &format!("hostile-{round}-{number}"), 1, spec);
            tokio::spawn(async move {
                let mut running = match pod.eval_streaming(common::call(&session, code, "k"), None).await {
                    Ok(running) => running,
                    Err(error) => return Some(error.code),
                };
                // Nobody reads the events meanwhile.
                let ended = tokio::time::timeout(std::time::Duration::from_secs(6), &mut running.answer).await;
                if ended.is_err() {
                    pod.interrupt(session).await.ok();
                }
                ended.ok().and_then(|answer| answer.unwrap().err()).map(|error| error.code)
            })
        });
        for attack in attacks.collect::<Vec<_>>() {
            if let Some(code) = attack.await.unwrap() {
                assert!(matches!(code, ErrorCode::CapacityExhausted | ErrorCode::SizeAdmissionError | ErrorCode::SessionBusy), "{code}");
                refused += u32::from(code == ErrorCode::CapacityExhausted);
            }
            peak = peak.max(memory::resident().unwrap());
        }
        // An idle session may have gone to sleep meanwhile; it comes back.
        let answered = dormouse_testkit::wait::eventually("the honest session is served", async || {
            try_eval(&pod, &honest, "mine").await.is_ok_and(|result| result.value == Some(json!("kept")))
        });
        answered.await;
    }
    assert!(peak < limit, "{} MiB of {} MiB were in use", peak >> 20, limit >> 20);
    eprintln!("peak {} of {} MiB, {refused} refused", peak >> 20, limit >> 20);
}

static USED: AtomicU64 = AtomicU64::new(0);

#[tokio::test(flavor = "multi_thread")]
async fn under_pressure_idle_sessions_sleep_and_who_finds_no_room_is_told() {
    let world = World::default();
    let memory = Memory::with_reading(1_000 << 20, || Some(USED.load(Ordering::SeqCst)));
    let pod = pod(&world, &memory, 100);
    let grown = "var held = new Uint8Array(50 << 20).fill(1); held.length";
    let sessions: Vec<_> = (0..20).map(|number| assign(&pod, &format!("u{number}"), 1)).collect();
    for session in &sessions {
        assert!(eval(&pod, session, grown).await.ok, "the ones that are idle longest make room");
    }
    assert!(memory.promised() <= 500 << 20);
    assert_eq!(common::until(&pod, "u0", |report| report.state == State::Hibernated).await.cells, 1);
    assert_eq!(value(&pod, &sessions[0], "held.length").await, json!(50 << 20), "nothing is lost");
    // Whatever it is that uses it: nothing new is begun, and it is said.
    USED.store(990 << 20, Ordering::SeqCst);
    let error = try_eval(&pod, &sessions[1], "1").await.unwrap_err();
    assert_eq!(error.code, ErrorCode::CapacityExhausted);
    USED.store(0, Ordering::SeqCst);
    assert_eq!(value(&pod, &sessions[1], "held.length").await, json!(50 << 20));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_cannot_grow_is_told_so_and_gives_back_what_it_had() {
    let world = World::default();
    let memory = Memory::with_reading(400 << 20, || Some(0));
    let pod = pod(&world, &memory, 100);
    let mut large = spec();
    large.limits.heap_bytes = 1 << 30;
    let hog = assign_spec(&pod, "hog", 1, large);
    let result = eval(&pod, &hog, "var hog = []; for (;;) hog.push(new Uint8Array(1 << 20))").await;
    assert_eq!(result.error.unwrap().code, ErrorCode::MemoryLimitError);
    pod.hibernate(hog.clone()).await.unwrap();
    assert_eq!(memory.promised(), 0);
}
