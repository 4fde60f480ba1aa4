//! What is done about a session, decided out of what was read of it.

use dormouse_crds::session::KernelSessionStatus;
use dormouse_protocol::kernel::{SessionReport, StoredStatus};
use jiff::Timestamp;

use super::{
    status::{Facts, Process, status},
    urgency::{Urgency, urgency},
};
use crate::reason::PoolReason;

/// What a kernel pod could tell of what is stored of a session.
#[derive(Debug, Clone, PartialEq)]
pub enum Stored {
    /// Status knows of nothing that is stored. The session starts anew in any case, and its head tells then.
    Nothing,
    /// This.
    Told(Box<StoredStatus>),
    /// No pod has answered.
    Silent,
}

/// What is known of the process that status names. Its reports are those under the epoch of status.
#[derive(Debug, Clone, PartialEq)]
pub enum Liveness {
    /// Status names none. What is stored, if it was time to read that once more.
    Unplaced(Option<Stored>),
    /// It lives, and has told everything.
    Alive(Option<Box<SessionReport>>),
    /// It may live; the last that was heard from it.
    Unknown(Option<Box<SessionReport>>),
    /// The same, of a pod that is not ready any more either.
    Unreachable(Option<Box<SessionReport>>),
    /// It is gone for certain, had told everything, and the session sleeps by that: nobody has to read what is stored.
    Drained(Option<Box<SessionReport>>),
    /// It is gone for certain, and may have stored more than it told.
    Gone(Stored),
}

impl Liveness {
    /// The same as far as status depends on it.
    fn facts(&self) -> (Process, Option<&SessionReport>, Option<&StoredStatus>) {
        match self {
            Self::Alive(report) => (Process::Alive, report.as_deref(), None),
            Self::Unknown(report) => (Process::Unknown, report.as_deref(), None),
            Self::Unreachable(report) => (Process::Unreachable, report.as_deref(), None),
            Self::Drained(report) => (Process::None, report.as_deref(), None),
            Self::Gone(Stored::Told(stored)) | Self::Unplaced(Some(Stored::Told(stored))) => (Process::None, None, Some(stored)),
            Self::Gone(_) | Self::Unplaced(_) => (Process::None, None, None),
        }
    }
}

/// All that was read of a session.
#[derive(Debug)]
pub struct Observation<'a> {
    /// The object's generation.
    pub generation: Option<i64>,
    /// The status that the object has.
    pub previous: &'a KernelSessionStatus,
    /// What is known of the process that it names.
    pub liveness: Liveness,
    /// Why the pool cannot run the session, if it cannot.
    pub pool_trouble: Option<(PoolReason, String)>,
    /// The clock.
    pub now: Timestamp,
}

/// What becomes of the status.
#[derive(Debug, Clone, PartialEq)]
pub enum StatusUpdate {
    /// It stays: nothing new is known.
    Unknown,
    /// It stays: it says all that there is to say.
    Current,
    /// It is to be this, within the status interval.
    Later(Box<KernelSessionStatus>),
    /// It is to be this: somebody may wait for it, or act on it.
    Now(Box<KernelSessionStatus>),
    /// It is to be this before anything else happens: the process is gone and tells nothing newer.
    Last(Box<KernelSessionStatus>),
}

impl StatusUpdate {
    /// Whether there is something to write.
    fn is_news(&self) -> bool {
        !matches!(self, Self::Unknown | Self::Current)
    }
}

/// What is remembered of whether what is stored is still to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnreadUpdate {
    /// What was.
    Keep,
    /// Nothing is to be read: the session has a process, or that has told everything.
    Forget,
    /// It was read.
    Read,
    /// The placement was cleared, and a process that nobody reaches may store more.
    Cleared,
    /// The process is gone, and nobody could tell what it has stored.
    Silent,
}

/// What comes after that, and when the session is looked at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// At once: what was written is to be seen first.
    AtOnce,
    /// Soon, to ask a kernel pod again what is stored.
    AskAgain,
    /// When what is stored is read once more.
    ReadAgain,
    /// As seldom as any session.
    Resync,
    /// After strays were called back, and when something is due.
    Tend {
        /// The process may say more at any time.
        is_silent: bool,
        /// Whether the session may leave etcd, if nothing is to be read and it is time.
        may_leave: bool,
    },
}

/// What is done about a session, in this order.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// What becomes of its status.
    pub status: StatusUpdate,
    /// Whether status names no process any more. While it does, it is known that more may be stored than status says.
    pub clear_placement: bool,
    /// What is remembered.
    pub unread: UnreadUpdate,
    /// Whether its pool may need another number of pods: it has one as long as something is to be read.
    pub resize_pool: bool,
    /// What comes then.
    pub next: Next,
}

/// Decides what is done about a session.
#[must_use]
pub fn decide(observation: &Observation<'_>) -> Decision {
    let status = status_update(observation);
    let news = status.is_news();
    let tend = Next::Tend { is_silent: false, may_leave: !news };
    let (clear_placement, unread, resize_pool, next) = match &observation.liveness {
        Liveness::Gone(Stored::Silent) => (false, UnreadUpdate::Silent, true, Next::AskAgain),
        Liveness::Gone(_) | Liveness::Drained(_) if news => (false, UnreadUpdate::Keep, false, Next::AtOnce),
        Liveness::Gone(_) => (true, UnreadUpdate::Cleared, false, Next::ReadAgain),
        Liveness::Drained(_) => (true, UnreadUpdate::Forget, false, Next::Resync),
        Liveness::Unplaced(None) => (false, UnreadUpdate::Keep, false, tend),
        Liveness::Unplaced(Some(Stored::Silent)) => (false, UnreadUpdate::Keep, true, Next::AskAgain),
        Liveness::Unplaced(Some(Stored::Nothing | Stored::Told(_))) => (false, UnreadUpdate::Read, true, tend),
        Liveness::Alive(_) => (false, UnreadUpdate::Forget, false, tend),
        Liveness::Unknown(_) | Liveness::Unreachable(_) => {
            (false, UnreadUpdate::Forget, false, Next::Tend { is_silent: true, may_leave: false })
        }
    };
    Decision { status, clear_placement, unread, resize_pool, next }
}

fn status_update(observation: &Observation<'_>) -> StatusUpdate {
    let Observation { generation, previous, liveness, pool_trouble, now } = observation;
    let (process, report, stored) = liveness.facts();
    let pool_trouble = pool_trouble.as_ref().map(|(reason, message)| (*reason, message.as_str()));
    let facts = Facts { generation: *generation, previous, process, report, stored, pool_trouble, now: *now };
    let Some(new) = status(&facts).map(Box::new) else { return StatusUpdate::Unknown };
    match urgency(previous, &new, *generation) {
        Urgency::None => StatusUpdate::Current,
        _ if matches!(liveness, Liveness::Gone(_) | Liveness::Drained(_)) => StatusUpdate::Last(new),
        Urgency::Later => StatusUpdate::Later(new),
        Urgency::Now => StatusUpdate::Now(new),
    }
}

#[cfg(test)]
#[path = "decision_tests.rs"]
mod tests;
