//! All doors of one session at the same time: an app, a person at a shell, a socket, a model and a notebook run cells in it, while it is put to sleep
//! again and again, and one reader follows it all.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use crate::support::{Dev, http};
use futures::{SinkExt as _, StreamExt as _, future::BoxFuture};
use serde_json::{Value, json};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async, tungstenite::Message};

/// Cells of each client.
const ROUNDS: usize = 8;
const PATIENCE: Duration = Duration::from_secs(120);
const SESSION: &str = "/v1/namespaces/default/sessions/s";

type Socket = WebSocketStream<MaybeTlsStream<tokio::net::TcpStream>>;

async fn socket(dev: &Dev, path: &str) -> Socket {
    let address = format!("ws://{}{path}", dev.server.trim_start_matches("http://"));
    connect_async(address).await.unwrap().0
}

/// Sends a message, and answers with the first one after it that `ends`.
async fn ask(socket: &mut Socket, message: Value, ends: impl Fn(&Value) -> bool) -> Value {
    socket.send(Message::Text(message.to_string().into())).await.unwrap();
    loop {
        let came = tokio::time::timeout(PATIENCE, socket.next()).await.expect("it answers").unwrap().unwrap();
        let Message::Text(text) = came else { continue };
        let message: Value = serde_json::from_str(&text).unwrap();
        if ends(&message) {
            return message;
        }
    }
}

/// A cell that counts itself as this client's.
fn cell(client: &str) -> String {
    format!("counts.{client} = (counts.{client} ?? 0) + 1")
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
    let shell: BoxFuture<'_, ()> = Box::pin(async {
        for round in 0..ROUNDS {
            let own = Arc::clone(&dev);
            let said = tokio::task::spawn_blocking(move || own.command(&["eval", "--session", "s", &cell("shell")], "")).await.unwrap();
            assert_eq!(said.out.trim(), (round + 1).to_string(), "{}", said.err);
        }
    });
    let frames: BoxFuture<'_, ()> = Box::pin(async {
        let mut socket = socket(&dev, &format!("{SESSION}/ws")).await;
        for round in 0..ROUNDS {
            let answer = ask(&mut socket, json!({ "t": "eval", "id": round, "code": cell("frames") }), |it| it["id"] == round).await;
            assert_eq!(answer["value"], json!(round + 1), "{answer}");
            // Whatever else runs: between two cells the heap leaves its process.
            let slept = ask(&mut socket, json!({ "t": "evict", "id": "sleep" }), |it| it["id"] == "sleep").await;
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
        let body = json!({ "name": "dormouse", "env": { "KERNEL_DORMOUSE_SESSION": "s" } });
        let kernel: Value = http.post(url("/api/kernels")).json(&body).send().await.unwrap().json().await.unwrap();
        let mut socket = socket(&dev, &format!("/api/kernels/{}/channels?session_id=1", kernel["id"].as_str().unwrap())).await;
        for round in 0..ROUNDS {
            let header = json!({ "msg_id": format!("n{round}"), "msg_type": "execute_request", "session": "1", "username": "me", "version": "5.3", "date": "" });
            let content =
                json!({ "code": cell("notebook"), "silent": false, "store_history": true, "user_expressions": {}, "allow_stdin": false });
            let message =
                json!({ "channel": "shell", "header": header, "parent_header": {}, "metadata": {}, "content": content, "buffers": [] });
            let result = ask(&mut socket, message, |it| matches!(it["msg_type"].as_str(), Some("execute_result" | "error"))).await;
            assert_eq!(result["content"]["data"]["text/plain"], (round + 1).to_string(), "{result}");
        }
    });
    let clients = ["app", "shell", "frames", "model", "notebook"];
    let reader = async {
        let mut lines = http.get(url(&format!("{SESSION}/events"))).timeout(PATIENCE).send().await.unwrap().bytes_stream();
        let (mut rest, mut seq, mut ends) = (Vec::new(), 0, Vec::new());
        // One more is the cell that made the counts.
        while ends.len() < clients.len() * ROUNDS + 1 {
            rest.extend_from_slice(&tokio::time::timeout(PATIENCE, lines.next()).await.expect("events come").unwrap().unwrap());
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                let Ok(event) = serde_json::from_slice::<Value>(&line) else { continue };
                if event["type"] == "heartbeat" {
                    continue;
                }
                seq += 1;
                assert_eq!(event["seq"], json!(seq), "no gap and nothing twice: {event}");
                if event["type"] == "final" {
                    ends.push(event["payload"]["idempotencyKey"].as_str().unwrap_or_default().to_owned());
                }
            }
        }
        ends
    };
    let (ends, ..) = tokio::join!(reader, futures::future::join_all([app, shell, frames, model, notebook]));
    let once: BTreeSet<_> = ends.iter().collect();
    assert_eq!(once.len(), ends.len(), "each cell has one end: {ends:?}");
    let counts: BTreeMap<String, usize> = serde_json::from_str(&dev.eval("JSON.stringify(counts)").replace('\'', "")).unwrap();
    assert_eq!(counts, clients.iter().map(|client| ((*client).to_owned(), ROUNDS)).collect(), "each ran once");
}
