//! Generated files. Each is written by a test of the crate that owns its source, run with `UPDATE=1`; without it the same test
//! compares, so that a file which was not generated again fails the tests of its owner.

use std::{fs, process::Command};

use anyhow::{Context, Result, ensure};

use crate::{fuzz, tools, workspace};

/// The test targets that own generated files: CRDs (in `crds` and in the chart), the reference and tables in the docs, and the OpenAPI document.
const OWNERS: [&str; 3] = ["drift", "suite", "broker"];
/// Their tests.
const TESTS: [&str; 4] = ["the_committed_crds_are", "the_table_of_error_codes_is", "the_openapi_document_is", "the_reference_of"];
/// Where helm renders the chart to.
const MANIFEST: &str = "deploy/dormouse.yaml";

/// Flags of `generate`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Fail when a file differs from what is generated, and change nothing.
    #[arg(long)]
    check: bool,
}

/// Writes or checks all generated files.
pub fn run(args: &Args) -> Result<()> {
    // The same selection as `cargo xtask test`, so that nothing is compiled a second time with other features.
    let mut command = workspace::cargo();
    command.args(["test", "--release", "--workspace"]).args(OWNERS.iter().flat_map(|target| ["--test", target]));
    command.arg("--").args(TESTS);
    if !args.check {
        command.env("UPDATE", "1");
    }
    workspace::run(&mut command).with_context(|| format!("the tests {}", TESTS.join(", ")))?;
    fuzz::lock(args.check)?;
    manifest(args.check)
}

/// `deploy/dormouse.yaml`: the chart with its default values, for people without helm.
fn manifest(check: bool) -> Result<()> {
    tools::build()?;
    let root = workspace::root();
    let mut helm = Command::new(tools::home()?.join("bin/helm"));
    helm.current_dir(&root);
    helm.args(["template", "dormouse", "charts/dormouse", "--namespace", "dormouse-system", "--skip-tests"]);
    let text = format!(
        "# Rendered from charts/dormouse by `cargo xtask generate`; change the chart instead.\n\
         apiVersion: v1\nkind: Namespace\nmetadata:\n  name: dormouse-system\n{}",
        workspace::output(&mut helm)?
    );
    let path = root.join(MANIFEST);
    if check {
        let found = fs::read_to_string(&path).unwrap_or_default();
        ensure!(found == text, "{MANIFEST} is not what the chart renders to: run `cargo xtask generate`");
        return Ok(());
    }
    fs::create_dir_all(root.join("deploy"))?;
    fs::write(&path, text)?;
    Ok(())
}
