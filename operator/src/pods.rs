//! Kernel pods, as the API server shows them.

use dormouse_crds::labels::{ROLE, ROLE_READER, ROLE_SESSION};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

/// Name of the container of a kernel pod.
pub const KERNEL_CONTAINER: &str = "kernel";
/// Bytes of an answer to a question.
pub const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Whether the pod's process can run no more.
#[must_use]
pub fn is_over(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    matches!(phase, "Failed" | "Succeeded")
}

/// Whether it runs sessions: all kernel pods do but readers.
#[must_use]
pub fn runs_sessions(pod: &Pod) -> bool {
    pod.labels().get(ROLE).is_none_or(|role| role != ROLE_READER)
}

/// Whether it runs one session in its life, for which it is given what it needs, and knows what is stored of no other.
#[must_use]
pub fn is_dedicated(pod: &Pod) -> bool {
    pod.labels().get(ROLE).is_some_and(|role| role == ROLE_SESSION)
}

/// A container that runs, as the kubelet tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Container<'a> {
    /// Its id. The one that follows it in its pod has another.
    pub id: &'a str,
    /// When it began, by the clock of its node.
    pub started: Option<Timestamp>,
}

/// The container in which the process of a kernel pod runs now.
#[must_use]
pub fn container(pod: &Pod) -> Option<Container<'_>> {
    let statuses = pod.status.as_ref()?.container_statuses.as_deref()?;
    let kernel = statuses.iter().find(|container| container.name == KERNEL_CONTAINER)?;
    let running = kernel.state.as_ref()?.running.as_ref()?;
    let id = kernel.container_id.as_deref().filter(|id| !id.is_empty())?;
    Some(Container { id, started: running.started_at.as_ref().map(|time| time.0) })
}

/// `host:port`, with the brackets that an IPv6 address needs.
#[must_use]
pub fn address_of(ip: &str, port: u16) -> String {
    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv6_addresses_get_brackets() {
        assert_eq!(address_of("10.0.0.1", 7443), "10.0.0.1:7443");
        assert_eq!(address_of("fd00::1", 7443), "[fd00::1]:7443");
    }

    fn pod(role: Option<&str>, state: &serde_json::Value) -> Pod {
        let labels = role.map(|role| serde_json::json!({ ROLE: role })).unwrap_or_default();
        let container = |name: &str, id: &str, state: &serde_json::Value| serde_json::json!({ "name": name, "containerID": id, "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state });
        let running = serde_json::json!({ "running": {} });
        let statuses = [container("sidecar", "containerd://1", &running), container(KERNEL_CONTAINER, "containerd://2", state)];
        serde_json::from_value(serde_json::json!({ "metadata": { "labels": labels }, "status": { "containerStatuses": statuses } }))
            .unwrap()
    }

    #[test]
    fn a_role_says_what_a_pod_does_and_one_without_does_both() {
        let running = serde_json::json!({ "running": {} });
        for (role, runs, dedicated) in [(None, true, false), (Some(ROLE_SESSION), true, true), (Some(ROLE_READER), false, false)] {
            let pod = pod(role, &running);
            assert_eq!((runs_sessions(&pod), is_dedicated(&pod)), (runs, dedicated), "{role:?}");
        }
    }

    #[test]
    fn the_container_is_the_one_in_which_the_process_runs_now() {
        let begun = serde_json::json!({ "running": { "startedAt": "1970-01-01T00:01:00Z" } });
        let started = Timestamp::from_second(60).unwrap();
        assert_eq!(container(&pod(None, &begun)), Some(Container { id: "containerd://2", started: Some(started) }));
        assert_eq!(container(&pod(None, &serde_json::json!({ "running": {} }))).map(|container| container.started), Some(None));
        for state in [serde_json::json!({}), serde_json::json!({ "terminated": { "exitCode": 0 } }), serde_json::json!({ "waiting": {} })] {
            assert_eq!(container(&pod(None, &state)), None, "{state}");
        }
        assert_eq!(container(&Pod::default()), None);
    }
}
