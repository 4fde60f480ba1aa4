//! Scripts that mean harm end in a value or a typed error, within their budgets, and the session answers afterwards.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says what it counted"
)]

use std::collections::{BTreeMap, BTreeSet};

use dormouse_conformance::hostile;

const SCRIPTS_MIN: usize = 1000;
const THREADS: usize = 2;

/// `ONLY=family/` or `ONLY=family/1.2.3` runs those scripts only.
#[test]
fn hostile_scripts_end_within_their_budgets_and_the_session_lives() {
    let only = std::env::var("ONLY").unwrap_or_default();
    let mut scripts = hostile::scripts().unwrap();
    assert!(scripts.len() >= SCRIPTS_MIN, "only {} scripts", scripts.len());
    let unpolled = hostile::unpolled().unwrap();
    let names: BTreeSet<String> = scripts.iter().map(|script| script.name.clone()).collect();
    assert!(unpolled.is_subset(&names), "unpolled.toml names {:?}", unpolled.difference(&names));
    scripts.retain(|script| script.name.starts_with(&only) && !unpolled.contains(&script.name));
    let verdicts = hostile::run_all(&scripts, THREADS).unwrap();
    assert_eq!(verdicts.len(), scripts.len());
    let mut outcomes = BTreeMap::new();
    for verdict in &verdicts {
        *outcomes.entry((verdict.script.name.split('/').next().unwrap(), verdict.outcome.as_str())).or_insert(0) += 1;
    }
    println!("{outcomes:#?}");
    let failures: Vec<String> = verdicts
        .iter()
        .filter(|verdict| !verdict.faults.is_empty())
        .map(|verdict| format!("{} [{}] {}\n  {}", verdict.script.name, verdict.outcome, verdict.faults.join("; "), verdict.script.source))
        .collect();
    assert!(failures.is_empty(), "{} of {} scripts:\n{}", failures.len(), verdicts.len(), failures.join("\n"));
}
