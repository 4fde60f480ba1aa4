//! How often status is written: what somebody waits for first, and of what is merely busy no more than an API server should be bothered with.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// What waits is tried again after so long, for each full round of those that wait with it.
pub const AGAIN_AFTER: Duration = Duration::from_millis(100);
/// The longest such wait.
pub const AGAIN_AFTER_MAX: Duration = Duration::from_secs(10);
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
/// Between two writes of the status of quotas, in the whole cluster and without a burst: nothing waits for it but people who look.
const QUOTA_WRITE_EVERY: Duration = Duration::from_millis(250);
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
    /// Sessions that leave etcd, in the whole cluster.
    archive: Rate,
    /// Sessions that are merely busy, in the whole cluster.
    busy: Mutex<Busy>,
}

/// Who waits to be written, each with a turn of its own: so nobody looks at a session before it can be written, however many wait.
#[derive(Debug)]
struct Busy {
    /// By uid.
    behind: HashMap<String, Behind>,
    turns: Turns,
    every: Duration,
}

/// A session of which status says too little.
#[derive(Debug)]
struct Behind {
    since: Instant,
    turn: Option<Instant>,
}

impl Default for Writes {
    fn default() -> Self {
        Self::share_of(1)
    }
}

impl Writes {
    /// What one of `processes` may write that share the cluster's limits; each namespace is one's only.
    #[must_use]
    pub fn share_of(processes: u32) -> Self {
        let processes = processes.max(1);
        let share = |burst: u32| burst.div_ceil(processes);
        Self {
            of_namespace: Rate::new(STATUS_WRITE_EVERY, STATUS_WRITES_BURST),
            settled: Rate::new(SETTLED_WRITE_EVERY * processes, share(SETTLED_WRITES_BURST)),
            archive: Rate::new(ARCHIVE_EVERY * processes, share(ARCHIVE_BURST)),
            busy: Mutex::new(Busy {
                behind: HashMap::new(),
                turns: Turns { burst: share(BUSY_WRITES_BURST), next: None },
                every: BUSY_WRITE_EVERY * processes,
            }),
        }
    }

    /// Whether what somebody may wait for may be written now.
    ///
    /// # Errors
    /// How long to wait before the next try.
    pub fn settled(&self, namespace: &str, now: Instant) -> Result<(), Duration> {
        self.of_namespace.take(namespace, now)?;
        self.settled.take("", now)
    }

    /// Whether what can wait may be written now: it has waited for `interval`, and then for its turn in the cluster.
    ///
    /// # Errors
    /// How long to wait before the next try.
    pub fn busy(&self, uid: &str, interval: Duration, now: Instant) -> Result<(), Duration> {
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        let Busy { behind, turns, every } = &mut *busy;
        let behind = behind.entry(uid.to_owned()).or_insert(Behind { since: now, turn: None });
        let waited = now.saturating_duration_since(behind.since);
        if waited < interval {
            return Err(interval - waited);
        }
        let turn = *behind.turn.get_or_insert_with(|| turns.take(*every, now));
        let wait = turn.saturating_duration_since(now);
        if wait.is_zero() { Ok(()) } else { Err(wait) }
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
        self.busy.lock().unwrap_or_else(PoisonError::into_inner).behind.remove(uid);
    }
}

/// The turns of those that wait: one in so long, and a burst of those that nobody took.
#[derive(Debug, Default)]
struct Turns {
    burst: u32,
    /// The first one that nobody has.
    next: Option<Instant>,
}

impl Turns {
    fn take(&mut self, every: Duration, now: Instant) -> Instant {
        let unused = now.checked_sub(every * self.burst).unwrap_or(now);
        let turn = self.next.map_or(unused, |next| next.max(unused));
        self.next = Some(turn + every);
        turn
    }
}

/// Turns to write the status of quotas, of one gateway.
#[derive(Debug, Default)]
pub struct QuotaWrites(Mutex<Turns>);

impl QuotaWrites {
    /// How long to wait for the next turn, which is the caller's. All `gateways` together have one every quarter of a second.
    pub fn turn(&self, gateways: u32, now: Instant) -> Duration {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        turns.take(QUOTA_WRITE_EVERY * gateways.max(1), now).saturating_duration_since(now)
    }
}

/// So many writes a second for each namespace, and a burst of more: what waits is written later, and then as it is by that time.
#[derive(Debug)]
struct Rate {
    every: Duration,
    burst: u32,
    namespaces: Mutex<HashMap<String, Bucket>>,
}

#[derive(Debug)]
struct Bucket {
    /// The time at which all that was taken is paid for.
    paid_at: Instant,
    refused: u32,
}

impl Rate {
    /// One in `every`, `burst` at once.
    fn new(every: Duration, burst: u32) -> Self {
        Self { every, burst, namespaces: Mutex::default() }
    }

    /// Takes one for the namespace.
    /// The error is how long to wait before the next try.
    fn take(&self, namespace: &str, now: Instant) -> Result<(), Duration> {
        let mut namespaces = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        namespaces.retain(|_, bucket| bucket.paid_at > now);
        let bucket = namespaces.entry(namespace.to_owned()).or_insert(Bucket { paid_at: now, refused: 0 });
        let paid_at = bucket.paid_at + self.every;
        let ahead = paid_at.saturating_duration_since(now);
        if ahead > self.every * self.burst {
            bucket.refused += 1;
            return Err((self.every * bucket.refused).max(AGAIN_AFTER).min(AGAIN_AFTER_MAX));
        }
        bucket.paid_at = paid_at;
        bucket.refused = bucket.refused.saturating_sub(1);
        Ok(())
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
            for uid in &uids {
                if writes.busy(uid, interval, start + interval * minute).is_ok() {
                    written += 1;
                    writes.caught_up(uid);
                }
            }
        }
        assert!(written > 0 && written < 5 * 600, "{written} in ten minutes");
    }

    #[test]
    fn several_processes_together_write_no_more_than_one() {
        let written = |processes: u32| {
            let (start, limits) = (Instant::now(), (0..processes).map(|_| Writes::share_of(processes)).collect::<Vec<_>>());
            let writes = |limits: &Writes, ms: u64| {
                let (now, uid) = (start + Duration::from_millis(ms), ms.to_string());
                let busy = limits.busy(&uid, Duration::ZERO, now).is_ok();
                u32::from(busy) + u32::from(limits.settled(&uid, now).is_ok()) + u32::from(limits.archive(now).is_ok())
            };
            limits.iter().map(|limits| (0..60_000).map(|ms| writes(limits, ms)).sum::<u32>()).sum::<u32>()
        };
        let (one, four) = (written(1), written(4));
        assert!(one > 6_000 && four.abs_diff(one) <= 12, "{one} {four}");
    }

    #[test]
    fn nobody_is_looked_at_before_its_turn_and_everybody_has_one() {
        let (writes, start) = (Writes::default(), Instant::now());
        let mut due: Vec<(Instant, String)> = (0..1_000).map(|number| (start, number.to_string())).collect();
        let (mut looks, mut written) = (0, 0);
        while let Some((at, uid)) = due.pop() {
            looks += 1;
            match writes.busy(&uid, Duration::ZERO, at) {
                Ok(()) => {
                    written += 1;
                    writes.caught_up(&uid);
                    assert!(at <= start + BUSY_WRITE_EVERY * 1_000);
                }
                Err(wait) => due.push((at + wait, uid)),
            }
        }
        assert_eq!((looks, written), (2_000 - BUSY_WRITES_BURST as usize - 1, 1_000), "once to wait, and once to write");
    }

    #[test]
    fn five_thousand_quotas_cost_four_writes_a_second_from_all_gateways_together() {
        for gateways in [1, 4] {
            let start = Instant::now();
            let writes: Vec<QuotaWrites> = (0..gateways).map(|_| QuotaWrites::default()).collect();
            let turn = |quota: u32| writes[(quota % gateways) as usize].turn(gateways, start);
            let turns: Vec<Duration> = (0..5_000).map(turn).collect();
            let within = |seconds| turns.iter().filter(|turn| **turn < Duration::from_secs(seconds)).count();
            assert_eq!((within(1), within(60), within(1_250)), (4, 240, 5_000), "{gateways}");
        }
        let writes = QuotaWrites::default();
        let (start, later) = (Instant::now(), Instant::now() + Duration::from_secs(60));
        assert_eq!(writes.turn(1, start), Duration::ZERO);
        let after_a_pause = [(); 3].map(|()| writes.turn(1, later).as_millis());
        assert_eq!(after_a_pause, [0, 250, 500], "a pause saves nothing up");
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
        let at_once = (0..1_000).filter(|number| writes.busy(&format!("busy-{number}"), Duration::ZERO, start).is_ok()).count();
        assert_eq!(at_once, BUSY_WRITES_BURST as usize + 1);
        assert_eq!(writes.settled("team", start), Ok(()));
    }

    #[test]
    fn a_namespace_that_writes_much_writes_at_its_rate() {
        let (rate, start) = (Rate::new(Duration::from_millis(20), 10), Instant::now());
        let burst = (0..100).filter(|_| rate.take("busy", start).is_ok()).count();
        assert_eq!(burst, 10);
        assert!(rate.take("other", start).is_ok());
        let later = start + Duration::from_secs(1);
        assert_eq!((0..100).filter(|_| rate.take("busy", later).is_ok()).count(), 10);
        let steady = (1..=100).filter(|step| rate.take("steady", start + Duration::from_millis(2) * *step).is_ok()).count();
        assert!((18..=21).contains(&steady), "{steady} in 200 ms");
    }
}
