//! `dormouse`: flags in, an exit status out.

use std::process::ExitCode;

use clap::Parser as _;
use dormouse::{args::Cli, failure};

#[tokio::main]
async fn main() -> ExitCode {
    match dormouse::run(Cli::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => failure::report(&error),
    }
}
