//! `cargo xtask …`: generates and builds what the project needs, and runs all of its tests.
//!
//! It calls the programs that do the work (cargo, go, helm, python3) and links none of the product's crates, so that it is
//! compiled in seconds.

use anyhow::Result;
use clap::{Parser, Subcommand};

mod before;
mod broken;
mod deny;
mod engine;
mod fuzz;
mod generate;
mod images;
mod sbom;
mod soak;
mod suites;
mod test;
mod tools;
mod workspace;

/// Generates and builds what the project needs, and runs all of its tests.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Builds the programs that tests run: Kubernetes, etcd, containerd, CoreDNS, MinIO, helm. Once; then from the cache.
    Tools,
    /// Writes every generated file again: CRDs, chart, manifests, OpenAPI, the lock file of the fuzzer.
    Generate(generate::Args),
    /// Builds the release binaries and packs them as OCI images into target/images, without Docker.
    Images,
    /// Writes what is in each program, as CycloneDX, into target/sbom.
    Sbom,
    /// Checks bans, licences and sources of what the programs are made of.
    Deny,
    /// Looks for known vulnerabilities in what the programs and the engine are made of, where RustSec's database can be reached.
    Advisories,
    /// Builds engine.wasm from crates/guest.
    Engine(engine::Args),
    /// Runs every test, the whole-cluster story included.
    Test(test::Args),
    /// Runs Node's own tests and web-platform-tests beside the machine's Node.
    Suites(suites::Args),
    /// Runs the tests of durability with their whole counts, for up to some hours.
    Soak(soak::Args),
}

fn main() -> Result<()> {
    match Cli::parse().command {
        Task::Tools => tools::build(),
        Task::Generate(args) => generate::run(&args),
        Task::Images => images::run(),
        Task::Sbom => sbom::run(),
        Task::Deny => deny::run(),
        Task::Advisories => deny::advisories(),
        Task::Engine(args) => engine::run(&args),
        Task::Test(args) => test::run(&args),
        Task::Suites(args) => suites::run(&args),
        Task::Soak(args) => soak::run(&args),
    }
}
