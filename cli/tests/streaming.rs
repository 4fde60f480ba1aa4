//! The streaming protocol against a real `dormouse dev`: tools that the client makes, streams that are lost and taken up, ends.

use std::{collections::VecDeque, time::Duration};

use crate::support::{Dev, http};
use futures::StreamExt as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// A stream that is read line by line.
struct Lines {
    body: futures::stream::BoxStream<'static, reqwest::Result<bytes::Bytes>>,
    rest: Vec<u8>,
    lines: VecDeque<Value>,
}

impl Lines {
    async fn of(request: reqwest::RequestBuilder) -> Self {
        let answer = request.send().await.unwrap();
        let status = answer.status();
        assert_eq!(answer.headers()["content-type"], "application/x-ndjson", "{status}");
        Self { body: answer.bytes_stream().boxed(), rest: Vec::new(), lines: VecDeque::new() }
    }

    /// The next event; `None` at the end of the stream.
    async fn next(&mut self) -> Option<Value> {
        while self.lines.is_empty() {
            self.rest.extend_from_slice(&self.body.next().await?.ok()?);
            while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                self.lines.push_back(serde_json::from_slice(&self.rest[..end]).unwrap());
                self.rest.drain(..=end);
            }
        }
        self.lines.pop_front()
    }

    /// The next event of this type.
    async fn next_of(&mut self, kind: &str) -> Value {
        loop {
            let event = self.next().await.unwrap_or_else(|| panic!("the stream ends before `{kind}`"));
            if event["type"] == kind {
                return event;
            }
        }
    }

    /// All that is left.
    async fn rest(mut self) -> Vec<Value> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }
}

const ASKS: &str =
    "console.log('before'); const n = await callTool('ask', { question: 'how many?' }); console.warn('after'); return n * 2;";

fn asking() -> Value {
    json!({ "code": ASKS, "config": { "tools": [{ "name": "ask", "description": "Asks a person" }], "maxToolCalls": 3 } })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_makes_the_calls_of_its_tools_across_a_lost_stream_and_a_killed_gateway() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    let (http, server) = (http(), dev.server.clone());
    let mut stream = Lines::of(http.post(format!("{server}/sessions")).json(&asking())).await;
    let first = stream.next().await.unwrap();
    assert_eq!((&first["type"], &first["payload"]["encryption"]["enabled"]), (&json!("session_init"), &json!(false)), "{first}");
    assert!(first["payload"]["expiresAt"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap() > jiff::Timestamp::now());
    let id = first["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(first["payload"]["cancelUrl"], format!("/sessions/{id}/cancel"));
    let log = stream.next_of("log").await;
    assert_eq!(log["payload"], json!({ "level": "info", "text": "before", "message": "before" }));
    let call = stream.next_of("tool_call").await;
    assert_eq!((&call["payload"]["toolName"], &call["payload"]["args"]), (&json!("ask"), &json!({ "question": "how many?" })), "{call}");
    let call_id = call["payload"]["callId"].as_str().unwrap().to_owned();
    assert!(call_id.starts_with("c_"), "{call_id}");
    // Its own stream shows a call as it happens, and whoever takes a stream up sees it when it is stored.
    let stored = Lines::of(http.get(format!("{server}/sessions/{id}/stream?from=1"))).await.next_of("tool_call").await;
    assert_eq!(stored, call);
    // The client loses its stream, and what served it dies; nobody asks for the session meanwhile.
    drop(stream);
    dev.kill();

    let dev = Dev::start(data.path(), &[]);
    let server = dev.server.clone();
    let (log_seq, call_seq) = (log["seq"].as_u64().unwrap(), call["seq"].as_u64().unwrap());
    let mut again = Lines::of(http.get(format!("{server}/sessions/{id}/stream?from={}", log_seq + 1))).await;
    let replayed = again.next_of("tool_call").await;
    assert_eq!((replayed["seq"].as_u64().unwrap(), &replayed["payload"]), (call_seq, &call["payload"]), "the same call, under its number");
    let results = format!("{server}/sessions/{id}/tool-results");
    let said = async |body: Value| http.post(&results).json(&body).send().await.unwrap().status().as_u16();
    assert_eq!(said(json!({ "callId": "c_999", "ok": true, "result": 0 })).await, 409, "no such call waits");
    assert_eq!(said(json!({ "callId": "nonsense", "ok": true })).await, 400);
    assert_eq!(said(json!({ "callId": call_id, "ok": true, "result": 21 })).await, 204);
    assert_eq!(said(json!({ "callId": call_id, "ok": true, "result": 22 })).await, 409, "the first answer stands");
    let rest = again.rest().await;
    let kinds: Vec<_> =
        rest.iter().map(|event| event["type"].as_str().unwrap()).filter(|kind| !["state", "heartbeat"].contains(kind)).collect();
    assert_eq!(kinds, ["tool_result_applied", "log", "final"], "{rest:?}");
    let end = rest.last().unwrap();
    assert_eq!((&end["payload"]["ok"], &end["payload"]["result"]), (&json!(true), &json!(42)), "{end}");

    // All of it again, twice: no gap, nothing twice, and an end, where nothing runs any more.
    let all = Lines::of(http.get(format!("{server}/sessions/{id}/stream"))).await.rest().await;
    let seqs: Vec<_> = all.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert!(seqs[0] == 1 && seqs.windows(2).all(|pair| pair[1] == pair[0] + 1), "{seqs:?}");
    let none = Lines::of(http.get(format!("{server}/sessions/{id}/stream?after={}", end["seq"]))).await.rest().await;
    assert!(none.iter().all(|event| event["type"] == "state"), "{none:?}");
    let twice = http.get(format!("{server}/sessions/{id}/stream?after=1&from=2")).send().await.unwrap();
    assert_eq!(twice.status(), 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_cancelled_and_its_session_stays() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    let (http, server) = (http(), dev.server.clone());
    for (code, shows) in [(ASKS, "tool_call"), ("console.log('busy'); for (;;) {}", "log")] {
        let body = json!({ "code": code, "sessionId": format!("s_of-{}", shows.replace('_', "-")), "config": asking()["config"] });
        let start = || http.post(format!("{server}/sessions")).json(&body);
        let mut stream = Lines::of(start()).await;
        stream.next_of(shows).await;
        let id = body["sessionId"].as_str().unwrap();
        assert_eq!(start().send().await.unwrap().status(), 409, "a session of this id is there: nothing runs twice");
        let cancelled = http.post(format!("{server}/sessions/{id}/cancel")).body("{\"reason\":\"enough\"}").send().await.unwrap();
        assert_eq!(cancelled.status(), 204);
        let end = stream.next_of("final").await;
        assert_eq!((&end["payload"]["ok"], &end["payload"]["error"]["code"]), (&json!(false), &json!("Interrupted")), "{end}");
        assert!(stream.next().await.is_none());
        let shown: Value = http.get(format!("{server}/sessions/{id}")).send().await.unwrap().json().await.unwrap();
        assert_eq!((&shown["name"], &shown["state"]), (&json!(id.replace('_', "-")), &json!("Idle")), "{shown}");
        assert_eq!(http.delete(format!("{server}/sessions/{id}")).send().await.unwrap().status(), 204);
        assert_eq!(http.post(format!("{server}/sessions/{id}/cancel")).send().await.unwrap().status(), 404);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_has_the_limits_and_the_end_that_its_client_wants() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    let (http, server) = (http(), dev.server.clone());
    let run = async |code: &str, config: Value| {
        let events = Lines::of(http.post(format!("{server}/sessions")).json(&json!({ "code": code, "config": config }))).await.rest().await;
        (events[0].clone(), events.last().unwrap()["payload"].clone())
    };
    let (_, ended) = run("for (;;) {}", json!({ "maxExecutionMs": 50 })).await;
    assert_eq!(ended["error"]["code"], "TimeoutError", "{ended}");
    let tools = json!([{ "name": "ask" }]);
    let (_, ended) = run("await callTool('ask', {})", json!({ "maxToolCalls": 0, "tools": tools })).await;
    assert_eq!(ended["ok"], false, "{ended}");
    let (_, ended) = run("console.log('x'.repeat(5000))", json!({ "maxStdoutBytes": 1000 })).await;
    assert_eq!(ended["error"]["code"], "OutputLimitError", "{ended}");

    let (init, ended) = run("return 1", json!({ "ttl": { "activeSeconds": 1, "retainedSeconds": 1 } })).await;
    assert_eq!(ended["result"], 1);
    let id = init["sessionId"].as_str().unwrap();
    let gone = async {
        while http.get(format!("{server}/sessions/{id}")).send().await.unwrap().status() != 404 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), gone).await.expect("it expires, and is deleted");
    for (config, path) in [
        (json!({ "maxExecutionMs": 0 }), "config.maxExecutionMs"),
        (json!({ "maxExecutionMs": 600_001 }), "config.maxExecutionMs"),
        (json!({ "tools": 7 }), "config.tools"),
        (json!({ "tools": [{ "nome": "ask" }] }), "config.clientTools[0].nome"),
    ] {
        let refused = http.post(format!("{server}/sessions")).json(&json!({ "code": "1", "config": config })).send().await.unwrap();
        assert_eq!(refused.status(), 400);
        assert_eq!(refused.json::<Value>().await.unwrap()["error"]["details"]["path"], path);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_takes_a_stream_up_is_told_of_a_result_that_is_too_large_to_come_again() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    let (http, server) = (http(), dev.server.clone());
    let large = "x".repeat(20 << 10);
    // The end of a program: whose stream is read to it, and whose is lost and taken up again.
    let ends = async |code: &str| {
        let start = || http.post(format!("{server}/sessions")).json(&json!({ "code": code }));
        let whole = Lines::of(start()).await.rest().await.pop().unwrap();
        let mut lost = Lines::of(start()).await;
        let id = lost.next().await.unwrap()["sessionId"].as_str().unwrap().to_owned();
        drop(lost);
        let again = Lines::of(http.get(format!("{server}/sessions/{id}/stream?from=1"))).await.rest().await.pop().unwrap();
        [whole, again].map(|end| {
            assert_eq!((&end["type"], &end["payload"]["ok"]), (&json!("final"), &json!(true)), "{end}");
            end["payload"].clone()
        })
    };
    let [whole, again] = ends("return 'x'.repeat(20 << 10)").await;
    assert_eq!((&whole["result"], whole.get("dropped")), (&json!(large), None));
    let sum: String = Sha256::digest(json!(large).to_string()).iter().map(|byte| format!("{byte:02x}")).collect();
    let dropped = json!({ "bytes": large.len() + 2, "sha256": sum });
    assert_eq!((again.get("result"), &again["dropped"]), (None, &dropped), "{again}");
    for end in ends("return null").await {
        assert_eq!((end.get("result"), end.get("dropped")), (Some(&Value::Null), None), "{end}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_cannot_be_made_are_refused_before_there_is_a_session() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    let (http, server) = (http(), dev.server.clone());
    let hello = json!({
        "protocolVersion": 1, "clientEphemeralPubKeyB64": "bm8gcG9pbnQ=", "curve": "P-256", "supportedAlgorithms": ["AES-GCM-256"],
    });
    let body = json!({ "code": "1", "sessionId": "s_mine", "encryption": { "mode": "required", "clientHello": hello } });
    let refused = http.post(format!("{server}/sessions")).json(&body).send().await.unwrap();
    assert_eq!(refused.status(), 400);
    assert_eq!(refused.json::<Value>().await.unwrap()["error"]["details"]["path"], "clientHello");
    assert_eq!(http.get(format!("{server}/sessions/s_mine")).send().await.unwrap().status(), 404);
}
