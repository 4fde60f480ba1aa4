//! What the KernelQuotas of a namespace leave to use.
//!
//! Sessions and stored bytes are counted from the directory, the rest from what the processes tell (`usage`), which is looked at again after a moment, and
//! before each cell once nine tenths are used: then a limit is overrun by cells that run at the same time, and by no other. Cells of a second, and what is
//! being made, are counted by one gateway for all ([`crate::tally`]).

use std::{sync::Arc, time::Duration};

use dormouse_control::session::is_live;
use dormouse_crds::quota::KernelQuotaSpec;
use dormouse_lifecycle::usage::Counts;
use dormouse_protocol::{ApiError, ErrorCode};
use jiff::tz::TimeZone;
use tokio::time::Instant;

use crate::{
    directory::Key,
    quotas::{Measured, NamespaceUse, sessions},
    router::Router,
    tally::Making,
    usage,
};

/// How long what was measured counts.
const MEASURED_FOR: Duration = Duration::from_secs(2);

/// The part of a limit from which on nothing that was measured before is believed.
const NEAR_TENTHS: u64 = 9;

/// Milliseconds and microseconds of other units.
const MICROS_PER_SECOND: u64 = 1_000_000;
const MS_PER_HOUR: i64 = 60 * 60 * 1000;

/// Whether this session may be made. It counts while the answer is kept: until the directory has it, or it is not made.
pub(crate) async fn admit_session(router: &Router, key: &Key) -> Result<Making, ApiError> {
    let Some(limit) = router.directory().limits(&key.namespace).sessions else { return Ok(Making::Unlimited) };
    let made = router.tally().make(key, limit, router.quotas(), &**router.directory(), router.clock()).await;
    made.map_err(|used| exceeded("sessions", used, limit, "delete sessions that nobody needs", None))
}

/// Whether a cell may begin.
pub(crate) async fn admit_cell(router: &Router, namespace: &str) -> Result<(), ApiError> {
    let limits = router.directory().limits(namespace);
    if limits == KernelQuotaSpec::default() {
        return Ok(());
    }
    let known = router.quotas().of(namespace);
    if let Some(limit) = limits.evals_per_second
        && !router.tally().begin_cell(namespace, limit, router.quotas(), router.clock()).await
    {
        return Err(exceeded("evalsPerSecond", limit, limit, "send fewer cells a second", Some(1)).again());
    }
    let used = measure(&known, router, namespace, &limits).await;
    judge(&limits, &used, router.clock().now_ms())
}

/// Whether a session may be used that has to be woken for it, as far as its status says.
pub(crate) async fn admit_wake(router: &Router, key: &Key) -> Result<(), ApiError> {
    let namespace = key.namespace.as_str();
    let limits = router.directory().limits(namespace);
    let Some(limit) = limits.live_heap_bytes else { return Ok(()) };
    if is_live(&router.find(key).await?.status) {
        return Ok(());
    }
    let used = measure(&router.quotas().of(namespace), router, namespace, &limits).await.live_heap_bytes.unwrap_or(0);
    if used < limit {
        return Ok(());
    }
    Err(exceeded("liveHeapBytes", used, limit, "wait until sessions sleep, or put some to sleep", Some(5)).again())
}

/// What of `used` is not below its limit.
fn judge(limits: &KernelQuotaSpec, used: &KernelQuotaSpec, now_ms: i64) -> Result<(), ApiError> {
    let over = |used: Option<u64>, limit: Option<u64>| used.zip(limit).filter(|(used, limit)| used >= limit);
    if let Some((used, limit)) = over(used.stored_bytes, limits.stored_bytes) {
        return Err(exceeded("storedBytes", used, limit, "delete sessions, files or checkpoints that nobody needs", None));
    }
    if let Some((used, limit)) = over(used.cpu_seconds_per_hour, limits.cpu_seconds_per_hour) {
        let left_seconds = (MS_PER_HOUR - now_ms.rem_euclid(MS_PER_HOUR)).div_euclid(1000).max(1);
        return Err(exceeded("cpuSecondsPerHour", used, limit, "send it in the next hour", u64::try_from(left_seconds).ok()));
    }
    if let Some((used, limit)) = over(used.egress_bytes_per_day, limits.egress_bytes_per_day) {
        return Err(exceeded("egressBytesPerDay", used, limit, "send it on the next day, in UTC", None));
    }
    Ok(())
}

fn exceeded(what: &str, used: u64, limit: u64, advice: &str, after_seconds: Option<u64>) -> ApiError {
    let message = format!("the namespace's KernelQuota allows {limit} of {what}, and {used} are used: {advice}, or raise the quota");
    let error = ApiError::new(ErrorCode::QuotaExceeded, message);
    let error = error.with_detail("resource", what).with_detail("used", used).with_detail("limit", limit);
    match after_seconds {
        Some(seconds) => error.with_detail("retryAfterSeconds", seconds),
        None => error,
    }
}

/// Whether so much is used that the next cell may reach a limit.
fn is_near(limits: &KernelQuotaSpec, used: &KernelQuotaSpec) -> bool {
    let near = |used: Option<u64>, limit: Option<u64>| {
        used.zip(limit).is_some_and(|(used, limit)| used.saturating_mul(10) >= limit.saturating_mul(NEAR_TENTHS))
    };
    near(used.live_heap_bytes, limits.live_heap_bytes)
        || near(used.stored_bytes, limits.stored_bytes)
        || near(used.cpu_seconds_per_hour, limits.cpu_seconds_per_hour)
        || near(used.egress_bytes_per_day, limits.egress_bytes_per_day)
}

/// What is used, as far as it is limited, looked at now or a moment ago.
async fn measure(known: &NamespaceUse, router: &Router, namespace: &str, limits: &KernelQuotaSpec) -> KernelQuotaSpec {
    let asked = Instant::now();
    let mut measured = known.measured.lock().await;
    if let Some(Measured { since, used }) = *measured
        && (since >= asked || (since.elapsed() < MEASURED_FOR && !is_near(limits, &used)))
    {
        return used;
    }
    let since = Instant::now();
    let now = router.clock().now();
    let mut used = KernelQuotaSpec { sessions: Some(sessions(&**router.directory(), namespace)), ..KernelQuotaSpec::default() };
    let records = router.directory().list(Some(namespace));
    let stored = records.iter().filter_map(|record| record.status.snapshot.as_ref()).map(|snapshot| snapshot.bytes);
    used.stored_bytes = Some(stored.fold(0, u64::saturating_add));
    if limits.live_heap_bytes.is_some() || limits.cpu_seconds_per_hour.is_some() || limits.egress_bytes_per_day.is_some() {
        let today = now.to_zoned(TimeZone::UTC).date().to_string();
        let told = usage::used(router, namespace, vec![today]).await;
        for why in &told.missing {
            tracing::debug!(namespace, why, "a quota is judged without all that was used");
        }
        let hour = Counts::hour_of(now.as_millisecond());
        let (mut cpu_us, mut egress_bytes) = (0u64, 0u64);
        for counts in told.days.values().flat_map(|sheet| sheet.sessions.values()).flat_map(|seen| seen.keys.values()) {
            cpu_us = cpu_us.saturating_add(counts.cpu_us_in(hour));
            egress_bytes = egress_bytes.saturating_add(counts.egress_bytes);
        }
        used.live_heap_bytes = Some(told.heap_bytes);
        used.cpu_seconds_per_hour = Some(cpu_us / MICROS_PER_SECOND);
        used.egress_bytes_per_day = Some(egress_bytes);
    }
    *measured = Some(Measured { since, used });
    let over = judge(limits, &used, now.as_millisecond()).err().map(|error| error.message);
    let (directory, namespace) = (Arc::clone(router.directory()), namespace.to_owned());
    tokio::spawn(async move {
        if let Err(error) = directory.tell_used(&namespace, used, over).await {
            tracing::debug!(namespace, %error, "what is used of a quota is not told");
        }
    });
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_near_a_limit_is_looked_at_anew() {
        let limits = KernelQuotaSpec { cpu_seconds_per_hour: Some(10), ..KernelQuotaSpec::default() };
        let used = |cpu| KernelQuotaSpec { cpu_seconds_per_hour: Some(cpu), stored_bytes: Some(u64::MAX), ..KernelQuotaSpec::default() };
        assert_eq!([8, 9, 10].map(|cpu| is_near(&limits, &used(cpu))), [false, true, true]);
    }

    #[test]
    fn a_limit_that_is_reached_is_named_with_what_is_used() {
        let limits = KernelQuotaSpec { cpu_seconds_per_hour: Some(10), stored_bytes: Some(5), ..KernelQuotaSpec::default() };
        let used =
            |cpu, stored| KernelQuotaSpec { cpu_seconds_per_hour: Some(cpu), stored_bytes: Some(stored), ..KernelQuotaSpec::default() };
        assert!(judge(&limits, &used(9, 4), 0).is_ok());
        let error = judge(&limits, &used(10, 4), MS_PER_HOUR - 2_000).unwrap_err();
        let details = error.details.unwrap();
        assert_eq!(
            (error.code, &details["resource"], &details["retryAfterSeconds"]),
            (ErrorCode::QuotaExceeded, &"cpuSecondsPerHour".into(), &2.into())
        );
        assert_eq!(judge(&limits, &used(0, 5), 0).unwrap_err().details.unwrap()["used"], 5);
    }
}
