//! The doors as their clients see them, over a kernel pod that answers as it is told.

use std::{sync::Arc, time::Duration};

use crate::support::{Answer, Client, FakePod, Trust, directory, serve_routes};
use dormouse_gateway::{
    Gateway,
    auth::{keys::file::KeyFile, loopback::Loopback},
};
use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::Notify};
use tokio_tungstenite::{
    connect_async,
    tungstenite::{Message, client::IntoClientRequest as _},
};
use tokio_util::sync::CancellationToken;

const SESSIONS: &str = "/v1/namespaces/default/sessions";

async fn client() -> (tempfile::TempDir, Client) {
    let trust = Trust::new();
    let pod = trust.pod("a", 10).await;
    let (folder, directory) = directory(&trust, &[&pod]).await;
    let keys = Arc::new(KeyFile::open(&folder.path().join("keys.json")).unwrap());
    (folder, serve_routes(Gateway::new(directory, trust.kernels(), Arc::new(Loopback::default())).with_keys(keys)).await)
}

type Socket = tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>;

async fn connect(client: &Client, path: &str, protocols: Option<&str>) -> Result<Socket, tokio_tungstenite::tungstenite::Error> {
    let mut request = format!("ws://{}{path}", client.base.trim_start_matches("http://")).into_client_request().unwrap();
    if let Some(protocols) = protocols {
        request.headers_mut().insert("sec-websocket-protocol", protocols.parse().unwrap());
    }
    connect_async(request).await.map(|connected| connected.0)
}

async fn next(socket: &mut Socket) -> Value {
    loop {
        let came = tokio::time::timeout(Duration::from_secs(30), socket.next()).await.expect("it answers").unwrap().unwrap();
        if let Message::Text(text) = came {
            return serde_json::from_str(&text).unwrap();
        }
    }
}

async fn ask(socket: &mut Socket, frame: Value) -> Value {
    socket.send(Message::Text(frame.to_string().into())).await.unwrap();
    next(socket).await
}

/// The code with which the gateway closes.
async fn closed(socket: &mut Socket) -> u16 {
    loop {
        match tokio::time::timeout(Duration::from_secs(30), socket.next()).await.expect("it closes") {
            Some(Ok(Message::Close(Some(close)))) => return u16::from(close.code),
            Some(Ok(_)) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn frames_of_a_websocket_are_answered_under_their_ids() {
    let (_folder, client) = client().await;
    let mut socket = connect(&client, "/ws?id=socket", None).await.unwrap();
    assert_eq!(ask(&mut socket, json!({ "t": "ping", "id": 1 })).await, json!({ "t": "ping-result", "id": 1, "ok": true }));
    assert_eq!(ask(&mut socket, json!({ "t": "gen" })).await["error"]["code"], "SessionNotFound");
    assert_eq!(ask(&mut socket, json!({ "t": "create", "config": { "fetch": 1 } })).await["error"]["details"]["path"], "config.fetch");
    assert_eq!(ask(&mut socket, json!({ "t": "create", "id": 2 })).await["name"], "socket");
    let cell = ask(&mut socket, json!({ "t": "eval", "id": "x", "src": "1" })).await;
    assert_eq!((&cell["t"], &cell["id"], &cell["ok"], &cell["preview"]), (&json!("eval-result"), &json!("x"), &json!(true), &json!("a")));
    for (frame, code) in [("hostcall", "InvalidRequest"), ("nonsense", "InvalidRequest")] {
        assert_eq!(ask(&mut socket, json!({ "t": frame })).await["error"]["code"], code, "{frame}");
    }
    assert_eq!(
        ask(&mut socket, json!({ "t": "reset", "id": 4 })).await,
        json!({ "t": "reset-result", "id": 4, "ok": true, "state": "Idle" })
    );
    socket.send(Message::Text("{".into())).await.unwrap();
    assert_eq!(next(&mut socket).await["error"]["code"], "InvalidRequest");

    let mut streaming = connect(&client, &format!("{SESSIONS}/socket/ws"), Some("dormouse.v1")).await.unwrap();
    let event = ask(&mut streaming, json!({ "t": "eval", "id": 3, "code": "1" })).await;
    assert_eq!((&event["t"], &event["event"]["payload"]["text"]), (&json!("event"), &json!("hello")));
    assert_eq!(next(&mut streaming).await["t"], "eval-result");
    // Frames are text.
    streaming.send(Message::Binary(vec![1].into())).await.unwrap();
    assert_eq!(closed(&mut streaming).await, 1003);
}

/// A gateway that can be told to stop, and whose first cell ends when it is released.
struct Held {
    _folder: tempfile::TempDir,
    pod: Arc<FakePod>,
    client: Client,
    release: Arc<Notify>,
    stop: CancellationToken,
    serving: tokio::task::JoinHandle<()>,
}

impl Held {
    async fn new() -> Self {
        let trust = Trust::new();
        let pod = trust.pod("a", 10).await;
        let (folder, directory) = directory(&trust, &[&pod]).await;
        let release = Arc::new(Notify::new());
        pod.answers.lock().unwrap().push_back(Answer::Held(Arc::clone(&release)));
        let gateway = Gateway::new(directory, trust.kernels(), Arc::new(Loopback::default()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = Client::new(format!("http://{}", listener.local_addr().unwrap()));
        let stop = CancellationToken::new();
        let serving = tokio::spawn({
            let stop = stop.clone();
            async move { gateway.serve(listener, stop).await }
        });
        Self { _folder: folder, pod, client, release, stop, serving }
    }
}

#[tokio::test]
async fn the_cells_of_a_socket_end_before_the_gateway_does() {
    let held = Held::new().await;
    let mut idle = connect(&held.client, "/ws?id=socket", None).await.unwrap();
    assert_eq!(ask(&mut idle, json!({ "t": "create" })).await["ok"], true);
    let mut busy = connect(&held.client, "/ws?id=socket", Some("dormouse.v1")).await.unwrap();
    let first = ask(&mut busy, json!({ "t": "eval", "id": 1, "code": "1" })).await;
    assert_eq!((&first["t"], &first["event"]["type"]), (&json!("event"), &json!("log")), "{first}");
    let key = held.pod.evals()[0].eval.idempotency_key.clone();
    assert!(
        key.is_some() && first["idempotencyKey"].as_str() == key.as_deref(),
        "whatever becomes of the socket, its client knows it: {first}"
    );
    busy.send(Message::Text(json!({ "t": "eval", "id": 2, "code": "2" }).to_string().into())).await.unwrap();
    // Frames are read in their order: the second cell waits by now.
    assert_eq!(ask(&mut busy, json!({ "t": "ping", "id": 3 })).await["id"], 3);

    held.stop.cancel();
    assert_eq!(closed(&mut idle).await, 1001);
    assert!(!held.serving.is_finished(), "a cell is under way");
    held.release.notify_one();
    for id in [1, 2] {
        let end = loop {
            let frame = next(&mut busy).await;
            if frame["t"] != "event" {
                break frame;
            }
        };
        assert_eq!((&end["t"], &end["id"], &end["ok"]), (&json!("eval-result"), &json!(id), &json!(true)), "{end}");
    }
    assert_eq!(closed(&mut busy).await, 1001);
    tokio::time::timeout(Duration::from_secs(30), held.serving).await.expect("it ends").unwrap();
}

#[tokio::test]
async fn the_cells_of_a_notebook_that_has_left_end_before_the_gateway_does() {
    let held = Held::new().await;
    let (status, kernel) = held.client.json("POST", "/api/kernels", json!({ "name": "dormouse" })).await;
    assert_eq!(status, 201, "{kernel}");
    let path = format!("/api/kernels/{}/channels?session_id=s", kernel["id"].as_str().unwrap());
    let mut socket = connect(&held.client, &path, None).await.unwrap();
    for (id, kind, code) in [("1", "execute_request", "1"), ("2", "execute_request", "2"), ("3", "kernel_info_request", "")] {
        let header = json!({ "msg_id": id, "msg_type": kind, "session": "s" });
        let message = json!({ "channel": "shell", "header": header, "content": { "code": code } });
        socket.send(Message::Text(message.to_string().into())).await.unwrap();
    }
    // Messages are read in their order, and the first cell prints before it is held.
    let mut awaited = vec!["stream", "kernel_info_reply"];
    while !awaited.is_empty() {
        let message = next(&mut socket).await;
        awaited.retain(|kind| message["msg_type"] != *kind);
    }
    drop(socket);
    held.stop.cancel();
    held.release.notify_one();
    tokio::time::timeout(Duration::from_secs(30), held.serving).await.expect("it ends").unwrap();
    let ran: Vec<_> = held.pod.evals().iter().map(|call| call.eval.code.clone()).collect();
    assert_eq!(ran, ["1", "2"]);
    let keys: Vec<_> = held.pod.evals().iter().map(|call| call.eval.idempotency_key.clone().unwrap()).collect();
    assert!(keys.iter().zip(["-1", "-2"]).all(|(key, end)| key.starts_with("jupyter-") && key.ends_with(end)), "{keys:?}");
}

#[tokio::test]
async fn a_browser_brings_its_key_as_a_subprotocol_and_a_revoked_one_opens_nothing() {
    let (_folder, client) = client().await;
    let keys = "/v1/namespaces/default/keys";
    let (status, made) = client.json("POST", keys, json!({ "name": "page", "verbs": ["get", "eval", "create"] })).await;
    assert_eq!(status, 201, "{made}");
    let offered = format!("dormouse.v1, dormouse.bearer.{}", made["key"].as_str().unwrap());
    let mut socket = connect(&client, "/ws?id=page", Some(&offered)).await.unwrap();
    assert_eq!(ask(&mut socket, json!({ "t": "create" })).await["ok"], true);
    assert_eq!(ask(&mut socket, json!({ "t": "evict" })).await["error"]["code"], "Forbidden", "its key may not");
    assert_eq!(client.request("DELETE", &format!("{keys}/page")).send().await.unwrap().status(), 204);
    assert!(connect(&client, "/ws?id=page", Some(&offered)).await.is_err());
    let (_, listed) = client.get(keys).await;
    assert_eq!(listed, json!({ "items": [] }));
}

#[tokio::test]
async fn mcp_is_answered_in_both_revisions() {
    let (_folder, client) = client().await;
    let ask = async |method: &str, params: Value, headers: &[(&'static str, &'static str)]| {
        let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        let request =
            headers.iter().fold(client.request("POST", "/mcp").json(&body), |request, (name, value)| request.header(*name, *value));
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
    };
    let (_, begun) = ask("initialize", json!({ "protocolVersion": "2025-06-18" }), &[]).await;
    assert_eq!((&begun["id"], &begun["result"]["protocolVersion"]), (&json!(7), &json!("2025-06-18")));
    let (_, begun) = ask("initialize", json!({ "protocolVersion": "1999-01-01" }), &[]).await;
    assert_eq!(begun["result"]["protocolVersion"], "2025-11-25", "the newest that begins so");
    let (_, listed) = ask("tools/list", json!({}), &[("mcp-protocol-version", "2025-11-25")]).await;
    let tools: Vec<_> = listed["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    for wanted in ["session_create", "eval", "run_cancel", "file_write", "task_handoff"] {
        assert!(tools.contains(&wanted), "{wanted}: {tools:?}");
    }
    assert_eq!(listed["result"].get("resultType"), None, "older revisions have no such field");
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {} });
    let call = |name: &str, arguments: Value| json!({ "name": name, "arguments": arguments, "_meta": meta });
    let newest = |name: &'static str| [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", name)];
    let (_, made) = ask("tools/call", call("session_create", json!({ "name": "model" })), &newest("session_create")).await;
    assert_eq!(
        (&made["result"]["resultType"], &made["result"]["structuredContent"]["name"]),
        (&json!("complete"), &json!("model")),
        "{made}"
    );
    let (_, cell) = ask("tools/call", call("eval", json!({ "session": "model", "code": "1" })), &newest("eval")).await;
    assert_eq!((&cell["result"]["content"][0]["text"], &cell["result"]["isError"]), (&json!("a"), &json!(false)));
    let (_, wrong) = ask("tools/call", call("eval", json!({ "session": "model", "coed": "1" })), &newest("=?base64?ZXZhbA==?=")).await;
    assert_eq!(
        (&wrong["result"]["isError"], &wrong["result"]["structuredContent"]["error"]["code"]),
        (&json!(true), &json!("InvalidRequest"))
    );
    let refused = [
        (ask("tools/call", call("no_such", json!({})), &newest("no_such")).await, 200, -32602),
        (ask("tools/call", call("eval", json!({})), &newest("eval")[..2]).await, 400, -32020),
        (ask("tools/call", call("eval", json!({})), &newest("=?base64?bm8=?=")).await, 400, -32020),
        (ask("server/discover", json!({}), &newest("")[..1]).await, 400, -32602),
        (ask("server/discover", json!({ "_meta": { "io.modelcontextprotocol/protocolVersion": "2026-07-28" } }), &[]).await, 400, -32602),
        (ask("ping", json!({ "_meta": meta }), &[("mcp-protocol-version", "2026-07-28"), ("mcp-method", "ping")]).await, 404, -32601),
        (ask("prompts/list", json!({}), &[]).await, 404, -32601),
        (ask("no/such", json!({}), &[]).await, 404, -32601),
        (ask("tools/list", json!({}), &[("mcp-protocol-version", "1999-01-01")]).await, 400, -32022),
        (ask("tools/list", json!({ "_meta": meta }), &[("mcp-protocol-version", "2025-11-25")]).await, 400, -32020),
        (ask("tools/list", json!({}), &[("mcp-method", "tools/call")]).await, 400, -32020),
        (ask("resources/read", json!({ "uri": "file:///etc/passwd" }), &[]).await, 200, -32602),
    ];
    for ((status, answer), expected, code) in refused {
        assert_eq!((status, answer["error"]["code"].as_i64()), (expected, Some(code)), "{answer}");
    }
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(client.request("POST", "/mcp").json(&note).send().await.unwrap().status(), 202);
    assert_eq!(client.request("GET", "/mcp").send().await.unwrap().status(), 405, "nothing is sent unasked");
}

#[tokio::test]
async fn a_kernel_is_a_session_and_its_channels_speak_jupyter() {
    let (_folder, client) = client().await;
    let (_, specs) = client.get("/api/kernelspecs").await;
    assert_eq!(specs["default"], "dormouse");
    assert_eq!(client.json("POST", "/api/kernels", json!({ "name": "python3" })).await.0, 400);
    let (status, kernel) =
        client.json("POST", "/api/kernels", json!({ "name": "dormouse", "env": { "KERNEL_DORMOUSE_SESSION": "book" } })).await;
    assert_eq!((status, &kernel["session"]), (201, &json!("book")), "{kernel}");
    let id = kernel["id"].as_str().unwrap();
    let mut socket = connect(&client, &format!("/api/kernels/{id}/channels"), None).await.unwrap();
    let mut heard = async |kind: &str, content: Value| {
        let header = json!({ "msg_id": kind, "msg_type": kind, "session": "s" });
        let message = json!({ "channel": "shell", "header": header, "content": content });
        let mut heard = vec![ask(&mut socket, message).await];
        while heard.last().unwrap()["content"]["execution_state"] != "idle" {
            heard.push(next(&mut socket).await);
        }
        assert!(heard.iter().all(|message| message["parent_header"]["msg_id"] == kind), "{heard:?}");
        heard.iter().map(|message| message["msg_type"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(heard("kernel_info_request", json!({})).await, ["status", "kernel_info_reply", "status"]);
    let told = ["status", "execute_input", "stream", "execute_result", "execute_reply", "status"];
    assert_eq!(heard("execute_request", json!({ "code": "1" })).await, told);
    assert_eq!(heard("stdin_request", json!({})).await, ["status", "stdin_reply", "status"]);
    assert!(connect(&client, "/api/kernels/nobody/channels", None).await.is_err());
    assert_eq!(client.json("POST", &format!("/api/kernels/{id}/restart"), json!({})).await.1["id"], id);
    assert_eq!(client.request("DELETE", &format!("/api/kernels/{id}")).send().await.unwrap().status(), 204);
    assert_eq!(client.get(&format!("{SESSIONS}/book")).await.0, 200, "it sleeps");
    assert_eq!(client.request("DELETE", &format!("/api/kernels/{id}?delete=true")).send().await.unwrap().status(), 204);
    assert_eq!(client.get(&format!("{SESSIONS}/book")).await.0, 404);
}

#[tokio::test]
async fn a_program_is_streamed_from_its_beginning_to_its_end() {
    let (_folder, client) = client().await;
    let started = client.request("POST", "/sessions").json(&json!({ "code": "return 1" })).send().await.unwrap();
    assert_eq!(started.headers()["content-type"], "application/x-ndjson");
    let text = started.text().await.unwrap();
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["session_init", "log", "final"], "{text}");
    assert_eq!(events[2]["payload"]["stats"]["toolCallCount"], 0);
    let id = events[0]["sessionId"].as_str().unwrap();
    assert_eq!(client.get(&format!("/sessions/{id}")).await.1["sessionId"], id);
    assert_eq!(client.get("/sessions/s_none").await.0, 404);
    let (status, refused) = client.json("POST", "/sessions", json!({ "code": "1", "config": { "maxExecutionMs": 600_001 } })).await;
    assert_eq!((status, &refused["error"]["details"]["path"]), (400, &json!("config.maxExecutionMs")));
    assert_eq!(client.request("DELETE", &format!("/sessions/{id}")).send().await.unwrap().status(), 204);
    assert_eq!(client.get(&format!("/sessions/{id}")).await.0, 404);
}
