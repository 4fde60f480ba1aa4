//! A kernel pod as a whole: what its sessions share, and what it can be asked.

mod claimed;
mod dedicated;
mod events;
mod mailbox;
mod requests;
mod room;
mod runs;
mod stored;
mod supervisor;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use dormouse_engine::Engines;
use dormouse_protocol::ApiError;
use dormouse_protocol::eval::EvalResult;
use dormouse_protocol::event::Event;
use dormouse_protocol::kernel::{PodInfo, ReportLine};
use dormouse_seal::Seal;
use dormouse_service::Readiness;
use dormouse_store::SnapshotStore;
use futures::Stream;
use tokio::sync::{Semaphore, mpsc, oneshot};

pub(crate) use self::mailbox::task_ended;
use self::room::Shortage;
use crate::cache::Cache;
use crate::dedicated::Only;
use crate::difference::Differences;
use crate::environment::{Environment, Threads};
use crate::metrics::Metrics;
use crate::registry::Registry;
use crate::report::{self, Reports};
use crate::role::Role;
use crate::scheduler::Scheduler;
use crate::session::{Handle, Host, Message};
use crate::slots::Slots;
use crate::storage::Storage;
use crate::tools::Tools;
use crate::usage::Meter;

/// How long a session has had nothing to do before others are told that it would make room. One that is used again and again keeps its slot.
const IDLE_MIN: Duration = Duration::from_secs(1);

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
    /// What it is for. A dedicated pod has one slot and a reader none, and neither keeps copies, whatever is said of those.
    pub role: Role,
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
    /// A pod with no sessions. Begins to probe the store; a dedicated one leaves that to its pool's reader. Must be called inside a tokio
    /// runtime.
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
        let (slots, cache_bytes, only) = match config.role {
            Role::Shared => (config.slots, config.cache_bytes, None),
            Role::Dedicated(grants) => (1, 0, Some(Only::new(grants))),
            Role::Reader => (0, 0, None),
        };
        // What a dedicated pod is granted reaches its session and nothing else.
        let place = only.is_none().then(|| dormouse_lifecycle::keys::tenant_prefix(&config.store_prefix, &config.namespace));
        let storage = Storage::start(store, seal, place, readiness.gate("storage"));
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
            cache: Cache::new(cache_bytes),
            slots: Arc::new(Slots::new(slots)),
            only,
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
        let pod = Self { shared: Arc::new_cyclic(shared) };
        pod.end_unused();
        Ok(pod)
    }

    /// For `/metrics`.
    #[must_use]
    pub fn metrics(&self) -> dormouse_service::Metrics {
        self.shared.observed.clone()
    }

    /// For `/readyz`: ready once the store has passed its probe, until the pod drains. A dedicated one has no store before it has a session, and is
    /// ready for that.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        self.shared.readiness.clone()
    }

    /// Ends when the pod has done what it was for: a dedicated one, when its session sleeps or will not begin. Never of another.
    pub async fn spent(&self) {
        match &self.shared.host.only {
            Some(only) => only.ended().await,
            None => std::future::pending().await,
        }
    }

    /// What the pod is at this moment.
    #[must_use]
    pub fn info(&self) -> PodInfo {
        self.shared.info()
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
}

async fn drain_one(handle: Handle) {
    let (reply, answer) = oneshot::channel();
    if handle.send_waiting(Message::Drain(reply)).await {
        let _ = answer.await;
    }
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
