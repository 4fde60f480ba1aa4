//! A kernel pod that answers as it is told.

mod cells;
mod stored;

use std::{
    collections::{HashSet, VecDeque},
    net::SocketAddr,
    ops::RangeInclusive,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use axum::{
    Json, Router,
    body::Body,
    extract::State,
    http::StatusCode,
    middleware::from_fn_with_state,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use dormouse_crds::session::SnapshotStatus;
use dormouse_protocol::{
    ApiError, ErrorBody, ErrorCode,
    history::Checkpoint,
    kernel::{Assignment, CheckpointCall, EvalCall, PodInfo, ReportLine, ResetCall, RestoreCall, SessionReport, StoredStatus, WaitingCall},
    run::Run,
    session::State as SessionState,
};
use dormouse_service::tls::{Process, Server, require};
use futures::StreamExt as _;
use tokio::{net::TcpListener, sync::Notify};
use tokio_util::sync::CancellationToken;

use super::Trust;
use cells::{eval, events, runs};
use stored::{approvals, catalog, checkpoints, difference, is_read, journal, live_usage, note, stored_status, stored_usage};

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
    /// Whether it says that it reads of its own session only, whichever it is asked about.
    pub reads_nothing: AtomicBool,
    /// Where it was asked, in this order.
    pub paths: Mutex<Vec<String>>,
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

    /// Where it was asked for what is stored.
    pub fn reads(&self) -> Vec<String> {
        self.paths.lock().unwrap().iter().filter(|path| is_read(path)).cloned().collect()
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

impl Trust {
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
            reads_nothing: AtomicBool::new(false),
            paths: Mutex::default(),
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
            .route("/v1/usage/live", post(live_usage))
            .route("/v1/usage/stored", post(stored_usage))
            .route("/v1/stored/mcp", post(catalog))
            .route("/v1/stored/approvals", post(approvals))
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
        let router = router.layer(from_fn_with_state(Arc::clone(&pod), note));
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
