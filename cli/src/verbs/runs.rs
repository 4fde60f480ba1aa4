//! `dormouse runs`: cells that were left to run by themselves.

use dormouse_client::Client;
use dormouse_protocol::run::{Run, WAIT_SECONDS_MAX};

use super::SESSION;
use crate::{
    screen::{Output, Screen, Tone},
    show,
};

/// Flags of `dormouse runs`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// The session.
    #[arg(long, short, default_value = SESSION, global = true)]
    session: String,
    /// How to print.
    #[arg(long, short, value_enum, default_value_t, global = true)]
    output: Output,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// List them.
    List,
    /// Show one.
    Get {
        /// Its id.
        run: String,
    },
    /// Wait for the end of one, and show its result.
    Wait {
        /// Its id.
        run: String,
    },
    /// End one.
    Cancel {
        /// Its id.
        run: String,
    },
}

pub(crate) async fn run(client: &Client, args: Args, screen: &mut Screen) -> anyhow::Result<bool> {
    let session = &args.session;
    match args.verb {
        None | Some(Verb::List) => {
            for run in client.runs(session).await?.items {
                one(&run, args.output, screen)?;
            }
        }
        Some(Verb::Get { run }) => one(&client.wait_for_run(session, &run, 0).await?, args.output, screen)?,
        Some(Verb::Cancel { run }) => one(&client.cancel_run(session, &run).await?, args.output, screen)?,
        Some(Verb::Wait { run }) => loop {
            let seen = client.wait_for_run(session, &run, WAIT_SECONDS_MAX).await?;
            if !seen.has_ended() {
                continue;
            }
            let Some(result) = seen.result.as_ref().filter(|_| args.output == Output::Text) else {
                one(&seen, args.output, screen)?;
                return Ok(seen.result.is_none_or(|result| result.ok));
            };
            for line in &result.console {
                show::console(screen, line)?;
            }
            show::end(screen, "", result)?;
            return Ok(result.ok);
        },
    }
    Ok(true)
}

fn one(run: &Run, output: Output, screen: &mut Screen) -> anyhow::Result<()> {
    let line = match output {
        Output::Json => serde_json::to_string(run)?,
        Output::Text => {
            let end = run.result.as_ref().map_or("", |result| result.error.as_ref().map_or(&*result.preview, |error| &error.message));
            format!("{} {:<9} {} {end}", run.id, format!("{:?}", run.state), run.created_at).trim_end().to_owned()
        }
    };
    Ok(screen.line(Tone::Plain, &line)?)
}
