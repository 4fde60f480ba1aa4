//! `dormouse-operator`.

use clap::Parser as _;
use dormouse_operator::Config;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    dormouse_service::telemetry::init("operator");
    let config = Config::parse();
    let shutdown = dormouse_service::shutdown::signal();
    dormouse_operator::run(config, shutdown).await
}
