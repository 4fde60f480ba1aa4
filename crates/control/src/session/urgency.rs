//! How soon a change of a session's status must be written.

use dormouse_crds::{
    condition::{HIBERNATED, READY},
    session::KernelSessionStatus,
};
use dormouse_protocol::session::State;

use crate::{
    condition::{find, is_true},
    reason::SessionReason,
};

/// How soon a change must be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// Nothing changed.
    None,
    /// The session is merely busy, or has been: within the status interval, together with what else changes by then.
    Later,
    /// Somebody may wait for it, or act on it.
    Now,
}

/// How soon `new` must replace `old`, of an object of this generation.
///
/// A session that wakes, runs and sleeps again within the interval costs no write: what status says of it is true again before it is due.
#[must_use]
pub fn urgency(old: &KernelSessionStatus, new: &KernelSessionStatus, generation: Option<i64>) -> Urgency {
    let mut new = new.clone();
    (new.placement, new.last_epoch) = (old.placement.clone(), old.last_epoch);
    new.wake_requested_time.clone_from(&old.wake_requested_time);
    if new == *old {
        return Urgency::None;
    }
    let asleep = |status: &KernelSessionStatus| is_true(&status.conditions, HIBERNATED);
    let ready = |status: &KernelSessionStatus| is_true(&status.conditions, READY);
    let reason = |status: &KernelSessionStatus| find(&status.conditions, READY).map(|ready| ready.reason.clone());
    let fails = reason(&new).is_some_and(|reason| SessionReason::state(&reason, ready(&new)) == State::Failed);
    let settles = (asleep(&new) && !asleep(old)) || (ready(&new) && !ready(old)) || (fails && reason(old) != reason(&new));
    // A sleeping session is woken by what its status says of its timers.
    let timer = old.next_wake_time != new.next_wake_time && (asleep(old) || asleep(&new));
    let first = old.conditions.is_empty() || (old.snapshot.is_none() && new.snapshot.is_some());
    // The user has changed the spec since: whoever acts on that has to know how the session is.
    let unobserved = old.observed_generation != generation || old.observed_generation != new.observed_generation;
    // Somebody looks for what waits, and for tools, by status.
    let waiting =
        |status: &KernelSessionStatus| (status.pending_approvals, status.pending_jobs, status.pending_hostcalls, status.mcp_tools);
    let urgent = settles || timer || first || unobserved || waiting(old) != waiting(&new);
    if urgent { Urgency::Now } else { Urgency::Later }
}

#[cfg(test)]
#[path = "urgency_tests.rs"]
mod tests;
