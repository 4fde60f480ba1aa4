//! `dormouse-broker`: one ToolBroker's process.

use std::process::ExitCode;

use clap::Parser as _;
use dormouse_service::{shutdown, telemetry, traces};

#[global_allocator]
static ALLOCATOR: dormouse_service::Allocator = dormouse_service::Allocator;

fn main() -> anyhow::Result<ExitCode> {
    if let Some(read) = dormouse_broker::read_pdf_if_asked() {
        return Ok(read);
    }
    let args = dormouse_broker::Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        telemetry::init("broker");
        let ended = dormouse_broker::run(args, shutdown::signal()).await;
        traces::finish().await;
        ended
    })?;
    Ok(ExitCode::SUCCESS)
}
