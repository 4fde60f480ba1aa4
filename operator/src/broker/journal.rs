//! Where a broker's journal of calls is kept: the storage of a pool of its namespace, with the credentials that the pool's own pods have.

use dormouse_crds::{
    condition::JOURNAL_STORED,
    pool::{KernelPool, Storage},
};
use kube::runtime::reflector::ObjectRef;

use crate::{
    conditions::Say,
    config::StorageArgs,
    context::Caches,
    pool::validate::storage_secret,
    storage::{self, Target},
};

/// Reasons of a broker's `JournalStored` condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JournalReason {
    /// It is in the pool's storage.
    PoolStorage,
    /// There is no such pool.
    PoolNotFound,
    /// The pool has no storage.
    StorageNotConfigured,
}

impl std::fmt::Display for JournalReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self, f)
    }
}

/// A store that broker pods can reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The store.
    pub target: Target,
    /// The Secret with its credentials.
    pub secret: String,
}

/// Where the journal is, or why it is in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// `None`: in memory.
    pub place: Option<Place>,
    /// What the condition says about it.
    pub reason: JournalReason,
    /// For people.
    pub message: String,
}

/// Looks for the pool `name` of `namespace`.
pub async fn find(caches: &Caches, own: &StorageArgs, namespace: &str, name: &str) -> Found {
    // A cache that is not filled yet would take the journal out of its store. An error means that this process ends.
    let _ = caches.pools.wait_until_ready().await;
    let pool = caches.pools.get(&ObjectRef::<KernelPool>::new(name).within(namespace));
    decide(name, pool.as_ref().map(|pool| pool.spec.storage.as_ref()), own)
}

/// The journal of a broker that names the pool `name`, which is there with this storage or is not.
#[must_use]
pub fn decide(name: &str, pool: Option<Option<&Storage>>, own: &StorageArgs) -> Found {
    let in_memory = |reason, why: String| Found {
        place: None,
        reason,
        message: format!("{why} The journal of calls is in the memory of each broker pod: what came of a call is unknown after its end."),
    };
    let Some(storage) = pool else {
        let why = format!("There is no KernelPool {name}: make it, or name another one in spec.journal.pool.");
        return in_memory(JournalReason::PoolNotFound, why);
    };
    match storage::target(storage, own) {
        Ok(target) => Found {
            message: format!("The journal of calls is in bucket {} of KernelPool {name}.", target.bucket),
            place: Some(Place { target, secret: storage_secret(name) }),
            reason: JournalReason::PoolStorage,
        },
        Err(refusal) => in_memory(JournalReason::StorageNotConfigured, format!("KernelPool {name}: {}", refusal.message)),
    }
}

impl Found {
    /// The condition.
    #[must_use]
    pub fn say(&self) -> Say {
        Say { type_: JOURNAL_STORED, status: self.place.is_some(), reason: self.reason.to_string(), message: self.message.clone() }
    }
}
