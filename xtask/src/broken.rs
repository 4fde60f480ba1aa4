//! The processes, wrong in one place each: what the simulation of them notices, and how soon.
//!
//! A mutant is a patch in `simulation/mutants`, whose first line says what is wrong. It is applied to a copy of the tree, so the tree itself stays
//! as it is. Cargo calls what it compiles of the copy by the names that the tree's own has: it goes to a target folder of its own.

use std::{
    collections::BTreeSet,
    io::{BufRead as _, BufReader, Read},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    time::Duration,
};

use anyhow::{Context, Result, ensure};

use crate::workspace;

/// The name of this part of `soak`.
pub const NAME: &str = "processes-wrong";

/// Where the patches are.
const PATCHES: &str = "simulation/mutants";

/// Seeds within which each must be noticed, by the scenarios or by the explorer.
const SEEDS_MAX: &str = "5000";
/// Seeds that the explorer tries with what a scenario has noticed.
const SEEDS_BESIDE: &str = "100";
/// Crates that compile for minutes. A mutant need not be fast: optimised less, they compile in a third of the time, and what a patch leaves as it was
/// is not compiled again.
const LONG_TO_COMPILE: &[&str] = &["dormouse-kernel", "dormouse-gateway", "dormouse-control", "dormouse-protocol", "dormouse-crds"];
/// How long a run may say nothing: it says a line for each scenario and each seed, which take seconds. What is silent for longer does not end.
const SILENCE: Duration = Duration::from_secs(240);
/// What is said then.
const ENDLESS: &str = "it does not end";

/// Runs every mutant, or those of these names, and says who has noticed it.
pub fn run(only: &[String]) -> Result<Vec<String>> {
    let mut chosen = patches()?;
    for wanted in only {
        ensure!(chosen.iter().any(|patch| name_of(patch) == *wanted), "there is no mutant {wanted} in {PATCHES}");
    }
    chosen.retain(|patch| only.is_empty() || only.contains(&name_of(patch)));
    let copy = workspace::target().join("mutants");
    let mut said = Vec::new();
    let mut missed = Vec::new();
    for patch in chosen {
        let name = name_of(&patch);
        copy_tree(&copy)?;
        apply(&patch, &copy)?;
        workspace::run(in_copy(workspace::cargo(), &copy).arg("--no-run"))?;
        let tells = |line: &str| line.strip_prefix("test ")?.strip_suffix(" ... FAILED").map(str::to_owned);
        let scenario = first(&copy, "scenarios", "0", tells)?;
        let seeds = if scenario.is_some() { SEEDS_BESIDE } else { SEEDS_MAX };
        let tells = |line: &str| line.strip_prefix("soak: broken by ").map(str::to_owned);
        let seed = first(&copy, "every_promise", seeds, tells)?;
        if scenario.is_none() && seed.is_none() {
            missed.push(name.clone());
        }
        let or = |found: Option<String>| found.unwrap_or_else(|| "-".to_owned());
        said.push(format!("{NAME}: {name}: {}: {}", or(scenario), or(seed)));
        eprintln!("{}", said.last().map_or("", String::as_str));
    }
    ensure!(missed.is_empty(), "{}\nnobody notices: {}", said.join("\n"), missed.join(", "));
    Ok(said)
}

fn patches() -> Result<Vec<PathBuf>> {
    let folder = workspace::root().join(PATCHES);
    let entries = std::fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))?;
    let mut patches: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    patches.sort();
    Ok(patches)
}

fn name_of(patch: &Path) -> String {
    patch.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// The tree as it is now, without what git does not know. Files that are the same keep their times, so that nothing of them is compiled again; what
/// an earlier tree had goes.
fn copy_tree(to: &Path) -> Result<()> {
    let listed = workspace::output(git(&workspace::root()).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]))?;
    let mut kept = BTreeSet::new();
    for name in listed.split('\0').filter(|name| !name.is_empty()) {
        let (from, to) = (workspace::root().join(name), to.join(name));
        let Ok(bytes) = std::fs::read(&from) else { continue };
        kept.insert(to.clone());
        if std::fs::read(&to).is_ok_and(|there| there == bytes) {
            continue;
        }
        if let Some(folder) = to.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&to, bytes).with_context(|| format!("write {}", to.display()))?;
    }
    remove_others(to, &kept)
}

fn remove_others(folder: &Path, kept: &BTreeSet<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && !path.is_symlink() {
            remove_others(&path, kept)?;
        } else if !kept.contains(&path) {
            std::fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
        }
    }
    Ok(())
}

/// Lines around a change may have changed, the changed ones not.
fn apply(patch: &Path, tree: &Path) -> Result<()> {
    workspace::run(git(tree).args(["apply", "-p0", "-C0"]).arg(patch))
}

fn target() -> PathBuf {
    workspace::target().join("mutants-compiled")
}

fn git(folder: &Path) -> Command {
    let mut git = Command::new("git");
    // A copy below the target folder is no checkout; nor may it be taken for a part of the one around it.
    git.current_dir(folder).env("GIT_CEILING_DIRECTORIES", folder.parent().unwrap_or(folder));
    git
}

/// Has this `cargo`, or what runs it, test the copy.
fn in_copy(mut cargo: Command, tree: &Path) -> Command {
    cargo.current_dir(tree).env("CARGO_TARGET_DIR", target()).env("CARGO_PROFILE_RELEASE_INCREMENTAL", "true");
    cargo.args(["test", "--release", "--workspace", "--test", "system"]);
    for package in LONG_TO_COMPILE {
        cargo.args(["--config", &format!("profile.release.package.{package}.opt-level=1")]);
    }
    cargo
}

/// Runs tests until a line tells something, and answers what; or until they end.
fn first(tree: &Path, tests: &str, seeds: &str, tells: impl Fn(&str) -> Option<String>) -> Result<Option<String>> {
    // `timeout` is of coreutils: when it is ended, it ends the tests with all that they have started.
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", "infinity"]).arg(workspace::cargo().get_program());
    let mut command = in_copy(command, tree);
    command.args(["--", "--nocapture", "--test-threads=1", tests]).env("DORMOUSE_UNTIL_BROKEN", seeds);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("start {}", workspace::show(&command)))?;
    let (tell, lines) = mpsc::channel();
    // Each on its own: a line of one must not begin within a line of the other.
    follow(child.stdout.take(), tell.clone());
    follow(child.stderr.take(), tell);
    let found = loop {
        match lines.recv_timeout(SILENCE) {
            Ok(line) => {
                let found: Option<String> = tells(&line);
                if found.is_some() {
                    break found;
                }
            }
            Err(RecvTimeoutError::Timeout) => break Some(ENDLESS.to_owned()),
            Err(RecvTimeoutError::Disconnected) => break None,
        }
    };
    if found.is_some() {
        // Those behind it are of no interest.
        workspace::run(Command::new("kill").arg(child.id().to_string()))?;
    }
    child.wait()?;
    Ok(found)
}

fn follow(from: Option<impl Read + Send + 'static>, tell: mpsc::Sender<String>) {
    let lines = from.map(|from| BufReader::new(from).split(b'\n').map_while(Result::ok));
    std::thread::spawn(move || {
        for line in lines.into_iter().flatten() {
            // Whoever has heard enough lets the rest pass.
            let _ = tell.send(String::from_utf8_lossy(&line).into_owned());
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutant_fits_the_tree_and_says_what_is_wrong() -> Result<()> {
        let patches = patches()?;
        assert!(!patches.is_empty());
        for patch in patches {
            let text = std::fs::read_to_string(&patch)?;
            assert!(text.starts_with("# ") && text.contains("\n+"), "{}", patch.display());
            let checked = git(&workspace::root()).args(["apply", "--check", "-p0", "-C0"]).arg(&patch).output()?;
            assert!(checked.status.success(), "{}: {}", patch.display(), String::from_utf8_lossy(&checked.stderr));
        }
        Ok(())
    }
}
