//! How much a test that can be run for as long as one likes does now, and what it says about it.

use std::io::Write as _;

/// Set by `cargo xtask soak`: tests run their whole counts, and not the few of every day.
pub const SOAK_ENV: &str = "DORMOUSE_SOAK";

/// `whole` in a soak, `small` in every other run.
#[must_use]
pub fn count(small: u64, whole: u64) -> u64 {
    if std::env::var_os(SOAK_ENV).is_some() { whole } else { small }
}

/// A line of the soak's report. It goes past the test harness, which would swallow it.
pub fn report(line: &str) {
    let _ = writeln!(std::io::stderr(), "soak: {line}");
}
