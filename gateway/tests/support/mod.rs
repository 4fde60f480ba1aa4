//! A gateway on a folder, with kernel pods that answer as they are told over real mutual TLS.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod issuer;

use std::{
    collections::{HashSet, VecDeque},
    net::SocketAddr,
    ops::RangeInclusive,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Json, Router,
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use dormouse_crds::session::SnapshotStatus;
use dormouse_gateway::{
    Directory, Gateway, Kernels,
    auth::{Authenticator, loopback::Loopback},
    directory::folder::{FolderDirectory, StaticPod},
};
use dormouse_protocol::{
    ApiError, ErrorBody, ErrorCode,
    eval::EvalResult,
    event::{Event, EventBody, PROTOCOL_VERSION},
    history::{Checkpoint, CheckpointList, Difference, JournalBody, JournalEntry, JournalPage},
    kernel::{
        Assignment, CLAIM_HEADER, CheckpointCall, DifferenceCall, EvalCall, EventsCall, JournalCall, McpCatalog, PodInfo, ReportLine,
        ResetCall, RestoreCall, SessionReport, StoredCall, StoredStatus, WaitingCall,
    },
    run::{Run, RunList},
    session::State as SessionState,
};
use dormouse_service::{
    ca::{Ca, LEAF_VALIDITY},
    telemetry::install_tls_provider,
    tls::{Identity, PeerClient, Process, Server, TlsFiles, require},
};
use futures::StreamExt as _;
use tokio::{net::TcpListener, sync::Notify};
use tokio_util::sync::CancellationToken;

/// What a fake pod does with the next eval.
#[derive(Debug, Clone)]
pub enum Answer {
    Ok,
    Refuse(ErrorCode),
    /// The session is gone, and this epoch has it.
    TakenOver(u64),
    /// An NDJSON stream that stops before `final`.
    CutOff,
    /// An NDJSON stream whose end comes when this is told.
    Held(Arc<Notify>),
    /// The process has ended, if fewer than so many have by now: this connection breaks, and nothing is answered from here on.
    DiesAmong(Arc<AtomicUsize>, usize),
    /// A cell's answer, or its last event, of so many MiB.
    Large(usize),
    /// The first event, and then nothing more.
    Waits,
}

pub struct FakePod {
    pub name: &'static str,
    pub boot: String,
    pub slots: u32,
    pub evals: Mutex<Vec<EvalCall>>,
    /// Whether it has ended.
    pub dead: AtomicBool,
    /// Whether it refuses sessions beyond its slots.
    pub strict: AtomicBool,
    /// Whether its memory has no room for another session: it says so, and refuses.
    pub exhausted: AtomicBool,
    /// Uids of the sessions that it runs, when it counts them.
    pub held: Mutex<HashSet<String>>,
    /// Uids of those that it was told to be waiting.
    pub waiting: Mutex<HashSet<String>>,
    pub wakes: Mutex<Vec<Assignment>>,
    /// How often it was asked how it is.
    pub infos: AtomicUsize,
    pub hibernates: AtomicUsize,
    pub forgets: AtomicUsize,
    /// Lines for whoever follows the pod's reports.
    pub reports: tokio::sync::broadcast::Sender<String>,
    pub answers: Mutex<VecDeque<Answer>>,
    /// What the next wakes are refused with.
    pub wake_refusals: Mutex<VecDeque<ErrorCode>>,
    pub restores: Mutex<Vec<RestoreCall>>,
    /// How many of the next restores, checkpoints and removals are done and answered by a connection that breaks.
    pub lost: AtomicUsize,
    pub checkpoints: Mutex<Vec<CheckpointCall>>,
    pub removals: AtomicUsize,
    /// The numbers of the events that it keeps of any session.
    pub kept: Mutex<RangeInclusive<u64>>,
    /// The runs of any session.
    pub runs: Mutex<Vec<Run>>,
    /// What it reads of any session; `None`: its store does not answer.
    pub stored: Mutex<Option<StoredStatus>>,
    pub address: SocketAddr,
    /// Cells whose assignment was still being written when they came.
    pub claims: tokio::sync::watch::Sender<usize>,
    /// Of those, the ones whose assignment never came to be.
    pub withdrawn: tokio::sync::watch::Sender<usize>,
}

impl FakePod {
    pub fn evals(&self) -> Vec<EvalCall> {
        self.evals.lock().unwrap().clone()
    }

    /// The answer, or a connection that breaks before it.
    fn answer(&self, answer: impl IntoResponse) -> Response {
        let lost = self.lost.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |lost| lost.checked_sub(1)).is_ok();
        if lost { broken() } else { answer.into_response() }
    }
}

/// A connection that breaks.
fn broken() -> Response {
    let broken: [Result<bytes::Bytes, std::io::Error>; 2] = [Ok("{".into()), Err(std::io::Error::other("lost"))];
    Body::from_stream(futures::stream::iter(broken)).into_response()
}

/// One trust domain, with a certificate for whoever asks.
pub struct Trust(Ca);

impl Trust {
    pub fn new() -> Self {
        install_tls_provider();
        Self(Ca::generate().unwrap())
    }

    pub fn files(&self, process: Process, name: &str) -> TlsFiles {
        let name = match process {
            Process::Kernel => Identity::kernel("default", "default", name),
            _ => Identity::new(process, "default", name),
        }
        .dns_name();
        TlsFiles::from_pem(&self.0.issue(&[name], LEAF_VALIDITY).unwrap()).unwrap()
    }

    pub fn kernels(&self) -> Kernels {
        Kernels::new(PeerClient::new(self.files(Process::Gateway, "gateway")).unwrap())
    }

    /// The client that a folder follows pods with.
    pub fn operator(&self) -> Kernels {
        Kernels::new(PeerClient::new(self.files(Process::Operator, "operator")).unwrap())
    }

    pub async fn pod(&self, name: &'static str, slots: u32) -> Arc<FakePod> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let pod = Arc::new(FakePod {
            name,
            boot: format!("boot-{name}"),
            slots,
            evals: Mutex::default(),
            dead: AtomicBool::new(false),
            strict: AtomicBool::new(false),
            exhausted: AtomicBool::new(false),
            held: Mutex::default(),
            waiting: Mutex::default(),
            wakes: Mutex::default(),
            infos: AtomicUsize::new(0),
            hibernates: AtomicUsize::new(0),
            forgets: AtomicUsize::new(0),
            reports: tokio::sync::broadcast::Sender::new(64),
            answers: Mutex::default(),
            wake_refusals: Mutex::default(),
            restores: Mutex::default(),
            lost: AtomicUsize::new(0),
            checkpoints: Mutex::default(),
            removals: AtomicUsize::new(0),
            kept: Mutex::new(1..=1),
            runs: Mutex::default(),
            stored: Mutex::new(Some(StoredStatus::default())),
            address: listener.local_addr().unwrap(),
            claims: tokio::sync::watch::Sender::new(0),
            withdrawn: tokio::sync::watch::Sender::new(0),
        });
        let gateway = Router::new()
            .route("/v1/info", get(info))
            .route("/v1/waiting", post(waiting))
            .route("/v1/eval", post(eval))
            .route("/v1/wake", post(wake))
            .route("/v1/hibernate", post(hibernate))
            .route("/v1/restore", post(restore))
            .route("/v1/reset", post(reset))
            .route("/v1/interrupt", post(|| async { StatusCode::ACCEPTED }))
            .route("/v1/checkpoint", post(checkpoint))
            .route("/v1/files/remove", post(remove))
            .route("/v1/events", post(events))
            .route("/v1/runs/look", post(runs))
            .route("/v1/stored/mcp", post(catalog))
            .route("/v1/stored/checkpoints", post(checkpoints))
            .route("/v1/stored/journal", post(journal))
            .route("/v1/stored/difference", post(difference))
            .with_state(Arc::clone(&pod));
        let operator = Router::new()
            .route("/v1/forget", post(forget))
            .route("/v1/report", get(reports))
            .route("/v1/stored/status", post(stored_status))
            .with_state(Arc::clone(&pod));
        let router = require(gateway, &[Process::Gateway]).merge(require(operator, &[Process::Operator]));
        tokio::spawn(Server::new(self.files(Process::Kernel, name)).serve(listener, router, CancellationToken::new()));
        pod
    }
}

async fn info(State(pod): State<Arc<FakePod>>) -> Response {
    pod.infos.fetch_add(1, Ordering::SeqCst);
    if pod.dead.load(Ordering::SeqCst) {
        return broken();
    }
    let exhausted = pod.exhausted.load(Ordering::SeqCst);
    let held = u32::try_from(pod.held.lock().unwrap().len()).unwrap();
    Json(PodInfo {
        pod: pod.name.to_owned(),
        namespace: "default".to_owned(),
        boot: pod.boot.clone(),
        slots: pod.slots,
        used: if exhausted { pod.slots } else { held },
        idle: 0,
        engine_digest: "e".to_owned(),
        draining: false,
        exhausted,
    })
    .into_response()
}

async fn waiting(State(pod): State<Arc<FakePod>>, Json(call): Json<WaitingCall>) -> StatusCode {
    pod.waiting.lock().unwrap().insert(call.uid);
    StatusCode::NO_CONTENT
}

/// Whether the pod takes the session.
fn takes(pod: &FakePod, uid: &str) -> bool {
    let mut held = pod.held.lock().unwrap();
    let exhausted = pod.exhausted.load(Ordering::SeqCst);
    if !exhausted && (!pod.strict.load(Ordering::SeqCst) || held.contains(uid)) {
        return true;
    }
    let room = !exhausted && held.len() < pod.slots as usize;
    if room {
        held.insert(uid.to_owned());
    } else {
        pod.waiting.lock().unwrap().insert(uid.to_owned());
    }
    room
}

fn refuse(code: ErrorCode) -> Response {
    let status = StatusCode::from_u16(code.http_status()).unwrap();
    (status, Json(ErrorBody { error: ApiError::new(code, "as told") })).into_response()
}

pub fn result(preview: &str) -> EvalResult {
    EvalResult {
        ok: true,
        value: None,
        dropped: None,
        value_type: "number".to_owned(),
        preview: preview.to_owned(),
        display: Vec::new(),
        console: Vec::new(),
        error: None,
        cell: 1,
        sequence: 1,
        durable: true,
        idempotency_key: None,
        stats: Default::default(),
    }
}

fn event(assignment: &Assignment, seq: u64, body: EventBody) -> String {
    let session_id = dormouse_protocol::session::session_id(&assignment.uid);
    serde_json::to_string(&Event { protocol_version: PROTOCOL_VERSION, session_id, seq, body }).unwrap() + "\n"
}

/// The whole body; of a claim that is not withdrawn, if it was one.
async fn whole(pod: &Arc<FakePod>, headers: &HeaderMap, body: Body) -> Option<Vec<u8>> {
    let mut claimed = headers.contains_key(CLAIM_HEADER);
    let (mut chunks, mut bytes) = (body.into_data_stream(), Vec::new());
    while let Some(chunk) = chunks.next().await {
        match chunk {
            Ok(chunk) => bytes.extend_from_slice(&chunk),
            Err(_) => {
                pod.withdrawn.send_modify(|withdrawn| *withdrawn += 1);
                return None;
            }
        }
        if std::mem::take(&mut claimed) {
            pod.claims.send_modify(|claims| *claims += 1);
        }
    }
    Some(bytes)
}

async fn eval(State(pod): State<Arc<FakePod>>, headers: HeaderMap, body: Body) -> Response {
    // In a task of its own: a handler whose caller has gone is dropped.
    let (reader, sent) = (Arc::clone(&pod), headers.clone());
    let body = tokio::spawn(async move { whole(&reader, &sent, body).await }).await.unwrap();
    let Some(body) = body else { return refuse(ErrorCode::SessionGone) };
    let call: EvalCall = serde_json::from_slice(&body).unwrap();
    if pod.dead.load(Ordering::SeqCst) {
        return broken();
    }
    if !takes(&pod, &call.assignment.uid) {
        return refuse(ErrorCode::CapacityExhausted);
    }
    pod.evals.lock().unwrap().push(call.clone());
    let answer = pod.answers.lock().unwrap().pop_front().unwrap_or(Answer::Ok);
    let streamed = headers.get(header::ACCEPT).is_some_and(|accept| accept == "application/x-ndjson");
    match answer {
        Answer::Refuse(code) => refuse(code),
        Answer::TakenOver(epoch) => {
            let error = ApiError::new(ErrorCode::SessionGone, "as told").with_detail("epoch", epoch);
            (StatusCode::GONE, Json(ErrorBody { error })).into_response()
        }
        Answer::Large(mebibytes) => {
            let end = result(LARGE);
            let whole = if streamed {
                event(&call.assignment, 1, EventBody::Final { result: Box::new(end) })
            } else {
                serde_json::to_string(&end).unwrap()
            };
            large(mebibytes, &whole)
        }
        Answer::DiesAmong(deaths, dying) if deaths.fetch_add(1, Ordering::SeqCst) < dying => {
            pod.dead.store(true, Ordering::SeqCst);
            broken()
        }
        Answer::CutOff => Body::from(event(&call.assignment, 1, log())).into_response(),
        Answer::Waits if streamed => and_then_nothing(event(&call.assignment, 1, log())),
        Answer::Waits => std::future::pending().await,
        Answer::Held(release) => {
            let (first, end) =
                (event(&call.assignment, 1, log()), event(&call.assignment, 2, EventBody::Final { result: Box::new(result(pod.name)) }));
            let end = futures::stream::once(async move {
                release.notified().await;
                end
            });
            Body::from_stream(futures::stream::iter([first]).chain(end).map(Ok::<_, std::convert::Infallible>)).into_response()
        }
        Answer::Ok | Answer::DiesAmong(..) if streamed => {
            let end = EventBody::Final { result: Box::new(result(pod.name)) };
            Body::from(event(&call.assignment, 1, log()) + &event(&call.assignment, 2, end)).into_response()
        }
        Answer::Ok | Answer::DiesAmong(..) => Json(result(pod.name)).into_response(),
    }
}

fn log() -> EventBody {
    EventBody::Log { level: "log".to_owned(), text: "hello".to_owned() }
}

/// A stream that has no end.
fn and_then_nothing(begin: String) -> Response {
    let begin = futures::stream::iter([Ok::<_, std::convert::Infallible>(begin)]);
    Body::from_stream(begin.chain(futures::stream::pending())).into_response()
}

async fn events(State(pod): State<Arc<FakePod>>, Json(call): Json<EventsCall>) -> Response {
    let kept = pod.kept.lock().unwrap().clone();
    let next = call.after.map_or(*kept.start(), |after| after + 1);
    if next < *kept.start() {
        let error = ApiError::new(ErrorCode::EventsExpired, "as told").with_detail("oldest", *kept.start());
        return (StatusCode::GONE, Json(ErrorBody { error })).into_response();
    }
    let first = if call.fresh { kept.end() + 1 } else { next };
    let lines: String = (first..=*kept.end()).map(|seq| event(&call.assignment, seq, log())).collect();
    if call.follow { and_then_nothing(lines) } else { Body::from(lines).into_response() }
}

async fn runs(State(pod): State<Arc<FakePod>>) -> Json<RunList> {
    Json(RunList { items: pod.runs.lock().unwrap().clone(), ..RunList::default() })
}

async fn catalog() -> Json<McpCatalog> {
    Json(McpCatalog::default())
}

/// What stands for a long text.
const LARGE: &str = "large";

fn large(mebibytes: usize, whole: &str) -> Response {
    let (before, after) = whole.split_once(LARGE).unwrap();
    let (before, after) = (before.to_owned(), after.to_owned());
    let block = bytes::Bytes::from(vec![b'x'; 1 << 20]);
    let middle = futures::stream::iter(std::iter::repeat_n(block, mebibytes));
    let start = futures::stream::iter([bytes::Bytes::from(before)]);
    let end = futures::stream::iter([bytes::Bytes::from(after)]);
    Body::from_stream(start.chain(middle).chain(end).map(Ok::<_, std::convert::Infallible>)).into_response()
}

fn report(assignment: &Assignment, state: SessionState) -> Json<SessionReport> {
    Json(SessionReport {
        namespace: assignment.namespace.clone(),
        name: assignment.name.clone(),
        uid: assignment.uid.clone(),
        epoch: assignment.epoch,
        state,
        holds_slot: state != SessionState::Hibernated,
        failure: None,
        generation: assignment.generation,
        heap_bytes: 1,
        snapshot: Some(SnapshotStatus {
            epoch: 1,
            encrypted: false,
            sequence: 1,
            bytes: 1,
            engine_digest: "e".to_owned(),
            time: "t".to_owned(),
        }),
        last_active_time: None,
        next_wake_time: None,
        cells: 0,
        tool_calls: 0,
        approvals: 0,
        jobs: 0,
        hostcalls: 0,
        mcp_tools: 0,
    })
}

fn told(pod: &FakePod, report: Json<SessionReport>) -> Json<SessionReport> {
    let line = ReportLine::Session(Box::new(report.0.clone()));
    // Nobody may be following.
    let _ = pod.reports.send(serde_json::to_string(&line).unwrap() + "\n");
    report
}

async fn wake(State(pod): State<Arc<FakePod>>, Json(assignment): Json<Assignment>) -> Response {
    pod.wakes.lock().unwrap().push(assignment.clone());
    match pod.wake_refusals.lock().unwrap().pop_front() {
        Some(code) => refuse(code),
        None => told(&pod, report(&assignment, SessionState::Idle)).into_response(),
    }
}

async fn restore(State(pod): State<Arc<FakePod>>, Json(call): Json<RestoreCall>) -> Response {
    pod.restores.lock().unwrap().push(call.clone());
    let report = told(&pod, report(&call.assignment, SessionState::Idle));
    pod.answer(report)
}

async fn reset(Json(call): Json<ResetCall>) -> Json<SessionReport> {
    report(&call.assignment, SessionState::Idle)
}

async fn checkpoint(State(pod): State<Arc<FakePod>>, Json(call): Json<CheckpointCall>) -> Response {
    pod.checkpoints.lock().unwrap().push(call.clone());
    pod.answer(Json(Checkpoint { id: "7".to_owned(), label: Some(call.label), sequence: 7, time: "t".to_owned(), bytes: 1 }))
}

async fn remove(State(pod): State<Arc<FakePod>>) -> Response {
    pod.removals.fetch_add(1, Ordering::SeqCst);
    pod.answer(StatusCode::NO_CONTENT)
}

async fn checkpoints(Json(call): Json<StoredCall>) -> Json<CheckpointList> {
    let one = Checkpoint { id: "7".to_owned(), label: Some(call.name), sequence: 7, time: "t".to_owned(), bytes: 1 };
    Json(CheckpointList { items: vec![one], damage: None })
}

async fn stored_status(State(pod): State<Arc<FakePod>>) -> Response {
    match pod.stored.lock().unwrap().clone() {
        Some(stored) => Json(stored).into_response(),
        None => refuse(ErrorCode::StorageUnavailable),
    }
}

async fn journal(Json(call): Json<JournalCall>) -> Json<JournalPage> {
    let entry =
        JournalEntry { seq: call.after.saturating_add(1), time: "t".to_owned(), epoch: call.limit as u64, body: JournalBody::Hibernated };
    Json(JournalPage { entries: vec![entry], next: None, last: 0, damage: None })
}

async fn difference(Json(call): Json<DifferenceCall>) -> Json<Difference> {
    let state = |id: &str| Checkpoint { id: id.to_owned(), label: None, sequence: 7, time: call.session.name.clone(), bytes: 1 };
    let (from, to) = (state(&call.from), state(call.to.as_deref().unwrap_or("last")));
    Json(Difference { from, to, globals: Vec::new(), files: Vec::new(), unsure: Vec::new(), partial: false })
}

async fn hibernate(State(pod): State<Arc<FakePod>>, Json(assignment): Json<Assignment>) -> Json<SessionReport> {
    pod.hibernates.fetch_add(1, Ordering::SeqCst);
    told(&pod, report(&assignment, SessionState::Hibernated))
}

async fn forget(State(pod): State<Arc<FakePod>>) -> StatusCode {
    pod.forgets.fetch_add(1, Ordering::SeqCst);
    StatusCode::NO_CONTENT
}

async fn reports(State(pod): State<Arc<FakePod>>) -> Body {
    let changes = tokio_stream::wrappers::BroadcastStream::new(pod.reports.subscribe());
    let first = serde_json::to_string(&ReportLine::Alive).unwrap() + "\n";
    Body::from_stream(futures::stream::once(async { Ok(first) }).chain(changes))
}

/// A folder of sessions whose pods are these.
pub async fn directory(trust: &Trust, pods: &[&Arc<FakePod>]) -> (tempfile::TempDir, Arc<FolderDirectory>) {
    let folder = tempfile::tempdir().unwrap();
    let pods = pods
        .iter()
        .map(|pod| StaticPod { pod: pod.name.to_owned(), namespace: "default".to_owned(), address: pod.address, boot: pod.boot.clone() })
        .collect();
    let directory = FolderDirectory::open(dormouse_durable::System::shared(), folder.path(), pods, trust.operator(), None).await.unwrap();
    (folder, directory)
}

/// A gateway's HTTP API on a port of its own. Without the loop of wakes that nobody asked for.
pub async fn serve(trust: &Trust, directory: Arc<dyn Directory>) -> Client {
    serve_with(trust, directory, Arc::new(Loopback::default())).await
}

/// The same as `dormouse dev` serves it.
pub async fn serve_local(trust: &Trust, directory: Arc<dyn Directory>) -> Client {
    serve_routes(Gateway::new(directory, trust.kernels(), Arc::new(Loopback::default())).local()).await
}

pub async fn serve_with(trust: &Trust, directory: Arc<dyn Directory>, authenticator: Arc<dyn Authenticator>) -> Client {
    serve_routes(Gateway::new(directory, trust.kernels(), authenticator)).await
}

/// The routes of this gateway on a port of its own.
pub async fn serve_routes(gateway: Gateway) -> Client {
    serve_routes_until(gateway, CancellationToken::new()).await
}

/// The same. Streams that would never end do so with `shutdown`.
pub async fn serve_routes_until(gateway: Gateway, shutdown: CancellationToken) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let routes = gateway.routes(shutdown);
    tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    Client::new(base)
}

#[derive(Clone)]
pub struct Client {
    pub base: String,
    pub http: reqwest::Client,
}

impl Client {
    pub fn new(base: String) -> Self {
        Self { base, http: reqwest::Client::builder().timeout(Duration::from_secs(20)).build().unwrap() }
    }

    pub fn request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        self.http.request(method, format!("{}{path}", self.base))
    }

    pub async fn json(&self, method: &str, path: &str, body: serde_json::Value) -> (u16, serde_json::Value) {
        let response = self.request(method, path).json(&body).send().await.unwrap();
        let status = response.status().as_u16();
        (status, response.json().await.unwrap_or_default())
    }

    pub async fn get(&self, path: &str) -> (u16, serde_json::Value) {
        let response = self.request("GET", path).send().await.unwrap();
        let status = response.status().as_u16();
        (status, response.json().await.unwrap_or_default())
    }
}

/// The whole gateway, with the loop of wakes that nobody asked for, until the token is cancelled.
pub async fn serve_whole(trust: &Trust, directory: Arc<dyn Directory>) -> (Client, CancellationToken) {
    let gateway = Gateway::new(directory, trust.kernels(), Arc::new(Loopback::default()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let shutdown = CancellationToken::new();
    let until = shutdown.clone();
    tokio::spawn(async move { gateway.serve(listener, until).await });
    (Client::new(base), shutdown)
}

/// Lets time pass for the gateway's clocks, and no other way.
pub async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

/// Waits until `fits` holds of the directory.
pub async fn until(directory: &dyn Directory, what: &str, fits: impl Fn() -> bool) {
    let mut changes = directory.changes();
    let waiting = async {
        while !fits() {
            // A lag means: look again.
            let _ = changes.recv().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
}
