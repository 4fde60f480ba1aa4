//! What is used of a namespace's quotas.
//!
//! Sessions and stored bytes are counted from the directory, the rest from what the processes tell (`usage`), which is looked at again after a
//! moment, and before each cell once nine tenths are used: then a limit is overrun by cells that run at the same time, and by no other.

use std::time::Duration;

use dormouse_control::quota::{day, is_near};
use dormouse_crds::quota::KernelQuotaSpec;
use tokio::time::Instant;

use crate::{
    quotas::{Measured, sessions},
    router::Router,
    usage,
};

/// How long what was measured counts for a cell.
pub(super) const MEASURED_FOR: Duration = Duration::from_secs(2);

/// What is used, as far as it is limited, looked at now or, where no limit is near, `believed_for` ago. Without the cells of a second.
pub(super) async fn measure(router: &Router, namespace: &str, limits: &KernelQuotaSpec, believed_for: Duration) -> KernelQuotaSpec {
    let of_namespace = router.quotas().of(namespace);
    let asked = Instant::now();
    let mut known = of_namespace.known.lock().await;
    if let Some(Measured { since, used }) = known.measured
        && (since >= asked || (since.elapsed() < believed_for && !is_near(limits, &used)))
    {
        return used;
    }
    let since = Instant::now();
    let now = router.clock().now();
    let records = router.directory().list(Some(namespace));
    let stored = records.iter().filter_map(|record| record.status.snapshot.as_ref()).map(|snapshot| snapshot.bytes);
    let mut used = KernelQuotaSpec::default();
    if limits.live_heap_bytes.is_some() || limits.cpu_seconds_per_hour.is_some() || limits.egress_bytes_per_day.is_some() {
        let today = day(now);
        let mut told = usage::used(router, namespace, vec![today.clone()]).await;
        for why in &told.missing {
            tracing::debug!(namespace, why, "of a part of what quotas limit it counts what was known before");
        }
        known.told.take(&today, &told.days.remove(&today).unwrap_or_default(), told.heaps);
        used = known.told.used(now);
    }
    used.sessions = Some(sessions(&**router.directory(), namespace));
    used.stored_bytes = Some(stored.fold(0, u64::saturating_add));
    known.measured = Some(Measured { since, used });
    used
}
