//! A kernel pod as a whole: what its sessions share, and what it can be asked.

mod claimed;
mod events;
mod room;
mod runs;
mod stored;
mod supervisor;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use dormouse_crds::pool::Isolation;
use dormouse_engine::Engines;
use dormouse_protocol::eval::EvalResult;
use dormouse_protocol::event::Event;
use dormouse_protocol::history::{Checkpoint, Migration};
use dormouse_protocol::kernel::{
    Assignment, CheckpointCall, EvalCall, PodInfo, ReportLine, ResetCall, RestoreCall, SessionCall, SessionReport, WaitingCall,
};
use dormouse_protocol::{ApiError, ErrorCode};
use dormouse_seal::Seal;
use dormouse_service::Readiness;
use dormouse_store::SnapshotStore;
use futures::Stream;
use tokio::sync::{Semaphore, mpsc, oneshot};

use self::room::Shortage;
use crate::cache::Cache;
use crate::claim::Claim;
use crate::dedicated::Only;
use crate::difference::Differences;
use crate::environment::{Environment, Threads};
use crate::metrics::Metrics;
use crate::registry::Registry;
use crate::report::{self, Reports};
use crate::scheduler::Scheduler;
use crate::session::{Handle, Host, Message, Reply, Supervisor, Undelivered, gone};
use crate::slots::Slots;
use crate::storage::Storage;
use crate::tools::Tools;
use crate::usage::Meter;

/// How long a session has had nothing to do before others are told that it would make room. One that is used again and again keeps its slot.
const IDLE_MIN: Duration = Duration::from_secs(1);
/// Times that a message is sent again because the session's task had just ended.
const SEND_ATTEMPTS_MAX: u32 = 3;

/// More than all heaps of a pod without a limit.
const COPIES_MIB_MAX: usize = 1 << 30;

/// How long all sessions together may take to commit when the process stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(25);

/// A quarter of the memory, in MiB.
fn copies_mib(limit_bytes: Option<u64>) -> usize {
    usize::try_from(limit_bytes.unwrap_or(u64::MAX) >> 22).unwrap_or(usize::MAX).clamp(1, COPIES_MIB_MAX)
}

/// What a pod is told about itself.
#[derive(Debug, Clone)]
pub struct PodConfig {
    /// Pod name.
    pub pod: String,
    /// Namespace: the only tenant whose sessions run here.
    pub namespace: String,
    /// Pool: all that is stored of sessions here lies below its name.
    pub pool: String,
    /// Live sessions that fit.
    pub slots: u32,
    /// Bytes of the pod's own copies of sleeping sessions.
    pub cache_bytes: u64,
    /// Before every key in the store: empty, or ending in `/`.
    pub store_prefix: String,
    /// What its sessions share. A dedicated pod has one slot and keeps no copies, whatever is said of those.
    pub isolation: Isolation,
}

/// A kernel pod. Clones are the same pod.
#[derive(Clone)]
pub struct Pod {
    shared: Arc<Shared>,
}

/// Why there is no pod.
#[derive(Debug, thiserror::Error)]
pub enum PodError {
    /// A metric's name is taken twice.
    #[error("metrics cannot be registered")]
    Metrics(#[from] prometheus::Error),
}

struct Shared {
    /// Itself, for what goes on beside its requests and must not keep it alive.
    me: Weak<Self>,
    host: Arc<Host>,
    name: String,
    registry: Registry,
    differences: Differences,
    observed: dormouse_service::Metrics,
    readiness: Readiness,
    draining: AtomicBool,
    shortage: Shortage,
}

/// A cell under way: its events, and its answer.
pub struct Running {
    /// Events of the cell, `final` among them if it was run for this request.
    pub events: mpsc::UnboundedReceiver<Event>,
    /// The answer.
    pub answer: oneshot::Receiver<Result<EvalResult, ApiError>>,
}

impl Pod {
    /// A pod with no sessions. Begins to probe the store. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub fn new(
        config: PodConfig,
        engines: impl Into<Engines>,
        store: Arc<dyn SnapshotStore>,
        tools: Arc<dyn Tools>,
    ) -> Result<Self, PodError> {
        Self::sealing(config, engines, store, tools, Seal::none())
    }

    /// The same, whose sessions are encrypted where they are stored.
    ///
    /// # Errors
    /// See [`PodError`].
    pub fn sealing(
        config: PodConfig,
        engines: impl Into<Engines>,
        store: Arc<dyn SnapshotStore>,
        tools: Arc<dyn Tools>,
        seal: Seal,
    ) -> Result<Self, PodError> {
        Self::within(config, engines, store, tools, seal, Environment::default())
    }

    /// The same with another clock, or without threads of its own.
    ///
    /// # Errors
    /// See [`PodError`].
    pub fn within(
        config: PodConfig,
        engines: impl Into<Engines>,
        store: Arc<dyn SnapshotStore>,
        tools: Arc<dyn Tools>,
        seal: Seal,
        environment: Environment,
    ) -> Result<Self, PodError> {
        let scheduler = match environment.threads {
            Threads::Own => Scheduler::new(),
            Threads::Inline => Scheduler::inline(),
        };
        let observed = dormouse_service::Metrics::new();
        let readiness = Readiness::new();
        let prefix = dormouse_lifecycle::keys::tenant_prefix(&config.store_prefix, &config.namespace);
        let storage = Storage::start(store, seal, prefix, readiness.gate("storage"));
        let dedicated = config.isolation == Isolation::Dedicated;
        let (boot, metrics) = (environment.ids.next().to_string(), Metrics::new(&observed)?);
        let meter = Meter::new(boot.clone(), config.store_prefix.clone(), config.namespace.clone(), environment.clock, metrics.clone());
        let host = Host {
            boot,
            namespace: config.namespace,
            pool: config.pool,
            store_prefix: config.store_prefix,
            copies: Semaphore::new(copies_mib(environment.memory.limit())),
            environment,
            engines: engines.into(),
            scheduler,
            compiles: Semaphore::new(std::thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(2))),
            storage: Arc::new(storage),
            tools,
            cache: Cache::new(if dedicated { 0 } else { config.cache_bytes }),
            slots: Arc::new(Slots::new(if dedicated { 1 } else { config.slots })),
            only: dedicated.then(Only::default),
            reports: Arc::new(Reports::new()),
            metrics,
            meter,
        };
        let shared = |me: &Weak<Shared>| Shared {
            me: Weak::clone(me),
            host: Arc::new(host),
            name: config.pod,
            registry: Registry::default(),
            differences: Differences::default(),
            observed,
            readiness,
            draining: AtomicBool::new(false),
            shortage: Shortage::default(),
        };
        Ok(Self { shared: Arc::new_cyclic(shared) })
    }

    /// For `/metrics`.
    #[must_use]
    pub fn metrics(&self) -> dormouse_service::Metrics {
        self.shared.observed.clone()
    }

    /// For `/readyz`: ready once the store has passed its probe, until the pod drains.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        self.shared.readiness.clone()
    }

    /// Ends when the pod has done what it was for: a dedicated one, when its session sleeps. Never of a shared one.
    pub async fn spent(&self) {
        match &self.shared.host.only {
            Some(only) => only.slept().await,
            None => std::future::pending().await,
        }
    }

    /// What the pod is at this moment.
    #[must_use]
    pub fn info(&self) -> PodInfo {
        self.shared.info()
    }

    /// Runs a cell and waits for its answer.
    ///
    /// # Errors
    /// The service's own; a script's error is in the answer.
    pub async fn eval(&self, call: EvalCall) -> Result<EvalResult, ApiError> {
        self.eval_claimed(call, None).await
    }

    /// Makes the session live, under the assignment's spec.
    ///
    /// # Errors
    /// It is not here, or cannot run.
    pub async fn wake(&self, assignment: Assignment) -> Result<SessionReport, ApiError> {
        self.wake_claimed(assignment, None).await
    }

    /// Commits the session and frees its slot.
    ///
    /// # Errors
    /// It is not here, or cannot be stored.
    pub async fn hibernate(&self, assignment: Assignment) -> Result<SessionReport, ApiError> {
        self.ask(&assignment, |reply| Message::Hibernate(Box::new(assignment.clone()), reply)).await
    }

    /// Puts the session's present state aside under a label.
    ///
    /// # Errors
    /// It is not here, cannot be stored, or the label cannot be used.
    pub async fn checkpoint(&self, assignment: Assignment, label: String) -> Result<Checkpoint, ApiError> {
        self.make_checkpoint(CheckpointCall { assignment, label, operation: None }).await
    }

    /// The same; a call that names its operation is carried out once, however often it is sent.
    ///
    /// # Errors
    /// As those of [`Self::checkpoint`]; `Conflict` when it was carried out, and its checkpoint is no longer kept.
    pub async fn make_checkpoint(&self, call: CheckpointCall) -> Result<Checkpoint, ApiError> {
        let assignment = call.assignment.clone();
        self.ask(&assignment, |reply| Message::Checkpoint(Box::new(call), reply)).await
    }

    /// Goes back to a checkpoint, by id or label. Cells that wait end with `Interrupted`.
    ///
    /// # Errors
    /// It is not here, cannot be stored, or has no such checkpoint.
    pub async fn restore(&self, assignment: Assignment, checkpoint: String) -> Result<SessionReport, ApiError> {
        self.go_back(RestoreCall { assignment, checkpoint, operation: None }).await
    }

    /// The same; a call that names its operation is carried out once, however often it is sent.
    ///
    /// # Errors
    /// As those of [`Self::restore`].
    pub async fn go_back(&self, call: RestoreCall) -> Result<SessionReport, ApiError> {
        let assignment = call.assignment.clone();
        self.ask(&assignment, |reply| Message::Restore(Box::new(call), reply)).await
    }

    /// Empties the session: it goes on as a new one would, and what it was is a checkpoint. Cells that wait end with `Interrupted`. A call that
    /// names its operation is carried out once, however often it is sent.
    ///
    /// # Errors
    /// It is not here, cannot be stored, or its bootstrap code fails.
    pub async fn reset(&self, call: ResetCall) -> Result<SessionReport, ApiError> {
        let assignment = call.assignment.clone();
        self.ask(&assignment, |reply| Message::Reset(Box::new(call), reply)).await
    }

    /// Moves the session to the current engine by running its recorded cells again; with `dry_run` only tells what would come of it.
    ///
    /// # Errors
    /// It is not here, cannot be stored, a cell of it awaits, or a cell cannot be run again at all.
    pub async fn migrate(&self, assignment: Assignment, dry_run: bool) -> Result<Migration, ApiError> {
        self.ask(&assignment, |reply| Message::Migrate(Box::new(assignment.clone()), dry_run, reply)).await
    }

    /// Ends the running cell with `Interrupted`, also one that awaits while the session sleeps. Does nothing when none runs.
    ///
    /// # Errors
    /// The session is not here, or cannot be woken.
    pub async fn interrupt(&self, assignment: Assignment) -> Result<(), ApiError> {
        self.admit(&assignment)?;
        if self.shared.registry.get(&assignment.uid).is_some_and(|handle| handle.control.interrupt()) {
            return Ok(());
        }
        self.ask(&assignment, |reply| Message::Interrupt(Box::new(assignment.clone()), reply)).await
    }

    /// Puts a session to sleep, if it is here under that epoch: it was placed elsewhere since. What the store does not take of it any more is lost, as it
    /// is for every process that was overtaken.
    ///
    /// # Errors
    /// It is not here, or not under that epoch, or is not any more: `SessionGone`.
    pub async fn leave(&self, assignment: Assignment) -> Result<(), ApiError> {
        let reported = self.shared.host.reports.get(&assignment.uid).filter(|report| report.epoch == assignment.epoch);
        let here = self.shared.registry.get(&assignment.uid).filter(|_| reported.is_some() && assignment.boot == self.shared.host.boot);
        let handle = here.ok_or_else(|| gone("this process does not have the session under this epoch"))?;
        let (reply, answer) = oneshot::channel();
        if !handle.send_waiting(Message::Hibernate(Box::new(assignment), reply)).await {
            return Err(gone("the session has just left"));
        }
        answer.await.map_err(|_| gone("the session has just left"))?.map(drop)
    }

    /// Drops the session without a commit. A session that is not here is forgotten already. Allowed while draining.
    ///
    /// # Errors
    /// Another epoch runs here.
    pub async fn forget(&self, assignment: Assignment) -> Result<(), ApiError> {
        let Some(handle) = self.shared.registry.get(&assignment.uid) else {
            self.shared.host.cache.take(&assignment.uid);
            return Ok(());
        };
        handle.control.interrupt();
        let (reply, answer) = oneshot::channel();
        if !handle.send_waiting(Message::Forget(Box::new(assignment), reply)).await {
            return Ok(());
        }
        match answer.await {
            Ok(Err(error)) if error.code != ErrorCode::SessionGone => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// How a session is at this moment, as the report tells it.
    ///
    /// # Errors
    /// This process does not have it under that epoch.
    pub fn session(&self, call: &SessionCall) -> Result<SessionReport, ApiError> {
        let host = &self.shared.host;
        let report = host.reports.get(&call.uid).filter(|report| report.epoch == call.epoch && host.boot == call.boot);
        report.ok_or_else(|| gone("this process does not have the session under this epoch"))
    }

    /// Reports that a session waits for a slot.
    ///
    /// # Errors
    /// It is of another namespace.
    pub fn waiting(&self, call: &WaitingCall) -> Result<(), ApiError> {
        let host = &self.shared.host;
        if call.namespace != host.namespace {
            return Err(ApiError::new(ErrorCode::Forbidden, format!("this pod runs sessions of namespace {} only", host.namespace)));
        }
        host.reports.waiting(&call.uid);
        Ok(())
    }

    /// Every session and every change, for ever.
    pub fn report(&self) -> impl Stream<Item = ReportLine> + Send + use<> {
        // Not the pod itself: a reader must not keep it alive.
        let shared = Arc::downgrade(&self.shared);
        let last = self.info();
        report::stream(Arc::clone(&self.shared.host.reports), move || shared.upgrade().map_or_else(|| last.clone(), |shared| shared.info()))
    }

    /// Takes nothing new, commits every session and frees every slot. Ends within a bound.
    pub async fn drain(&self) {
        if self.shared.draining.swap(true, Ordering::SeqCst) {
            return;
        }
        self.shared.readiness.stopping();
        self.shared.host.reports.pod(self.info());
        let all = async {
            // A request that was admitted just before may still start a session.
            loop {
                let sessions = self.shared.registry.all();
                if sessions.is_empty() {
                    break;
                }
                futures::future::join_all(sessions.into_iter().map(drain_one)).await;
                tokio::task::yield_now().await;
            }
            self.shared.host.meter.flush(&self.shared.host.storage).await;
            self.shared.host.storage.end_probing().await;
        };
        if tokio::time::timeout(DRAIN_TIMEOUT, all).await.is_err() {
            tracing::warn!("not every session was stored in time; what is missing was never acked");
        } else {
            self.shared.host.reports.drained();
            tracing::info!("every session is stored");
        }
    }

    /// What the sessions share.
    pub(crate) fn host(&self) -> &Host {
        &self.shared.host
    }

    /// The session's task, started under `assignment` if there is none.
    fn start(&self, assignment: &Assignment) -> Handle {
        self.shared.registry.get_or_start(&assignment.uid, || self.spawn(assignment, None))
    }

    /// Starts the session's task under an assignment that is only claimed. `None` when there is a task already: it must not hear of a claim.
    fn start_claimed(&self, assignment: &Assignment, claim: Claim) -> Option<Handle> {
        self.shared.registry.start(&assignment.uid, || self.spawn(assignment, Some(claim)))
    }

    fn spawn(&self, assignment: &Assignment, claim: Option<Claim>) -> Handle {
        let supervisor: Arc<dyn Supervisor> = Arc::clone(&self.shared) as _;
        Handle::spawn(Arc::clone(&self.shared.host), supervisor, assignment.clone(), claim)
    }

    pub(crate) fn admit(&self, assignment: &Assignment) -> Result<(), ApiError> {
        if assignment.boot != self.shared.host.boot {
            return Err(gone("this is another process than the one that the session was placed on"));
        }
        if assignment.namespace != self.shared.host.namespace {
            let message = format!("this pod runs sessions of namespace {} only", self.shared.host.namespace);
            return Err(ApiError::new(ErrorCode::Forbidden, message));
        }
        if self.shared.draining.load(Ordering::SeqCst) {
            return Err(gone("the pod is stopping"));
        }
        match &self.shared.host.only {
            Some(only) => only.admit(&assignment.uid),
            None => Ok(()),
        }
    }

    pub(crate) async fn ask<T>(&self, assignment: &Assignment, message: impl FnOnce(Reply<T>) -> Message) -> Result<T, ApiError> {
        self.ask_once(assignment, message, task_ended).await
    }

    /// The same of what may not arrive twice: `unanswered` says what to answer when the session's task ends without a word.
    pub(crate) async fn ask_once<T>(
        &self,
        assignment: &Assignment,
        message: impl FnOnce(Reply<T>) -> Message,
        unanswered: impl FnOnce() -> ApiError,
    ) -> Result<T, ApiError> {
        let (reply, answer) = oneshot::channel();
        self.send(assignment, message(reply))?;
        answer.await.unwrap_or_else(|_| Err(unanswered()))
    }

    /// Puts a message into the session's mailbox, starting the session if it is not here.
    pub(crate) fn send(&self, assignment: &Assignment, mut message: Message) -> Result<(), ApiError> {
        self.admit(assignment)?;
        for _ in 0..SEND_ATTEMPTS_MAX {
            let handle = self.start(assignment);
            handle.control.assigned(assignment.epoch);
            match handle.send(message) {
                Ok(()) => return Ok(()),
                Err(Undelivered::Full) => {
                    return Err(ApiError::new(ErrorCode::SessionBusy, "too many requests wait for this session; send it again later"));
                }
                Err(Undelivered::Left(undelivered)) => {
                    message = undelivered;
                    self.shared.registry.remove(&assignment.uid, &handle);
                }
            }
        }
        Err(gone("the session left this pod"))
    }
}

async fn drain_one(handle: Handle) {
    let (reply, answer) = oneshot::channel();
    if handle.send_waiting(Message::Drain(reply)).await {
        let _ = answer.await;
    }
}

/// The session's task is gone without an answer, which is a fault of ours; the store has what was acked, and by its key what was carried out.
pub(crate) fn task_ended() -> ApiError {
    let message = "the session's task ended unexpectedly; send the request again, with its idempotencyKey if it has one";
    ApiError::new(ErrorCode::Internal, message).again()
}

impl Shared {
    fn info(&self) -> PodInfo {
        let host = &self.host;
        let exhausted = self.shortage.lasts();
        PodInfo {
            pod: self.name.clone(),
            namespace: host.namespace.clone(),
            boot: host.boot.clone(),
            slots: host.slots.max(),
            used: if host.only.as_ref().is_some_and(Only::is_taken) { host.slots.max() } else { self.used_slots() },
            // While memory is short, those that would make room for others have been put to sleep.
            idle: if exhausted || host.only.is_some() { 0 } else { host.slots.idle_for(IDLE_MIN) },
            engine_digest: host.engines.current().digest().to_string(),
            draining: self.draining.load(Ordering::SeqCst),
            exhausted,
        }
    }
}
