//! What may be in the programs and in the engine, by `deny.toml`, and what is known against it.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::{tools, workspace};

/// The program that looks, kept by its version.
const CARGO_DENY: &str = "0.20.2";
/// What `engine.wasm` is made of, which has a workspace of its own.
const GUEST: &str = "crates/guest/Cargo.toml";

/// Bans, licences and sources.
pub fn run() -> Result<()> {
    workspace::run(command(&program()?).args(["--all-features", "check", "bans", "licenses", "sources"]))
}

/// Known vulnerabilities. Their database lies outside the package registries: where it cannot be reached, this says that nothing was looked for.
pub fn advisories() -> Result<()> {
    let program = program()?;
    let fetched = command(&program).args(["fetch", "db"]).status().context("start cargo-deny")?;
    if !fetched.success() {
        return say("advisories: SKIPPED: RustSec's database cannot be reached, so nothing was looked for");
    }
    workspace::run(command(&program).args(["--all-features", "check", "advisories"]))?;
    workspace::run(command(&program).args(["--manifest-path", GUEST, "check", "advisories"]))?;
    say("advisories: none against the programs and the engine")
}

fn program() -> Result<PathBuf> {
    tools::install("cargo-deny", CARGO_DENY)
}

fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(workspace::root());
    command
}

fn say(line: &str) -> Result<()> {
    Ok(writeln!(std::io::stdout(), "{line}")?)
}
