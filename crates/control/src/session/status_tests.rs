use dormouse_crds::{condition::Condition, session::Placement};
use dormouse_protocol::ApiError;

use super::*;
use crate::session::{
    Record,
    fixtures::{self, report, snapshot},
};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn facts<'a>(previous: &'a KernelSessionStatus, process: Process, report: Option<&'a SessionReport>) -> Facts<'a> {
    Facts { generation: Some(4), previous, process, report, stored: None, pool_trouble: None, now: at(100) }
}

fn words(status: &KernelSessionStatus) -> (String, String, String) {
    let get = |type_| find(&status.conditions, type_).unwrap();
    (get(READY).status.clone(), get(READY).reason.clone(), get(HIBERNATED).status.clone())
}

fn is(status: &KernelSessionStatus, ready: &str, reason: &str, hibernated: &str) {
    assert_eq!(words(status), (ready.to_owned(), reason.to_owned(), hibernated.to_owned()));
    assert_eq!(status.conditions.len(), 2, "both conditions are always there");
    assert_eq!(status.observed_generation, Some(4));
}

#[test]
fn the_reason_of_ready_is_the_reported_state() {
    let none = KernelSessionStatus::default();
    for (state, ready, hibernated) in [
        (State::Running, "True", "False"),
        (State::Idle, "True", "False"),
        (State::WaitingForTool, "True", "False"),
        (State::WaitingForApproval, "True", "False"),
        (State::Hibernated, "True", "True"),
        (State::Waking, "False", "False"),
    ] {
        let report = report(state);
        is(&status(&facts(&none, Process::Alive, Some(&report))).unwrap(), ready, &state.to_string(), hibernated);
    }
}

#[test]
fn a_process_that_could_not_read_the_session_changes_nothing_that_is_known_of_it() {
    let due = Some("2026-01-01T01:00:00Z".to_owned());
    let known = KernelSessionStatus {
        snapshot: Some(snapshot(3)),
        next_wake_time: due.clone(),
        cells: Some(7),
        pending_jobs: Some(1),
        ..KernelSessionStatus::default()
    };
    let mut report = SessionReport { snapshot: None, cells: 0, ..report(State::Failed) };
    report.failure = Some(ApiError::new(ErrorCode::StorageUnavailable, "the store does not answer"));
    let told = status(&facts(&known, Process::Alive, Some(&report))).unwrap();
    is(&told, "False", "StorageUnavailable", "False");
    assert_eq!((told.next_wake_time, told.cells, told.pending_jobs), (due, Some(7), Some(1)));
    // One that has says that the timer is gone.
    let report = SessionReport { snapshot: Some(snapshot(4)), ..report };
    let told = status(&facts(&known, Process::Alive, Some(&report))).unwrap();
    assert_eq!((told.next_wake_time, told.cells, told.pending_jobs), (None, Some(0), None));
}

#[test]
fn a_failure_is_told_by_its_code_and_what_to_do() {
    let none = KernelSessionStatus::default();
    let mut report = report(State::Failed);
    report.failure = Some(ApiError::new(ErrorCode::StorageUnavailable, "make the bucket"));
    let status = status(&facts(&none, Process::Alive, Some(&report))).unwrap();
    is(&status, "False", "StorageUnavailable", "False");
    assert_eq!(find(&status.conditions, READY).unwrap().message, "make the bucket");
}

#[test]
fn a_session_without_a_process_sleeps_or_never_ran() {
    let mut previous = KernelSessionStatus::default();
    is(&status(&facts(&previous, Process::None, None)).unwrap(), "False", "Waking", "False");
    previous.snapshot = Some(snapshot(3));
    is(&status(&facts(&previous, Process::None, None)).unwrap(), "True", "Hibernated", "True");
    is(&status(&facts(&previous, Process::Alive, None)).unwrap(), "Unknown", "Waking", "Unknown");
}

#[test]
fn a_sleeping_session_stays_so_until_its_pod_tells_more() {
    let report = report(State::Hibernated);
    let none = KernelSessionStatus::default();
    let asleep = status(&facts(&none, Process::Alive, Some(&report))).unwrap();
    is(&status(&facts(&asleep, Process::Alive, None)).unwrap(), "True", "Hibernated", "True");
}

#[test]
fn who_sleeps_until_somebody_acts_says_for_whom_it_waits() {
    let none = KernelSessionStatus::default();
    for (approvals, jobs, reason) in
        [(1, 0, "WaitingForApproval"), (0, 1, "WaitingForTool"), (2, 2, "WaitingForApproval"), (0, 0, "Hibernated")]
    {
        let told = SessionReport { approvals, jobs, ..report(State::Hibernated) };
        let asleep = status(&facts(&none, Process::Alive, Some(&told))).unwrap();
        is(&asleep, "True", reason, "True");
        assert_eq!(state_of(&asleep), State::Hibernated, "it holds no slot, whatever it waits for");
        let gone = status(&facts(&asleep, Process::None, None)).unwrap();
        is(&gone, "True", reason, "True");
    }
}

#[test]
fn a_live_session_of_a_pod_that_is_lost_is_not_said_to_be_ready() {
    let none = KernelSessionStatus::default();
    let live = report(State::Idle);
    let first = status(&facts(&none, Process::Alive, Some(&live))).unwrap();
    for last in [None, Some(&live)] {
        let lost = status(&facts(&first, Process::Unreachable, last)).unwrap();
        is(&lost, "Unknown", "PodUnreachable", "Unknown");
        assert_eq!(state_of(&lost), State::Waking);
        is(&status(&facts(&lost, Process::Alive, Some(&live))).unwrap(), "True", "Idle", "False");
    }
    let slept = report(State::Hibernated);
    let asleep = status(&facts(&none, Process::Alive, Some(&slept))).unwrap();
    is(&status(&facts(&asleep, Process::Unreachable, Some(&slept))).unwrap(), "True", "Hibernated", "True");
    assert_eq!(status(&facts(&asleep, Process::Unreachable, None)), None);
}

#[test]
fn silence_of_a_pod_that_may_live_changes_nothing() {
    let report = report(State::Idle);
    let none = KernelSessionStatus::default();
    let first = status(&facts(&none, Process::Alive, Some(&report))).unwrap();
    assert_eq!(status(&facts(&first, Process::Unknown, None)), None);
    is(&status(&facts(&none, Process::Unknown, None)).unwrap(), "Unknown", "Waking", "Unknown");
}

#[test]
fn the_pools_trouble_is_the_sessions_unless_it_sleeps() {
    let mut previous = KernelSessionStatus::default();
    let trouble = Some((PoolReason::StorageUnsafe, "no conditional writes"));
    let unsafe_pool = status(&Facts { pool_trouble: trouble, ..facts(&previous, Process::None, None) }).unwrap();
    is(&unsafe_pool, "False", "StorageUnsafe", "False");
    assert_eq!(find(&unsafe_pool.conditions, READY).unwrap().message, "no conditional writes");
    previous.snapshot = Some(snapshot(3));
    is(&status(&Facts { pool_trouble: trouble, ..facts(&previous, Process::None, None) }).unwrap(), "True", "Hibernated", "True");
}

#[test]
fn a_corrupt_snapshot_stays_corrupt_when_its_pod_goes() {
    let mut previous = KernelSessionStatus { snapshot: Some(snapshot(3)), ..KernelSessionStatus::default() };
    previous.conditions = vec![Condition {
        type_: READY.to_owned(),
        status: "False".to_owned(),
        reason: "SnapshotCorrupt".to_owned(),
        message: "checksum".to_owned(),
        last_transition_time: "t".to_owned(),
        observed_generation: None,
    }];
    let status = status(&facts(&previous, Process::None, None)).unwrap();
    is(&status, "False", "SnapshotCorrupt", "False");
    assert_eq!(find(&status.conditions, READY).unwrap().last_transition_time, "t");
}

#[test]
fn an_older_report_does_not_take_a_snapshot_back() {
    let previous = KernelSessionStatus { snapshot: Some(snapshot(9)), ..KernelSessionStatus::default() };
    let report = report(State::Idle);
    assert_eq!(status(&facts(&previous, Process::Alive, Some(&report))).unwrap().snapshot, Some(snapshot(9)));
}

#[test]
fn what_a_later_epoch_restored_replaces_a_snapshot_of_a_higher_sequence() {
    let previous = KernelSessionStatus { snapshot: Some(snapshot(9)), ..KernelSessionStatus::default() };
    let mut report = report(State::Idle);
    let restored = SnapshotStatus { epoch: 2, ..snapshot(3) };
    report.snapshot = Some(restored.clone());
    assert_eq!(status(&facts(&previous, Process::Alive, Some(&report))).unwrap().snapshot, Some(restored));
}

#[test]
fn sizes_are_for_people() {
    for (bytes, text) in [(0, "0"), (1023, "1023"), (1024, "1.0Ki"), (1_500_000, "1.4Mi"), (3 << 30, "3.0Gi")] {
        assert_eq!(human(bytes), text);
    }
}

#[test]
fn what_a_process_stored_and_did_not_tell_is_in_status_after_its_end() {
    let previous = status(&facts(&KernelSessionStatus::default(), Process::Alive, Some(&report(State::Idle)))).unwrap();
    assert_eq!((previous.snapshot.as_ref().unwrap().sequence, &previous.next_wake_time), (7, &None));
    let due = Some("2026-01-01T01:00:00Z".to_owned());
    let stored = StoredStatus { snapshot: Some(snapshot(9)), next_wake_time: due.clone(), ..StoredStatus::default() };
    let after = status(&Facts { stored: Some(&stored), ..facts(&previous, Process::None, None) }).unwrap();
    assert_eq!((after.snapshot.as_ref().unwrap().sequence, &after.next_wake_time), (9, &due));
    is(&after, "True", "Hibernated", "True");
    // A store that went back tells nothing, and what is known to have been stored stays known.
    let old = StoredStatus { snapshot: Some(snapshot(8)), ..StoredStatus::default() };
    let kept = status(&Facts { stored: Some(&old), ..facts(&after, Process::None, None) }).unwrap();
    assert_eq!(kept.snapshot.unwrap().sequence, 9);
    let damaged = StoredStatus { damage: Some("rolled back".to_owned()), ..StoredStatus::default() };
    let kept = status(&Facts { stored: Some(&damaged), ..facts(&after, Process::None, None) }).unwrap();
    assert_eq!((kept.snapshot.unwrap().sequence, kept.next_wake_time), (9, due));
}

#[test]
fn a_live_session_shows_the_spec_that_its_process_has_and_a_sleeping_one_the_objects() {
    let none = KernelSessionStatus::default();
    let of = |state| {
        let behind = SessionReport { generation: 2, ..report(state) };
        status(&facts(&none, Process::Alive, Some(&behind))).unwrap()
    };
    assert_eq!(of(State::Idle).observed_generation, Some(2));
    assert_eq!(of(State::Hibernated).observed_generation, Some(4));
    let ahead = SessionReport { generation: 5, ..report(State::Idle) };
    assert_eq!(status(&facts(&none, Process::Alive, Some(&ahead))).unwrap().observed_generation, Some(4), "this cache is behind");
}

fn record() -> Record {
    let placement = Placement { pod: "p".to_owned(), pod_uid: "pu".to_owned(), boot: "b".to_owned(), epoch: 1 };
    let status = KernelSessionStatus { placement: Some(placement), last_epoch: Some(1), ..KernelSessionStatus::default() };
    Record { generation: 4, status, ..fixtures::record() }
}

#[test]
fn a_report_becomes_a_status_that_reads_back_as_the_same_state() {
    let mut record = record();
    assert_eq!(state_of(&record.status), State::Waking);
    for state in [State::Running, State::Idle, State::WaitingForTool, State::Hibernated] {
        record.reported(&report(state), at(1));
        assert_eq!((state_of(&record.status), is_live(&record.status)), (state, state != State::Hibernated));
        assert!(record.status.placement.is_some() && record.status.last_epoch == Some(1), "those are not the pod's to say");
    }
    record.reported(&SessionReport { failure: Some(ApiError::new(ErrorCode::OutputLimitError, "m")), ..report(State::Failed) }, at(2));
    assert_eq!((state_of(&record.status), is_live(&record.status)), (State::Failed, false));
}

#[test]
fn a_lost_session_sleeps_if_stored_and_waits_if_not() {
    let mut ran = record();
    ran.reported(&report(State::Running), at(1));
    ran.lost(None, at(2));
    assert_eq!((state_of(&ran.status), ran.status.placement), (State::Hibernated, None));
    let mut fresh = record();
    fresh.lost(Some(&StoredStatus::default()), at(2));
    assert_eq!(state_of(&fresh.status), State::Waking);
    assert!(never_started(&fresh.status));
}
