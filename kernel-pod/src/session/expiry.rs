//! A session that nobody has used for as long as its spec says: it sleeps, and takes no more cells.

use std::time::Duration;

use dormouse_lifecycle::lifetime::{Lifetime, lifetime};
use dormouse_protocol::{ApiError, ErrorCode};
use jiff::Timestamp;
use tokio::time::Instant;

use super::actor::Actor;
use super::phase::Live;

/// How long an expired session stays live after somebody has read it.
const READ_LINGER: Duration = Duration::from_secs(2);

impl Actor {
    /// What its last use says of it. A session that has run no cell yet has none: how old it is, its directory knows.
    fn lifetime(&self, live: &Live) -> Lifetime {
        let used = live.state.last_active.as_deref().and_then(|time| time.parse::<Timestamp>().ok());
        let ttl = self.assignment.spec.ttl;
        match used {
            Some(used) => lifetime(ttl.active_seconds, ttl.retained_seconds, used.as_millisecond(), live.clock.now_ms()),
            None => Lifetime::Active { until_ms: None },
        }
    }

    /// When it goes to sleep because it has expired.
    pub(super) fn expiry_deadline(&self, live: &Live) -> Option<Instant> {
        match self.lifetime(live) {
            Lifetime::Active { until_ms: None } => None,
            Lifetime::Active { until_ms: Some(until_ms) } => {
                let left_ms = u64::try_from(until_ms.saturating_sub(live.clock.now_ms())).unwrap_or(0);
                Some((Instant::now() + Duration::from_millis(left_ms)).max(live.idle_since + READ_LINGER))
            }
            Lifetime::Expired { .. } | Lifetime::Over => Some(live.idle_since + READ_LINGER),
        }
    }

    /// Why no cell may begin.
    pub(super) fn expired(&self) -> Option<ApiError> {
        match self.lifetime(self.phase.live()?) {
            Lifetime::Active { .. } => None,
            Lifetime::Expired { .. } | Lifetime::Over => {
                let seconds = self.assignment.spec.ttl.active_seconds;
                let message = format!(
                    "the session was not used for {seconds} s and has expired: it can still be read. Raise spec.ttl.activeSeconds to go on with it"
                );
                Some(ApiError::new(ErrorCode::SessionExpired, message))
            }
        }
    }
}
