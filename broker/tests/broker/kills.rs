//! SIGKILL of the broker's process at every step of a call, for many calls at once: one effect, one result, always an answer.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::Path,
    process::Command,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, extract::State, http::HeaderMap, routing::post};
use dormouse_protocol::{
    ErrorBody, ErrorCode,
    broker::{ToolAnswer, ToolCall},
};
use dormouse_service::{
    ca::{Ca, LEAF_VALIDITY},
    tls::{Identity, PeerClient, Process as Peer, TlsFiles},
};
use dormouse_testkit::{
    minio::Minio,
    process::{Process, free_port},
    proxy::{FaultProxy, Hold},
    soak,
    wait::eventually,
};
use reqwest::Method;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

use crate::world::call;

/// Calls of each kind that are at a step when the process dies.
const CALLS: u64 = 50;
/// How long a call may take until its answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Where a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Its intent is on the way to the store, and does not arrive.
    Intent,
    /// Its intent is stored, and the broker does not know it yet.
    IntentStored,
    /// The service has done it, and does not answer.
    Asked,
    /// The service has answered; the answer is on the way to the store, and does not arrive.
    Outcome,
    /// The answer is stored, and the broker does not know it yet.
    OutcomeStored,
    /// It is answered.
    Answered,
}

impl Step {
    const ALL: [Self; 6] = [Self::Intent, Self::IntentStored, Self::Asked, Self::Outcome, Self::OutcomeStored, Self::Answered];

    fn hold(self) -> Option<Hold> {
        let put = |nth, forwarded| Some(Hold { method: "PUT", path_end: "/calls", nth, forwarded });
        match self {
            Self::Intent => put(1, false),
            Self::IntentStored => put(1, true),
            Self::Outcome => put(2, false),
            Self::OutcomeStored => put(2, true),
            Self::Asked | Self::Answered => None,
        }
    }

    /// Whether a service that makes two requests of one key twice has done the call, and what the call's promise hears.
    fn expected(self) -> (bool, Option<ErrorCode>) {
        match self {
            // Nobody knows of it: the next broker makes it.
            Self::Intent => (true, None),
            Self::IntentStored => (false, Some(ErrorCode::OutcomeUnknown)),
            Self::Asked | Self::Outcome => (true, Some(ErrorCode::OutcomeUnknown)),
            Self::OutcomeStored | Self::Answered => (true, None),
        }
    }
}

/// A service that counts what it does, by the call's key, and answers or not.
#[derive(Clone, Default)]
pub struct Effects {
    by_key: Arc<Mutex<BTreeMap<String, usize>>>,
    silent: Arc<Mutex<bool>>,
}

impl Effects {
    async fn start(&self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let routes = Router::new().route("/do", post(done)).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        format!("http://{address}")
    }

    pub fn forget(&self) {
        self.by_key.lock().unwrap().clear();
    }

    pub fn requests(&self) -> usize {
        self.by_key.lock().unwrap().values().sum()
    }
}

async fn done(State(effects): State<Effects>, headers: HeaderMap) -> String {
    let key = headers["idempotency-key"].to_str().unwrap().to_owned();
    *effects.by_key.lock().unwrap().entry(key.clone()).or_default() += 1;
    if *effects.silent.lock().unwrap() {
        std::future::pending::<()>().await;
    }
    json!({ "receipt": key }).to_string()
}

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// A broker's process, and how it is asked.
pub struct Far {
    folder: tempfile::TempDir,
    endpoint: String,
    kernel: PeerClient,
    gateway: PeerClient,
}

impl Far {
    fn new(service: &str, minio: &Minio, endpoint: String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ca = Ca::generate().unwrap();
        let issue = |name: String| ca.issue(&[name], LEAF_VALIDITY).unwrap();
        let pem = issue(own().dns_name());
        for (name, text) in [("ca.crt", &pem.ca), ("tls.crt", &pem.cert), ("tls.key", &pem.key)] {
            write(folder.path(), &format!("tls/{name}"), text);
        }
        let credentials = minio.credentials();
        write(folder.path(), "storage/accessKeyId", &credentials.access_key_id);
        write(folder.path(), "storage/secretAccessKey", &credentials.secret_access_key);
        let at = |name: &str, keyed: bool| json!({ "name": name, "baseUrl": service, "allowedMethods": ["POST"], "honoursIdempotencyKey": keyed });
        let tool = |name: &str| json!({ "name": name, "service": name, "method": "POST", "path": "/do", "timeoutMs": 1_500 });
        let transfer =
            json!({ "name": "transfer", "service": "once", "method": "POST", "path": "/do", "timeoutMs": 1_500, "approval": "Always" });
        let render = json!({ "name": "render", "runner": { "capability": "browser" } });
        let spec = json!({
            "services": [at("once", false), at("keyed", true)],
            "tools": [tool("once"), tool("keyed"), transfer, render],
        });
        write(folder.path(), "broker.yaml", &spec.to_string());
        let client = |identity| PeerClient::new(TlsFiles::from_pem(&issue(identity)).unwrap()).unwrap();
        let kernel = client(Identity::of_pool("team-a", "default"));
        let gateway = client(Identity::new(Peer::Gateway, "dormouse-system", "gateway").dns_name());
        Self { folder, endpoint, kernel, gateway }
    }

    pub async fn start(&self) -> (Process, SocketAddr) {
        let free = || SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
        let (listen, admin) = (free(), free());
        let path = |name: &str| self.folder.path().join(name);
        let mut command = Command::new(env!("CARGO_BIN_EXE_dormouse-broker"));
        command.args(["--namespace", "team-a", "--name", "tools", "--s3-bucket", "calls", "--s3-endpoint", &self.endpoint]);
        command.args(["--listen", &listen.to_string(), "--admin-listen", &admin.to_string()]);
        for (flag, name) in
            [("--config", "broker.yaml"), ("--secrets-dir", "secrets"), ("--tls-dir", "tls"), ("--s3-credentials-dir", "storage")]
        {
            command.arg(flag).arg(path(name));
        }
        let process = Process::start(command, &path("log")).unwrap();
        let ready = format!("http://{admin}/readyz");
        eventually("the broker is ready", async || reqwest::get(&ready).await.is_ok_and(|answer| answer.status() == 200)).await;
        (process, listen)
    }

    /// One order of a gateway's; `None` when nothing comes back, or it is refused.
    pub async fn order<A: DeserializeOwned>(&self, address: SocketAddr, path: &str, body: &impl Serialize) -> Option<A> {
        let request = self.gateway.request(Method::POST, &own(), &address.to_string(), path).timeout(ANSWER_TIMEOUT);
        request.json(body).send().await.ok()?.error_for_status().ok()?.json().await.ok()
    }

    /// One sending; `None` when nothing comes back.
    pub async fn ask(&self, address: SocketAddr, call: &ToolCall) -> Option<Result<ToolAnswer, ErrorCode>> {
        let request = self.kernel.request(Method::POST, &own(), &address.to_string(), "/v1/call").timeout(ANSWER_TIMEOUT);
        let response = request.json(call).send().await.ok()?;
        if response.status().is_success() {
            return Some(Ok(response.json().await.ok()?));
        }
        Some(Err(response.json::<ErrorBody>().await.ok()?.error.code))
    }
}

/// All that a broker's process has to do with.
pub struct Parts {
    _minio: Minio,
    pub proxy: FaultProxy,
    pub effects: Effects,
    pub far: Arc<Far>,
}

impl Parts {
    pub async fn start() -> Self {
        dormouse_service::telemetry::install_tls_provider();
        let minio = Minio::start().await.unwrap();
        minio.create_bucket("calls").await.unwrap();
        let proxy = FaultProxy::start(&minio.endpoint()).await.unwrap();
        let effects = Effects::default();
        let far = Arc::new(Far::new(&effects.start().await, &minio, proxy.endpoint()));
        Self { _minio: minio, proxy, effects, far }
    }
}

fn own() -> Identity {
    Identity::new(Peer::Broker, "team-a", "tools")
}

/// The calls of a round: each of a session of its own.
fn calls(step: Step, round: u64) -> Vec<ToolCall> {
    let of = |tool: &'static str| {
        (0..CALLS).map(move |number| ToolCall { session_uid: format!("{step:?}-{round}-{tool}-{number}"), ..call(2, tool, json!({})) })
    };
    of("once").chain(of("keyed")).collect()
}

/// What the code hears.
fn heard(answer: Option<Result<ToolAnswer, ErrorCode>>) -> Result<String, ErrorCode> {
    match answer.expect("there is always an answer") {
        Ok(ToolAnswer::Ok { value }) => Ok(value["receipt"].as_str().unwrap().to_owned()),
        Ok(ToolAnswer::Err { error }) => Err(error.code),
        Ok(other) => panic!("{other:?}"),
        Err(code) => Err(code),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_killed_at_any_step_of_a_call_has_one_effect_and_one_result() {
    let Parts { proxy, effects, far, .. } = &Parts::start().await;
    let (mut broker, mut address) = far.start().await;
    let rounds = soak::count(1, 50);
    for (round, step) in (0..rounds).flat_map(|round| Step::ALL.map(|step| (round, step))) {
        let calls = calls(step, round);
        // Of a session without a page nobody knows whether it has had one.
        let before = calls.iter().map(|second| {
            let (first, far) = (ToolCall { call: 1, ..second.clone() }, Arc::clone(far));
            async move { heard(far.ask(address, &first).await) }
        });
        assert!(futures::future::join_all(before).await.iter().all(Result::is_ok), "{step:?}");
        effects.forget();
        *effects.silent.lock().unwrap() = step == Step::Asked;
        proxy.hold(step.hold());
        let asked: Vec<_> = calls
            .iter()
            .cloned()
            .map(|call| {
                let far = Arc::clone(far);
                tokio::spawn(async move { far.ask(address, &call).await })
            })
            .collect();
        let reached = async || match step {
            Step::Answered => asked.iter().all(tokio::task::JoinHandle::is_finished),
            Step::Asked => effects.requests() == calls.len(),
            _ => proxy.held() == calls.len(),
        };
        eventually(&format!("all calls are at {step:?}"), reached).await;
        broker.kill();
        proxy.hold(None);
        *effects.silent.lock().unwrap() = false;
        for first in asked {
            assert_eq!(first.await.unwrap().is_some(), step == Step::Answered, "{step:?}: nothing comes of one that was killed");
        }

        (broker, address) = far.start().await;
        // A pod that does not know what came asks again, and so does the one after it.
        let mut results = Vec::new();
        for epoch in 2..4 {
            let again = calls.iter().map(|call| {
                let again = ToolCall { repeated: true, epoch, ..call.clone() };
                let far = Arc::clone(far);
                async move { heard(far.ask(address, &again).await) }
            });
            results.push(futures::future::join_all(again).await);
        }
        assert_eq!(results[0], results[1], "{step:?}: there is one result");
        let (is_done, code) = step.expected();
        let (once, keyed) = results[0].split_at(calls.len() / 2);
        assert!(once.iter().all(|result| result.as_ref().err() == code.as_ref()), "{step:?}: {:?}", once.first());
        let unanswered = keyed.iter().find(|result| result.is_err());
        assert!(unanswered.is_none(), "{step:?}: a service that knows keys always answers: {unanswered:?}");
        let by_key = effects.by_key.lock().unwrap().clone();
        assert_eq!(by_key.len(), if is_done { calls.len() } else { keyed.len() }, "{step:?}: who has an effect");
        for receipt in once.iter().flatten() {
            assert_eq!(by_key.get(receipt), Some(&1), "{step:?}: one effect");
        }
        let most = by_key.values().max().copied().unwrap_or(0);
        assert!(most <= 2, "{step:?}: a keyed call is sent twice at most, and counts once");
        let keyed_receipts: std::collections::BTreeSet<_> = keyed.iter().flatten().collect();
        assert!(by_key.iter().all(|(key, sent)| *sent == 1 || keyed_receipts.contains(key)), "{step:?}: nothing else is sent twice");
    }
    soak::report(&format!(
        "SIGKILL of the broker {rounds} times at each of {} steps, {} calls under way each time: one effect and one result each",
        Step::ALL.len(),
        2 * CALLS
    ));
}
