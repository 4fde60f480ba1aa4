//! `dormouse-gateway`.

use clap::Parser as _;
use dormouse_gateway::run::{Args, run};

#[global_allocator]
static ALLOCATOR: dormouse_service::Allocator = dormouse_service::Allocator;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    dormouse_service::telemetry::init("gateway");
    let ended = run(args, dormouse_service::shutdown::signal()).await;
    dormouse_service::traces::finish().await;
    ended
}
