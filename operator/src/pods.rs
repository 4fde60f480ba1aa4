//! Kernel pods, as the API server shows them.

use dormouse_control::pool::granted::GrantedTo;
use dormouse_crds::labels::{COMPONENT, GRANTED, POOL, ROLE, ROLE_READER, ROLE_SESSION};
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

/// Whether it tells what the sessions of this pool have stored, and runs none.
#[must_use]
pub fn is_reader_of(pod: &Pod, namespace: &str, pool: &str) -> bool {
    let has = |label: &str, value: &str| pod.labels().get(label).is_some_and(|is| is == value);
    pod.namespace().as_deref() == Some(namespace) && has(COMPONENT, "kernel") && has(POOL, pool) && has(ROLE, ROLE_READER)
}

/// Whether the kubelet says that it is ready.
#[must_use]
pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// The container in which the process of a kernel pod runs now, by the id that the kubelet says. One that follows it has another.
#[must_use]
pub fn container(pod: &Pod) -> Option<&str> {
    let statuses = pod.status.as_ref()?.container_statuses.as_deref()?;
    let kernel = statuses.iter().find(|container| container.name == KERNEL_CONTAINER)?;
    kernel.state.as_ref()?.running.as_ref()?;
    kernel.container_id.as_deref().filter(|id| !id.is_empty())
}

/// Whose a pod is that runs one session in its life; `None`: nobody's yet.
#[must_use]
pub fn granted_to(pod: &Pod) -> Option<GrantedTo<'_>> {
    pod.annotations().get(GRANTED).map(|granted| GrantedTo::read(granted))
}

/// Whether it was a session's, and the process that ran it has ended: it is good for nobody any more.
#[must_use]
pub fn is_spent(pod: &Pod) -> bool {
    granted_to(pod).is_some_and(|granted| container(pod) != Some(granted.container))
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
        assert_eq!(container(&pod(None, &serde_json::json!({ "running": {} }))), Some("containerd://2"));
        for state in [serde_json::json!({}), serde_json::json!({ "terminated": { "exitCode": 0 } }), serde_json::json!({ "waiting": {} })] {
            assert_eq!(container(&pod(None, &state)), None, "{state}");
        }
        assert_eq!(container(&Pod::default()), None);
    }

    #[test]
    fn a_pod_is_spent_once_the_process_has_ended_that_was_given_a_session() {
        let granted = |note: Option<&str>, state: serde_json::Value| {
            let mut pod = pod(Some(ROLE_SESSION), &state);
            pod.metadata.annotations = note.map(|note| [(GRANTED.to_owned(), note.to_owned())].into());
            (granted_to(&pod).map(|granted| granted.session.to_owned()), is_spent(&pod))
        };
        let (running, ended) = (serde_json::json!({ "running": {} }), serde_json::json!({ "terminated": { "exitCode": 0 } }));
        for (note, state, session, spent) in [
            (None, &running, None, false),
            (None, &ended, None, false),
            (Some("containerd://2 s"), &running, Some("s"), false),
            (Some("containerd://2 s"), &ended, Some("s"), true),
            (Some("containerd://1 s"), &running, Some("s"), true),
            (Some("nonsense"), &running, Some(""), true),
        ] {
            assert_eq!(granted(note, state.clone()), (session.map(str::to_owned), spent), "{note:?} {state}");
        }
    }
}
