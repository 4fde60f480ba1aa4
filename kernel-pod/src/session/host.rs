//! What a session may ask of the process that it runs in, and nothing else: it knows neither the pod nor who else runs there.

use std::sync::Arc;

use async_trait::async_trait;
use dormouse_engine::Engines;
use dormouse_lifecycle::SessionKey;
use dormouse_protocol::ApiError;
use dormouse_protocol::kernel::Assignment;
use tokio::sync::Semaphore;

use super::{Handle, Message};
use crate::cache::Cache;
use crate::contents::Backing;
use crate::dedicated::Only;
use crate::environment::Environment;
use crate::metrics::Metrics;
use crate::report::Reports;
use crate::scheduler::Scheduler;
use crate::slots::{Slot, Slots};
use crate::storage::Storage;
use crate::tools::Tools;
use crate::usage::Meter;

/// What the sessions of a process share.
pub(crate) struct Host {
    /// The random name of the process.
    pub boot: String,
    /// The tenant whose sessions run here.
    pub namespace: String,
    /// Its pool: all that it stores of sessions lies below that name.
    pub pool: String,
    /// Before every key in the store: empty, or ending in `/`.
    pub store_prefix: String,
    /// Clock and threads.
    pub environment: Environment,
    /// The engines, by digest.
    pub engines: Engines,
    /// Who of them runs next.
    pub scheduler: Scheduler,
    /// MiB of large heaps that are copied to be stored at a time.
    pub copies: Semaphore,
    /// Long cells that compile at a time: half of the cores, and of each a bounded number of bytes.
    pub compiles: Semaphore,
    /// The store.
    pub storage: Arc<Storage>,
    /// The way to brokers.
    pub tools: Arc<dyn Tools>,
    /// Copies of those that sleep.
    pub cache: Cache,
    /// Who holds an instance.
    pub slots: Arc<Slots>,
    /// The one session of a pod that runs no other.
    pub only: Option<Only>,
    /// What the operator is told.
    pub reports: Arc<Reports>,
    /// What `/metrics` is told.
    pub metrics: Metrics,
    /// What sessions use.
    pub meter: Meter,
}

impl Host {
    /// A slot's share of the memory that is promised to sessions, in bytes: who holds more is the first to give some back where it is short.
    pub(crate) fn share(&self) -> u64 {
        self.environment.memory.share(self.slots.max())
    }

    /// Where a session of the process's tenant is stored.
    pub(crate) fn session_key(&self, uid: &str, name: &str) -> SessionKey {
        SessionKey {
            store_prefix: self.store_prefix.clone(),
            tenant: self.namespace.clone(),
            pool: self.pool.clone(),
            uid: uid.to_owned(),
            name: name.to_owned(),
        }
    }

    /// Where contents outside a heap are.
    pub(crate) fn backing(&self) -> Backing {
        Backing { storage: Arc::clone(&self.storage), threads: self.environment.threads, ids: self.environment.ids.clone() }
    }
}

/// Whoever starts sessions: what a session needs of it that concerns others.
#[async_trait]
pub(crate) trait Supervisor: Send + Sync {
    /// A slot for the session, if need be that of the one which has been idle the longest.
    ///
    /// # Errors
    /// Every slot is held by a session that has work, or the memory has no room.
    async fn slot(&self, uid: &str) -> Result<Slot, ApiError>;

    /// There is no memory for the session: it waits for some, and others are told that none is here. The answer is what the session is told.
    fn no_memory(&self, uid: &str) -> ApiError;

    /// The task of a session takes nothing more: the next request begins another one.
    fn ended(&self, uid: &str, task: &Handle);

    /// A request that came to a task at its end, for the task that begins under this assignment. Where there is no room for it, whoever waits is told
    /// that the task has ended.
    fn pass_on(self: Arc<Self>, assignment: &Assignment, message: Message);
}
