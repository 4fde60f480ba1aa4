//! What a tenant can do to what it shares with others, and an outside that helps.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::{get, post},
};
use dormouse_client::{Client, Error};
use dormouse_e2e::api::may_be_sent_again;
use dormouse_protocol::{eval::EvalRequest, session::CreateSession};
use dormouse_testkit::wait::PATIENCE;
use futures::StreamExt as _;
use serde_json::{Value, json};

/// Between two tries of somebody who was told to come again.
const PAUSE: Duration = Duration::from_millis(100);

/// Every means that a cell has: heaps, output, events, arguments, answers, bodies, values, specs of code, operations.
pub const CELLS: [&str; 12] = [
    "var hog = []; for (;;) hog.push(new Uint8Array(1 << 20).fill(1))",
    "for (;;) console.log('x'.repeat(1 << 16))",
    "for (;;) display.text('\\u0001'.repeat(1 << 16))",
    "for (let i = 0; i < 200; i++) callTool('hang', { text: 'x'.repeat(1 << 18) }).catch(() => 0); await sleep(3600_000)",
    "await Promise.allSettled(Array.from({ length: 50 }, () => callTool('echo', { text: 'x'.repeat(1 << 18) })))",
    "await Promise.allSettled(Array.from({ length: 50 }, () => callTool('endless', {})))",
    "await Promise.allSettled(Array.from({ length: 50 }, () => callTool('large', {})))",
    "'\\u0001'.repeat(8 << 20)",
    "var held = new Uint8Array(50 << 20).fill(1); held.length",
    "for (let i = 0; i < 1e6; i++) setTimeout(() => 0, 1)",
    "for (;;) setTimeout(() => console.log('x'), 0), await sleep(0)",
    "for (;;) fs.writeFileSync('/f' + Math.random(), 'x'.repeat(1 << 20))",
];

/// Bytes of an answer that fits what a service may answer, once it is quoted.
const LARGE_BYTES: usize = (8 << 20) - 2;

/// What the outside makes of secrets, and nobody but the broker may see: an access token, and a header of a hook.
pub const TOKEN: &str = "canary-of-an-access-token-5b1d";
pub const SIGNED: &str = "canary-of-what-a-hook-answers-77";

/// How often each amount was paid.
pub type Paid = Arc<Mutex<BTreeMap<u64, usize>>>;

async fn pay(State(paid): State<Paid>, Json(body): Json<Value>) -> Json<Value> {
    let mut paid = paid.lock().unwrap();
    let times = paid.entry(body["amount"].as_u64().unwrap()).or_default();
    *times += 1;
    Json(json!({ "paid": body["amount"], "times": *times }))
}

/// Says all that it was sent.
async fn show(headers: HeaderMap, body: String) -> String {
    let sent = headers.iter().map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())));
    sent.chain([body]).collect::<Vec<_>>().join("\n")
}

/// A server of MCP with one tool, which says all that it was sent.
async fn mcp(headers: HeaderMap, body: String) -> Json<Value> {
    let message: Value = serde_json::from_str(&body).unwrap();
    let result = match message["method"].as_str().unwrap() {
        "tools/list" => json!({ "tools": [{ "name": "whisper", "inputSchema": { "type": "object" } }] }),
        _ => json!({ "structuredContent": { "said": show(headers, body).await }, "content": [] }),
    };
    Json(json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }))
}

/// A model that does.
async fn model(headers: HeaderMap, body: String) -> Json<Value> {
    let choices = json!([{ "message": { "role": "assistant", "content": show(headers, body).await } }]);
    Json(json!({ "choices": choices, "usage": { "prompt_tokens": 1, "completion_tokens": 1 } }))
}

/// A service that echoes, that hangs, whose answers are large or do not end, and that counts what it pays. Its URL.
pub async fn outside() -> (String, Paid) {
    let paid = Paid::default();
    let endless = async || {
        let block = Bytes::from(vec![b'x'; 1 << 16]);
        Body::from_stream(futures::stream::iter(std::iter::repeat(block)).map(Ok::<_, Infallible>))
    };
    let routes = Router::new()
        .route("/echo", post(async |body: Bytes| body))
        .route("/hang", post(std::future::pending::<()>))
        .route("/endless", get(endless))
        .route("/large", get(async || "x".repeat(LARGE_BYTES)))
        .route("/pay", post(pay))
        .route("/show", post(show))
        .route("/token", post(async || Json(json!({ "access_token": TOKEN, "token_type": "bearer", "expires_in": 3_600 }))))
        .route("/hook", post(async || Json(json!({ "headers": { "x-signed": SIGNED } }))))
        .route("/mcp", post(mcp))
        .route("/chat/completions", post(model))
        .route("/refuse", post(async |headers, body| (StatusCode::UNPROCESSABLE_ENTITY, show(headers, body).await)))
        .with_state(Arc::clone(&paid));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, routes).await });
    (url, paid)
}

/// A session with this in its spec beside the ToolBroker.
pub async fn create(client: &Client, name: &str, limits: Value) {
    let spec = json!({"toolBrokerRef": {"name": "tools"}, "limits": limits});
    let session = CreateSession { name: Some(name.to_owned()), labels: Default::default(), spec: serde_json::from_value(spec).unwrap() };
    patient(|| client.create(&session)).await;
}

/// Somebody who behaves: a session that counts.
pub struct Honest {
    client: Client,
    name: String,
    count: u64,
    again: Again,
}

impl Honest {
    pub async fn new(client: &Client, name: &str) -> Self {
        Self::who_asks_again(client, name, may_be_sent_again).await
    }

    /// The same who sends a cell again after these errors.
    pub async fn who_asks_again(client: &Client, name: &str, again: Again) -> Self {
        create(client, name, json!({})).await;
        Self { client: client.clone(), name: name.to_owned(), count: 0, again }
    }

    /// Sends the next cell, again as long as that may help, and asserts its value. The cell prints how many there were.
    pub async fn count(&mut self) {
        self.count += 1;
        let code = "globalThis.n = (globalThis.n ?? 0) + 1; console.log(n); [n, 'x'.repeat(n % 100).length]";
        let cell = EvalRequest { code: code.to_owned(), idempotency_key: Some(format!("k{}", self.count)), ..EvalRequest::default() };
        let (client, name) = (&self.client, &self.name);
        let result = insist(self.again, || client.eval(name, &cell)).await;
        assert_eq!(result.value, Some(json!([self.count, self.count % 100])), "{}: {result:?}", self.name);
    }
}

/// Whether somebody sends a request again who was told this.
pub type Again = fn(&Error) -> bool;

/// Until it is done, or refused for good. What is asked does no harm twice.
pub async fn patient<T, F: Future<Output = Result<T, Error>>>(ask: impl Fn() -> F) -> T {
    insist(may_be_sent_again, ask).await
}

/// The same, again after these errors.
pub async fn insist<T, F: Future<Output = Result<T, Error>>>(again: Again, ask: impl Fn() -> F) -> T {
    let last = Mutex::new(String::from("no answer at all"));
    let asked = async {
        loop {
            match ask().await {
                Ok(done) => return done,
                Err(error) if again(&error) => *last.lock().unwrap() = error.to_string(),
                Err(error) => panic!("{error}"),
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    let served = tokio::time::timeout(PATIENCE, asked).await;
    served.unwrap_or_else(|_| panic!("who behaves is served within {PATIENCE:?}, and was told last: {}", last.lock().unwrap()))
}
