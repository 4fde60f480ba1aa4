//! The HTTP surface: what is refused, and how.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use async_trait::async_trait;
use dormouse_crds::quota::KernelQuotaSpec;
use dormouse_gateway::{
    Gateway,
    auth::{Access, AuthError, Authenticator, Caller, loopback::Loopback},
};
use dormouse_service::memory::Memory;
use serde_json::json;
use support::{Client, Trust, directory, serve, serve_local, serve_routes, serve_with};

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
    let client = serve_routes(gateway).await;
    assert_eq!(client.get(SESSIONS).await.0, 200);
    USED.store(90 << 20, Ordering::SeqCst);
    memory.look_again();
    let (status, body) = client.json("POST", SESSIONS, json!({"name": "a"})).await;
    assert_eq!((status, body["error"]["code"].as_str()), (503, Some("CapacityExhausted")), "{body}");
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
