//! Very many live sessions of one pod, which somebody uses all the time: what status says of them costs the API server little.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use dormouse_client::Client;
use dormouse_protocol::{eval::EvalRequest, session::CreateSession};
use dormouse_testkit::{soak, wait::eventually};
use futures::StreamExt as _;
use serde_json::json;

use crate::support::{
    admin::Admin,
    attacks,
    fleet::{Fleet, written},
};

/// Requests under way at a time.
const AT_ONCE: usize = 16;
/// From one session that is asked to the next: it has no divisor with their number.
const STEP: u64 = 7_919;
/// Writes a second that all processes may make in all, but for leases.
const WRITES_A_SECOND_MAX: f64 = 5.0;
/// What is written of, and where its objects are listed.
const KINDS: [(&str, &str); 4] = [
    ("kernelsessions", "/apis/dormouse.dev/v1alpha1/kernelsessions"),
    ("kernelpools", "/apis/dormouse.dev/v1alpha1/kernelpools"),
    ("toolbrokers", "/apis/dormouse.dev/v1alpha1/toolbrokers"),
    ("pods", "/api/v1/pods"),
];

fn name(number: u64) -> String {
    format!("live-{number}")
}

/// Makes a session that does not go to sleep by itself, and runs its first cell.
async fn begin(client: &Client, number: u64) {
    let spec = serde_json::from_value(json!({"idleSeconds": 86_400})).unwrap();
    let session = CreateSession { name: Some(name(number)), labels: Default::default(), spec };
    attacks::patient(|| client.create(&session)).await;
    count(client, number).await;
}

async fn count(client: &Client, number: u64) {
    let code = "globalThis.n = (globalThis.n ?? 0) + 1".to_owned();
    let (name, cell) = (name(number), EvalRequest { code, ..EvalRequest::default() });
    attacks::patient(|| client.eval(&name, &cell)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn live_sessions_that_are_used_cost_few_writes_and_none_that_changes_nothing() {
    let sessions = soak::count(50, 10_000);
    let (lasts, rate) = (Duration::from_secs(soak::count(20, 600)), soak::count(20, 100));
    let mut fleet = Fleet::with_slots(&attacks::outside().await.0, sessions + 10).await;
    let (client, admin) = (fleet.client(), Admin::new(&fleet));
    let began = Instant::now();
    futures::stream::iter(0..sessions).for_each_concurrent(AT_ONCE, |number| begin(&client, number)).await;
    let made = began.elapsed().as_secs_f64();
    let live = async || fleet.kernel.metrics().await.contains(&format!("dormouse_kernel_live_sessions {sessions}\n"));
    assert!(live().await, "none was put to sleep for another one's sake");

    // What their making has status say is written a hundred a second.
    eventually("status says that each is ready and has stored something", async || admin.ready_sessions().await >= sessions).await;
    let mut watched = Vec::new();
    for (kind, path) in KINDS {
        watched.push((kind, admin.changes(path).await));
    }
    // After the watches: whatever is written from now on is among what they tell, if it changes anything.
    let since = fleet.server.writes().unwrap().len();
    let (ticks, began) = (tokio::time::interval(Duration::from_secs(1) / u32::try_from(rate).unwrap()), Instant::now());
    let cells = futures::stream::unfold((ticks, 0_u64), |(mut ticks, asked)| async move {
        ticks.tick().await;
        (began.elapsed() < lasts).then_some((asked, (ticks, asked + 1)))
    });
    let asked = AtomicU64::new(0);
    let cell = async |number: u64| {
        count(&client, number * STEP % sessions).await;
        asked.fetch_add(1, Ordering::Relaxed);
    };
    cells.for_each_concurrent(AT_ONCE, cell).await;
    let kinds = written(&fleet, since);
    let all: usize = kinds.values().sum();
    let a_second = all as f64 / began.elapsed().as_secs_f64();
    soak::report(&format!(
        "{sessions} live sessions, made in {made:.0} s; {} cells in {:.0} s: {a_second:.2} writes a second: {kinds:?}",
        asked.into_inner(),
        began.elapsed().as_secs_f64()
    ));
    assert!(live().await, "each is live after it");
    assert!(a_second < WRITES_A_SECOND_MAX, "{kinds:?}");
    for (kind, changes) in watched {
        let wrote = async || {
            let all = fleet.server.writes().unwrap();
            let of = |resource: &str| resource.split('/').next() == Some(kind);
            all.iter().skip(since).filter(|write| write.code < 300 && of(&write.resource)).count() <= changes.count()
        };
        eventually(&format!("every write has changed one of the {kind}"), wrote).await;
    }
    for shared in fleet.processes() {
        shared.assert_small();
    }
}
