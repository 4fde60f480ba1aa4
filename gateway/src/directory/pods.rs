//! Kernel pods, as read from API objects.

use std::net::{IpAddr, SocketAddr};

use dormouse_crds::labels::POOL;
use dormouse_protocol::kernel::KERNEL_PORT;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use super::KernelPod;

/// The kernel pod in an API object, if it has an address and has not ended.
pub(super) fn read(pod: &Pod) -> Option<KernelPod> {
    let status = pod.status.as_ref()?;
    if matches!(status.phase.as_deref(), Some("Failed" | "Succeeded")) {
        return None;
    }
    let address: IpAddr = status.pod_ip.as_deref()?.parse().ok()?;
    let conditions = status.conditions.iter().flatten();
    let ready = conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
    Some(KernelPod {
        pod: pod.name_any(),
        uid: pod.uid()?,
        namespace: pod.namespace()?,
        pool: pod.labels().get(POOL)?.clone(),
        address: SocketAddr::new(address, KERNEL_PORT),
        ready: ready && pod.metadata.deletion_timestamp.is_none(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(patch: serde_json::Value) -> Pod {
        let mut pod = serde_json::json!({
            "metadata": {"name": "p", "namespace": "a", "uid": "u", "labels": {"dormouse.dev/pool": "default"}},
            "status": {"phase": "Running", "podIP": "10.0.0.7", "conditions": [{"type": "Ready", "status": "True"}]},
        });
        super::super::merge_patch(&mut pod, &patch);
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn only_pods_that_run_and_stay_are_ready() {
        let running = read(&pod(serde_json::json!({}))).unwrap();
        assert!(running.ready);
        assert_eq!(running.address.to_string(), "10.0.0.7:7443");
        let going = read(&pod(serde_json::json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}))).unwrap();
        assert!(!going.ready);
        let starting = read(&pod(serde_json::json!({"status": {"conditions": null}}))).unwrap();
        assert!(!starting.ready);
    }

    #[test]
    fn pods_without_an_address_or_an_end_in_sight_are_none() {
        assert_eq!(read(&pod(serde_json::json!({"status": {"podIP": null}}))), None);
        assert_eq!(read(&pod(serde_json::json!({"status": {"phase": "Failed"}}))), None);
    }
}
