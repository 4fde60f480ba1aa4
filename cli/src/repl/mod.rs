//! `dormouse repl`: cells typed by a person, or read from a pipe.

mod command;
mod complete;
mod highlight;
mod history;
mod interactive;
mod lex;
mod piped;
mod prompt;

use std::io::IsTerminal as _;

use dormouse_cells::{Options, compile};
use dormouse_client::Client;
use dormouse_protocol::eval::EvalRequest;

use crate::{cell, screen::Screen, verbs::SESSION};

/// Flags of `dormouse repl`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// The session; it is made when it does not exist.
    #[arg(default_value = SESSION)]
    name: String,
}

/// Reads cells until the end of the input. `false`: a cell of a pipe failed.
pub(crate) async fn run(client: &Client, args: &Args, screen: &mut Screen) -> anyhow::Result<bool> {
    cell::ensure(client, &args.name).await?;
    if std::io::stdin().is_terminal() && std::io::stdout().is_terminal() {
        interactive::run(client, &args.name, screen).await
    } else {
        piped::run(client, &args.name, screen).await
    }
}

/// Whether the source is the beginning of a cell: another line is needed before it can be anything.
fn unfinished(source: &str) -> bool {
    compile(source, &Options::default()).is_err_and(|error| error.at_end)
}

fn request(code: &str) -> EvalRequest {
    EvalRequest { code: code.to_owned(), ..EvalRequest::default() }
}
