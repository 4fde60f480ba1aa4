//! A live session that nobody asks gives back the memory that it does not need.

use std::time::Duration;

use dormouse_lifecycle::Top;
use tokio::time::Instant;

use super::actor::Actor;

/// How long a live session is left alone before it gives memory back. To get it again costs the next cell a few page faults, so not at once.
const REST_AFTER: Duration = Duration::from_secs(1);

impl Actor {
    /// When to give back memory, if nothing happens until then. `None`: it is done, or there is none.
    pub(super) fn rest_deadline(&self) -> Option<Instant> {
        let live = self.phase.live().filter(|live| !live.rests)?;
        Some(live.idle_since + REST_AFTER)
    }

    /// Gives it back.
    pub(super) fn rest(&mut self) {
        if let Some(live) = self.phase.live_mut() {
            self.host.metrics.gave_back(live.instance.give_back());
            live.owned.top = Top::default();
            live.rests = true;
        }
    }
}
