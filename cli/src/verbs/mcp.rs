//! `dormouse mcp`: the gateway's MCP server on standard input and output, for clients that start a process.
//!
//! It passes messages on, a line each, and knows of them only what their headers have to say. It keeps nothing else: what it names are sessions, so it
//! may be started again at any time.

use std::io::{BufRead as _, Write as _};

use anyhow::Context as _;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use dormouse_client::{Client, McpHeaders};
use futures::{StreamExt as _, stream};
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
    let mut agreed = McpHeaders::default();
    let mut under_way = JoinSet::new();
    while let Some(line) = lines.recv().await {
        let line = line.context("cannot read standard input")?;
        if line.trim().is_empty() {
            continue;
        }
        let message: Value = serde_json::from_str(&line).unwrap_or_default();
        let headers = headers(&message, &agreed);
        if message.get("method").and_then(Value::as_str) == Some("initialize") {
            // What comes after it speaks the revision that its answer names, under the id that it brings.
            agreed = pass(client, line, &headers, &message, &out).await;
            continue;
        }
        if under_way.len() >= IN_FLIGHT_MAX {
            under_way.join_next().await;
        }
        let (client, out) = (client.clone(), out.clone());
        under_way.spawn(async move {
            pass(&client, line, &headers, &message, &out).await;
        });
    }
    while under_way.join_next().await.is_some() {}
    drop(out);
    writing.await?.context("cannot write standard output")?;
    Ok(true)
}

/// Passes a message on, and what is answered, a line each; a gateway that cannot be reached is answered as a fault. Answers what has been agreed on by
/// it.
async fn pass(client: &Client, line: String, headers: &McpHeaders, message: &Value, out: &mpsc::Sender<Vec<u8>>) -> McpHeaders {
    let mut agreed = McpHeaders::default();
    let failed = |error: dormouse_client::Error| {
        let id = message.get("method").and_then(|_| message.get("id"))?;
        Some(json!({ "jsonrpc": "2.0", "id": id, "error": { "code": INTERNAL, "message": error.to_string() } }).to_string().into_bytes())
    };
    let mut answers = match client.mcp(line.into_bytes(), headers).await {
        Ok(answer) => {
            agreed.session = answer.session;
            answer.messages
        }
        Err(error) => stream::once(async { Err(error) }).boxed(),
    };
    while let Some(answer) = answers.next().await {
        let Some(answer) = answer.map_or_else(failed, |answer| Some(answer.to_vec())) else { continue };
        if agreed.revision.is_none() {
            agreed.revision = revision(&answer);
        }
        // Nobody reads any more: the end of the input follows.
        let _ = out.send(answer).await;
    }
    agreed
}

fn revision(answer: &[u8]) -> Option<String> {
    let answer: Value = serde_json::from_slice(answer).ok()?;
    answer.get("result")?.get("protocolVersion")?.as_str().map(str::to_owned)
}

/// What the headers of a message say: what it says itself in the stateless revision, else what was agreed on.
fn headers(message: &Value, agreed: &McpHeaders) -> McpHeaders {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let params = message.get("params");
    let stated = text(params.and_then(|params| params.get("_meta")?.get("io.modelcontextprotocol/protocolVersion")));
    if stated.is_none() {
        return agreed.clone();
    }
    let name = text(params.and_then(|params| params.get("name").or_else(|| params.get("uri")).or_else(|| params.get("taskId"))));
    let name = name.map(|name| match name.bytes().all(|byte| byte.is_ascii_graphic()) && !name.starts_with("=?") {
        true => name,
        false => format!("=?base64?{}?=", STANDARD.encode(name)),
    });
    McpHeaders { revision: stated, session: None, method: text(message.get("method")), name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_the_stateless_revision_says_itself_what_its_headers_say() {
        let agreed = McpHeaders { revision: Some("2025-11-25".to_owned()), session: Some("e-1".to_owned()), ..McpHeaders::default() };
        let told = headers(&json!({ "method": "ping" }), &agreed);
        assert_eq!((told.revision.as_deref(), told.session.as_deref(), told.method), (Some("2025-11-25"), Some("e-1"), None));
        let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28" });
        let told = headers(&json!({ "method": "tools/call", "params": { "name": "wörter", "_meta": meta } }), &agreed);
        assert_eq!((told.revision.as_deref(), told.session, told.method.as_deref()), (Some("2026-07-28"), None, Some("tools/call")));
        assert_eq!(told.name.as_deref(), Some("=?base64?d8O2cnRlcg==?="));
    }
}
