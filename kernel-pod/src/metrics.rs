//! What `/metrics` tells about sessions.

use std::time::Duration;

use dormouse_lifecycle::usage::Counts;
use prometheus::{Histogram, IntCounter, IntCounterVec, IntGauge};

use crate::cache::Kept;

/// Where an instance came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WakeSource {
    /// It is new.
    Fresh,
    /// From the pod's own copy in memory.
    Cache,
    /// The head from object storage, every segment from the cache on disk.
    Disk,
    /// From object storage.
    Storage,
}

impl WakeSource {
    fn label(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Cache => "memory",
            Self::Disk => "disk",
            Self::Storage => "storage",
        }
    }
}

/// How a cell ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CellOutcome {
    /// With a value.
    Ok,
    /// With a typed error of the script or of a budget.
    Failed,
}

impl CellOutcome {
    fn label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
        }
    }
}

/// How a commit ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitOutcome {
    /// It is in the store.
    Committed,
    /// Another epoch owns the session.
    Zombie,
    /// A predecessor's write came late.
    Superseded,
    /// The store could not be reached.
    Unavailable,
}

impl CommitOutcome {
    fn label(self) -> &'static str {
        match self {
            Self::Committed => "committed",
            Self::Zombie => "zombie",
            Self::Superseded => "superseded",
            Self::Unavailable => "unavailable",
        }
    }
}

/// The pod's metrics.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    live: IntGauge,
    copies_bytes: IntGauge,
    copies_evicted: IntCounter,
    wakes: IntCounterVec,
    cells: IntCounterVec,
    commits: IntCounterVec,
    cell_seconds: Histogram,
    commit_seconds: Histogram,
    lag_seconds: Histogram,
    given_back: IntCounter,
    used_evals: IntCounter,
    used_cpu_microseconds: IntCounter,
    used_tool_calls: IntCounter,
    used_egress_bytes: IntCounter,
    used_wakes: IntCounter,
}

impl Metrics {
    /// The metrics, in the registry of the process.
    pub(crate) fn new(metrics: &dormouse_service::Metrics) -> Result<Self, prometheus::Error> {
        Ok(Self {
            live: metrics.gauge("kernel_live_sessions", "Sessions that hold a slot.")?,
            copies_bytes: metrics.gauge("kernel_copies_bytes", "Bytes of the pod's own copies of sleeping sessions, in memory.")?,
            copies_evicted: metrics.counter("kernel_copies_evicted_total", "Copies that had to go for others.")?,
            wakes: metrics.counters("kernel_wakes_total", "Instances made, by where they came from.", &["source"])?,
            cells: metrics.counters("kernel_cells_total", "Cells answered, by outcome.", &["outcome"])?,
            commits: metrics.counters("kernel_commits_total", "Commits, by outcome.", &["outcome"])?,
            cell_seconds: metrics.latency("kernel_cell_seconds", "Wall-clock time of a cell, waiting included.")?,
            commit_seconds: metrics.latency("kernel_commit_seconds", "Wall-clock time of a commit.")?,
            lag_seconds: metrics
                .latency("kernel_commit_lag_seconds", "How long a commit's oldest answer was ahead of it; 0 under PerEval.")?,
            used_evals: metrics.counter("kernel_used_evals_total", "Cells that have ended, as committed: what the usage API counts.")?,
            used_cpu_microseconds: metrics
                .counter("kernel_used_cpu_microseconds_total", "Microseconds of cells' running code, as committed.")?,
            used_tool_calls: metrics.counter("kernel_used_tool_calls_total", "Tool calls and fetches, as committed.")?,
            used_egress_bytes: metrics.counter("kernel_used_egress_bytes_total", "Bytes that those sent and got, as committed.")?,
            used_wakes: metrics.counter("kernel_used_wakes_total", "Sleeping sessions that were woken.")?,
            given_back: metrics.counter("kernel_pages_given_back_total", "Pages that live sessions at rest gave back to the system.")?,
        })
    }

    /// What a commit says that its session has used since the one before.
    pub(crate) fn used(&self, counts: &Counts) {
        self.used_evals.inc_by(counts.evals);
        self.used_cpu_microseconds.inc_by(counts.cpu_us);
        self.used_tool_calls.inc_by(counts.tool_calls);
        self.used_egress_bytes.inc_by(counts.egress_bytes);
    }

    /// A sleeping session was woken.
    pub(crate) fn used_wake(&self) {
        self.used_wakes.inc();
    }

    /// How many sessions are live.
    pub(crate) fn live(&self, sessions: u32) {
        self.live.set(i64::from(sessions));
    }

    /// A copy was kept.
    pub(crate) fn copies(&self, kept: Kept) {
        self.copies_bytes.set(i64::try_from(kept.bytes).unwrap_or(i64::MAX));
        self.copies_evicted.inc_by(kept.evicted);
    }

    /// An instance was made.
    pub(crate) fn woke(&self, source: WakeSource) {
        self.wakes.with_label_values(&[source.label()]).inc();
    }

    /// A cell was answered.
    pub(crate) fn cell(&self, outcome: CellOutcome, took: Duration) {
        self.cells.with_label_values(&[outcome.label()]).inc();
        self.cell_seconds.observe(took.as_secs_f64());
    }

    /// A commit ended.
    pub(crate) fn commit(&self, outcome: CommitOutcome, took: Duration) {
        self.commits.with_label_values(&[outcome.label()]).inc();
        self.commit_seconds.observe(took.as_secs_f64());
    }

    /// A session at rest gave back so many pages.
    pub(crate) fn gave_back(&self, pages: usize) {
        self.given_back.inc_by(pages as u64);
    }

    /// How long the oldest answer that a commit holds had been given.
    pub(crate) fn lag(&self, lag: Duration) {
        self.lag_seconds.observe(lag.as_secs_f64());
    }
}
