//! Which pods have no memory for another session, and how long that is remembered of a pool.

use std::{collections::HashSet, time::Duration};

use tokio::time::Instant;

use super::Hub;

/// How long a pool is not made smaller after one of its pods was short of memory: those that stay would soon be so again, and slots do not say it.
pub(super) const REMEMBERED: Duration = Duration::from_secs(300);

/// The pods of a pool that have said so.
#[derive(Debug, Default)]
pub(super) struct Exhausted {
    /// By uid.
    pods: HashSet<String>,
    /// When one of them was so last that is not so any more.
    last: Option<Instant>,
}

impl Exhausted {
    /// What a pod says of itself. One that is gone, or is about to go, is none of them.
    pub(super) fn set(&mut self, pod_uid: &str, exhausted: bool) {
        if exhausted {
            self.pods.insert(pod_uid.to_owned());
        } else if self.pods.remove(pod_uid) {
            self.last = Some(Instant::now());
        }
    }

    fn is_remembered(&self) -> bool {
        !self.pods.is_empty() || self.last.is_some_and(|last| last.elapsed() < REMEMBERED)
    }
}

impl Hub {
    /// Slots of a pool that are free and that nobody can have: of pods without memory for another session, each with so many slots.
    #[must_use]
    pub fn blocked(&self, namespace: &str, pool: &str, slots: u32) -> u32 {
        let key = (namespace.to_owned(), pool.to_owned());
        self.with(|views| {
            let exhausted = views.pools.get(&key).into_iter().flat_map(|load| &load.exhausted.pods);
            let of_pods = exhausted.filter_map(|pod_uid| Some(slots.saturating_sub(views.pods.get(pod_uid)?.live())));
            of_pods.fold(0, u32::saturating_add)
        })
    }

    /// Whether a pod of a pool has no memory for another session, or had none a short time ago.
    #[must_use]
    pub fn was_exhausted(&self, namespace: &str, pool: &str) -> bool {
        let key = (namespace.to_owned(), pool.to_owned());
        self.with(|views| views.pools.get(&key).is_some_and(|load| load.exhausted.is_remembered()))
    }
}
