//! The suites that others wrote, where a copy is: `DORMOUSE_NODE_TESTS` names Node's `test/parallel`, `DORMOUSE_WPT` the root of web-platform-tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "a test fails by panicking")]

use std::path::Path;

use dormouse_conformance::suites::{self, Suite};

async fn run(suite: Suite, variable: &str) {
    let Some(copy) = std::env::var_os(variable) else {
        eprintln!("skipped: {suite:?}, as {variable} names no copy of it");
        return;
    };
    let scored = suites::score(suite, Path::new(&copy), &std::env::var("ONLY").unwrap_or_default()).await.unwrap();
    for (area, score) in &scored.areas {
        eprintln!("{area:24} {:6} of {:6}", score.both, score.node);
    }
    eprintln!("{} files of which Node passes nothing: {}", scored.silent.len(), scored.silent.join(" "));
    assert!(scored.failures.is_empty(), "{} failures:\n{}", scored.failures.len(), scored.failures.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_own_tests() {
    run(Suite::Node, "DORMOUSE_NODE_TESTS").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn web_platform_tests() {
    run(Suite::Wpt, "DORMOUSE_WPT").await;
}
