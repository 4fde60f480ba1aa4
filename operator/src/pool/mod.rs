//! KernelPool: Deployment, NetworkPolicy, PodDisruptionBudget, certificate and storage credentials of the pods that run sessions.

pub mod build;
pub mod encryption;
pub mod health;
pub mod scale;
pub mod validate;

use std::{sync::Arc, time::Duration};

use dormouse_crds::{
    condition::READY,
    labels::POOL,
    pool::{KernelPool, KernelPoolStatus, Storage},
    session::OperatingMode,
};
use jiff::Timestamp;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{
    Api, ResourceExt as _,
    runtime::{controller::Action, reflector::ObjectRef},
};

use crate::{
    apply::{apply, apply_status},
    ca::{Leaf, wait_until},
    conditions::{Say, condition, find},
    context::{Caches, Context},
    controller::Outcome,
    error::ReconcileError,
    reports, restricted, session,
    storage::{self, StorageError},
};
use health::Health;
use scale::Demand;
use validate::{Refusal, ValidPool, validate};

/// The pool of sessions that name none.
pub const DEFAULT_POOL: &str = "default";
/// How often a pool that is well is looked at: its size follows its sessions.
const LOOK_AGAIN: Duration = Duration::from_secs(15);
/// How often a pool that is not ready is looked at: its pods say why.
const LOOK_SOON: Duration = Duration::from_secs(2);

/// Reasons of a pool's `Ready` condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolReason {
    /// At least one pod is ready.
    PodsReady,
    /// No pod is asked for, and none is there.
    ScaledToZero,
    /// Pods are starting, or cannot start.
    PodsNotReady,
    /// The spec cannot be built.
    InvalidSpec,
    /// Neither the pool nor the operator names an object store.
    StorageNotConfigured,
    /// There are no credentials for the store, or the store refuses them.
    StorageCredentialsInvalid,
    /// The store cannot be reached, or has no such bucket.
    StorageUnavailable,
    /// The store does not keep conditional writes atomic.
    StorageUnsafe,
    /// There are no encryption keys where the spec says, or they are none.
    EncryptionKeysInvalid,
}

impl PoolReason {
    const ALL: [Self; 9] = [
        Self::PodsReady,
        Self::ScaledToZero,
        Self::PodsNotReady,
        Self::InvalidSpec,
        Self::StorageNotConfigured,
        Self::StorageCredentialsInvalid,
        Self::StorageUnavailable,
        Self::StorageUnsafe,
        Self::EncryptionKeysInvalid,
    ];

    /// The reason of this name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.to_string() == text)
    }

    /// Whether somebody must do something: a session repeats it in its own condition.
    #[must_use]
    pub fn is_trouble(self) -> bool {
        !matches!(self, Self::PodsReady | Self::ScaledToZero | Self::PodsNotReady)
    }
}

impl std::fmt::Display for PoolReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self, f)
    }
}

/// Reconciles a pool.
///
/// # Errors
/// The API server failed; it will be tried again.
pub async fn reconcile(pool: Arc<KernelPool>, context: Arc<Context>) -> Outcome {
    if pool.metadata.deletion_timestamp.is_some() {
        // Everything it has is owned by it and goes with it.
        return Ok(Action::await_change());
    }
    let valid = match validate(&pool, &context.config) {
        Ok(valid) => valid,
        Err(refusal) => return refused(&pool, &context, refusal).await,
    };
    let labels = restricted::labels("kernel", POOL, &valid.name);
    let leaf = Leaf::kernel(&valid.namespace, &valid.name, labels, valid.owner.clone());
    let certificate_due = context.authority.ensure(&leaf).await?;
    let credentials_due = match storage::ensure_credentials(&context, &valid).await {
        Ok(due) => due,
        Err(StorageError::Refused(refusal)) => return refused(&pool, &context, refusal).await,
        Err(error) => return Err(error.into()),
    };
    match encryption::check(&context, &valid).await {
        Ok(()) => {}
        Err(StorageError::Refused(refusal)) => return refused(&pool, &context, refusal).await,
        Err(error) => return Err(error.into()),
    }
    let (deployment, wanted) = apply_all(&valid, &context).await?;
    let health = health::of(&context, &valid, &deployment, wanted).await;
    write_status(&pool, &context, &health).await?;
    let due = certificate_due.min(credentials_due);
    Ok(Action::requeue(wait_until(due, if health.ready { LOOK_AGAIN } else { LOOK_SOON })))
}

async fn refused(pool: &KernelPool, context: &Context, refusal: Refusal) -> Outcome {
    let health = Health { ready: false, reason: refusal.reason, message: refusal.message, pods: 0 };
    write_status(pool, context, &health).await?;
    Ok(Action::requeue(LOOK_AGAIN))
}

/// Applies what the pool becomes: the policy before the pods, so that no pod is ever without it.
async fn apply_all(valid: &ValidPool, context: &Context) -> Result<(Deployment, u32), ReconcileError> {
    let api: Api<Deployment> = Api::namespaced(context.client.clone(), &valid.namespace);
    let current = api.get_opt(&valid.workload()).await?.and_then(|deployment| deployment.spec?.replicas).unwrap_or(0);
    let replicas = scale::replicas(demand(valid, context, u32::try_from(current).unwrap_or(0)));
    let built = build::build(valid, replicas, &context.config.system_namespace, &context.config.network)?;
    apply(&context.client, &built.network_policy).await?;
    apply(&context.client, &built.disruption_budget).await?;
    Ok((apply(&context.client, &built.deployment).await?, replicas))
}

fn demand(valid: &ValidPool, context: &Context, current: u32) -> Demand {
    let all = context.caches.sessions.state();
    let mine = || all.iter().filter(|s| s.namespace().as_deref() == Some(&valid.namespace) && s.spec.pool == valid.name);
    let unplaced = |s: &dormouse_crds::session::KernelSession| {
        let status = s.status.as_ref();
        let started = status.is_some_and(|status| status.placement.is_some() || status.snapshot.is_some());
        !started && s.spec.operating_mode != OperatingMode::Hibernated
    };
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let waiting = count(mine().filter(|session| unplaced(session)).count());
    Demand {
        current,
        warm: valid.warm,
        max: valid.max,
        slots: valid.slots,
        live: context.hub.live(&valid.namespace, &valid.name).saturating_add(waiting),
        sessions: count(mine().count()),
        certain: all_told(valid, context),
    }
}

/// Whether every pod of the pool that runs has its stream open.
fn all_told(valid: &ValidPool, context: &Context) -> bool {
    let mine = |pod: &Pod| pod.namespace().as_deref() == Some(&valid.namespace) && pod.labels().get(POOL) == Some(&valid.name);
    let pods = context.caches.pods.state();
    pods.iter().filter(|pod| mine(pod) && !reports::is_over(pod)).all(|pod| context.hub.is_open(&pod.uid().unwrap_or_default()))
}

async fn write_status(pool: &KernelPool, context: &Context, health: &Health) -> Result<(), ReconcileError> {
    let old = pool.status.clone().unwrap_or_default();
    let generation = pool.metadata.generation;
    let say = Say { type_: READY, status: health.ready, reason: health.reason.to_string(), message: health.message.clone() };
    let new = KernelPoolStatus {
        observed_generation: generation,
        conditions: vec![condition(say, generation, &old.conditions, Timestamp::now())],
        pods: Some(health.pods),
        sessions: Some(context.hub.live(&pool.namespace().unwrap_or_default(), &pool.name_any())),
    };
    if new == old {
        return Ok(());
    }
    apply_status(&context.client, pool, &new).await?;
    let word = |status: &KernelPoolStatus| find(&status.conditions, READY).map(|c| (c.reason.clone(), c.message.clone()));
    if word(&old) == word(&new) {
        return Ok(());
    }
    if find(&old.conditions, READY).map(|c| &c.reason) != find(&new.conditions, READY).map(|c| &c.reason) {
        context.event(pool, !health.reason.is_trouble(), &health.reason.to_string(), &health.message).await;
        tracing::info!(namespace = pool.namespace(), pool = pool.name_any(), reason = %health.reason, message = health.message, "pool");
    }
    for waiting in session::waiting_for(pool, context) {
        context.hub.tell(waiting.namespace.as_deref().unwrap_or_default(), &waiting.name).await;
    }
    Ok(())
}

/// The storage that a pool names.
#[must_use]
pub fn storage_spec(caches: &Caches, namespace: &str, pool: &str) -> Option<Storage> {
    caches.pools.get(&ObjectRef::new(pool).within(namespace))?.spec.storage.clone()
}
