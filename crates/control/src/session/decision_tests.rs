use dormouse_protocol::session::State;

use super::*;
use crate::session::fixtures::{report, snapshot};

const AGAIN: Next = Next::Tend { is_silent: false, may_leave: false };
const AT_REST: Next = Next::Tend { is_silent: false, may_leave: true };
const UNHEARD: Next = Next::Tend { is_silent: true, may_leave: false };

fn decided(previous: &KernelSessionStatus, liveness: Liveness) -> Decision {
    decide(&Observation { generation: Some(4), previous, liveness, pool_trouble: None, now: Timestamp::UNIX_EPOCH })
}

fn reported(state: State) -> Option<Box<SessionReport>> {
    Some(Box::new(report(state)))
}

fn stored(sequence: u64) -> Stored {
    Stored::Told(Box::new(StoredStatus { snapshot: Some(snapshot(sequence)), ..StoredStatus::default() }))
}

/// The kind of an update, and what it writes.
fn written(update: StatusUpdate) -> (&'static str, Option<KernelSessionStatus>) {
    match update {
        StatusUpdate::Unknown => ("unknown", None),
        StatusUpdate::Current => ("current", None),
        StatusUpdate::Later(status) => ("later", Some(*status)),
        StatusUpdate::Now(status) => ("now", Some(*status)),
        StatusUpdate::Last(status) => ("last", Some(*status)),
    }
}

/// The status of a session whose process has told that it is so.
fn told(state: State) -> KernelSessionStatus {
    written(decided(&KernelSessionStatus::default(), Liveness::Alive(reported(state))).status).1.unwrap()
}

/// The status of a session that never ran.
fn new() -> KernelSessionStatus {
    written(decided(&KernelSessionStatus::default(), Liveness::Unplaced(None)).status).1.unwrap()
}

fn is(what: &str, decision: Decision, status: &str, placement_unread_pool: (bool, UnreadUpdate, bool), next: Next) {
    let Decision { status: update, clear_placement, unread, resize_pool, next: decided } = decision;
    assert_eq!(written(update).0, status, "{what}");
    assert_eq!((clear_placement, unread, resize_pool), placement_unread_pool, "{what}");
    assert_eq!(decided, next, "{what}");
}

#[test]
fn of_a_process_that_is_gone_status_says_all_before_the_placement_goes() {
    use UnreadUpdate::{Cleared, Forget, Keep, Silent};
    let (idle, asleep, new, none) = (told(State::Idle), told(State::Hibernated), new(), KernelSessionStatus::default());
    let drained = || Liveness::Drained(reported(State::Hibernated));
    for (what, previous, liveness, status, rest, next) in [
        ("nobody tells, and it was busy", &idle, Liveness::Gone(Stored::Silent), "last", (false, Silent, true), Next::AskAgain),
        ("nobody tells", &asleep, Liveness::Gone(Stored::Silent), "current", (false, Silent, true), Next::AskAgain),
        ("it was busy", &idle, Liveness::Gone(stored(7)), "last", (false, Keep, false), Next::AtOnce),
        ("it has stored more", &asleep, Liveness::Gone(stored(9)), "last", (false, Keep, false), Next::AtOnce),
        ("it has stored what it told", &asleep, Liveness::Gone(stored(7)), "current", (true, Cleared, false), Next::ReadAgain),
        ("it has no status", &none, Liveness::Gone(Stored::Nothing), "last", (false, Keep, false), Next::AtOnce),
        ("nothing is stored", &new, Liveness::Gone(Stored::Nothing), "current", (true, Cleared, false), Next::ReadAgain),
        ("its last word is news", &idle, drained(), "last", (false, Keep, false), Next::AtOnce),
        ("its last word is known", &asleep, drained(), "current", (true, Forget, false), Next::Resync),
        ("its last word was of others", &asleep, Liveness::Drained(None), "current", (true, Forget, false), Next::Resync),
    ] {
        is(what, decided(previous, liveness), status, rest, next);
    }
}

#[test]
fn without_a_process_what_is_stored_is_read_until_somebody_has_told_it() {
    use UnreadUpdate::{Keep, Read};
    let (idle, asleep, new) = (told(State::Idle), told(State::Hibernated), new());
    for (what, previous, read, status, rest, next) in [
        ("it rests", &asleep, None, "current", (false, Keep, false), AT_REST),
        ("it was busy", &idle, None, "now", (false, Keep, false), AGAIN),
        ("nobody tells", &asleep, Some(Stored::Silent), "current", (false, Keep, true), Next::AskAgain),
        ("nobody tells, and it was busy", &idle, Some(Stored::Silent), "now", (false, Keep, true), Next::AskAgain),
        ("no more is stored", &asleep, Some(stored(7)), "current", (false, Read, true), AT_REST),
        ("more is stored", &asleep, Some(stored(9)), "later", (false, Read, true), AGAIN),
        ("nothing is stored", &new, Some(Stored::Nothing), "current", (false, Read, true), AT_REST),
    ] {
        is(what, decided(previous, Liveness::Unplaced(read)), status, rest, next);
    }
}

#[test]
fn who_has_a_process_keeps_it_and_is_looked_at_soon_while_that_is_silent() {
    let (idle, asleep, none) = (told(State::Idle), told(State::Hibernated), KernelSessionStatus::default());
    for (what, previous, liveness, status, next) in [
        ("nothing happens", &idle, Liveness::Alive(reported(State::Idle)), "current", AT_REST),
        ("it is busy", &idle, Liveness::Alive(reported(State::Running)), "later", AGAIN),
        ("it falls asleep", &idle, Liveness::Alive(reported(State::Hibernated)), "now", AGAIN),
        ("it dropped a session that sleeps", &asleep, Liveness::Alive(None), "current", AT_REST),
        ("it says nothing", &idle, Liveness::Unknown(None), "unknown", UNHEARD),
        ("it says nothing, and nothing is known", &none, Liveness::Unknown(None), "now", UNHEARD),
        ("it said this", &idle, Liveness::Unknown(reported(State::Idle)), "current", UNHEARD),
        ("its node is lost", &idle, Liveness::Unreachable(None), "later", UNHEARD),
        ("its node is lost, and it sleeps", &asleep, Liveness::Unreachable(None), "unknown", UNHEARD),
    ] {
        is(what, decided(previous, liveness), status, (false, UnreadUpdate::Forget, false), next);
    }
}

#[test]
fn what_is_written_is_what_was_read() {
    let idle = told(State::Idle);
    let sequence = |liveness| written(decided(&idle, liveness).status).1.unwrap().snapshot.unwrap().sequence;
    assert_eq!(sequence(Liveness::Gone(stored(9))), 9);
    assert_eq!(sequence(Liveness::Unplaced(Some(stored(8)))), 8);
    let last = SessionReport { snapshot: Some(snapshot(10)), ..report(State::Hibernated) };
    assert_eq!(sequence(Liveness::Drained(Some(Box::new(last)))), 10);
    let trouble = Some((PoolReason::StorageUnsafe, "no conditional writes".to_owned()));
    let none = KernelSessionStatus::default();
    let unplaced = Liveness::Unplaced(None);
    let observation =
        Observation { generation: None, previous: &none, liveness: unplaced, pool_trouble: trouble, now: Timestamp::UNIX_EPOCH };
    let conditions = written(decide(&observation).status).1.unwrap().conditions;
    assert!(conditions.iter().any(|condition| condition.message == "no conditional writes"), "{conditions:?}");
}

#[test]
fn once_the_last_status_is_seen_the_placement_goes() {
    for state in [State::Idle, State::Running, State::WaitingForTool, State::Waking, State::Failed] {
        for liveness in [Liveness::Gone(stored(9)), Liveness::Drained(reported(State::Hibernated))] {
            let first = decided(&told(state), liveness.clone());
            assert!(!first.clear_placement, "{state} {liveness:?}");
            let (kind, status) = written(first.status);
            assert_eq!(kind, "last", "{state} {liveness:?}");
            let second = decided(&status.unwrap(), liveness.clone());
            assert!(second.clear_placement && second.status == StatusUpdate::Current, "{state} {liveness:?}");
        }
    }
}
