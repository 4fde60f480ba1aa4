//! Scripts that mean harm end in a value or a typed error, within their budgets, and the session answers afterwards.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says what it counted"
)]

use std::{collections::BTreeMap, time::Duration};

use dormouse_conformance::{
    hostile::{self, Ends, Script, WALL},
    known::Known,
};

const SCRIPTS_MIN: usize = 1000;
const THREADS: usize = 2;
/// Budgets with which the table of ends is made, in sixteenths of what a script has: those of a machine sixteen times as slow, up to one sixteen times as
/// fast.
const SIXTEENTHS: [u32; 6] = [1, 4, 8, 16, 64, 256];

/// How all end on machines of very different speeds.
fn write_ends(scripts: &[Script]) {
    let mut ends = Ends::default();
    for sixteenths in SIXTEENTHS {
        let wall: Duration = WALL / 16 * sixteenths;
        for verdict in hostile::run_all(scripts, THREADS, wall).unwrap() {
            ends.add(&verdict.script.name, &verdict.outcome);
        }
    }
    println!("{} of {} scripts have one end", ends.certain(), scripts.len());
    ends.write().unwrap();
}

/// `ONLY=family/` or `ONLY=family/1.2.3` runs those scripts only. `WRITE_ENDS=1` writes how all end before.
#[test]
fn hostile_scripts_end_within_their_budgets_and_the_session_lives() {
    let only = std::env::var("ONLY").unwrap_or_default();
    let known = Known::read().unwrap();
    let harmful = known.hostile().unwrap();
    let mut scripts = hostile::scripts().unwrap();
    for name in harmful.keys() {
        assert!(scripts.iter().any(|script| script.name == *name), "known.toml names {name}, which is not there");
    }
    if std::env::var_os("WRITE_ENDS").is_some() {
        write_ends(&scripts);
    }
    let ends = Ends::read().unwrap();
    for name in ends.scripts() {
        assert!(scripts.iter().any(|script| script.name == name), "hostile-ends.toml names {name}, which is not there");
    }
    scripts.retain(|script| script.name.starts_with(&only));
    assert!(!only.is_empty() || scripts.len() >= SCRIPTS_MIN, "only {} scripts", scripts.len());
    let mut verdicts = hostile::run_all(&scripts, THREADS, WALL).unwrap();
    assert_eq!(verdicts.len(), scripts.len());

    for verdict in &mut verdicts {
        let (name, outcome) = (&verdict.script.name, &verdict.outcome);
        if !ends.allow(name, outcome) {
            verdict
                .faults
                .push(format!("ends as {outcome}, not as {}", ends.of(name).unwrap_or_else(|| "anything that is known".to_owned())));
        }
    }

    let mut outcomes = BTreeMap::new();
    let mut failures = Vec::new();
    for verdict in &verdicts {
        let name = verdict.script.name.as_str();
        *outcomes.entry((name.split('/').next().unwrap(), verdict.outcome.as_str())).or_insert(0) += 1;
        match (verdict.faults.is_empty(), harmful.contains_key(name)) {
            (true, true) => failures.push(format!("{name} does no harm now: take it out of known.toml")),
            (false, false) => {
                failures.push(format!("{name} [{}] {}\n  {}", verdict.outcome, verdict.faults.join("; "), verdict.script.source));
            }
            _ => {}
        }
    }
    let slowest = verdicts.iter().max_by_key(|verdict| verdict.cpu).unwrap();
    println!("{} scripts: {outcomes:?}; the slowest: {} {:?}", verdicts.len(), slowest.script.name, slowest.cpu);
    assert!(failures.is_empty(), "{} of {} scripts:\n{}", failures.len(), verdicts.len(), failures.join("\n"));
}
