//! Where the programs are that tests run: `cargo xtask tools` builds them once, outside the tree.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

/// Names the folder of the programs; `cargo xtask test` sets it.
pub const TOOLS_DIR_ENV: &str = "DORMOUSE_TOOLS";

/// The folder of the programs.
///
/// # Errors
/// When neither [`TOOLS_DIR_ENV`] nor `HOME` is set.
pub fn dir() -> Result<PathBuf> {
    if let Some(dir) = std::env::var_os(TOOLS_DIR_ENV) {
        return Ok(PathBuf::from(dir));
    }
    let home = std::env::var_os("HOME").context("neither DORMOUSE_TOOLS nor HOME is set")?;
    Ok(PathBuf::from(home).join(".cache/dormouse-cluster/bin"))
}

/// The path of one program, such as `kube-apiserver`.
///
/// # Errors
/// When it was not built: a test that needs it fails and says what to run; it does not skip.
pub fn path(name: &str) -> Result<PathBuf> {
    let path = dir()?.join(name);
    ensure!(path.is_file(), "{} is not there: run `cargo xtask tools` once", path.display());
    Ok(path)
}
