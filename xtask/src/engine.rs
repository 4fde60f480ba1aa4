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
    /// Builds nothing: notes the committed engine as one that sessions may sleep on, so that later builds keep it. Part of every release.
    #[arg(long, conflicts_with = "check")]
    keep: bool,
}

/// Rebuilds the engine into `crates/engine/engine`, or compares with what is there.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask lies outside the project")?;
    let script = root.join("crates/guest/build.sh");
    let committed = root.join("crates/engine/engine");
    if args.keep {
        return keep(&committed);
    }
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

/// Adds the current engine to the list of kept ones.
fn keep(engines: &Path) -> anyhow::Result<()> {
    let read = |name: &str| std::fs::read_to_string(engines.join(name)).with_context(|| format!("cannot read {name}"));
    let (current, kept) = (read("current.rs")?, read("kept.rs")?);
    let digest = current.split('"').nth(1).and_then(|file| file.strip_suffix(".wasm")).context("current.rs names no engine")?;
    if kept.contains(digest) {
        return Ok(());
    }
    let list = kept.trim_end().strip_suffix(']').context("kept.rs is no list")?;
    let line = format!("    Wasm {{ prefix: \"{digest}\", bytes: include_bytes!(\"{digest}.wasm\") }},\n");
    std::fs::write(engines.join("kept.rs"), format!("{list}{line}]\n")).context("cannot write kept.rs")
}
