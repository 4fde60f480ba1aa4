//! What a session needs although no client asked. Pure.

use std::time::Duration;

use dormouse_crds::session::OperatingMode;
use dormouse_protocol::session::State;
use jiff::Timestamp;

use crate::{
    directory::Record,
    metrics::Source,
    state::{is_live, state_of},
};

/// An order for a kernel pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// Be live, with the spec as it is now.
    Wake(Source),
    /// Be asleep.
    Hibernate,
}

/// What a session needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Desire {
    /// Nothing until something changes.
    Nothing,
    /// Nothing before this time.
    At(Timestamp),
    /// This, now.
    Now(Order),
}

/// What `record` needs at `now`. `in_force` is the generation that its pod is known to have been given, if any is known.
#[must_use]
pub fn decide(record: &Record, in_force: Option<i64>, now: Timestamp) -> Desire {
    if record.deleting || !record.finalizer {
        return Desire::Nothing;
    }
    let status = &record.status;
    let live = is_live(status);
    if record.spec.operating_mode == OperatingMode::Hibernated {
        let loading = status.placement.is_some() && state_of(status) == State::Waking && status.snapshot.is_none();
        return if live || loading { Desire::Now(Order::Hibernate) } else { Desire::Nothing };
    }
    if live {
        let stale = in_force.is_some_and(|in_force| in_force < record.generation);
        return if stale { Desire::Now(Order::Wake(Source::Spec)) } else { Desire::Nothing };
    }
    // Also after a first start that failed, or whose process was lost before it stored anything.
    if status.snapshot.is_none() {
        return Desire::Now(Order::Wake(Source::FirstStart));
    }
    if record.spec.operating_mode == OperatingMode::Running {
        return Desire::Now(Order::Wake(Source::Mode));
    }
    match status.next_wake_time.as_deref().map(str::parse::<Timestamp>) {
        Some(Ok(due)) if due <= now => Desire::Now(Order::Wake(Source::Timer)),
        Some(Ok(due)) => Desire::At(due),
        Some(Err(_)) | None => Desire::Nothing,
    }
}

/// Least pause after an order, whatever came of it: status follows with a delay.
pub const PAUSE_MIN: Duration = Duration::from_secs(2);
/// Longest pause after an order that failed.
pub const PAUSE_MAX: Duration = Duration::from_secs(60);

/// The pause after `failures` orders in a row that failed.
#[must_use]
pub fn pause(failures: u32) -> Duration {
    PAUSE_MIN.saturating_mul(1 << failures.min(8)).min(PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use dormouse_crds::session::{KernelSessionSpec, KernelSessionStatus, Placement, SnapshotStatus};
    use dormouse_protocol::kernel::SessionReport;

    use super::*;
    use crate::{directory::Key, state::apply_report};

    fn fresh(mode: OperatingMode) -> Record {
        Record {
            key: Key::new("default", "a"),
            uid: "u".into(),
            resource_version: "1".into(),
            generation: 1,
            labels: Default::default(),
            spec: KernelSessionSpec { operating_mode: mode, ..Default::default() },
            status: KernelSessionStatus::default(),
            finalizer: true,
            deleting: false,
        }
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
        };
        apply_report(&mut record.status, &report, "t");
        record
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn a_session_starts_once_it_may_be_placed() {
        let mut record = fresh(OperatingMode::Auto);
        assert_eq!(decide(&record, None, at(0)), Desire::Now(Order::Wake(Source::FirstStart)));
        record.finalizer = false;
        assert_eq!(decide(&record, None, at(0)), Desire::Nothing);
        assert_eq!(decide(&fresh(OperatingMode::Hibernated), None, at(0)), Desire::Nothing);
    }

    #[test]
    fn the_mode_rules_over_sleep() {
        assert_eq!(decide(&ran(OperatingMode::Running, State::Hibernated, None), None, at(0)), Desire::Now(Order::Wake(Source::Mode)));
        assert_eq!(decide(&ran(OperatingMode::Running, State::Idle, None), None, at(0)), Desire::Nothing);
        assert_eq!(decide(&ran(OperatingMode::Hibernated, State::Idle, None), None, at(0)), Desire::Now(Order::Hibernate));
        assert_eq!(decide(&ran(OperatingMode::Hibernated, State::Hibernated, None), None, at(0)), Desire::Nothing);
        assert_eq!(decide(&ran(OperatingMode::Auto, State::Hibernated, None), None, at(0)), Desire::Nothing);
    }

    #[test]
    fn a_timer_wakes_when_it_is_due_and_not_before() {
        let record = ran(OperatingMode::Auto, State::Hibernated, Some("1970-01-01T00:00:10Z"));
        assert_eq!(decide(&record, None, at(9)), Desire::At(at(10)));
        assert_eq!(decide(&record, None, at(10)), Desire::Now(Order::Wake(Source::Timer)));
        assert_eq!(decide(&ran(OperatingMode::Auto, State::Idle, Some("1970-01-01T00:00:10Z")), None, at(11)), Desire::Nothing);
    }

    #[test]
    fn a_live_session_gets_its_new_spec_once() {
        let mut record = ran(OperatingMode::Auto, State::Idle, None);
        record.generation = 2;
        assert_eq!(decide(&record, Some(1), at(0)), Desire::Now(Order::Wake(Source::Spec)));
        assert_eq!(decide(&record, Some(2), at(0)), Desire::Nothing);
        assert_eq!(decide(&record, None, at(0)), Desire::Nothing);
    }

    #[test]
    fn pauses_after_failures_are_bounded() {
        assert_eq!(pause(0), PAUSE_MIN);
        assert_eq!(pause(100), PAUSE_MAX);
    }
}
