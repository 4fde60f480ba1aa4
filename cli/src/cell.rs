//! One cell: sent, shown while it runs, interrupted by Ctrl-C.

use std::pin::pin;

use anyhow::{Context as _, bail};
use dormouse_client::Client;
use dormouse_protocol::{
    ApiError,
    eval::{ConsoleLine, EvalRequest, EvalResult},
    event::EventBody,
    session::CreateSession,
};
use futures::StreamExt as _;

use crate::{
    screen::{Screen, Tone},
    show,
};

/// Makes the session if it does not exist.
///
/// # Errors
/// The gateway's.
pub async fn ensure(client: &Client, session: &str) -> anyhow::Result<()> {
    let create = CreateSession { name: Some(session.to_owned()), ..CreateSession::default() };
    client.create(&create).await?;
    Ok(())
}

/// Runs a cell and shows what it does. `false`: the cell failed, and that was shown.
///
/// # Errors
/// The service's; a script's own error is an answer.
pub async fn run(client: &Client, session: &str, cell: &EvalRequest, screen: &mut Screen) -> anyhow::Result<bool> {
    let mut opened = pin!(client.eval_events(session, cell));
    let mut interrupted = false;
    let events = loop {
        tokio::select! {
            opened = &mut opened => break opened?,
            () = interrupt() => stop(client, session, &mut interrupted).await?,
        }
    };
    let mut events = pin!(events);
    let mut shown = 0;
    loop {
        let event = tokio::select! {
            event = events.next() => event.context("the answer ended before the cell did")??,
            () = interrupt() => {
                stop(client, session, &mut interrupted).await?;
                continue;
            }
        };
        match event.body {
            EventBody::Log { level, text } => {
                show::console(screen, &ConsoleLine { level, text, at_ms: 0.0 })?;
                shown += 1;
            }
            EventBody::Stdout { text } => screen.text(&text)?,
            EventBody::Restarted {} => {
                screen.error_line(Tone::Faint, "(the cell's process was lost: what it has shown comes again, maybe otherwise)")?;
                shown = 0;
            }
            EventBody::Error { code, message } => {
                return Err(dormouse_client::Error::Api { status: None, error: Box::new(ApiError::new(code, message)) }.into());
            }
            EventBody::Final { result } => return finish(screen, &cell.code, &result, shown),
            _ => {}
        }
    }
}

/// Shows the end. The console lines that did not come as events are in the answer.
fn finish(screen: &mut Screen, source: &str, result: &EvalResult, shown: usize) -> anyhow::Result<bool> {
    for line in result.console.iter().skip(shown) {
        show::console(screen, line)?;
    }
    show::end(screen, source, result)?;
    if result.ok && !result.durable {
        screen.error_line(Tone::Faint, "(not stored yet: the session's durability is not PerEval)")?;
    }
    Ok(result.ok)
}

async fn interrupt() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// The first Ctrl-C interrupts the cell; the second leaves it to itself.
async fn stop(client: &Client, session: &str, interrupted: &mut bool) -> anyhow::Result<()> {
    if std::mem::replace(interrupted, true) {
        bail!("left the cell running; `dormouse sessions interrupt {session}` ends it");
    }
    Ok(client.interrupt(session).await?)
}
