//! `cargo run --release -p dormouse-bench`: prints the table of `docs/benchmarks.md`.
#![expect(clippy::print_stdout, reason = "printing is what it is for")]

mod busy;
mod density;
mod dev;
mod engine;
mod gateway;
mod load;
mod moves;
mod neighbours;
mod programs;
mod sealed;
mod storage;
mod table;
mod tiers;
mod tools;

use anyhow::Context as _;
use clap::Parser;

/// Which parts to run.
#[derive(Parser)]
struct Args {
    /// Only rows of these parts; all when absent.
    #[arg(long, value_enum)]
    only: Vec<Part>,
    /// Another `engine.wasm` than the one that is built in, for the parts `engine` and `density`, whose rows of bare instances it is measured by.
    #[arg(long)]
    engine: Option<std::path::PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Create, eval, resume, snapshot sizes, in one process.
    Engine,
    /// Ten thousand live sessions in one process.
    Density,
    /// The five programs against native QuickJS.
    Programs,
    /// A session beside hostile ones.
    Neighbours,
    /// A cell beside processes that keep the machine busy.
    Busy,
    /// Commit and resume against a real S3 server.
    Storage,
    /// Wakes on another pod with a real API server and a real S3 server.
    Moves,
    /// The same with encryption at rest beside without.
    Encryption,
    /// Whole requests against a real `dormouse dev`.
    Gateway,
    /// A tool's call through a broker, beside the bare request.
    Tools,
    /// Many sessions and requests at once, against a real `dormouse dev`.
    Load,
}

#[global_allocator]
static ALLOCATOR: dormouse_service::Allocator = dormouse_service::Allocator;

fn main() -> anyhow::Result<()> {
    // The one that sessions run on.
    dormouse_kernel::runtime()?.block_on(run())
}

async fn run() -> anyhow::Result<()> {
    let args = Args::parse();
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let wanted = |part| args.only.is_empty() || args.only.contains(&part);
    let mut rows = Vec::new();
    if wanted(Part::Engine) {
        rows.extend(engine::rows(&engine::made(args.engine.as_deref())?).await.context("engine")?);
    }
    if wanted(Part::Density) {
        rows.extend(density::rows(args.engine.as_deref()).await.context("density")?);
    }
    if wanted(Part::Programs) {
        rows.extend(programs::rows().await.context("programs")?);
    }
    if wanted(Part::Neighbours) {
        rows.extend(neighbours::rows().await.context("neighbours")?);
    }
    if wanted(Part::Busy) {
        rows.extend(busy::rows().await.context("busy")?);
    }
    if wanted(Part::Storage) {
        rows.extend(storage::rows().await.context("storage")?);
        rows.extend(tiers::rows().await.context("tiers")?);
    }
    if wanted(Part::Moves) {
        rows.extend(moves::rows().await.context("moves")?);
    }
    if wanted(Part::Encryption) {
        rows.extend(sealed::rows().await.context("encryption")?);
    }
    if wanted(Part::Gateway) {
        rows.extend(gateway::rows().await.context("gateway")?);
    }
    if wanted(Part::Tools) {
        rows.extend(tools::rows().await.context("tools")?);
    }
    if wanted(Part::Load) {
        rows.extend(load::rows().await.context("load")?);
    }
    println!("{}", table::markdown(&rows));
    println!("{}", conditions());
    Ok(())
}

fn conditions() -> String {
    let model = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = model.lines().find_map(|l| l.strip_prefix("model name")).map_or("unknown", |l| l.trim_start_matches([' ', '\t', ':']));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("Conditions: {model}, {cores} shared cores, everything on loopback, clients included.")
}
