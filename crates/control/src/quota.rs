//! What a KernelQuota allows: what of it is reached, what its status says, and when that changes by itself.

use std::{collections::BTreeMap, time::Duration};

use dormouse_crds::{
    condition::EXCEEDED,
    quota::{KernelQuotaSpec, KernelQuotaStatus},
};
use dormouse_lifecycle::usage::{Counts, Sheet};
use jiff::{SignedDuration, Timestamp, tz::TimeZone};

use crate::{
    condition::{ConditionUpdate, condition, find, rfc3339},
    reason::ExceededReason,
};

/// Over which time the second is looked for in which most cells began.
pub const CELLS_SECONDS: i64 = 60;
/// How long a status counts as new, unless a limit is reached meanwhile: gateways take turns in writing it.
pub const STATUS_INTERVAL: SignedDuration = SignedDuration::from_secs(55);
/// The part of a limit from which on nothing that was measured before is believed.
const NEAR_TENTHS: u64 = 9;
const MICROS_PER_SECOND: u64 = 1_000_000;
const SECONDS_PER_HOUR: i64 = 60 * 60;
const SECONDS_PER_DAY: i64 = 24 * SECONDS_PER_HOUR;

/// What a quota may limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Limit {
    /// New sessions.
    Sessions,
    /// Sessions that have to be woken.
    LiveHeapBytes,
    /// Cells and runs, by what is stored.
    StoredBytes,
    /// Cells and runs of one second.
    EvalsPerSecond,
    /// Cells and runs, by the time that code ran.
    CpuSecondsPerHour,
    /// Cells and runs, by what was sent and got.
    EgressBytesPerDay,
}

impl Limit {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Sessions, Self::LiveHeapBytes, Self::StoredBytes, Self::EvalsPerSecond, Self::CpuSecondsPerHour, Self::EgressBytesPerDay];
    /// Those that refuse a cell by what was used before it.
    const OF_CELLS: [Self; 3] = [Self::StoredBytes, Self::CpuSecondsPerHour, Self::EgressBytesPerDay];
    /// Those whose use is looked at again after a moment only.
    const MEASURED: [Self; 4] = [Self::LiveHeapBytes, Self::StoredBytes, Self::CpuSecondsPerHour, Self::EgressBytesPerDay];

    /// As the spec has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sessions => "sessions",
            Self::LiveHeapBytes => "liveHeapBytes",
            Self::StoredBytes => "storedBytes",
            Self::EvalsPerSecond => "evalsPerSecond",
            Self::CpuSecondsPerHour => "cpuSecondsPerHour",
            Self::EgressBytesPerDay => "egressBytesPerDay",
        }
    }

    /// How much of it there is in `amounts`: allowed by a spec, or used by a status.
    #[must_use]
    pub const fn of(self, amounts: &KernelQuotaSpec) -> Option<u64> {
        match self {
            Self::Sessions => amounts.sessions,
            Self::LiveHeapBytes => amounts.live_heap_bytes,
            Self::StoredBytes => amounts.stored_bytes,
            Self::EvalsPerSecond => amounts.evals_per_second,
            Self::CpuSecondsPerHour => amounts.cpu_seconds_per_hour,
            Self::EgressBytesPerDay => amounts.egress_bytes_per_day,
        }
    }

    /// This limit, if as much is used as it allows: then nothing more is let in.
    #[must_use]
    pub fn reached(self, limits: &KernelQuotaSpec, used: &KernelQuotaSpec) -> Option<Reached> {
        let (used, allowed) = self.of(used).zip(self.of(limits))?;
        (used >= allowed).then_some(Reached { limit: self, used, allowed })
    }

    fn is_near(self, limits: &KernelQuotaSpec, used: &KernelQuotaSpec) -> bool {
        let amounts = self.of(used).zip(self.of(limits));
        amounts.is_some_and(|(used, allowed)| used.saturating_mul(10) >= allowed.saturating_mul(NEAR_TENTHS))
    }
}

/// A limit of which nothing is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reached {
    /// Which one.
    pub limit: Limit,
    /// What is used.
    pub used: u64,
    /// What is allowed.
    pub allowed: u64,
}

impl std::fmt::Display for Reached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {} of {} are used", self.limit.name(), self.used, self.allowed)
    }
}

/// Why no cell may begin, if none may. Cells of the second are counted one by one, and not judged here.
#[must_use]
pub fn refuses_cells(limits: &KernelQuotaSpec, used: &KernelQuotaSpec) -> Option<Reached> {
    Limit::OF_CELLS.into_iter().find_map(|limit| limit.reached(limits, used))
}

/// Whether so much is used that the next cell may reach a limit.
#[must_use]
pub fn is_near(limits: &KernelQuotaSpec, used: &KernelQuotaSpec) -> bool {
    Limit::MEASURED.into_iter().any(|limit| limit.is_near(limits, used))
}

/// How long it takes until the hour is over in which code ran.
#[must_use]
pub fn rest_of_hour(now: Timestamp) -> Duration {
    rest(now, SECONDS_PER_HOUR)
}

/// In how long less of what is limited is used, although nothing happens that anybody could hear of.
#[must_use]
pub fn falls_after(limits: &KernelQuotaSpec, used: &KernelQuotaSpec, now: Timestamp) -> Option<Duration> {
    let used = used.only(limits);
    let falls = |limit: Limit, seconds: i64| limit.of(&used).is_some_and(|used| used > 0).then(|| rest(now, seconds));
    let cells = Limit::EvalsPerSecond.of(&used).is_some_and(|most| most > 0).then(|| Duration::from_secs(CELLS_SECONDS.unsigned_abs()));
    let clock = [falls(Limit::CpuSecondsPerHour, SECONDS_PER_HOUR), falls(Limit::EgressBytesPerDay, SECONDS_PER_DAY)];
    clock.into_iter().flatten().chain(cells).min()
}

/// The rest of the clock's hour or day, in UTC: a whole second at least.
fn rest(now: Timestamp, of_seconds: i64) -> Duration {
    Duration::from_secs((of_seconds - now.as_second().rem_euclid(of_seconds)).unsigned_abs())
}

/// What is to be done about a quota's status.
#[derive(Debug, Clone, PartialEq)]
pub enum StatusUpdate {
    /// It says what is so.
    Current,
    /// It was written a moment ago, and can be written again after so long.
    After(Duration),
    /// It is to be this.
    Write(Box<KernelQuotaStatus>),
}

/// What becomes of a quota's status when so much is used. A limit that is reached is told at once; anything else waits for [`STATUS_INTERVAL`].
/// `used` without cells of a second is of a gateway that does not count them: then what was told of them stays.
#[must_use]
pub fn status(
    limits: &KernelQuotaSpec,
    generation: Option<i64>,
    before: &KernelQuotaStatus,
    used: KernelQuotaSpec,
    now: Timestamp,
) -> StatusUpdate {
    let evals_per_second = used.evals_per_second.or(before.used.and_then(|before| before.evals_per_second));
    let used = KernelQuotaSpec { evals_per_second, ..used }.only(limits);
    let reached: Vec<String> =
        Limit::ALL.into_iter().filter_map(|limit| limit.reached(limits, &used)).map(|reached| reached.to_string()).collect();
    let exceeded = !reached.is_empty();
    let told = find(&before.conditions, EXCEEDED).map(|condition| condition.status == "True");
    let used = Some(used).filter(|used| *used != KernelQuotaSpec::default());
    if told == Some(exceeded) && before.used == used && before.observed_generation == generation {
        return StatusUpdate::Current;
    }
    let written = before.time.as_deref().and_then(|time| time.parse::<Timestamp>().ok());
    let left = written.and_then(|written| Duration::try_from(STATUS_INTERVAL - now.duration_since(written).abs()).ok());
    let is_news = told.is_none() || (exceeded && told == Some(false));
    if let Some(left) = left.filter(|left| !is_news && !left.is_zero()) {
        return StatusUpdate::After(left);
    }
    let (reason, message) = if exceeded {
        (ExceededReason::LimitReached, reached.join("; "))
    } else {
        (ExceededReason::WithinLimits, "nothing is used up".to_owned())
    };
    let update = ConditionUpdate { type_: EXCEEDED, status: Some(exceeded), reason: reason.to_string(), message };
    let conditions = vec![condition(update, generation, &before.conditions, now)];
    StatusUpdate::Write(Box::new(KernelQuotaStatus { observed_generation: generation, conditions, used, time: Some(rfc3339(now)) }))
}

/// Whether `next` says something else of [`EXCEEDED`] than the status that it replaces.
#[must_use]
pub fn changes_condition(before: &KernelQuotaStatus, next: &KernelQuotaStatus) -> bool {
    let told = |status: &KernelQuotaStatus| find(&status.conditions, EXCEEDED).map(|condition| condition.status.clone());
    told(before) != told(next)
}

/// What the processes of a namespace told of what is used. What cannot be asked now counts as it was told last.
#[derive(Debug, Default)]
pub struct Told {
    day: String,
    /// What cells have used on that day.
    sheet: Sheet,
    /// By process, bytes of its live heaps.
    heaps: BTreeMap<String, u64>,
}

impl Told {
    /// Takes in what was told of a day, and by each process that there is of its live heaps; `None`: it did not answer.
    pub fn take(&mut self, day: &str, sheet: &Sheet, heaps: BTreeMap<String, Option<u64>>) {
        if self.day != day {
            *self = Self { day: day.to_owned(), sheet: Sheet::default(), heaps: std::mem::take(&mut self.heaps) };
        }
        // What a session's cells have used on a day only grows.
        for (uid, seen) in &sheet.sessions {
            self.sheet.committed(uid, &seen.name, &seen.keys);
        }
        let before = std::mem::take(&mut self.heaps);
        for (process, bytes) in heaps {
            if let Some(bytes) = bytes.or_else(|| before.get(&process).copied()) {
                self.heaps.insert(process, bytes);
            }
        }
    }

    /// What of it quotas limit.
    #[must_use]
    pub fn used(&self, now: Timestamp) -> KernelQuotaSpec {
        let hour = Counts::hour_of(now.as_millisecond());
        let (mut cpu_us, mut egress_bytes) = (0u64, 0u64);
        for counts in self.sheet.sessions.values().flat_map(|seen| seen.keys.values()) {
            cpu_us = cpu_us.saturating_add(counts.cpu_us_in(hour));
            egress_bytes = egress_bytes.saturating_add(counts.egress_bytes);
        }
        KernelQuotaSpec {
            live_heap_bytes: Some(self.heaps.values().copied().fold(0, u64::saturating_add)),
            cpu_seconds_per_hour: Some(cpu_us / MICROS_PER_SECOND),
            egress_bytes_per_day: Some(egress_bytes),
            ..KernelQuotaSpec::default()
        }
    }
}

/// The day of a time, in UTC, as [`Told`] and usage name it.
#[must_use]
pub fn day(now: Timestamp) -> String {
    now.to_zoned(TimeZone::UTC).date().to_string()
}

#[cfg(test)]
#[path = "quota_tests.rs"]
mod tests;
