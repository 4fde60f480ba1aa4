//! `engine.wasm` from `crates/guest`.

use anyhow::{Result, bail};

/// Flags of `engine`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Builds it.
pub fn run(_: &Args) -> Result<()> {
    bail!("crates/guest/build.sh is not there yet")
}
