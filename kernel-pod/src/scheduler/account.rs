//! What a task has used of late, a bucket that its polls fill and time drains, and what it has been served in all.

use std::time::{Duration, Instant};

/// What a task may use at once before it needs a permit.
pub(super) const BURST: Duration = Duration::from_micros(500);

/// Share of a core that a task may use for ever without a permit: one part in so many.
pub(super) const SHARE: u32 = 4;

/// More than this is not held against a task, so that some milliseconds after a long cell its next one needs no permit.
pub(super) const LEVEL_MAX: Duration = Duration::from_millis(4);

/// One task's account.
#[derive(Debug)]
pub(super) struct Account {
    level: Duration,
    /// When `level` was true.
    at: Instant,
    /// The service by which tasks with permits are compared.
    served: Duration,
}

impl Account {
    /// Of a task that begins.
    pub(super) fn new(now: Instant) -> Self {
        Self { level: Duration::ZERO, at: now, served: Duration::ZERO }
    }

    /// The task was polled from `began` until `now`.
    pub(super) fn charge(&mut self, began: Instant, now: Instant) {
        let used = now.saturating_duration_since(began);
        self.level = (self.level_at(began) + used).min(LEVEL_MAX);
        self.at = now;
        self.served += used;
    }

    /// Whether the task has used so much that it needs a permit.
    pub(super) fn used_much(&self, now: Instant) -> bool {
        self.level_at(now) > BURST
    }

    /// What it has been served.
    pub(super) fn served(&self) -> Duration {
        self.served
    }

    /// The same, to be raised to what those who wait have been served at least: nobody saves up turns.
    pub(super) fn served_mut(&mut self) -> &mut Duration {
        &mut self.served
    }

    fn level_at(&self, now: Instant) -> Duration {
        self.level.saturating_sub(now.saturating_duration_since(self.at) / SHARE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(account: &mut Account, from: Instant, time: Duration) -> Instant {
        account.charge(from, from + time);
        from + time
    }

    #[test]
    fn a_burst_is_not_much_and_a_bit_more_is() {
        let start = Instant::now();
        let mut account = Account::new(start);
        let now = used(&mut account, start, BURST);
        assert!(!account.used_much(now));
        let now = used(&mut account, now, Duration::from_nanos(1));
        assert!(account.used_much(now));
    }

    #[test]
    fn a_share_of_a_core_is_not_much_for_ever_and_a_whole_one_is() {
        let mut now = Instant::now();
        let mut account = Account::new(now);
        for _ in 0..1000 {
            now = used(&mut account, now, BURST / SHARE) + BURST;
            assert!(!account.used_much(now));
        }
        now = used(&mut account, now, LEVEL_MAX);
        assert!(account.used_much(now));
    }

    #[test]
    fn some_milliseconds_after_a_long_cell_it_is_forgotten() {
        let start = Instant::now();
        let mut account = Account::new(start);
        let now = used(&mut account, start, Duration::from_secs(10));
        assert!(account.used_much(now + (LEVEL_MAX - BURST - Duration::from_micros(1)) * SHARE));
        assert!(!account.used_much(now + (LEVEL_MAX - BURST) * SHARE));
    }
}
