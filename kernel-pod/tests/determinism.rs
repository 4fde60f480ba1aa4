//! With a seed, the same cells make the same memory on any pod, in any process, whatever sleeps and moves come between; without one, nothing
//! that began as the same repeats its randomness.
#![allow(clippy::print_stdout, reason = "the other process tells by printing")]

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::process::Command;

use crate::common::{World, assign_spec, timers_done, value};
use dormouse_crds::session::{Determinism, KernelSessionSpec, Source};
use dormouse_lifecycle::{Head, assemble};
use dormouse_protocol::kernel::Assignment;
use dormouse_store::SnapshotStore as _;
use serde_json::{Value, json};

/// Tells the other process that it is one.
const OTHER_PROCESS_ENV: &str = "DORMOUSE_TEST_OTHER_PROCESS";
/// Before what the other process says.
const MARK: &str = "the session came to ";

/// The cells; the first leaves a timer.
const CELLS: [&str; 4] = [
    "var log = [crypto.randomUUID(), new Date().toISOString()]; setTimeout(() => log.push(['timer', Math.random(), Date.now()]), 30); 0",
    "await sleep(10); log.push([Math.random(), performance.now()]); const t = setTimeout(() => log.push(crypto.randomUUID()), 20); log.length",
    "const { groupBy } = await import('lodash'); class P { constructor(public n: number) {} }; log.push(groupBy([1.2, 2.1, 2.4].map((n) => new P(n)), (p) => Math.floor(p.n))); 0",
    "log.push(Array.from(crypto.getRandomValues(new Uint8Array(40)))); log",
];

fn seeded(seed: u64) -> KernelSessionSpec {
    let determinism = Some(Determinism { seed, epoch: "2026-01-01T00:00:00Z".to_owned() });
    KernelSessionSpec { determinism, ..crate::common::spec() }
}

/// A digest of everything of the session's memory, as it is stored, and what its last cell answered.
async fn came_to(world: &World, last: &Value) -> String {
    let object = world.store.get("p/t/team/s/default/u1/head").await.unwrap().unwrap();
    let head = Head::decode(&object.bytes).unwrap();
    let mut segments = Vec::new();
    for segment in &head.segments {
        segments.push(world.store.get(&segment.key).await.unwrap().unwrap().bytes);
    }
    let mut hash = DefaultHasher::new();
    for (number, page) in assemble(&head, &segments).unwrap() {
        // A page that came back to what the base image holds is the same as one that was never touched.
        if page.iter().any(|byte| *byte != 0) {
            (number, *page).hash(&mut hash);
        }
    }
    (head.memory_pages, head.globals.text(), last.to_string()).hash(&mut hash);
    format!("{:016x}", hash.finish())
}

/// All cells on one pod that never sleeps.
async fn straight(seed: u64) -> String {
    let world = World::default();
    let pod = world.pod("a");
    let on = assign_spec(&pod, "u1", 1, seeded(seed));
    let mut last = Value::Null;
    for cell in CELLS {
        last = value(&pod, &on, cell).await;
        timers_done(&pod, &on).await;
    }
    pod.hibernate(on).await.unwrap();
    came_to(&world, &last).await
}

/// The same, asleep after each cell with its timers pending, and woken on another pod.
async fn on_the_move(seed: u64) -> String {
    let world = World::default();
    let mut last = Value::Null;
    for (cell, epoch) in CELLS.iter().zip(1..) {
        let pod = world.pod(&format!("pod-{epoch}"));
        let on = assign_spec(&pod, "u1", epoch, seeded(seed));
        timers_done(&pod, &on).await;
        last = value(&pod, &on, cell).await;
        pod.hibernate(on).await.unwrap();
    }
    came_to(&world, &last).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_cells_make_the_same_memory_in_another_process_and_on_the_move() {
    let here = straight(7).await;
    if std::env::var_os(OTHER_PROCESS_ENV).is_some() {
        return println!("{MARK}{here}");
    }
    let name = "determinism::the_same_cells_make_the_same_memory_in_another_process_and_on_the_move";
    let mut other = Command::new(std::env::current_exe().unwrap());
    let said = other.args(["--exact", name, "--nocapture"]).env(OTHER_PROCESS_ENV, "1").output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    let there = said.lines().find_map(|line| line.split_once(MARK)).unwrap_or_else(|| panic!("the other process says: {said}")).1;
    assert_eq!(here, there, "in another process");
    assert_eq!(here, on_the_move(7).await, "with sleeps and moves between");
    assert_ne!(here, straight(8).await, "the digest sees the seed");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_seed_what_began_as_the_same_never_repeats_its_randomness() {
    const DRAW: &str = "[Math.random(), crypto.randomUUID(), Array.from(crypto.getRandomValues(new Uint8Array(8)))]";
    let world = World::default();
    let pod = world.pod("a");
    let parent = assign_spec(&pod, "u1", 1, crate::common::spec());
    // The generator has drawn before the copies are made, so that it would go on from one state in each.
    value(&pod, &parent, "Math.random()").await;
    pod.checkpoint(parent.clone(), "here".to_owned()).await.unwrap();
    let mut draws = vec![value(&pod, &parent, DRAW).await];
    for child in ["c1", "c2"] {
        let source = Some(Source { session: parent.name.clone(), checkpoint: Some("here".to_owned()) });
        let spec = KernelSessionSpec { source, ..crate::common::spec() };
        let forked = Assignment { source_uid: Some("u1".to_owned()), ..assign_spec(&pod, child, 1, spec) };
        draws.push(value(&pod, &forked, DRAW).await);
    }
    for _ in 0..2 {
        pod.restore(parent.clone(), "here".to_owned()).await.unwrap();
        draws.push(value(&pod, &parent, DRAW).await);
    }
    // From the pod's own copy, and from storage.
    pod.restore(parent.clone(), "here".to_owned()).await.unwrap();
    pod.hibernate(parent.clone()).await.unwrap();
    draws.push(value(&pod, &parent, DRAW).await);
    let other = world.pod("b");
    pod.restore(parent.clone(), "here".to_owned()).await.unwrap();
    pod.hibernate(parent).await.unwrap();
    let moved = assign_spec(&other, "u1", 2, crate::common::spec());
    draws.push(value(&other, &moved, DRAW).await);
    for place in 0..3 {
        for (number, draw) in draws.iter().enumerate() {
            let repeated = draws.iter().filter(|one| one[place] == draw[place]).count();
            assert_eq!(repeated, 1, "draw {number} of {}: {}", place, json!(draws));
        }
    }
}
