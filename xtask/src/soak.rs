//! The tests that can run for as long as one likes, with their whole counts, one after the other.
//!
//! What they came to is in the lines that begin with `soak:`; `docs/reliability.md` holds those of one run.

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

use crate::{before, broken, fuzz, images, tools, workspace};

/// How long one part may take. A part that takes longer has failed. The longest is the simulation of the processes: a sixth of a second a seed.
const PART_SECONDS_MAX: u64 = 6 * 3_600;
/// Tests in a soak say what they did in lines that begin so.
const MARK: &str = "soak: ";
/// A part that has thousands of threads, one after the other, would keep what each had freed: glibc gives threads arenas of their own.
const ARENAS: (&str, &str) = ("MALLOC_ARENA_MAX", "1");
/// Tells tests to run their whole counts.
const SOAK_ENV: &str = "DORMOUSE_SOAK";

/// The package whose tests run the whole.
const E2E: &str = "dormouse-e2e";

/// Tests of one binary.
struct Part {
    name: &'static str,
    package: &'static str,
    test: &'static str,
    /// What the names of its tests begin with; empty for all.
    tests: &'static str,
    env: (&'static str, &'static str),
}

/// The binary of most tests of a package.
const SUITE: &str = "suite";

const PARTS: [Part; 26] = [
    Part { name: "simulation", package: "dormouse-lifecycle", test: "simulation", tests: "", env: ("DORMOUSE_SEEDS", "100000") },
    Part { name: "processes-simulated", package: "dormouse-simulation", test: "system", tests: "", env: ("DORMOUSE_SEEDS", "100000") },
    Part { name: "damage", package: "dormouse-lifecycle", test: "damage", tests: "", env: ("DORMOUSE_DAMAGES", "100000") },
    Part { name: "full-disk", package: "dormouse-store", test: SUITE, tests: "full_disk::", env: (SOAK_ENV, "1") },
    Part { name: "network", package: "dormouse-kernel", test: SUITE, tests: "storage_faults::", env: (SOAK_ENV, "1") },
    Part { name: "processes", package: "dormouse-kernel", test: SUITE, tests: "processes::", env: (SOAK_ENV, "1") },
    Part { name: "mutants", package: "dormouse-conformance", test: "fuzz_corpus", tests: "", env: ("DORMOUSE_MUTANTS", "100000") },
    Part { name: "nesting", package: "dormouse-conformance", test: "nesting", tests: "", env: (SOAK_ENV, "1") },
    Part { name: "claimants", package: "dormouse-gateway", test: SUITE, tests: "apiserver::", env: (SOAK_ENV, "1") },
    Part { name: "forks", package: "dormouse-kernel", test: SUITE, tests: "forks::", env: (SOAK_ENV, "1") },
    Part { name: "collect", package: "dormouse-kernel", test: SUITE, tests: "collect::", env: (SOAK_ENV, "1") },
    Part { name: "filled", package: E2E, test: SUITE, tests: "filled::", env: (SOAK_ENV, "1") },
    Part { name: "neighbours", package: E2E, test: SUITE, tests: "neighbours::", env: (SOAK_ENV, "1") },
    Part { name: "kills", package: E2E, test: SUITE, tests: "kills::", env: (SOAK_ENV, "1") },
    Part { name: "parked", package: E2E, test: SUITE, tests: "parked::", env: (SOAK_ENV, "1") },
    Part { name: "canaries", package: "dormouse", test: SUITE, tests: "canaries::", env: (SOAK_ENV, "1") },
    Part { name: "kernel-memory", package: E2E, test: SUITE, tests: "canaries::", env: (SOAK_ENV, "1") },
    Part { name: "region", package: "dormouse-control", test: "region", tests: "", env: (SOAK_ENV, "1") },
    Part { name: "scale", package: E2E, test: SUITE, tests: "scale::", env: (SOAK_ENV, "1") },
    Part { name: "story", package: E2E, test: "story", tests: "", env: (SOAK_ENV, "1") },
    Part { name: before::NAME, package: E2E, test: "story", tests: "a_release_follows_the_one_before", env: (SOAK_ENV, "1") },
    Part { name: "archive-pages", package: "dormouse-operator", test: "archive_pages", tests: "", env: (SOAK_ENV, "1") },
    Part { name: "certificates", package: "dormouse-operator", test: SUITE, tests: "trust::", env: (SOAK_ENV, "1") },
    Part { name: "live", package: E2E, test: SUITE, tests: "live::", env: (SOAK_ENV, "1") },
    Part { name: "sieve", package: "dormouse-operator", test: SUITE, tests: "sieve::", env: (SOAK_ENV, "1") },
    Part { name: "broker", package: "dormouse-broker", test: "broker", tests: "", env: (SOAK_ENV, "1") },
];

/// Flags of `soak`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only these parts: simulation, processes-simulated, processes-wrong, damage, full-disk, network, processes, mutants, nesting, claimants, forks, collect, filled, neighbours, kills, parked, canaries, kernel-memory, region, scale, story, upgrade, archive-pages, certificates, live, sieve, broker, fuzz.
    parts: Vec<String>,
    /// Adds what fuzzing has found to the corpus that every test run repeats.
    #[arg(long)]
    keep: bool,
    /// Of processes-wrong, only the mutant of this name; may be given several times.
    #[arg(long = "mutant", value_name = "NAME")]
    mutants: Vec<String>,
}

/// Runs the parts and prints what they said.
pub fn run(args: &Args) -> Result<()> {
    for wanted in &args.parts {
        ensure!(
            [fuzz::NAME, broken::NAME].contains(&wanted.as_str()) || PARTS.iter().any(|part| part.name == wanted),
            "there is no part {wanted}"
        );
    }
    let wanted = |name: &str| args.parts.is_empty() || args.parts.iter().any(|wanted| wanted == name);
    let parts: Vec<&Part> = PARTS.iter().filter(|part| wanted(part.name)).collect();
    if !parts.is_empty() {
        tools::build()?;
    }
    let mut said = Vec::new();
    let built = if parts.is_empty() { Vec::new() } else { build()? };
    for part in parts {
        let began = Instant::now();
        let lines = run_part(part, &built).with_context(|| format!("the soak of {}", part.name))?;
        said.extend(lines.into_iter().map(|line| format!("{}: {line}", part.name)));
        said.push(format!("{}: {} s", part.name, began.elapsed().as_secs()));
    }
    if wanted(broken::NAME) {
        said.extend(broken::run(&args.mutants)?);
    }
    if wanted(fuzz::NAME) {
        said.extend(fuzz::run(args.keep)?);
    }
    let mut out = std::io::stdout();
    for line in said {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// A test binary that was built.
struct Built {
    /// As cargo names its package.
    package: String,
    test: String,
    /// The package's folder, in which its tests run.
    folder: PathBuf,
    executable: PathBuf,
}

/// Builds all tests, and the programs that some of them run. Not those of a part alone: chosen so, crates have other features, and all is compiled again.
fn build() -> Result<Vec<Built>> {
    workspace::run(workspace::cargo().args(["build", "--release", "--workspace", "--bins", "--tests"]))?;
    images::pack()?;
    let mut list = workspace::cargo();
    list.args(["test", "--release", "--workspace", "--no-run", "--message-format=json"]);
    let said = workspace::output(&mut list)?;
    Ok(said.lines().filter_map(|line| Built::read(&serde_json::from_str(line).ok()?)).collect())
}

impl Built {
    /// Out of what cargo says of an artifact. `None`: it is no test.
    fn read(artifact: &serde_json::Value) -> Option<Self> {
        let text = |pointer: &str| artifact.pointer(pointer).and_then(serde_json::Value::as_str);
        text("/target/kind/0").filter(|kind| *kind == "test")?;
        Some(Self {
            package: text("/package_id")?.to_owned(),
            test: text("/target/name")?.to_owned(),
            folder: Path::new(text("/manifest_path")?).parent()?.to_owned(),
            executable: text("/executable")?.into(),
        })
    }
}

/// The binary of a part.
fn command(part: &Part, built: &[Built]) -> Result<Command> {
    let package = workspace::output(workspace::cargo().args(["pkgid", "--package", part.package]))?;
    let found = built.iter().find(|built| built.package == package.trim() && built.test == part.test);
    let found = found.with_context(|| format!("{} has no tests {}", part.package, part.test))?;
    let mut command = Command::new(&found.executable);
    command.current_dir(&found.folder);
    Ok(command)
}

fn run_part(part: &Part, built: &[Built]) -> Result<Vec<String>> {
    let mut command = command(part, built)?;
    let images = if part.name == before::NAME { before::make()? } else { workspace::target().join("images") };
    command
        .args(["--nocapture", part.tests])
        .env(tools::DIR_ENV, tools::home()?.join("bin"))
        .env(tools::HOME_ENV, tools::home()?)
        .env(images::DIR_ENV, images)
        .env(part.env.0, part.env.1)
        .env(ARENAS.0, ARENAS.1);
    eprintln!("xtask: {}", workspace::show(&command));
    let mut child = command.stderr(Stdio::piped()).spawn().context("start the tests")?;
    let errors = BufReader::new(child.stderr.take().context("their output")?);
    let (tell, lines) = mpsc::channel();
    // Ends with the child, which holds the other end.
    std::thread::spawn(move || {
        for line in errors.lines().map_while(Result::ok) {
            eprintln!("{line}");
            if let Some(said) = line.strip_prefix(MARK) {
                let _ = tell.send(said.to_owned());
            }
        }
    });
    let deadline = Instant::now() + Duration::from_secs(PART_SECONDS_MAX);
    let mut said = Vec::new();
    loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => said.push(line),
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                child.kill()?;
                bail!("it was not done after {PART_SECONDS_MAX} s");
            }
        }
    }
    let status = child.wait()?;
    ensure!(status.success(), "{status}");
    Ok(said)
}
