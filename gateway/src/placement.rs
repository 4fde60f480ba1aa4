//! Asks pods that could run a session how they are, believes that for a second, and lets the core choose.

use std::{
    cmp::Reverse,
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use dormouse_control::placement::{Candidate, choose, next_epoch, rank, rounds};
use dormouse_crds::session::Placement;
use dormouse_protocol::kernel::{PodInfo, WaitingCall};
use futures::future::join_all;
use tokio::time::Instant;

use crate::{
    directory::{Directory, KernelPod, Record},
    kernels::Kernels,
    problem::chain,
};

/// How long it is believed what a pod said of itself, or that it did not answer.
pub const LOAD_AGE_MAX: Duration = Duration::from_secs(1);
/// The same before a session is told that there is no room, and of a pod that was given nothing since.
const FULL_AGE_MAX: Duration = Duration::from_millis(250);

/// How pods were when they were last asked, and what they were given since. A pod that is not so any more refuses, and is [forgotten](Self::forget).
#[derive(Debug, Default)]
pub struct Loads {
    /// By the pod's uid.
    seen: Mutex<HashMap<String, Load>>,
}

#[derive(Debug)]
struct Load {
    at: Instant,
    /// `None`: it did not answer.
    info: Option<PodInfo>,
    /// Sessions that it was given since it was asked.
    given: u32,
}

impl Loads {
    /// The placement that comes next for `record`, under an epoch above `floor`, if some pod has room.
    pub async fn next(&self, directory: &Arc<dyn Directory>, kernels: &Kernels, record: &Record, floor: u64) -> Option<Placement> {
        let pods = ranked(directory, record);
        let began = Instant::now();
        for last_try in [false, true] {
            for round in rounds(pods.len()) {
                let end = round.end;
                let Some(asked) = pods.get(round) else { break };
                self.ask(kernels, self.unknown(asked, began, last_try)).await;
                if let Some(placement) = self.choose(record, pods.get(..end)?, floor) {
                    return Some(placement);
                }
            }
        }
        None
    }

    /// Lets the operator know that the session waits for a slot: by way of a pod, or of its status where there is none.
    pub async fn tell_waiting(&self, directory: &Arc<dyn Directory>, kernels: &Kernels, record: &Record) {
        let Some(pod) = ranked(directory, record).into_iter().next() else {
            if let Err(error) = directory.request_wake(record).await {
                tracing::warn!(session = %record.key, error = %chain(&error), "it could not be written that a session waits for a pod");
            }
            return;
        };
        let call = WaitingCall { namespace: record.key.namespace.clone(), uid: record.uid.clone() };
        if let Err(error) = kernels.waiting(&pod, &call).await {
            tracing::debug!(pod = pod.pod, %error, "a kernel pod was not told who waits");
        }
    }

    /// The pod is asked again before it is given anything.
    pub fn forget(&self, pod: &KernelPod) {
        self.with(|seen| seen.remove(&pod.uid));
    }

    /// Those of which nothing is known that may be believed at `now`; before a session is refused, less is believed.
    fn unknown<'a>(&self, pods: &'a [KernelPod], now: Instant, last_try: bool) -> Vec<&'a KernelPod> {
        let known = |load: &Load| {
            let age = now.saturating_duration_since(load.at);
            age < LOAD_AGE_MAX && (!last_try || load.at >= now || (age < FULL_AGE_MAX && load.given == 0))
        };
        self.with(|seen| pods.iter().filter(|pod| !seen.get(&pod.uid).is_some_and(known)).collect())
    }

    async fn ask(&self, kernels: &Kernels, pods: Vec<&KernelPod>) {
        if pods.is_empty() {
            return;
        }
        join_all(pods.into_iter().map(|pod| async move {
            let asked = kernels.info(pod).await;
            let info =
                asked.inspect_err(|error| tracing::debug!(pod = pod.pod, %error, "a kernel pod does not answer and takes no session"));
            let load = Load { at: Instant::now(), info: info.ok(), given: 0 };
            self.with(|seen| seen.insert(pod.uid.clone(), load));
        }))
        .await;
        self.with(|seen| seen.retain(|_, load| load.at.elapsed() < LOAD_AGE_MAX));
    }

    /// Takes a slot of the best pod.
    fn choose(&self, record: &Record, pods: &[KernelPod], floor: u64) -> Option<Placement> {
        let last = record.status.placement.as_ref();
        self.with(|seen| {
            let candidates: Vec<Candidate> = pods
                .iter()
                .filter_map(|pod| seen.get(&pod.uid).and_then(|load| Some((pod, load.info.as_ref()?, load.given))))
                .map(|(pod, info, given)| Candidate {
                    pod: pod.pod.clone(),
                    free_slots: info.slots.saturating_sub(info.used.saturating_add(given)),
                    draining: info.draining,
                    has_copy: last.is_some_and(|last| last.boot == info.boot),
                })
                .collect();
            let chosen = choose(&record.uid, &candidates)?;
            let pod = pods.iter().find(|pod| pod.pod == chosen.pod)?;
            let load = seen.get_mut(&pod.uid)?;
            load.given += 1;
            let boot = load.info.as_ref()?.boot.clone();
            let epoch = next_epoch(record.status.last_epoch, last.map(|last| last.epoch), floor);
            Some(Placement { pod: pod.pod.clone(), pod_uid: pod.uid.clone(), boot, epoch })
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut HashMap<String, Load>) -> T) -> T {
        work(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The pods that may take the session, in the order in which they are asked: the one that had it, then by rank.
fn ranked(directory: &Arc<dyn Directory>, record: &Record) -> Vec<KernelPod> {
    let last = record.status.placement.as_ref().map(|last| last.pod_uid.as_str());
    let mut pods: Vec<KernelPod> = directory.pods(&record.key.namespace, &record.spec.pool).into_iter().filter(|pod| pod.ready).collect();
    pods.sort_by_cached_key(|pod| (last != Some(pod.uid.as_str()), Reverse(rank(&record.uid, &pod.pod))));
    pods
}

#[cfg(test)]
mod tests {
    use dormouse_crds::session::KernelSessionSpec;

    use super::*;
    use crate::directory::Key;

    fn pod(name: &str) -> KernelPod {
        let address = ([127, 0, 0, 1], 1).into();
        KernelPod {
            pod: name.to_owned(),
            uid: format!("uid-{name}"),
            namespace: "team".to_owned(),
            pool: "default".to_owned(),
            address,
            ready: true,
        }
    }

    fn record() -> Record {
        Record {
            key: Key::new("team", "a"),
            object_uid: "u".to_owned(),
            uid: "u".to_owned(),
            resource_version: "1".to_owned(),
            generation: 1,
            labels: Default::default(),
            created_at: String::new(),
            spec: KernelSessionSpec::default(),
            status: Default::default(),
            finalizer: true,
            deleting: false,
            left_out: false,
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
            loads.with(|seen| seen.insert(pod.uid.clone(), Load { at, info: Some(info), given: 0 }));
        }
        loads
    }

    #[test]
    fn what_a_pod_was_given_since_it_was_asked_counts_as_used() {
        let pods = [pod("a"), pod("b")];
        let loads = told(&pods, Instant::now());
        let mut chosen: Vec<_> = (0..3).map(|_| loads.choose(&record(), &pods, 0).map(|placement| placement.boot)).collect();
        assert_eq!(chosen.pop(), Some(None));
        chosen.sort();
        assert_eq!(chosen, [Some("boot-a".to_owned()), Some("boot-b".to_owned())]);
    }

    #[test]
    fn a_pod_is_asked_again_when_its_word_is_old_or_was_wrong() {
        let (pods, at) = ([pod("a"), pod("b")], Instant::now());
        let loads = told(&pods, at);
        let unknown = |later: Duration, last_try| {
            loads.unknown(&pods, at + later, last_try).into_iter().map(|pod| pod.pod.as_str()).collect::<Vec<_>>()
        };
        let before = LOAD_AGE_MAX - Duration::from_nanos(1);
        assert_eq!(unknown(before, false), [""; 0]);
        assert_eq!(unknown(before, true), ["a", "b"], "before a session is refused");
        loads.forget(&pods[1]);
        assert_eq!(unknown(before, false), ["b"]);
        assert_eq!(unknown(LOAD_AGE_MAX, false), ["a", "b"]);
    }

    #[test]
    fn who_was_given_something_is_asked_before_a_session_is_refused() {
        let (pods, at) = ([pod("a"), pod("b")], Instant::now());
        let loads = told(&pods, at);
        let given = loads.choose(&record(), &pods, 0).unwrap().pod;
        let soon = loads.unknown(&pods, at + Duration::from_millis(1), true);
        assert_eq!(soon.into_iter().map(|pod| &pod.pod).collect::<Vec<_>>(), [&given]);
    }
}
