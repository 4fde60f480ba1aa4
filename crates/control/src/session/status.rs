//! A session's status out of what is known, and what it says.

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
    condition::{ConditionUpdate, condition, find, is_true},
    reason::{HibernatedReason, PoolReason, SessionReason},
};

/// Reasons that stay when the process is gone: the next one would meet the same.
const LASTING: [ErrorCode; 2] = [ErrorCode::SnapshotCorrupt, ErrorCode::EngineMismatch];

/// What is known of the process that status names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Process {
    /// Status names none, or one that is gone for certain.
    None,
    /// It lives and has told everything.
    Alive,
    /// It may live: nothing can be concluded from silence.
    Unknown,
    /// The same, of a pod that is not ready any more either: its node may be lost.
    Unreachable,
}

/// All that a status depends on.
#[derive(Debug)]
pub struct Facts<'a> {
    /// The object's generation.
    pub generation: Option<i64>,
    /// The status that the object has.
    pub previous: &'a KernelSessionStatus,
    /// What is known of the process that `previous` names.
    pub process: Process,
    /// That process's newest report under the epoch that `previous` names.
    pub report: Option<&'a SessionReport>,
    /// What the process has stored, read after its end.
    pub stored: Option<&'a StoredStatus>,
    /// Why the pool cannot run the session, if it cannot.
    pub pool_trouble: Option<(PoolReason, &'a str)>,
    /// The clock.
    pub now: Timestamp,
}

/// What the conditions will say; `None` is `Unknown`.
struct Verdict {
    ready: Option<bool>,
    reason: SessionReason,
    message: String,
    hibernated: Option<bool>,
}

/// The status that is written: all but `placement`, `lastEpoch` and `wakeRequestedTime`, which are the gateway's. `None`: nothing new is known.
#[must_use]
pub fn status(facts: &Facts<'_>) -> Option<KernelSessionStatus> {
    let previous = facts.previous;
    let lost = is_lost(facts);
    let silent = matches!(facts.process, Process::Unknown | Process::Unreachable) && facts.report.is_none();
    if silent && !lost && previous.conditions.len() == 2 {
        return None;
    }
    let stored = facts.stored.filter(|stored| is_news(stored, previous));
    let told = facts.report.and_then(|report| report.snapshot.as_ref()).or(stored.and_then(|stored| stored.snapshot.as_ref()));
    let snapshot = newest(told, previous.snapshot.as_ref());
    let verdict = match facts.report {
        _ if lost => unreachable(),
        Some(report) => reported(report),
        None => unreported(facts, snapshot.is_some()),
    };
    let verdict = verdict.waiting(&waits(facts));
    let generation = generation(facts, verdict.hibernated == Some(true));
    let mut status = KernelSessionStatus {
        observed_generation: generation,
        conditions: verdict.updates().map(|update| condition(update, generation, &previous.conditions, facts.now)).into(),
        snapshot,
        placement: None,
        last_epoch: None,
        wake_requested_time: None,
        ..previous.clone()
    };
    if let Some(stored) = stored {
        status.next_wake_time.clone_from(&stored.next_wake_time);
        status.last_active_time = stored.last_active_time.clone().or(status.last_active_time);
    }
    if let Some(report) = facts.report.filter(|report| has_read(report, previous)) {
        status.heap = Some(human(report.heap_bytes));
        status.last_active_time = report.last_active_time.clone().or(status.last_active_time);
        status.next_wake_time.clone_from(&report.next_wake_time);
        status.cells = Some(report.cells);
        status.tool_calls = Some(report.tool_calls);
        let some = |count: u32| (count > 0).then_some(count);
        status.pending_approvals = some(report.approvals);
        status.pending_jobs = some(report.jobs);
        status.pending_hostcalls = some(report.hostcalls);
        status.mcp_tools = some(report.mcp_tools);
    }
    Some(status)
}

/// Whether the process has read what is stored of the session. One that could not yet has nothing to say of its timers and counts.
fn has_read(report: &SessionReport, previous: &KernelSessionStatus) -> bool {
    report.snapshot.is_some() || previous.snapshot.is_none()
}

/// The status of a session that is being deleted and cannot be yet. `None`: it says so already.
#[must_use]
pub fn deletion_blocked(
    previous: &KernelSessionStatus,
    generation: Option<i64>,
    reason: SessionReason,
    message: &str,
    now: Timestamp,
) -> Option<KernelSessionStatus> {
    let hibernated = Some(is_true(&previous.conditions, HIBERNATED));
    let verdict = Verdict { ready: Some(false), reason, message: message.to_owned(), hibernated };
    let conditions = verdict.updates().map(|update| condition(update, generation, &previous.conditions, now)).into();
    let said = find(&previous.conditions, READY).map(|ready| (ready.reason.clone(), ready.message.clone()));
    let news = said != Some((reason.to_string(), message.to_owned()));
    news.then(|| KernelSessionStatus {
        conditions,
        observed_generation: generation,
        placement: None,
        last_epoch: None,
        wake_requested_time: None,
        ..previous.clone()
    })
}

/// The generation that is in force: that of a live session's process, which may be behind; else the object's, since no process has another.
fn generation(facts: &Facts<'_>, hibernated: bool) -> Option<i64> {
    match (facts.report, facts.generation) {
        (Some(report), Some(generation)) if !hibernated => Some(report.generation.min(generation)),
        (_, generation) => generation,
    }
}

impl Verdict {
    /// What a session says that sleeps as long as somebody is waited for.
    fn waiting(self, waits: &Waits) -> Self {
        let (state, message) = match (self.hibernated, waits) {
            (Some(true), Waits { person: true, .. }) => (State::WaitingForApproval, "Asleep; a cell waits for a person."),
            (Some(true), Waits { tool: true, .. }) => (State::WaitingForTool, "Asleep; a cell waits for a tool."),
            _ => return self,
        };
        Self { reason: SessionReason::State(state), message: message.to_owned(), ..self }
    }

    fn updates(&self) -> [ConditionUpdate; 2] {
        let (reason, message) = match self.hibernated {
            Some(true) => (HibernatedReason::Hibernated, "The session holds no slot; its last commit is in storage."),
            Some(false) => (HibernatedReason::Awake, "The session is not asleep."),
            None => (HibernatedReason::NotReported, "The kernel pod has not told of the session yet."),
        };
        [
            ConditionUpdate { type_: READY, status: self.ready, reason: self.reason.to_string(), message: self.message.clone() },
            ConditionUpdate { type_: HIBERNATED, status: self.hibernated, reason: reason.to_string(), message: message.to_owned() },
        ]
    }
}

fn reported(report: &SessionReport) -> Verdict {
    let failure = report.failure.as_ref();
    match report.state {
        State::Failed => Verdict {
            ready: Some(false),
            reason: SessionReason::Failed(failure.map_or(ErrorCode::Internal, |failure| failure.code)),
            message: failure.map_or_else(|| "The kernel pod gave no reason; see its log.".to_owned(), |failure| failure.message.clone()),
            hibernated: Some(false),
        },
        state => Verdict {
            ready: Some(state != State::Waking),
            reason: SessionReason::State(state),
            message: sentence(state).to_owned(),
            hibernated: Some(state == State::Hibernated),
        },
    }
}

/// Whether nobody knows what the session is doing. One that sleeps is in storage, whatever becomes of its pod.
fn is_lost(facts: &Facts<'_>) -> bool {
    let sleeps = facts.report.map_or_else(|| is_true(&facts.previous.conditions, HIBERNATED), |report| report.state == State::Hibernated);
    facts.process == Process::Unreachable && !sleeps
}

fn unreachable() -> Verdict {
    let message = "The kernel pod is not ready and does not answer, as when its node is lost: what the session is doing is not known. A request brings it \
                   back in another pod.";
    Verdict { ready: None, reason: SessionReason::PodUnreachable, message: message.to_owned(), hibernated: None }
}

/// For whom a session waits, asleep or not.
struct Waits {
    /// A person.
    person: bool,
    /// A runner or a client.
    tool: bool,
}

fn waits(facts: &Facts<'_>) -> Waits {
    let previous = facts.previous;
    let some = |count: Option<u32>| count.is_some_and(|count| count > 0);
    match facts.report {
        Some(report) => Waits { person: report.approvals > 0, tool: report.jobs > 0 || report.hostcalls > 0 },
        None => Waits { person: some(previous.pending_approvals), tool: some(previous.pending_jobs) || some(previous.pending_hostcalls) },
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
        State::Archived => "In the archive; a request brings it back.",
        State::Unknown => "The kernel pod is of a newer release, and tells of a state that this one does not know.",
    }
}

fn waking(known: Option<bool>, message: &str) -> Verdict {
    Verdict { ready: known, reason: SessionReason::State(State::Waking), message: message.to_owned(), hibernated: known }
}

fn asleep() -> Verdict {
    let state = State::Hibernated;
    Verdict { ready: Some(true), reason: SessionReason::State(state), message: sentence(state).to_owned(), hibernated: Some(true) }
}

fn unreported(facts: &Facts<'_>, has_snapshot: bool) -> Verdict {
    let before = find(&facts.previous.conditions, READY);
    let lasting = before.filter(|ready| ready.status == "False").and_then(|ready| {
        let code = LASTING.into_iter().find(|code| ready.reason == code.to_string())?;
        Some(Verdict { ready: Some(false), reason: SessionReason::Failed(code), message: ready.message.clone(), hibernated: Some(false) })
    });
    if let Some(lasting) = lasting {
        return lasting;
    }
    let slept = is_true(&facts.previous.conditions, HIBERNATED);
    match (facts.process, has_snapshot, facts.pool_trouble) {
        (Process::None, true, _) => asleep(),
        // Placed for a wake, or dropped from the pod's memory: until the pod tells more, it is in storage only.
        (_, true, _) if slept => asleep(),
        (_, _, Some((reason, message))) => {
            Verdict { ready: Some(false), reason: SessionReason::Pool(reason), message: message.to_owned(), hibernated: Some(false) }
        }
        (Process::None, false, None) => waking(Some(false), "The session has not run yet."),
        (_, _, None) => waking(None, "The kernel pod has the session but has not told of it yet."),
    }
}

/// Whether what is stored is not older than what is known to be.
fn is_news(stored: &StoredStatus, previous: &KernelSessionStatus) -> bool {
    let version = |snapshot: &SnapshotStatus| (snapshot.epoch, snapshot.sequence);
    let Some(snapshot) = &stored.snapshot else { return false };
    previous.snapshot.as_ref().is_none_or(|known| version(known) <= version(snapshot))
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

/// What the session is doing, as far as its status says.
#[must_use]
pub fn state_of(status: &KernelSessionStatus) -> State {
    let Some(ready) = find(&status.conditions, READY) else { return State::Waking };
    match SessionReason::state(&ready.reason, ready.status == "True") {
        // The reason says what it waits for.
        State::WaitingForTool | State::WaitingForApproval if is_true(&status.conditions, HIBERNATED) => State::Hibernated,
        State::Running | State::Idle | State::WaitingForTool | State::WaitingForApproval if status.placement.is_none() => State::Waking,
        state => state,
    }
}

/// Whether the session was never started: no process was named for it and nothing is stored.
#[must_use]
pub fn never_started(status: &KernelSessionStatus) -> bool {
    status.placement.is_none() && status.snapshot.is_none()
}

/// Whether a process holds the session's heap in a slot, as far as the status says.
#[must_use]
pub fn is_live(status: &KernelSessionStatus) -> bool {
    status.placement.is_some()
        && !is_true(&status.conditions, HIBERNATED)
        && matches!(state_of(status), State::Running | State::Idle | State::WaitingForTool | State::WaitingForApproval)
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
