//! The access log and the audit trail. A process of its own: which lines are wanted is remembered for all threads of one.

use std::{sync::Arc, time::Duration};

use crate::support::{Client, Trust, directory, serve, serve_routes};
use dormouse_gateway::{
    Gateway,
    auth::{keys::file::KeyFile, loopback::Loopback},
};
use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio_tungstenite::{
    connect_async,
    tungstenite::{Message, client::IntoClientRequest as _},
};

const SESSIONS: &str = "/v1/namespaces/default/sessions";

/// Keeps the lines of one target of its thread.
#[derive(Clone)]
struct Kept {
    target: &'static str,
    lines: Arc<std::sync::Mutex<Vec<String>>>,
}

impl Kept {
    fn of(target: &'static str) -> Self {
        Self { target, lines: Arc::default() }
    }

    /// The lines since the last time.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.lines.lock().unwrap())
    }
}

/// One line.
#[derive(Default)]
struct Line(Vec<String>);

impl tracing::field::Visit for Line {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        self.0.push(format!("{field}={value:?}"));
    }
}

impl tracing::Subscriber for Kept {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == self.target
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        assert!(self.target != dormouse_gateway::access::TARGET || event.is_root(), "all that the request's span says is in the line");
        let mut line = Line::default();
        event.record(&mut line);
        self.lines.lock().unwrap().push(line.0.join(" "));
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test]
async fn every_request_has_a_line_in_the_access_log_and_no_body_has() {
    let kept = Kept::of(dormouse_gateway::access::TARGET);
    let _guard = tracing::subscriber::set_default(kept.clone());
    let trust = Trust::new();
    let (_folder, directory) = directory(&trust, &[]).await;
    let client = serve(&trust, directory).await;
    let path = format!("{SESSIONS}/a");
    client.json("POST", SESSIONS, json!({"name": "a", "labels": {"secret": "in-the-body"}})).await;
    client.request("DELETE", &format!("{path}?x=in-the-query")).header("x-request-id", "r-1").send().await.unwrap();
    let lines = kept.take().join(" ");
    for part in ["user=\"local\"", "method=POST", "status=201", "method=DELETE", &format!("object=\"{path}\""), "request_id=\"r-1\"", "ms="]
    {
        assert!(lines.contains(part), "{part}: {lines}");
    }
    assert!(!lines.contains("in-the-body") && !lines.contains("in-the-query"), "{lines}");
}

/// A gateway with a pod and the session `a`, and what one of its logs has.
struct Audited {
    _folder: tempfile::TempDir,
    client: Client,
    kept: Kept,
    _guard: tracing::subscriber::DefaultGuard,
}

impl Audited {
    async fn new() -> Self {
        let audited = Self::keeping(dormouse_gateway::audit::TARGET).await;
        assert_eq!(audited.kept.take(), [""; 0], "to make a session is in the access log");
        audited
    }

    async fn keeping(target: &'static str) -> Self {
        let kept = Kept::of(target);
        let guard = tracing::subscriber::set_default(kept.clone());
        let trust = Trust::new();
        let pod = trust.pod("one", 10).await;
        let (folder, directory) = directory(&trust, &[&pod]).await;
        let keys = Arc::new(KeyFile::open(&folder.path().join("keys.json")).unwrap());
        let gateway = Gateway::new(directory, trust.kernels(), Arc::new(Loopback::default())).with_keys(keys);
        let client = serve_routes(gateway).await;
        assert_eq!(client.json("POST", SESSIONS, json!({ "name": "a" })).await.0, 201);
        Self { _folder: folder, client, kept, _guard: guard }
    }

    /// The lines since the last time are these: verb, object, part and result, all under this request's id.
    fn has(&self, request_id: &str, expected: &[(&str, &str, &str, &str)]) {
        let line = |(verb, object, part, result): &(&str, &str, &str, &str)| {
            format!(
                "message=audit user=\"local\" verb=\"{verb}\" object=\"{object}\" part=\"{part}\" result=\"{result}\" \
                 request_id=\"{request_id}\""
            )
        };
        let lines = self.kept.take();
        assert_eq!(lines, expected.iter().map(line).collect::<Vec<_>>());
    }

    /// The lines of messages since the last time are these: verb, object, part and result, all under this request's id.
    fn has_messages(&self, request_id: &str, expected: &[(&str, &str, &str, &str)]) {
        let line = |(verb, object, part, result): &(&str, &str, &str, &str)| {
            let said = format!("user=\"local\" verb=\"{verb}\" object=\"{object}\" part=\"{part}\" result=\"{result}\"");
            format!("message=message {said} request_id=\"{request_id}\"")
        };
        let timeless = |line: &String| {
            let (said, rest) = line.split_once(" ms=").unwrap();
            format!("{said} {}", rest.split_once(' ').unwrap().1)
        };
        let lines = self.kept.take();
        let lines: Vec<_> = lines.iter().filter(|line| line.starts_with("message=message ")).map(timeless).collect();
        assert_eq!(lines, expected.iter().map(line).collect::<Vec<_>>());
    }

    async fn ask(&self, request_id: &str, method: &str, path: &str, body: Option<Value>) -> u16 {
        let request = self.client.request(method, path).header("x-request-id", request_id);
        let request = body.iter().fold(request, |request, body| request.json(body));
        request.send().await.unwrap().status().as_u16()
    }
}

#[tokio::test]
async fn what_rest_reads_copies_takes_back_and_deletes_is_audited() {
    let audited = Audited::new().await;
    let at = |path: &str| format!("{SESSIONS}/a{path}");
    for (method, path, body, status, line) in [
        ("GET", at("/journal"), None, 200, Some(("read", "default/a", "journal", "ok"))),
        ("GET", at("/checkpoints/diff?from=7"), None, 200, Some(("read", "default/a", "checkpoints/diff", "ok"))),
        ("POST", at("/restore"), Some(json!({ "checkpoint": "7" })), 200, Some(("restore", "default/a", "7", "ok"))),
        ("POST", at("/reset"), Some(json!({})), 200, Some(("reset", "default/a", "", "ok"))),
        ("POST", at("/fork"), Some(json!({ "name": "b" })), 201, Some(("fork", "default/a", "b", "ok"))),
        ("POST", at("/fork"), Some(json!({ "name": "b" })), 409, Some(("fork", "default/a", "b", "Conflict"))),
        ("POST", at("/hibernate"), None, 200, Some(("hibernate", "default/a", "", "ok"))),
        ("DELETE", at("/files/dir/x.txt"), None, 204, Some(("delete", "default/a", "files/dir/x.txt", "ok"))),
        ("DELETE", at(""), None, 202, Some(("delete", "default/a", "", "ok"))),
        ("DELETE", at(""), None, 404, Some(("delete", "default/a", "", "SessionNotFound"))),
        ("GET", format!("{SESSIONS}/nobody/approvals"), None, 404, Some(("read", "default/nobody", "approvals", "SessionNotFound"))),
        ("GET", "/v1/namespaces/default/approvals".to_owned(), None, 200, Some(("read", "default", "approvals", "ok"))),
        // What no cell wrote, and what a cell does, is in the access log.
        ("GET", format!("{SESSIONS}/b"), None, 200, None),
        ("POST", format!("{SESSIONS}/b/eval"), Some(json!({ "code": "'in-the-body'" })), 200, None),
    ] {
        assert_eq!(audited.ask("r-1", method, &path, body).await, status, "{method} {path}");
        audited.has("r-1", line.as_slice());
    }
    // A session that begins as another is a fork of it.
    let body = json!({ "name": "c", "spec": { "source": { "session": "b" } } });
    assert_eq!(audited.ask("r-2", "POST", SESSIONS, Some(body)).await, 201);
    audited.has("r-2", &[("fork", "default/b", "c", "ok")]);
    let keys = "/v1/namespaces/default/keys";
    assert_eq!(audited.ask("r-3", "POST", keys, Some(json!({ "name": "k", "verbs": ["eval"] }))).await, 201);
    audited.has("r-3", &[("create-key", "default", "keys/k", "ok")]);
    assert_eq!(audited.ask("r-4", "DELETE", &format!("{keys}/k"), None).await, 204);
    audited.has("r-4", &[("revoke-key", "default", "keys/k", "ok")]);
    let decision = json!({ "decision": "approve", "reason": "in-the-body" });
    let status = audited.ask("r-5", "POST", &format!("{SESSIONS}/nobody/approvals/a_1"), Some(decision)).await;
    assert_eq!(status, 404);
    audited.has("r-5", &[("decide", "default/nobody", "a_1", "SessionNotFound")]);
}

#[tokio::test]
async fn what_comes_through_mcp_is_audited() {
    let audited = Audited::new().await;
    let call = async |method: &str, params: Value| {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        assert_eq!(audited.ask("m-1", "POST", "/mcp", Some(body)).await, 200);
    };
    let tool = async |name: &str, arguments: Value| call("tools/call", json!({ "name": name, "arguments": arguments })).await;
    tool("session_get", json!({ "session": "a" })).await;
    tool("eval", json!({ "session": "a", "code": "'in-the-body'" })).await;
    audited.has("m-1", &[]);
    tool("session_fork", json!({ "session": "a", "name": "b" })).await;
    audited.has("m-1", &[("fork", "default/a", "b", "ok")]);
    tool("session_create", json!({ "name": "c", "spec": { "source": { "session": "b" } } })).await;
    audited.has("m-1", &[("fork", "default/b", "c", "ok")]);
    tool("session_restore", json!({ "session": "a", "checkpoint": "7" })).await;
    audited.has("m-1", &[("restore", "default/a", "7", "ok")]);
    // Reads that fail are reads.
    for (name, arguments, part) in [
        ("file_read", json!({ "session": "missing", "path": "/x.txt" }), "files/x.txt"),
        ("file_list", json!({ "session": "missing" }), "files/"),
        ("run_get", json!({ "session": "missing", "run": "r_1" }), "runs/r_1"),
    ] {
        tool(name, arguments).await;
        audited.has("m-1", &[("read", "default/missing", part, "SessionNotFound")]);
    }
    call("resources/read", json!({ "uri": "dormouse://default/missing/x.txt" })).await;
    audited.has("m-1", &[("read", "default/missing", "files/x.txt", "SessionNotFound")]);
    tool("session_delete", json!({ "session": "b" })).await;
    audited.has("m-1", &[("delete", "default/b", "", "ok")]);
}

#[tokio::test]
async fn what_comes_through_a_socket_is_audited() {
    let audited = Audited::new().await;
    let base = audited.client.base.replace("http://", "ws://");
    for path in ["/ws?id=a".to_owned(), format!("{SESSIONS}/a/ws")] {
        let mut request = format!("{base}{path}").into_client_request().unwrap();
        request.headers_mut().insert("x-request-id", "w-1".parse().unwrap());
        let mut socket = connect_async(request).await.unwrap().0;
        for frame in ["gen", "reset", "evict"] {
            socket.send(Message::Text(json!({ "t": frame }).to_string().into())).await.unwrap();
            let answer = tokio::time::timeout(Duration::from_secs(30), socket.next()).await.expect("it answers").unwrap().unwrap();
            let answer: Value = serde_json::from_str(answer.to_text().unwrap()).unwrap();
            assert_eq!(answer["ok"], true, "{answer}");
        }
        audited.has("w-1", &[("reset", "default/a", "", "ok"), ("hibernate", "default/a", "", "ok")]);
    }
}

#[tokio::test]
async fn a_message_of_mcp_names_its_session_in_the_access_log() {
    let logged = Audited::keeping(dormouse_gateway::access::TARGET).await;
    let call = async |method: &str, params: Value| {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        assert_eq!(logged.ask("m-1", "POST", "/mcp", Some(body)).await, 200);
    };
    for (name, arguments, object, result) in [
        ("session_create", json!({ "name": "b" }), "default/b", "ok"),
        ("eval", json!({ "session": "a", "code": "'in-the-body'" }), "default/a", "ok"),
        ("eval", json!({ "session": "missing", "code": "'in-the-body'" }), "default/missing", "SessionNotFound"),
        ("eval", json!({ "session": "../a", "code": "'in-the-body'" }), "default", "InvalidRequest"),
        ("session_list", json!({}), "default", "ok"),
    ] {
        call("tools/call", json!({ "name": name, "arguments": arguments })).await;
        logged.has_messages("m-1", &[("tools/call", object, name, result)]);
    }
    call("resources/read", json!({ "uri": "dormouse://default/missing/x.txt" })).await;
    logged.has_messages("m-1", &[("resources/read", "default/missing", "x.txt", "SessionNotFound")]);
    call("tools/list", json!({})).await;
    logged.has_messages("m-1", &[]);
}

#[tokio::test]
async fn a_frame_of_a_socket_names_its_session_in_the_access_log() {
    let logged = Audited::keeping(dormouse_gateway::access::TARGET).await;
    let base = logged.client.base.replace("http://", "ws://");
    for (session, result) in [("a", "ok"), ("missing", "SessionNotFound")] {
        let mut request = format!("{base}/ws?id={session}").into_client_request().unwrap();
        request.headers_mut().insert("x-request-id", "w-1".parse().unwrap());
        let mut socket = connect_async(request).await.unwrap().0;
        for frame in [json!({ "t": "eval", "code": "'in-the-body'" }), json!({ "t": "gen" }), json!({ "t": "ping" }), json!({ "t": "no" })]
        {
            socket.send(Message::Text(frame.to_string().into())).await.unwrap();
            let answer = tokio::time::timeout(Duration::from_secs(30), socket.next()).await.expect("it answers").unwrap().unwrap();
            assert!(answer.to_text().unwrap().contains(&format!("{}-result", frame["t"].as_str().unwrap())), "{answer}");
        }
        let object = format!("default/{session}");
        logged.has_messages("w-1", &[("eval", &object, "", result), ("gen", &object, "", result)]);
    }
}

#[tokio::test]
async fn what_comes_through_jupyter_and_the_streaming_protocol_is_audited() {
    let audited = Audited::new().await;
    for (method, path, status, line) in [
        ("GET", "/api/kernels/a", 200, None),
        ("POST", "/api/kernels/a/restart", 200, Some(("reset", "default/a", "", "ok"))),
        ("DELETE", "/api/kernels/a", 204, Some(("hibernate", "default/a", "", "ok"))),
        ("DELETE", "/api/kernels/a?delete=true", 204, Some(("delete", "default/a", "", "ok"))),
        ("DELETE", "/sessions/a", 404, Some(("delete", "default/a", "", "SessionNotFound"))),
    ] {
        assert_eq!(audited.ask("j-1", method, path, None).await, status, "{method} {path}");
        audited.has("j-1", line.as_slice());
    }
    assert_eq!(audited.client.json("POST", SESSIONS, json!({ "name": "b" })).await.0, 201);
    assert_eq!(audited.ask("j-2", "DELETE", "/sessions/b", None).await, 204);
    audited.has("j-2", &[("delete", "default/b", "", "ok")]);
}
