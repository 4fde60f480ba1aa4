//! What a task has used of a processor of late: a bucket that polls fill and time drains. And how long ago it last used too much.
//!
//! What counts is processor time. By the clock, a task whose thread had to wait in the middle of a poll, for a processor or for the machine's host, would be
//! slow, and would wait longer for it.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use dormouse_engine::cpu_clock::CpuTimer;

use super::Lane;

/// What a task may use at once before it is slow: a slice.
pub(super) const BURST: Duration = Duration::from_micros(500);

/// Share of a core that a task may use for ever without being slow: one part in so many.
pub(super) const SHARE: u32 = 2;

/// More than this is not held against a task, so that some milliseconds after a long cell its next one is not slow.
pub(super) const LEVEL_MAX: Duration = Duration::from_millis(4);

/// How long a task is on trial, from its beginning and from the end of every time that it used too much.
pub(super) const TRIAL: Duration = Duration::from_millis(100);

/// One task's bucket.
#[derive(Debug)]
pub(super) struct Meter<P = CpuTimer>(Mutex<Bucket<P>>);

#[derive(Debug, Clone)]
struct Bucket<P> {
    level: Duration,
    /// When `level` was true.
    at: Instant,
    /// The poll under way, which began then.
    poll: Option<P>,
    /// What of it is not held against the task.
    spared: Duration,
    on_trial_since: Instant,
}

/// A poll under way.
pub(super) trait Poll {
    /// What it has used of a processor.
    fn ran(&self) -> Duration;
}

impl Poll for CpuTimer {
    fn ran(&self) -> Duration {
        self.ran()
    }
}

impl<P: Poll> Bucket<P> {
    fn level(&self, now: Instant) -> Duration {
        let passed = now.saturating_duration_since(self.at);
        // Nothing uses more than the time that passes, and to ask the system takes longer than many a poll.
        let ran = self.poll.as_ref().map_or(Duration::ZERO, |poll| if passed < BURST / 4 { passed } else { passed.min(poll.ran()) });
        (self.level.saturating_sub(passed / SHARE) + ran.saturating_sub(self.spared)).min(LEVEL_MAX)
    }

    fn settle(&mut self, now: Instant, poll: Option<P>) {
        let level = self.level(now);
        let on_trial_since = if level > BURST { now } else { self.on_trial_since };
        *self = Self { level, at: now, poll, spared: Duration::ZERO, on_trial_since };
    }
}

impl<P: Poll> Meter<P> {
    /// The meter of a task that begins.
    pub(super) fn new(now: Instant) -> Self {
        Self(Mutex::new(Bucket { level: Duration::ZERO, at: now, poll: None, spared: Duration::ZERO, on_trial_since: now }))
    }

    fn with<T>(&self, f: impl FnOnce(&mut Bucket<P>) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The task is polled from now on.
    pub(super) fn begin(&self, now: Instant, poll: P) {
        self.with(|bucket| bucket.settle(now, Some(poll)));
    }

    /// So much of the poll under way is not held against the task.
    pub(super) fn spare(&self, time: Duration) {
        self.with(|bucket| bucket.spared += time);
    }

    /// The poll is over.
    pub(super) fn end(&self, now: Instant) {
        self.with(|bucket| bucket.settle(now, None));
    }

    /// Where the task's next poll belongs. A poll under way counts.
    pub(super) fn lane(&self, now: Instant) -> Lane {
        self.with(|bucket| {
            if bucket.level(now) > BURST {
                Lane::Slow
            } else if now.saturating_duration_since(bucket.on_trial_since) < TRIAL {
                Lane::Trial
            } else {
                Lane::Quick
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a poll has used so far.
    impl Poll for Duration {
        fn ran(&self) -> Duration {
            *self
        }
    }

    fn used(meter: &Meter<Duration>, from: Instant, time: Duration) -> Instant {
        meter.begin(from, time);
        meter.end(from + time);
        from + time
    }

    #[test]
    fn who_begins_is_on_trial_and_then_quick() {
        let start = Instant::now();
        let meter = Meter::<Duration>::new(start);
        assert_eq!(meter.lane(start + TRIAL - Duration::from_nanos(1)), Lane::Trial);
        assert_eq!(meter.lane(start + TRIAL), Lane::Quick);
    }

    #[test]
    fn a_burst_is_not_slow_and_a_bit_more_is() {
        let start = Instant::now();
        let meter = Meter::new(start);
        meter.begin(start, Duration::MAX);
        assert_eq!(meter.lane(start + BURST), Lane::Trial);
        assert_eq!(meter.lane(start + BURST + Duration::from_nanos(1)), Lane::Slow);
    }

    #[test]
    fn a_thread_that_waits_in_the_middle_of_a_poll_has_not_used_anything() {
        let start = Instant::now();
        let (meter, waited) = (Meter::new(start), start + TRIAL + LEVEL_MAX);
        meter.begin(start, BURST);
        assert_eq!(meter.lane(waited), Lane::Quick);
        meter.end(waited);
        assert_eq!(meter.lane(waited), Lane::Quick);
    }

    #[test]
    fn what_is_spared_of_a_poll_is_not_held_against_it_nor_against_the_next() {
        let start = Instant::now();
        let (meter, host) = (Meter::new(start), Duration::from_millis(2));
        meter.begin(start, BURST + host);
        meter.spare(host);
        meter.end(start + BURST + host);
        assert_eq!(meter.lane(start + BURST + host), Lane::Trial);
        let again = start + BURST + host + BURST * SHARE;
        meter.begin(again, BURST + host);
        meter.end(again + BURST + host);
        assert_eq!(meter.lane(again + BURST + host), Lane::Slow);
    }

    #[test]
    fn a_share_of_a_core_is_quick_for_ever_and_a_whole_one_is_not() {
        let mut now = Instant::now();
        let meter = Meter::new(now);
        now += TRIAL;
        for _ in 0..1000 {
            now = used(&meter, now, BURST / 2) + BURST / 2;
            assert_eq!(meter.lane(now), Lane::Quick);
        }
        now = used(&meter, now, LEVEL_MAX);
        assert_eq!(meter.lane(now), Lane::Slow);
    }

    #[test]
    fn after_a_long_cell_a_task_is_slow_for_some_milliseconds_and_then_on_trial_again() {
        let start = Instant::now();
        let meter = Meter::new(start);
        let now = used(&meter, start, Duration::from_secs(10));
        assert_eq!(meter.lane(now + (LEVEL_MAX - BURST - Duration::from_micros(1)) * SHARE), Lane::Slow);
        assert_eq!(meter.lane(now + LEVEL_MAX * SHARE), Lane::Trial);
        assert_eq!(meter.lane(now + TRIAL - Duration::from_nanos(1)), Lane::Trial);
        assert_eq!(meter.lane(now + TRIAL), Lane::Quick);
    }
}
