//! Quotas whose status waits to be written. Who comes first is decided when there is a turn, so a limit that is reached does not wait for
//! thousands of statuses that merely say another number.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use dormouse_control::writes::QuotaWrites;
use dormouse_crds::quota::KernelQuotaSpec;
use jiff::Timestamp;
use tokio::{sync::Notify, time::Instant};

use crate::directory::Key;

/// The quotas that wait, and the turns of this gateway.
#[derive(Debug, Default)]
pub(super) struct WriteQueue {
    waiting: Mutex<BTreeMap<Key, Waiting>>,
    /// Somebody waits.
    filled: Notify,
    writes: QuotaWrites,
}

/// A quota that waits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Waiting {
    /// Whether its condition will say something else, on which somebody may act.
    pub(super) changes_condition: bool,
    /// When it was written last; `None`: never.
    pub(super) written: Option<Timestamp>,
    /// What was used when it was looked at.
    pub(super) used: KernelQuotaSpec,
}

impl WriteQueue {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Of the quotas of `namespace` these wait, and no others any more.
    pub(super) fn replace(&self, namespace: &str, these: BTreeMap<Key, Waiting>) {
        let mut waiting = self.lock();
        let of_namespace = waiting.range(Key::new(namespace, "")..).take_while(|(key, _)| key.namespace == namespace);
        let before: Vec<Key> = of_namespace.map(|(key, _)| key.clone()).collect();
        for key in before {
            waiting.remove(&key);
        }
        if !these.is_empty() {
            waiting.extend(these);
            self.filled.notify_one();
        }
    }

    /// Waits until there are quotas that wait, and then for the next turn of one of `gateways`.
    pub(super) async fn turn(&self, gateways: u32) {
        while self.lock().is_empty() {
            self.filled.notified().await;
        }
        tokio::time::sleep(self.writes.turn(gateways, Instant::now().into_std())).await;
    }

    /// Takes who comes first: whose condition changes, then who was written the longest ago.
    pub(super) fn take_first(&self) -> Option<(Key, Waiting)> {
        let mut waiting = self.lock();
        let (first, _) = waiting.iter().min_by_key(|(_, it)| (!it.changes_condition, it.written))?;
        let first = first.clone();
        waiting.remove_entry(&first)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Quotas `q` of their namespaces, written at this second.
    fn wait(queue: &WriteQueue, namespace: &str, changes_condition: bool, written: Option<i64>) {
        let written = written.map(|second| Timestamp::from_second(second).unwrap());
        let waiting = Waiting { changes_condition, written, used: KernelQuotaSpec::default() };
        queue.replace(namespace, BTreeMap::from([(Key::new(namespace, "q"), waiting)]));
    }

    fn first(queue: &WriteQueue) -> Option<String> {
        queue.take_first().map(|(key, _)| key.namespace)
    }

    async fn next(queue: &WriteQueue) -> String {
        queue.turn(1).await;
        first(queue).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_that_is_reached_is_told_before_thousands_of_other_numbers() {
        let (queue, begin) = (WriteQueue::default(), Instant::now());
        for number in 0..5_000 {
            wait(&queue, &format!("team-{number}"), false, Some(5_000 - number));
        }
        for oldest in ["team-4999", "team-4998", "team-4997"] {
            assert_eq!(next(&queue).await, oldest);
        }
        // It comes while the next turn is waited for.
        let reached = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            wait(&queue, "reached", true, Some(9_000));
        };
        let (told, ()) = tokio::join!(next(&queue), reached);
        assert_eq!(told, "reached");
        assert_eq!(next(&queue).await, "team-4996");
        assert_eq!(begin.elapsed().as_secs(), 1, "five of four a second");
    }

    #[test]
    fn of_those_whose_condition_changes_who_was_never_written_comes_first() {
        let queue = WriteQueue::default();
        for (namespace, changes_condition, written) in
            [("old", false, Some(1)), ("reached", true, Some(7)), ("new", true, None), ("reached-before", true, Some(6))]
        {
            wait(&queue, namespace, changes_condition, written);
        }
        let order: Vec<String> = std::iter::from_fn(|| first(&queue)).collect();
        assert_eq!(order, ["new", "reached-before", "reached", "old"]);
    }

    #[tokio::test(start_paused = true)]
    async fn whose_status_says_what_is_so_by_now_waits_no_more() {
        let queue = WriteQueue::default();
        wait(&queue, "team", true, None);
        wait(&queue, "team-b", false, None);
        queue.replace("team", BTreeMap::new());
        assert_eq!((next(&queue).await.as_str(), first(&queue)), ("team-b", None), "another namespace's stay");
        let turn = tokio::time::timeout(Duration::from_secs(3_600), queue.turn(1)).await;
        assert!(turn.is_err(), "nobody waits, so nobody has a turn");
        wait(&queue, "team", false, None);
        assert_eq!(next(&queue).await, "team");
    }
}
