//! How far storage may lag behind what was answered: `spec.durability`.

use std::time::Duration;

use dormouse_crds::session::Durability;
use tokio::time::Instant;

use super::Fault;
use super::actor::Actor;

/// How long an answer may be ahead of its commit under `Batched`.
const BATCHED_LAG_MAX: Duration = Duration::from_millis(500);

/// Entries of the journal that may wait for a commit: they are in memory, and travel with it.
const JOURNAL_ENTRIES_AHEAD_MAX: usize = 512;

impl Actor {
    /// Whether what has run must be stored before anybody hears of it. Always when a call is to leave, and for the first commit under an
    /// epoch, which is what makes the owner the owner.
    pub(super) fn commits_first(&self, calls: bool) -> bool {
        let owner = |live: &super::phase::Live| live.owned.head.as_ref().is_some_and(|head| head.epoch == self.assignment.epoch);
        let much = |live: &super::phase::Live| live.journal.len() >= JOURNAL_ENTRIES_AHEAD_MAX || live.events.is_full();
        // What others are told of must be so whatever happens.
        let tells = |live: &super::phase::Live| live.state.notices.due_ms().is_some();
        calls
            || self.phase.live().is_some_and(|live| much(live) || tells(live) || live.state.may_not_fit())
            || self.assignment.spec.durability == Durability::PerEval
            || !self.phase.live().is_some_and(owner)
    }

    /// Leaves the commit to later. Answers the bytes written: none. What lies outside the heap is stored all the same: the process has room for
    /// pages only.
    pub(super) async fn postpone(&mut self) -> Result<u64, Fault> {
        if let Some(live) = self.phase.live_mut() {
            live.contents.settle().await.map_err(Fault::Unstored)?;
            live.unstored_since.get_or_insert_with(Instant::now);
        }
        Ok(0)
    }

    /// When what was answered must be stored, if nothing else stores it before.
    pub(super) fn store_deadline(&self) -> Option<Instant> {
        let since = self.phase.live()?.unstored_since?;
        match self.assignment.spec.durability {
            // A spec that has become stricter is behind already.
            Durability::PerEval => Some(since),
            Durability::Batched => Some(since + BATCHED_LAG_MAX),
            Durability::OnIdle => None,
        }
    }
}
