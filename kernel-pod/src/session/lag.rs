//! How far storage may lag behind what was answered: `spec.durability`.

use std::time::Duration;

use dormouse_crds::session::Durability;
use tokio::time::Instant;

use super::actor::Actor;

/// How long an answer may be ahead of its commit under `Batched`.
const BATCHED_LAG_MAX: Duration = Duration::from_millis(500);

impl Actor {
    /// Whether what has run must be stored before anybody hears of it. Always when a call is to leave, and for the first commit under an
    /// epoch, which is what makes the owner the owner.
    pub(super) fn commits_first(&self, calls: bool) -> bool {
        let owner = |live: &super::actor::Live| live.owned.head.as_ref().is_some_and(|head| head.epoch == self.assignment.epoch);
        calls || self.assignment.spec.durability == Durability::PerEval || !self.live.as_ref().is_some_and(owner)
    }

    /// Leaves the commit to later. Answers the bytes written: none.
    pub(super) fn postpone(&mut self) -> u64 {
        if let Some(live) = &mut self.live {
            live.unstored_since.get_or_insert_with(Instant::now);
        }
        0
    }

    /// When what was answered must be stored, if nothing else stores it before.
    pub(super) fn store_deadline(&self) -> Option<Instant> {
        let since = self.live.as_ref()?.unstored_since?;
        match self.assignment.spec.durability {
            // A spec that has become stricter is behind already.
            Durability::PerEval => Some(since),
            Durability::Batched => Some(since + BATCHED_LAG_MAX),
            Durability::OnIdle => None,
        }
    }
}
