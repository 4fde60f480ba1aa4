//! How much a test that can be run for as long as one likes does now, and what it says about it.

use std::io::Write as _;

/// Set by `cargo xtask soak`: tests run their whole counts, and not the few of every day.
pub const SOAK_ENV: &str = "DORMOUSE_SOAK";

/// What 99 of 100 pages of a list may take in a soak, in milliseconds, of however many sessions.
pub const PAGE_P99_MS_MAX: f64 = 106.0;

/// Whether this run is a soak, which may assert how long something takes: the machine has nothing else to do.
#[must_use]
pub fn is_whole() -> bool {
    std::env::var_os(SOAK_ENV).is_some()
}

/// `whole` in a soak, `small` in every other run.
#[must_use]
pub fn count(small: u64, whole: u64) -> u64 {
    if is_whole() { whole } else { small }
}

/// A line of the soak's report. It goes past the test harness, which would swallow it.
pub fn report(line: &str) {
    let _ = writeln!(std::io::stderr(), "soak: {line}");
}
