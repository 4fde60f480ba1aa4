//! `dormouse logs`.

use std::pin::pin;

use dormouse_client::Client;
use dormouse_protocol::event::{Event, EventBody};
use futures::StreamExt as _;

use super::history;
use crate::screen::{Output, Screen, Tone};

/// Flags of `dormouse logs`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The session.
    session: String,
    /// Only events after this one.
    #[arg(long, value_name = "SEQ")]
    after: Option<u64>,
    /// Go on with live events.
    #[arg(long, short)]
    follow: bool,
    /// Show the journal instead: what happened in the session's life, also when it is damaged.
    #[arg(long, conflicts_with = "follow")]
    journal: bool,
    /// How to print an event.
    #[arg(long, short, value_enum, default_value_t)]
    output: Output,
}

pub(crate) async fn run(client: &Client, args: Args, screen: &mut Screen) -> anyhow::Result<bool> {
    if args.journal {
        return history::journal(client, &args.session, args.after.unwrap_or(0), args.output, screen).await;
    }
    let mut events = pin!(client.events(&args.session, args.after, args.follow).await?);
    while let Some(event) = events.next().await {
        let event = event?;
        match args.output {
            Output::Json => screen.line(Tone::Plain, &serde_json::to_string(&event)?)?,
            Output::Text => {
                if let Some((tone, text)) = describe(&event) {
                    let seq = screen.paint(Tone::Faint, &format!("{:>6}", event.seq));
                    let text = screen.paint(tone, &text);
                    screen.line(Tone::Plain, &format!("{seq}  {text}"))?;
                }
            }
        }
    }
    Ok(true)
}

fn describe(event: &Event) -> Option<(Tone, String)> {
    Some(match &event.body {
        EventBody::Heartbeat {} | EventBody::Restarted {} => return None,
        EventBody::Stdout { text } => (Tone::Plain, text.trim_end_matches('\n').to_owned()),
        EventBody::Log { level, text } => {
            let tone = match level.as_str() {
                "error" => Tone::Error,
                "warn" => Tone::Warning,
                _ => Tone::Plain,
            };
            (tone, format!("{level:<5} {text}"))
        }
        EventBody::Display { mime_type, data } => (Tone::Faint, format!("shown {mime_type}, {} bytes", data.len())),
        EventBody::Progress { fraction, note } => (Tone::Faint, format!("{:>4.0} % {note}", fraction * 100.0)),
        EventBody::ApprovalRequired { approval_id, tool_name, args, .. } => {
            (Tone::Warning, format!("waits {approval_id} {tool_name} {args}"))
        }
        EventBody::ToolCall { call_id, tool_name, args } => (Tone::Faint, format!("call  {call_id} {tool_name} {args}")),
        EventBody::ToolResultApplied { call_id } => (Tone::Faint, format!("call  {call_id} answered")),
        EventBody::State { state } => (Tone::Faint, format!("state {state}")),
        EventBody::Error { code, message } => (Tone::Error, format!("error {code}: {message}")),
        EventBody::Final { result } => match &result.error {
            Some(error) => (Tone::Error, format!("cell  {} {}: {}", result.cell, error.name, error.message)),
            None => (Tone::Value, format!("cell  {} {}", result.cell, result.preview)),
        },
    })
}
