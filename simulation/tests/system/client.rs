//! A client: sends requests to gateways, and the same request again as long as it is told that this may help.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use dormouse_crds::session::KernelSessionSpec;
use dormouse_service::wire::Wire;
use futures::StreamExt as _;
use http::{HeaderMap, Method};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::world::{Door, TEAM, World};

/// What a request may take, whatever fails: what a gateway tries, and what one commit may take. A cell's own waits come on top.
pub const BUDGET: Duration = Duration::from_secs(300);

/// What came of one request.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// 0: the connection to the gateway was lost.
    pub status: u16,
    pub body: Vec<u8>,
    pub json: Value,
}

impl Answer {
    pub fn is_ok(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The code of a refusal.
    pub fn code(&self) -> &str {
        self.json["error"]["code"].as_str().unwrap_or_default()
    }

    /// Whether the same request may be sent again.
    pub fn may_be_repeated(&self) -> bool {
        self.status == 0 || self.json["error"]["retryable"] == true
    }

    /// What a cell's value is; `null` without one.
    pub fn value(&self) -> &Value {
        &self.json["value"]
    }
}

#[derive(Clone)]
pub struct Client {
    world: World,
    wire: Arc<dyn Wire>,
    /// What was uploaded, by its first word, cells, by their key, and sessions to make, by their name, that this client or a gateway gave up: they may
    /// still arrive, whatever was sent or seen since.
    given_up: Arc<Mutex<BTreeSet<String>>>,
}

impl Client {
    pub fn new(world: &World, name: &str) -> Self {
        Self { world: world.clone(), wire: world.wire(name), given_up: Arc::default() }
    }

    /// One request, which must be answered within `budget`.
    pub async fn send(&self, gateway: &Door, method: Method, path: &str, body: Option<Vec<u8>>, budget: Duration) -> Answer {
        self.send_with(gateway, method, path, body, budget, HeaderMap::new()).await
    }

    /// The same with these headers.
    pub async fn send_with(
        &self,
        gateway: &Door,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
        budget: Duration,
        headers: HeaderMap,
    ) -> Answer {
        let url = format!("http://{}/v1/namespaces/{TEAM}/sessions{path}", gateway.host);
        let mut request = self.world.forms().request(method.clone(), url).headers(headers);
        let sent = body.as_deref().and_then(|body| if path.contains("/files/") { Some(first_word(body)) } else { key_of(body) });
        if let Some(body) = body {
            let json = body.first() == Some(&b'{') && !path.contains("/files/");
            request =
                request.header("content-type", if json { "application/json" } else { "application/octet-stream" }).body(in_parts(body));
        }
        let request = request.build().expect("a request");
        let answered = tokio::time::timeout(budget, async {
            let response = self.wire.carry(request).await.ok()?;
            let status = response.status().as_u16();
            let body = response.bytes().await.ok()?.to_vec();
            let json = serde_json::from_slice(&body).unwrap_or_default();
            Some(Answer { status, body, json })
        });
        let answer = answered.await.unwrap_or_else(|_| panic!("every request is answered: {method} {path} was not within {budget:?}"));
        let answer = answer.unwrap_or(Answer { status: 0, body: Vec::new(), json: Value::Null });
        self.given_up.lock().unwrap().extend(sent.filter(|_| answer.status == 0 || answer.code() == "OutcomeUnknown"));
        let said = if answer.status < 300 { String::new() } else { format!("{} {}", answer.code(), answer.json["error"]["message"]) };
        self.world.chaos.note(format!("client: {method} {path} -> {} {said} {}", answer.status, answer.json["preview"]));
        answer
    }

    /// Whether an upload that begins so, a cell of this key or the making of this session was given up once, here or at a gateway.
    pub fn may_still_arrive(&self, what: &str) -> bool {
        self.given_up.lock().unwrap().contains(what)
    }

    /// The same until it is answered for good, at most for `patience` in all.
    pub async fn insist(&self, gateway: &Door, method: Method, path: &str, body: Option<Vec<u8>>, patience: Duration) -> Answer {
        let until = Instant::now() + patience;
        let mut wait = Duration::from_millis(50);
        loop {
            let answer = self.send(gateway, method.clone(), path, body.clone(), BUDGET).await;
            if !answer.may_be_repeated() || Instant::now() >= until {
                return answer;
            }
            sleep(wait).await;
            wait = (wait * 2).min(Duration::from_secs(5));
        }
    }

    pub async fn create(&self, gateway: &Door, name: &str, spec: &KernelSessionSpec) {
        let body = json!({"name": name, "spec": spec}).to_string().into_bytes();
        for _ in 0..100 {
            let answer = self.insist(gateway, Method::POST, "", Some(body.clone()), BUDGET).await;
            if answer.is_ok() || answer.code() == "Conflict" {
                return;
            }
            sleep(Duration::from_secs(1)).await;
        }
        panic!("no session can be made");
    }

    /// One attempt at a cell.
    pub async fn try_eval(&self, gateway: &Door, name: &str, key: &str, code: &str) -> Answer {
        self.send(gateway, Method::POST, &format!("/{name}/eval"), Some(cell(key, code)), BUDGET).await
    }

    /// A cell, sent until it has an answer for good.
    pub async fn eval(&self, gateway: &Door, name: &str, key: &str, code: &str) -> Answer {
        self.insist(gateway, Method::POST, &format!("/{name}/eval"), Some(cell(key, code)), BUDGET * 4).await
    }

    /// The value of a cell that must succeed.
    pub async fn value(&self, gateway: &Door, name: &str, key: &str, code: &str) -> Value {
        let answer = self.eval(gateway, name, key, code).await;
        assert!(answer.status == 200 && answer.json["ok"] == true, "cell {key}: {} {}", answer.status, answer.json);
        answer.value().clone()
    }

    /// An order without a body, such as `wake`.
    pub async fn order(&self, gateway: &Door, name: &str, order: &str) -> Answer {
        self.send(gateway, Method::POST, &format!("/{name}/{order}"), None, BUDGET).await
    }
}

/// The key of a cell; the name of a session that is to be made.
fn key_of(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    body["idempotencyKey"].as_str().or(body["name"].as_str()).map(str::to_owned)
}

fn first_word(content: &[u8]) -> String {
    String::from_utf8_lossy(content.split(|byte| *byte == b' ').next().unwrap_or_default()).into_owned()
}

/// Makes `spin()`, which never ends, and what stops it takes its instance with it: the jobs that it sets going are of this cell, which has ended by then.
pub const SPINS: &str = "globalThis.spin = (() => { let go; new Promise((resolve) => { go = resolve }).then(function f() { queueMicrotask(f); queueMicrotask(f) }); return go })(); 0";

/// Bytes of a body that arrive together.
const PART_BYTES: usize = 300_000;

/// A body as a network brings it: what is long comes in parts, with time between them.
fn in_parts(body: Vec<u8>) -> reqwest::Body {
    if body.len() <= PART_BYTES {
        return body.into();
    }
    let parts: Vec<Vec<u8>> = body.chunks(PART_BYTES).map(<[u8]>::to_vec).collect();
    reqwest::Body::wrap_stream(futures::stream::iter(parts).then(|part| async move {
        sleep(Duration::from_millis(7)).await;
        Ok::<_, std::io::Error>(part)
    }))
}

fn cell(key: &str, code: &str) -> Vec<u8> {
    json!({"code": code, "idempotencyKey": key}).to_string().into_bytes()
}
