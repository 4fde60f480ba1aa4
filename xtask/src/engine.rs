//! Builds `engine.wasm` from `crates/guest`, with the toolchain that its build script pins.

use std::{path::Path, process::Command};

use anyhow::{Context, bail, ensure};

/// What the build script exits with when Debian's mirror no longer has a pinned package. It says nothing about the engine, which is
/// committed, so a check does not fail for it.
const TOOLCHAIN_GONE: i32 = 75;

/// Flags of `engine`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Builds aside and fails when the committed engine differs.
    #[arg(long)]
    check: bool,
}

/// Rebuilds the engine into `crates/engine/engine`, or compares with what is there.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask lies outside the project")?;
    let script = root.join("crates/guest/build.sh");
    let committed = root.join("crates/engine/engine");
    let out = if args.check { root.join("target/engine-check") } else { committed.clone() };
    let status = Command::new("bash").arg(&script).arg("--out").arg(&out).status().context("cannot run bash")?;
    if args.check && status.code() == Some(TOOLCHAIN_GONE) {
        eprintln!("xtask: the engine was NOT compared: its pinned toolchain cannot be downloaded any more");
        return Ok(());
    }
    ensure!(status.success(), "{} failed: {status}", script.display());
    if args.check {
        let names = |dir: &Path| std::fs::read_to_string(dir.join("current.rs")).with_context(|| format!("no engine in {}", dir.display()));
        let (built, kept) = (names(&out)?, names(&committed)?);
        if built != kept {
            bail!(
                "the committed engine is {} but the guest's sources make {}; run `cargo xtask engine` and commit",
                kept.trim(),
                built.trim()
            );
        }
    }
    Ok(())
}
