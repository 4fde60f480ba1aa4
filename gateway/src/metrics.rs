//! What the gateway counts. Label values come from the enums here and from the route table.

use std::sync::Arc;

use dormouse_control::{quota::Limit, wakes::Cause};
use dormouse_service::Metrics;
use prometheus::{HistogramVec, IntCounter, IntCounterVec};

/// Who wanted a session placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// A client's request.
    Request,
    /// A session that never ran.
    FirstStart,
    /// `spec.operatingMode: Running`.
    Mode,
    /// A timer that is due.
    Timer,
    /// A spec that changed.
    Spec,
    /// `spec.ttl`.
    Expiry,
}

impl From<Cause> for Source {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::FirstStart => Self::FirstStart,
            Cause::Mode => Self::Mode,
            Cause::Timer => Self::Timer,
            Cause::Spec => Self::Spec,
        }
    }
}

impl Source {
    /// As a label.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::FirstStart => "first_start",
            Self::Mode => "mode",
            Self::Timer => "timer",
            Self::Spec => "spec",
            Self::Expiry => "expiry",
        }
    }
}

/// What came of sending a request to a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AttemptOutcome {
    /// An answer.
    Answered,
    /// An error that the client gets.
    Refused,
    /// The session is not there, or does not fit there.
    Gone,
    /// No connection, or a broken one.
    Lost,
    /// An answer that cannot be understood.
    Garbled,
}

impl AttemptOutcome {
    fn label(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Refused => "refused",
            Self::Gone => "gone",
            Self::Lost => "lost",
            Self::Garbled => "garbled",
        }
    }
}

struct Counters {
    requests: IntCounterVec,
    seconds: HistogramVec,
    placements: IntCounterVec,
    attempts: IntCounterVec,
    desires: IntCounterVec,
    quota_refusals: IntCounterVec,
    quota_status_writes: IntCounter,
}

/// The gateway's metrics. Clones share them.
#[derive(Clone)]
pub struct GatewayMetrics(Option<Arc<Counters>>);

impl GatewayMetrics {
    /// Registers them in `metrics`. Should that fail, which only a name taken twice can cause, nothing is counted.
    #[must_use]
    pub fn register(metrics: &Metrics) -> Self {
        match Self::counters(metrics) {
            Ok(counters) => Self(Some(Arc::new(counters))),
            Err(error) => {
                tracing::error!(%error, "the gateway's metrics are not counted");
                Self(None)
            }
        }
    }

    fn counters(metrics: &Metrics) -> Result<Counters, prometheus::Error> {
        Ok(Counters {
            requests: metrics.counters("gateway_requests_total", "Requests by route and class of status.", &["route", "class"])?,
            seconds: metrics.latencies("gateway_request_seconds", "Time to the head of the answer, by route.", &["route"])?,
            placements: metrics.counters(
                "gateway_placements_total",
                "Sessions that were given to a process, by who wanted it.",
                &["source"],
            )?,
            attempts: metrics.counters("gateway_attempts_total", "Requests that were sent to kernel pods, by outcome.", &["outcome"])?,
            desires: metrics.counters(
                "gateway_desires_total",
                "Orders to kernel pods that no client asked for.",
                &["source", "outcome"],
            )?,
            quota_refusals: metrics.counters(
                "gateway_quota_refusals_total",
                "Requests that a KernelQuota refused, by its limit.",
                &["limit"],
            )?,
            quota_status_writes: metrics.counter("gateway_quota_status_writes_total", "Statuses of KernelQuotas that were written.")?,
        })
    }

    /// Counts a request. `route` is a pattern of the route table.
    pub fn request(&self, route: &str, status: u16, seconds: f64) {
        let Some(counters) = &self.0 else { return };
        let class = match status {
            0..200 => "1xx",
            200..300 => "2xx",
            300..400 => "3xx",
            400..500 => "4xx",
            _ => "5xx",
        };
        counters.requests.with_label_values(&[route, class]).inc();
        counters.seconds.with_label_values(&[route]).observe(seconds);
    }

    /// Counts a session that was given to a process.
    pub fn placed(&self, source: Source) {
        if let Some(counters) = &self.0 {
            counters.placements.with_label_values(&[source.label()]).inc();
        }
    }

    /// Counts a request to a pod.
    pub fn attempt(&self, outcome: AttemptOutcome) {
        if let Some(counters) = &self.0 {
            counters.attempts.with_label_values(&[outcome.label()]).inc();
        }
    }

    /// Counts an order that no client asked for.
    pub fn desire(&self, source: Source, ok: bool) {
        if let Some(counters) = &self.0 {
            counters.desires.with_label_values(&[source.label(), if ok { "ok" } else { "failed" }]).inc();
        }
    }

    /// Counts a request that a quota refused.
    pub fn quota_refused(&self, limit: Limit) {
        if let Some(counters) = &self.0 {
            counters.quota_refusals.with_label_values(&[limit.name()]).inc();
        }
    }

    /// Counts a status of a quota that was written.
    pub fn quota_status_written(&self) {
        if let Some(counters) = &self.0 {
            counters.quota_status_writes.inc();
        }
    }
}
