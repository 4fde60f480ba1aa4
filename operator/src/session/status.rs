//! A session's status out of what is known: pure.

use dormouse_crds::{
    condition::{HIBERNATED, READY},
    session::{KernelSessionStatus, SnapshotStatus},
};
use dormouse_protocol::{
    ErrorCode,
    kernel::{SessionReport, StoredStatus},
    session::State,
};
use jiff::Timestamp;

use crate::{
    conditions::{Say, condition, find},
    pool::PoolReason,
};

/// Reasons that stay when the process is gone: the next one would meet the same.
const LASTING: [ErrorCode; 2] = [ErrorCode::SnapshotCorrupt, ErrorCode::EngineMismatch];

/// What is known of the process that status names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placed {
    /// Status names none, or one that is gone for certain.
    Nowhere,
    /// It lives and its stream is open long enough to have told everything.
    Alive,
    /// It may live: nothing can be concluded from silence.
    Unknown,
}

/// All that a status depends on.
#[derive(Debug)]
pub struct Known<'a> {
    /// The object's generation.
    pub generation: Option<i64>,
    /// The status that the object has.
    pub previous: &'a KernelSessionStatus,
    /// What is known of the process that `previous` names.
    pub placed: Placed,
    /// That process's newest report under the epoch that `previous` names.
    pub report: Option<&'a SessionReport>,
    /// What the process has stored, read after its end.
    pub stored: Option<&'a StoredStatus>,
    /// Why the pool cannot run the session, if it cannot.
    pub pool_trouble: Option<(PoolReason, &'a str)>,
    /// The clock.
    pub now: Timestamp,
}

/// What the conditions will say.
struct Verdict {
    ready: bool,
    reason: String,
    message: String,
    hibernated: bool,
}

/// The status that the operator writes: all but `placement` and `lastEpoch`, which are the gateway's. `None`: nothing new is known.
#[must_use]
pub fn status(known: &Known<'_>) -> Option<KernelSessionStatus> {
    let previous = known.previous;
    if known.placed == Placed::Unknown && known.report.is_none() && previous.conditions.len() == 2 {
        return None;
    }
    let stored = known.stored.and_then(|stored| stored.snapshot.as_ref());
    let snapshot = newest(known.report.and_then(|report| report.snapshot.as_ref()).or(stored), previous.snapshot.as_ref());
    let verdict = match known.report {
        Some(report) => reported(report),
        None => unreported(known, snapshot.is_some()),
    };
    let say = |type_, status, reason: &str, message: &str| Say { type_, status, reason: reason.to_owned(), message: message.to_owned() };
    let ready = say(READY, verdict.ready, &verdict.reason, &verdict.message);
    let (word, why) = if verdict.hibernated {
        ("Hibernated", "The session holds no slot; its last commit is in storage.")
    } else {
        ("Awake", "The session is not asleep.")
    };
    let hibernated = say(HIBERNATED, verdict.hibernated, word, why);
    let mut status = KernelSessionStatus {
        observed_generation: known.generation,
        conditions: [ready, hibernated].map(|say| condition(say, known.generation, &previous.conditions, known.now)).into(),
        snapshot,
        heap: previous.heap.clone(),
        last_active_time: previous.last_active_time.clone(),
        next_wake_time: previous.next_wake_time.clone(),
        cells: previous.cells,
        tool_calls: previous.tool_calls,
        pending_approvals: previous.pending_approvals,
        placement: None,
        last_epoch: None,
    };
    if let Some(stored) = known.stored.filter(|stored| stored.snapshot.is_some()) {
        status.next_wake_time.clone_from(&stored.next_wake_time);
    }
    if let Some(report) = known.report {
        status.heap = Some(human(report.heap_bytes));
        status.last_active_time = report.last_active_time.clone().or(status.last_active_time);
        status.next_wake_time.clone_from(&report.next_wake_time);
        status.cells = Some(report.cells);
        status.tool_calls = Some(report.tool_calls);
        status.pending_approvals = (report.approvals > 0).then_some(report.approvals);
    }
    Some(status)
}

fn reported(report: &SessionReport) -> Verdict {
    let failure = report.failure.as_ref();
    match report.state {
        State::Failed => Verdict {
            ready: false,
            reason: failure.map_or(ErrorCode::Internal, |failure| failure.code).to_string(),
            message: failure.map_or_else(|| "The kernel pod gave no reason.".to_owned(), |failure| failure.message.clone()),
            hibernated: false,
        },
        State::Waking => waking("The session is on its way back."),
        state => {
            Verdict { ready: true, reason: state.to_string(), message: sentence(state).to_owned(), hibernated: state == State::Hibernated }
        }
    }
}

fn sentence(state: State) -> &'static str {
    match state {
        State::Running => "A cell is running.",
        State::Idle => "Live; nothing to do.",
        State::WaitingForTool => "A cell waits for a tool.",
        State::WaitingForApproval => "A cell waits for a person.",
        State::Hibernated => "Asleep; a request wakes it.",
        State::Waking => "The session is on its way back.",
        State::Failed => "The session cannot run.",
    }
}

fn waking(message: &str) -> Verdict {
    Verdict { ready: false, reason: State::Waking.to_string(), message: message.to_owned(), hibernated: false }
}

fn unreported(known: &Known<'_>, has_snapshot: bool) -> Verdict {
    let before = find(&known.previous.conditions, READY);
    let lasting = before.filter(|ready| ready.status == "False" && LASTING.iter().any(|code| ready.reason == code.to_string()));
    if let Some(ready) = lasting {
        return Verdict { ready: false, reason: ready.reason.clone(), message: ready.message.clone(), hibernated: false };
    }
    let slept = find(&known.previous.conditions, HIBERNATED).is_some_and(|hibernated| hibernated.status == "True");
    match (known.placed, has_snapshot) {
        (Placed::Nowhere, true) => asleep(),
        // Placed for a wake, or dropped from the pod's memory: until the pod tells more, it is in storage only.
        (_, true) if slept => asleep(),
        (_, _) if known.pool_trouble.is_some() => {
            let (reason, message) = known.pool_trouble.unwrap_or((PoolReason::PodsNotReady, ""));
            Verdict { ready: false, reason: reason.to_string(), message: message.to_owned(), hibernated: false }
        }
        (Placed::Nowhere, false) => waking("The session has not run yet."),
        (_, _) => waking("The kernel pod has the session but has not told of it yet."),
    }
}

fn asleep() -> Verdict {
    Verdict { ready: true, reason: State::Hibernated.to_string(), message: sentence(State::Hibernated).to_owned(), hibernated: true }
}

/// Of two snapshots the later one: a report that is under way may be older than what is written.
fn newest(reported: Option<&SnapshotStatus>, written: Option<&SnapshotStatus>) -> Option<SnapshotStatus> {
    match (reported, written) {
        (Some(reported), Some(written)) if (reported.epoch, reported.sequence) < (written.epoch, written.sequence) => Some(written.clone()),
        (reported, written) => reported.or(written).cloned(),
    }
}

/// Bytes as people read them.
#[must_use]
pub fn human(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];
    let Some((unit, size)) = UNITS.into_iter().find(|(_, size)| bytes >= *size) else { return bytes.to_string() };
    let tenths = bytes.saturating_mul(10) / size;
    format!("{}.{}{unit}", tenths / 10, tenths % 10)
}

/// How soon a change must be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// Nothing changed.
    None,
    /// The session is merely busy: within the status interval.
    Later,
    /// Somebody may wait for it.
    Now,
}

/// How soon `new` must replace `old`.
#[must_use]
pub fn urgency(old: &KernelSessionStatus, new: &KernelSessionStatus) -> Urgency {
    let mut same = new.clone();
    (same.placement, same.last_epoch) = (old.placement.clone(), old.last_epoch);
    if same == *old {
        return Urgency::None;
    }
    let word = |status: &KernelSessionStatus, type_| {
        find(&status.conditions, type_).map(|c| (c.status.clone(), if c.status == "True" { String::new() } else { c.reason.clone() }))
    };
    let said = |type_| word(old, type_) != word(new, type_);
    let first_snapshot = old.snapshot.is_none() && new.snapshot.is_some();
    let waits = |status: &KernelSessionStatus| {
        let reason = find(&status.conditions, READY).map(|c| c.reason.clone()).unwrap_or_default();
        reason.starts_with("WaitingFor")
    };
    let urgent = said(READY)
        || said(HIBERNATED)
        || first_snapshot
        || waits(old) != waits(new)
        || old.next_wake_time != new.next_wake_time
        || old.observed_generation != new.observed_generation;
    if urgent { Urgency::Now } else { Urgency::Later }
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
