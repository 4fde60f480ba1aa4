//! What sessions use is counted once, whatever becomes of the processes that ran them.

use std::collections::BTreeMap;

use crate::common::{World, assign, assign_spec, call, metric, spec, value};
use dormouse_crds::session::{Durability, KernelSessionSpec};
use dormouse_kernel::Pod;
use dormouse_lifecycle::usage::{Counts, Seen, Sheet, sum};
use dormouse_protocol::kernel::{Assignment, StoredCall, UsageCall};
use dormouse_store::SnapshotStore as _;

/// Days around now: the test may run over midnight.
fn days() -> Vec<String> {
    let now = jiff::Timestamp::now();
    [-24, 0, 24].map(|hours| (now + jiff::SignedDuration::from_hours(hours)).strftime("%Y-%m-%d").to_string()).to_vec()
}

fn asked() -> UsageCall {
    UsageCall { namespace: "team".to_owned(), days: days() }
}

/// What these processes and their store say of a session.
async fn seen(pods: &[&Pod], uid: &str) -> Seen {
    let mut whole = Sheet::default();
    let mut numbers = BTreeMap::new();
    for pod in pods {
        let live = pod.live_usage(&asked()).unwrap();
        numbers.insert(live.boot, live.number);
        live.days.values().for_each(|sheet| whole.merge(sheet));
    }
    for mut sheets in pods[0].stored_usage(&asked()).await.unwrap().days.into_values() {
        sheets.retain(|name, _| {
            let (boot, number) = name.rsplit_once('-').unwrap();
            numbers.get(boot).is_none_or(|told| number.parse::<u64>().unwrap() < *told)
        });
        whole.merge(&sum(&sheets));
    }
    whole.sessions.remove(uid).unwrap_or_default()
}

async fn run(pod: &Pod, session: &Assignment, code: &str, key: &str, api_key: Option<&str>) {
    let mut cell = call(session, code, key);
    cell.eval.api_key = api_key.map(str::to_owned);
    assert!(pod.eval(cell).await.unwrap().ok, "{code}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cells_are_counted_by_key_and_once_over_restarts() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    run(&pod, &session, "let n = 0; for (let i = 0; i < 1e5; i++) n += i; n", "k1", Some("app")).await;
    run(&pod, &session, "await callTool('echo', { x: 'y'.repeat(1000) })", "k2", None).await;
    run(&pod, &session, "n", "k1", Some("app")).await;
    let first = seen(&[&pod], "u1").await;
    assert_eq!((first.keys["app"].evals, first.keys[""].evals, first.name.as_str()), (1, 1, "session-u1"), "a retry is no other cell");
    assert!(first.keys["app"].cpu_us > 0 && first.keys[""].tool_calls == 1 && first.keys[""].egress_bytes > 2000, "{first:?}");
    assert!(first.stored_bytes > 0);
    assert_eq!((metric(&pod, "kernel_used_evals_total"), metric(&pod, "kernel_used_tool_calls_total")), (2, 1));
    assert_eq!(metric(&pod, "kernel_used_cpu_microseconds_total"), first.total().cpu_us);
    assert_eq!(metric(&pod, "kernel_used_egress_bytes_total"), first.total().egress_bytes);
    assert_eq!((metric(&pod, "kernel_used_wakes_total"), first.wakes), (0, 0), "it was never asleep");

    // It stops and stores its sheet; another process goes on.
    pod.drain().await;
    let other = world.pod("b");
    let moved = Assignment { boot: other.info().boot, epoch: 2, ..session.clone() };
    run(&other, &moved, "n", "k3", Some("app")).await;
    let second = seen(&[&other], "u1").await;
    assert_eq!((second.keys["app"].evals, second.keys[""].evals, second.wakes), (2, 1, 1));
    assert_eq!((metric(&other, "kernel_used_evals_total"), metric(&other, "kernel_used_wakes_total")), (1, 1), "what it did itself");

    // That one is lost without a word, and the one after it finds what it committed.
    drop(other);
    let last = world.pod("c");
    let stored = StoredCall { namespace: "team".to_owned(), name: session.name.clone(), uid: "u1".to_owned(), anchor: None };
    last.stored_status(&stored).await.unwrap();
    let third = seen(&[&last], "u1").await;
    assert_eq!(third.total().evals, 3, "{third:?}");
    let on_last = Assignment { boot: last.info().boot, epoch: 3, ..session.clone() };
    run(&last, &on_last, "n", "k4", None).await;
    assert_eq!(seen(&[&last], "u1").await.total().evals, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_committed_is_not_counted() {
    let world = World::default();
    let pod = world.pod("a");
    let lazy = assign_spec(&pod, "u1", 1, KernelSessionSpec { durability: Durability::OnIdle, ..spec() });
    value(&pod, &lazy, "let n = 1; n").await;
    let first = seen(&[&pod], "u1").await.total().evals;
    value(&pod, &lazy, "n = 2").await;
    assert_eq!(seen(&[&pod], "u1").await.total().evals, first, "its answer may be lost");
    pod.hibernate(lazy.clone()).await.unwrap();
    assert_eq!(seen(&[&pod], "u1").await.total().evals, first + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_heap_is_counted_as_long_as_it_lives_and_wakes_are() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    value(&pod, &session, "const big = new Uint8Array(4 << 20).fill(1); big.length").await;
    assert!(pod.live_usage(&asked()).unwrap().heap_bytes > 4 << 20);
    let before = seen(&[&pod], "u1").await.heap_byte_seconds;
    while seen(&[&pod], "u1").await.heap_byte_seconds <= before {
        tokio::task::yield_now().await;
    }
    pod.hibernate(session.clone()).await.unwrap();
    assert_eq!(pod.live_usage(&asked()).unwrap().heap_bytes, 0);
    value(&pod, &session, "big.length").await;
    assert_eq!((seen(&[&pod], "u1").await.wakes, metric(&pod, "kernel_used_wakes_total")), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_sheets_of_a_day_that_is_over_become_one() {
    let world = World::default();
    let day = "2020-01-01";
    for number in 1..=20u64 {
        let mut sheet = Sheet::default();
        let counts = Counts { evals: number, ..Counts::default() };
        sheet.committed("u1", "a", &BTreeMap::from([(String::new(), counts)]));
        sheet.of("u1", "a").wakes = 1;
        let key = dormouse_lifecycle::keys::usage("p/", "team", day, "boot", number);
        world.store.put(&key, serde_json::to_vec(&sheet).unwrap().into(), dormouse_store::Condition::Absent).await.unwrap();
    }
    let pod = world.pod("a");
    let asked = UsageCall { namespace: "team".to_owned(), days: vec![day.to_owned()] };
    for _ in 0..2 {
        let sheets = pod.stored_usage(&asked).await.unwrap().days.remove(day).unwrap();
        let sum = sum(&sheets);
        assert_eq!((sum.sessions["u1"].total().evals, sum.sessions["u1"].wakes), (20, 20));
    }
    let prefix = dormouse_lifecycle::keys::usage_prefix("p/", "team", day);
    dormouse_testkit::wait::eventually("one object is left", async || world.store.list(&prefix).await.unwrap().len() == 1).await;
    assert!(pod.stored_usage(&UsageCall { namespace: "other".to_owned(), days: Vec::new() }).await.is_err());
}
