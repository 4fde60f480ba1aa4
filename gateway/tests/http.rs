//! The HTTP surface: what is refused, and how.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::support::{Client, Trust, directory, serve, serve_local, serve_routes, serve_with};
use async_trait::async_trait;
use dormouse_crds::quota::KernelQuotaSpec;
use dormouse_gateway::{
    Directory as _, Gateway,
    auth::{Access, AuthError, Authenticator, Caller, Verb, loopback::Loopback},
};
use dormouse_service::memory::Memory;
use futures::{SinkExt as _, StreamExt as _};
use serde_json::json;
use tokio_tungstenite::{connect_async, tungstenite::Message};

const SESSIONS: &str = "/v1/namespaces/default/sessions";

async fn client() -> (tempfile::TempDir, Client) {
    let trust = Trust::new();
    let (folder, directory) = directory(&trust, &[]).await;
    (folder, serve(&trust, directory).await)
}

static USED: AtomicU64 = AtomicU64::new(0);

#[tokio::test]
async fn a_gateway_whose_memory_is_in_use_says_so_and_goes_on_when_it_is_not() {
    let trust = Trust::new();
    let (_folder, directory) = directory(&trust, &[]).await;
    let memory = Memory::with_reading(100 << 20, || Some(USED.load(Ordering::SeqCst)));
    let gateway = Gateway::new(directory, trust.kernels(), Arc::new(Loopback::default())).within(memory.clone());
    let metrics = gateway.metrics().clone();
    let client = serve_routes(gateway).await;
    assert_eq!(client.get(SESSIONS).await.0, 200);
    USED.store(90 << 20, Ordering::SeqCst);
    memory.look_again();
    let answer = client.request("POST", SESSIONS).header("x-request-id", "r-1").json(&json!({"name": "a"})).send().await.unwrap();
    let said = |name: &str| answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    let (media_type, request_id) = (said("content-type"), said("x-request-id"));
    assert_eq!((media_type.as_deref(), request_id.as_deref()), (Some("application/problem+json"), Some("r-1")));
    assert_eq!((answer.status().as_u16(), said("retry-after").as_deref()), (503, Some("5")));
    let body: serde_json::Value = answer.json().await.unwrap();
    let error = &body["error"];
    assert_eq!((&error["code"], &error["requestId"]), (&json!("CapacityExhausted"), &json!("r-1")), "{body}");
    let counted = metrics.render().unwrap();
    let line = r#"gateway_requests_total{class="5xx",route="/v1/namespaces/{namespace}/sessions"} 1"#;
    assert!(counted.contains(line), "{counted}");
    USED.store(0, Ordering::SeqCst);
    memory.look_again();
    assert_eq!(client.get(SESSIONS).await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_sessions_made_at_once_a_quota_lets_through_exactly_as_many_as_it_has() {
    let trust = Trust::new();
    let (_folder, directory) = directory(&trust, &[]).await;
    directory.set_limits(KernelQuotaSpec { sessions: Some(7), ..KernelQuotaSpec::default() });
    let client = serve(&trust, directory).await;
    let make = |n: usize| {
        let body = if n.is_multiple_of(2) { json!({"name": format!("s{n}")}) } else { json!({}) };
        let client = &client;
        async move { client.json("POST", SESSIONS, body).await }
    };
    let answers = futures::future::join_all((0..40).map(make)).await;
    assert_eq!(answers.iter().filter(|(status, _)| *status == 201).count(), 7, "{answers:?}");
    for (_, body) in answers.iter().filter(|(status, _)| *status != 201) {
        let error = &body["error"];
        assert_eq!(
            (&error["code"], &error["details"]["resource"], &error["details"]["limit"]),
            (&json!("QuotaExceeded"), &json!("sessions"), &json!(7))
        );
    }
    // One that exists is answered although no other would be made, and one that goes makes room for one.
    let name = answers.iter().find(|(status, _)| *status == 201).and_then(|(_, body)| body["name"].as_str()).unwrap().to_owned();
    assert_eq!(client.json("POST", SESSIONS, json!({"name": name})).await.0, 200);
    assert!(client.request("DELETE", &format!("{SESSIONS}/{name}")).send().await.unwrap().status().is_success());
    let again = futures::future::join_all((100..110).map(make)).await;
    assert_eq!(again.iter().filter(|(status, _)| *status == 201).count(), 1, "{again:?}");
}

#[tokio::test]
async fn unknown_fields_are_refused_with_their_path() {
    let (_folder, client) = client().await;
    let (status, body) = client.json("POST", SESSIONS, json!({"name": "a", "spec": {"limits": {"heapBites": 1}}})).await;
    assert_eq!((status, body["error"]["code"].as_str()), (400, Some("InvalidRequest")), "{body}");
    assert_eq!(body["error"]["details"]["path"], "spec.limits.heapBites");
    let (status, body) = client.get(&format!("{SESSIONS}?limits=3")).await;
    assert_eq!((status, body["error"]["code"].as_str()), (400, Some("InvalidRequest")), "{body}");
}

#[tokio::test]
async fn a_body_that_does_not_say_that_it_is_json_is_refused() {
    let (_folder, client) = client().await;
    for said in [None, Some("text/plain"), Some("application/x-www-form-urlencoded"), Some("text/json")] {
        let request = client.request("POST", SESSIONS).body(r#"{"name":"a"}"#);
        let request = if let Some(said) = said { request.header("content-type", said) } else { request };
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 400, "{said:?}");
        assert!(response.text().await.unwrap().contains("Content-Type: application/json"), "{said:?}");
    }
    let right = client.request("POST", SESSIONS).body(r#"{"name":"a"}"#).header("content-type", "application/json; charset=utf-8");
    assert_eq!(right.send().await.unwrap().status(), 201);
    let response = client.request("POST", &format!("{SESSIONS}/a/interrupt")).send().await.unwrap();
    assert!(response.status().is_success(), "no body is no wrong body: {response:?}");
}

#[tokio::test]
async fn a_local_gateway_is_no_web_pages() {
    let trust = Trust::new();
    let (_folder, directory) = directory(&trust, &[]).await;
    let client = serve_local(&trust, directory).await;
    let asked = |headers: &[(&'static str, &'static str)]| {
        let request = client.request("GET", SESSIONS);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        async move { request.send().await.unwrap() }
    };
    assert_eq!(asked(&[]).await.status(), 200);
    for headers in [[("host", "evil.example")], [("origin", "http://evil.example")], [("sec-fetch-site", "cross-site")]] {
        let refused = asked(&headers).await;
        assert_eq!(refused.status(), 403, "{headers:?}");
        let body: serde_json::Value = refused.json().await.unwrap();
        assert_eq!(body["error"]["code"], "Forbidden", "{body}");
    }
}

#[tokio::test]
async fn every_error_carries_the_id_of_its_request() {
    let (_folder, client) = client().await;
    for path in ["/v1/namespaces/default/sessions/missing", "/no/such/path", "/v1/namespaces/default/sessions?limit=x"] {
        let response = client.request("GET", path).header("x-request-id", "mine-1").send().await.unwrap();
        assert!(response.status().is_client_error(), "{path}");
        assert_eq!(response.headers()["x-request-id"], "mine-1");
        assert_eq!(response.headers()["content-type"], "application/problem+json");
        let body: serde_json::Value = response.json().await.unwrap();
        assert_eq!(body["error"]["requestId"], "mine-1", "{path}: {body}");
    }
    let response = client.request("GET", SESSIONS).header("x-request-id", "has space").send().await.unwrap();
    assert_ne!(response.headers()["x-request-id"], "has space");
}

#[tokio::test]
async fn a_name_is_made_once_unless_its_maker_allows_more() {
    let (_folder, client) = client().await;
    let (first, body) = client.json("POST", SESSIONS, json!({"name": "a", "labels": {"app": "x"}})).await;
    assert_eq!((first, body["state"].as_str()), (201, Some("Waking")), "{body}");
    assert_eq!(body["id"].as_str().unwrap().len(), 34);
    let (again, same) = client.json("POST", SESSIONS, json!({"name": "a"})).await;
    assert_eq!((again, &same["id"]), (200, &body["id"]));
    let response = client.request("POST", SESSIONS).header("if-none-match", "*").json(&json!({"name": "a"})).send().await.unwrap();
    assert_eq!(response.status(), 409);
    let (generated, body) = client.json("POST", SESSIONS, json!({})).await;
    assert_eq!(generated, 201, "{body}");
    let (bad, body) = client.json("POST", SESSIONS, json!({"name": "../b"})).await;
    assert_eq!((bad, body["error"]["details"]["path"].as_str()), (400, Some("name")), "{body}");
}

#[tokio::test]
async fn a_list_comes_in_pages_and_by_labels() {
    let (_folder, client) = client().await;
    for (name, app) in [("a", "x"), ("b", "y"), ("c", "x")] {
        client.json("POST", SESSIONS, json!({"name": name, "labels": {"app": app}})).await;
    }
    let names = |body: &serde_json::Value| {
        body["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let (_, page) = client.get(&format!("{SESSIONS}?limit=2")).await;
    assert_eq!(names(&page), ["a", "b"]);
    let (_, rest) = client.get(&format!("{SESSIONS}?limit=2&continue={}", page["continue"].as_str().unwrap())).await;
    assert_eq!((names(&rest), rest.get("continue")), (vec!["c".to_owned()], None));
    let (_, labelled) = client.get(&format!("{SESSIONS}?labelSelector=app%3Dx")).await;
    assert_eq!(names(&labelled), ["a", "c"]);
    let (_, elsewhere) = client.get("/v1/namespaces/other/sessions").await;
    assert!(names(&elsewhere).is_empty());
}

#[tokio::test]
async fn a_patch_that_does_not_fit_changes_nothing() {
    let (_folder, client) = client().await;
    client.json("POST", SESSIONS, json!({"name": "a"})).await;
    let path = format!("{SESSIONS}/a");
    let (status, body) = client.json("PATCH", &path, json!({"spec": {"idleSecond": 5}})).await;
    assert_eq!((status, body["error"]["details"]["path"].as_str()), (400, Some("spec.idleSecond")), "{body}");
    let (status, body) = client.json("PATCH", &path, json!({"spec": {"idleSeconds": 5}, "labels": {"k": "v"}})).await;
    assert_eq!((status, body["spec"]["idleSeconds"].as_u64(), body["labels"]["k"].as_str()), (200, Some(5), Some("v")), "{body}");
    let (_, body) = client.json("PATCH", &path, json!({"labels": {"k": null}})).await;
    assert_eq!((body.get("labels"), body["spec"]["idleSeconds"].as_u64()), (None, Some(5)));
}

#[tokio::test]
async fn a_deleted_session_is_gone() {
    let (_folder, client) = client().await;
    client.json("POST", SESSIONS, json!({"name": "a"})).await;
    let (status, _) = client.json("DELETE", &format!("{SESSIONS}/a"), json!({})).await;
    assert_eq!(status, 202);
    let (status, body) = client.get(&format!("{SESSIONS}/a")).await;
    assert_eq!((status, body["error"]["code"].as_str()), (404, Some("SessionNotFound")), "{body}");
    let (status, body) = client.json("POST", &format!("{SESSIONS}/a/eval"), json!({"code": "1"})).await;
    assert_eq!((status, body["error"]["code"].as_str()), (404, Some("SessionNotFound")), "{body}");
}

/// Knows one token, which may do nothing.
struct Strict;

#[async_trait]
impl Authenticator for Strict {
    async fn authenticate(&self, bearer: Option<&str>) -> Result<Caller, AuthError> {
        if bearer == Some("good") { Ok(Caller { user: "u".to_owned(), ..Caller::default() }) } else { Err(AuthError::Unauthenticated) }
    }

    async fn authorize(&self, caller: &Caller, access: &Access) -> Result<(), AuthError> {
        let (user, namespace) = (caller.user.clone(), access.namespace.clone());
        Err(AuthError::Forbidden { user, verb: access.verb.as_str(), resource: "kernelsessions", namespace })
    }
}

#[tokio::test]
async fn a_refusal_tells_nothing_about_what_exists() {
    let trust = Trust::new();
    let (_folder, directory) = directory(&trust, &[]).await;
    let open = serve(&trust, directory.clone()).await;
    open.json("POST", SESSIONS, json!({"name": "there"})).await;
    let strict = serve_with(&trust, directory, Arc::new(Strict)).await;
    for token in [None, Some("bad"), Some("good")] {
        let mut answers = Vec::new();
        for name in ["there", "missing"] {
            let get = ["", "/events", "/checkpoints", "/journal"].map(|path| ("GET", path));
            for (method, path) in get.into_iter().chain([("DELETE", ""), ("POST", "/eval")]) {
                let request =
                    strict.request(method, &format!("{SESSIONS}/{name}{path}")).header("x-request-id", "r").json(&json!({"code": "1"}));
                let request = if let Some(token) = token { request.bearer_auth(token) } else { request };
                let response = request.send().await.unwrap();
                let status = response.status().as_u16();
                assert_eq!(status, if token == Some("good") { 403 } else { 401 }, "{method} {path}");
                answers.push((method, path, status, response.text().await.unwrap()));
            }
        }
        let (there, missing) = answers.split_at(answers.len() / 2);
        assert_eq!(there, missing);
    }
}

/// May do everything but have a session call a ToolBroker other than `mine`.
struct WithoutUse;

#[async_trait]
impl Authenticator for WithoutUse {
    async fn authenticate(&self, _: Option<&str>) -> Result<Caller, AuthError> {
        Ok(Caller { user: "u".to_owned(), ..Caller::default() })
    }

    async fn authorize(&self, caller: &Caller, access: &Access) -> Result<(), AuthError> {
        if access.verb != Verb::Use || access.name.as_deref() == Some("mine") {
            return Ok(());
        }
        let (user, namespace) = (caller.user.clone(), access.namespace.clone());
        Err(AuthError::Forbidden { user, verb: access.verb.as_str(), resource: access.part.resource(), namespace })
    }
}

/// The code with which a frame of a WebSocket is refused, if it is.
async fn refused_frame(client: &Client, path: &str, frame: serde_json::Value) -> Option<String> {
    let (mut socket, _) = connect_async(format!("ws://{}{path}", client.base.trim_start_matches("http://"))).await.unwrap();
    socket.send(Message::Text(frame.to_string().into())).await.unwrap();
    let answer = tokio::time::timeout(Duration::from_secs(30), socket.next()).await.expect("it answers").unwrap().unwrap();
    let answer: serde_json::Value = serde_json::from_str(answer.to_text().unwrap()).unwrap();
    answer["error"]["code"].as_str().map(str::to_owned)
}

#[tokio::test]
async fn whoever_may_not_use_a_tool_broker_gets_no_session_with_it_through_any_door() {
    let trust = Trust::new();
    let (_folder, directory) = directory(&trust, &[]).await;
    let open = serve(&trust, directory.clone()).await;
    let with = |broker: &str| json!({"toolBrokerRef": {"name": broker}});
    for (name, spec) in [("theirs", with("theirs")), ("plain", json!({}))] {
        assert_eq!(open.json("POST", SESSIONS, json!({"name": name, "spec": spec})).await.0, 201);
    }
    let strict = serve_with(&trust, directory.clone(), Arc::new(WithoutUse)).await;
    let of = |name: &str| format!("{SESSIONS}/{name}");
    let deliveries = "/v1/namespaces/default/webhooks/deliveries";
    for (method, path, body) in [
        ("POST", SESSIONS.to_owned(), json!({"name": "made", "spec": with("theirs")})),
        ("POST", SESSIONS.to_owned(), json!({"spec": with("theirs")})),
        (
            "POST",
            SESSIONS.to_owned(),
            json!({"name": "made", "spec": {"source": {"session": "plain"}, "toolBrokerRef": {"name": "theirs"}}}),
        ),
        ("PATCH", of("plain"), json!({"spec": with("theirs")})),
        ("POST", format!("{}/fork", of("theirs")), json!({"name": "made"})),
        ("POST", "/sessions".to_owned(), json!({"code": "1", "config": {"tools": "theirs"}})),
        ("POST", "/sessions".to_owned(), json!({"code": "1", "config": {"tools": {"broker": "theirs", "client": [{"name": "ask"}]}}})),
        ("POST", "/sessions".to_owned(), json!({"code": "1", "config": {"toolBroker": "theirs"}})),
        ("GET", format!("{deliveries}?broker=theirs"), json!({})),
        ("POST", format!("{deliveries}/d/redeliver?broker=theirs"), json!({})),
    ] {
        let (status, answer) = strict.json(method, &path, body.clone()).await;
        let said = answer["error"]["message"].as_str().unwrap_or_default();
        assert_eq!((status, answer["error"]["code"].as_str()), (403, Some("Forbidden")), "{method} {path} {body}: {answer}");
        assert!(said.contains("use toolbrokers"), "{method} {path} {body}: {said}");
    }
    for tools in [json!("theirs"), json!({"broker": "theirs"})] {
        let frame = json!({"t": "create", "id": 1, "config": {"tools": tools}});
        assert_eq!(refused_frame(&strict, "/ws?id=made", frame).await.as_deref(), Some("Forbidden"), "{tools}");
    }
    let told = async |name: &str, arguments: serde_json::Value| {
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": name, "arguments": arguments}});
        let request = strict.request("POST", "/mcp").header("mcp-protocol-version", "2025-11-25").json(&body);
        let answer: serde_json::Value = request.send().await.unwrap().json().await.unwrap();
        answer["result"]["structuredContent"]["error"]["code"].as_str().map(str::to_owned)
    };
    assert_eq!(told("session_create", json!({"name": "made", "spec": with("theirs")})).await.as_deref(), Some("Forbidden"));
    assert_eq!(told("session_fork", json!({"session": "theirs", "name": "made"})).await.as_deref(), Some("Forbidden"));
    // Nothing of that was made or changed.
    let mut names: Vec<String> = directory.list(None).iter().map(|record| record.key.name.clone()).collect();
    names.sort();
    assert_eq!(names, ["plain", "theirs"]);
    assert_eq!(open.get(&of("plain")).await.1["spec"].get("toolBrokerRef"), None);
    // What needs no right that is missing goes: with the broker that is allowed, and a session that has another is still changed otherwise.
    assert_eq!(strict.json("POST", SESSIONS, json!({"name": "own", "spec": with("mine")})).await.0, 201);
    assert_eq!(strict.json("PATCH", &of("plain"), json!({"spec": with("mine")})).await.0, 200);
    assert_eq!(strict.json("PATCH", &of("theirs"), json!({"spec": {"idleSeconds": 9}})).await.0, 200);
    assert_eq!(refused_frame(&strict, "/ws?id=socket", json!({"t": "create", "id": 1, "config": {"tools": "mine"}})).await, None);
    assert_eq!(told("session_create", json!({"name": "tool", "spec": with("mine")})).await, None);
}

#[tokio::test]
async fn pages_of_named_origins_may_call_and_no_others() {
    let trust = Trust::new();
    let (_folder, directory) = directory(&trust, &[]).await;
    let origins = dormouse_gateway::origins::Origins::new(["https://app.example"]).unwrap();
    let gateway = Gateway::new(directory, trust.kernels(), Arc::new(Loopback::default())).with_origins(origins);
    let client = serve_routes(gateway).await;
    let ask = async |method: &str, path: &str, headers: &[(&'static str, &'static str)]| {
        let request = headers.iter().fold(client.request(method, path), |request, (name, value)| request.header(*name, *value));
        request.send().await.unwrap()
    };
    let preflight = [("origin", "https://app.example"), ("access-control-request-method", "POST")];
    let answer = ask("OPTIONS", SESSIONS, &preflight).await;
    assert_eq!((answer.status().as_u16(), answer.headers()["access-control-allow-origin"].to_str().unwrap()), (204, "https://app.example"));
    assert!(answer.headers()["access-control-allow-headers"].to_str().unwrap().contains("authorization"));
    assert!(!answer.headers().contains_key("access-control-allow-credentials"));
    let answer = ask("GET", SESSIONS, &[("origin", "https://app.example")]).await;
    assert_eq!((answer.status().as_u16(), answer.headers()["access-control-allow-origin"].to_str().unwrap()), (200, "https://app.example"));
    for foreign in ["https://evil.example", "null"] {
        let answer = ask("GET", SESSIONS, &[("origin", foreign)]).await;
        assert!(!answer.headers().contains_key("access-control-allow-origin"), "{foreign}");
        let answer = ask("OPTIONS", SESSIONS, &[("origin", foreign), ("access-control-request-method", "POST")]).await;
        assert_eq!(answer.status(), 405, "{foreign}");
        let answer = ask("GET", "/ws?id=a", &[("origin", foreign), ("upgrade", "websocket"), ("connection", "upgrade")]).await;
        assert_eq!(answer.status(), 403, "{foreign}");
    }
}
