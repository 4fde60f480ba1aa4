//! From a live instance to a copy and a free slot.

use dormouse_lifecycle::{Owned, TopLayer};
use dormouse_protocol::ApiError;
use dormouse_protocol::history::JournalBody;
use dormouse_protocol::session::State;

use super::actor::Actor;
use super::cells::Scripts;
use super::{Fault, gone};
use crate::cache::Copy;

impl Actor {
    /// Commits what is not committed, keeps a copy, and frees the slot. A cell that awaits goes on at the next wake; who waits for it is told
    /// to ask again.
    pub(super) async fn hibernate(&mut self) -> Result<(), Fault> {
        let Some(live) = self.phase.live_mut() else { return self.resolve().await };
        live.note(JournalBody::Hibernated);
        live.events.push_state(State::Hibernated);
        self.announce_sleep().await;
        let Some(live) = self.phase.live() else { return Ok(()) };
        // Who follows the session sees that it sleeps; otherwise that is stored with what comes next.
        let told = self.handle.control.events.is_followed();
        if told || live.is_dirty() || live.is_unfenced(self.assignment.epoch) {
            self.commit().await?;
        }
        let Some(live) = self.phase.take_live() else { return Ok(()) };
        self.announced_sleep();
        let is_parked = live.state.running.is_some() && live.state.is_parked();
        self.remember(&live);
        // Where memory is short, the store's copy has to do.
        if self.host.environment.memory.has_room() {
            let mut live = *live;
            let owned = Owned { top_layer: TopLayer::default(), ..live.owned };
            let events = live.events.take(usize::MAX);
            let copy = Copy { image: live.instance.image().await, owned, state: live.state, journal: live.journal, events };
            let kept = self.host.cache.put(&self.assignment.uid, copy);
            self.host.metrics.copies(kept);
        }
        self.scripts = Scripts::default();
        // A cell that waits for somebody goes on in this process when it comes; until then its client waits here, and nothing else does.
        let waiting = if is_parked { self.current.take() } else { None };
        self.end_waiting(&gone("the session was put to sleep while the cell waited; send it again with its idempotency key"));
        self.current = waiting;
        if let Some(only) = &self.host.only {
            only.end();
        }
        Ok(())
    }

    pub(super) async fn sleep_on_request(&mut self) -> Result<(), Fault> {
        // A session that this process knows nothing of may have no head yet.
        if self.owes_storage()
            || !self.phase.is_live()
                && self.reported.as_ref().is_none_or(|report| report.snapshot.is_none() || report.epoch != self.assignment.epoch)
        {
            self.ensure_live().await?;
        }
        self.hibernate().await
    }

    /// Answers every cell that runs or waits to run.
    pub(super) fn end_waiting(&mut self, error: &ApiError) {
        for job in self.current.take().into_iter().chain(std::mem::take(&mut self.queue)) {
            job.answer(Err(error.clone()));
        }
        for message in std::mem::take(&mut self.deferred) {
            message.refuse(error.clone());
        }
        self.owe_no_longer(error);
    }
}
