//! What the KernelQuotas of a namespace leave to use.
//!
//! What is used, [`measure`] knows, and what of it reaches a limit, `control::quota`. Cells of a second, and what is being made, are counted by one
//! gateway for all ([`crate::tally`]). What the status of quotas says follows in [`status`], in the order that [`queue`] knows.

mod measure;
mod queue;
pub(crate) mod status;

use dormouse_control::{
    quota::{Limit, Reached, refuses_cells, rest_of_hour},
    session::is_live,
};
use dormouse_crds::quota::KernelQuotaSpec;
use dormouse_protocol::{ApiError, ErrorCode};
use jiff::Timestamp;

use crate::{directory::Key, router::Router, tally::Making};
use measure::{MEASURED_FOR, measure};

/// Whether this session may be made. It counts while the answer is kept: until the directory has it, or it is not made.
pub(crate) async fn admit_session(router: &Router, key: &Key) -> Result<Making, ApiError> {
    let Some(allowed) = router.directory().limits(&key.namespace).sessions else { return Ok(Making::Unlimited) };
    let made = router.tally().make(key, allowed, router.quotas(), &**router.directory(), router.clock()).await;
    made.map_err(|used| refused(router, Reached { limit: Limit::Sessions, used, allowed }))
}

/// Whether a cell may begin.
pub(crate) async fn admit_cell(router: &Router, namespace: &str) -> Result<(), ApiError> {
    let limits = router.directory().limits(namespace);
    if limits == KernelQuotaSpec::default() {
        return Ok(());
    }
    router.quotas().touch(namespace);
    if let Some(allowed) = limits.evals_per_second
        && !router.tally().begin_cell(namespace, allowed, router.quotas(), router.clock()).await
    {
        return Err(refused(router, Reached { limit: Limit::EvalsPerSecond, used: allowed, allowed }));
    }
    let used = measure(router, namespace, &limits, MEASURED_FOR).await;
    refuses_cells(&limits, &used).map_or(Ok(()), |reached| Err(refused(router, reached)))
}

/// Whether a session may be used that has to be woken for it, as far as its status says.
pub(crate) async fn admit_wake(router: &Router, key: &Key) -> Result<(), ApiError> {
    let namespace = key.namespace.as_str();
    let limits = router.directory().limits(namespace);
    if limits.live_heap_bytes.is_none() || is_live(&router.find(key).await?.status) {
        return Ok(());
    }
    router.quotas().touch(namespace);
    let used = measure(router, namespace, &limits, MEASURED_FOR).await;
    Limit::LiveHeapBytes.reached(&limits, &used).map_or(Ok(()), |reached| Err(refused(router, reached)))
}

/// Counts a refusal, and answers with it.
fn refused(router: &Router, reached: Reached) -> ApiError {
    router.metrics().quota_refused(reached.limit);
    refusal(reached, router.clock().now())
}

fn refusal(Reached { limit, used, allowed }: Reached, now: Timestamp) -> ApiError {
    let (advice, after_seconds) = match limit {
        Limit::Sessions => ("delete sessions that nobody needs", None),
        Limit::LiveHeapBytes => ("wait until sessions sleep, or put some to sleep", Some(5)),
        Limit::StoredBytes => ("delete sessions, files or checkpoints that nobody needs", None),
        Limit::EvalsPerSecond => ("send fewer cells a second", Some(1)),
        Limit::CpuSecondsPerHour => ("send it in the next hour", Some(rest_of_hour(now).as_secs())),
        Limit::EgressBytesPerDay => ("send it on the next day, in UTC", None),
    };
    let what = limit.name();
    let message = format!("the namespace's KernelQuota allows {allowed} of {what}, and {used} are used: {advice}, or raise the quota");
    let error = ApiError::new(ErrorCode::QuotaExceeded, message);
    let error = error.with_detail("resource", what).with_detail("used", used).with_detail("limit", allowed);
    let error = match after_seconds {
        Some(seconds) => error.with_detail("retryAfterSeconds", seconds),
        None => error,
    };
    if matches!(limit, Limit::LiveHeapBytes | Limit::EvalsPerSecond) { error.again() } else { error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_is_reached_is_named_with_what_is_used_and_when_to_come_again() {
        let now: Timestamp = "2030-01-01T12:59:58Z".parse().unwrap();
        for (limit, after_seconds, again) in [
            (Limit::Sessions, None, false),
            (Limit::LiveHeapBytes, Some(5), true),
            (Limit::StoredBytes, None, false),
            (Limit::EvalsPerSecond, Some(1), true),
            (Limit::CpuSecondsPerHour, Some(2), false),
            (Limit::EgressBytesPerDay, None, false),
        ] {
            let error = refusal(Reached { limit, used: 11, allowed: 10 }, now);
            assert_eq!((error.code, error.retryable), (ErrorCode::QuotaExceeded, again), "{limit:?}");
            let details = error.details.unwrap();
            assert_eq!((&details["resource"], &details["used"], &details["limit"]), (&limit.name().into(), &11.into(), &10.into()));
            assert_eq!(details["retryAfterSeconds"].as_u64(), after_seconds, "{limit:?}");
        }
    }
}
