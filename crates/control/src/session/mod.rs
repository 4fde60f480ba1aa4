//! A session as the control plane sees it.

use std::collections::BTreeMap;

use dormouse_crds::session::{KernelSessionSpec, KernelSessionStatus};
use dormouse_protocol::kernel::{SessionReport, StoredStatus};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

mod decision;
#[cfg(test)]
pub(crate) mod fixtures;
mod status;
mod urgency;

pub use decision::{Decision, Liveness, Next, Observation, StatusUpdate, Stored, UnreadUpdate, decide};
pub use status::{Facts, Process, deletion_blocked, human, is_live, never_started, state_of, status};
pub use urgency::{Urgency, urgency};

/// Namespace and name of a session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    /// Namespace, which is the tenant.
    pub namespace: String,
    /// Object name.
    pub name: String,
}

impl Key {
    /// The key of `namespace` and `name`.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A session as it is written down, in an API object or a file of `dormouse dev`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Namespace and name.
    #[serde(flatten)]
    pub key: Key,
    /// Uid of the object; empty where it is no object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub object_uid: String,
    /// Its identity, the key in storage: the uid of its object, or of its first one if it has been archived since.
    pub uid: String,
    /// Changes with every write; what a compare-and-swap compares.
    pub resource_version: String,
    /// Changes with every write of the spec.
    pub generation: i64,
    /// Labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// When it was made, RFC 3339; empty where nobody knows.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub created_at: String,
    /// What it should be.
    pub spec: KernelSessionSpec,
    /// What it is.
    #[serde(default)]
    pub status: KernelSessionStatus,
    /// Whether somebody has promised to clean its storage when it goes. Without that it must not be placed.
    pub finalizer: bool,
    /// Whether it is on its way out.
    #[serde(default)]
    pub deleting: bool,
    /// Whether `spec` is here without what only its pod reads: whoever runs or shows the session reads it.
    #[serde(skip)]
    pub left_out: bool,
}

impl Record {
    /// Takes in what the process that status names reports under the epoch that status names.
    pub fn reported(&mut self, report: &SessionReport, now: Timestamp) {
        self.update(Process::Alive, Some(report), None, now);
    }

    /// The process of the session is gone; `stored` is what it had stored and may not have told.
    pub fn lost(&mut self, stored: Option<&StoredStatus>, now: Timestamp) {
        self.status.placement = None;
        self.update(Process::None, None, stored, now);
    }

    /// Takes in what a process that is gone had stored.
    pub fn stored(&mut self, stored: &StoredStatus, now: Timestamp) {
        self.update(Process::None, None, Some(stored), now);
    }

    fn update(&mut self, process: Process, report: Option<&SessionReport>, stored: Option<&StoredStatus>, now: Timestamp) {
        let generation = Some(self.generation);
        let facts = Facts { generation, previous: &self.status, process, report, stored, pool_trouble: None, now };
        let Some(new) = status(&facts) else { return };
        let old = std::mem::replace(&mut self.status, new);
        (self.status.placement, self.status.last_epoch) = (old.placement, old.last_epoch);
        self.status.wake_requested_time = old.wake_requested_time;
    }
}
