//! What time it is, for whatever is written down, compared across processes, or told to a person. Waiting is the runtime's matter.

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// A clock. Copies tell the same time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clock {
    /// `None`: the system's time.
    follows: Option<(Timestamp, Instant)>,
}

impl Clock {
    /// The system's.
    #[must_use]
    pub fn system() -> Self {
        Self::default()
    }

    /// It is `start` now, and the clock goes as the runtime's does: a test that pauses the runtime's time has paused this, too.
    /// Must be called inside a tokio runtime.
    #[must_use]
    pub fn following_runtime(start: Timestamp) -> Self {
        Self { follows: Some((start, Instant::now())) }
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let Some((start, since)) = self.follows else { return Timestamp::now() };
        SignedDuration::try_from(since.elapsed()).ok().and_then(|passed| start.checked_add(passed).ok()).unwrap_or(Timestamp::MAX)
    }

    /// The time in milliseconds since the Unix epoch.
    #[must_use]
    pub fn now_ms(&self) -> i64 {
        self.now().as_millisecond()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_clock_that_follows_the_runtime_goes_as_its_timers_do() {
        let start: Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
        let clock = Clock::following_runtime(start);
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(clock.now_ms() >= start.as_millisecond() + 20);
        assert!(Clock::system().now() < start, "the system's time is another");
    }
}
