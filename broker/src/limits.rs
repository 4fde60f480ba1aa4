//! How many calls there may be: at one time, in a minute, of one session.

use std::{
    collections::HashMap,
    num::NonZeroU32,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use dormouse_crds::service::Limits as LimitsSpec;
use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, Quota, RateLimiter};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Sessions whose rates are known before those that are at rest are dropped.
const RATES_MAX: usize = 10_000;

/// What sessions may have at one time, each for itself.
#[derive(Debug)]
pub(crate) struct Shares {
    permits: usize,
    sessions: Mutex<HashMap<String, Weak<Semaphore>>>,
}

impl Shares {
    pub(crate) fn new(permits: usize) -> Self {
        Self { permits, sessions: Mutex::default() }
    }

    /// The session's. Those that nobody holds are dropped.
    pub(crate) fn of(&self, session_uid: &str) -> Arc<Semaphore> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = sessions.get(session_uid).and_then(Weak::upgrade) {
            return share;
        }
        sessions.retain(|_, share| share.strong_count() > 0);
        let share = Arc::new(Semaphore::new(self.permits));
        sessions.insert(session_uid.to_owned(), Arc::downgrade(&share));
        share
    }
}

/// The limits of a service or a tool.
#[derive(Debug)]
pub(crate) struct Limiter {
    session_rate: Option<DefaultKeyedRateLimiter<String>>,
    rate: Option<DefaultDirectRateLimiter>,
    shares: Option<Shares>,
    slots: Option<Arc<Semaphore>>,
}

/// A call's place among those at one time.
pub(crate) struct Permit {
    _held: [Option<OwnedSemaphorePermit>; 2],
}

impl Limiter {
    pub(crate) fn new(spec: &LimitsSpec) -> Self {
        let permits = |count: Option<u32>| count.map(|count| usize::try_from(count).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS));
        Self {
            session_rate: spec.session_per_minute.and_then(quota).map(RateLimiter::keyed),
            rate: spec.per_minute.and_then(quota).map(RateLimiter::direct),
            shares: permits(spec.session_concurrency).map(Shares::new),
            slots: permits(spec.concurrency).map(|count| Arc::new(Semaphore::new(count))),
        }
    }

    /// Waits until the call may be made. A session that waits for its own turn takes nobody else's.
    pub(crate) async fn enter(&self, session_uid: &str) -> Permit {
        let share = match &self.shares {
            Some(shares) => shares.of(session_uid).acquire_owned().await.ok(),
            None => None,
        };
        if let Some(rate) = &self.session_rate {
            if rate.len() > RATES_MAX {
                rate.retain_recent();
            }
            rate.until_key_ready(&session_uid.to_owned()).await;
        }
        let slot = match &self.slots {
            Some(slots) => Arc::clone(slots).acquire_owned().await.ok(),
            None => None,
        };
        if let Some(rate) = &self.rate {
            rate.until_ready().await;
        }
        Permit { _held: [share, slot] }
    }
}

/// So many in a minute, a tenth of them at once.
fn quota(per_minute: u32) -> Option<Quota> {
    let at_once = NonZeroU32::new(per_minute.div_ceil(10))?;
    Some(Quota::with_period(Duration::from_secs(60) / per_minute)?.allow_burst(at_once))
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn limiter(spec: LimitsSpec) -> Limiter {
        Limiter::new(&spec)
    }

    #[test]
    fn as_many_at_one_time_as_the_limit_says() {
        let limiter = limiter(LimitsSpec { concurrency: Some(2), session_concurrency: Some(1), ..LimitsSpec::default() });
        let one = limiter.enter("a").now_or_never().unwrap();
        assert!(limiter.enter("a").now_or_never().is_none(), "the session has one");
        let _other = limiter.enter("b").now_or_never().unwrap();
        assert!(limiter.enter("c").now_or_never().is_none(), "all have two");
        drop(one);
        assert!(limiter.enter("a").now_or_never().is_some());
    }

    #[test]
    fn a_tenth_of_a_minute_at_once_and_then_by_the_rate() {
        let limiter = limiter(LimitsSpec { session_per_minute: Some(20), per_minute: Some(30), ..LimitsSpec::default() });
        let made = |session: &str| (0..10).take_while(|_| limiter.enter(session).now_or_never().is_some()).count();
        assert_eq!((made("a"), made("b"), made("c")), (2, 1, 0));
    }

    #[test]
    fn without_limits_nothing_waits() {
        let limiter = limiter(LimitsSpec::default());
        let held: Vec<_> = (0..1_000).map(|_| limiter.enter("a").now_or_never().unwrap()).collect();
        assert_eq!(held.len(), 1_000);
    }
}
