use dormouse_lifecycle::usage::Keys;

use super::*;

/// What is allowed or used: so much of each that is named.
fn amounts(named: &[(Limit, u64)]) -> KernelQuotaSpec {
    let mut amounts = KernelQuotaSpec::default();
    for (limit, amount) in named {
        let amount = Some(*amount);
        match limit {
            Limit::Sessions => amounts.sessions = amount,
            Limit::LiveHeapBytes => amounts.live_heap_bytes = amount,
            Limit::StoredBytes => amounts.stored_bytes = amount,
            Limit::EvalsPerSecond => amounts.evals_per_second = amount,
            Limit::CpuSecondsPerHour => amounts.cpu_seconds_per_hour = amount,
            Limit::EgressBytesPerDay => amounts.egress_bytes_per_day = amount,
        }
    }
    amounts
}

fn at(time: &str) -> Timestamp {
    time.parse().unwrap()
}

fn written(update: StatusUpdate) -> KernelQuotaStatus {
    match update {
        StatusUpdate::Write(status) => *status,
        other => panic!("nothing is written: {other:?}"),
    }
}

#[test]
fn each_limit_is_named_as_the_spec_has_it_and_is_reached_when_as_much_is_used() {
    let (limits, now) = (amounts(&Limit::ALL.map(|limit| (limit, 10))), at("2030-01-01T00:00:00Z"));
    let names: serde_json::Map<String, serde_json::Value> = serde_json::from_value(serde_json::to_value(limits).unwrap()).unwrap();
    for limit in Limit::ALL {
        assert!(names.contains_key(limit.name()), "{limit:?}");
        let judged = [9, 10, 11].map(|used| limit.reached(&limits, &amounts(&[(limit, used)])).is_some());
        assert_eq!(judged, [false, true, true], "{limit:?}");
        assert_eq!(limit.reached(&KernelQuotaSpec::default(), &amounts(&[(limit, 10)])), None, "{limit:?} is not limited");
        let status = |used| written(status(&limits, Some(1), &KernelQuotaStatus::default(), amounts(&[(limit, used)]), now));
        let told = [9, 10].map(|used| status(used).conditions[0].status.clone());
        assert_eq!(told, ["False", "True"], "{limit:?}");
        assert_eq!(status(10).conditions[0].message, format!("{}: 10 of 10 are used", limit.name()));
    }
}

#[test]
fn a_cell_is_refused_by_what_was_used_before_it_and_by_nothing_else() {
    let limits = amounts(&Limit::ALL.map(|limit| (limit, 10)));
    let refusing: Vec<Limit> = Limit::ALL.into_iter().filter(|limit| refuses_cells(&limits, &amounts(&[(*limit, 10)])).is_some()).collect();
    assert_eq!(refusing, [Limit::StoredBytes, Limit::CpuSecondsPerHour, Limit::EgressBytesPerDay]);
}

#[test]
fn what_is_near_a_limit_is_looked_at_anew() {
    let limits = amounts(&[(Limit::CpuSecondsPerHour, 10), (Limit::Sessions, 10)]);
    let near = [8, 9, 10].map(|used| is_near(&limits, &amounts(&[(Limit::CpuSecondsPerHour, used), (Limit::StoredBytes, u64::MAX)])));
    assert_eq!(near, [false, true, true]);
    assert!(!is_near(&limits, &amounts(&[(Limit::Sessions, 10)])), "sessions are counted anyway");
}

#[test]
fn a_status_is_written_when_it_changes_and_at_most_once_a_minute_unless_a_limit_is_reached() {
    let limits = amounts(&[(Limit::Sessions, 2)]);
    let used = |sessions| amounts(&[(Limit::Sessions, sessions), (Limit::LiveHeapBytes, 9)]);
    let after = |seconds| Timestamp::from_second(seconds).unwrap();
    let first = written(status(&limits, Some(1), &KernelQuotaStatus::default(), used(0), after(0)));
    assert_eq!(first.used, Some(amounts(&[(Limit::Sessions, 0)])), "only what is limited");
    assert_eq!(status(&limits, Some(1), &first, used(0), after(100)), StatusUpdate::Current);
    assert_eq!(status(&limits, Some(1), &first, used(1), after(10)), StatusUpdate::After(Duration::from_secs(45)));
    assert_eq!(status(&limits, Some(1), &first, used(1), after(-10)), StatusUpdate::After(Duration::from_secs(45)), "another clock");
    let exceeded = written(status(&limits, Some(1), &first, used(2), after(10)));
    assert_eq!((exceeded.conditions[0].status.as_str(), exceeded.conditions[0].reason.as_str()), ("True", "LimitReached"));
    // That there is room again waits, so that sessions that come and go at the limit do not write at each step.
    assert_eq!(status(&limits, Some(1), &exceeded, used(1), after(20)), StatusUpdate::After(Duration::from_secs(45)));
    let within = written(status(&limits, Some(1), &exceeded, used(1), after(65)));
    assert_eq!((within.conditions[0].status.as_str(), within.conditions[0].reason.as_str()), ("False", "WithinLimits"));
    let raised = amounts(&[(Limit::Sessions, 3)]);
    assert_eq!(written(status(&raised, Some(2), &within, used(1), after(200))).observed_generation, Some(2));
}

#[test]
fn a_status_changes_its_condition_when_it_is_the_first_and_when_a_limit_is_reached_or_is_not_any_more() {
    let (limits, none) = (amounts(&[(Limit::Sessions, 3)]), KernelQuotaStatus::default());
    let told = |before: &KernelQuotaStatus, sessions, seconds| {
        let used = amounts(&[(Limit::Sessions, sessions)]);
        written(status(&limits, Some(1), before, used, Timestamp::from_second(seconds).unwrap()))
    };
    let within = told(&none, 1, 0);
    let (more, reached) = (told(&within, 2, 100), told(&within, 3, 100));
    let changes = [(&none, &within), (&within, &more), (&more, &reached), (&reached, &within), (&reached, &reached)];
    assert_eq!(changes.map(|(before, next)| changes_condition(before, next)), [true, false, true, true, false]);
}

#[test]
fn who_does_not_count_cells_leaves_what_was_told_of_them() {
    let limits = amounts(&[(Limit::EvalsPerSecond, 5), (Limit::StoredBytes, 100)]);
    let (all, stored) = (amounts(&[(Limit::EvalsPerSecond, 5), (Limit::StoredBytes, 1)]), amounts(&[(Limit::StoredBytes, 2)]));
    let first = written(status(&limits, None, &KernelQuotaStatus::default(), all, at("2030-01-01T00:00:00Z")));
    let second = written(status(&limits, None, &first, stored, at("2030-01-01T00:01:00Z")));
    assert_eq!(second.used, Some(amounts(&[(Limit::EvalsPerSecond, 5), (Limit::StoredBytes, 2)])));
    assert_eq!(second.conditions[0].last_transition_time, first.conditions[0].last_transition_time);
}

#[test]
fn what_the_clock_ends_falls_with_the_minute_the_hour_and_the_day() {
    let (limits, now) = (amounts(&Limit::ALL.map(|limit| (limit, 10))), at("2030-01-01T22:59:30Z"));
    let falls = |limit| falls_after(&limits, &amounts(&[(limit, 1)]), now).map(|rest| rest.as_secs());
    let each = Limit::ALL.map(falls);
    assert_eq!(each, [None, None, None, Some(60), Some(30), Some(3_630)]);
    assert_eq!(falls_after(&limits, &amounts(&[(Limit::CpuSecondsPerHour, 0)]), now), None, "nothing is used");
    let stored_only = amounts(&[(Limit::StoredBytes, 10)]);
    assert_eq!(falls_after(&stored_only, &amounts(&[(Limit::CpuSecondsPerHour, 1)]), now), None, "it is not limited");
    assert_eq!(rest_of_hour(now), Duration::from_secs(30));
}

#[test]
fn what_cannot_be_asked_counts_as_it_was_told_last() {
    let (noon, later) = (at("2030-01-01T12:00:00Z"), at("2030-01-01T13:00:00Z"));
    let sheet = |cells: &[(&str, u64)]| {
        let mut sheet = Sheet::default();
        for (uid, seconds) in cells {
            let cpu_us = seconds * MICROS_PER_SECOND;
            let counts = Counts {
                cpu_us,
                hour: Counts::hour_of(noon.as_millisecond()),
                hour_cpu_us: cpu_us,
                egress_bytes: *seconds,
                ..Counts::default()
            };
            sheet.committed(uid, uid, &Keys::from([(String::new(), counts)]));
        }
        sheet
    };
    let heaps = |of: &[(&str, Option<u64>)]| of.iter().map(|(pod, bytes)| ((*pod).to_owned(), *bytes)).collect();
    let used = |told: &Told, now| {
        let used = told.used(now);
        (used.live_heap_bytes.unwrap(), used.cpu_seconds_per_hour.unwrap(), used.egress_bytes_per_day.unwrap())
    };
    let mut told = Told::default();
    told.take(&day(noon), &sheet(&[("a", 3), ("b", 4)]), heaps(&[("one", Some(10)), ("two", Some(20))]));
    assert_eq!(used(&told, noon), (30, 7, 7));
    // `two`, which had b, does not answer, and a third one has nothing to tell yet.
    told.take(&day(noon), &sheet(&[("a", 5)]), heaps(&[("one", Some(11)), ("two", None), ("three", None)]));
    assert_eq!(used(&told, noon), (31, 9, 9));
    told.take(&day(noon), &sheet(&[]), heaps(&[("one", None)]));
    assert_eq!(used(&told, noon), (11, 9, 9), "a process that is gone has no heap, and what it used was used");
    assert_eq!(used(&told, later), (11, 0, 9), "another hour");
    told.take("2030-01-02", &sheet(&[]), heaps(&[("one", None)]));
    assert_eq!(used(&told, noon), (11, 0, 0), "another day");
}
