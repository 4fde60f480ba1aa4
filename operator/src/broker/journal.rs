//! Where a broker's journal of calls is kept: the storage of a pool of its namespace, with credentials of its own where the operator mints them, else with
//! those of the pool.

use dormouse_control::{condition::ConditionUpdate, reason::JournalReason};
use dormouse_crds::{
    broker::ToolBroker,
    condition::JOURNAL_STORED,
    pool::{Encryption, KernelPool, KernelPoolSpec},
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Resource as _, ResourceExt as _, runtime::reflector::ObjectRef};

use crate::{
    config::StorageArgs,
    context::Context,
    credentials::{self, Holder, broker_secret, pool_secret},
    error::ReconcileError,
    storage::{self, Access, StorageError, Target},
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
    /// When its credentials are to be made anew.
    pub due: Option<Timestamp>,
    /// What the condition says about it.
    pub reason: JournalReason,
    /// For people.
    pub message: String,
}

/// Looks for the pool of the broker's journal, and makes sure of credentials for it.
///
/// # Errors
/// The API server failed.
pub async fn find(context: &Context, broker: &ToolBroker) -> Result<Found, ReconcileError> {
    let (namespace, name) = (broker.namespace().unwrap_or_default(), broker.spec.journal.pool.as_str());
    // A cache that is not filled yet would take the journal out of its store. An error means that this process ends.
    let _ = context.caches.pools.wait_until_ready().await;
    let pool = context.caches.pools.get(&ObjectRef::<KernelPool>::new(name).within(&namespace));
    let spec = pool.as_ref().map(|pool| &pool.spec);
    let own = &context.config.storage;
    let Some(target) = spec.and_then(|spec| storage::target(spec.storage.as_ref(), own).ok()) else {
        return Ok(decide(broker, spec, Credentials::None, own));
    };
    let owner = broker.controller_owner_ref(&());
    let credentials = match &target.access {
        Access::Copy(_) => {
            let secrets: Api<Secret> = Api::namespaced(context.client.clone(), &namespace);
            let isolation = spec.map(|spec| spec.isolation).unwrap_or_default();
            let there = secrets.get_metadata_opt(&pool_secret(name, isolation)).await?.is_some();
            if there { Credentials::OfPool } else { Credentials::None }
        }
        Access::Mint | Access::Account(_) => {
            match credentials::ensure(context, &Holder::broker(&namespace, &broker.name_any(), &target, owner), false).await {
                Ok(due) => Credentials::Own(due),
                Err(StorageError::Refused(_)) => Credentials::None,
                Err(error) => return Err(error.into()),
            }
        }
    };
    Ok(decide(broker, spec, credentials, own))
}

/// Which credentials there are for a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credentials {
    /// None.
    None,
    /// Those of the pool.
    OfPool,
    /// Its own, until then.
    Own(Timestamp),
}

/// The journal of a broker whose pool is there or is not.
#[must_use]
pub fn decide(broker: &ToolBroker, pool: Option<&KernelPoolSpec>, credentials: Credentials, own: &StorageArgs) -> Found {
    let name = broker.spec.journal.pool.as_str();
    let in_memory = |reason, why: String| Found {
        place: None,
        due: None,
        reason,
        message: format!("{why} The journal of calls is in the memory of each broker pod: what came of a call is unknown after its end."),
    };
    let Some(pool) = pool else {
        let why = format!("There is no KernelPool {name}: make it, or name another one in spec.journal.pool.");
        return in_memory(JournalReason::PoolNotFound, why);
    };
    match storage::target(pool.storage.as_ref(), own) {
        Ok(_) if credentials == Credentials::None => in_memory(
            JournalReason::CredentialsNotReady,
            format!("KernelPool {name} has no storage credentials yet: its condition says why."),
        ),
        Ok(target) => Found {
            message: format!("The journal of calls is in bucket {} of KernelPool {name}.", target.bucket),
            due: if let Credentials::Own(due) = credentials { Some(due) } else { None },
            place: Some(JournalLocation {
                target,
                secret: match credentials {
                    Credentials::OfPool => pool_secret(name, pool.isolation),
                    _ => broker_secret(&broker.name_any()),
                },
                encryption: pool.encryption.clone(),
            }),
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
