//! Pods over one store in one process, and waiting for what they report.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, and not every test uses everything here"
)]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use dormouse_crds::session::KernelSessionSpec;
use dormouse_engine::{Engine, EngineOptions, Engines};
use dormouse_kernel::{Environment, GrantedStore, Grants, Pod, PodConfig, Role, Tools, growth};
use dormouse_protocol::broker::{BodyAnswer, BodyCall, StreamedAnswer, ToolAnswer, ToolCall};
use dormouse_protocol::eval::{EvalRequest, EvalResult};
use dormouse_protocol::kernel::{Assignment, EvalCall, Grant, GrantedCertificate, GrantedStorage, ReportLine, SessionReport};
use dormouse_protocol::{ApiError, ErrorCode};
use dormouse_seal::{Keyring, Keys, Seal};
use dormouse_service::memory::Memory;
use dormouse_store::SnapshotStore;
pub use dormouse_testkit::store::Faulty;
pub use dormouse_testkit::wait::PATIENCE;
use futures::StreamExt as _;
use tokio::sync::watch;

static ENGINE: LazyLock<Engine> = LazyLock::new(|| Engine::new(EngineOptions::for_user()).expect("the engine loads"));

static EARLIER: LazyLock<Engine> = LazyLock::new(|| Engine::twin(1).expect("the engine loads"));

/// An engine that is not the current one.
pub fn earlier() -> Engine {
    EARLIER.clone()
}

/// The engines of a build that comes after [`earlier`].
pub fn upgraded() -> Engines {
    Engines::with_earlier(ENGINE.clone(), vec![earlier()])
}

/// Bytes of the first part of a large answer.
pub const TORN_BYTES: usize = 300_000;

/// Tools with a journal, as a broker has one: `echo` answers its arguments, `slow` waits for [`FakeTools::open`], and the large answers of `torn` and
/// `tornOnce` are lost half way unless they are asked for again.
pub struct FakeTools {
    journal: Mutex<BTreeSet<(String, u64)>>,
    /// Calls that arrived, and whether each said that it is repeated.
    attempts: watch::Sender<Vec<bool>>,
    /// The ids of the requests on whose behalf they came.
    pub request_ids: Mutex<Vec<Option<String>>>,
    /// Calls that had an effect.
    pub effects: AtomicUsize,
    open: watch::Sender<bool>,
}

impl Default for FakeTools {
    fn default() -> Self {
        Self {
            journal: Mutex::default(),
            attempts: watch::channel(Vec::new()).0,
            request_ids: Mutex::default(),
            effects: AtomicUsize::new(0),
            open: watch::channel(false).0,
        }
    }
}

impl FakeTools {
    /// Lets `slow` answer.
    pub fn open(&self) {
        self.open.send_replace(true);
    }

    /// Waits until so many calls have arrived; answers which of all said that they are repeated.
    pub async fn attempts(&self, wanted: usize) -> Vec<bool> {
        let mut attempts = self.attempts.subscribe();
        tokio::time::timeout(PATIENCE, attempts.wait_for(|seen| seen.len() >= wanted)).await.expect("the call arrives").unwrap().clone()
    }
}

#[async_trait]
impl Tools for FakeTools {
    async fn call(&self, broker: &str, call: ToolCall) -> Result<ToolAnswer, ApiError> {
        assert_eq!(broker, "tools");
        if self.journal.lock().unwrap().insert((call.session_uid.clone(), call.call)) {
            self.effects.fetch_add(1, Ordering::SeqCst);
        }
        self.request_ids.lock().unwrap().push(dormouse_service::origin::request_id().map(|id| id.to_string()));
        self.attempts.send_modify(|attempts| attempts.push(call.repeated));
        match call.tool.as_str() {
            "slow" => {
                self.open.subscribe().wait_for(|open| *open).await.unwrap();
                Ok(ToolAnswer::Ok { value: call.args })
            }
            "echo" => Ok(ToolAnswer::Ok { value: call.args }),
            torn @ ("torn" | "tornOnce") => {
                assert!(call.stream_above.is_some(), "a pod takes parts");
                let stream = StreamedAnswer { mime_type: "text/plain; charset=utf-8".to_owned(), repeatable: torn == "torn" };
                Ok(ToolAnswer::Stream { stream })
            }
            other => Ok(ToolAnswer::Err { error: ApiError::new(ErrorCode::ToolNotFound, format!("no tool {other}")) }),
        }
    }

    async fn body(&self, _broker: &str, call: BodyCall) -> Result<BodyAnswer, ApiError> {
        let again = self.attempts.borrow().last() == Some(&true);
        let part = |text: String, last| BodyAnswer::Part { bytes: STANDARD.encode(text), last };
        Ok(match call.part {
            0 => part("a".repeat(TORN_BYTES), false),
            1 if again => part("end".to_owned(), true),
            _ => BodyAnswer::Lost {},
        })
    }
}

/// A store, tools, and pods over them.
#[derive(Clone, Default)]
pub struct World {
    pub store: Arc<Faulty>,
    pub tools: Arc<FakeTools>,
    /// The keys that dedicated pods were given and have put into use.
    pub keys_in_use: Arc<Mutex<Vec<String>>>,
}

/// A key that no pod can use.
pub const UNUSABLE_KEY: &str = "unusable";

/// What a grant puts behind the store of a dedicated pod.
struct Given {
    world: World,
    store: Arc<GrantedStore>,
}

impl Grants for Given {
    fn apply(&self, grant: &Grant) -> Result<(), ApiError> {
        let key = &grant.storage.access_key_id;
        if key == UNUSABLE_KEY {
            return Err(ApiError::new(ErrorCode::InvalidRequest, "the key cannot be used"));
        }
        self.world.keys_in_use.lock().unwrap().push(key.clone());
        self.store.replace(Arc::<Faulty>::clone(&self.world.store));
        Ok(())
    }
}

impl World {
    pub fn pod(&self, name: &str) -> Pod {
        self.pod_with(name, 10)
    }

    pub fn pod_with(&self, name: &str, slots: u32) -> Pod {
        self.pod_of(name, slots, ENGINE.clone())
    }

    /// A pod that runs one session in its life, whatever it is told of slots and copies, and has nothing before it is [granted](grant) that.
    pub fn dedicated_pod(&self, name: &str) -> Pod {
        let store = Arc::new(GrantedStore::default());
        let given = Given { world: self.clone(), store: Arc::clone(&store) };
        self.pod_as(Role::Dedicated(Arc::new(given)), name, store)
    }

    /// A pod that tells what is stored, whatever it is told of slots.
    pub fn reader(&self, name: &str) -> Pod {
        self.pod_as(Role::Reader, name, Arc::<Faulty>::clone(&self.store))
    }

    fn pod_as(&self, role: Role, name: &str, store: Arc<dyn SnapshotStore>) -> Pod {
        Pod::new(PodConfig { role, ..config(name, 10) }, ENGINE.clone(), store, Arc::<FakeTools>::clone(&self.tools)).unwrap()
    }

    /// A pod with so much memory.
    pub fn pod_with_memory(&self, memory: &Memory, slots: u32) -> Pod {
        let options = EngineOptions { growth: Some(growth(memory.clone(), slots)), ..EngineOptions::for_user() };
        let environment = Environment { memory: memory.clone(), ..Environment::default() };
        self.pod_within("a", slots, Engines::new(options).unwrap(), environment)
    }

    /// A pod over another store.
    pub fn pod_over(&self, name: &str, store: Arc<dyn SnapshotStore>) -> Pod {
        self.pod_with_parts(name, 10, ENGINE.clone(), store)
    }

    /// A pod that encrypts.
    pub fn sealing_pod(&self, name: &str, keys: Keys) -> Pod {
        self.pod_that_seals(name, Seal::new("team", keys))
    }

    /// A pod that encrypts so.
    pub fn pod_that_seals(&self, name: &str, seal: Seal) -> Pod {
        let config = config(name, 10);
        let store = Arc::<Faulty>::clone(&self.store);
        Pod::sealing(config, ENGINE.clone(), store, Arc::<FakeTools>::clone(&self.tools), seal).unwrap()
    }

    /// A pod with these engines.
    pub fn pod_of(&self, name: &str, slots: u32, engines: impl Into<Engines>) -> Pod {
        self.pod_with_parts(name, slots, engines, Arc::<Faulty>::clone(&self.store))
    }

    /// A pod with these engines in this environment.
    pub fn pod_within(&self, name: &str, slots: u32, engines: impl Into<Engines>, environment: Environment) -> Pod {
        let store = Arc::<Faulty>::clone(&self.store);
        Pod::within(config(name, slots), engines, store, Arc::<FakeTools>::clone(&self.tools), Seal::none(), environment).unwrap()
    }

    fn pod_with_parts(&self, name: &str, slots: u32, engines: impl Into<Engines>, store: Arc<dyn SnapshotStore>) -> Pod {
        Pod::new(config(name, slots), engines, store, Arc::<FakeTools>::clone(&self.tools)).unwrap()
    }
}

fn config(name: &str, slots: u32) -> PodConfig {
    PodConfig {
        pod: name.to_owned(),
        namespace: "team".to_owned(),
        pool: "default".to_owned(),
        slots,
        cache_bytes: 64 << 20,
        store_prefix: "p/".to_owned(),
        role: Role::Shared,
    }
}

/// What the operator gives this pod for a session, with a key of this name.
pub fn grant(pod: &Pod, uid: &str, key: &str) -> Grant {
    let storage =
        GrantedStorage { access_key_id: key.to_owned(), secret_access_key: "hush".to_owned(), session_token: None, expiration: None };
    let certificate = GrantedCertificate { ca: String::new(), cert: String::new(), key: String::new() };
    Grant { uid: uid.to_owned(), boot: pod.info().boot, storage, certificate }
}

/// Keys whose bytes follow from their ids.
pub fn keys(ids: &[&str], current: &str) -> Keys {
    let keys: Vec<[u8; 32]> = ids.iter().map(|id| [id.bytes().fold(0x80, u8::wrapping_add) | 0x80; 32]).collect();
    let entries = ids.iter().copied().zip(keys.iter().map(|key| &key[..]));
    Keys::fixed(Keyring::parse(entries.chain([("current", current.as_bytes())])).unwrap())
}

/// A spec that sleeps only when told to.
pub fn spec() -> KernelSessionSpec {
    KernelSessionSpec {
        idle_seconds: 3600,
        tool_broker_ref: Some(dormouse_crds::session::ToolBrokerRef::new("tools")),
        ..KernelSessionSpec::default()
    }
}

pub fn assign(pod: &Pod, uid: &str, epoch: u64) -> Assignment {
    assign_spec(pod, uid, epoch, spec())
}

pub fn assign_spec(pod: &Pod, uid: &str, epoch: u64, spec: KernelSessionSpec) -> Assignment {
    Assignment {
        namespace: "team".to_owned(),
        name: format!("session-{uid}"),
        uid: uid.to_owned(),
        epoch,
        boot: pod.info().boot,
        generation: 1,
        spec,
        source_uid: None,
        anchor: None,
        source_anchor: None,
    }
}

pub fn call(assignment: &Assignment, code: &str, key: &str) -> EvalCall {
    EvalCall {
        assignment: assignment.clone(),
        eval: EvalRequest { code: code.to_owned(), idempotency_key: Some(key.to_owned()), ..EvalRequest::default() },
        request_id: String::new(),
        run: false,
        lost: false,
    }
}

/// Runs a cell under a key of its own, which must be answered.
pub async fn eval(pod: &Pod, assignment: &Assignment, code: &str) -> EvalResult {
    try_eval(pod, assignment, code).await.unwrap_or_else(|error| panic!("{code}: {error}"))
}

pub async fn try_eval(pod: &Pod, assignment: &Assignment, code: &str) -> Result<EvalResult, ApiError> {
    static KEYS: AtomicUsize = AtomicUsize::new(0);
    let key = format!("key-{}", KEYS.fetch_add(1, Ordering::SeqCst));
    tokio::time::timeout(PATIENCE, pod.eval(call(assignment, code, &key))).await.expect("the cell is answered")
}

/// Does something while a session is woken again and again, so that it does not rest: it would store something then.
pub async fn without_rest<T>(pod: &Pod, assignment: &Assignment, what: impl Future<Output = T>) -> T {
    let (mut what, mut ticks) = (std::pin::pin!(what), tokio::time::interval(Duration::from_millis(50)));
    loop {
        tokio::select! {
            done = &mut what => return done,
            _ = ticks.tick() => drop(pod.wake(assignment.clone()).await.unwrap()),
        }
    }
}

/// Runs a cell whose value is wanted.
pub async fn value(pod: &Pod, assignment: &Assignment, code: &str) -> serde_json::Value {
    let result = eval(pod, assignment, code).await;
    assert!(result.ok, "{code}: {:?}", result.error);
    result.value.unwrap_or(serde_json::Value::Null)
}

/// What a metric of the pod says; 0 when it never counted. `name` has its labels and not the prefix that all have.
pub fn metric(pod: &Pod, name: &str) -> u64 {
    let (line, text) = (format!("dormouse_{name} "), pod.metrics().render().unwrap());
    text.lines().find_map(|found| found.strip_prefix(&line)?.parse().ok()).unwrap_or(0)
}

/// Waits until the pod reports the session so.
pub async fn until(pod: &Pod, uid: &str, wanted: impl Fn(&SessionReport) -> bool) -> SessionReport {
    let mut lines = Box::pin(pod.report());
    let wait = async {
        loop {
            match lines.next().await.expect("the report goes on") {
                ReportLine::Session(report) if report.uid == uid && wanted(&report) => return *report,
                _ => {}
            }
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("the pod reports what is awaited")
}

/// Waits until the pod's store has passed its probe: a real one on a busy machine may take longer than a request waits for that.
pub async fn ready(pod: &Pod) {
    let wait = async {
        while !pod.readiness().is_ready() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("{:?}", pod.readiness().reasons()));
}

/// Waits until every timer of the session is delivered. What the session itself answers is true; a report may be of a moment before.
pub async fn timers_done(pod: &Pod, on: &Assignment) {
    while pod.wake(on.clone()).await.unwrap().next_wake_time.is_some() {
        until(pod, &on.uid, |report| report.next_wake_time.is_none()).await;
    }
}
