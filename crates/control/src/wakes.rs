//! What a session needs although no client asked.

use std::time::Duration;

use dormouse_crds::session::{KernelSessionStatus, OperatingMode};
use dormouse_lifecycle::lifetime::Lifetime;
use dormouse_protocol::session::State;
use jiff::Timestamp;

use crate::{
    lifetime::{by_status, expired_at},
    session::{Record, is_live, state_of},
};

/// Why a session is woken although no client asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// It never ran.
    FirstStart,
    /// `spec.operatingMode: Running`.
    Mode,
    /// A timer that is due.
    Timer,
    /// Its spec changed.
    Spec,
}

/// An order for a kernel pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// Be live, with the spec as it is now.
    Wake(Cause),
    /// Be asleep.
    Hibernate,
    /// Be deleted, unless it was used after all.
    End,
    /// Its ToolBroker is to be told that it has expired.
    TellExpiry,
}

/// What a session needs now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Nothing until something changes.
    Nothing,
    /// Nothing before this time.
    At(Timestamp),
    /// This, now.
    Now(Order),
}

/// What `record` needs at `now`. `in_force` is the generation that its pod is known to have been given, if any is known.
#[must_use]
pub fn decide(record: &Record, in_force: Option<i64>, now: Timestamp) -> Need {
    if record.deleting || !record.finalizer {
        return Need::Nothing;
    }
    let at = |until_ms: Option<i64>| until_ms.and_then(|ms| Timestamp::from_millisecond(ms).ok());
    match by_status(record, now) {
        Lifetime::Active { until_ms } => match (active(record, in_force, now), at(until_ms)) {
            (Need::Nothing, Some(until)) => Need::At(until),
            (Need::At(time), Some(until)) => Need::At(time.min(until)),
            (need, _) => need,
        },
        // A live one goes to sleep by itself when it is so.
        Lifetime::Expired { until_ms } => at(until_ms).map_or(Need::Nothing, Need::At),
        Lifetime::Over => Need::Now(Order::End),
    }
}

/// When a session has expired of which its ToolBroker is to be told: one that sleeps. A live one goes to sleep by itself when it is so.
#[must_use]
pub fn expiry_to_tell(record: &Record, now: Timestamp) -> Option<Timestamp> {
    if is_live(&record.status) || !record.finalizer {
        return None;
    }
    expired_at(record, record.status.last_active_time.as_deref(), now)
}

/// The same of a session that has not expired.
fn active(record: &Record, in_force: Option<i64>, now: Timestamp) -> Need {
    let status = &record.status;
    let live = is_live(status);
    if record.spec.operating_mode == OperatingMode::Hibernated {
        let loading = status.placement.is_some() && state_of(status) == State::Waking && status.snapshot.is_none();
        return if live || loading { Need::Now(Order::Hibernate) } else { Need::Nothing };
    }
    if live {
        let stale = in_force.is_some_and(|in_force| in_force < record.generation);
        return if stale { Need::Now(Order::Wake(Cause::Spec)) } else { Need::Nothing };
    }
    // Also after a first start that failed, or whose process was lost before it stored anything.
    if status.snapshot.is_none() {
        return Need::Now(Order::Wake(Cause::FirstStart));
    }
    if record.spec.operating_mode == OperatingMode::Running {
        return Need::Now(Order::Wake(Cause::Mode));
    }
    match status.next_wake_time.as_deref().map(str::parse::<Timestamp>) {
        Some(Ok(due)) if due <= now => Need::Now(Order::Wake(Cause::Timer)),
        Some(Ok(due)) => Need::At(due),
        Some(Err(_)) | None => Need::Nothing,
    }
}

/// Least pause after an order, whatever came of it: status follows with a delay.
pub const PAUSE_MIN: Duration = Duration::from_secs(2);
/// Longest pause after an order that failed.
pub const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Processes in a row that had the session and ended before they stored anything of it. Whoever lays it back and dies of what it has to do next
/// leaves nothing but an epoch.
#[must_use]
pub fn fruitless(status: &KernelSessionStatus) -> u32 {
    let stored = status.snapshot.as_ref().map_or(0, |snapshot| snapshot.epoch);
    let lost = status.last_epoch.unwrap_or(0).saturating_sub(stored);
    u32::try_from(lost).unwrap_or(u32::MAX)
}

/// The pause after `failures` orders in a row that failed.
#[must_use]
pub fn pause(failures: u32) -> Duration {
    PAUSE_MIN.saturating_mul(1 << failures.min(8)).min(PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use dormouse_crds::session::{KernelSessionSpec, KernelSessionStatus, Placement, SnapshotStatus, Ttl};
    use dormouse_protocol::kernel::SessionReport;

    use super::*;
    use crate::session::fixtures::record;

    fn fresh(mode: OperatingMode) -> Record {
        Record { spec: KernelSessionSpec { operating_mode: mode, ..Default::default() }, ..record() }
    }

    fn ran(mode: OperatingMode, state: State, next_wake_time: Option<&str>) -> Record {
        let mut record = fresh(mode);
        record.status.placement = Some(Placement { pod: "p".into(), pod_uid: "pu".into(), boot: "b".into(), epoch: 1 });
        let report = SessionReport {
            namespace: "default".into(),
            name: "a".into(),
            uid: "u".into(),
            epoch: 1,
            state,
            holds_slot: state != State::Hibernated,
            failure: None,
            generation: 1,
            heap_bytes: 1,
            snapshot: Some(SnapshotStatus {
                epoch: 1,
                encrypted: false,
                sequence: 1,
                bytes: 1,
                engine_digest: "e".into(),
                time: "t".into(),
            }),
            last_active_time: None,
            next_wake_time: next_wake_time.map(str::to_owned),
            cells: 1,
            tool_calls: 0,
            approvals: 0,
            jobs: 0,
            hostcalls: 0,
            mcp_tools: 0,
        };
        record.reported(&report, at(0));
        record
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn processes_that_had_a_session_and_stored_nothing_of_it_are_counted() {
        let mut record = ran(OperatingMode::Auto, State::Hibernated, None);
        for (last_epoch, lost) in [(1, 0), (2, 1), (7, 6)] {
            record.status.last_epoch = Some(last_epoch);
            assert_eq!(fruitless(&record.status), lost);
        }
        record.status.snapshot = None;
        assert_eq!(fruitless(&record.status), 7, "of one that never stored anything, all");
        assert_eq!(fruitless(&KernelSessionStatus::default()), 0);
    }

    #[test]
    fn a_session_starts_once_it_may_be_placed() {
        let mut record = fresh(OperatingMode::Auto);
        assert_eq!(decide(&record, None, at(0)), Need::Now(Order::Wake(Cause::FirstStart)));
        record.finalizer = false;
        assert_eq!(decide(&record, None, at(0)), Need::Nothing);
        assert_eq!(decide(&fresh(OperatingMode::Hibernated), None, at(0)), Need::Nothing);
    }

    #[test]
    fn the_mode_rules_over_sleep() {
        assert_eq!(decide(&ran(OperatingMode::Running, State::Hibernated, None), None, at(0)), Need::Now(Order::Wake(Cause::Mode)));
        assert_eq!(decide(&ran(OperatingMode::Running, State::Idle, None), None, at(0)), Need::Nothing);
        assert_eq!(decide(&ran(OperatingMode::Hibernated, State::Idle, None), None, at(0)), Need::Now(Order::Hibernate));
        assert_eq!(decide(&ran(OperatingMode::Hibernated, State::Hibernated, None), None, at(0)), Need::Nothing);
        assert_eq!(decide(&ran(OperatingMode::Auto, State::Hibernated, None), None, at(0)), Need::Nothing);
    }

    #[test]
    fn a_timer_wakes_when_it_is_due_and_not_before() {
        let record = ran(OperatingMode::Auto, State::Hibernated, Some("1970-01-01T00:00:10Z"));
        assert_eq!(decide(&record, None, at(9)), Need::At(at(10)));
        assert_eq!(decide(&record, None, at(10)), Need::Now(Order::Wake(Cause::Timer)));
        assert_eq!(decide(&ran(OperatingMode::Auto, State::Idle, Some("1970-01-01T00:00:10Z")), None, at(11)), Need::Nothing);
    }

    #[test]
    fn an_unused_session_is_not_woken_once_it_has_expired_and_ends_when_it_is_retained_no_longer() {
        let mut record = ran(OperatingMode::Running, State::Hibernated, Some("1970-01-01T00:00:30Z"));
        record.created_at = "1970-01-01T00:00:00Z".into();
        record.spec.ttl = Ttl { active_seconds: 20, retained_seconds: 20 };
        assert_eq!(decide(&record, None, at(19)), Need::Now(Order::Wake(Cause::Mode)));
        assert_eq!(decide(&record, None, at(31)), Need::At(at(40)));
        assert_eq!(decide(&record, None, at(40)), Need::Now(Order::End));
        record.status.last_active_time = Some("1970-01-01T00:00:10Z".into());
        assert_eq!(decide(&record, None, at(40)), Need::At(at(50)), "what counts is its last use");
        record.spec.operating_mode = OperatingMode::Auto;
        assert_eq!(decide(&record, None, at(10)), Need::At(at(30)), "a timer, or its expiry");
    }

    #[test]
    fn who_is_told_of_an_expiry_is_told_of_one_that_sleeps_and_for_a_week() {
        let week = crate::lifetime::EXPIRY_TOLD_WITHIN.as_secs();
        let mut record = ran(OperatingMode::Auto, State::Hibernated, None);
        record.created_at = "1970-01-01T00:00:00Z".into();
        record.spec.ttl = Ttl { active_seconds: 20, retained_seconds: 0 };
        assert_eq!(expiry_to_tell(&record, at(30)), None, "it has no ToolBroker");
        record.spec.tool_broker_ref = Some(dormouse_crds::session::ToolBrokerRef::new("tools"));
        for (now, told) in [(19, None), (20, Some(at(20))), (19 + week, Some(at(20))), (20 + week, None)] {
            assert_eq!(expiry_to_tell(&record, at(now)), told, "{now}");
        }
        record.status.last_active_time = Some("1970-01-01T00:00:10Z".into());
        assert_eq!(expiry_to_tell(&record, at(29)), None, "what counts is its last use");
        assert_eq!(expiry_to_tell(&record, at(30)), Some(at(30)));
        record.deleting = true;
        assert_eq!(expiry_to_tell(&record, at(30)), None);
        let mut live = ran(OperatingMode::Auto, State::Idle, None);
        live.created_at = "1970-01-01T00:00:00Z".into();
        (live.spec.ttl, live.spec.tool_broker_ref) = (record.spec.ttl, record.spec.tool_broker_ref.clone());
        assert_eq!(expiry_to_tell(&live, at(30)), None, "it goes to sleep first");
    }

    #[test]
    fn a_live_session_gets_its_new_spec_once() {
        let mut record = ran(OperatingMode::Auto, State::Idle, None);
        record.generation = 2;
        assert_eq!(decide(&record, Some(1), at(0)), Need::Now(Order::Wake(Cause::Spec)));
        assert_eq!(decide(&record, Some(2), at(0)), Need::Nothing);
        assert_eq!(decide(&record, None, at(0)), Need::Nothing);
    }

    #[test]
    fn pauses_after_failures_are_bounded() {
        assert_eq!(pause(0), PAUSE_MIN);
        assert_eq!(pause(100), PAUSE_MAX);
    }
}
