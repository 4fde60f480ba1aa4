//! Every test of the workspace, in one command, with one closing line.

use std::{
    io::{BufRead, BufReader, Write},
    process::{ExitStatus, Stdio},
};

use anyhow::{Context, Result, ensure};

use crate::{images, tools, workspace};

/// Flags of `test`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only the whole-cluster story.
    #[arg(long)]
    story: bool,
}

/// What the test runner has counted.
#[derive(Debug, Default, PartialEq, Eq)]
struct Count {
    passed: u64,
    failed: u64,
}

/// Tools, binaries, images, tests.
pub fn run(args: &Args) -> Result<()> {
    tools::build()?;
    // One invocation makes the binaries of the images and the tests, so both have the same features and nothing is built twice.
    let mut build = workspace::cargo();
    build.args(["build", "--release", "--workspace", "--bins"]);
    // The story alone needs no other test.
    build.args(if args.story { ["--test", "story"].as_slice() } else { ["--tests"].as_slice() });
    workspace::run(&mut build)?;
    let images = images::pack()?;

    let mut command = workspace::cargo();
    command.args(["test", "--release", "--workspace", "--no-fail-fast"]);
    if args.story {
        command.args(["--test", "story"]);
    }
    command.env(tools::DIR_ENV, tools::home()?.join("bin")).env(tools::HOME_ENV, tools::home()?).env(images::DIR_ENV, images);
    eprintln!("xtask: {}", workspace::show(&command));
    let mut child = command.stdout(Stdio::piped()).spawn().context("start cargo test")?;
    let lines = BufReader::new(child.stdout.take().context("cargo's output")?);
    let mut count = follow(lines)?;
    let mut status = child.wait()?;
    if !args.story && status.success() {
        status = portable(&mut count)?;
    }
    let mut out = std::io::stdout();
    writeln!(out, "{} passed, {} failed", count.passed, count.failed)?;
    ensure!(status.success(), "cargo test: {status}");
    ensure!(count.passed > 0, "no test ran");
    Ok(())
}

/// The engine's tests once more, as where the system does not say which pages were written.
fn portable(count: &mut Count) -> Result<ExitStatus> {
    let mut command = workspace::cargo();
    command.args(["test", "--release", "--workspace", "--features", "dormouse-engine/portable", "--test", "engine", "--"]);
    command.args(["snapshots", "tracking", "earlier"]);
    eprintln!("xtask: {}", workspace::show(&command));
    let mut child = command.stdout(Stdio::piped()).spawn().context("start cargo test")?;
    let more = follow(BufReader::new(child.stdout.take().context("cargo's output")?))?;
    ensure!(more.passed > 0, "no test of the portable engine ran");
    *count = Count { passed: count.passed + more.passed, failed: count.failed + more.failed };
    Ok(child.wait()?)
}

/// Copies the runner's output and adds up its `test result:` lines.
fn follow(lines: impl BufRead) -> Result<Count> {
    let mut count = Count::default();
    let mut out = std::io::stdout();
    for line in lines.split(b'\n') {
        let line = line?;
        let text = String::from_utf8_lossy(&line);
        writeln!(out, "{text}")?;
        add(&mut count, &text);
    }
    Ok(count)
}

/// `test result: ok. 3 passed; 0 failed; …`
fn add(count: &mut Count, line: &str) {
    let Some(rest) = line.strip_prefix("test result: ") else { return };
    let number = |word: &str| {
        let before = rest.split(word).next()?.trim_end();
        before.rsplit([' ', ';']).next()?.parse::<u64>().ok()
    };
    count.passed += number("passed").unwrap_or(0);
    count.failed += number("failed").unwrap_or(0);
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::{Count, add};
    use crate::workspace;

    /// With `autotests = false` a file that nobody names is a test that never runs.
    #[test]
    fn every_file_of_tests_belongs_to_a_binary() {
        let (root, mut suites) = (workspace::root(), 0);
        let packages = [root.clone(), root.join("crates")].into_iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
        for package in packages.map(|entry| entry.unwrap().path()) {
            let Ok(suite) = std::fs::read_to_string(package.join("tests/suite.rs")) else { continue };
            let manifest = std::fs::read_to_string(package.join("Cargo.toml")).unwrap();
            suites += 1;
            for entry in std::fs::read_dir(package.join("tests")).unwrap() {
                let path = entry.unwrap().path();
                let is_source = path.extension().is_some_and(|ending| ending == "rs") || path.join("mod.rs").is_file();
                let name = path.file_stem().unwrap().to_str().unwrap();
                let named = suite.contains(&format!("\nmod {name};")) || manifest.contains(&format!("\"tests/{name}.rs\""));
                assert!(!is_source || named, "{} is neither a module of its suite nor a target of its own", path.display());
            }
        }
        assert!(suites >= 7, "the suites have moved: {suites}");
    }

    #[test]
    fn adds_up_what_the_runner_says() {
        let mut count = Count::default();
        for line in [
            "running 3 tests",
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s",
            "test result: FAILED. 11 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s",
        ] {
            add(&mut count, line);
        }
        assert_eq!(count, Count { passed: 14, failed: 2 });
    }
}
