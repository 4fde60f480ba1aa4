//! What the sessions of a namespace have used.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Days that one answer may be about.
pub const USAGE_DAYS_MAX: usize = 92;

/// What cells have used.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct UsageCounts {
    /// Cells that have ended.
    pub evals: u64,
    /// Milliseconds of running code.
    pub cpu_ms: f64,
    /// Tool calls and fetches.
    pub tool_calls: u64,
    /// Bytes of what those sent and got, as JSON.
    pub egress_bytes: u64,
}

/// What one session has used on one day, or all have used on all.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct UsageSum {
    /// What its cells have used.
    #[serde(flatten)]
    pub counts: UsageCounts,
    /// Times that it was woken.
    pub wakes: u64,
    /// Bytes of its live heap, times the seconds that it was live.
    pub heap_byte_seconds: u64,
    /// The most bytes that it had in the store on that day; of several days, the largest.
    pub stored_bytes: u64,
}

/// A session's day.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct UsageItem {
    /// `YYYY-MM-DD`, in UTC.
    pub day: String,
    /// The session's name. It may be deleted since.
    pub session: String,
    /// Its id.
    pub id: String,
    /// What it used.
    #[serde(flatten)]
    pub sum: UsageSum,
    /// What of it cells used that holders of API keys sent, by the key's name. Of cells that others sent nothing is said here.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub keys: BTreeMap<String, UsageCounts>,
}

/// Answer of `GET /v1/namespaces/{ns}/usage`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct UsageReport {
    /// The first day.
    pub from: String,
    /// The last day.
    pub to: String,
    /// By day, and then by session.
    pub items: Vec<UsageItem>,
    /// Of all of them. `storedBytes` is the sum over sessions of the most that each had.
    pub total: UsageSum,
    /// Why this may not be all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}
