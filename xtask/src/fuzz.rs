//! The part of a soak that fuzzes: every target of `fuzz/` in turn, each for its share of the time.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use crate::workspace;

/// The name of the part.
pub const NAME: &str = "fuzz";
/// How long all targets together run, in seconds, unless [`SECONDS_ENV`] says otherwise.
const SECONDS: u64 = 3_600;
const SECONDS_ENV: &str = "DORMOUSE_FUZZ_SECONDS";
/// How long one input may take.
const INPUT_SECONDS_MAX: u64 = 30;
const MEMORY_MB_MAX: u64 = 4_096;
/// Names the target to the one binary.
const TARGET_ENV: &str = "DORMOUSE_FUZZ_TARGET";
/// libFuzzer's line that says how much it did.
const EXECUTED: &str = "stat::number_of_executed_units:";

/// Runs all targets; says what each came to. What they find lies in `target/fuzz`; with `keep`, what adds coverage goes into `fuzz/corpus`.
pub fn run(keep: bool) -> Result<Vec<String>> {
    let binary = build()?;
    let targets = targets()?;
    ensure!(!targets.is_empty(), "fuzz/corpus is empty");
    let seconds = env::var(SECONDS_ENV).map_or(Ok(SECONDS), |text| text.parse()).with_context(|| format!("{SECONDS_ENV} is no number"))?;
    let each = (seconds / targets.len() as u64).max(1);
    let mut said = Vec::new();
    for target in &targets {
        let executed = fuzz(&binary, target, each)?;
        if keep {
            let (kept, found) = (corpus().join(target), found(target)?);
            // Of what was found, few inputs that reach every branch: what reaches one more often than another adds nothing to a test.
            let flags = ["-set_cover_merge=1", "-use_counters=0"];
            workspace::run(Command::new(&binary).env(TARGET_ENV, target).args(flags).args([kept, found]))?;
        }
        said.push(format!("{NAME}: {target}: {executed} inputs in {each} s, no panic"));
    }
    Ok(said)
}

/// A corpus for each target.
fn targets() -> Result<Vec<String>> {
    let folders = fs::read_dir(corpus()).context("fuzz/corpus")?;
    let mut targets: Vec<String> = folders.map(|folder| Ok(folder?.file_name().to_string_lossy().into_owned())).collect::<Result<_>>()?;
    targets.sort();
    Ok(targets)
}

fn corpus() -> PathBuf {
    workspace::root().join("fuzz/corpus")
}

/// Where the inputs of a target lie that were found and are not kept.
fn found(target: &str) -> Result<PathBuf> {
    let folder = workspace::target().join("fuzz").join(target);
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    Ok(folder)
}

/// Has the lock file of `fuzz/` follow what our crates need, and nothing else; with `check` it only fails where it does not.
pub fn lock(check: bool) -> Result<()> {
    let mut command = cargo("update");
    command.arg("--workspace").args(check.then_some("--locked"));
    workspace::run(&mut command).context("fuzz/Cargo.lock does not have what our crates need: run `cargo xtask generate`")
}

fn build() -> Result<PathBuf> {
    let target = workspace::root().join("fuzz/target");
    workspace::run(cargo("build").args(["--release", "--locked", "--target-dir"]).arg(&target))?;
    Ok(target.join("release/target"))
}

/// Cargo in that workspace. Instrumentation for some packages only is a wish that it grants to its unstable channel.
fn cargo(what: &str) -> Command {
    let mut command = workspace::cargo();
    command.arg(what).arg("--manifest-path").arg(workspace::root().join("fuzz/Cargo.toml")).env("RUSTC_BOOTSTRAP", "1");
    command
}

/// Runs one target; answers how many inputs it had.
fn fuzz(binary: &Path, target: &str, seconds: u64) -> Result<u64> {
    let found = found(target)?;
    let mut command = Command::new(binary);
    command.env(TARGET_ENV, target).arg(format!("-max_total_time={seconds}")).arg(format!("-timeout={INPUT_SECONDS_MAX}"));
    command.arg(format!("-rss_limit_mb={MEMORY_MB_MAX}")).arg("-print_final_stats=1").arg("-verbosity=1");
    command.arg(format!("-artifact_prefix={}/bad-", found.display())).args([&found, &corpus().join(target)]);
    eprintln!("xtask: {target}: {}", workspace::show(&command));
    let output = command.output().context("start the fuzzer")?;
    let text = String::from_utf8_lossy(&output.stderr);
    let last = || text.lines().rev().take(40).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("\n");
    ensure!(output.status.success(), "{target}: {}\n{}", output.status, last());
    let executed = text.lines().find_map(|line| line.strip_prefix(EXECUTED)).and_then(|number| number.trim().parse().ok());
    executed.with_context(|| format!("{target} does not say what it did\n{}", last()))
}
