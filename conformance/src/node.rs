//! The machine's Node: many programs in one process, each in a worker with globals of its own.

use std::{
    collections::BTreeMap,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, ensure};
use serde::Deserialize;

/// The driver, in Node.
const DRIVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/node/run.mjs");

/// What one program did.
#[derive(Debug, Clone, Deserialize)]
pub struct Ran {
    program: PathBuf,
    /// Everything on its standard output.
    pub stdout: String,
    /// Why it did not end well.
    pub error: Option<String>,
}

/// Runs every program, in UTC.
///
/// # Errors
/// When Node is not there or its driver fails; a program's own failure is in its [`Ran`].
pub fn run(programs: &[PathBuf]) -> anyhow::Result<BTreeMap<PathBuf, Ran>> {
    let mut command = Command::new("node");
    command.arg("--no-warnings").arg(DRIVER).env("TZ", "UTC").env_remove("NODE_OPTIONS");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("start node")?;
    let input = serde_json::to_vec(programs)?;
    child.stdin.take().context("node's input")?.write_all(&input)?;
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "node's driver failed: {}", output.status);
    let mut ran = BTreeMap::new();
    for line in output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let one: Ran = serde_json::from_slice(line).context("a line of node's driver")?;
        ran.insert(one.program.clone(), one);
    }
    Ok(ran)
}

/// Whether `path` ran, for messages.
#[must_use]
pub fn name_of(folder: &Path, path: &Path) -> String {
    path.strip_prefix(folder).unwrap_or(path).with_extension("").to_string_lossy().into_owned()
}
