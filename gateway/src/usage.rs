//! What the sessions of a namespace have used: the sum of what its processes have stored, and of what they have not stored yet.
//!
//! Processes are asked before the stores: whatever a process stores in between stands under a number that it has told, and is left out.

use std::collections::{BTreeMap, BTreeSet};

use dormouse_lifecycle::usage::{Counts, Sheet, sum};
use dormouse_protocol::{
    ApiError, ErrorCode,
    kernel::UsageCall,
    session::session_id,
    usage::{USAGE_DAYS_MAX, UsageCounts, UsageItem, UsageReport, UsageSum},
};
use futures::{StreamExt as _, stream};
use jiff::{Timestamp, ToSpan as _, civil::Date, tz::TimeZone};

use crate::{directory::KernelPod, router::Router};

/// Pods that are asked at the same time.
const ASKED_AT_ONCE_MAX: usize = 16;
/// Pods of a pool that are asked for what is stored before it is said to be missing: those that read of any session.
const READERS_MAX: usize = 3;

/// The days from `from` to `to`, `YYYY-MM-DD` or RFC 3339; today where they are absent.
pub fn days(from: Option<&str>, to: Option<&str>, now: Timestamp) -> Result<Vec<String>, ApiError> {
    let today = now.to_zoned(TimeZone::UTC).date();
    let read = |name: &str, text: Option<&str>, absent: Date| match text {
        None => Ok(absent),
        Some(text) => text
            .parse::<Timestamp>()
            .map(|time| time.to_zoned(TimeZone::UTC).date())
            .or_else(|_| text.parse::<Date>())
            .map_err(|_| refused(format!("{name}: write a day such as 2026-01-31, or a time as RFC 3339 has it"))),
    };
    let to_day = read("to", to, today)?;
    let from_day = read("from", from, today.min(to_day))?;
    if from_day > to_day {
        return Err(refused("from is later than to: exchange them".to_owned()));
    }
    let days: Vec<String> =
        from_day.series(1.day()).take_while(|day| *day <= to_day).take(USAGE_DAYS_MAX + 1).map(|day| day.to_string()).collect();
    if days.len() > USAGE_DAYS_MAX {
        return Err(refused(format!("these are more than {USAGE_DAYS_MAX} days: ask for fewer at a time")));
    }
    Ok(days)
}

fn refused(message: String) -> ApiError {
    ApiError::new(ErrorCode::InvalidRequest, message)
}

/// What the sessions of a namespace have used, by day.
pub struct Used {
    /// By day.
    pub days: BTreeMap<String, Sheet>,
    /// By pod's uid, bytes of its live heaps; `None`: it does not answer.
    pub heaps: BTreeMap<String, Option<u64>>,
    /// Why this may not be all.
    pub missing: Vec<String>,
}

/// Asks every process of a namespace, then their stores.
pub async fn used(router: &Router, namespace: &str, days: Vec<String>) -> Used {
    let pools = router.directory().pools(namespace);
    let call = UsageCall { namespace: namespace.to_owned(), days };
    let mut used = Used { days: BTreeMap::new(), heaps: BTreeMap::new(), missing: Vec::new() };
    let pools: Vec<(String, Vec<KernelPod>)> =
        pools.into_iter().map(|pool| (pool.clone(), router.directory().pods(namespace, &pool))).collect();
    // In `dev` one pod is every pool's. One that runs no session has used nothing.
    let mut asked = BTreeSet::new();
    let running = pools.iter().flat_map(|(_, pods)| pods).filter(|pod| pod.role.runs());
    let pods: Vec<KernelPod> = running.filter(|pod| asked.insert(pod.uid.clone())).cloned().collect();
    let call = &call;
    let told: Vec<_> = stream::iter(pods)
        .map(|pod| async move { (router.kernels().live_usage(&pod, call).await, pod) })
        .buffer_unordered(ASKED_AT_ONCE_MAX)
        .collect()
        .await;
    let mut numbers = BTreeMap::new();
    for (told, pod) in told {
        used.heaps.insert(pod.uid, told.as_ref().ok().map(|told| told.heap_bytes));
        match told {
            Ok(told) => {
                numbers.insert(told.boot, told.number);
                for (day, sheet) in told.days {
                    used.days.entry(day).or_default().merge(&sheet);
                }
            }
            Err(error) => used.missing.push(format!("kernel pod {} does not tell what it has not stored yet: {error}", pod.pod)),
        }
    }
    let mut seen = BTreeSet::new();
    for (pool, pods) in pools {
        match stored(router, &pods, call).await {
            Ok(days) => {
                for (day, mut sheets) in days {
                    // Pools may share a store.
                    sheets.retain(|name, _| seen.insert((day.clone(), name.clone())) && !is_told(name, &numbers));
                    used.days.entry(day).or_default().merge(&sum(&sheets));
                }
            }
            Err(why) => used.missing.push(format!("pool {pool}: {why}")),
        }
    }
    used
}

/// Whether a stored sheet's process has told what is on it.
fn is_told(name: &str, numbers: &BTreeMap<String, u64>) -> bool {
    let Some((boot, number)) = name.rsplit_once('-') else { return false };
    numbers.get(boot).is_some_and(|told| number.parse::<u64>().is_ok_and(|number| number >= *told))
}

async fn stored(router: &Router, pods: &[KernelPod], call: &UsageCall) -> Result<BTreeMap<String, BTreeMap<String, Sheet>>, String> {
    let advice = if pods.iter().any(|pod| pod.ready) { "see why its reader is not ready" } else { "wake one of its sessions" };
    let mut why = format!("it has no kernel pod that could read what is stored: {advice}");
    for pod in pods.iter().filter(|pod| pod.ready && pod.role.reads()).take(READERS_MAX) {
        match router.kernels().stored_usage(pod, call).await {
            Ok(told) => return Ok(told.days),
            Err(error) => why = error.to_string(),
        }
    }
    Err(why)
}

/// The same as the API answers it.
pub async fn report(router: &Router, namespace: &str, from: Option<&str>, to: Option<&str>) -> Result<UsageReport, ApiError> {
    let days = days(from, to, router.clock().now())?;
    let (first, last) = (days.first().cloned().unwrap_or_default(), days.last().cloned().unwrap_or_default());
    let used = used(router, namespace, days).await;
    let mut report = UsageReport { from: first, to: last, missing: used.missing, ..UsageReport::default() };
    let mut stored_bytes: BTreeMap<&String, u64> = BTreeMap::new();
    let mut total = Counts::default();
    for (day, sheet) in &used.days {
        for (uid, seen) in &sheet.sessions {
            let counts = seen.total();
            total.add(&counts);
            report.total.wakes += seen.wakes;
            report.total.heap_byte_seconds = report.total.heap_byte_seconds.saturating_add(seen.heap_byte_seconds);
            let most = stored_bytes.entry(uid).or_default();
            *most = (*most).max(seen.stored_bytes);
            report.items.push(UsageItem {
                day: day.clone(),
                session: seen.name.clone(),
                id: session_id(uid),
                sum: UsageSum {
                    counts: shown(&counts),
                    wakes: seen.wakes,
                    heap_byte_seconds: seen.heap_byte_seconds,
                    stored_bytes: seen.stored_bytes,
                },
                keys: seen.keys.iter().filter(|(key, _)| !key.is_empty()).map(|(key, counts)| (key.clone(), shown(counts))).collect(),
            });
        }
    }
    report.items.sort_by(|one, other| (&one.day, &one.session, &one.id).cmp(&(&other.day, &other.session, &other.id)));
    report.total.counts = shown(&total);
    report.total.stored_bytes = stored_bytes.into_values().fold(0, u64::saturating_add);
    Ok(report)
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds with three digits after the point, for people")]
fn shown(counts: &Counts) -> UsageCounts {
    UsageCounts {
        evals: counts.evals,
        cpu_ms: counts.cpu_us as f64 / 1000.0,
        tool_calls: counts.tool_calls,
        egress_bytes: counts.egress_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_with_both_ends() {
        let now: Timestamp = "2026-03-01T10:00:00Z".parse().unwrap();
        assert_eq!(days(None, None, now).unwrap(), ["2026-03-01"]);
        assert_eq!(days(Some("2026-02-27T23:00:00Z"), None, now).unwrap(), ["2026-02-27", "2026-02-28", "2026-03-01"]);
        for (from, to) in [(Some("2026-03-02"), None), (Some("x"), None), (Some("2025-01-01"), None)] {
            assert_eq!(days(from, to, now).unwrap_err().code, ErrorCode::InvalidRequest, "{from:?} {to:?}");
        }
    }

    #[test]
    fn a_sheet_counts_unless_its_process_has_told_it() {
        let numbers = BTreeMap::from([("4f-1".to_owned(), 3)]);
        assert!(is_told("4f-1-00000003", &numbers) && is_told("4f-1-00000010", &numbers));
        assert!(!is_told("4f-1-00000002", &numbers) && !is_told("other-00000009", &numbers) && !is_told("4f-1.sum-00000003", &numbers));
    }
}
