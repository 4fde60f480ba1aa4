//! A real HTTP service that remembers what it was asked, and a broker for it.

use std::sync::{Arc, Mutex};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use dormouse_broker::{Broker, Secrets};
use dormouse_crds::broker::ToolBrokerSpec;
use dormouse_protocol::{
    ApiError,
    broker::{ToolAnswer, ToolCall},
};
use dormouse_store::{Memory, SnapshotStore as _};
use serde_json::{Value, json};
use tokio::sync::Notify;

pub const TOKEN: &str = "tok-7f3a9c/+x";
pub const PASSWORD: &str = "pass w0rd\"";

/// One request as the service saw it.
#[derive(Debug, Clone)]
pub struct Seen {
    pub method: String,
    pub uri: String,
    pub authorization: Option<String>,
    pub api_key: Option<String>,
    pub idempotency_key: Option<String>,
    pub body: String,
}

#[derive(Clone, Default)]
pub struct World {
    seen: Arc<Mutex<Vec<Seen>>>,
    /// Lets one `/widgets/slow` go on.
    pub go: Arc<Notify>,
    /// Told when a `/widgets/slow` arrives.
    pub arrived: Arc<Notify>,
}

impl World {
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub fn last(&self) -> Seen {
        self.seen().last().cloned().expect("the service was asked")
    }

    /// Starts the service; its base URL.
    pub async fn start(&self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(answer).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        format!("http://{address}/base/")
    }
}

async fn answer(State(world): State<World>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let text = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let seen = Seen {
        method: parts.method.to_string(),
        uri: parts.uri.to_string(),
        authorization: text("authorization"),
        api_key: text("x-api-key"),
        idempotency_key: text("idempotency-key"),
        body: String::from_utf8(body.to_vec()).unwrap(),
    };
    world.seen.lock().unwrap().push(seen.clone());
    let credential = seen.authorization.clone().or(seen.api_key.clone()).unwrap_or_default();
    match parts.uri.path().trim_start_matches("/base/widgets/") {
        "echo" => axum::Json(json!({"header": credential, "nested": [{credential.clone(): format!("<{credential}>")}]})).into_response(),
        "text" => format!("you sent {credential}").into_response(),
        "refused" => (StatusCode::UNPROCESSABLE_ENTITY, format!("no: {credential} {}", "x".repeat(100_000))).into_response(),
        "forbidden" => (StatusCode::FORBIDDEN, "not you").into_response(),
        "empty" => StatusCode::NO_CONTENT.into_response(),
        "redirect" => (StatusCode::FOUND, [(header::LOCATION, format!("http://elsewhere/?t={credential}"))]).into_response(),
        "large" => "x".repeat(5_000).into_response(),
        "endless" => {
            let chunks = futures_chunks();
            Body::from_stream(chunks).into_response()
        }
        "slow" => {
            world.arrived.notify_one();
            world.go.notified().await;
            axum::Json(json!({"id": "slow"})).into_response()
        }
        id => axum::Json(json!({"id": id, "price": 12})).into_response(),
    }
}

/// A body without a length that does not end.
fn futures_chunks() -> impl futures::Stream<Item = Result<Bytes, std::io::Error>> {
    futures::stream::repeat_with(|| Ok(Bytes::from_static(&[b'x'; 1_000])))
}

pub fn secrets() -> Secrets {
    let secret = |pairs: &[(&str, &str)]| pairs.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect();
    let widgets = ("widgets".to_owned(), secret(&[("token", &format!("{TOKEN}\n"))]));
    let login = ("login".to_owned(), secret(&[("user", "admin"), ("password", PASSWORD)]));
    Secrets::memory([widgets, login].into_iter().collect())
}

/// A spec with one tool per auth scheme and one per method.
pub fn spec(base_url: &str) -> ToolBrokerSpec {
    let service = |name: &str, auth: Value| {
        json!({
            "name": name, "baseUrl": base_url, "auth": auth, "allowedMethods": ["GET", "POST", "DELETE"],
            "allowedPaths": ["/widgets/*"], "requestBytesMax": 500, "responseBytesMax": 2_000,
        })
    };
    let tool = |name: &str, service: &str, method: &str, path: &str| json!({"name": name, "description": "A tool", "service": service, "method": method, "path": path, "timeoutMs": 20_000});
    let mut get = tool("getWidget", "bearer", "GET", "/widgets/{id}");
    get["input"] = json!({"type": "object", "properties": {"id": {"type": ["string", "number"]}}, "required": ["id"]});
    let mut priced = tool("priced", "bearer", "GET", "/widgets/{id}");
    priced["output"] = json!({"type": "object", "properties": {"price": {"type": "string"}}});
    let mut quick = tool("quick", "bearer", "GET", "/widgets/{id}");
    quick["timeoutMs"] = json!(50);
    let short = |name: &str, service: &str| {
        let mut tool = tool(name, service, "POST", "/widgets/{kind}");
        tool["timeoutMs"] = json!(500);
        tool
    };
    let mut keyed = service("keyed", json!({}));
    keyed["honoursIdempotencyKey"] = json!(true);
    serde_json::from_value(json!({
        "services": [
            service("bearer", json!({"type": "bearer", "secretRef": {"name": "widgets", "key": "token"}})),
            service("header", json!({"type": "header", "headerName": "X-Api-Key", "secretRef": {"name": "widgets", "key": "token"}})),
            service("basic", json!({"type": "basic", "secretRef": {"name": "login"}})),
            service("open", json!({})),
            keyed,
        ],
        "tools": [
            get, priced, quick,
            short("makeQuick", "bearer"),
            short("makeKeyed", "keyed"),
            tool("keyed", "keyed", "POST", "/widgets/{kind}"),
            tool("byHeader", "header", "GET", "/widgets/{id}"),
            tool("byBasic", "basic", "GET", "/widgets/{id}"),
            tool("byNothing", "open", "GET", "/widgets/{id}"),
            tool("make", "bearer", "POST", "/widgets/{kind}"),
            tool("remove", "bearer", "DELETE", "/widgets/{id}"),
            tool("outside", "bearer", "GET", "/{where}/1"),
        ],
    }))
    .unwrap()
}

pub fn call(number: u64, tool: &str, args: Value) -> ToolCall {
    ToolCall {
        namespace: "team-a".into(),
        session: "analyst".into(),
        session_uid: "u-1".into(),
        epoch: 1,
        call: number,
        tool: tool.into(),
        args,
        references: std::collections::BTreeMap::new(),
        repeated: false,
        settled_below: 0,
        page: None,
        waits: Default::default(),
        made_in: None,
        service_secrets: Default::default(),
        knowledge: None,
        body: None,
        stream_above: None,
        by: None,
    }
}

/// A call with a body behind it, as it is sent to `/v1/upload`.
pub fn with_body(call: &ToolCall, body: &[u8]) -> Vec<u8> {
    let text = serde_json::to_vec(call).unwrap();
    [&u32::try_from(text.len()).unwrap().to_le_bytes()[..], &text, body].concat()
}

pub async fn broker() -> (World, Broker) {
    let world = World::default();
    let base_url = world.start().await;
    (world, Broker::new(spec(&base_url), secrets()).unwrap())
}

pub async fn value(broker: &Broker, call: ToolCall) -> Value {
    match broker.call(call).await.unwrap().as_ref() {
        ToolAnswer::Ok { value } => value.clone(),
        other => panic!("{other:?}"),
    }
}

pub async fn failure(broker: &Broker, call: ToolCall) -> ApiError {
    match broker.call(call).await.unwrap().as_ref() {
        ToolAnswer::Err { error } => error.clone(),
        other => panic!("{other:?}"),
    }
}

/// The lines of the audit that are stored, with keys that begin so.
pub async fn audit(store: &Memory, prefix: &str) -> Vec<Value> {
    let mut lines = Vec::new();
    for key in store.list(&format!("{prefix}t/team-a/audit/")).await.unwrap() {
        let body = store.get(&key).await.unwrap().unwrap().bytes;
        lines.extend(std::str::from_utf8(&body).unwrap().lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
    }
    lines
}
