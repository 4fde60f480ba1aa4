//! Programs that others wrote, each installed once and pinned, where a registry gives it.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::Command,
};

/// Where they are kept between runs.
fn kept() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/dormouse-suites"));
    std::env::var_os("DORMOUSE_SUITES").map(PathBuf::from).or(home)
}

/// The folder in which `install` has succeeded, now or earlier. Says by name what is skipped where it cannot.
fn installed(suite: &str, name: &str, install: impl FnOnce(&Path) -> bool) -> Option<PathBuf> {
    let folder = kept()?.join(name.replace(['/', '@', '=', '+'], "-"));
    std::fs::create_dir_all(&folder).ok()?;
    // Tests run beside each other, and two may want the same.
    let lock = File::create(folder.join("lock")).ok()?;
    lock.lock().ok()?;
    let done = folder.join("installed");
    if done.exists() || (install(&folder) && File::create(&done).is_ok()) {
        return Some(folder);
    }
    eprintln!("SKIPPED {suite}: {name} cannot be installed here");
    None
}

fn runs(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

/// A folder of executables of a virtual environment with these packages.
pub fn python(suite: &str, packages: &[&str]) -> Option<PathBuf> {
    let environment = installed(suite, &packages.join(" "), |folder| {
        let pip = folder.join("bin/pip");
        runs(Command::new("python3").args(["-m", "venv"]).arg(folder))
            && runs(Command::new(pip).args(["install", "--quiet", "--timeout", "15", "--retries", "1"]).args(packages))
    })?;
    Some(environment.join("bin"))
}

/// A folder with the packages of npm in `node_modules`.
pub fn npm(suite: &str, packages: &[&str]) -> Option<PathBuf> {
    installed(suite, &packages.join(" "), |folder| {
        let quiet = ["install", "--silent", "--no-audit", "--no-fund", "--fetch-timeout=15000", "--fetch-retries=1"];
        runs(Command::new("npm").args(quiet).arg("--prefix").arg(folder).args(packages))
    })
}

/// A program of Debian that bears its package's name.
pub fn debian(suite: &str, package: &str) -> Option<()> {
    let is_here = || runs(Command::new(package).arg("--version"));
    let apt = |args: &[&str]| runs(Command::new("apt-get").args(args).env("DEBIAN_FRONTEND", "noninteractive"));
    let installs = || apt(&["install", "-yqq", "--no-install-recommends", package]);
    // What a machine knows of packages may be of another month, or nothing.
    if is_here() || ((installs() || (apt(&["update", "-qq"]) && installs())) && is_here()) {
        return Some(());
    }
    eprintln!("SKIPPED {suite}: {package} cannot be installed here");
    None
}

/// A command that a Go module has.
pub fn go(suite: &str, package: &str) -> Option<PathBuf> {
    let command = package.split('@').next()?.rsplit('/').next()?.to_owned();
    let folder = installed(suite, package, |folder| runs(Command::new("go").args(["install", package]).env("GOBIN", folder)))?;
    Some(folder.join(command))
}
