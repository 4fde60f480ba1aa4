//! Programs that the machine's Node cannot run by itself: what they print in a cell is what they print in Node behind the package that brings it there.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, ensure};

use crate::{
    differential::{Comparison, difference, in_cell},
    node,
};

/// Where the programs are: `<area>/<name>`.
pub const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers");
/// What makes them programs of Node's.
const DRIVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/node/peers.mjs");

/// Compares every program of an area. The folder has the packages in `node_modules`; what is made of the programs goes into `made`.
///
/// # Errors
/// When Node, the engine or a file cannot be used at all.
pub async fn compare(area: &str, packages: &Path, made: &Path) -> anyhow::Result<Comparison> {
    let folder = Path::new(PROGRAMS).join(area);
    let mut programs = Vec::new();
    for program in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        programs.push(program?.path());
    }
    programs.sort();
    let scripts = prepared(&programs, packages, made)?;
    ensure!(scripts.len() == programs.len(), "a program was lost");
    let ran = node::run(&scripts)?;
    let mut result = Comparison { compared: programs.len(), ..Comparison::default() };
    for (program, script) in programs.iter().zip(&scripts) {
        let name = node::name_of(Path::new(PROGRAMS), program);
        let expected = ran.get(script).with_context(|| format!("node said nothing of {name}"))?;
        if let Some(error) = &expected.error {
            result.failures.push(format!("{name}: the program fails in node: {error}"));
            continue;
        }
        let ours = in_cell(program).await.map_err(|error| format!("{error:#}"));
        if let Some(difference) = difference(&expected.stdout, &ours) {
            result.failures.push(format!("{name}:\n{difference}"));
        }
    }
    Ok(result)
}

fn prepared(programs: &[PathBuf], packages: &Path, made: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut command = Command::new("node");
    command.arg(DRIVER).arg(packages).arg(made).env_remove("NODE_OPTIONS");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("start node")?;
    child.stdin.take().context("node's input")?.write_all(&serde_json::to_vec(programs)?)?;
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "the programs cannot be made Node's: {}", output.status);
    serde_json::from_slice(&output.stdout).context("what peers.mjs tells")
}
