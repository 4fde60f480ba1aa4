//! What is in the programs: a bill of materials each, as CycloneDX 1.6 has it, in `target/sbom`.

use std::{fs, process::Command};

use anyhow::{Context, Result, ensure};

use crate::{images::PROCESSES, tools, workspace};

/// The program that writes them, kept by its version.
const CARGO_SBOM: &str = "0.10.0";
const FORMAT: &str = "cyclone_dx_json_1_6";
/// The package of the command for people.
const COMMAND: &str = "dormouse";
/// The package that becomes `engine.wasm`, which has a workspace of its own.
const ENGINE: (&str, &str) = ("dormouse-guest", "crates/guest");

/// Writes the bill of each image's program, of the command and of the engine.
pub fn run() -> Result<()> {
    let program = tools::install("cargo-sbom", CARGO_SBOM)?;
    let folder = workspace::target().join("sbom");
    fs::create_dir_all(&folder)?;
    let of_workspace = PROCESSES.into_iter().chain([COMMAND]).map(|package| (package, "."));
    for (package, project) in of_workspace.chain([ENGINE]) {
        let mut command = Command::new(&program);
        command.current_dir(workspace::root()).args(["sbom", "--cargo-package", package, "--output-format", FORMAT]);
        let bill = workspace::output(command.args(["--project-directory", project]))?;
        // An unknown package is a bill of nothing.
        ensure!(bill.contains("\"pkg:cargo/"), "the bill of {package} names no crate");
        let file = folder.join(format!("{package}.cdx.json"));
        fs::write(&file, bill).with_context(|| format!("write {}", file.display()))?;
        eprintln!("xtask: {}", file.display());
    }
    Ok(())
}
