//! What Node has only by a package: Temporal beside the proposal's own polyfill, decorators beside what TypeScript makes of them. Each package is installed
//! once and pinned; where it cannot be had, that is said.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../cli/tests/support/packages.rs"]
mod packages;

use dormouse_conformance::peers;

async fn prints_the_same(area: &str, package: &str) {
    let Some(folder) = packages::npm(area, &[package]) else { return };
    let made = tempfile::tempdir().unwrap();
    let result = peers::compare(area, &folder, made.path()).await.unwrap();
    assert!(result.failures.is_empty(), "{} of {} programs:\n\n{}", result.failures.len(), result.compared, result.failures.join("\n"));
}

#[tokio::test]
async fn temporal_prints_what_the_proposals_own_does() {
    prints_the_same("temporal", "@js-temporal/polyfill@0.5.1").await;
}

#[tokio::test]
async fn decorators_print_what_typescripts_do() {
    prints_the_same("decorators", "typescript@5.9.3").await;
}
