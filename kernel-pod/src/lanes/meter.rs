//! What a task has used of late: a bucket that polls fill and time drains. And how long ago it last used too much.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

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
pub(super) struct Meter(Mutex<Bucket>);

#[derive(Debug, Clone, Copy)]
struct Bucket {
    level: Duration,
    /// When `level` was true.
    at: Instant,
    /// Since when the task is polled.
    polled_since: Option<Instant>,
    on_trial_since: Instant,
}

impl Bucket {
    fn level(&self, now: Instant) -> Duration {
        let ran = |since: Instant| now.saturating_duration_since(since);
        (self.level.saturating_sub(ran(self.at) / SHARE) + self.polled_since.map_or(Duration::ZERO, ran)).min(LEVEL_MAX)
    }

    fn settle(&mut self, now: Instant, polled_since: Option<Instant>) {
        let level = self.level(now);
        let on_trial_since = if level > BURST { now } else { self.on_trial_since };
        *self = Self { level, at: now, polled_since, on_trial_since };
    }
}

impl Meter {
    /// The meter of a task that begins.
    pub(super) fn new(now: Instant) -> Self {
        Self(Mutex::new(Bucket { level: Duration::ZERO, at: now, polled_since: None, on_trial_since: now }))
    }

    fn with<T>(&self, f: impl FnOnce(&mut Bucket) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The task is polled from now on.
    pub(super) fn begin(&self, now: Instant) {
        self.with(|bucket| bucket.settle(now, Some(now)));
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

    fn used(meter: &Meter, from: Instant, time: Duration) -> Instant {
        meter.begin(from);
        meter.end(from + time);
        from + time
    }

    #[test]
    fn who_begins_is_on_trial_and_then_quick() {
        let start = Instant::now();
        let meter = Meter::new(start);
        assert_eq!(meter.lane(start + TRIAL - Duration::from_nanos(1)), Lane::Trial);
        assert_eq!(meter.lane(start + TRIAL), Lane::Quick);
    }

    #[test]
    fn a_burst_is_not_slow_and_a_bit_more_is() {
        let start = Instant::now();
        let meter = Meter::new(start);
        meter.begin(start);
        assert_eq!(meter.lane(start + BURST), Lane::Trial);
        assert_eq!(meter.lane(start + BURST + Duration::from_nanos(1)), Lane::Slow);
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
