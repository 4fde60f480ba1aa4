//! The vendored selection of test262: what native QuickJS-NG passes, our engine passes, or it is in the list of what it is known not to.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::{collections::BTreeSet, path::Path};

use dormouse_conformance::test262::Suite;

const SELECTION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/test262");
const RUNS_MIN: usize = 500;
const THREADS: usize = 2;

/// Tests that pass in native QuickJS-NG only, each with its reason.
const NATIVE_ONLY: &[(&str, &str)] = &[];

#[test]
fn our_engine_passes_what_native_quickjs_passes() {
    let suite = Suite::read(Path::new(SELECTION), "").unwrap();
    let results = suite.run(THREADS).unwrap();
    assert!(results.len() >= RUNS_MIN, "{} runs", results.len());
    assert!(suite.skipped.is_empty(), "{:?}", suite.skipped);
    let worse: BTreeSet<&str> = results.iter().filter(|ran| ran.ours.is_err() && ran.native.is_ok()).map(|ran| ran.path.as_str()).collect();
    let known: BTreeSet<&str> = NATIVE_ONLY.iter().map(|(path, _)| *path).collect();
    let why: Vec<_> = results.iter().filter(|ran| worse.contains(ran.path.as_str())).map(|ran| (&ran.path, &ran.ours)).collect();
    assert_eq!(worse, known, "{why:#?}");
    let passed = results.iter().filter(|ran| ran.ours.is_ok()).count();
    assert!(passed * 100 >= results.len() * 99, "{passed} of {} runs pass", results.len());
}
