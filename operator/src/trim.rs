//! What of an object the caches keep: the parts that the operator reads. What a user may make as large as the API server lets them is none of those.

use std::collections::BTreeMap;

use dormouse_crds::{
    broker::ToolBroker,
    labels::{ARCHIVED_AS, GRANTED},
    pool::KernelPool,
    session::KernelSession,
};
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::api::ObjectMeta;

/// What Kubernetes reads: of the ready pods of a ReplicaSet those go first whose cost is the lowest. Without the annotation it is 0.
pub const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Objects that a list asks for at once: they are in memory whole until they are trimmed.
pub const LIST_PAGE_OBJECTS: u32 = 100;
/// Characters of a uid, which is a UUID.
const UID_CHARS_MAX: usize = 36;
/// Characters of a container's id, which is a digest behind the name of its runtime, and of a uid.
const GRANTED_CHARS_MAX: usize = 200;
/// Characters of a number of 32 bits.
const COST_CHARS_MAX: usize = 11;

/// A session without what only its pod reads.
pub fn session(session: &mut KernelSession) {
    let archived = session.metadata.annotations.take().and_then(|mut all| all.remove(ARCHIVED_AS));
    metadata(&mut session.metadata);
    // As much of it as tells that it is no uid.
    let archived = archived.map(|uid| uid.chars().take(UID_CHARS_MAX).collect());
    session.metadata.annotations = archived.map(|uid| BTreeMap::from([(ARCHIVED_AS.to_owned(), uid)]));
    session.metadata.labels = None;
    session.spec.leave_out();
}

/// A pool as it is.
pub fn pool(pool: &mut KernelPool) {
    metadata(&mut pool.metadata);
}

/// A ToolBroker as it is: its pods are made from all of it.
pub fn broker(broker: &mut ToolBroker) {
    metadata(&mut broker.metadata);
}

/// A pod's labels, its address, how it is, what it costs to delete it, and which session it was given to.
pub fn pod(pod: &mut Pod) {
    let mut all = pod.metadata.annotations.take().unwrap_or_default();
    let cost = all.remove_entry(DELETION_COST).filter(|(_, cost)| cost.len() <= COST_CHARS_MAX);
    // One that is too long was not written by an operator: as much of it as tells that it is none.
    let granted = all.remove_entry(GRANTED).map(|(name, granted)| (name, granted.chars().take(GRANTED_CHARS_MAX).collect()));
    metadata(&mut pod.metadata);
    let kept: BTreeMap<String, String> = cost.into_iter().chain(granted).collect();
    pod.metadata.annotations = (!kept.is_empty()).then_some(kept);
    pod.spec = None;
    pod.status = pod.status.take().map(|status| PodStatus {
        phase: status.phase,
        pod_ip: status.pod_ip,
        conditions: status.conditions,
        container_statuses: status.container_statuses,
        ..PodStatus::default()
    });
}

/// Without annotations and without the record of who wrote which field.
fn metadata(metadata: &mut ObjectMeta) {
    metadata.managed_fields = None;
    metadata.annotations = None;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that nobody reads are most of an object that somebody made as large as may be.
    #[test]
    fn what_only_pods_read_is_not_kept() {
        let large = "x".repeat(200_000);
        let mut object: KernelSession = serde_json::from_value(serde_json::json!({
            "metadata": { "name": "a", "namespace": "n", "uid": "u", "annotations": { "note": large }, "labels": { "l": large },
                "managedFields": [{ "manager": large }], "finalizers": ["dormouse.dev/storage"] },
            "spec": { "pool": "p", "bootstrap": { "code": large }, "modules": { "allow": [large] },
                "egress": { "allow": [{ "host": "h", "paths": [large] }] }, "serviceSecrets": { "s": large },
                "clientTools": [{ "name": "t", "input": { "description": large } }] },
        }))
        .unwrap();
        session(&mut object);
        let kept = serde_json::to_string(&object).unwrap();
        assert!(kept.len() < 2_000, "{kept}");
        assert_eq!((object.spec.pool.as_str(), object.metadata.finalizers.as_deref().map(<[String]>::len)), ("p", Some(1)));
    }

    fn kept(annotations: &serde_json::Value) -> Pod {
        let mut object: Pod = serde_json::from_value(serde_json::json!({
            "metadata": { "name": "p", "labels": { "l": "v" }, "annotations": annotations },
            "spec": { "containers": [{ "name": "kernel" }] },
            "status": { "phase": "Running", "podIP": "10.0.0.7", "message": "m", "conditions": [{ "type": "Ready", "status": "True" }] },
        }))
        .unwrap();
        pod(&mut object);
        object
    }

    #[test]
    fn of_a_pod_the_address_and_its_state_are_kept() {
        let object = kept(&serde_json::json!({ "a": "b" }));
        let status = object.status.unwrap();
        assert_eq!((status.phase.as_deref(), status.pod_ip.as_deref(), status.message), (Some("Running"), Some("10.0.0.7"), None));
        assert!(object.spec.is_none() && object.metadata.labels.is_some() && object.metadata.annotations.is_none());
    }

    #[test]
    fn and_what_it_costs_to_delete_it_as_long_as_that_can_be_a_number() {
        let cost = |cost: &str| kept(&serde_json::json!({ "a": "b", DELETION_COST: cost })).metadata.annotations;
        assert_eq!(cost("-2147483648"), Some(BTreeMap::from([(DELETION_COST.to_owned(), i32::MIN.to_string())])));
        assert_eq!(cost("-21474836480"), None);
    }

    #[test]
    fn and_whose_it_is_whatever_somebody_writes_there() {
        let granted = |granted: &str| kept(&serde_json::json!({ "a": "b", GRANTED: granted })).metadata.annotations.unwrap();
        assert_eq!(granted("containerd://1 u-1"), BTreeMap::from([(GRANTED.to_owned(), "containerd://1 u-1".to_owned())]));
        assert_eq!(granted(&"x".repeat(200_000))[GRANTED].len(), GRANTED_CHARS_MAX);
    }
}
