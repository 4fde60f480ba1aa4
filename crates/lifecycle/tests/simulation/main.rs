//! Gateways, processes, crashes, lost and late replies, garbage collection and deletion: by seed, against a model of the store.
//!
//! The machines are the product's: acquire, commit, assemble, tombstone, deletable. What is modelled around them is as small as it can be and as
//! unkind as it must be. The invariants are in [`check`], each with a name; [`mutant`] has protocols that are wrong in one place, which must
//! be caught. `DORMOUSE_SEEDS` says how many seeds are run; a seed that fails is named and fails again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod archive;
mod brokers;
mod check;
mod collector;
mod driver;
mod heap;
mod mutant;
mod outside;
mod process;
mod random;
mod store;
mod sweeper;
mod world;

use std::{collections::BTreeSet, io::Write as _};

use brokers::Came;
use check::Violation;
use mutant::{Lie, Mutant};
use world::{Summary, run};

/// Seeds unless `DORMOUSE_SEEDS` says otherwise.
const SEEDS: u64 = 4_000;

/// Seeds within which a wrong protocol must be caught.
const MUTANT_SEEDS_MAX: u64 = 5_000;

/// Steps that a crash must have cut off in the course of the seeds.
const STEPS: [&str; 10] = [
    "before the restore",
    "between head and segments",
    "before a cell",
    "before the segment",
    "before the head",
    "before a refusal is resolved",
    "deletion reads",
    "deletion buries",
    "deletion lists",
    "deletion deletes",
];

fn seeds() -> u64 {
    std::env::var("DORMOUSE_SEEDS").ok().map_or(SEEDS, |text| text.parse().expect("DORMOUSE_SEEDS is a number"))
}

/// The end of a session is not the end of the network: a first commit that was sent before it can arrive after it.
#[test]
fn a_first_commit_that_arrives_after_the_deletion_is_litter_and_is_collected() {
    let met = (1..=MUTANT_SEEDS_MAX).find(|seed| {
        let summary = run(*seed, None, None).unwrap_or_else(|violation| panic!("seed {seed}: {}: {}", violation.checker, violation.what));
        summary.erased && summary.litter && summary.collected > 0
    });
    assert!(met.is_some(), "no first commit arrived after the end");
}

/// The first seed up to `max` that is caught, and by which checker.
fn first_caught(max: u64, mutant: Option<Mutant>, lie: Option<Lie>) -> Option<(u64, Violation)> {
    (1..=max).find_map(|seed| run(seed, mutant, lie).err().map(|violation| (seed, violation)))
}

fn say(text: &str) {
    // Past the test harness, which would swallow it: a soak's report is made of these lines.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The sum of what the seeds came to.
#[derive(Default)]
struct Total {
    acked: usize,
    effects: usize,
    swept: (u64, u64),
    takeovers: u64,
    with_segments: u64,
    erased: u64,
    /// Sessions of which something was stored after their end, and objects of such that were collected.
    litter: (u64, u64),
    archived: u64,
    claims: (u64, u64),
    commits: u64,
    calls: Came,
    cut: BTreeSet<&'static str>,
}

impl Total {
    fn add(&mut self, summary: Summary) {
        self.acked += summary.acked;
        self.effects += summary.effects;
        self.takeovers += summary.epochs;
        self.swept = (self.swept.0 + summary.swept.0, self.swept.1 + summary.swept.1);
        self.with_segments += u64::from(summary.segments > 0);
        self.erased += u64::from(summary.erased);
        self.archived += u64::from(summary.archived);
        self.litter = (self.litter.0 + u64::from(summary.litter), self.litter.1 + summary.collected);
        self.claims = (self.claims.0 + summary.claims.0, self.claims.1 + summary.claims.1);
        self.commits += summary.version.1;
        self.calls.add(summary.calls);
        self.cut.extend(summary.cut);
    }
}

#[test]
fn every_invariant_holds_under_every_fault() {
    let (seeds, threads) = (seeds(), std::thread::available_parallelism().map_or(1, |n| n.get() as u64));
    let worker = |first: u64| {
        let mut total = Total::default();
        for seed in (first..=seeds).step_by(threads as usize) {
            match run(seed, None, None) {
                Ok(summary) => total.add(summary),
                Err(violation) => panic!("seed {seed}: {}: {}", violation.checker, violation.what),
            }
        }
        total
    };
    let totals: Vec<Total> = std::thread::scope(|scope| {
        let workers: Vec<_> = (1..=threads).map(|first| scope.spawn(move || worker(first))).collect();
        workers.into_iter().map(|worker| worker.join().expect("no seed fails")).collect()
    });
    let mut all = Total::default();
    for total in totals {
        all.acked += total.acked;
        all.effects += total.effects;
        all.takeovers += total.takeovers;
        all.swept = (all.swept.0 + total.swept.0, all.swept.1 + total.swept.1);
        all.with_segments += total.with_segments;
        all.erased += total.erased;
        all.archived += total.archived;
        all.litter = (all.litter.0 + total.litter.0, all.litter.1 + total.litter.1);
        all.claims = (all.claims.0 + total.claims.0, all.claims.1 + total.claims.1);
        all.commits += total.commits;
        all.calls.add(total.calls);
        all.cut.extend(total.cut);
    }
    say(&format!(
        "soak: {seeds} seeds, 0 violations; {} commits, {} cells acked, {} effects, {} assignments, of which {} were claimed first, and {} claims \
         withdrawn; brokers: {} crashes, {} answers from pages that others wrote, {} calls refused as unknown or over, {} stale calls refused; \
         {} sweeps deleted {} keys, 0 of them live, and left 0 orphans; {} runs ended with segments, {} sessions were deleted, {} of them had a head stored after their end, and {} objects of such were collected; {} were archived",
        all.commits,
        all.acked,
        all.effects,
        all.takeovers,
        all.claims.0,
        all.claims.1,
        all.calls.crashes,
        all.calls.from_page,
        all.calls.unknown,
        all.calls.stale,
        all.swept.0,
        all.swept.1,
        all.with_segments,
        all.erased,
        all.litter.0,
        all.litter.1,
        all.archived
    ));
    // It is worth something only if it gets somewhere.
    assert!(all.acked as u64 > seeds * 5, "only {} cells were acked", all.acked);
    assert!(all.takeovers > seeds * 3 && all.effects as u64 > seeds && all.erased > seeds / 6);
    assert!(all.claims.0 > seeds && all.claims.1 > seeds, "{:?} claims were confirmed and withdrawn", all.claims);
    assert!(all.calls.crashes > seeds / 4 && all.calls.from_page > seeds / 20 && all.calls.stale > seeds / 20, "{:?}", all.calls);
    assert!(all.archived > seeds / 20, "only {} were archived", all.archived);
    assert!(all.with_segments > seeds / 10, "only {} runs had segments", all.with_segments);
    if seeds >= SEEDS {
        let uncut: Vec<_> = STEPS.iter().filter(|step| !all.cut.contains(*step)).collect();
        assert!(uncut.is_empty(), "no crash came {uncut:?}");
    }
}

#[test]
fn every_mutant_is_caught() {
    let mut missed = Vec::new();
    for mutant in Mutant::ALL {
        match first_caught(MUTANT_SEEDS_MAX, Some(mutant), None) {
            Some((seed, violation)) => say(&format!("soak: mutant {mutant:?}: caught by seed {seed}: {}", violation.checker)),
            None => missed.push(mutant),
        }
    }
    assert!(missed.is_empty(), "not caught within {MUTANT_SEEDS_MAX} seeds: {missed:?}");
}

#[test]
fn every_store_that_lies_is_caught() {
    for lie in Lie::ALL {
        let (seed, violation) = first_caught(MUTANT_SEEDS_MAX, None, Some(lie)).unwrap_or_else(|| panic!("{lie:?} is not caught"));
        say(&format!("soak: store that lies, {lie:?}: caught by seed {seed}: {}", violation.checker));
    }
}

#[test]
fn a_seed_is_the_same_run_every_time() {
    for seed in 1..50 {
        let once = format!("{:?}", run(seed, None, None));
        let twice = format!("{:?}", run(seed, None, None));
        assert_eq!(once, twice);
    }
}
