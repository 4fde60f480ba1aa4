//! Pods of a dedicated pool that are good for nobody any more: they are deleted, and their ReplicaSet makes others.
//!
//! A pod that was given to a session is that one's for its life. When the process has ended that ran it, the kubelet starts another in the same pod, later
//! each time, which nobody may be placed on. And where the session is elsewhere, its process may not have heard of it, or does as if it had not.

use std::time::Duration;

use dormouse_crds::labels::POOL;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Preconditions},
};

use super::validate::ValidPool;
use crate::{
    context::Context,
    error::ReconcileError,
    pods::{granted_to, is_dedicated, is_spent},
};

/// How long a pod stays whose session is not placed there: that may be placed there again meanwhile, and a process that hears of it ends by itself.
const LEFT_MAX: SignedDuration = SignedDuration::from_secs(90);

/// Seconds that the process of a pod has to end in which no session is placed: it has nothing that is not stored. One that had just begun when it was told
/// to end may not have heard it.
const GRACE_SECONDS: u32 = 1;

/// Deletes them. The answer is when there may be another; `None`: when something changes.
///
/// # Errors
/// The API server refuses it or cannot be reached.
pub(super) async fn discard(valid: &ValidPool, context: &Context) -> Result<Option<Duration>, ReconcileError> {
    let now = Timestamp::now();
    let mut next = None;
    for pod in context.caches.pods.state() {
        let is_of_pool = pod.namespace().as_ref() == Some(&valid.namespace) && pod.labels().get(POOL) == Some(&valid.name);
        if !is_of_pool || !is_dedicated(&pod) || pod.metadata.deletion_timestamp.is_some() {
            continue;
        }
        match left(&pod, context, now) {
            None => {}
            Some(left) if left.is_zero() => delete(&pod, context).await?,
            Some(left) => next = Some(next.map_or(left, |next: Duration| next.min(left))),
        }
    }
    Ok(next)
}

/// How long the pod stays; `None`: it is nobody's yet, or its session is there.
fn left(pod: &Pod, context: &Context, now: Timestamp) -> Option<Duration> {
    granted_to(pod)?;
    if is_spent(pod) {
        return Some(Duration::ZERO);
    }
    let uid = pod.uid().unwrap_or_default();
    let is_placed = !context.index().placed_on(&uid).is_empty();
    let since = context.grants.left_since(&uid, is_placed, now)?;
    Some(Duration::try_from(LEFT_MAX - now.duration_since(since)).unwrap_or_default())
}

async fn delete(pod: &Pod, context: &Context) -> Result<(), ReconcileError> {
    let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
    let api: Api<Pod> = Api::namespaced(context.client.clone(), &namespace);
    let preconditions = Some(Preconditions { uid: pod.uid(), resource_version: None });
    let grace_period_seconds = context.index().placed_on(&pod.uid().unwrap_or_default()).is_empty().then_some(GRACE_SECONDS);
    match api.delete(&name, &DeleteParams { preconditions, grace_period_seconds, ..DeleteParams::default() }).await {
        Ok(_) => {
            tracing::info!(namespace, pod = name, "a pod whose only session has left it is deleted");
            Ok(())
        }
        // It is gone, or another one of its name is there.
        Err(kube::Error::Api(answer)) if answer.is_not_found() || answer.is_conflict() => Ok(()),
        // A pool whose spent pods stay has fewer, and is no worse off otherwise.
        Err(kube::Error::Api(refused)) if refused.is_forbidden() => {
            tracing::warn!(
                namespace,
                pod = name,
                "a pod whose only session has left it stays: the ClusterRole of the chart lets the operator delete pods: is it up to date?"
            );
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}
