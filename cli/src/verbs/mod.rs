//! The client's verbs, a file each.

use anyhow::Context as _;

pub mod approvals;
pub mod eval;
pub mod file;
pub mod files;
pub mod history;
pub mod keys;
pub mod logs;
pub mod mcp;
pub mod runs;
pub mod sessions;
pub mod top;
pub mod usage;

/// The session that verbs use when none is named.
pub const SESSION: &str = "repl";

/// All of standard input as text.
fn standard_input() -> anyhow::Result<String> {
    std::io::read_to_string(std::io::stdin()).context("cannot read standard input")
}
