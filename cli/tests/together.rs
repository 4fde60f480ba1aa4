//! All doors of one session at the same time: an app, one with an API key, a person at a shell, a socket, a model and a notebook run cells in it,
//! while it is put to sleep again and again, and two readers follow it all, one of them by the streaming protocol.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::support::{
    Dev, http,
    sockets::{self, PATIENCE},
};
use futures::{StreamExt as _, future::BoxFuture};
use serde_json::{Value, json};

/// Cells of each client.
const ROUNDS: usize = 8;
const SESSION: &str = "/v1/namespaces/default/sessions/s";

/// A cell that counts itself as this client's.
fn cell(client: &str) -> String {
    format!("counts.{client} = (counts.{client} ?? 0) + 1")
}

/// A reader of events, and the keys of the cells that it has seen the end of.
#[derive(Default)]
struct Reader {
    seq: u64,
    ends: Vec<String>,
}

impl Reader {
    /// Reads a stream on to its end, or until so many cells have ended.
    async fn read(&mut self, request: reqwest::RequestBuilder, ends: usize) {
        let mut lines = request.timeout(PATIENCE).send().await.unwrap().bytes_stream();
        let mut rest = Vec::new();
        while self.ends.len() < ends {
            let Some(came) = tokio::time::timeout(PATIENCE, lines.next()).await.expect("events come") else { return };
            rest.extend_from_slice(&came.unwrap());
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                let Ok(event) = serde_json::from_slice::<Value>(&line) else { continue };
                if event["type"] == "heartbeat" {
                    continue;
                }
                self.seq += 1;
                assert_eq!(event["seq"], json!(self.seq), "no gap and nothing twice: {event}");
                if event["type"] == "final" {
                    self.ends.push(event["payload"]["idempotencyKey"].as_str().unwrap_or_default().to_owned());
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_session_serves_every_door_at_a_time_and_nobody_misses_anything() {
    let data = tempfile::tempdir().unwrap();
    let dev = Arc::new(Dev::start(data.path(), &[]));
    let http = http();
    let url = |path: &str| format!("{}{path}", dev.server);
    dev.eval("const counts: Record<string, number> = {}; 0");

    let app: BoxFuture<'_, ()> = Box::pin(async {
        for round in 0..ROUNDS {
            let body = json!({ "code": cell("app"), "idempotencyKey": format!("app-{round}") });
            let answer: Value = http.post(url(&format!("{SESSION}/eval"))).json(&body).send().await.unwrap().json().await.unwrap();
            assert_eq!(answer["value"], json!(round + 1), "{answer}");
        }
    });
    let made = dev.command(&["keys", "create", "partner", "--verbs", "get,eval"], "");
    let key = made.out.trim().to_owned();
    assert!(key.starts_with("dmk_"), "{}{}", made.out, made.err);
    let partner: BoxFuture<'_, ()> = Box::pin(async {
        for round in 0..ROUNDS {
            let request = http.post(url(&format!("{SESSION}/eval"))).bearer_auth(&key).json(&json!({ "code": cell("partner") }));
            let answer: Value = request.send().await.unwrap().json().await.unwrap();
            assert_eq!(answer["value"], json!(round + 1), "{answer}");
        }
    });
    let shell: BoxFuture<'_, ()> = Box::pin(async {
        for round in 0..ROUNDS {
            let own = Arc::clone(&dev);
            let said = tokio::task::spawn_blocking(move || own.command(&["eval", "--session", "s", &cell("shell")], "")).await.unwrap();
            assert_eq!(said.out.trim(), (round + 1).to_string(), "{}", said.err);
        }
    });
    let frames: BoxFuture<'_, ()> = Box::pin(async {
        let mut socket = sockets::connect(&dev, &format!("{SESSION}/ws")).await;
        for round in 0..ROUNDS {
            let answer =
                sockets::ask(&mut socket, json!({ "t": "eval", "id": round, "code": cell("frames") }), |it| it["id"] == round).await;
            assert_eq!(answer["value"], json!(round + 1), "{answer}");
            // Whatever else runs: between two cells the heap leaves its process.
            let slept = sockets::ask(&mut socket, json!({ "t": "evict", "id": "sleep" }), |it| it["id"] == "sleep").await;
            assert_eq!(slept["ok"], true, "{slept}");
        }
    });
    let model: BoxFuture<'_, ()> = Box::pin(async {
        let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {} });
        for round in 0..ROUNDS {
            let params = json!({ "name": "eval", "arguments": { "session": "s", "code": cell("model") }, "_meta": meta });
            let body = json!({ "jsonrpc": "2.0", "id": round, "method": "tools/call", "params": params });
            let request = http.post(url("/mcp")).header("accept", "application/json, text/event-stream");
            let request =
                request.header("mcp-protocol-version", "2026-07-28").header("mcp-method", "tools/call").header("mcp-name", "eval");
            let answer: Value = request.json(&body).send().await.unwrap().json().await.unwrap();
            assert_eq!(answer["result"]["structuredContent"]["value"], json!(round + 1), "{answer}");
        }
    });
    let notebook: BoxFuture<'_, ()> = Box::pin(async {
        let mut socket = sockets::connect(&dev, &sockets::notebook(&dev, "s").await).await;
        for round in 0..ROUNDS {
            let message = sockets::execute(&format!("n{round}"), &cell("notebook"));
            let result = sockets::ask(&mut socket, message, |it| matches!(it["msg_type"].as_str(), Some("execute_result" | "error"))).await;
            assert_eq!(result["content"]["data"]["text/plain"], (round + 1).to_string(), "{result}");
        }
    });
    let clients = ["app", "partner", "shell", "frames", "model", "notebook"];
    // One more is the cell that made the counts.
    let all = clients.len() * ROUNDS + 1;
    let follower = async {
        let mut reader = Reader::default();
        reader.read(http.get(url(&format!("{SESSION}/events"))), all).await;
        reader.ends
    };
    // Its streams end with each cell, and where nothing runs.
    let taker = async {
        let mut reader = Reader::default();
        while reader.ends.len() < all {
            let after = reader.seq;
            reader.read(http.get(url(&format!("/sessions/s/stream?after={after}"))), all).await;
        }
        reader.ends
    };
    let (ends, taken, _) = tokio::join!(follower, taker, futures::future::join_all([app, partner, shell, frames, model, notebook]));
    assert_eq!(ends, taken, "both have seen the same");
    let once: BTreeSet<_> = ends.iter().collect();
    assert_eq!(once.len(), ends.len(), "each cell has one end: {ends:?}");
    let counts: BTreeMap<String, usize> = serde_json::from_str(&dev.eval("JSON.stringify(counts)").replace('\'', "")).unwrap();
    assert_eq!(counts, clients.iter().map(|client| ((*client).to_owned(), ROUNDS)).collect(), "each ran once");
}
