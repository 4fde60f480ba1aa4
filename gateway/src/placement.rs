//! Asks the pods that could run a session how they are, and lets the lifecycle core choose.

use std::sync::Arc;

use dormouse_crds::session::Placement;
use dormouse_lifecycle::placement::{Candidate, choose};
use futures::future::join_all;

use crate::{
    directory::{Directory, KernelPod, Record},
    kernels::Kernels,
};

/// Pods that are asked for one placement; of more, those whose names come first.
pub const CANDIDATES_MAX: usize = 32;

/// The placement that comes next for `record`, if some pod has room.
pub async fn next(directory: &Arc<dyn Directory>, kernels: &Kernels, record: &Record) -> Option<Placement> {
    let mut pods: Vec<KernelPod> = directory.pods(&record.key.namespace, &record.spec.pool).into_iter().filter(|pod| pod.ready).collect();
    pods.sort_by(|a, b| a.pod.cmp(&b.pod));
    pods.truncate(CANDIDATES_MAX);
    let answers = join_all(pods.into_iter().map(|pod| async move {
        match kernels.info(&pod).await {
            Ok(info) => Some((pod, info)),
            Err(error) => {
                tracing::debug!(pod = pod.pod, %error, "a kernel pod does not answer and takes no session");
                None
            }
        }
    }))
    .await;
    let answers: Vec<_> = answers.into_iter().flatten().collect();
    let last = record.status.placement.as_ref();
    let candidates: Vec<Candidate> = answers
        .iter()
        .map(|(pod, info)| Candidate {
            pod: pod.pod.clone(),
            free_slots: info.slots.saturating_sub(info.used),
            draining: info.draining,
            has_copy: last.is_some_and(|last| last.boot == info.boot),
        })
        .collect();
    let chosen = choose(&candidates)?;
    let (pod, info) = answers.iter().find(|(pod, _)| pod.pod == chosen.pod)?;
    Some(Placement { pod: pod.pod.clone(), pod_uid: pod.uid.clone(), boot: info.boot.clone(), epoch: next_epoch(record) })
}

/// One more than every epoch that was ever given out.
fn next_epoch(record: &Record) -> u64 {
    let placed = record.status.placement.as_ref().map_or(0, |placement| placement.epoch);
    record.status.last_epoch.unwrap_or(0).max(placed) + 1
}
