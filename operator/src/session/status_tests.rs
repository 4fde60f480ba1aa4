use dormouse_crds::condition::Condition;
use dormouse_protocol::ApiError;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn snapshot(sequence: u64) -> SnapshotStatus {
    SnapshotStatus { epoch: 1, encrypted: false, sequence, bytes: 10, engine_digest: "e".to_owned(), time: "t".to_owned() }
}

fn report(state: State) -> SessionReport {
    SessionReport {
        namespace: "team".to_owned(),
        name: "a".to_owned(),
        uid: "u".to_owned(),
        epoch: 1,
        state,
        failure: None,
        generation: 1,
        heap_bytes: 1_500_000,
        snapshot: Some(snapshot(7)),
        last_active_time: Some("2026-01-01T00:00:00Z".to_owned()),
        next_wake_time: None,
        cells: 3,
        tool_calls: 1,
        approvals: 0,
    }
}

fn known<'a>(previous: &'a KernelSessionStatus, placed: Placed, report: Option<&'a SessionReport>) -> Known<'a> {
    Known { generation: Some(4), previous, placed, report, stored: None, pool_trouble: None, now: at(100) }
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
        is(&status(&known(&none, Placed::Alive, Some(&report))).unwrap(), ready, &state.to_string(), hibernated);
    }
}

#[test]
fn a_failure_is_told_by_its_code_and_what_to_do() {
    let none = KernelSessionStatus::default();
    let mut report = report(State::Failed);
    report.failure = Some(ApiError::new(ErrorCode::StorageUnavailable, "make the bucket"));
    let status = status(&known(&none, Placed::Alive, Some(&report))).unwrap();
    is(&status, "False", "StorageUnavailable", "False");
    assert_eq!(find(&status.conditions, READY).unwrap().message, "make the bucket");
}

#[test]
fn a_session_without_a_process_sleeps_or_never_ran() {
    let mut previous = KernelSessionStatus::default();
    is(&status(&known(&previous, Placed::Nowhere, None)).unwrap(), "False", "Waking", "False");
    previous.snapshot = Some(snapshot(3));
    is(&status(&known(&previous, Placed::Nowhere, None)).unwrap(), "True", "Hibernated", "True");
    is(&status(&known(&previous, Placed::Alive, None)).unwrap(), "False", "Waking", "False");
}

#[test]
fn a_sleeping_session_stays_so_until_its_pod_tells_more() {
    let report = report(State::Hibernated);
    let none = KernelSessionStatus::default();
    let asleep = status(&known(&none, Placed::Alive, Some(&report))).unwrap();
    is(&status(&known(&asleep, Placed::Alive, None)).unwrap(), "True", "Hibernated", "True");
}

#[test]
fn silence_of_a_pod_that_may_live_changes_nothing() {
    let report = report(State::Idle);
    let none = KernelSessionStatus::default();
    let first = status(&known(&none, Placed::Alive, Some(&report))).unwrap();
    assert_eq!(status(&known(&first, Placed::Unknown, None)), None);
    is(&status(&known(&none, Placed::Unknown, None)).unwrap(), "False", "Waking", "False");
}

#[test]
fn the_pools_trouble_is_the_sessions_unless_it_sleeps() {
    let mut previous = KernelSessionStatus::default();
    let trouble = Some((PoolReason::StorageUnsafe, "no conditional writes"));
    let unsafe_pool = status(&Known { pool_trouble: trouble, ..known(&previous, Placed::Nowhere, None) }).unwrap();
    is(&unsafe_pool, "False", "StorageUnsafe", "False");
    assert_eq!(find(&unsafe_pool.conditions, READY).unwrap().message, "no conditional writes");
    previous.snapshot = Some(snapshot(3));
    is(&status(&Known { pool_trouble: trouble, ..known(&previous, Placed::Nowhere, None) }).unwrap(), "True", "Hibernated", "True");
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
    let status = status(&known(&previous, Placed::Nowhere, None)).unwrap();
    is(&status, "False", "SnapshotCorrupt", "False");
    assert_eq!(find(&status.conditions, READY).unwrap().last_transition_time, "t");
}

#[test]
fn an_older_report_does_not_take_a_snapshot_back() {
    let previous = KernelSessionStatus { snapshot: Some(snapshot(9)), ..KernelSessionStatus::default() };
    let report = report(State::Idle);
    assert_eq!(status(&known(&previous, Placed::Alive, Some(&report))).unwrap().snapshot, Some(snapshot(9)));
}

#[test]
fn what_a_later_epoch_restored_replaces_a_snapshot_of_a_higher_sequence() {
    let previous = KernelSessionStatus { snapshot: Some(snapshot(9)), ..KernelSessionStatus::default() };
    let mut report = report(State::Idle);
    let restored = SnapshotStatus { epoch: 2, ..snapshot(3) };
    report.snapshot = Some(restored.clone());
    assert_eq!(status(&known(&previous, Placed::Alive, Some(&report))).unwrap().snapshot, Some(restored));
}

#[test]
fn being_busy_can_wait_and_falling_asleep_cannot() {
    let none = KernelSessionStatus::default();
    let of = |state, cells| {
        let mut report = report(state);
        report.cells = cells;
        status(&known(&none, Placed::Alive, Some(&report))).unwrap()
    };
    let idle = of(State::Idle, 3);
    assert_eq!(urgency(&idle, &idle), Urgency::None);
    assert_eq!(urgency(&idle, &of(State::Running, 4)), Urgency::Later);
    assert_eq!(urgency(&idle, &of(State::Hibernated, 3)), Urgency::Now);
    assert_eq!(urgency(&idle, &of(State::Waking, 3)), Urgency::Now);
    assert_eq!(urgency(&idle, &of(State::WaitingForTool, 3)), Urgency::Now);
    let mut placed = idle.clone();
    placed.last_epoch = Some(3);
    assert_eq!(urgency(&placed, &idle), Urgency::None, "what the gateway owns does not count");
    let mut due = idle.clone();
    due.next_wake_time = Some("x".to_owned());
    assert_eq!(urgency(&idle, &due), Urgency::Now);
}

#[test]
fn sizes_are_for_people() {
    for (bytes, text) in [(0, "0"), (1023, "1023"), (1024, "1.0Ki"), (1_500_000, "1.4Mi"), (3 << 30, "3.0Gi")] {
        assert_eq!(human(bytes), text);
    }
}

#[test]
fn what_a_process_stored_and_did_not_tell_is_in_status_after_its_end() {
    let previous = status(&known(&KernelSessionStatus::default(), Placed::Alive, Some(&report(State::Idle)))).unwrap();
    assert_eq!((previous.snapshot.as_ref().unwrap().sequence, &previous.next_wake_time), (7, &None));
    let due = Some("2026-01-01T01:00:00Z".to_owned());
    let stored = StoredStatus { snapshot: Some(snapshot(9)), next_wake_time: due.clone(), damage: None };
    let after = status(&Known { stored: Some(&stored), ..known(&previous, Placed::Nowhere, None) }).unwrap();
    assert_eq!((after.snapshot.as_ref().unwrap().sequence, &after.next_wake_time), (9, &due));
    is(&after, "True", "Hibernated", "True");
    assert_eq!(urgency(&previous, &after), Urgency::Now);
    // A store that went back tells nothing, and what is known to have been stored stays known.
    let old = StoredStatus { snapshot: Some(snapshot(8)), ..StoredStatus::default() };
    let kept = status(&Known { stored: Some(&old), ..known(&after, Placed::Nowhere, None) }).unwrap();
    assert_eq!(kept.snapshot.unwrap().sequence, 9);
    let damaged = StoredStatus { damage: Some("rolled back".to_owned()), ..StoredStatus::default() };
    let kept = status(&Known { stored: Some(&damaged), ..known(&after, Placed::Nowhere, None) }).unwrap();
    assert_eq!((kept.snapshot.unwrap().sequence, kept.next_wake_time), (9, due));
}
