use dormouse_protocol::{
    kernel::{SessionReport, StoredStatus},
    session::State,
};
use jiff::Timestamp;

use super::*;
use crate::session::{Facts, Process, fixtures::report, status};

fn of(report: &SessionReport) -> KernelSessionStatus {
    let (previous, now) = (KernelSessionStatus::default(), Timestamp::UNIX_EPOCH);
    let facts = Facts {
        generation: Some(4),
        previous: &previous,
        process: Process::Alive,
        report: Some(report),
        stored: None,
        pool_trouble: None,
        now,
    };
    status(&facts).unwrap()
}

fn after(old: &KernelSessionStatus, new: &KernelSessionStatus) -> Urgency {
    urgency(old, new, Some(4))
}

#[test]
fn being_busy_can_wait_and_coming_to_rest_cannot() {
    let idle = of(&report(State::Idle));
    assert_eq!(after(&idle, &idle), Urgency::None);
    for state in [State::Running, State::WaitingForTool, State::Waking] {
        assert_eq!(after(&idle, &of(&SessionReport { cells: 4, ..report(state) })), Urgency::Later, "{state}");
    }
    assert_eq!(after(&idle, &of(&report(State::Hibernated))), Urgency::Now);
    assert_eq!(after(&idle, &of(&report(State::Failed))), Urgency::Now);
    assert_eq!(after(&of(&report(State::Waking)), &idle), Urgency::Now, "somebody may wait until it is ready");
    assert_eq!(after(&idle, &of(&SessionReport { approvals: 1, ..report(State::WaitingForApproval) })), Urgency::Now);
    let mut placed = idle.clone();
    placed.last_epoch = Some(3);
    assert_eq!(after(&placed, &idle), Urgency::None, "what the gateway owns does not count");
}

#[test]
fn a_wake_in_place_is_told_of_later_or_never() {
    let asleep = of(&report(State::Hibernated));
    for state in [State::Waking, State::Running, State::Idle] {
        assert_eq!(after(&asleep, &of(&report(state))), Urgency::Later, "{state}");
    }
    let again = SessionReport { cells: 9, last_active_time: Some("2026-01-02T00:00:00Z".to_owned()), ..report(State::Hibernated) };
    assert_eq!(after(&asleep, &of(&again)), Urgency::Later);
}

#[test]
fn a_timer_of_a_sleeping_session_is_told_of_now_and_that_of_a_live_one_is_its_process_own() {
    let with = |state, due: &str| of(&SessionReport { next_wake_time: Some(due.to_owned()), ..report(state) });
    assert_eq!(after(&with(State::Idle, "a"), &with(State::Idle, "b")), Urgency::Later);
    assert_eq!(after(&with(State::Hibernated, "a"), &with(State::Hibernated, "b")), Urgency::Now);
    assert_eq!(after(&with(State::Hibernated, "a"), &of(&report(State::Running))), Urgency::Now, "it has fired");
}

#[test]
fn after_a_change_of_the_spec_status_is_true_at_once() {
    let (asleep, busy) = (of(&report(State::Hibernated)), of(&report(State::Running)));
    assert_eq!(urgency(&asleep, &busy, Some(5)), Urgency::Now);
    assert_eq!(urgency(&asleep, &asleep, Some(5)), Urgency::None);
}

#[test]
fn what_a_lost_process_had_stored_cannot_wait() {
    let (idle, now) = (of(&report(State::Idle)), Timestamp::UNIX_EPOCH);
    let snapshot = idle.snapshot.clone().map(|snapshot| dormouse_crds::session::SnapshotStatus { sequence: 9, ..snapshot });
    let stored = StoredStatus { snapshot, next_wake_time: Some("2026-01-01T01:00:00Z".to_owned()), ..StoredStatus::default() };
    let facts = Facts {
        generation: Some(4),
        previous: &idle,
        process: Process::None,
        report: None,
        stored: Some(&stored),
        pool_trouble: None,
        now,
    };
    assert_eq!(after(&idle, &status(&facts).unwrap()), Urgency::Now);
}
