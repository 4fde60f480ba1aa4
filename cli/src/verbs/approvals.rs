//! `dormouse approvals`: calls that wait for a person.

use anyhow::Context as _;
use dormouse_client::Client;
use dormouse_protocol::approval::{Approval, ApprovalState, Decide, Verdict};

use super::SESSION;
use crate::screen::{Output, Screen, Tone};

/// Flags of `dormouse approvals`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// The session. `list` without it shows all of the namespace.
    #[arg(long, short, global = true)]
    session: Option<String>,
    /// How to print.
    #[arg(long, short, value_enum, default_value_t, global = true)]
    output: Output,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// List them.
    List,
    /// Let the call be made.
    Approve {
        /// Its id.
        approval: String,
        /// Other arguments, as JSON, where it is editable.
        #[arg(long, value_name = "JSON")]
        arguments: Option<String>,
        /// The epoch of the call, as the list shows it: another one is refused.
        #[arg(long)]
        epoch: Option<u64>,
    },
    /// Let the call fail.
    Deny {
        /// Its id.
        approval: String,
        /// What the code is told.
        #[arg(long)]
        reason: Option<String>,
        /// The epoch of the call, as the list shows it: another one is refused.
        #[arg(long)]
        epoch: Option<u64>,
    },
}

pub(crate) async fn run(client: &Client, args: Args, screen: &mut Screen) -> anyhow::Result<bool> {
    let session = args.session.as_deref().unwrap_or(SESSION);
    let (approval, decide) = match args.verb {
        None | Some(Verb::List) => {
            let list = client.approvals(args.session.as_deref()).await?;
            for approval in &list.items {
                one(approval, args.output, screen)?;
            }
            if list.truncated && matches!(args.output, Output::Text) {
                screen.line(Tone::Faint, "and calls of further sessions: name one with --session")?;
            }
            return Ok(true);
        }
        Some(Verb::Approve { approval, arguments, epoch }) => {
            let arguments = arguments.map(|text| serde_json::from_str(&text)).transpose().context("--arguments: not JSON")?;
            (approval, Decide { decision: Verdict::Approve, reason: None, epoch, arguments, idempotency_key: None })
        }
        Some(Verb::Deny { approval, reason, epoch }) => {
            (approval, Decide { decision: Verdict::Deny, reason, epoch, arguments: None, idempotency_key: None })
        }
    };
    let decided = client.decide(session, &approval, &decide).await?;
    let line = match args.output {
        Output::Json => serde_json::to_string(&decided)?,
        Output::Text if decide.decision == Verdict::Approve => format!("{approval} approved"),
        Output::Text => format!("{approval} denied"),
    };
    screen.line(Tone::Plain, &line)?;
    Ok(true)
}

fn one(approval: &Approval, output: Output, screen: &mut Screen) -> anyhow::Result<()> {
    let line = match output {
        Output::Json => serde_json::to_string(approval)?,
        Output::Text => {
            let Approval { id, session, tool_name, args, epoch, expires_at, state, .. } = approval;
            let over = if *state == ApprovalState::Expired { ", which is over" } else { "" };
            format!("{session} {id} {tool_name} {args} of epoch {epoch} until {expires_at}{over}")
        }
    };
    Ok(screen.line(Tone::Plain, &line)?)
}
