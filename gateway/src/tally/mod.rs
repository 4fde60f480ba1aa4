//! What is counted by one gateway for all: the cells of a namespace that has `evalsPerSecond`, and sessions that are being made where `sessions` is limited.
//!
//! It is the one that is the first for the namespace ([`Peers::first`]), by its own clock and its own view of the KernelQuotas; the others ask it
//! ([`asking`]), about cells one question at a time for all that have come meanwhile. A gateway that has just become the first begins with the next second
//! of the clock, because the one before it may have counted in this: if all hear within that time who it is, no second has more cells than are allowed.
//! Who is asked and is not the first by its own view says so, and is asked again once the lists agree.
//!
//! Where the first does not answer, each gateway counts for itself; of cells it lets through its part of what is allowed.

mod asking;
mod cells;
pub(crate) mod server;
mod sessions;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use dormouse_service::{Clock, tls::PeerClient};
use tokio::time::Instant;

use crate::{peers::Peers, quotas::MS_PER_SECOND};
use asking::Asking;
use cells::Waiting;
pub(crate) use sessions::Making;

/// Counts for all of several gateways, or asks the one that does. Clones share it. The default counts for itself, as a gateway that is alone does.
#[derive(Debug, Clone, Default)]
pub struct Tally(Option<Arc<Shared>>);

#[derive(Debug)]
pub(crate) struct Shared {
    asking: Asking,
    /// The cells about which another gateway is to be asked.
    waiting: Waiting,
}

impl Tally {
    /// One of several gateways, who answer each other at `port`. `system_namespace` is that of their certificates.
    #[must_use]
    pub fn shared(peers: Peers, client: PeerClient, system_namespace: &str, port: u16) -> Self {
        Self(Some(Arc::new(Shared { asking: Asking::new(peers, client, system_namespace, port), waiting: Waiting::default() })))
    }
}

/// Waits for the end of the second of the clock in which `since` is, if it is not over.
async fn next_second(since: Option<Instant>, clock: Clock) {
    let Some(since) = since else { return };
    let now_ms = clock.now_ms();
    let since_ms = now_ms.saturating_sub(i64::try_from(since.elapsed().as_millis()).unwrap_or(i64::MAX));
    let ends_ms = since_ms.div_euclid(MS_PER_SECOND).saturating_add(1).saturating_mul(MS_PER_SECOND);
    if let Ok(left_ms @ 1..) = u64::try_from(ends_ms.saturating_sub(now_ms)) {
        tokio::time::sleep(Duration::from_millis(left_ms)).await;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_has_just_begun_to_count_begins_with_the_next_second() {
        let clock = Clock::following_runtime("2030-01-01T00:00:00.300Z".parse().unwrap());
        let waited = async |since| {
            let begun = clock.now_ms();
            next_second(since, clock).await;
            clock.now_ms() - begun
        };
        let now = Instant::now();
        assert_eq!(waited(None).await, 0);
        assert_eq!(waited(Some(now)).await, 700);
        assert_eq!(waited(Some(now)).await, 0, "the second is over");
    }
}
