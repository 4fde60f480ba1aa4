//! `dormouse-operator`.

use clap::Parser as _;
use dormouse_operator::Config;

#[global_allocator]
static ALLOCATOR: dormouse_service::Allocator = dormouse_service::Allocator;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    dormouse_service::telemetry::init("operator");
    let config = Config::parse();
    let shutdown = dormouse_service::shutdown::signal();
    dormouse_operator::run(config, shutdown).await
}
