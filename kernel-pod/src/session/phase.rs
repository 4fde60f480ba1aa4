//! What a session is at a moment, and how it becomes something else. These are all of its transitions:
//!
//! | from | by | to |
//! |---|---|---|
//! | asleep | [`Phase::begin_waking`]: a request, a debt | waking |
//! | waking | [`Phase::stop_waking`]: no slot, no storage now | asleep |
//! | asleep, waking, failed | [`Phase::go_live`]: an instance is there | live |
//! | live | [`Phase::take_live`]: it sleeps, or its instance is lost; what only this process has is owed | asleep |
//! | asleep, waking | [`Phase::fail`]: it cannot go on as it is | failed |
//! | failed | [`Phase::forgive`]: another spec, or what was in doubt is stored | asleep |
//! | any | [`Phase::leave`]: it is not here any more, or the process stops | leaving |
//!
//! A failed session whose waking is tried stays failed until it is live: nobody is told that it wakes each time that somebody asks.

use std::sync::Arc;

use dormouse_engine::{Instance, Settings};
use dormouse_lifecycle::usage::Counts;
use dormouse_lifecycle::{Json, Owned};
use dormouse_protocol::ApiError;
use dormouse_service::Clock;
use tokio::time::Instant;

use super::commit::Attempt;
use super::leave::Leave;
use super::ops::InFlight;
use super::setback::{Answered, Setback};
use crate::contents::Contents;
use crate::events::Waiting;
use crate::record::{RunningCell, SessionState};
use crate::slots::Slot;
use crate::usage::HeapTime;

/// What a session is.
pub(super) enum Phase {
    /// It has no instance. The store has it, and this process what is owed to the store.
    Asleep(Owed),
    /// An instance is on its way.
    Waking(Owed),
    /// It has an instance and a slot.
    Live(Box<Live>),
    /// It cannot go on before something changes.
    Failed(Owed, Failure),
    /// Its task ends.
    Leaving(Leave),
}

/// What of a session without an instance only this process has.
#[derive(Default)]
pub(super) struct Owed {
    /// A commit of which nobody knows whether it is stored. Nothing else is done with the session before that is known.
    pub(super) commit: Option<Box<Attempt>>,
    /// What is left of the instance that was lost.
    pub(super) setback: Setback,
    /// Whether objects may lie in the store that no head names.
    pub(super) litter: bool,
    /// Whether something is stored that this process has not seen come: another's commit, or its own whose outcome came late. What that awaits, a
    /// timer or a call, nobody waits for before it is restored.
    pub(super) unread: bool,
}

/// Why a session cannot go on.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub(super) error: ApiError,
    pub(super) until: Until,
}

/// When it is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// At the next request.
    Asked,
    /// Under another spec: under this one it would end so again.
    Respec,
}

/// What a session holds while it has a slot.
pub(super) struct Live {
    pub(super) instance: Instance,
    /// What the instance was made with.
    pub(super) settings: Settings,
    /// What this process owns of it in the store. Its epoch is the latest under which that was made sure.
    pub(super) owned: Owned,
    /// What it keeps outside its heap.
    pub(super) contents: Arc<Contents>,
    pub(super) state: SessionState,
    pub(super) in_flight: InFlight,
    pub(super) slot: Slot,
    /// What the turn under way is for.
    pub(super) cause: Cause,
    /// Whether somebody asked for the end of the last turn when that had ended already.
    pub(super) missed_interrupt: bool,
    /// The cell that has ended and is not stored yet, without its output.
    pub(super) finishing: Option<RunningCell>,
    /// What has run that neither a commit nor `answered` has.
    pub(super) moved: Moved,
    /// The last answer's state, where that is ahead of the last commit.
    pub(super) answered: Option<Box<Answered>>,
    /// Whether the way to the store is too slow for whole images: what changes is appended as long as that can go on.
    pub(super) appends: bool,
    /// Whether the memory is another one than what is stored: the next commit writes all of it.
    pub(super) replaces: bool,
    /// Since when an answer is ahead of storage.
    pub(super) unstored_since: Option<Instant>,
    /// Whether objects may lie in the store that no head names. The next commit sweeps them.
    pub(super) litter: bool,
    /// Entries of the journal for the next commit.
    pub(super) journal: Vec<Json>,
    /// Events for the next commit.
    pub(super) events: Waiting,
    /// What its cells have used since the last commit.
    pub(super) uncommitted: Counts,
    /// Counts how long the heap is live.
    pub(super) heap_time: HeapTime,
    pub(super) idle_since: Instant,
    pub(super) clock: Clock,
    /// Whether code has run in it.
    pub(super) ran: bool,
    /// Whether it has given back the memory that it does not need since it ran last.
    pub(super) rests: bool,
}

/// What an instance has done since its state was stored or kept at hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moved {
    /// Nothing.
    No,
    /// Somebody has looked at its files: its memory is another one, and nothing else of it.
    Looked,
    /// It has gone on.
    Ran,
}

/// What a turn is for: who loses what when the instance does not survive it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Cause {
    /// A cell.
    #[default]
    Cell,
    /// The delivery of an operation, to the cell that awaits.
    Delivery(u64),
    /// Something that no cell asked for: the cell that awaits goes on.
    Request,
}

impl Cause {
    /// The operation that was delivered.
    pub(super) fn delivery(self) -> Option<u64> {
        if let Self::Delivery(op) = self { Some(op) } else { None }
    }
}

impl Live {
    /// Whether something has run since the last commit.
    pub(super) fn is_dirty(&self) -> bool {
        self.moved != Moved::No || self.answered.is_some()
    }

    /// Whether nothing is stored under this epoch yet: so long the owner before it may go on, and ack what this one does not know.
    pub(super) fn is_unfenced(&self, epoch: u64) -> bool {
        self.owned.head.as_ref().is_none_or(|head| head.epoch < epoch)
    }

    /// Whether what the commit of this sequence was to have is stored. A fork counts anew; what it has from its parent is stored with its first commit.
    pub(super) fn has_stored(&self, sequence: u64) -> bool {
        !self.is_dirty() || self.owned.head.as_ref().is_some_and(|head| head.sequence >= sequence)
    }
}

impl Phase {
    /// The instance and what belongs to it.
    pub(super) fn live(&self) -> Option<&Live> {
        if let Self::Live(live) = self { Some(live) } else { None }
    }

    /// The same, to change it.
    pub(super) fn live_mut(&mut self) -> Option<&mut Live> {
        if let Self::Live(live) = self { Some(live) } else { None }
    }

    pub(super) fn is_live(&self) -> bool {
        matches!(self, Self::Live(_))
    }

    pub(super) fn is_leaving(&self) -> bool {
        matches!(self, Self::Leaving(_))
    }

    /// What is owed while there is no instance.
    pub(super) fn owed(&self) -> Option<&Owed> {
        match self {
            Self::Asleep(owed) | Self::Waking(owed) | Self::Failed(owed, _) => Some(owed),
            Self::Live(_) | Self::Leaving(_) => None,
        }
    }

    /// The same, to change it.
    pub(super) fn owed_mut(&mut self) -> Option<&mut Owed> {
        match self {
            Self::Asleep(owed) | Self::Waking(owed) | Self::Failed(owed, _) => Some(owed),
            Self::Live(_) | Self::Leaving(_) => None,
        }
    }

    pub(super) fn failure(&self) -> Option<&Failure> {
        if let Self::Failed(_, failure) = self { Some(failure) } else { None }
    }

    /// An instance is on its way.
    pub(super) fn begin_waking(&mut self) {
        self.replace(|phase| if let Self::Asleep(owed) = phase { Self::Waking(owed) } else { phase });
    }

    /// None is on its way any more.
    pub(super) fn stop_waking(&mut self) {
        self.replace(|phase| if let Self::Waking(owed) = phase { Self::Asleep(owed) } else { phase });
    }

    /// Takes an instance into use. What was owed has been taken out, or ends here.
    pub(super) fn go_live(&mut self, live: Live) {
        *self = Self::Live(Box::new(live));
    }

    /// Takes the instance out.
    pub(super) fn take_live(&mut self) -> Option<Box<Live>> {
        match std::mem::replace(self, Self::Asleep(Owed::default())) {
            Self::Live(live) => {
                let litter = live.litter || live.contents.may_have_left_pieces();
                *self = Self::Asleep(Owed { litter, ..Owed::default() });
                Some(live)
            }
            other => {
                *self = other;
                None
            }
        }
    }

    /// It cannot go on before something changes. What is live must have been taken out.
    pub(super) fn fail(&mut self, failure: Failure) {
        self.replace(|phase| match phase {
            Self::Asleep(owed) | Self::Waking(owed) | Self::Failed(owed, _) => Self::Failed(owed, failure),
            Self::Live(_) | Self::Leaving(_) => phase,
        });
    }

    /// What kept it from going on may be no more.
    pub(super) fn forgive(&mut self) {
        self.replace(|phase| if let Self::Failed(owed, _) = phase { Self::Asleep(owed) } else { phase });
    }

    /// Its task ends. Answers what was owed: nobody gets it any more.
    pub(super) fn leave(&mut self, leave: Leave) -> Option<Owed> {
        match std::mem::replace(self, Self::Leaving(leave)) {
            Self::Asleep(owed) | Self::Waking(owed) | Self::Failed(owed, _) => Some(owed),
            Self::Live(_) | Self::Leaving(_) => None,
        }
    }

    fn replace(&mut self, by: impl FnOnce(Self) -> Self) {
        let now = std::mem::replace(self, Self::Asleep(Owed::default()));
        *self = by(now);
    }
}
