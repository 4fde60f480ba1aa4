//! Where a broker's journal of calls is kept: the storage of a pool of its namespace, with the credentials that the pool's own pods have.

use dormouse_control::{condition::ConditionUpdate, reason::JournalReason};
use dormouse_crds::{
    condition::JOURNAL_STORED,
    pool::{Encryption, KernelPool, KernelPoolSpec},
};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, runtime::reflector::ObjectRef};

use crate::{
    config::StorageArgs,
    context::Context,
    pool::validate::storage_secret,
    storage::{self, Target},
};

/// A store that broker pods can reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalLocation {
    /// The store.
    pub target: Target,
    /// The Secret with its credentials.
    pub secret: String,
    /// Where the pool's encryption keys are, if it has any.
    pub encryption: Option<Encryption>,
}

/// Where the journal is, or why it is in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// `None`: in memory.
    pub place: Option<JournalLocation>,
    /// What the condition says about it.
    pub reason: JournalReason,
    /// For people.
    pub message: String,
}

/// Looks for the pool `name` of `namespace` and its credentials.
///
/// # Errors
/// The API server failed.
pub async fn find(context: &Context, namespace: &str, name: &str) -> Result<Found, kube::Error> {
    // A cache that is not filled yet would take the journal out of its store. An error means that this process ends.
    let _ = context.caches.pools.wait_until_ready().await;
    let pool = context.caches.pools.get(&ObjectRef::<KernelPool>::new(name).within(namespace));
    let secrets: Api<Secret> = Api::namespaced(context.client.clone(), namespace);
    let credentials = pool.is_some() && secrets.get_metadata_opt(&storage_secret(name)).await?.is_some();
    Ok(decide(name, pool.as_ref().map(|pool| &pool.spec), credentials, &context.config.storage))
}

/// The journal of a broker that names the pool `name`, which is there or is not, and has its credentials or not.
#[must_use]
pub fn decide(name: &str, pool: Option<&KernelPoolSpec>, credentials: bool, own: &StorageArgs) -> Found {
    let in_memory = |reason, why: String| Found {
        place: None,
        reason,
        message: format!("{why} The journal of calls is in the memory of each broker pod: what came of a call is unknown after its end."),
    };
    let Some(pool) = pool else {
        let why = format!("There is no KernelPool {name}: make it, or name another one in spec.journal.pool.");
        return in_memory(JournalReason::PoolNotFound, why);
    };
    match storage::target(pool.storage.as_ref(), own) {
        Ok(_) if !credentials => in_memory(
            JournalReason::CredentialsNotReady,
            format!("KernelPool {name} has no storage credentials yet: its condition says why."),
        ),
        Ok(target) => Found {
            message: format!("The journal of calls is in bucket {} of KernelPool {name}.", target.bucket),
            place: Some(JournalLocation { target, secret: storage_secret(name), encryption: pool.encryption.clone() }),
            reason: JournalReason::PoolStorage,
        },
        Err(refusal) => in_memory(JournalReason::StorageNotConfigured, format!("KernelPool {name}: {}", refusal.message)),
    }
}

impl Found {
    /// The condition.
    #[must_use]
    pub fn update(&self) -> ConditionUpdate {
        ConditionUpdate {
            type_: JOURNAL_STORED,
            status: Some(self.place.is_some()),
            reason: self.reason.to_string(),
            message: self.message.clone(),
        }
    }
}
