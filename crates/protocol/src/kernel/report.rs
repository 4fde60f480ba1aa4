//! What a pod says of itself and of its sessions.

use dormouse_crds::session::SnapshotStatus;
use serde::{Deserialize, Serialize};

use crate::session::State;

/// What a pod is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodInfo {
    /// Pod name.
    pub pod: String,
    /// Namespace.
    pub namespace: String,
    /// Random name of this process: a restarted container is a new one.
    pub boot: String,
    /// Live sessions that fit.
    pub slots: u32,
    /// Live sessions now. Where the memory was short of late, also the slots of those for which it would not be enough.
    pub used: u32,
    /// Of these, sessions that have had nothing to do for a second: each makes room for one that has.
    #[serde(default)]
    pub idle: u32,
    /// Digest of the engine that new sessions get.
    pub engine_digest: String,
    /// No new sessions: the process is stopping.
    pub draining: bool,
    /// Its memory had no room for a session of late: whatever slots are free, the pod counts as full.
    #[serde(default)]
    pub exhausted: bool,
}

/// A session as its pod sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionReport {
    /// Namespace.
    pub namespace: String,
    /// Object name.
    pub name: String,
    /// Object uid.
    pub uid: String,
    /// The epoch under which it is, or was, live here.
    pub epoch: u64,
    /// What it is doing. `Hibernated` means: committed, and the slot is free.
    pub state: State,
    /// Whether it takes up one of the pod's slots. One that could not begin yet has none, and nothing stored: its `state` is `Waking`.
    pub holds_slot: bool,
    /// Why, when `state` is `Failed`: an [`crate::ErrorCode`] name, and a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<crate::ApiError>,
    /// The generation of the spec in force.
    pub generation: i64,
    /// Bytes of the JavaScript heap; of the last known when hibernated.
    pub heap_bytes: u64,
    /// The last commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotStatus>,
    /// RFC 3339, the end of the last request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_active_time: Option<String>,
    /// RFC 3339, when a timer is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_wake_time: Option<String>,
    /// Cells run in the session's life.
    pub cells: u64,
    /// Tool calls and fetches made in the session's life.
    pub tool_calls: u64,
    /// Calls that wait for a person.
    #[serde(default)]
    pub approvals: u32,
    /// Calls that wait for a runner.
    #[serde(default)]
    pub jobs: u32,
    /// Calls that wait for a client.
    #[serde(default)]
    pub hostcalls: u32,
    /// MCP tools that its cells have registered.
    #[serde(default)]
    pub mcp_tools: u32,
}

/// One line of `GET /v1/report`. The stream begins with `Picture`, `Pod`, every session, live or cached, and `Complete`; then it brings changes. A reader
/// that falls behind gets all of that again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum ReportLine {
    /// All that the pod has follows, up to `Complete`: what it does not name is not there any more.
    Picture,
    /// The picture is whole.
    Complete,
    /// The pod itself; again whenever `draining` or `exhausted` changes.
    Pod(PodInfo),
    /// A session, whole.
    Session(Box<SessionReport>),
    /// The pod no longer holds anything of this session: it moved away or was deleted.
    #[serde(rename_all = "camelCase")]
    Forgotten {
        /// Object uid.
        uid: String,
        /// The epoch it had here.
        epoch: u64,
    },
    /// A session found no slot, or no memory, here or in any pod that its gateway has asked. Repeated as long as it waits.
    Waiting {
        /// Object uid.
        uid: String,
    },
    /// The pod takes and stores nothing any more: what it has told of every session is the last. It is about to end.
    Drained,
    /// Sent every few seconds when there is nothing else.
    Alive,
    /// A line of a newer pod.
    #[serde(other)]
    Other,
}
