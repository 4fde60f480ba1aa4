//! Kernel pods, as read from API objects.

use std::net::{IpAddr, SocketAddr};

use dormouse_control::pool::granted::GrantedTo;
use dormouse_crds::labels::{GRANTED, POOL, ROLE, ROLE_READER, ROLE_SESSION};
use dormouse_protocol::kernel::KERNEL_PORT;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use super::{KernelPod, Role};

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
        role: role(pod.labels().get(ROLE).map(String::as_str)),
        given_to: pod.annotations().get(GRANTED).map(|granted| GrantedTo::read(granted).session.to_owned()),
    })
}

fn role(label: Option<&str>) -> Role {
    match label {
        None => Role::Both,
        Some(ROLE_SESSION) => Role::Session,
        Some(ROLE_READER) => Role::Reader,
        Some(_) => Role::Unknown,
    }
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

    #[test]
    fn a_label_says_whether_a_pod_runs_sessions_and_reads_what_is_stored() {
        for (label, role, runs, reads) in [
            (None, Role::Both, true, true),
            (Some("session"), Role::Session, true, false),
            (Some("reader"), Role::Reader, false, true),
            (Some("of-a-later-release"), Role::Unknown, false, false),
            (Some(""), Role::Unknown, false, false),
        ] {
            let read = read(&pod(serde_json::json!({"metadata": {"labels": {"dormouse.dev/role": label}}}))).unwrap();
            assert_eq!((read.role, read.role.runs(), read.role.reads()), (role, runs, reads), "{label:?}");
        }
    }

    #[test]
    fn a_pod_that_was_given_to_a_session_is_that_ones_whatever_runs_in_it() {
        let read = |granted: Option<&str>| {
            let metadata =
                serde_json::json!({"annotations": {"dormouse.dev/granted": granted}, "labels": {"dormouse.dev/role": "session"}});
            read(&pod(serde_json::json!({ "metadata": metadata }))).unwrap()
        };
        let given = read(Some("containerd://1 u-1"));
        assert_eq!(given.given_to.as_deref(), Some("u-1"));
        assert!(given.may_have("u-1") && !given.may_have("u-2") && given.tells_of("u-1") && !given.tells_of("u-2"));
        let strange = read(Some("nonsense"));
        assert!(!strange.may_have("u-1") && !strange.tells_of("u-1"));
        let vacant = read(None);
        assert!(vacant.may_have("u-1") && vacant.may_have("u-2") && !vacant.tells_of("u-1"));
    }
}
