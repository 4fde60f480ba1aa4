//! Every program under `programs/` prints in a fresh session what it prints in the machine's Node.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use dormouse_conformance::differential;

/// `ONLY=area/` or `ONLY=area/name` compares those programs only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_print_what_they_print_in_node() {
    let only = std::env::var("ONLY").unwrap_or_default();
    let result = differential::compare(&only).await.unwrap();
    assert!(result.failures.is_empty(), "{} of {} programs:\n\n{}", result.failures.len(), result.compared, result.failures.join("\n"));
    assert!(result.known < result.compared);
}
