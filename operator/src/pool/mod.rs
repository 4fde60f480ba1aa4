//! KernelPool: Deployment, NetworkPolicy, PodDisruptionBudget, certificate and storage credentials of the pods that run sessions.

pub mod build;
pub mod encryption;
pub mod health;
mod retention;
mod shrink;
mod spent;
pub mod validate;

use std::{
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use dormouse_control::{
    condition::{ConditionUpdate, condition, find},
    pool::scale::{self, Demand, Size},
};
use dormouse_crds::{
    condition::READY,
    labels::POOL,
    pool::{KernelPool, KernelPoolStatus, StoredIn},
};
use jiff::Timestamp;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{Resource as _, ResourceExt as _, runtime::controller::Action};

use crate::{
    apply::{apply_status, latest},
    ca::wait_until,
    context::Context,
    controller::Outcome,
    credentials::{self, Holder},
    error::ReconcileError,
    hub::WAITING_BELIEVED,
    leaf::Leaf,
    pods::{is_over, runs_sessions},
    refusal::Refusal,
    storage::{self, StorageError, Target},
};
use health::{Applied, Health};
pub(crate) use retention::have_held;
use validate::{ValidPool, validate};

/// The pool of sessions that name none.
pub const DEFAULT_POOL: &str = "default";
/// How often a pool is looked at that somebody must change something for.
const REFUSED_AGAIN: Duration = Duration::from_secs(15);
/// How often a pool that is not ready is looked at: its pods say why.
const LOOK_SOON: Duration = Duration::from_secs(2);

/// Reconciles a pool.
///
/// # Errors
/// The API server failed; it will be tried again.
pub async fn reconcile(pool: Arc<KernelPool>, context: Arc<Context>) -> Outcome {
    if pool.metadata.deletion_timestamp.is_some() {
        return retention::release(&pool, &context).await;
    }
    let held = retention::hold(&pool, &context).await?;
    // Also of pods that go on when its spec cannot be built any more.
    let certificate_due = context.ensure_certificate(&Leaf::kernel(&*pool, pool.spec.isolation)).await?;
    let valid = match validate(&pool, &context.config) {
        Ok(valid) => valid,
        Err(refusal) => {
            keep_credentials(&pool, held, &context).await;
            return refused(&pool, &context, refusal).await;
        }
    };
    let holder = Holder::pool(&valid.namespace, &valid.name, valid.isolation, &valid.storage, valid.owner.clone());
    let credentials_due = match credentials::ensure(&context, &holder, held).await {
        Ok(due) => due,
        Err(StorageError::Refused(refusal)) => return refused(&pool, &context, refusal).await,
        Err(error) => return Err(error.into()),
    };
    match encryption::check(&context, &valid).await {
        Ok(()) => {}
        Err(StorageError::Refused(refusal)) => return refused(&pool, &context, refusal).await,
        Err(error) => return Err(error.into()),
    }
    let spent_next = spent::discard(&valid, &context).await?;
    let applied = apply_all(&valid, &context).await?;
    let health = health::of(&context, &valid, &applied).await;
    let again = write_status(&pool, &context, &health, held.then_some(&valid.storage)).await?;
    let due = certificate_due.min(credentials_due);
    let again = if health.ready { again } else { LOOK_SOON };
    let again = spent_next.map_or(again, |next| again.min(next));
    // Who is not told to be waiting any more is to be noticed.
    let waits = context.hub.anybody_waits(&valid.namespace, &valid.name);
    Ok(Action::requeue(wait_until(due, if waits { again.min(WAITING_BELIEVED) } else { again })))
}

/// Keeps the credentials good that the pods of a pool have whose spec cannot be built any more: for the place where its sessions are. What the operator
/// cannot mint stays as it is, and the condition says what is wrong.
async fn keep_credentials(pool: &KernelPool, held: bool, context: &Context) {
    let (namespace, name) = (pool.namespace().unwrap_or_default(), pool.name_any());
    let Some(target) = storage::former_target(pool, &context.config.storage) else { return };
    let holder = Holder::pool(&namespace, &name, pool.spec.isolation, &target, pool.controller_owner_ref(&()));
    if let Err(error) = credentials::ensure(context, &holder, held).await {
        tracing::warn!(namespace, pool = name, %error, "the credentials of a pool that cannot be built any more");
    }
}

async fn refused(pool: &KernelPool, context: &Context, refusal: Refusal) -> Outcome {
    let health = Health { ready: false, reason: refusal.reason, message: refusal.message, pods: 0 };
    write_status(pool, context, &health, None).await?;
    Ok(Action::requeue(REFUSED_AGAIN))
}

/// Applies what the pool becomes: the policy before the pods, so that no pod is ever without it.
async fn apply_all(valid: &ValidPool, context: &Context) -> Result<Applied, ReconcileError> {
    let (owned, client) = (&context.caches.of_pools, &context.client);
    let current = owned.get::<Deployment>(&valid.namespace, &valid.workload());
    let current = current.and_then(|deployment| deployment.spec.as_ref()?.replicas).unwrap_or(0);
    let current = u32::try_from(current).unwrap_or(0);
    let size = Size { current, warm: valid.warm, max: valid.max, slots: valid.slots, spare: valid.spare };
    let replicas = replicas(context, &valid.namespace, &valid.name, size);
    note_size(context, valid, Size { current: replicas, ..size });
    if replicas < size.current {
        shrink::choose(valid, replicas, context).await?;
    }
    let built = build::build(valid, replicas, &context.config.system_namespace, &context.config.network)?;
    owned.apply(client, built.network_policy).await?;
    owned.apply(client, built.disruption_budget).await?;
    let deployment = owned.apply(client, built.deployment).await?;
    // Of a pool that is dedicated no more it has no pod.
    let is_there = owned.get::<Deployment>(&valid.namespace, &valid.reader()).is_some();
    let reader = if valid.is_dedicated() || is_there { Some(owned.apply(client, built.reader).await?) } else { None };
    Ok(Applied { deployment, wanted: replicas, reader: reader.filter(|_| valid.is_dedicated()) })
}

/// How many pods the pool should have now.
fn replicas(context: &Context, namespace: &str, pool: &str, size: Size) -> u32 {
    let index = context.index();
    let waiting = context.hub.waiting(namespace, pool, |told, served| index.waiting(namespace, pool, told, served));
    drop(index);
    let live = context.hub.live(namespace, pool).saturating_add(waiting);
    let blocked = context.hub.blocked(namespace, pool, size.slots);
    let unread = context.unread.any_of(namespace, pool);
    let demand = Demand { size, live, blocked, unread, certain: true };
    let wanted = scale::replicas(demand);
    if wanted >= size.current || !context.hub.was_exhausted(namespace, pool) && all_complete(context, namespace, pool) {
        return wanted;
    }
    scale::replicas(Demand { certain: false, ..demand })
}

fn note_size(context: &Context, valid: &ValidPool, size: Size) {
    let mut sizes = context.sizes.lock().unwrap_or_else(PoisonError::into_inner);
    sizes.insert((valid.namespace.clone(), valid.name.clone()), size);
}

/// Whether the pool should have another number of pods than it was given last. Said once until it is looked at.
#[must_use]
pub fn is_to_resize(context: &Context, namespace: &str, pool: &str) -> bool {
    let key = (namespace.to_owned(), pool.to_owned());
    let known = context.sizes.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied();
    let Some(size) = known.filter(|size| replicas(context, namespace, pool, *size) != size.current) else { return false };
    let mut sizes = context.sizes.lock().unwrap_or_else(PoisonError::into_inner);
    sizes.get(&key) == Some(&size) && sizes.remove(&key).is_some()
}

/// Whether every pod of the pool that runs sessions has told everything.
fn all_complete(context: &Context, namespace: &str, pool: &str) -> bool {
    let mine = |pod: &Pod| pod.namespace().as_deref() == Some(namespace) && pod.labels().get(POOL).is_some_and(|name| name == pool);
    let pods = context.caches.pods.state();
    pods.iter()
        .filter(|pod| mine(pod) && !is_over(pod) && runs_sessions(pod))
        .all(|pod| context.hub.is_complete(&pod.uid().unwrap_or_default()))
}

/// Where sessions of the pool are stored: `storage` of a pool that stays, once a pod of it could store any.
fn stored_in(pool: &KernelPool, context: &Context, health: &Health, storage: Option<&Target>) -> Option<StoredIn> {
    if !retention::is_used(pool, context) {
        return None;
    }
    let before = pool.status.as_ref().and_then(|status| status.stored_in.clone());
    // A journal is written by pods of brokers.
    let written = health.pods > 0 || retention::has_journal(pool, context);
    before.or_else(|| storage.filter(|_| written).map(Target::place))
}

/// What its status is to be, but for the number of its live sessions.
async fn status(pool: &KernelPool, context: &Context, health: &Health, storage: Option<&Target>) -> KernelPoolStatus {
    let (old, generation) = (pool.status.clone().unwrap_or_default(), pool.metadata.generation);
    let update =
        ConditionUpdate { type_: READY, status: Some(health.ready), reason: health.reason.to_string(), message: health.message.clone() };
    let stored_in = match stored_in(pool, context, health, storage) {
        None if old.stored_in.is_some() && retention::holds_archived(pool, context).await => old.stored_in,
        place => place,
    };
    KernelPoolStatus {
        observed_generation: generation,
        conditions: vec![condition(update, generation, &old.conditions, Timestamp::now())],
        pods: Some(health.pods),
        sessions: old.sessions,
        stored_in,
    }
}

/// Writes what has changed. The answer is when what has not been written yet is due.
async fn write_status(pool: &KernelPool, context: &Context, health: &Health, storage: Option<&Target>) -> Result<Duration, ReconcileError> {
    let (uid, old) = (pool.uid().unwrap_or_default(), pool.status.clone().unwrap_or_default());
    let new = status(pool, context, health, storage).await;
    let live = Some(context.hub.live(&pool.namespace().unwrap_or_default(), &pool.name_any()));
    // A pool that is well is looked at as often, although nothing tells of a change.
    let interval = Duration::from_millis(context.config.status_interval_ms);
    if new == old {
        // How many sessions are live changes all the time.
        if live == old.sessions {
            context.writes.caught_up(&uid);
            return Ok(interval);
        }
        if let Err(wait) = context.writes.busy(&uid, interval, Instant::now()) {
            return Ok(wait);
        }
    }
    let Some(current) = latest(&context.client, pool).await? else { return Ok(interval) };
    let old = current.status.clone().unwrap_or_default();
    let new = KernelPoolStatus { sessions: live, ..status(&current, context, health, storage).await };
    if new == old {
        context.writes.caught_up(&uid);
        return Ok(interval);
    }
    apply_status(&context.client, pool, &new).await?;
    context.writes.caught_up(&uid);
    let word = |status: &KernelPoolStatus| find(&status.conditions, READY).map(|c| (c.reason.clone(), c.message.clone()));
    if word(&old) == word(&new) {
        return Ok(interval);
    }
    if find(&old.conditions, READY).map(|c| &c.reason) != find(&new.conditions, READY).map(|c| &c.reason) {
        context.event(pool, !health.reason.is_trouble(), &health.reason.to_string(), &health.message).await;
        tracing::info!(namespace = pool.namespace(), pool = pool.name_any(), reason = %health.reason, message = health.message, "pool");
    }
    // Sessions that are not ready may be so because of their pool.
    let waiting = context.index().not_ready(&pool.namespace().unwrap_or_default(), &pool.name_any());
    for session in waiting {
        context.hub.tell(&session.namespace, &session.name).await;
    }
    Ok(interval)
}
