//! The `dormouse` command: `dev`, `repl` and the client's verbs. It must not hold logic that the processes do not have.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking"))]

pub mod args;
pub mod cell;
pub mod dev;
pub mod failure;
pub mod repl;
pub mod screen;
mod show;
pub mod verbs;

use std::process::ExitCode;

use args::{Cli, Command};
use clap::{CommandFactory as _, Parser as _};
use dormouse_service::{shutdown, telemetry, traces};
use screen::Screen;

/// The process: flags in, an exit status out. Here and not in the binary, because whoever starts the runtime compiles all that runs on it.
#[must_use]
pub fn main() -> ExitCode {
    if let Some(read) = dormouse_broker::read_pdf_if_asked() {
        return read;
    }
    let cli = Cli::parse();
    let runtime = match dormouse_kernel::runtime() {
        Ok(runtime) => runtime,
        Err(error) => return failure::report(&error.into()),
    };
    match runtime.block_on(run(cli)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => failure::report(&error),
    }
}

/// Does what the command line says. `false`: it was done, and a script failed.
async fn run(cli: Cli) -> anyhow::Result<bool> {
    if let Command::Dev(args) = cli.command {
        telemetry::init("dev");
        let ended = dev::run(args, cli.server.namespace, shutdown::signal()).await;
        traces::finish().await;
        return ended.map(|()| true);
    }
    if let Command::Completions { shell } = cli.command {
        clap_complete::generate(shell, &mut Cli::command(), "dormouse", &mut std::io::stdout());
        return Ok(true);
    }
    telemetry::install_tls_provider();
    let client = cli.server.client()?;
    let mut screen = Screen::standard();
    match cli.command {
        Command::Repl(args) => repl::run(&client, &args, &mut screen).await,
        Command::Eval(args) => verbs::eval::run(&client, args, &mut screen).await,
        Command::Run(args) => verbs::file::run(&client, args, &mut screen).await,
        Command::Sessions(args) => verbs::sessions::run(&client, args, &mut screen).await,
        Command::Logs(args) => verbs::logs::run(&client, args, &mut screen).await,
        Command::Checkpoints(args) => verbs::history::checkpoints(&client, args, &mut screen).await,
        Command::Restore(args) => verbs::history::restore(&client, args, &mut screen).await,
        Command::Reset(args) => verbs::history::reset(&client, args, &mut screen).await,
        Command::Fork(args) => verbs::history::fork(&client, args, &mut screen).await,
        Command::Migrate(args) => verbs::history::migrate(&client, args, &mut screen).await,
        Command::Approvals(args) => verbs::approvals::run(&client, args, &mut screen).await,
        Command::Runs(args) => verbs::runs::run(&client, args, &mut screen).await,
        Command::Keys(args) => verbs::keys::run(&client, args, &mut screen).await,
        Command::Mcp => verbs::mcp::run(&client).await,
        Command::Files(args) => verbs::files::run(&client, args, &mut screen).await,
        Command::Usage(args) => verbs::usage::run(&client, args, &mut screen).await,
        Command::Top(args) => verbs::top::run(&client, args, &mut screen).await,
        Command::Dev(_) | Command::Completions { .. } => Ok(true),
    }
}
