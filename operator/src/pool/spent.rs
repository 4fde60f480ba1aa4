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
/// to end may not have heard it. Where a session is placed, it has as many as any other: what the kubelet tells may be old.
const GRACE_SECONDS: u32 = 1;

/// What becomes of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Its session is there.
    Stays,
    /// It goes in a while, unless its session comes back.
    GoesIn(Duration),
    /// It goes; its process has so many seconds to end, or as many as any other.
    Goes { grace_seconds: Option<u32> },
}

/// Deletes them. The answer is when there may be another; `None`: when something changes.
///
/// # Errors
/// The API server refuses it or cannot be reached.
pub(super) async fn discard(valid: &ValidPool, context: &Context) -> Result<Option<Duration>, ReconcileError> {
    if !valid.is_dedicated() {
        // Those of before are replaced all.
        return Ok(None);
    }
    let now = Timestamp::now();
    let mut next: Option<Duration> = None;
    for pod in context.caches.pods.state() {
        let is_of_pool = pod.namespace().as_ref() == Some(&valid.namespace) && pod.labels().get(POOL) == Some(&valid.name);
        if !is_of_pool || !is_dedicated(&pod) || granted_to(&pod).is_none() || pod.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let uid = pod.uid().unwrap_or_default();
        let is_placed = !context.index().placed_on(&uid).is_empty();
        match fate(&pod, context.grants.left_since(&uid, is_placed, now), now) {
            Fate::Stays => {}
            Fate::GoesIn(left) => next = Some(next.map_or(left, |next| next.min(left))),
            Fate::Goes { grace_seconds } => delete(&pod, grace_seconds, context).await?,
        }
    }
    Ok(next)
}

/// Decides it, of a pod that was given to a session. `left_since`: since when none is placed there; `None`: one is.
fn fate(pod: &Pod, left_since: Option<Timestamp>, now: Timestamp) -> Fate {
    if is_spent(pod) {
        return Fate::Goes { grace_seconds: left_since.map(|_| GRACE_SECONDS) };
    }
    let Some(since) = left_since else { return Fate::Stays };
    match Duration::try_from(LEFT_MAX - now.duration_since(since)).ok().filter(|left| !left.is_zero()) {
        Some(left) => Fate::GoesIn(left),
        None => Fate::Goes { grace_seconds: Some(GRACE_SECONDS) },
    }
}

async fn delete(pod: &Pod, grace_period_seconds: Option<u32>, context: &Context) -> Result<(), ReconcileError> {
    let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
    let api: Api<Pod> = Api::namespaced(context.client.clone(), &namespace);
    let preconditions = Some(Preconditions { uid: pod.uid(), resource_version: None });
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

#[cfg(test)]
mod tests {
    use dormouse_crds::labels::GRANTED;

    use super::*;

    fn pod(granted: &str) -> Pod {
        let kernel = serde_json::json!({ "name": "kernel", "containerID": "c://1", "image": "", "imageID": "", "ready": true, "restartCount": 0,
            "state": { "running": {} } });
        let annotations = serde_json::json!({ GRANTED: granted });
        serde_json::from_value(
            serde_json::json!({ "metadata": { "annotations": annotations }, "status": { "containerStatuses": [kernel] } }),
        )
        .unwrap()
    }

    #[test]
    fn a_pod_goes_when_its_process_has_ended_or_its_session_has_been_elsewhere_for_a_minute_and_a_half() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let soon = Fate::Goes { grace_seconds: Some(1) };
        for (granted, left_since, expected) in [
            ("c://1 s", None, Fate::Stays),
            ("c://1 s", Some(100), Fate::GoesIn(Duration::from_secs(90))),
            ("c://1 s", Some(11), Fate::GoesIn(Duration::from_secs(1))),
            ("c://1 s", Some(10), soon),
            ("c://1 s", Some(0), soon),
            ("c://0 s", Some(100), soon),
            ("c://0 s", None, Fate::Goes { grace_seconds: None }),
        ] {
            assert_eq!(fate(&pod(granted), left_since.map(at), at(100)), expected, "{granted:?} {left_since:?}");
        }
    }
}
