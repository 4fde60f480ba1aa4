//! Sessions that are looked at in the store, not run.

use dormouse_crds::session::SnapshotStatus;
use serde::{Deserialize, Serialize};

use super::Anchor;

/// Body of `POST /v1/stored/checkpoints`: a session that is looked at, not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredCall {
    /// Namespace, which is the tenant.
    pub namespace: String,
    /// Object name.
    pub name: String,
    /// Object uid: the key in storage.
    pub uid: String,
    /// What is known to have been stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchor: Option<Anchor>,
}

/// What a session's status would say if its last process had told everything that it stored.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredStatus {
    /// The last commit; absent when nothing is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotStatus>,
    /// RFC 3339, when a timer is due, or since when something is under way that a process has to go on with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_wake_time: Option<String>,
    /// RFC 3339, the end of the last request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_active_time: Option<String>,
    /// Why what is stored is not believed; then nothing else is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
}

/// Body of `POST /v1/stored/journal`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JournalCall {
    /// The session.
    pub session: StoredCall,
    /// Only entries with a greater number.
    pub after: u64,
    /// Entries at most.
    pub limit: usize,
}

/// Body of `POST /v1/stored/difference`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DifferenceCall {
    /// The session.
    pub session: StoredCall,
    /// Id or label of a checkpoint.
    pub from: String,
    /// Id or label of the other; the last commit when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}
