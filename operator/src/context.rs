//! What every reconciler has at hand.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
};

use dormouse_control::{
    pool::{index::SessionIndex, scale::Size},
    writes::Writes,
};
use dormouse_crds::{broker::ToolBroker, pool::KernelPool, quota::KernelQuota, session::KernelSession};
use dormouse_service::{
    Metrics,
    tls::{PeerClient, TlsFiles},
};
use dormouse_watch::{Shard, WatchScope};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Client, Resource,
    runtime::{
        events::{Event, EventType, Recorder},
        reflector::{ObjectRef, Store},
    },
};
use prometheus::{HistogramVec, IntCounter, IntCounterVec, IntGauge};
use tokio::sync::{mpsc, watch};

use crate::{
    ca::{Authority, CaError},
    checked::{CheckedSecrets, Found, Subject},
    config::Config,
    grants::Grants,
    hub::Hub,
    leaf::Leaf,
    owned::Owned,
    revision::Revisions,
    shelf::{Shelf, ShelfError},
    storage::Stores,
    unread::Unread,
};

/// What every reconciler has at hand.
pub struct Context {
    /// The API server.
    pub client: Client,
    /// Flags.
    pub config: Config,
    /// What is looked after, here and by others.
    pub scope: WatchScope,
    /// Which part of that is this process's.
    pub shard: Shard,
    /// The certificate authority.
    pub authority: Authority,
    /// Requests to kernel pods, with the operator's identity; replaced when its certificate is.
    pub peers: RwLock<PeerClient>,
    /// The operator's certificate, with which it answers gateways.
    pub tls: watch::Sender<TlsFiles>,
    /// Secrets that need not be asked for.
    pub checked: CheckedSecrets,
    /// The operator's own access to object stores.
    pub stores: Stores,
    /// What the kernel pods report.
    pub hub: Hub,
    /// Plain HTTP, for the probes of kernel pods.
    pub http: reqwest::Client,
    /// Events.
    pub recorder: Recorder,
    /// Metrics.
    pub metrics: OperatorMetrics,
    /// Whether the API server has gone back.
    pub revisions: Arc<Revisions>,
    /// Watch caches.
    pub caches: Caches,
    /// Pools to reconcile because of something that no watch tells.
    pub pool_triggers: mpsc::Sender<ObjectRef<KernelPool>>,
    /// How often sessions' status is written.
    pub writes: Writes,
    /// The sessions of each pool and of each pod.
    pub index: Mutex<SessionIndex>,
    /// What each pool was last sized for, by namespace and name.
    pub sizes: Mutex<HashMap<(String, String), Size>>,
    /// Sessions of which more may be stored than was told.
    pub unread: Unread,
    /// What pods that run one session were given for it.
    pub grants: Grants,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("config", &self.config).finish_non_exhaustive()
    }
}

/// Watch caches.
#[derive(Clone)]
pub struct Caches {
    /// Sessions.
    pub sessions: Store<KernelSession>,
    /// Pools.
    pub pools: Store<KernelPool>,
    /// Brokers.
    pub brokers: Store<ToolBroker>,
    /// Kernel pods.
    pub pods: Store<Pod>,
    /// Quotas.
    pub quotas: Store<KernelQuota>,
    /// What was made for pools.
    pub of_pools: Owned,
    /// What was made for brokers.
    pub of_brokers: Owned,
}

/// Metrics of the operator.
#[derive(Debug, Clone)]
pub struct OperatorMetrics {
    /// Seconds of a reconciliation, by kind.
    pub reconcile_seconds: HistogramVec,
    /// Failed reconciliations, by kind.
    pub reconcile_errors: IntCounterVec,
    /// Status writes of sessions.
    pub status_writes: IntCounter,
    /// Placements cleared because the process was gone.
    pub placements_cleared: IntCounter,
    /// What pods that run one session were given for it.
    pub grants: IntCounter,
    /// Looks at which a session was placed on a pod that is another's.
    pub grants_refused: IntCounter,
    /// Sessions that have left etcd for the archive.
    pub archived: IntCounter,
    /// Sessions that have come back.
    pub returned: IntCounter,
    /// Report streams that are open.
    pub report_streams: IntGauge,
    /// Whether this operator leads.
    pub leader: IntGauge,
    /// Sweeps of a store for what is left of sessions that are gone, by outcome.
    pub orphan_sweeps: IntCounterVec,
    /// Sessions that they erased.
    pub orphans_erased: IntCounter,
    /// Objects of those.
    pub orphan_objects_erased: IntCounter,
    /// Sessions that this cluster does not know, and that the last sweeps left alone.
    pub orphans_left: IntGauge,
}

impl OperatorMetrics {
    /// Registers them.
    ///
    /// # Errors
    /// A name is taken.
    pub fn register(metrics: &Metrics) -> Result<Self, prometheus::Error> {
        Ok(Self {
            reconcile_seconds: metrics.latencies("operator_reconcile_seconds", "Duration of a reconciliation.", &["kind"])?,
            reconcile_errors: metrics.counters("operator_reconcile_errors_total", "Reconciliations that failed.", &["kind"])?,
            status_writes: metrics.counter("operator_session_status_writes_total", "Writes of a session's status.")?,
            placements_cleared: metrics.counter("operator_placements_cleared_total", "Placements cleared: the process was gone.")?,
            grants: metrics.counter("operator_grants_total", "What dedicated pods were given for their sessions, and given anew.")?,
            grants_refused: metrics
                .counter("operator_grants_refused_total", "Looks at which a session was placed on a dedicated pod of another.")?,
            archived: metrics.counter("operator_sessions_archived_total", "Sessions that have left etcd for the archive.")?,
            returned: metrics.counter("operator_sessions_returned_total", "Sessions that have come back from the archive.")?,
            report_streams: metrics.gauge("operator_report_streams", "Open report streams of kernel pods.")?,
            leader: metrics.gauge("operator_leader", "1 while this operator leads.")?,
            orphan_sweeps: metrics.counters(
                "operator_orphan_sweeps_total",
                "Sweeps of a store for what is left of sessions that are gone.",
                &["outcome"],
            )?,
            orphans_erased: metrics.counter("operator_orphans_erased_total", "Sessions that were gone, and whose objects were erased.")?,
            orphan_objects_erased: metrics.counter("operator_orphan_objects_erased_total", "Objects of those.")?,
            orphans_left: metrics
                .gauge("operator_orphans_left", "Stored sessions that this cluster does not know, and that may be another's.")?,
        })
    }
}

impl Context {
    /// The client for requests to kernel pods.
    #[must_use]
    pub fn peer_client(&self) -> PeerClient {
        self.peers.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes sure of a certificate, without asking for one that is known to be good. The answer is when it is due.
    ///
    /// # Errors
    /// See [`Authority::ensure`].
    pub async fn ensure_certificate(&self, leaf: &Leaf) -> Result<Timestamp, CaError> {
        let wanted = format!("{} {leaf:?}", self.authority.fingerprint());
        let subject = Subject { namespace: &leaf.namespace, secrets: &[&leaf.secret], holder: &leaf.secret, wanted: &wanted };
        self.checked.due(subject, async { self.authority.ensure(leaf).await.map(Found::Good) }).await
    }

    /// The sessions of each pool and of each pod. Nobody waits for anything else meanwhile.
    pub fn index(&self) -> MutexGuard<'_, SessionIndex> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The archive of a namespace, if the operator has a store of its own.
    ///
    /// # Errors
    /// It cannot be opened.
    pub async fn shelf(&self, namespace: &str) -> Result<Option<Shelf>, ShelfError> {
        Shelf::of(&self.client, &self.stores, &self.config.storage, namespace).await
    }

    /// Tells of a transition in an Event. It may get lost: an Event is never worth failing for.
    pub async fn event<K: Resource<DynamicType = ()>>(&self, of: &K, normal: bool, reason: &str, note: &str) {
        let event = Event {
            type_: if normal { EventType::Normal } else { EventType::Warning },
            reason: reason.to_owned(),
            note: Some(note.chars().take(EVENT_NOTE_CHARS_MAX).collect()),
            action: "Reconcile".to_owned(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, &of.object_ref(&())).await {
            tracing::debug!(%error, "event");
        }
    }
}

/// Characters of an Event's note; the API server refuses more than 1 KiB.
const EVENT_NOTE_CHARS_MAX: usize = 500;
