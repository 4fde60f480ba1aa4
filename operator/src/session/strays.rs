//! Processes that still have a session which was placed elsewhere since, and do not know it: one that was cut off, or was reached by an order that came late.
//! Nothing that they do counts, for the store refuses their epoch, but they hold a slot. They are told to put it to sleep.

use dormouse_crds::session::{KernelSession, KernelSessionStatus, Placement};
use dormouse_protocol::kernel::KERNEL_PORT;
use dormouse_service::tls::Identity;
use kube::ResourceExt as _;
use reqwest::{Method, StatusCode};

use super::deletion::{ORDER_TIMEOUT, assignment};
use crate::{context::Context, pods::address_of};

/// Tells them; the answer is whether there are any.
pub(super) async fn call_back(session: &KernelSession, status: &KernelSessionStatus, context: &Context) -> bool {
    let (namespace, pool) = (session.namespace().unwrap_or_default(), &session.spec.pool);
    // Where it has no place: under the epoch that was given out last it may just be beginning.
    let below = status.placement.as_ref().map(|placement| placement.epoch).or(status.last_epoch).unwrap_or_default();
    let owner = status.placement.as_ref().map(|placement| placement.pod_uid.as_str());
    let strays = context.hub.strays(&namespace, pool, &session.stored_uid(), owner, below);
    for stray in &strays {
        let pods = context.caches.pods.state();
        let pod = pods.iter().find(|pod| pod.metadata.uid.as_ref() == Some(&stray.pod_uid));
        let Some((pod, ip)) = pod.and_then(|pod| Some((pod.name_any(), pod.status.as_ref()?.pod_ip.clone()?))) else { continue };
        let peer = Identity::kernel(&namespace, pool, &pod);
        let under = Placement { pod: pod.clone(), pod_uid: stray.pod_uid.clone(), boot: stray.boot.clone(), epoch: stray.epoch };
        let request = context.peer_client().request(Method::POST, &peer, &address_of(&ip, KERNEL_PORT), "/v1/leave");
        let answered = request.timeout(ORDER_TIMEOUT).json(&assignment(session, under)).send().await;
        let (name, epoch) = (session.name_any(), stray.epoch);
        match answered.map(|answer| answer.status()) {
            // It slept, or the store told it, too, that the session is another's.
            Ok(status) if status.is_success() || status == StatusCode::GONE => {
                tracing::info!(namespace, name, pod, epoch, "a pod was told that a session is another's by now");
            }
            // What the pod tells next says whether it has it still.
            Ok(status) => {
                tracing::info!(namespace, name, pod, epoch, %status, "a pod does not let go of a session that is another's by now")
            }
            Err(error) => tracing::info!(namespace, name, pod, epoch, %error, "a pod could not be told that a session is another's by now"),
        }
    }
    !strays.is_empty()
}
