//! A pod that is filled by every means that a tenant has, alone in its process: what that uses is measured.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use common::{World, assign, assign_spec, spec, try_eval, value};
use dormouse_protocol::ErrorCode;
use dormouse_service::memory::{self, Memory};
use serde_json::json;
use tokio::sync::Mutex;

/// As in the program.
#[global_allocator]
static ALLOCATOR: dormouse_service::Allocator = dormouse_service::Allocator;

/// What the process uses is measured by one at a time.
static ALONE: Mutex<()> = Mutex::const_new(());

/// What all instances share is there once.
#[tokio::test(flavor = "multi_thread")]
async fn a_live_session_counts_for_what_is_its_own() {
    const SESSIONS: u64 = 200;
    const OWN_BYTES_MAX: u64 = 600 << 10;
    let _alone = ALONE.lock().await;
    let world = World::default();
    let pod = world.pod_with_memory(&Memory::unlimited(), 300);
    value(&pod, &assign(&pod, "first", 1), "1").await;
    let before = memory::resident().unwrap();
    for number in 0..SESSIONS {
        value(&pod, &assign(&pod, &format!("s{number}"), 1), "1").await;
    }
    let each = memory::resident().unwrap().saturating_sub(before) / SESSIONS;
    assert!(each < OWN_BYTES_MAX, "{each} bytes");
}

/// Every means that a tenant has: heaps, output, events that nobody reads, arguments of calls, values. One after the other and all at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_filled_lives_and_serves_others() {
    const ROOM: u64 = 1 << 30;
    let _alone = ALONE.lock().await;
    let world = World::default();
    let limit = memory::resident().unwrap() + ROOM;
    let memory = Memory::with_reading(limit, memory::resident);
    let pod = world.pod_with_memory(&memory, 100);
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
