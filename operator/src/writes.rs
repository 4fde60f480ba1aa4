//! How often status is written: what somebody waits for first, and of what is merely busy no more than an API server should be bothered with.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::fair::Rate;

/// Between two writes of the status of one namespace's sessions, in the long run, and how many may come at once: chains of short timers in many sessions
/// are told of more rarely, not more often.
const STATUS_WRITE_EVERY: Duration = Duration::from_millis(20);
const STATUS_WRITES_BURST: u32 = 200;
/// The same of the whole cluster: what somebody may wait for,
const SETTLED_WRITE_EVERY: Duration = Duration::from_millis(10);
const SETTLED_WRITES_BURST: u32 = 400;
/// and that sessions are merely busy. So those cost an API server less than five writes a second, however many they are.
const BUSY_WRITE_EVERY: Duration = Duration::from_millis(250);
const BUSY_WRITES_BURST: u32 = 20;
/// Between two sessions that leave etcd, in the long run: each is three writes there, and some in the object store.
const ARCHIVE_EVERY: Duration = Duration::from_millis(50);
const ARCHIVE_BURST: u32 = 20;
/// Limits of what is written of sessions' status.
#[derive(Debug)]
pub struct Writes {
    /// What somebody may wait for, by namespace.
    of_namespace: Rate,
    /// The same of the whole cluster.
    settled: Rate,
    /// Of sessions that are merely busy, in the whole cluster.
    busy: Rate,
    /// Sessions that leave etcd, in the whole cluster.
    archive: Rate,
    /// Since when status says too little of a session that is merely busy, by uid.
    behind_since: Mutex<HashMap<String, Instant>>,
}

impl Default for Writes {
    fn default() -> Self {
        Self {
            of_namespace: Rate::new(STATUS_WRITE_EVERY, STATUS_WRITES_BURST),
            settled: Rate::new(SETTLED_WRITE_EVERY, SETTLED_WRITES_BURST),
            busy: Rate::new(BUSY_WRITE_EVERY, BUSY_WRITES_BURST),
            archive: Rate::new(ARCHIVE_EVERY, ARCHIVE_BURST),
            behind_since: Mutex::default(),
        }
    }
}

impl Writes {
    /// Whether what somebody may wait for may be written now.
    ///
    /// # Errors
    /// How long to wait before the next try.
    pub fn settled(&self, namespace: &str, now: Instant) -> Result<(), Duration> {
        self.of_namespace.take(namespace, now)?;
        self.settled.take("", now)
    }

    /// Whether what can wait may be written now: it has waited for `interval`, and the cluster's rate allows it.
    ///
    /// # Errors
    /// How long to wait before the next try.
    pub fn busy(&self, uid: &str, interval: Duration, now: Instant) -> Result<(), Duration> {
        let mut behind = self.behind_since.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = now.saturating_duration_since(*behind.entry(uid.to_owned()).or_insert(now));
        drop(behind);
        if waited < interval {
            return Err(interval - waited);
        }
        self.busy.take("", now)
    }

    /// Whether a session may leave etcd now.
    ///
    /// # Errors
    /// How long to wait before the next try.
    pub fn archive(&self, now: Instant) -> Result<(), Duration> {
        self.archive.take("", now)
    }

    /// Status says all that there is to say.
    pub fn caught_up(&self, uid: &str) {
        self.behind_since.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_busy_waits_for_its_interval_and_starts_anew_once_it_is_told() {
        let (writes, start, interval) = (Writes::default(), Instant::now(), Duration::from_secs(60));
        assert_eq!(writes.busy("a", interval, start), Err(interval));
        assert_eq!(writes.busy("a", interval, start + Duration::from_secs(20)), Err(Duration::from_secs(40)));
        assert_eq!(writes.busy("a", interval, start + interval), Ok(()));
        writes.caught_up("a");
        assert_eq!(writes.busy("a", interval, start + interval), Err(interval));
    }

    #[test]
    fn ten_thousand_busy_sessions_cost_less_than_five_writes_a_second() {
        let (writes, start, interval) = (Writes::default(), Instant::now(), Duration::from_secs(60));
        let uids: Vec<String> = (0..10_000).map(|number| number.to_string()).collect();
        let mut written = 0;
        for minute in 0..=10 {
            written += uids.iter().filter(|uid| writes.busy(uid, interval, start + interval * minute).is_ok()).count();
        }
        assert!(written > 0 && written < 5 * 600, "{written} in ten minutes");
    }

    #[test]
    fn twenty_sessions_a_second_leave_etcd() {
        let (writes, start) = (Writes::default(), Instant::now());
        while writes.archive(start).is_ok() {}
        let left = (1..=1_000).filter(|ms| writes.archive(start + Duration::from_millis(*ms)).is_ok()).count();
        assert_eq!(left, 20);
    }

    #[test]
    fn who_settles_does_not_wait_for_who_is_busy() {
        let (writes, start) = (Writes::default(), Instant::now());
        while writes.busy("busy", Duration::ZERO, start).is_ok() {}
        assert_eq!(writes.settled("team", start), Ok(()));
    }
}
