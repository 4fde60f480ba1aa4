//! `dormouse-broker`: one ToolBroker's process.

use clap::Parser as _;
use dormouse_service::{shutdown, telemetry, traces};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = dormouse_broker::Args::parse();
    telemetry::init("broker");
    let ended = dormouse_broker::run(args, shutdown::signal()).await;
    traces::finish().await;
    ended
}
