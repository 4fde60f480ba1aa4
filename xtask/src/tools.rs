//! The programs that tests run, built once by `e2e/cluster/setup.sh` and cached outside the tree.

use std::{path::PathBuf, process::Command};

use anyhow::{Context, Result};

use crate::workspace;

/// Names the cache for `e2e/cluster/*.sh`.
pub const HOME_ENV: &str = "CLUSTER_HOME";

/// Tells the tests where the programs are that they run.
pub const DIR_ENV: &str = "DORMOUSE_TOOLS";

/// The cache: `bin/` and `images/` are in it.
pub fn home() -> Result<PathBuf> {
    if let Some(home) = std::env::var_os(HOME_ENV) {
        return Ok(PathBuf::from(home));
    }
    let home = std::env::var_os("HOME").context("HOME is not set")?;
    Ok(PathBuf::from(home).join(".cache/dormouse-cluster"))
}

/// A program of the registry in this version, compiled once: its path in the cache.
pub fn install(name: &str, version: &str) -> Result<PathBuf> {
    let root = home()?.join(format!("{name}-{version}"));
    let program = root.join("bin").join(name);
    if !program.is_file() {
        let mut install = workspace::cargo();
        install.args(["install", "--quiet", "--locked", "--root"]).arg(&root).arg(format!("{name}@{version}"));
        // It is started a few times, and compiled more than it runs.
        let profile = [("OPT_LEVEL", "1"), ("LTO", "off"), ("DEBUG", "0"), ("CODEGEN_UNITS", "16")];
        workspace::run(install.envs(profile.map(|(key, value)| (format!("CARGO_PROFILE_RELEASE_{key}"), value))))?;
    }
    Ok(program)
}

/// Builds what is missing or has changed.
pub fn build() -> Result<()> {
    workspace::run(Command::new(workspace::root().join("e2e/cluster/setup.sh")).env(HOME_ENV, home()?))
}
