//! KernelSession: a finalizer for its storage, a pool to run in, a status that is true, and a clean end.
//!
//! Never on the path of an eval or a wake: what is decided here follows what gateways and kernel pods did.

pub mod archive;
pub mod deletion;
mod patch;
mod seen;
pub mod stored;
mod strays;
mod told;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use dormouse_control::{
    condition::find,
    reason::{PoolReason, SessionReason},
    session::{Facts, Process as Owner, Urgency, status, urgency},
};
use dormouse_crds::{
    condition::READY,
    labels::STORAGE_FINALIZER,
    pool::{KernelPool, KernelPoolSpec},
    session::{KernelSession, KernelSessionStatus, Placement},
};
use dormouse_protocol::{kernel::SessionReport, session::State};
use dormouse_service::tls::Identity;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
    runtime::{controller::Action, reflector::ObjectRef},
};
use serde_json::json;

use crate::{
    context::Context,
    controller::Outcome,
    error::ReconcileError,
    pods::is_over,
    pool::{self, DEFAULT_POOL},
    reports, unread,
};
use patch::patch_status;
pub use seen::seen;
use stored::Stored;

/// Even when nothing happens, a session is looked at this often.
const RESYNC: Duration = Duration::from_secs(600);
/// How soon a session is looked at again whose pod says nothing.
const SILENT_AGAIN: Duration = Duration::from_secs(2);

/// Reconciles a session.
///
/// # Errors
/// The API server, the store or a kernel pod failed; it will be tried again.
pub async fn reconcile(session: Arc<KernelSession>, context: Arc<Context>) -> Outcome {
    if let Some(uid) = session.returning() {
        // Before anything else: it has another identity then.
        return archive::adopt(&session, uid, &context).await;
    }
    let uid = session.stored_uid();
    if session.metadata.deletion_timestamp.is_some() {
        context.unread.forget(&uid);
        return deletion::reconcile(&session, &context).await;
    }
    if !has_finalizer(&session) {
        add_finalizer(&context.client, &session).await?;
    }
    ensure_pool(&session, &context).await?;
    let empty = KernelSessionStatus::default();
    let previous = session.status.as_ref().unwrap_or(&empty);
    let liveness = liveness(&session, previous.placement.as_ref(), &context).await?;
    let last_word = last_word(&session, &liveness, previous.placement.as_ref(), &context);
    let read_again = liveness == Liveness::None && context.unread.due_in(&uid, Instant::now()).is_some_and(|due_in| due_in.is_zero());
    let stored = if (liveness == Liveness::Gone && last_word.is_none()) || read_again {
        stored::ask(&session, &context).await
    } else {
        Stored::NotAsked
    };
    let pool = context.caches.pools.get(&ObjectRef::new(&session.spec.pool).within(&session.namespace().unwrap_or_default()));
    let pool_trouble = trouble(pool.as_deref());
    let (process, report) = match &liveness {
        Liveness::Gone | Liveness::None => (Owner::None, last_word.as_ref().and_then(|word| word.as_deref())),
        Liveness::Unknown(report) if is_unreachable(&session, previous.placement.as_ref(), &context) => {
            (Owner::Unreachable, report.as_deref())
        }
        Liveness::Unknown(report) => (Owner::Unknown, report.as_deref()),
        Liveness::Alive(report) => (Owner::Alive, report.as_deref()),
    };
    let facts = Facts {
        generation: session.metadata.generation,
        previous,
        process,
        report,
        stored: stored.status(),
        pool_trouble: pool_trouble.as_ref().map(|(reason, message)| (*reason, message.as_str())),
        now: Timestamp::now(),
    };
    let unknown = matches!(liveness, Liveness::Unknown(_));
    let new = status(&facts);
    let news = new.as_ref().is_some_and(|new| urgency(previous, new, session.metadata.generation) != Urgency::None);
    let again = match new {
        Some(new) => write(&session, previous, &new, liveness == Liveness::Gone, &context).await?,
        None => RESYNC,
    };
    if liveness == Liveness::Gone {
        // The placement goes last: while it is there, it is known that the process may have stored more than status says.
        return match (stored, news) {
            (Stored::Silent, _) => {
                context.unread.silent(&uid, pool_key(&session), Instant::now());
                resize_pool(&session, &context);
                Ok(Action::requeue(stored::ASK_AGAIN))
            }
            (_, true) => Ok(Action::requeue(Duration::ZERO)),
            (_, false) => {
                clear_placement(&context, &session).await?;
                if last_word.is_some() {
                    context.unread.forget(&uid);
                    context.hub.forget_last_word(&previous.placement.as_ref().map(|it| it.pod_uid.clone()).unwrap_or_default(), &uid);
                    return Ok(Action::requeue(RESYNC));
                }
                context.unread.cleared(&uid, pool_key(&session), Instant::now());
                Ok(Action::requeue(unread::READ_AFTER.into_iter().min().unwrap_or(RESYNC)))
            }
        };
    }
    if liveness != Liveness::None {
        context.unread.forget(&uid);
    } else if read_again {
        match stored {
            Stored::Silent => {
                resize_pool(&session, &context);
                return Ok(Action::requeue(stored::ASK_AGAIN));
            }
            Stored::Told(_) | Stored::NotAsked => {
                context.unread.read(&uid);
                resize_pool(&session, &context);
            }
        }
    }
    let unread = context.unread.due_in(&uid, Instant::now());
    let again = again.min(unread.unwrap_or(again));
    if strays::call_back(&session, previous, &context).await {
        return Ok(Action::requeue(again.min(SILENT_AGAIN)));
    }
    if unread.is_none() && !unknown && !news {
        let again = archive::consider(&session, &context).await?.map_or(again, |archive| archive.min(again));
        return Ok(Action::requeue(again));
    }
    let again = if unknown { again.min(SILENT_AGAIN) } else { again };
    Ok(Action::requeue(again))
}

/// What a process that is gone told last, if it has told everything and the session sleeps by that: then nobody has to read what it has stored.
fn last_word(
    session: &KernelSession,
    liveness: &Liveness,
    placement: Option<&Placement>,
    context: &Context,
) -> Option<Option<Box<SessionReport>>> {
    let placement = placement.filter(|_| *liveness == Liveness::Gone)?;
    let word = context.hub.last_word(placement, &session.stored_uid())?;
    word.as_ref().is_none_or(|report| report.state == State::Hibernated).then_some(word.map(Box::new))
}

pub(crate) fn pool_key(session: &KernelSession) -> (String, String) {
    (session.namespace().unwrap_or_default(), session.spec.pool.clone())
}

/// Has the session's pool looked at if it should have another number of pods.
fn resize_pool(session: &KernelSession, context: &Context) {
    let (namespace, pool) = pool_key(session);
    if pool::is_to_resize(context, &namespace, &pool) {
        // A pool whose turn does not fit the queue is looked at before long in any case.
        let _ = context.pool_triggers.try_send(ObjectRef::new(&pool).within(&namespace));
    }
}

fn has_finalizer(session: &KernelSession) -> bool {
    session.finalizers().iter().any(|name| name == STORAGE_FINALIZER)
}

pub(crate) async fn add_finalizer(client: &Client, session: &KernelSession) -> Result<(), ReconcileError> {
    let mut finalizers = session.finalizers().to_vec();
    finalizers.push(STORAGE_FINALIZER.to_owned());
    patch_finalizers(client, session, finalizers).await
}

/// Replaces the finalizers, if the object is still the one that was read.
async fn patch_finalizers(client: &Client, session: &KernelSession, finalizers: Vec<String>) -> Result<(), ReconcileError> {
    let api: Api<KernelSession> = Api::namespaced(client.clone(), &session.namespace().unwrap_or_default());
    let body = json!({ "metadata": {
        "uid": session.uid(), "resourceVersion": session.resource_version(), "finalizers": finalizers,
    } });
    match api.patch(&session.name_any(), &PatchParams::default(), &Patch::Merge(&body)).await {
        Err(kube::Error::Api(answer)) if answer.is_not_found() => Ok(()),
        other => Ok(other.map(|_| ())?),
    }
}

/// A namespace's first session brings the default pool with it.
async fn ensure_pool(session: &KernelSession, context: &Context) -> Result<(), ReconcileError> {
    let namespace = session.namespace().unwrap_or_default();
    if session.spec.pool != DEFAULT_POOL || context.caches.pools.get(&ObjectRef::new(DEFAULT_POOL).within(&namespace)).is_some() {
        return Ok(());
    }
    let api: Api<KernelPool> = Api::namespaced(context.client.clone(), &namespace);
    let params = PostParams { field_manager: Some(dormouse_crds::labels::MANAGER.to_owned()), ..PostParams::default() };
    match api.create(&params, &KernelPool::new(DEFAULT_POOL, KernelPoolSpec::default())).await {
        Ok(_) => {
            tracing::info!(namespace, "made the default pool");
            Ok(())
        }
        // Already there, or the namespace is on its way out.
        Err(kube::Error::Api(answer)) if matches!(answer.code, 403 | 409) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Why a pool cannot run a session, in words that a session's condition may repeat.
fn trouble(pool: Option<&KernelPool>) -> Option<(PoolReason, String)> {
    let ready = find(&pool?.status.as_ref()?.conditions, READY)?;
    let reason = PoolReason::parse(&ready.reason).filter(|reason| ready.status == "False" && reason.is_trouble())?;
    Some((reason, ready.message.clone()))
}

/// Whether the process of a session lives.
#[derive(Debug, PartialEq)]
enum Liveness {
    /// Status names no process.
    None,
    /// The process lives; its report under the epoch of status.
    Alive(Option<Box<SessionReport>>),
    /// The process may live; the last that was heard from it under the epoch of status.
    Unknown(Option<Box<SessionReport>>),
    /// The process is gone for certain.
    Gone,
}

async fn liveness(session: &KernelSession, placement: Option<&Placement>, context: &Context) -> Result<Liveness, ReconcileError> {
    let Some(placement) = placement else { return Ok(Liveness::None) };
    let namespace = session.namespace().unwrap_or_default();
    let cached = context.caches.pods.get(&ObjectRef::new(&placement.pod).within(&namespace));
    let Some(pod) = cached.filter(|pod| lives(pod, placement)) else {
        // The cache may be behind: only the API server says that a pod is gone.
        let api: Api<Pod> = Api::namespaced(context.client.clone(), &namespace);
        let lives = api.get_opt(&placement.pod).await?.is_some_and(|pod| lives(&pod, placement));
        return Ok(if lives { Liveness::Unknown(None) } else { Liveness::Gone });
    };
    let Some(told) = context.hub.report_of(&placement.pod_uid, &session.spec.pool, &session.stored_uid()) else {
        return Ok(Liveness::Unknown(None));
    };
    if told.boot != placement.boot {
        let ip = pod.status.as_ref().and_then(|status| status.pod_ip.clone()).unwrap_or_default();
        let peer = Identity::kernel(&namespace, &session.spec.pool, &placement.pod);
        let now = reports::info(context, &peer, &ip).await;
        return Ok(if now.is_ok_and(|info| info.boot != placement.boot) { Liveness::Gone } else { Liveness::Unknown(None) });
    }
    let report = told.report.filter(|report| report.epoch == placement.epoch).map(Box::new);
    let known = told.open && (report.is_some() || told.complete);
    Ok(if known { Liveness::Alive(report) } else { Liveness::Unknown(report) })
}

/// Whether the pod of a session is not ready and its stream is not open: then its node may be lost.
fn is_unreachable(session: &KernelSession, placement: Option<&Placement>, context: &Context) -> bool {
    let Some(placement) = placement else { return false };
    let pod = context.caches.pods.get(&ObjectRef::new(&placement.pod).within(&session.namespace().unwrap_or_default()));
    let told = context.hub.report_of(&placement.pod_uid, &session.spec.pool, &session.stored_uid());
    pod.is_some_and(|pod| lives(&pod, placement) && is_not_ready(&pod)) && told.is_none_or(|told| !told.open)
}

/// Whether the pod was told to be ready before and is not now, which the node's own controller says of the pods of a lost node.
fn is_not_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status != "True")
}

fn lives(pod: &Pod, placement: &Placement) -> bool {
    pod.metadata.uid.as_ref() == Some(&placement.pod_uid) && !is_over(pod)
}

/// Clears the placement that was read. A gateway that placed the session anew meanwhile wins: the write then conflicts.
pub(crate) async fn clear_placement(context: &Context, session: &KernelSession) -> Result<(), ReconcileError> {
    let api: Api<KernelSession> = Api::namespaced(context.client.clone(), &session.namespace().unwrap_or_default());
    let body = json!({
        "metadata": { "resourceVersion": session.resource_version(), "uid": session.uid() },
        "status": { "placement": null },
    });
    let params = PatchParams { field_manager: Some(dormouse_crds::labels::MANAGER.to_owned()), ..PatchParams::default() };
    match api.patch_status(&session.name_any(), &params, &Patch::Merge(&body)).await {
        Err(kube::Error::Api(answer)) if answer.is_not_found() => Ok(()),
        other => {
            other?;
            context.metrics.placements_cleared.inc();
            tracing::info!(namespace = session.namespace(), name = session.name_any(), "placement cleared: the process is gone");
            Ok(())
        }
    }
}

/// Writes `new` if it is time, or `last` says that no newer will come. The answer is when to look again.
async fn write(
    session: &KernelSession,
    old: &KernelSessionStatus,
    new: &KernelSessionStatus,
    last: bool,
    context: &Context,
) -> Result<Duration, ReconcileError> {
    let (uid, now, writes) = (session.stored_uid(), Instant::now(), &context.writes);
    let turn = match urgency(old, new, session.metadata.generation) {
        Urgency::None => {
            writes.caught_up(&uid);
            return Ok(RESYNC);
        }
        _ if last => Ok(()),
        Urgency::Later => writes.busy(&uid, Duration::from_millis(context.config.status_interval_ms), now),
        Urgency::Now => writes.settled(&session.namespace().unwrap_or_default(), now),
    };
    if let Err(wait) = turn {
        return Ok(wait);
    }
    patch_status(&context.client, session, new).await?;
    context.metrics.status_writes.inc();
    writes.caught_up(&uid);
    announce(session, old, new, context).await;
    Ok(RESYNC)
}

/// An Event when the session cannot run, and when it can again: what a person should see. Sleeping and waking is what sessions do all day.
async fn announce(session: &KernelSession, old: &KernelSessionStatus, new: &KernelSessionStatus, context: &Context) {
    let failure = |status: &KernelSessionStatus| {
        let ready = find(&status.conditions, READY).filter(|ready| ready.status == "False");
        ready.filter(|ready| SessionReason::state(&ready.reason, false) == State::Failed).map(|ready| ready.reason.clone())
    };
    let (before, after) = (failure(old), failure(new));
    let Some(ready) = find(&new.conditions, READY).filter(|_| before != after) else { return };
    match after {
        Some(reason) => context.event(session, false, &reason, &ready.message).await,
        None => context.event(session, true, "Recovered", "The session can run again.").await,
    }
}
