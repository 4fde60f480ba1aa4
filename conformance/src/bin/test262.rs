//! `test262 DIR`: the suite in our engine and in native QuickJS-NG, as a table of pass rates.
#![expect(clippy::print_stdout, reason = "printing is what it is for")]

use std::{fmt::Write as _, path::PathBuf};

use clap::Parser;
use dormouse_conformance::test262::{Ran, Suite, markdown};

/// Runs test262 in both engines.
#[derive(Debug, Parser)]
struct Args {
    /// A checkout of the suite: the folder that holds `test` and `harness`.
    suite: PathBuf,
    /// Only tests whose path below `test/` begins so.
    #[arg(long, default_value = "")]
    only: String,
    /// Writes every failure of either engine to this file.
    #[arg(long)]
    failures: Option<PathBuf>,
    /// Threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let suite = Suite::read(&args.suite, &args.only)?;
    let results = suite.run(args.threads)?;
    if let Some(file) = args.failures {
        let mut text = String::new();
        for Ran { path, mode, ours, native } in results.iter().filter(|ran| ran.ours.is_err() || ran.native.is_err()) {
            let _ = writeln!(text, "{path}\t{mode:?}\t{ours:?}\t{native:?}");
        }
        std::fs::write(file, text)?;
    }
    println!("{}", markdown(&suite, &results));
    let worse = results.iter().filter(|ran| ran.ours.is_err() && ran.native.is_ok()).count();
    let better = results.iter().filter(|ran| ran.ours.is_ok() && ran.native.is_err()).count();
    println!("{worse} runs pass in native QuickJS-NG only, {better} in ours only.");
    Ok(())
}
