//! What a session is doing, read from its status; and a pod's report, written into a status.
//!
//! Pure: values in, values out.

use dormouse_crds::{
    condition::{Condition, HIBERNATED, READY},
    session::{KernelSessionStatus, SnapshotStatus},
};
use dormouse_protocol::{
    ErrorCode,
    kernel::{SessionReport, StoredStatus},
    session::{Session, State, session_id},
};

use crate::directory::Record;

fn condition<'a>(status: &'a KernelSessionStatus, type_: &str) -> Option<&'a Condition> {
    status.conditions.iter().find(|condition| condition.type_ == type_)
}

/// What the session is doing, as far as its status says.
#[must_use]
pub fn state_of(status: &KernelSessionStatus) -> State {
    let Some(ready) = condition(status, READY) else {
        return State::Waking;
    };
    let state = match ready.reason.as_str() {
        "Running" => State::Running,
        "Idle" => State::Idle,
        "WaitingForTool" => State::WaitingForTool,
        "WaitingForApproval" => State::WaitingForApproval,
        "Hibernated" => State::Hibernated,
        "Waking" => State::Waking,
        _ if ready.status == "False" => State::Failed,
        _ => State::Waking,
    };
    let placed = status.placement.is_some();
    match state {
        State::Running | State::Idle | State::WaitingForTool | State::WaitingForApproval if !placed => State::Waking,
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
        && condition(status, HIBERNATED).is_none_or(|hibernated| hibernated.status != "True")
        && matches!(state_of(status), State::Running | State::Idle | State::WaitingForTool | State::WaitingForApproval)
}

/// The session as a client sees it.
#[must_use]
pub fn view(record: &Record) -> Session {
    Session {
        name: record.key.name.clone(),
        namespace: record.key.namespace.clone(),
        id: session_id(&record.uid),
        labels: record.labels.clone(),
        spec: record.spec.clone(),
        state: match state_of(&record.status) {
            // It sleeps as long as nobody decides.
            State::Hibernated if record.status.pending_approvals.is_some_and(|waiting| waiting > 0) => State::WaitingForApproval,
            state => state,
        },
        status: record.status.clone(),
        url: format!("/v1/namespaces/{}/sessions/{}", record.key.namespace, record.key.name),
    }
}

/// The session as a client sees it right after its pod answered `report`: status in the directory may still be behind.
#[must_use]
pub fn view_with(record: &Record, report: &SessionReport, now: &str) -> Session {
    let mut record = record.clone();
    apply_report(&mut record.status, report, now);
    let mut session = view(&record);
    session.state = report.state;
    session
}

/// Writes what a pod reports into a status. Placement is not the pod's to say and stays as it is.
pub fn apply_report(status: &mut KernelSessionStatus, report: &SessionReport, now: &str) {
    let failed = report.state == State::Failed;
    let (reason, message) = match (&report.failure, report.state) {
        (Some(failure), State::Failed) => (failure.code.to_string(), failure.message.clone()),
        (None, State::Failed) => (ErrorCode::Internal.to_string(), "the kernel pod gave no reason; see its log".to_owned()),
        (_, state) => (state.to_string(), message_of(state).to_owned()),
    };
    let ready = !failed && report.state != State::Waking;
    set_condition(status, READY, ready, &reason, &message, report.generation, now);
    let hibernated = report.state == State::Hibernated;
    let (reason, message) = if hibernated {
        ("Committed", "the last commit is in storage and the slot is free")
    } else {
        ("Live", "a kernel pod holds the heap")
    };
    set_condition(status, HIBERNATED, hibernated, reason, message, report.generation, now);
    status.observed_generation = Some(report.generation);
    if report.snapshot.is_some() {
        status.snapshot.clone_from(&report.snapshot);
    }
    status.heap = Some(quantity(report.heap_bytes));
    if report.last_active_time.is_some() {
        status.last_active_time.clone_from(&report.last_active_time);
    }
    status.next_wake_time.clone_from(&report.next_wake_time);
    status.cells = Some(report.cells);
    status.tool_calls = Some(report.tool_calls);
    status.pending_approvals = (report.approvals > 0).then_some(report.approvals);
}

/// Writes what a process that is gone had stored and may not have told. What is known to have been stored stays known.
pub fn apply_stored(status: &mut KernelSessionStatus, stored: StoredStatus) {
    let Some(snapshot) = stored.snapshot else { return };
    let version = |snapshot: &SnapshotStatus| (snapshot.epoch, snapshot.sequence);
    if status.snapshot.as_ref().is_some_and(|known| version(known) > version(&snapshot)) {
        return;
    }
    status.snapshot = Some(snapshot);
    status.next_wake_time = stored.next_wake_time;
}

/// Writes what is known once the process of a session is gone: it sleeps if anything was stored, else it has yet to start.
pub fn apply_loss(status: &mut KernelSessionStatus, generation: i64, now: &str) {
    let stored = status.snapshot.is_some();
    if stored {
        set_condition(status, READY, true, "Hibernated", message_of(State::Hibernated), generation, now);
    } else {
        set_condition(status, READY, false, "Waking", message_of(State::Waking), generation, now);
    }
    let (reason, message) =
        if stored { ("Committed", "the last commit is in storage and the slot is free") } else { ("NotStarted", "nothing is stored yet") };
    set_condition(status, HIBERNATED, stored, reason, message, generation, now);
}

fn message_of(state: State) -> &'static str {
    match state {
        State::Running => "a cell is running",
        State::Idle => "live, nothing to do",
        State::WaitingForTool => "a cell waits for a tool",
        State::WaitingForApproval => "a cell waits for a person",
        State::Hibernated => "asleep; the next request wakes it",
        State::Waking => "on its way to a kernel pod",
        State::Failed => "it cannot run",
    }
}

fn set_condition(status: &mut KernelSessionStatus, type_: &str, truth: bool, reason: &str, message: &str, generation: i64, now: &str) {
    let truth = if truth { "True" } else { "False" };
    let since =
        condition(status, type_).filter(|old| old.status == truth).map_or_else(|| now.to_owned(), |old| old.last_transition_time.clone());
    let new = Condition {
        type_: type_.to_owned(),
        status: truth.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: since,
        observed_generation: Some(generation),
    };
    match status.conditions.iter_mut().find(|condition| condition.type_ == type_) {
        Some(old) => *old = new,
        None => status.conditions.push(new),
    }
}

/// Bytes as Kubernetes writes quantities, with one digit after the point.
fn quantity(bytes: u64) -> String {
    const KI: u64 = 1 << 10;
    const MI: u64 = 1 << 20;
    const GI: u64 = 1 << 30;
    let (unit, suffix) = match bytes {
        0..KI => return bytes.to_string(),
        KI..MI => (KI, "Ki"),
        MI..GI => (MI, "Mi"),
        _ => (GI, "Gi"),
    };
    format!("{}.{}{suffix}", bytes / unit, bytes % unit * 10 / unit)
}

#[cfg(test)]
mod tests {
    use dormouse_crds::session::Placement;

    use super::*;

    fn report(state: State) -> SessionReport {
        SessionReport {
            namespace: "default".into(),
            name: "a".into(),
            uid: "u".into(),
            epoch: 1,
            state,
            failure: None,
            generation: 3,
            heap_bytes: 1_468_006,
            snapshot: Some(SnapshotStatus {
                epoch: 1,
                encrypted: false,
                sequence: 4,
                bytes: 10,
                engine_digest: "e".into(),
                time: "t".into(),
            }),
            last_active_time: None,
            next_wake_time: None,
            cells: 2,
            tool_calls: 1,
            approvals: 0,
        }
    }

    fn placed() -> KernelSessionStatus {
        let placement = Placement { pod: "p".into(), pod_uid: "pu".into(), boot: "b".into(), epoch: 1 };
        KernelSessionStatus { placement: Some(placement), last_epoch: Some(1), ..Default::default() }
    }

    #[test]
    fn a_report_becomes_conditions_that_read_back_as_the_same_state() {
        let mut status = placed();
        assert_eq!(state_of(&status), State::Waking);
        for state in [State::Running, State::Idle, State::WaitingForTool, State::Hibernated] {
            apply_report(&mut status, &report(state), "2026-01-01T00:00:00Z");
            assert_eq!(state_of(&status), state);
            assert_eq!(is_live(&status), state != State::Hibernated);
            assert_eq!(status.conditions.len(), 2);
        }
        assert_eq!(status.heap.as_deref(), Some("1.3Mi"));
        assert_eq!(status.observed_generation, Some(3));
    }

    #[test]
    fn a_transition_time_moves_only_when_the_truth_does() {
        let mut status = placed();
        apply_report(&mut status, &report(State::Idle), "t1");
        apply_report(&mut status, &report(State::Hibernated), "t2");
        let time = |status: &KernelSessionStatus, type_| condition(status, type_).unwrap().last_transition_time.clone();
        assert_eq!((time(&status, READY), time(&status, HIBERNATED)), ("t1".to_owned(), "t2".to_owned()));
    }

    #[test]
    fn a_lost_session_sleeps_if_stored_and_waits_if_not() {
        let mut status = placed();
        apply_report(&mut status, &report(State::Running), "t1");
        status.placement = None;
        apply_loss(&mut status, 3, "t2");
        assert_eq!(state_of(&status), State::Hibernated);
        let mut fresh = KernelSessionStatus::default();
        apply_loss(&mut fresh, 1, "t2");
        assert_eq!(state_of(&fresh), State::Waking);
        assert!(never_started(&fresh));
    }

    #[test]
    fn what_was_stored_and_not_told_is_known_after_the_loss_and_nothing_known_is_forgotten() {
        let snapshot = report(State::Idle).snapshot.unwrap();
        let at = |sequence| Some(SnapshotStatus { sequence, ..snapshot.clone() });
        let stored = |sequence, due: &str| StoredStatus { snapshot: at(sequence), next_wake_time: Some(due.to_owned()), damage: None };
        let mut status = KernelSessionStatus::default();
        apply_stored(&mut status, StoredStatus::default());
        assert!(never_started(&status));
        apply_stored(&mut status, stored(4, "t4"));
        assert_eq!((&status.snapshot, status.next_wake_time.as_deref()), (&at(4), Some("t4")));
        apply_stored(&mut status, stored(3, "t3"));
        apply_stored(&mut status, StoredStatus { damage: Some("rolled back".into()), ..StoredStatus::default() });
        assert_eq!((status.snapshot, status.next_wake_time.as_deref()), (at(4), Some("t4")));
    }

    #[test]
    fn a_failure_shows_its_code_as_the_reason() {
        let mut status = placed();
        let mut failed = report(State::Failed);
        failed.failure = Some(dormouse_protocol::ApiError::new(ErrorCode::SnapshotCorrupt, "bytes differ"));
        apply_report(&mut status, &failed, "t1");
        assert_eq!(condition(&status, READY).unwrap().reason, "SnapshotCorrupt");
        assert_eq!(state_of(&status), State::Failed);
        assert!(!is_live(&status));
    }
}
