//! What is read of a session: of its process in the caches, at the API server and among the reports, of what is stored, and of its pool.

use std::time::Instant;

use dormouse_control::session::{Liveness, Observation};
use dormouse_crds::session::{KernelSession, KernelSessionStatus, Placement};
use dormouse_protocol::{kernel::SessionReport, session::State};
use dormouse_service::tls::Identity;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt as _, runtime::reflector::ObjectRef};

use super::{own_pool, stored};
use crate::{context::Context, error::ReconcileError, pods::is_over, reports};

/// Reads all that is decided by.
///
/// # Errors
/// The API server failed.
pub(super) async fn dereference<'a>(
    session: &KernelSession,
    previous: &'a KernelSessionStatus,
    context: &Context,
) -> Result<Observation<'a>, ReconcileError> {
    let liveness = match &previous.placement {
        Some(placement) => placed(session, placement, context).await?,
        None => unplaced(session, context).await,
    };
    let pool_trouble = own_pool::trouble(session, context);
    Ok(Observation { generation: session.metadata.generation, previous, liveness, pool_trouble, now: Timestamp::now() })
}

async fn unplaced(session: &KernelSession, context: &Context) -> Liveness {
    let due_in = context.unread.due_in(&session.stored_uid(), Instant::now());
    if due_in.is_some_and(|due_in| due_in.is_zero()) {
        return Liveness::Unplaced(Some(stored::ask(session, context).await));
    }
    Liveness::Unplaced(None)
}

async fn placed(session: &KernelSession, placement: &Placement, context: &Context) -> Result<Liveness, ReconcileError> {
    Ok(match process(session, placement, context).await? {
        Process::Alive(report) => Liveness::Alive(report),
        Process::Unknown(report) if is_unreachable(session, placement, context) => Liveness::Unreachable(report),
        Process::Unknown(report) => Liveness::Unknown(report),
        Process::Gone => match context.hub.last_word(placement, &session.stored_uid()) {
            Some(word) if word.as_ref().is_none_or(|report| report.state == State::Hibernated) => Liveness::Drained(word.map(Box::new)),
            _ => Liveness::Gone(stored::ask(session, context).await),
        },
    })
}

/// Whether a process lives, and what was heard from it under the epoch of status.
enum Process {
    /// It does.
    Alive(Option<Box<SessionReport>>),
    /// It may.
    Unknown(Option<Box<SessionReport>>),
    /// It is gone for certain.
    Gone,
}

async fn process(session: &KernelSession, placement: &Placement, context: &Context) -> Result<Process, ReconcileError> {
    let namespace = session.namespace().unwrap_or_default();
    let cached = context.caches.pods.get(&ObjectRef::new(&placement.pod).within(&namespace));
    let Some(pod) = cached.filter(|pod| lives(pod, placement)) else {
        // The cache may be behind: only the API server says that a pod is gone.
        let api: Api<Pod> = Api::namespaced(context.client.clone(), &namespace);
        let lives = api.get_opt(&placement.pod).await?.is_some_and(|pod| lives(&pod, placement));
        return Ok(if lives { Process::Unknown(None) } else { Process::Gone });
    };
    let Some(told) = context.hub.report_of(&placement.pod_uid, &session.spec.pool, &session.stored_uid()) else {
        return Ok(Process::Unknown(None));
    };
    if told.boot != placement.boot {
        let ip = pod.status.as_ref().and_then(|status| status.pod_ip.clone()).unwrap_or_default();
        let peer = Identity::kernel(&namespace, &session.spec.pool, &placement.pod);
        let now = reports::info(context, &peer, &ip).await;
        return Ok(if now.is_ok_and(|info| info.boot != placement.boot) { Process::Gone } else { Process::Unknown(None) });
    }
    let report = told.report.filter(|report| report.epoch == placement.epoch).map(Box::new);
    let known = told.open && (report.is_some() || told.complete);
    Ok(if known { Process::Alive(report) } else { Process::Unknown(report) })
}

/// Whether the pod of a session is not ready and its stream is not open: then its node may be lost.
fn is_unreachable(session: &KernelSession, placement: &Placement, context: &Context) -> bool {
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
