//! `dormouse eval`.

use dormouse_client::Client;
use dormouse_protocol::eval::{EvalRequest, Language};

use super::{SESSION, standard_input};
use crate::{
    cell,
    screen::{Output, Screen, Tone},
};

/// Flags of `dormouse eval`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The cell; standard input when absent or `-`.
    code: Option<String>,
    /// The session; it is made when it does not exist.
    #[arg(long, short, default_value = SESSION)]
    session: String,
    /// The cell is JavaScript: type annotations are errors.
    #[arg(long)]
    javascript: bool,
    /// Milliseconds that the cell may run.
    #[arg(long, value_name = "MS")]
    timeout_ms: Option<u64>,
    /// A retry with the same key gets the first answer and runs nothing.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Do not wait: print the run that the cell becomes. `dormouse runs wait` waits for its end.
    #[arg(long)]
    background: bool,
    /// How to print the answer.
    #[arg(long, short, value_enum, default_value_t)]
    output: Output,
}

pub(crate) async fn run(client: &Client, args: Args, screen: &mut Screen) -> anyhow::Result<bool> {
    let code = match args.code {
        Some(code) if code != "-" => code,
        _ => standard_input()?,
    };
    let request = EvalRequest {
        code,
        language: if args.javascript { Language::Javascript } else { Language::Typescript },
        timeout_ms: args.timeout_ms,
        idempotency_key: args.idempotency_key,
        filename: None,
        webhook: None,
        api_key: None,
        by: None,
    };
    cell::ensure(client, &args.session).await?;
    if args.background {
        let accepted = client.eval_later(&args.session, &request).await?;
        screen.line(Tone::Plain, &accepted.run)?;
        return Ok(true);
    }
    match args.output {
        Output::Text => cell::run(client, &args.session, &request, screen).await,
        Output::Json => {
            let result = client.eval(&args.session, &request).await?;
            screen.line(Tone::Plain, &serde_json::to_string(&result)?)?;
            Ok(result.ok)
        }
    }
}
