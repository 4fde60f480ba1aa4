//! How services are reached: made credentials, certificates of their own, repetitions, limits, and calls without a tool.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{
    Json, Router,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::{any, post},
};
use dormouse_broker::{Broker, ConfigError, Secrets};
use dormouse_lifecycle::segment::sha256_hex;
use dormouse_protocol::{ErrorCode, broker::ToolCall};
use dormouse_service::{
    ca::{Ca, LEAF_VALIDITY},
    tls::{Identity, Process, Server, TlsFiles},
};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::world::{call, failure, value};

/// A far side that makes credentials and takes them: what it was asked, and what it answers next.
#[derive(Clone, Default)]
struct Far {
    tokens_made: Arc<AtomicUsize>,
    hooks_asked: Arc<Mutex<Vec<Value>>>,
    /// The tokens that it takes; none: any.
    taken: Arc<Mutex<Vec<String>>>,
    /// Statuses that it answers before it is well.
    failures: Arc<Mutex<Vec<u16>>>,
    asked: Arc<Mutex<Vec<(String, String)>>>,
    at_once: Arc<AtomicUsize>,
    most_at_once: Arc<AtomicUsize>,
}

impl Far {
    async fn start(&self) -> String {
        let router = Router::new()
            .route("/token", post(token))
            .route("/hook", post(hook))
            .route("/sign", post(sign))
            .route("/api/{*path}", any(api))
            .with_state(self.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        format!("http://{address}")
    }

    fn asked(&self) -> Vec<(String, String)> {
        self.asked.lock().unwrap().clone()
    }
}

async fn token(State(far): State<Far>, headers: HeaderMap, body: String) -> Response {
    // dmMtaWQ6cGFzcyUyRndvcmQ= without padding: the id, a colon, the form-encoded secret.
    let basic = headers.get(header::AUTHORIZATION).unwrap().to_str().unwrap().to_owned();
    let right = basic == "Basic dm0taWQ6cGFzcyUyRndvcmQ=" && body == "grant_type=client_credentials&scope=read%20write";
    if !right {
        return (StatusCode::UNAUTHORIZED, format!("{basic} {body}")).into_response();
    }
    let number = far.tokens_made.fetch_add(1, Ordering::SeqCst) + 1;
    Json(json!({ "access_token": format!("made-{number}-secret"), "token_type": "Bearer", "expires_in": 3_600 })).into_response()
}

async fn hook(State(far): State<Far>, headers: HeaderMap, Json(body): Json<Value>) -> Json<Value> {
    assert_eq!(headers.get(header::AUTHORIZATION).unwrap(), "Bearer for-the-hook");
    far.hooks_asked.lock().unwrap().push(body.clone());
    let user = body["session"].as_str().unwrap();
    Json(json!({ "headers": { "authorization": format!("Bearer of-{user}"), "x-signature": "signed-by-hook" }, "expiresSeconds": 600 }))
}

/// Signs what it is told of one request, and for no other.
async fn sign(Json(body): Json<Value>) -> Json<Value> {
    let of = |field: &str| body[field].as_str().unwrap().to_owned();
    Json(json!({ "headers": { "authorization": format!("Signed {} {} {}", of("method"), of("path"), of("bodySha256")) } }))
}

async fn api(State(far): State<Far>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let of = |name: &str| parts.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    let shown = of("authorization").unwrap_or_default();
    far.asked.lock().unwrap().push((format!("{} {}", parts.method, parts.uri), shown.clone()));
    if let Some(status) = { far.failures.lock().unwrap().pop() } {
        return (StatusCode::from_u16(status).unwrap(), [(header::RETRY_AFTER, "0")], "not now").into_response();
    }
    let taken = far.taken.lock().unwrap().clone();
    if !taken.is_empty() && !taken.contains(&shown) {
        return (StatusCode::UNAUTHORIZED, shown).into_response();
    }
    let now = far.at_once.fetch_add(1, Ordering::SeqCst) + 1;
    far.most_at_once.fetch_max(now, Ordering::SeqCst);
    if parts.uri.path() == "/api/wait" {
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    far.at_once.fetch_sub(1, Ordering::SeqCst);
    let (key, extra) = (of("x-api-key"), of("x-signature"));
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    Json(json!({ "shown": shown, "key": key, "extra": extra, "body": String::from_utf8_lossy(&body) })).into_response()
}

fn secrets() -> Secrets {
    let secret = |pairs: &[(&str, &str)]| pairs.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect();
    let all = [
        ("client", secret(&[("clientId", "vm-id"), ("clientSecret", "pass/word")])),
        ("hook", secret(&[("token", "for-the-hook")])),
        ("extra", secret(&[("key", "second-secret")])),
        ("ann", secret(&[("key", "of-ann"), ("clientId", "vm-id"), ("clientSecret", "pass/word")])),
        ("ben", secret(&[("key", "of-ben"), ("clientId", "vm-id"), ("clientSecret", "pass/word")])),
    ];
    Secrets::memory(all.into_iter().map(|(name, keys)| (name.to_owned(), keys)).collect())
}

/// A broker with one service of these fields at `far`, and the tools `read` and `make` of it.
fn broker(base: &str, fields: Value) -> Broker {
    let mut service = json!({ "name": "far", "baseUrl": format!("{base}/api"), "allowedMethods": ["GET", "POST"], "allowedPaths": ["/*"] });
    service.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let tool = |name: &str, method: &str| json!({ "name": name, "service": "far", "method": method, "path": "/thing" });
    let waits = json!({ "name": "wait", "service": "far", "path": "/wait" });
    let spec = json!({ "services": [service], "tools": [tool("read", "GET"), tool("make", "POST"), waits] });
    Broker::new(serde_json::from_value(spec).unwrap(), secrets()).unwrap()
}

fn of_session(number: u64, session: &str, tool: &str) -> ToolCall {
    ToolCall { session: session.to_owned(), session_uid: format!("small_u-{session}"), ..call(number, tool, json!({})) }
}

fn oauth(base: &str) -> Value {
    json!({ "auth": { "type": "oauth2ClientCredentials", "tokenUrl": format!("{base}/token"), "scopes": ["read", "write"], "secretRef": { "name": "client" } } })
}

#[tokio::test]
async fn a_token_is_got_once_for_all_who_wait_and_again_when_it_is_refused() {
    let far = Far::default();
    let base = far.start().await;
    let broker = broker(&base, oauth(&base));
    let calls = (1..=20).map(|number| {
        let broker = broker.clone();
        async move { value(&broker, call(number, "read", json!({}))).await }
    });
    for answer in futures::future::join_all(calls).await {
        assert_eq!(answer["shown"], "Bearer [redacted]", "what comes back is free of it");
    }
    assert_eq!(far.tokens_made.load(Ordering::SeqCst), 1);
    assert!(far.asked().iter().all(|(_, shown)| shown == "Bearer made-1-secret"));
    *far.taken.lock().unwrap() = vec!["Bearer made-2-secret".to_owned()];
    assert_eq!(value(&broker, call(21, "make", json!({}))).await["shown"], "Bearer [redacted]");
    assert_eq!(far.tokens_made.load(Ordering::SeqCst), 2);
    assert_eq!(far.asked().len(), 22, "the refused call was repeated once");
    *far.taken.lock().unwrap() = vec!["none".to_owned()];
    let refused = failure(&broker, call(22, "make", json!({}))).await;
    assert_eq!((refused.code, far.asked().len()), (ErrorCode::ToolDenied, 24), "once, and not again");
    assert!(!refused.details.unwrap().to_string().contains("secret"));
}

#[tokio::test]
async fn an_issuer_that_refuses_is_named_without_what_it_says() {
    let far = Far::default();
    let base = far.start().await;
    let mut fields = oauth(&base);
    fields["auth"]["scopes"] = json!(["other"]);
    let error = failure(&broker(&base, fields), call(1, "make", json!({}))).await;
    assert_eq!(error.code, ErrorCode::ToolDenied);
    assert_eq!(error.message, "the credential of the service cannot be had: the token's URL answered 401 Unauthorized");
    assert!(far.asked().is_empty());
}

#[tokio::test]
async fn a_hook_makes_headers_for_each_session_and_others_come_from_secrets() {
    let far = Far::default();
    let base = far.start().await;
    let fields = json!({
        "auth": { "type": "custom", "hook": { "url": format!("{base}/hook"), "secretRef": { "name": "hook", "key": "token" } } },
        "secretHeaders": [{ "name": "X-Api-Key", "secretRef": { "name": "extra", "key": "key" } }],
    });
    let broker = broker(&base, fields);
    for number in 1..=3 {
        for session in ["ann", "ben"] {
            let answer = value(&broker, of_session(number, session, "read")).await;
            assert_eq!(answer, json!({ "shown": "[redacted]", "key": "[redacted]", "extra": "[redacted]", "body": "" }));
        }
    }
    let shown: Vec<String> = far.asked().into_iter().map(|(_, shown)| shown).collect();
    assert_eq!(shown, ["Bearer of-ann", "Bearer of-ben"].repeat(3));
    let asked = far.hooks_asked.lock().unwrap().clone();
    let empty = sha256_hex(b"");
    let wanted = |session: &str| {
        json!({
            "service": "far", "namespace": "team-a", "session": session, "pool": "small", "sessionUid": format!("u-{session}"),
            "method": "GET", "path": "/api/thing", "bodySha256": empty,
        })
    };
    assert_eq!(asked, ["ann", "ben"].map(wanted), "once for each session: it said how long");
}

#[tokio::test]
async fn a_hook_that_says_no_time_signs_each_request() {
    let far = Far::default();
    let base = far.start().await;
    let auth = json!({ "auth": { "type": "custom", "hook": { "url": format!("{base}/sign") } }, "direct": {} });
    let broker = broker(&base, auth);
    let direct = |query: u32| json!({ "service": "far", "method": "POST", "path": "/other", "query": { "n": query, "of": "x&y" }, "body": { "n": query } });
    value(&broker, call(1, "callService", direct(1))).await;
    value(&broker, call(2, "callService", direct(2))).await;
    value(&broker, call(3, "make", json!({ "n": 1 }))).await;
    value(&broker, call(4, "read", json!({ "n": 1 }))).await;
    for (asked, body) in far.asked().iter().zip([r#"{"n":1}"#, r#"{"n":2}"#, r#"{"n":1}"#, ""]) {
        // What the far side got is what was signed.
        let (request, signed) = asked;
        assert_eq!(signed, &format!("Signed {request} {}", sha256_hex(body.as_bytes())));
    }
    assert_eq!(far.asked().len(), 4);
    assert_eq!(far.asked()[1].0, "POST /api/other?n=2&of=x%26y");
}

#[tokio::test]
async fn both_sides_show_certificates() {
    let (ours, theirs) = (Ca::generate().unwrap(), Ca::generate().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let write = |secret: &str, key: &str, bytes: &[u8]| {
        std::fs::create_dir_all(folder.path().join(secret)).unwrap();
        std::fs::write(folder.path().join(secret).join(key), bytes).unwrap();
    };
    let pem = theirs.issue(&["localhost".to_owned(), Identity::new(Process::Broker, "else", "far").dns_name()], LEAF_VALIDITY).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let routes = Router::new().fallback(async || Json(json!("in")));
    let shutdown = CancellationToken::new();
    tokio::spawn(Server::new(TlsFiles::from_pem(&pem).unwrap()).serve(listener, routes, shutdown.clone()));
    let client = theirs.issue(&[Identity::new(Process::Broker, "else", "client").dns_name()], LEAF_VALIDITY).unwrap();
    write("client", "tls.crt", client.cert.as_bytes());
    write("client", "tls.key", client.key.as_bytes());
    write("their", "ca.crt", client.ca.as_bytes());
    let spec = |tls: Value| {
        let service = json!({ "name": "far", "baseUrl": format!("https://localhost:{port}"), "tls": tls, "retries": 0 });
        serde_json::from_value(json!({ "services": [service], "tools": [{ "name": "read", "service": "far", "path": "/thing" }] })).unwrap()
    };
    let of = |tls: Value| Broker::new(spec(tls), Secrets::directory(folder.path()));
    let whole = json!({ "clientSecretRef": { "name": "client" }, "caSecretRef": { "name": "their" } });
    let broker = of(whole.clone()).unwrap();
    assert_eq!(value(&broker, call(1, "read", json!({}))).await, "in");
    let without = of(json!({ "caSecretRef": { "name": "their" } })).unwrap();
    failure(&without, call(1, "read", json!({}))).await;
    // Rotated: the next call shows the new one, which these do not know.
    let stranger = ours.issue(&[Identity::new(Process::Broker, "else", "client").dns_name()], LEAF_VALIDITY).unwrap();
    write("client", "tls.crt", stranger.cert.as_bytes());
    write("client", "tls.key", stranger.key.as_bytes());
    failure(&broker, call(2, "read", json!({}))).await;
    write("client", "tls.crt", b"nothing");
    let Err(ConfigError::Problems(problems)) = of(whole) else { panic!("certificates that are none") };
    assert_eq!(problems[0].path, "services[0].tls");
    shutdown.cancel();
}

#[tokio::test]
async fn what_does_no_harm_twice_is_repeated_and_nothing_else() {
    let far = Far::default();
    let base = far.start().await;
    let broker = broker(&base, json!({ "retries": 2 }));
    let fail = |statuses: &[u16]| *far.failures.lock().unwrap() = statuses.to_vec();
    let asked = || std::mem::take(&mut *far.asked.lock().unwrap()).len();
    fail(&[503, 503]);
    value(&broker, call(1, "read", json!({}))).await;
    assert_eq!(asked(), 3);
    fail(&[503; 3]);
    assert_eq!(failure(&broker, call(2, "read", json!({}))).await.code, ErrorCode::ToolResultInvalid);
    assert_eq!(asked(), 3);
    fail(&[503]);
    assert_eq!(failure(&broker, call(3, "make", json!({}))).await.code, ErrorCode::ToolResultInvalid);
    assert_eq!(asked(), 1, "it may have been done");
    fail(&[429]);
    value(&broker, call(4, "make", json!({}))).await;
    assert_eq!(asked(), 2, "it was not done");
    fail(&[500]);
    failure(&broker, call(5, "read", json!({}))).await;
    assert_eq!(asked(), 1, "another time would bring the same");
}

#[tokio::test]
async fn a_failing_service_is_left_in_peace() {
    let far = Far::default();
    let base = far.start().await;
    let broker = broker(&base, json!({ "retries": 0, "breaker": { "failures": 3, "openSeconds": 3_600 } }));
    *far.failures.lock().unwrap() = vec![500; 3];
    for number in 1..=3 {
        failure(&broker, call(number, "read", json!({}))).await;
    }
    let error = failure(&broker, call(4, "make", json!({}))).await;
    assert!(error.message.contains("failed 3 times in a row"), "{error}");
    assert_eq!(far.asked().len(), 3);
}

#[tokio::test]
async fn limits_are_kept_and_what_cannot_wait_is_told() {
    let far = Far::default();
    let base = far.start().await;
    let limited = broker(&base, json!({ "limits": { "concurrency": 2 } }));
    let calls = (1..=10).map(|number| {
        let broker = limited.clone();
        async move { value(&broker, call(number, "wait", json!({}))).await }
    });
    futures::future::join_all(calls).await;
    assert_eq!(far.most_at_once.load(Ordering::SeqCst), 2);
    let service = json!({ "name": "far", "baseUrl": format!("{base}/api") });
    let tool = json!({ "name": "read", "service": "far", "path": "/thing", "timeoutMs": 200, "limits": { "sessionPerMinute": 1 } });
    let broker = Broker::new(serde_json::from_value(json!({ "services": [service], "tools": [tool] })).unwrap(), secrets()).unwrap();
    value(&broker, of_session(1, "ann", "read")).await;
    value(&broker, of_session(1, "ben", "read")).await;
    let begun = Instant::now();
    let error = failure(&broker, of_session(2, "ann", "read")).await;
    assert_eq!((error.code, error.retryable), (ErrorCode::RateLimited, true));
    assert!(begun.elapsed() < Duration::from_secs(30), "within its own timeout");
}

#[tokio::test]
async fn a_service_is_called_itself_where_its_spec_lets_cells() {
    let far = Far::default();
    let base = far.start().await;
    let direct = |number: u64, args: Value| call(number, "callService", args);
    let closed = broker(&base, json!({}));
    assert_eq!(failure(&closed, direct(1, json!({ "service": "far", "path": "/x" }))).await.code, ErrorCode::ToolNotFound);
    let broker = broker(&base, json!({ "direct": {}, "allowedPaths": ["/open/*", "/thing", "/wait"] }));
    let read = json!({ "service": "far", "path": "/open/1", "query": { "q": "a b", "n": [1, 2] } });
    value(&broker, direct(1, read)).await;
    let made = json!({ "service": "far", "method": "POST", "path": "/open/2", "body": { "x": 1 } });
    assert_eq!(value(&broker, direct(2, made)).await["body"], "{\"x\":1}");
    let asked: Vec<String> = far.asked().into_iter().map(|(asked, _)| asked).collect();
    assert_eq!(asked, ["GET /api/open/1?n=1&n=2&q=a+b", "POST /api/open/2"]);
    for (args, code) in [
        (json!({ "service": "other", "path": "/open/1" }), ErrorCode::ToolNotFound),
        (json!({ "service": "far", "path": "/closed" }), ErrorCode::ToolDenied),
        (json!({ "service": "far", "path": "/open/../closed" }), ErrorCode::ToolDenied),
        (json!({ "service": "far", "path": "/open/%2e%2e/closed" }), ErrorCode::ToolDenied),
        (json!({ "service": "far", "path": "/open/1", "method": "DELETE" }), ErrorCode::ToolDenied),
        (json!({ "service": "far", "path": "/open/1?x=1" }), ErrorCode::ToolArgsInvalid),
        (json!({ "service": "far", "path": "http://elsewhere/open/1" }), ErrorCode::ToolArgsInvalid),
        (json!({ "service": "far", "path": "/open/1", "headers": {} }), ErrorCode::ToolArgsInvalid),
        (json!({ "service": "far", "path": "/open/1", "body": 1 }), ErrorCode::ToolArgsInvalid),
    ] {
        let number = 3 + u64::try_from(args.to_string().len()).unwrap();
        assert_eq!(failure(&broker, direct(number, args.clone())).await.code, code, "{args}");
    }
    assert_eq!(far.asked().len(), 2);
}

#[tokio::test]
async fn the_tools_are_listed() {
    let listed = value(&broker("http://localhost:1", json!({})), call(1, "tools.list", json!({}))).await;
    let names: Vec<&str> = listed.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["make", "read", "wait"]);
    let spec = json!({ "services": [{ "name": "far", "baseUrl": "http://localhost:1" }], "tools": [{ "name": "tools.list", "service": "far", "path": "/x" }] });
    let Err(ConfigError::Problems(problems)) = Broker::new(serde_json::from_value(spec).unwrap(), secrets()) else {
        panic!("its name is taken")
    };
    assert_eq!(problems[0].path, "tools[0].name");
}

#[tokio::test]
async fn a_webhook_of_the_tenant_gets_signed_arguments_and_answers() {
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    type Ids = Arc<Mutex<Vec<String>>>;
    let takes = async |State(ids): State<Ids>, headers: HeaderMap, body: axum::body::Bytes| {
        let verifier = standardwebhooks::Webhook::new(SECRET).unwrap();
        verifier.verify(&body, &headers).expect("the published library takes it");
        let mut other = body.to_vec();
        other.push(b' ');
        assert!(verifier.verify(&other, &headers).is_err(), "and nothing else under that signature");
        ids.lock().unwrap().push(headers["webhook-id"].to_str().unwrap().to_owned());
        let first = ids.lock().unwrap().len() == 1;
        let status = if first { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::OK };
        (status, Json(json!({ "charged": serde_json::from_slice::<Value>(&body).unwrap()["amount"], "with": SECRET })))
    };
    let ids = Ids::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/charge", post(takes)).with_state(Arc::clone(&ids));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let tool = json!({
        "name": "charge", "input": { "type": "object", "properties": { "amount": { "type": "number" } }, "required": ["amount"] },
        "webhook": { "url": format!("http://{address}/charge"), "secretRef": { "name": "hook", "key": "key" } },
    });
    let secret = |text: &str| Secrets::memory([("hook".to_owned(), [("key".to_owned(), text.as_bytes().to_vec())].into())].into());
    let spec = || serde_json::from_value(json!({ "tools": [tool] })).unwrap();
    let broker = Broker::new(spec(), secret(SECRET)).unwrap();
    let answer = value(&broker, call(1, "charge", json!({ "amount": 7 }))).await;
    assert_eq!(answer, json!({ "charged": 7, "with": "[redacted]" }));
    value(&broker, call(2, "charge", json!({ "amount": 8 }))).await;
    let ids = ids.lock().unwrap().clone();
    assert_eq!(ids.len(), 3);
    assert!(ids[0] == ids[1] && ids[1] != ids[2], "another sending of a message has its id: {ids:?}");
    assert_eq!(failure(&broker, call(3, "charge", json!({}))).await.code, ErrorCode::ToolArgsInvalid);
    let unsigned = Broker::new(spec(), secret("whsec_!")).unwrap();
    assert_eq!(failure(&unsigned, call(1, "charge", json!({ "amount": 7 }))).await.code, ErrorCode::ToolDenied);
}

/// A call of a session that names this Secret for the service.
fn with_secret(number: u64, secret: &str) -> ToolCall {
    let service_secrets = [("far".to_owned(), secret.to_owned())].into_iter().collect();
    ToolCall { service_secrets, ..of_session(number, secret, "read") }
}

#[tokio::test]
async fn a_session_names_the_secret_of_its_user_where_the_service_allows_it() {
    let far = Far::default();
    let base = far.start().await;
    let auth = json!({ "type": "bearer", "secretRef": { "name": "extra", "key": "key" } });
    let broker_of = |fields: Value| broker(&base, fields);
    let broker = broker_of(json!({ "auth": auth, "sessionSecrets": ["ann", "ben"] }));
    for (number, secret) in (1..).zip(["ann", "ben", "ann"]) {
        assert_eq!(value(&broker, with_secret(number, secret)).await["shown"], "Bearer [redacted]");
        assert_eq!(far.asked().last().unwrap().1, format!("Bearer of-{secret}"));
    }
    value(&broker, of_session(1, "carl", "read")).await;
    assert_eq!(far.asked().last().unwrap().1, "Bearer second-secret", "who names none has the service's own");
    let refused = failure(&broker, with_secret(4, "client")).await;
    assert_eq!(refused.code, ErrorCode::ToolDenied);
    assert!(refused.message.contains("`client`") && refused.message.contains("sessionSecrets"), "{}", refused.message);
    assert_eq!(far.asked().len(), 4, "nothing left for it");

    // A token is made for each Secret, once.
    let mut fields = oauth(&base);
    fields["sessionSecrets"] = json!(["ann", "ben"]);
    let broker = broker_of(fields);
    for (number, secret) in (11..).zip(["ann", "ben", "ann", "ben"]) {
        value(&broker, with_secret(number, secret)).await;
    }
    assert_eq!(far.tokens_made.load(Ordering::SeqCst), 2);

    // A user whose Secret is gone is alone in that.
    let broker = broker_of(json!({ "auth": auth, "sessionSecrets": ["gone", "ann"] }));
    let refused = failure(&broker, with_secret(21, "gone")).await;
    assert!(!refused.retryable && refused.message.contains("gone"), "{refused:?}");
    value(&broker, with_secret(22, "ann")).await;

    let spec = json!({ "services": [{ "name": "far", "baseUrl": base, "sessionSecrets": ["ann"], "auth": {} }] });
    let Err(ConfigError::Problems(problems)) = Broker::new(serde_json::from_value(spec).unwrap(), secrets()) else { panic!("accepted") };
    let told = problems[0].to_string();
    assert!(told.starts_with("spec.services[0].sessionSecrets[0]") && told.contains("sessionSecrets"), "{told}");
}
