//! What a task has used of late: a bucket that polls fill and time drains.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// What a task may use at once and stay quick: a slice.
pub(super) const BURST: Duration = Duration::from_micros(500);

/// Share of a core that a task may use for ever and stay quick: one part in so many.
pub(super) const SHARE: u32 = 2;

/// More than this is not held against a task, so that some milliseconds after a long cell its next one is quick again.
pub(super) const LEVEL_MAX: Duration = Duration::from_millis(4);

/// One task's bucket.
#[derive(Debug, Default)]
pub(super) struct Meter(Mutex<Bucket>);

#[derive(Debug, Default, Clone, Copy)]
struct Bucket {
    level: Duration,
    /// When `level` was true.
    at: Option<Instant>,
    /// Since when the task is polled.
    polled_since: Option<Instant>,
}

impl Bucket {
    fn level(&self, now: Instant) -> Duration {
        let ran = |since: Instant| now.saturating_duration_since(since);
        let drained = self.at.map_or(Duration::ZERO, |at| ran(at) / SHARE);
        (self.level.saturating_sub(drained) + self.polled_since.map_or(Duration::ZERO, ran)).min(LEVEL_MAX)
    }

    fn settle(&mut self, now: Instant, polled_since: Option<Instant>) {
        *self = Self { level: self.level(now), at: Some(now), polled_since };
    }
}

impl Meter {
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

    /// Whether the task has used more than its share, a poll under way included.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.with(|bucket| bucket.level(now) > BURST)
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
    fn a_burst_is_quick_and_a_bit_more_is_not() {
        let (meter, start) = (Meter::default(), Instant::now());
        meter.begin(start);
        assert!(!meter.is_over(start + BURST));
        assert!(meter.is_over(start + BURST + Duration::from_nanos(1)));
    }

    #[test]
    fn a_share_of_a_core_is_quick_for_ever_and_a_whole_one_is_not() {
        let meter = Meter::default();
        let mut now = Instant::now();
        for _ in 0..1000 {
            now = used(&meter, now, BURST / 2) + BURST / 2;
            assert!(!meter.is_over(now));
        }
        now = used(&meter, now, LEVEL_MAX);
        assert!(meter.is_over(now));
    }

    #[test]
    fn a_long_cell_is_forgotten_soon() {
        let meter = Meter::default();
        let now = used(&meter, Instant::now(), Duration::from_secs(10));
        assert!(meter.is_over(now + (LEVEL_MAX - BURST - Duration::from_micros(1)) * SHARE));
        assert!(!meter.is_over(now + LEVEL_MAX * SHARE));
    }
}
