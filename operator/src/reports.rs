//! What the kernel pods report: one stream a pod, followed as long as the pod exists.
//!
//! The hub keeps the newest report of every session and tells the session's reconciler. It decides nothing.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use dormouse_crds::{
    labels::{COMPONENT, POOL},
    pool::KernelPool,
    session::KernelSession,
};
use dormouse_protocol::{
    ApiError,
    kernel::{KERNEL_PORT, PodInfo, ReportLine, SessionReport},
    session::State,
};
use dormouse_service::{
    answer::{AnswerError, read_json},
    tls::{Identity, Process},
};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt as _,
    runtime::{
        WatchStreamExt as _,
        reflector::{ObjectRef, store::Writer},
        watcher,
    },
};
use reqwest::Method;
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{context::Context, trim};

/// A pod that says nothing for so long is not listening any more.
const SILENCE_MAX: Duration = Duration::from_secs(20);
/// Between two attempts to reach a pod, first and last.
const RETRY_FIRST: Duration = Duration::from_millis(200);
const RETRY_LAST: Duration = Duration::from_secs(5);
/// How long a stream is open before silence about a session means something: it begins with every session, without saying where the beginning ends.
pub const TOLD_ALL_AFTER: Duration = Duration::from_secs(2);
/// Bytes of one report line: what a pod says is bounded before it is read.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Bytes of lines that are kept of one pod. What it says of more sessions is not taken in.
const TOLD_BYTES_MAX: usize = 32 << 20;
/// Bytes of an answer to a question.
pub const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Seconds that a pod may take to answer a question.
const ASK_TIMEOUT: Duration = Duration::from_secs(5);

/// What one pod told.
#[derive(Debug, Clone)]
struct PodView {
    namespace: String,
    pool: String,
    /// Since when the stream is open; `None` while it is not.
    open_since: Option<Instant>,
    info: Option<PodInfo>,
    sessions: HashMap<String, SessionReport>,
    /// Bytes of those, about.
    bytes: usize,
    stop: CancellationToken,
}

impl PodView {
    /// Keeps a session's newest report. The answer is the one before; `None` when the pod has said so much that this is not taken in.
    fn take(&mut self, report: SessionReport) -> Option<Option<SessionReport>> {
        let before = self.sessions.get(&report.uid).map_or(0, weight);
        let bytes = self.bytes - before + weight(&report);
        if bytes > TOLD_BYTES_MAX {
            tracing::warn!(namespace = self.namespace, pool = self.pool, "a kernel pod reports more than is kept");
            return None;
        }
        self.bytes = bytes;
        Some(self.sessions.insert(report.uid.clone(), report))
    }
}

/// About how many bytes a report holds; the same whenever it is asked.
fn weight(report: &SessionReport) -> usize {
    const FIELDS_BYTES: usize = 1_024;
    let details = |error: &ApiError| error.details.as_ref().map_or(0, |details| details.to_string().len());
    let failure = report.failure.as_ref().map_or(0, |error| error.message.len() + details(error));
    let texts = [&report.last_active_time, &report.next_wake_time].into_iter().flatten().map(String::len).sum::<usize>();
    let snapshot = report.snapshot.as_ref().map_or(0, |snapshot| snapshot.engine_digest.len() + snapshot.time.len());
    FIELDS_BYTES + report.name.len() + report.uid.len() + failure + texts + snapshot
}

/// What all pods told.
#[derive(Debug)]
pub struct Hub {
    pods: Mutex<HashMap<String, PodView>>,
    sessions: mpsc::Sender<ObjectRef<KernelSession>>,
}

/// A pod as a session's reconciler sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    /// The process that the stream is from.
    pub boot: String,
    /// How long the stream is open; `None` when it is not, and this is the last that was heard.
    pub open_for: Option<Duration>,
    /// The session's newest report.
    pub report: Option<SessionReport>,
}

impl Hub {
    /// An empty hub that tells `sessions` of changes.
    #[must_use]
    pub fn new(sessions: mpsc::Sender<ObjectRef<KernelSession>>) -> Self {
        Self { pods: Mutex::default(), sessions }
    }

    fn with<T>(&self, f: impl FnOnce(&mut HashMap<String, PodView>) -> T) -> T {
        f(&mut self.pods.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What the process that the pod of this uid runs, or ran last, told of a session.
    #[must_use]
    pub fn told(&self, pod_uid: &str, session_uid: &str) -> Option<Told> {
        self.with(|pods| {
            let view = pods.get(pod_uid)?;
            let report = view.sessions.get(session_uid).cloned();
            Some(Told { boot: view.info.as_ref()?.boot.clone(), open_for: view.open_since.map(|since| since.elapsed()), report })
        })
    }

    /// Whether a pod has told everything.
    #[must_use]
    pub fn is_open(&self, pod_uid: &str) -> bool {
        let since = self.with(|pods| pods.get(pod_uid).and_then(|view| view.open_since));
        since.is_some_and(|since| since.elapsed() >= TOLD_ALL_AFTER)
    }

    /// Live sessions of a pool: those that hold a slot.
    #[must_use]
    pub fn live(&self, namespace: &str, pool: &str) -> u32 {
        let live = self.with(|pods| {
            let of_pool = pods.values().filter(|view| view.namespace == namespace && view.pool == pool);
            of_pool.flat_map(|view| view.sessions.values()).filter(|report| holds_slot(report)).count()
        });
        u32::try_from(live).unwrap_or(u32::MAX)
    }

    fn opened(&self, pod_uid: &str, info: PodInfo) {
        self.with(|pods| {
            let Some(view) = pods.get_mut(pod_uid) else { return };
            if view.info.as_ref().is_none_or(|old| old.boot != info.boot) {
                view.sessions.clear();
                view.bytes = 0;
            }
            view.open_since.get_or_insert_with(Instant::now);
            view.info = Some(info);
        });
    }

    fn closed(&self, pod_uid: &str) {
        self.with(|pods| {
            if let Some(view) = pods.get_mut(pod_uid) {
                view.open_since = None;
            }
        });
    }

    /// Has a session looked at.
    pub async fn tell(&self, namespace: &str, name: &str) {
        let _ = self.sessions.send(ObjectRef::new(name).within(namespace)).await;
    }

    /// Takes in a line. The answer says whether the pool should be looked at again.
    async fn take(&self, pod_uid: &str, namespace: &str, line: ReportLine) -> bool {
        match line {
            ReportLine::Alive => false,
            ReportLine::Pod(info) => {
                self.opened(pod_uid, info);
                true
            }
            // A pod reports for its own namespace only: what it says of others is not believed.
            ReportLine::Session(report) if report.namespace != namespace => false,
            ReportLine::Session(report) => {
                let name = report.name.clone();
                let live = holds_slot(&report);
                let Some(before) = self.with(|pods| pods.get_mut(pod_uid).and_then(|view| view.take(*report))) else { return false };
                self.tell(namespace, &name).await;
                before.is_some_and(|before| holds_slot(&before)) != live
            }
            ReportLine::Forgotten { uid, epoch } => {
                let name = self.with(|pods| {
                    let view = pods.get_mut(pod_uid)?;
                    view.sessions.get(&uid).filter(|report| report.epoch <= epoch)?;
                    let report = view.sessions.remove(&uid)?;
                    view.bytes = view.bytes.saturating_sub(weight(&report));
                    Some(report.name)
                });
                if let Some(name) = &name {
                    self.tell(namespace, name).await;
                }
                name.is_some()
            }
        }
    }
}

/// Whether the session takes up one of its pod's slots.
fn holds_slot(report: &SessionReport) -> bool {
    !matches!(report.state, State::Hibernated | State::Failed)
}

/// Follows every kernel pod of the cluster until `shutdown`.
pub async fn run(context: Arc<Context>, writer: Writer<Pod>, shutdown: CancellationToken) {
    let api: Api<Pod> = Api::all(context.client.clone());
    let config = watcher::Config::default().labels(&format!("{COMPONENT}=kernel"));
    let pods = context.revisions.renewed(move || watcher(api.clone(), config.clone()).default_backoff());
    let events = pods.modify(trim::pod).reflect(writer).take_until(shutdown.clone().cancelled_owned());
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod)) => applied(&context, &pod, &shutdown).await,
            Ok(watcher::Event::Delete(pod)) => gone(&context, &pod.uid().unwrap_or_default()).await,
            Ok(watcher::Event::InitDone) => relisted(&context).await,
            Ok(watcher::Event::Init) => {}
            Err(error) => tracing::warn!(%error, "watch of kernel pods"),
        }
    }
}

/// Whether the pod's process can run no more.
#[must_use]
pub fn is_over(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    matches!(phase, "Failed" | "Succeeded")
}

async fn applied(context: &Arc<Context>, pod: &Pod, shutdown: &CancellationToken) {
    let (Some(uid), Some(namespace)) = (pod.uid(), pod.namespace()) else { return };
    trigger_pool(context, &namespace, pod).await;
    if is_over(pod) {
        return gone(context, &uid).await;
    }
    let address = pod.status.as_ref().and_then(|status| status.pod_ip.clone()).filter(|ip| !ip.is_empty());
    let Some(ip) = address else { return };
    let stop = shutdown.child_token();
    let pool = pod.labels().get(POOL).cloned().unwrap_or_default();
    let view = PodView {
        namespace: namespace.clone(),
        pool,
        open_since: None,
        info: None,
        sessions: HashMap::new(),
        bytes: 0,
        stop: stop.clone(),
    };
    let new = context.hub.with(|pods| match pods.entry(uid.clone()) {
        std::collections::hash_map::Entry::Occupied(_) => false,
        std::collections::hash_map::Entry::Vacant(entry) => {
            entry.insert(view);
            true
        }
    });
    if new {
        let peer = Identity::new(Process::Kernel, namespace, pod.name_any());
        let follower = Follower { context: context.clone(), uid, peer, address: address_of(&ip, KERNEL_PORT), pod: pod.clone() };
        tokio::spawn(async move { stop.run_until_cancelled(follower.run()).await });
    }
}

/// `host:port`, with the brackets that an IPv6 address needs.
#[must_use]
pub fn address_of(ip: &str, port: u16) -> String {
    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}

async fn gone(context: &Context, uid: &str) {
    if let Some(view) = context.hub.with(|pods| pods.remove(uid)) {
        view.stop.cancel();
        if view.open_since.is_some() {
            context.metrics.report_streams.dec();
        }
        let pool = ObjectRef::<KernelPool>::new(&view.pool).within(&view.namespace);
        let _ = context.pool_triggers.send(pool).await;
    }
    placed_on(context, uid).await;
}

/// Tells of every session that is placed on this pod.
async fn placed_on(context: &Context, pod_uid: &str) {
    for session in context.caches.sessions.state() {
        let placement = session.status.as_ref().and_then(|status| status.placement.as_ref());
        if placement.is_some_and(|placement| placement.pod_uid == pod_uid) {
            context.hub.tell(&session.namespace().unwrap_or_default(), &session.name_any()).await;
        }
    }
}

/// After a new list: pods that went unseen are gone.
async fn relisted(context: &Context) {
    let listed: Vec<String> = context.caches.pods.state().iter().filter_map(|pod| pod.uid()).collect();
    let missed: Vec<String> = context.hub.with(|pods| pods.keys().filter(|uid| !listed.contains(uid)).cloned().collect());
    for uid in missed {
        gone(context, &uid).await;
    }
}

async fn trigger_pool(context: &Context, namespace: &str, pod: &Pod) {
    if let Some(pool) = pod.labels().get(POOL) {
        let _ = context.pool_triggers.send(ObjectRef::new(pool).within(namespace)).await;
    }
}

/// One pod's stream.
struct Follower {
    context: Arc<Context>,
    uid: String,
    peer: Identity,
    address: String,
    pod: Pod,
}

impl Follower {
    async fn run(self) {
        let mut retry = RETRY_FIRST;
        loop {
            let result = self.follow().await;
            let was_open = self.context.hub.with(|pods| pods.get(&self.uid).is_some_and(|view| view.open_since.is_some()));
            if was_open {
                self.context.hub.closed(&self.uid);
                self.context.metrics.report_streams.dec();
                // What was heard and not yet written is written now.
                placed_on(&self.context, &self.uid).await;
                retry = RETRY_FIRST;
            }
            tracing::debug!(pod = self.peer.name, namespace = self.peer.namespace, reason = ?result.err(), "report stream ended");
            tokio::time::sleep(retry).await;
            retry = (retry * 2).min(RETRY_LAST);
        }
    }

    async fn follow(&self) -> Result<(), String> {
        let request = self.context.peer_client().request(Method::GET, &self.peer, &self.address, "/v1/report");
        let response = tokio::time::timeout(ASK_TIMEOUT, request.send()).await.map_err(|_| "no answer".to_owned())?;
        let response = response.and_then(reqwest::Response::error_for_status).map_err(|error| error.to_string())?;
        let mut chunks = response.bytes_stream();
        let mut lines = Lines::default();
        let mut opened = false;
        loop {
            let chunk = tokio::time::timeout(SILENCE_MAX, chunks.next()).await.map_err(|_| "silence".to_owned())?;
            let Some(chunk) = chunk else { return Ok(()) };
            lines.push(&chunk.map_err(|error| error.to_string())?)?;
            while let Some(line) = lines.next_line() {
                let line: ReportLine = serde_json::from_slice(&line).map_err(|error| error.to_string())?;
                let first = !opened && matches!(line, ReportLine::Pod(_));
                if self.context.hub.take(&self.uid, &self.peer.namespace, line).await {
                    trigger_pool(&self.context, &self.peer.namespace, &self.pod).await;
                }
                if first {
                    opened = true;
                    self.context.metrics.report_streams.inc();
                    tracing::info!(pod = self.peer.name, namespace = self.peer.namespace, "report stream open");
                    placed_on(&self.context, &self.uid).await;
                }
            }
        }
    }
}

/// Cuts a stream of bytes into lines.
#[derive(Debug, Default)]
struct Lines {
    buffer: Vec<u8>,
}

impl Lines {
    fn push(&mut self, bytes: &[u8]) -> Result<(), String> {
        if self.buffer.len() + bytes.len() > LINE_BYTES_MAX.max(bytes.len()) {
            return Err(format!("a report line has more than {LINE_BYTES_MAX} bytes"));
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn next_line(&mut self) -> Option<Vec<u8>> {
        loop {
            let end = self.buffer.iter().position(|byte| *byte == b'\n')?;
            let mut line: Vec<u8> = self.buffer.drain(..=end).collect();
            line.pop();
            if !line.iter().all(u8::is_ascii_whitespace) {
                return Some(line);
            }
        }
    }
}

/// Asks a pod what it is: the last word before its sessions' placements are cleared.
///
/// # Errors
/// It does not answer, or not as a kernel pod does.
pub async fn info(context: &Context, peer: &Identity, ip: &str) -> Result<PodInfo, AnswerError> {
    let request = context.peer_client().request(Method::GET, peer, &address_of(ip, KERNEL_PORT), "/v1/info").timeout(ASK_TIMEOUT);
    read_json(request.send().await?.error_for_status()?, ANSWER_BYTES_MAX).await
}

#[cfg(test)]
#[path = "reports_tests.rs"]
mod tests;
