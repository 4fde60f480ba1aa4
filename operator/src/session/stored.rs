//! What a process that is gone has stored of a session beyond what it told: asked of another kernel pod of the pool, which has the keys.
//!
//! A pod that is killed may have acked a cell whose timer nobody was told of. So a placement on it is cleared only once somebody has read the head,
//! unless the pod has said that it has told everything.

use std::time::Duration;

use dormouse_control::session::Stored;
use dormouse_crds::{labels::POOL, session::KernelSession};
use dormouse_protocol::kernel::{Anchor, KERNEL_PORT, StoredCall, StoredStatus};
use dormouse_service::{answer::read_json, tls::Identity};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use reqwest::Method;

use crate::{
    context::Context,
    pods::{ANSWER_BYTES_MAX, address_of, is_dedicated, is_over},
};

/// When nobody could tell, this is how soon it is asked again: the bound on how late a timer fires that only a pod's end left untold.
pub const ASK_AGAIN: Duration = Duration::from_secs(5);
/// How long a kernel pod may take to read a head.
const ASK_TIMEOUT: Duration = Duration::from_secs(5);
/// Pods that are asked at a time.
const ASKED_MAX: usize = 3;

/// Asks pods of the session's pool, one after the other.
pub async fn ask(session: &KernelSession, context: &Context) -> Stored {
    let Some(call) = call(session) else { return Stored::Nothing };
    let pods = context.caches.pods.state();
    let mine = |pod: &Pod| pod.namespace().as_deref() == Some(&call.namespace) && pod.labels().get(POOL) == Some(&session.spec.pool);
    // One that runs a session of its own may read no other.
    for pod in pods.iter().filter(|pod| mine(pod) && !is_over(pod) && !is_dedicated(pod)).take(ASKED_MAX) {
        match ask_one(context, pod, &call).await {
            Ok(status) => return Stored::Told(Box::new(status)),
            Err(error) => tracing::debug!(pod = pod.name_any(), %error, "a kernel pod does not tell what is stored"),
        }
    }
    tracing::info!(namespace = call.namespace, name = call.name, "no kernel pod can tell what is stored; it is asked again");
    Stored::Silent
}

/// A session that status knows to be stored. One that is not starts anew in any case, and its head tells then.
fn call(session: &KernelSession) -> Option<StoredCall> {
    let snapshot = session.status.as_ref()?.snapshot.as_ref()?;
    Some(StoredCall {
        namespace: session.namespace()?,
        name: session.name_any(),
        uid: session.stored_uid(),
        anchor: Some(Anchor::from(snapshot)),
    })
}

async fn ask_one(context: &Context, pod: &Pod, call: &StoredCall) -> Result<StoredStatus, String> {
    let ip = pod.status.as_ref().and_then(|status| status.pod_ip.as_deref()).ok_or("it has no address")?;
    let pool = pod.labels().get(POOL).map(String::as_str).unwrap_or_default();
    let peer = Identity::kernel(&call.namespace, pool, pod.name_any());
    let client = context.peer_client();
    let request = client.request(Method::POST, &peer, &address_of(ip, KERNEL_PORT), "/v1/stored/status").timeout(ASK_TIMEOUT).json(call);
    let response = client.send(request).await.map_err(|error| error.to_string())?;
    let response = response.error_for_status().map_err(|error| error.to_string())?;
    read_json(response, ANSWER_BYTES_MAX).await.map_err(|error| error.to_string())
}
