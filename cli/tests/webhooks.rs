//! Who is told of runs, approvals and sessions: against a real `dormouse dev`, a real receiver, and kills in between.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::support::Dev;
use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::post,
};
use serde_json::{Value, json};

const SECRET: &str = "whsec_YSBrZXkgb2YgZm91ciBhbmQgdHdlbnR5IGJ5";
/// What lets a message in.
const DOOR: &str = "let-me-in-4711";
const SESSION: &str = "/v1/namespaces/default/sessions/agent";

#[derive(Clone, Default)]
struct Receiver {
    got: Arc<Mutex<Vec<(String, Value)>>>,
    broken: Arc<Mutex<bool>>,
    /// What it wants to see in `Authorization`.
    door: Arc<Mutex<Option<String>>>,
}

impl Receiver {
    async fn start(&self, address: SocketAddr) -> SocketAddr {
        let take = async |State(this): State<Self>, headers: HeaderMap, body: Bytes| {
            standardwebhooks::Webhook::new(SECRET).unwrap().verify(&body, &headers).unwrap();
            if let Some(wanted) = this.door.lock().unwrap().as_deref()
                && headers.get("authorization").is_none_or(|value| value != wanted)
            {
                return StatusCode::UNAUTHORIZED;
            }
            if *this.broken.lock().unwrap() {
                return StatusCode::GONE;
            }
            let id = headers["webhook-id"].to_str().unwrap().to_owned();
            this.got.lock().unwrap().push((id, serde_json::from_slice(&body).unwrap()));
            StatusCode::NO_CONTENT
        };
        let listener = tokio::net::TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let routes = Router::new().route("/events", post(take)).route("/own", post(take)).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        address
    }

    fn got(&self) -> Vec<(String, Value)> {
        self.got.lock().unwrap().clone()
    }

    /// Waits for a message of which this holds.
    async fn told(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        eventually(what, async || self.got().iter().any(|(_, body)| holds(body))).await;
        self.got().into_iter().find(|(_, body)| holds(body)).unwrap().1
    }
}

fn manifest(folder: &Path, receiver: SocketAddr) -> PathBuf {
    let path = folder.join("events.yaml");
    let text = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: events}}\nstringData: {{secret: {SECRET}}}\n---\n\
         apiVersion: dormouse.dev/v1alpha1\nkind: ToolBroker\nmetadata: {{name: bank}}\nspec:\n  \
         services: [{{name: bank, baseUrl: 'http://{receiver}', allowedMethods: [POST], direct: {{approval: Always}}}}]\n  \
         egress: {{allow: [{{host: '127.0.0.1:{port}', methods: [POST], private: true}}]}}\n  webhooks:\n    \
         - {{url: 'http://{receiver}/events', events: [completed, failed, approval_required], secretRef: {{name: events, key: secret}}}}\n---\n\
         apiVersion: dormouse.dev/v1alpha1\nkind: KernelSession\nmetadata: {{name: agent}}\nspec:\n  idleSeconds: 1\n  toolBrokerRef: {{name: bank}}\n",
        port = receiver.port()
    );
    std::fs::write(&path, text).unwrap();
    path
}

fn client() -> reqwest::Client {
    dormouse_service::telemetry::install_tls_provider();
    reqwest::Client::builder().timeout(Duration::from_secs(60)).build().unwrap()
}

async fn get(dev: &Dev, path: &str) -> Value {
    client().get(format!("{}{path}", dev.server)).send().await.unwrap().json().await.unwrap()
}

async fn begin(dev: &Dev, body: Value) -> Value {
    let request = client().post(format!("{}{SESSION}/eval", dev.server)).header("prefer", "respond-async");
    request.json(&body).send().await.unwrap().json().await.unwrap()
}

async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waited = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(90), waited).await.unwrap_or_else(|_| panic!("{what}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_named_is_told_of_runs_and_of_calls_that_wait() {
    let data = tempfile::tempdir().unwrap();
    let receiver = Receiver::default();
    let address = receiver.start("127.0.0.1:0".parse().unwrap()).await;
    let dev = Dev::start_of(data.path(), &manifest(data.path(), address));
    let own = json!({ "url": format!("http://{address}/own"), "secretRef": { "name": "events", "key": "secret" } });
    let run = begin(&dev, json!({ "code": "6 * 7", "idempotencyKey": "good", "webhook": own })).await;
    let done = receiver.told("the end of the run", |it| it["type"] == "completed" && it["data"]["run"] == run["run"]).await;
    assert_eq!((&done["data"]["preview"], &done["data"]["session"]), (&json!("42"), &json!("agent")), "{done}");
    eventually("both are told", async || receiver.got().iter().filter(|(_, body)| body["data"]["run"] == run["run"]).count() == 2).await;
    begin(&dev, json!({ "code": "throw new RangeError('no')", "idempotencyKey": "bad" })).await;
    let failed = receiver.told("the failure", |it| it["type"] == "failed").await;
    assert_eq!(failed["data"]["error"], json!({ "code": "UncaughtException", "name": "RangeError", "message": "no" }));
    begin(&dev, json!({ "code": "await callService('bank', { method: 'POST', path: '/pay' })", "idempotencyKey": "waits" })).await;
    let waits = receiver.told("the call that waits", |it| it["type"] == "approval_required").await;
    assert_eq!(waits["data"]["toolName"], json!("callService"), "{waits}");
    let id = waits["data"]["approvalId"].as_str().unwrap();
    let decided = dev.command(&["approvals", "--session", "agent", "deny", id], "");
    assert!(decided.status.success(), "{}{}", decided.out, decided.err);
    receiver
        .told("the denial's end", |it| it["data"]["error"]["name"] == "ApprovalDenied" || it["data"]["error"]["code"] == "ApprovalDenied")
        .await;
    // A run that somebody ends has failed, too.
    let ended = begin(&dev, json!({ "code": "await sleep(3_600_000)", "idempotencyKey": "ended" })).await;
    let id = ended["run"].as_str().unwrap();
    let cancel = client().post(format!("{}{SESSION}/runs/{id}/cancel", dev.server)).send().await.unwrap();
    assert!(cancel.status().is_success(), "{cancel:?}");
    let told = receiver.told("the end of the cancelled run", |it| it["data"]["run"] == ended["run"]).await;
    assert_eq!((&told["type"], &told["data"]["error"]["code"]), (&json!("failed"), &json!("Interrupted")), "{told}");
    // An eval that nobody accepts: no ToolBroker would deliver it.
    let other =
        client().post(format!("{}/v1/namespaces/default/sessions", dev.server)).json(&json!({ "name": "alone" })).send().await.unwrap();
    assert!(other.status().is_success());
    let refused = client().post(format!("{}/v1/namespaces/default/sessions/alone/eval", dev.server));
    assert_eq!(refused.json(&json!({ "code": "1", "webhook": own })).send().await.unwrap().status().as_u16(), 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_delivered_after_a_kill_and_again_on_request() {
    let data = tempfile::tempdir().unwrap();
    let receiver = Receiver::default();
    *receiver.broken.lock().unwrap() = true;
    let address = receiver.start("127.0.0.1:0".parse().unwrap()).await;
    let manifest = manifest(data.path(), address);
    let dev = Dev::start_of(data.path(), &manifest);
    for n in 0..5 {
        begin(&dev, json!({ "code": format!("{n}"), "idempotencyKey": format!("run-{n}") })).await;
    }
    // What was accepted is all that is needed.
    dev.kill();
    let dev = Dev::start_of(data.path(), &manifest);
    let deliveries = "/v1/namespaces/default/webhooks/deliveries";
    let failed = async || {
        let list = get(&dev, deliveries).await;
        let items = list["items"].as_array().unwrap().clone();
        items.into_iter().filter(|it| it["state"] == "Failed" && it["attempts"][0]["status"] == 410).collect::<Vec<_>>()
    };
    eventually("the far side is gone", async || failed().await.len() == 5).await;
    assert!(receiver.got().is_empty());
    *receiver.broken.lock().unwrap() = false;
    for item in failed().await {
        let id = item["id"].as_str().unwrap();
        let again = client().post(format!("{}{deliveries}/{id}/redeliver", dev.server)).send().await.unwrap();
        assert_eq!(again.status().as_u16(), 202);
        eventually("it is delivered", async || receiver.got().iter().any(|(got, _)| got == id)).await;
    }
    let mut previews: Vec<Value> = receiver.got().into_iter().map(|(_, body)| body["data"]["preview"].clone()).collect();
    previews.sort_by_key(Value::to_string);
    assert_eq!(previews, ["0", "1", "2", "3", "4"]);
    eventually("the history says so", async || {
        let list = get(&dev, &format!("{deliveries}?session=agent&broker=bank")).await;
        list["items"].as_array().unwrap().iter().all(|it| it["state"] == "Delivered" && it["attempts"].as_array().unwrap().len() == 2)
    })
    .await;
}

const SLEEPER: &str = "/v1/namespaces/default/sessions/sleeper";

fn manifest_of_sleepers(folder: &Path, receiver: SocketAddr) -> PathBuf {
    let path = folder.join("sleepers.yaml");
    let text = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: events}}\nstringData: {{secret: {SECRET}}}\n---\n\
         apiVersion: dormouse.dev/v1alpha1\nkind: ToolBroker\nmetadata: {{name: bank}}\nspec:\n  webhooks:\n    \
         - {{url: 'http://{receiver}/events', events: [session_created, session_woken, session_hibernated, session_failed], \
         secretRef: {{name: events, key: secret}}}}\n---\n\
         apiVersion: dormouse.dev/v1alpha1\nkind: KernelSession\nmetadata: {{name: sleeper}}\nspec:\n  idleSeconds: 1\n  toolBrokerRef: {{name: bank}}\n---\n\
         apiVersion: dormouse.dev/v1alpha1\nkind: KernelSession\nmetadata: {{name: broken}}\nspec:\n  toolBrokerRef: {{name: bank}}\n  \
         bootstrap: {{code: \"throw new Error('no such base')\"}}\n---\n\
         apiVersion: dormouse.dev/v1alpha1\nkind: KernelSession\nmetadata: {{name: quiet}}\nspec:\n  idleSeconds: 1\n"
    );
    std::fs::write(&path, text).unwrap();
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_named_is_told_what_becomes_of_a_session_each_time_once_and_across_a_kill() {
    let data = tempfile::tempdir().unwrap();
    let receiver = Receiver::default();
    let address = receiver.start("127.0.0.1:0".parse().unwrap()).await;
    let manifest = manifest_of_sleepers(data.path(), address);
    let mut dev = Dev::start_of(data.path(), &manifest);
    let failed = receiver.told("the failure", |it| it["type"] == "session_failed").await;
    assert_eq!(failed["data"]["session"], json!("broken"));
    assert!(failed["data"]["error"]["message"].as_str().unwrap().contains("no such base"), "{failed}");
    let told = |kind: &str| {
        let of = |body: &Value| body["type"] == kind && body["data"]["session"] == "sleeper";
        receiver.got().iter().filter(|(_, body)| of(body)).map(|(id, _)| id.clone()).collect::<std::collections::BTreeSet<_>>().len()
    };
    let all = || ["session_created", "session_woken", "session_hibernated"].map(told);
    eventually("a new session is told of, and that it sleeps", async || all() == [1, 0, 1]).await;
    for round in 1..=3 {
        let eval = client().post(format!("{}{SLEEPER}/eval", dev.server)).json(&json!({ "code": "1" })).send().await.unwrap();
        assert!(eval.status().is_success(), "{eval:?}");
        eventually("it woke, and sleeps again", async || all() == [1, round, round + 1]).await;
        if round == 2 {
            dev.kill();
            dev = Dev::start_of(data.path(), &manifest);
        }
    }
    // To look at it wakes nothing, and what only wakes to be looked at is not told of: no code of it ran.
    get(&dev, SLEEPER).await;
    let wake = client().post(format!("{}{SLEEPER}/wake", dev.server)).send().await.unwrap();
    assert!(wake.status().is_success(), "{wake:?}");
    eventually("it sleeps again", async || get(&dev, SLEEPER).await["state"] == "Hibernated").await;
    assert_eq!(all(), [1, 3, 4]);
    assert!(receiver.got().iter().all(|(_, body)| body["data"]["session"] != "quiet"), "it names no ToolBroker");
    let deliveries = get(&dev, "/v1/namespaces/default/webhooks/deliveries?session=sleeper").await;
    assert_eq!(deliveries["items"].as_array().unwrap().len(), 8, "{deliveries}");
}

/// Sessions that live shortly, and one that does not.
fn manifest_of_mortals(folder: &Path, receiver: SocketAddr) -> PathBuf {
    let path = folder.join("mortals.yaml");
    let text = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: events}}\nstringData: {{secret: {SECRET}, door: {DOOR}}}\n---\n\
         apiVersion: dormouse.dev/v1alpha1\nkind: ToolBroker\nmetadata: {{name: bank}}\nspec:\n  webhooks:\n    \
         - {{url: 'http://{receiver}/events', events: [session_expired, session_deleted], secretRef: {{name: events, key: secret}}, \
         secretHeaders: [{{name: Authorization, secretRef: {{name: events, key: door}}}}]}}\n---\n\
         apiVersion: dormouse.dev/v1alpha1\nkind: KernelSession\nmetadata: {{name: brief}}\nspec:\n  idleSeconds: 1\n  \
         ttl: {{activeSeconds: 3, retainedSeconds: 3600}}\n  toolBrokerRef: {{name: bank}}\n---\n\
         apiVersion: dormouse.dev/v1alpha1\nkind: KernelSession\nmetadata: {{name: briefer}}\nspec:\n  idleSeconds: 1\n  \
         ttl: {{activeSeconds: 3, retainedSeconds: 3}}\n  toolBrokerRef: {{name: bank}}\n---\n\
         apiVersion: dormouse.dev/v1alpha1\nkind: KernelSession\nmetadata: {{name: lasting}}\nspec:\n  idleSeconds: 1\n  toolBrokerRef: {{name: bank}}\n"
    );
    std::fs::write(&path, text).unwrap();
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_named_is_told_that_a_session_has_expired_or_is_deleted_once_and_across_a_kill() {
    let data = tempfile::tempdir().unwrap();
    let receiver = Receiver::default();
    *receiver.door.lock().unwrap() = Some(DOOR.to_owned());
    let address = receiver.start("127.0.0.1:0".parse().unwrap()).await;
    let manifest = manifest_of_mortals(data.path(), address);
    let dev = Dev::start_of(data.path(), &manifest);
    let of = |kind: &'static str, session: &'static str| move |body: &Value| body["type"] == kind && body["data"]["session"] == session;
    let expired = receiver.told("it has expired", of("session_expired", "brief")).await;
    let ms = |value: &Value| value.as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_millisecond();
    let kept_ms = ms(&expired["data"]["deletedAt"]) - ms(&expired["timestamp"]);
    assert_eq!(kept_ms, 3_600_000, "when it will be deleted: {expired}");
    receiver.told("it was kept for long enough", of("session_deleted", "briefer")).await;
    let lasting = "/v1/namespaces/default/sessions/lasting";
    let deleted = client().delete(format!("{}{lasting}", dev.server)).send().await.unwrap();
    assert!(deleted.status().is_success(), "{deleted:?}");
    dev.kill();

    let dev = Dev::start_of(data.path(), &manifest);
    receiver.told("somebody has deleted it", of("session_deleted", "lasting")).await;
    // The next process looks at what has expired, too, and tells the same message. What follows it is told later.
    let last = json!({ "name": "last", "spec": { "idleSeconds": 1, "ttl": { "activeSeconds": 1 }, "toolBrokerRef": { "name": "bank" } } });
    let made = client().post(format!("{}/v1/namespaces/default/sessions", dev.server)).json(&last).send().await.unwrap();
    assert!(made.status().is_success(), "{made:?}");
    let told = receiver.told("the last one has expired", of("session_expired", "last")).await;
    assert_eq!(told["data"].get("deletedAt"), None, "it is kept: {told}");
    let ids = |kind: &'static str, session: &'static str| {
        let is = of(kind, session);
        receiver.got().iter().filter(|(_, body)| is(body)).map(|(id, _)| id.clone()).collect::<std::collections::BTreeSet<_>>()
    };
    for (kind, session) in [("session_expired", "brief"), ("session_deleted", "lasting")] {
        assert_eq!(ids(kind, session).len(), 1, "{kind} {session}: {:?}", receiver.got());
    }
    assert!(ids("session_expired", "lasting").is_empty() && ids("session_deleted", "brief").is_empty());
    let deliveries = get(&dev, "/v1/namespaces/default/webhooks/deliveries?broker=bank").await;
    assert!(!deliveries.to_string().contains("let-me-in"), "nobody is shown what lets a message in: {deliveries}");
}
