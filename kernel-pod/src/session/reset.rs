//! A session emptied: the same name, id, spec, journal and events, and nothing of what its cells made.

use dormouse_lifecycle::blobs::Table;
use dormouse_lifecycle::checkpoint::{Mark, Subject};
use dormouse_protocol::history::JournalBody;

use super::actor::Actor;
use super::history::Successor;
use super::phase::Moved;
use super::wake::internal;
use super::{Fault, budget};
use crate::record::SessionState;

/// What waiting cells are told when their session is emptied.
const RESET: &str = "the session was reset while this cell waited; nothing of the cell is left";

/// Automatic checkpoints that are kept at least where the state before a reset becomes one.
const KEEP_MIN: u32 = 1;

impl Actor {
    /// Goes on as a new session would. The request that `operation` names is carried out once.
    pub(super) async fn reset(&mut self, operation: Option<String>) -> Result<(), Fault> {
        let Some(held) = self.take_for(operation.as_deref()).await? else { return Ok(()) };
        let settings = budget::settings(&self.assignment.spec).map_err(Fault::Refused)?;
        let blank = self.host.engines.current().blank(&settings).map_err(|error| Fault::Refused(internal(&error)))?;
        let before = held.state.as_ref().and(held.owned.head.as_ref()).map(|head| head.sequence.to_string());
        let fresh = SessionState::fresh(&self.assignment);
        let successor = Successor {
            instance: blank.fresh(),
            settings,
            state: if held.owned.head.is_some() { fresh.numbered_after(held.state.as_ref()) } else { fresh },
            contents: &Table::default(),
            entry: JournalBody::Reset { before: before.clone() },
            why: RESET,
        };
        self.replace(held, successor, operation).await?;
        if let Some(live) = self.phase.live_mut() {
            (live.moved, live.replaces) = (Moved::Ran, true);
        }
        let keep = self.assignment.spec.checkpoints.keep.max(KEEP_MIN);
        let mark = before.map(|_| Mark { subject: Subject::Before, label: None, keep });
        self.commit_with(None, mark).await?;
        self.bootstrap().await
    }
}
