//! Whether a pool can run sessions, and why not: what the Deployment counts, and what its pods say.

use std::time::Duration;

use dormouse_control::reason::PoolReason;
use dormouse_crds::labels::{COMPONENT, POOL};
use dormouse_protocol::ErrorCode;
use dormouse_service::{admin::ReadyBody, answer::read_json, readiness::Reason};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::ResourceExt as _;

use super::validate::ValidPool;
use crate::{
    context::Context,
    pods::{address_of, runs_sessions},
    restricted::ADMIN_PORT,
};

/// Pods that are asked why they are not ready.
const PODS_ASKED_MAX: usize = 3;
/// Bytes of an answer that are read.
const BODY_BYTES_MAX: usize = 64 << 10;
/// Characters of a pod's reason that a condition repeats.
const REASON_CHARS_MAX: usize = 500;
/// How long one may take to answer.
const ASK_TIMEOUT: Duration = Duration::from_secs(2);

/// What the `Ready` condition will say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Its status.
    pub ready: bool,
    /// Its reason.
    pub reason: PoolReason,
    /// Its message.
    pub message: String,
    /// Pods that are ready.
    pub pods: u32,
}

/// What a pool was made to be.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// The pods that run sessions.
    pub deployment: Deployment,
    /// How many of them there should be.
    pub wanted: u32,
    /// The pod that tells what is stored, of a dedicated pool.
    pub reader: Option<Deployment>,
}

impl Applied {
    fn ready(&self) -> u32 {
        ready_pods(&self.deployment)
    }

    /// Whether what tells of the store is not there: of a dedicated pool nobody else looks whether that can be used.
    fn lacks_reader(&self) -> bool {
        self.wanted > 0 && self.reader.as_ref().is_some_and(|reader| ready_pods(reader) == 0)
    }
}

/// The pool's health, asking pods that are not ready.
pub async fn of(context: &Context, pool: &ValidPool, applied: &Applied) -> Health {
    let (ready, lacks_reader) = (applied.ready(), applied.lacks_reader());
    if !lacks_reader && (ready > 0 || applied.wanted == 0) {
        return counted(ready, applied.wanted);
    }
    let all = context.caches.pods.state();
    let mine = all.iter().filter(|pod| {
        pod.namespace().as_deref() == Some(&pool.namespace)
            && pod.labels().get(COMPONENT).is_some_and(|component| component == "kernel")
            && pod.labels().get(POOL) == Some(&pool.name)
            && pod.metadata.deletion_timestamp.is_none()
            && (!lacks_reader || !runs_sessions(pod))
    });
    let mut waiting = None;
    for pod in mine.take(PODS_ASKED_MAX) {
        if let Some(health) = ask(context, pod).await {
            return Health { pods: ready, ..health };
        }
        waiting = waiting.or_else(|| container_trouble(pod));
    }
    let starting = if lacks_reader { "The pod that reads what is stored is starting." } else { "The pods are starting." };
    Health { pods: ready, ..not_ready(waiting.as_deref().unwrap_or(starting)) }
}

fn ready_pods(deployment: &Deployment) -> u32 {
    let ready = deployment.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0);
    u32::try_from(ready).unwrap_or(0)
}

fn counted(ready: u32, wanted: u32) -> Health {
    let (reason, message) = if ready == 0 {
        (PoolReason::ScaledToZero, "No session of the pool is awake, and it keeps no warm pod: the next request makes one.".to_owned())
    } else {
        (PoolReason::PodsReady, format!("{ready} of {wanted} pods are ready."))
    };
    Health { ready: true, reason, message, pods: ready }
}

fn not_ready(message: &str) -> Health {
    Health { ready: false, reason: PoolReason::PodsNotReady, message: message.to_owned(), pods: 0 }
}

async fn ask(context: &Context, pod: &Pod) -> Option<Health> {
    let ip = pod.status.as_ref()?.pod_ip.as_deref().filter(|ip| !ip.is_empty())?;
    let url = format!("http://{}/readyz", address_of(ip, ADMIN_PORT));
    let response = context.http.get(url).timeout(ASK_TIMEOUT).send().await.ok()?;
    said(&read_json(response, BODY_BYTES_MAX).await.ok()?)
}

/// What a pod says of itself.
fn said(body: &ReadyBody) -> Option<Health> {
    let of = |gate: &Reason| match gate.code {
        Some(ErrorCode::StorageUnsafe) => PoolReason::StorageUnsafe,
        Some(ErrorCode::StorageUnavailable) => PoolReason::StorageUnavailable,
        _ => PoolReason::PodsNotReady,
    };
    let worst = body.reasons.iter().max_by_key(|gate| of(gate).is_trouble())?;
    Some(Health { ready: false, reason: of(worst), message: worst.reason.chars().take(REASON_CHARS_MAX).collect(), pods: 0 })
}

/// Why a container does not start, as the kubelet tells it.
fn container_trouble(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let waiting = status.container_statuses.iter().flatten().find_map(|container| container.state.as_ref()?.waiting.as_ref());
    if let Some(waiting) = waiting {
        let reason = waiting.reason.as_deref().unwrap_or("Waiting");
        return Some(format!("Pod {}: {reason}: {}", pod.name_any(), waiting.message.as_deref().unwrap_or("no details")));
    }
    let unscheduled = status.conditions.iter().flatten().find(|c| c.type_ == "PodScheduled" && c.status == "False")?;
    Some(format!("Pod {} cannot be scheduled: {}", pod.name_any(), unscheduled.message.as_deref().unwrap_or("no details")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(code: Option<ErrorCode>, text: &str) -> ReadyBody {
        let reason = |gate: &str, code, text: &str| Reason { gate: gate.to_owned(), code, reason: text.to_owned() };
        ReadyBody { ready: false, reasons: vec![reason("engine", None, "starting"), reason("storage", code, text)] }
    }

    #[test]
    fn what_a_pod_says_of_storage_becomes_the_reason() {
        for (code, text, reason) in [
            (Some(ErrorCode::StorageUnsafe), "two conditional writes won", PoolReason::StorageUnsafe),
            (Some(ErrorCode::StorageUnavailable), "no bucket `StorageUnsafe`", PoolReason::StorageUnavailable),
            (Some(ErrorCode::Internal), "StorageUnsafe", PoolReason::PodsNotReady),
            (None, "the bucket StorageUnavailable is waited for", PoolReason::PodsNotReady),
        ] {
            let health = said(&body(code, text)).unwrap();
            assert_eq!((health.ready, health.reason), (false, reason), "{text}: the code counts, and no word of the text");
        }
        assert_eq!(said(&ReadyBody { ready: true, reasons: Vec::new() }), None);
    }

    #[test]
    fn one_ready_pod_is_enough() {
        assert_eq!((counted(1, 3).ready, counted(1, 3).reason, counted(1, 3).pods), (true, PoolReason::PodsReady, 1));
        assert_eq!((counted(0, 0).ready, counted(0, 0).reason), (true, PoolReason::ScaledToZero));
    }

    #[test]
    fn a_dedicated_pool_needs_its_reader_while_it_has_pods() {
        let with = |ready: i32| Deployment {
            status: Some(k8s_openapi::api::apps::v1::DeploymentStatus { ready_replicas: Some(ready), ..Default::default() }),
            ..Deployment::default()
        };
        let lacks = |wanted, reader| Applied { deployment: with(1), wanted, reader }.lacks_reader();
        assert!(lacks(1, Some(with(0))) && lacks(1, Some(Deployment::default())));
        assert!(!lacks(1, Some(with(1))) && !lacks(0, Some(with(0))) && !lacks(1, None));
    }

    #[test]
    fn a_container_that_waits_says_why() {
        let pod: Pod = serde_json::from_value(serde_json::json!({
            "metadata": { "name": "p" },
            "status": { "containerStatuses": [{ "name": "kernel", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                "state": { "waiting": { "reason": "ImagePullBackOff", "message": "no such image" } } }] },
        }))
        .unwrap();
        assert_eq!(container_trouble(&pod).unwrap(), "Pod p: ImagePullBackOff: no such image");
    }
}
