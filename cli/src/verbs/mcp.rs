//! `dormouse mcp`: the gateway's MCP server on standard input and output, for clients that start a process.
//!
//! It passes messages on, a line each, and knows of them only which revision was agreed on. It keeps nothing: what it names are sessions, so it may
//! be started again at any time.

use std::io::{BufRead as _, Write as _};

use anyhow::Context as _;
use dormouse_client::Client;
use serde_json::{Value, json};
use tokio::{sync::mpsc, task::JoinSet};

/// Messages that are under way at once.
const IN_FLIGHT_MAX: usize = 64;
/// Code of JSON-RPC: a fault of the server.
const INTERNAL: i64 = -32603;

pub(crate) async fn run(client: &Client) -> anyhow::Result<bool> {
    // Standard input and output block, so each has a thread. That of the input may outlive this, waiting for a line.
    let (input, mut lines) = mpsc::channel::<std::io::Result<String>>(IN_FLIGHT_MAX);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            if input.blocking_send(line).is_err() {
                return;
            }
        }
    });
    let (out, mut answers) = mpsc::channel::<Vec<u8>>(IN_FLIGHT_MAX);
    let writing = tokio::task::spawn_blocking(move || {
        let mut stdout = std::io::stdout().lock();
        while let Some(mut line) = answers.blocking_recv() {
            line.push(b'\n');
            stdout.write_all(&line)?;
            stdout.flush()?;
        }
        Ok::<_, std::io::Error>(())
    });
    let mut revision: Option<String> = None;
    let mut under_way = JoinSet::new();
    while let Some(line) = lines.recv().await {
        let line = line.context("cannot read standard input")?;
        if line.trim().is_empty() {
            continue;
        }
        if is_initialize(&line) {
            // What comes after it speaks the revision that its answer names.
            let answer = pass(client, line, None).await;
            revision = answer.as_ref().and_then(|answer| agreed(answer));
            if let Some(answer) = answer {
                out.send(answer).await.ok().context("standard output was closed")?;
            }
            continue;
        }
        if under_way.len() >= IN_FLIGHT_MAX {
            under_way.join_next().await;
        }
        let (client, out, revision) = (client.clone(), out.clone(), revision.clone());
        under_way.spawn(async move {
            if let Some(answer) = pass(&client, line, revision.as_deref()).await {
                // Nobody reads any more: the end of the input follows.
                let _ = out.send(answer).await;
            }
        });
    }
    while under_way.join_next().await.is_some() {}
    drop(out);
    writing.await?.context("cannot write standard output")?;
    Ok(true)
}

/// The answer to a message, on one line; a gateway that cannot be reached is answered as a fault.
async fn pass(client: &Client, line: String, revision: Option<&str>) -> Option<Vec<u8>> {
    let id = serde_json::from_str::<Value>(&line).ok().and_then(|message| message.get("id").cloned());
    match client.mcp(line.into_bytes(), revision).await {
        Ok(answer) => answer,
        Err(error) => {
            let answer = json!({ "jsonrpc": "2.0", "id": id?, "error": { "code": INTERNAL, "message": error.to_string() } });
            Some(answer.to_string().into_bytes())
        }
    }
}

fn is_initialize(line: &str) -> bool {
    serde_json::from_str::<Value>(line).is_ok_and(|message| message.get("method").and_then(Value::as_str) == Some("initialize"))
}

fn agreed(answer: &[u8]) -> Option<String> {
    let answer: Value = serde_json::from_slice(answer).ok()?;
    answer.get("result")?.get("protocolVersion")?.as_str().map(str::to_owned)
}
