//! What is stored of a session, told by a kernel pod that need not have it.

use std::sync::Arc;

use dormouse_protocol::{ApiError, ErrorCode};

use crate::{
    directory::{KernelPod, Record},
    in_flight::means_elsewhere,
    kernels::KernelError,
    router::Router,
};

/// Pods that are asked for what is stored before the request fails.
const READERS_MAX: usize = 3;

/// Asks a pod of the session's pool about what is stored: the one that has the session first, else one that reads of any, and never one that was given to
/// another session. Wakes and places nothing; a pool without a pod gets one.
pub(crate) async fn ask<T, F>(router: &Router, record: &Arc<Record>, call: impl Fn(KernelPod) -> F) -> Result<T, ApiError>
where
    F: Future<Output = Result<T, KernelError>>,
{
    let own = router.placed(record, 0).map(|route| route.pod).filter(|pod| pod.tells_of(&record.uid));
    if own.is_none() {
        router.wait_for_reader(record).await?;
    }
    let mut readers = router.directory().pods(&record.key.namespace, &record.spec.pool);
    readers.retain(|pod| pod.role.reads() && own.as_ref().is_none_or(|own| own.uid != pod.uid));
    readers.sort_by_key(|pod| !pod.ready);
    for pod in own.into_iter().chain(readers).take(READERS_MAX) {
        match call(pod.clone()).await {
            Ok(answer) => return Ok(answer),
            Err(KernelError::Refused(refusal)) if !means_elsewhere(refusal.code) => return Err(refusal),
            Err(error) => {
                tracing::info!(session = %record.key, pod = pod.pod, %error, "a kernel pod did not tell what is stored; asking another")
            }
        }
    }
    let message = format!("no kernel pod of pool `{}` in namespace `{}` answers: try later", record.spec.pool, record.key.namespace);
    Err(ApiError::new(ErrorCode::CapacityExhausted, message))
}
