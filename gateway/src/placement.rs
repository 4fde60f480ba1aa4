//! Asks the pods that could run a session how they are, believes that for a second, and lets the lifecycle core choose.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use dormouse_crds::session::Placement;
use dormouse_lifecycle::placement::{Candidate, choose, next_epoch};
use dormouse_protocol::kernel::PodInfo;
use futures::future::join_all;
use tokio::time::Instant;

use crate::{
    directory::{Directory, KernelPod, Record},
    kernels::Kernels,
};

/// Pods that are asked for one placement; of more, those whose names come first.
pub const CANDIDATES_MAX: usize = 32;
/// How long it is believed what a pod said of itself, or that it did not answer.
pub const LOAD_AGE_MAX: Duration = Duration::from_secs(1);

/// How pods were when they were last asked, and what they were given since. A pod that is not so any more refuses, and is [forgotten](Self::forget).
#[derive(Debug, Default)]
pub struct Loads {
    /// By the pod's uid.
    seen: Mutex<BTreeMap<String, Load>>,
}

#[derive(Debug)]
struct Load {
    at: Instant,
    /// `None`: it did not answer.
    info: Option<PodInfo>,
}

impl Loads {
    /// The placement that comes next for `record`, under an epoch above `floor`, if some pod has room.
    pub async fn next(&self, directory: &Arc<dyn Directory>, kernels: &Kernels, record: &Record, floor: u64) -> Option<Placement> {
        let mut pods: Vec<KernelPod> =
            directory.pods(&record.key.namespace, &record.spec.pool).into_iter().filter(|pod| pod.ready).collect();
        pods.sort_by(|a, b| a.pod.cmp(&b.pod));
        pods.truncate(CANDIDATES_MAX);
        let unknown: Vec<&KernelPod> = self.unknown(&pods, Instant::now());
        let all = unknown.len() == pods.len();
        self.ask(kernels, unknown).await;
        let chosen = self.choose(record, &pods, floor);
        if chosen.is_some() || all {
            return chosen;
        }
        self.ask(kernels, pods.iter().collect()).await;
        self.choose(record, &pods, floor)
    }

    /// The pod is asked again before it is given anything.
    pub fn forget(&self, pod: &KernelPod) {
        self.with(|seen| seen.remove(&pod.uid));
    }

    fn unknown<'a>(&self, pods: &'a [KernelPod], now: Instant) -> Vec<&'a KernelPod> {
        self.with(|seen| {
            seen.retain(|_, load| now.saturating_duration_since(load.at) < LOAD_AGE_MAX);
            pods.iter().filter(|pod| !seen.contains_key(&pod.uid)).collect()
        })
    }

    async fn ask(&self, kernels: &Kernels, pods: Vec<&KernelPod>) {
        join_all(pods.into_iter().map(|pod| async move {
            let asked = kernels.info(pod).await;
            let info =
                asked.inspect_err(|error| tracing::debug!(pod = pod.pod, %error, "a kernel pod does not answer and takes no session"));
            self.with(|seen| seen.insert(pod.uid.clone(), Load { at: Instant::now(), info: info.ok() }));
        }))
        .await;
    }

    /// Takes a slot of the best pod.
    fn choose(&self, record: &Record, pods: &[KernelPod], floor: u64) -> Option<Placement> {
        let last = record.status.placement.as_ref();
        self.with(|seen| {
            let candidates: Vec<Candidate> = pods
                .iter()
                .filter_map(|pod| seen.get(&pod.uid)?.info.as_ref().map(|info| (pod, info)))
                .map(|(pod, info)| Candidate {
                    pod: pod.pod.clone(),
                    free_slots: info.slots.saturating_sub(info.used),
                    draining: info.draining,
                    has_copy: last.is_some_and(|last| last.boot == info.boot),
                })
                .collect();
            let chosen = choose(&candidates)?;
            let pod = pods.iter().find(|pod| pod.pod == chosen.pod)?;
            let info = seen.get_mut(&pod.uid)?.info.as_mut()?;
            info.used += 1;
            let epoch = next_epoch(record.status.last_epoch, last.map(|last| last.epoch), floor);
            Some(Placement { pod: pod.pod.clone(), pod_uid: pod.uid.clone(), boot: info.boot.clone(), epoch })
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut BTreeMap<String, Load>) -> T) -> T {
        work(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use dormouse_crds::session::KernelSessionSpec;

    use super::*;
    use crate::directory::Key;

    fn pod(name: &str) -> KernelPod {
        let address = ([127, 0, 0, 1], 1).into();
        KernelPod { pod: name.to_owned(), uid: format!("uid-{name}"), namespace: "team".to_owned(), address, ready: true }
    }

    fn record() -> Record {
        Record {
            key: Key::new("team", "a"),
            uid: "u".to_owned(),
            resource_version: "1".to_owned(),
            generation: 1,
            labels: Default::default(),
            spec: KernelSessionSpec::default(),
            status: Default::default(),
            finalizer: true,
            deleting: false,
        }
    }

    /// Each pod has one free slot and has said so at that time.
    fn told(pods: &[KernelPod], at: Instant) -> Loads {
        let loads = Loads::default();
        for pod in pods {
            let info = PodInfo {
                pod: pod.pod.clone(),
                namespace: pod.namespace.clone(),
                boot: format!("boot-{}", pod.pod),
                slots: 1,
                used: 0,
                engine_digest: String::new(),
                draining: false,
            };
            loads.with(|seen| seen.insert(pod.uid.clone(), Load { at, info: Some(info) }));
        }
        loads
    }

    #[test]
    fn what_a_pod_was_given_since_it_was_asked_counts_as_used() {
        let pods = [pod("a"), pod("b")];
        let loads = told(&pods, Instant::now());
        let chosen = || loads.choose(&record(), &pods, 0).map(|placement| placement.boot);
        assert_eq!([chosen(), chosen(), chosen()], [Some("boot-a".to_owned()), Some("boot-b".to_owned()), None]);
    }

    #[test]
    fn a_pod_is_asked_again_when_its_word_is_old_or_was_wrong() {
        let (pods, at) = ([pod("a"), pod("b")], Instant::now());
        let loads = told(&pods, at);
        let unknown = |later: Duration| loads.unknown(&pods, at + later).into_iter().map(|pod| pod.pod.as_str()).collect::<Vec<_>>();
        let before = LOAD_AGE_MAX - Duration::from_nanos(1);
        assert_eq!(unknown(before), [""; 0]);
        loads.forget(&pods[1]);
        assert_eq!(unknown(before), ["b"]);
        assert_eq!(unknown(LOAD_AGE_MAX), ["a", "b"]);
    }
}
