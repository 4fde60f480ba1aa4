//! What a live session does that nobody asks for a while: it gives back the memory that it does not need, and stores that it is here.

use std::time::Duration;

use dormouse_lifecycle::TopLayer;
use tokio::time::Instant;

use super::Fault;
use super::actor::Actor;

/// How long a live session is left alone before it gives memory back. To get it again costs the next cell a few page faults, so not at once.
const REST_AFTER: Duration = Duration::from_secs(1);

impl Actor {
    /// When to rest, if nothing happens until then. `None`: it is done, or there is none.
    pub(super) fn rest_deadline(&self) -> Option<Instant> {
        let live = self.phase.live().filter(|live| !live.rests)?;
        Some(live.idle_since + REST_AFTER)
    }

    /// Gives memory back. By now whatever woke it has been done, so the owner before it is fenced off, too: what that one was acked meanwhile, a timer
    /// say, is seen at the latest now. Not at once: who dies of what it is woken for is to leave nothing but an epoch (`control::wakes::fruitless`).
    ///
    /// # Errors
    /// Nothing can be stored, or what is stored is newer.
    pub(super) async fn rest(&mut self) -> Result<(), Fault> {
        let epoch = self.assignment.epoch;
        if !self.is_bootstrapping() && self.phase.live().is_some_and(|live| live.is_unfenced(epoch)) {
            self.commit().await?;
        }
        if let Some(live) = self.phase.live_mut() {
            self.host.metrics.gave_back(live.instance.give_back());
            live.owned.top_layer = TopLayer::default();
            live.rests = true;
        }
        Ok(())
    }
}
