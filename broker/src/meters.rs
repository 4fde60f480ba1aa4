//! The broker's metrics.

use std::time::Duration;

use dormouse_protocol::{ApiError, broker::ToolAnswer};
use dormouse_service::Metrics;
use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge};

/// The label of calls that name nothing of the spec. One of the others is a name of the spec, never what code or a far side has made up.
const OTHER: &str = "other";

/// Counters and clocks of calls.
#[derive(Debug, Clone)]
pub(crate) struct Meters {
    calls: IntCounterVec,
    pub(crate) repeats: IntCounter,
    refusals: IntCounterVec,
    /// PUTs of pages of calls.
    pub(crate) stored: Histogram,
    /// Outcomes that the journal's store did not take.
    pub(crate) unstored: IntCounter,
    /// Lines of the audit that the store did not take in time.
    pub(crate) unaudited: IntCounter,
    pub(crate) in_flight: IntGauge,
    seconds: HistogramVec,
    /// Tokens of models.
    pub(crate) tokens: IntCounterVec,
    /// Attempts to deliver messages of webhooks.
    pub(crate) webhooks: IntCounterVec,
    /// Loads of packages.
    pub(crate) loads: IntCounterVec,
}

impl Meters {
    pub(crate) fn new(metrics: &Metrics) -> Result<Self, prometheus::Error> {
        Ok(Self {
            calls: metrics.counters(
                "broker_calls_total",
                "Tool calls that were made, by what the spec names, and by outcome: ok or the error code.",
                &["tool", "outcome"],
            )?,
            repeats: metrics.counter("broker_repeated_calls_total", "Calls answered by the journal or by joining one in flight.")?,
            refusals: metrics.counters("broker_refused_calls_total", "Calls refused before they were made, by error code.", &["code"])?,
            stored: metrics.latency("broker_journal_seconds", "How long a PUT of a session's journal of calls took.")?,
            unstored: metrics.counter("broker_unstored_outcomes_total", "Outcomes of calls that the journal's store did not take.")?,
            unaudited: metrics.counter("broker_unaudited_total", "Lines of the audit that the store did not take in time.")?,
            in_flight: metrics.gauge("broker_calls_in_flight", "Tool calls being made.")?,
            seconds: metrics.latencies("broker_call_seconds", "How long tool calls took, by what the spec names.", &["tool"])?,
            tokens: metrics.counters(
                "broker_model_tokens_total",
                "Tokens of models, by the model's name in the spec, and whether they were sent (input) or came (output).",
                &["model", "direction"],
            )?,
            webhooks: metrics.counters(
                "broker_webhook_attempts_total",
                "Attempts to deliver messages of webhooks, by what came of the message: delivered, again or failed.",
                &["outcome"],
            )?,
            loads: metrics.counters(
                "broker_module_loads_total",
                "Packages of npm that sessions asked for, by outcome: ok or the error code.",
                &["outcome"],
            )?,
        })
    }

    pub(crate) fn refused(&self, error: &ApiError) {
        self.refusals.with_label_values(&[error.code.to_string().as_str()]).inc();
    }

    pub(crate) fn took(&self, label: Option<&str>, time: Duration) {
        self.seconds.with_label_values(&[label.unwrap_or(OTHER)]).observe(time.as_secs_f64());
    }

    pub(crate) fn outcome(&self, label: Option<&str>, answer: &ToolAnswer) {
        let outcome = match answer {
            ToolAnswer::Ok { .. } | ToolAnswer::Stream { .. } => "ok".to_owned(),
            ToolAnswer::Err { error } => error.code.to_string(),
            ToolAnswer::Parked { .. } | ToolAnswer::Send { .. } => "parked".to_owned(),
        };
        self.calls.with_label_values(&[label.unwrap_or(OTHER), outcome.as_str()]).inc();
    }
}

/// Counters of fetches.
#[derive(Debug, Clone)]
pub(crate) struct EgressMeters {
    pub(crate) fetches: IntCounterVec,
    pub(crate) sent: IntCounter,
    pub(crate) received: IntCounter,
    pub(crate) open_bodies: IntGauge,
}

impl EgressMeters {
    pub(crate) fn new(metrics: &Metrics) -> Result<Self, prometheus::Error> {
        let bytes = metrics.counters(
            "broker_egress_bytes_total",
            "Bytes of fetches, bodies as they travelled: sent or received.",
            &["direction"],
        )?;
        Ok(Self {
            fetches: metrics.counters("broker_fetches_total", "Fetches, by outcome: ok, failed, or the error code.", &["outcome"])?,
            sent: bytes.with_label_values(&["sent"]),
            received: bytes.with_label_values(&["received"]),
            open_bodies: metrics.gauge("broker_open_bodies", "Bodies that are open for sessions to read.")?,
        })
    }
}
