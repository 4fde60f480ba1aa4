//! What is observed of a session.

use serde::{Deserialize, Serialize};

use crate::condition::Condition;

/// Observed state of a session. The gateway writes `placement`, the operator all else.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct KernelSessionStatus {
    /// The generation that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Ready`, whose reason is the state, and `Hibernated`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "kubernetes", schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])))]
    pub conditions: Vec<Condition>,
    /// Which process may run the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// The highest epoch that was ever given out; kept when `placement` is cleared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_epoch: Option<u64>,
    /// When a request for the session last found its pool without a pod, RFC 3339: the operator makes one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wake_requested_time: Option<String>,
    /// The last commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotStatus>,
    /// What the session was before it was archived and came back; absent where it never was. Only the operator writes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored_as: Option<StoredAs>,
    /// Heap size as people read it, such as `1.4Mi`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heap: Option<String>,
    /// End of the last request, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_active_time: Option<String>,
    /// When a timer of the sleeping session is due, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_wake_time: Option<String>,
    /// Cells run in the session's life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cells: Option<u64>,
    /// Tool calls and fetches made in the session's life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    /// Calls that wait for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending_approvals: Option<u32>,
    /// Calls that wait for a runner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending_jobs: Option<u32>,
    /// Calls that wait for a client of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending_hostcalls: Option<u32>,
    /// MCP tools that its cells have registered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp_tools: Option<u32>,
}

/// What a session that came back from the archive was before: its objects in storage keep their names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct StoredAs {
    /// The uid of its first object: its identity, under which it is stored.
    pub uid: String,
    /// When that was made, RFC 3339; absent where nobody knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_time: Option<String>,
    /// When it came back last, RFC 3339.
    pub returned_time: String,
}

/// Which process may run a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// Pod name.
    pub pod: String,
    /// Pod uid.
    #[serde(rename = "podUID")]
    pub pod_uid: String,
    /// Random name of the process.
    pub boot: String,
    /// Grows with every placement.
    pub epoch: u64,
}

/// The last commit of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SnapshotStatus {
    /// The epoch under which it was written. (epoch, sequence) grows with every commit; storage that holds less is not believed.
    #[serde(default)]
    pub epoch: u64,
    /// Grows with every commit.
    pub sequence: u64,
    /// Bytes in the store: head and the segments it names.
    pub bytes: u64,
    /// The engine that made the heap.
    pub engine_digest: String,
    /// When it was written, RFC 3339.
    pub time: String,
    /// Whether it is encrypted at rest. A later one that is not, is not believed while the pool encrypts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub encrypted: bool,
}
