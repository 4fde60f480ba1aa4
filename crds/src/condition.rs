//! Conditions, as Kubernetes writes them.

use serde::{Deserialize, Serialize};

/// A condition. The same shape as `metav1.Condition`, kept here so that `dormouse dev` can show one without Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// `Ready`, `Hibernated`, …
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One word, from a closed set.
    pub reason: String,
    /// For people.
    pub message: String,
    /// When `status` last changed, RFC 3339.
    pub last_transition_time: String,
    /// The generation that the condition is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// `Ready`: the object does its job.
pub const READY: &str = "Ready";

/// Type of the condition that says whether a broker's journal of calls outlives its pods.
pub const JOURNAL_STORED: &str = "JournalStored";
/// `Hibernated`: the session holds no slot and its head is in storage.
pub const HIBERNATED: &str = "Hibernated";
/// `Exceeded`: of a quota, a limit is reached.
pub const EXCEEDED: &str = "Exceeded";
