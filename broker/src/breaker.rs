//! A service that fails is left in peace for a while.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use dormouse_crds::service::Breaker as BreakerSpec;
use dormouse_protocol::{ApiError, ErrorCode};
use tokio::time::Instant;

/// Counts failures in a row. Closed: the service is asked. Open: it is not, until its time is over; then one call goes, on which it depends.
#[derive(Debug)]
pub(crate) struct Breaker {
    failures_max: u32,
    open: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    failures: u32,
    open_until: Option<Instant>,
}

impl Breaker {
    pub(crate) fn new(spec: BreakerSpec) -> Self {
        Self { failures_max: spec.failures, open: Duration::from_secs(spec.open_seconds), state: Mutex::default() }
    }

    /// Lets a call go.
    ///
    /// # Errors
    /// The service is left in peace.
    pub(crate) fn admit(&self) -> Result<(), ApiError> {
        let mut state = self.lock();
        let Some(until) = state.open_until else { return Ok(()) };
        let now = Instant::now();
        if now >= until {
            // The next one waits for what comes of this one, or for as long again.
            state.open_until = Some(now + self.open);
            return Ok(());
        }
        let seconds = (until - now).as_secs() + 1;
        let message = format!("the service failed {} times in a row: it is asked again in {seconds} s", state.failures);
        Err(ApiError::new(ErrorCode::ToolResultInvalid, message).with_detail("retryAfterSeconds", seconds))
    }

    /// The service has answered.
    pub(crate) fn answered(&self) {
        *self.lock() = State::default();
    }

    /// It has not, or with a failure of its own.
    pub(crate) fn failed(&self) {
        let mut state = self.lock();
        state.failures = state.failures.saturating_add(1);
        if self.failures_max > 0 && state.failures >= self.failures_max {
            state.open_until = Some(Instant::now() + self.open);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_left_in_peace_after_so_many_failures_in_a_row_and_no_fewer() {
        let breaker = Breaker::new(BreakerSpec { failures: 3, open_seconds: 3_600 });
        breaker.failed();
        breaker.failed();
        breaker.answered();
        breaker.failed();
        breaker.failed();
        assert!(breaker.admit().is_ok());
        breaker.failed();
        let error = breaker.admit().unwrap_err();
        assert!(error.message.starts_with("the service failed 3 times in a row: it is asked again in 3600 s"), "{error}");
    }

    #[test]
    fn then_one_call_goes_and_decides() {
        let breaker = Breaker::new(BreakerSpec { failures: 1, open_seconds: 3_600 });
        breaker.failed();
        breaker.lock().open_until = Some(Instant::now());
        assert!(breaker.admit().is_ok() && breaker.admit().is_err(), "one");
        breaker.answered();
        assert!(breaker.admit().is_ok() && breaker.admit().is_ok());
    }

    #[test]
    fn one_of_none_never_opens() {
        let breaker = Breaker::new(BreakerSpec { failures: 0, open_seconds: 1 });
        (0..1_000).for_each(|_| breaker.failed());
        assert!(breaker.admit().is_ok());
    }
}
