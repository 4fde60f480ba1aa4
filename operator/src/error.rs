//! Why a reconciliation ended early, and when to try again.

use std::time::Duration;

/// After an optimistic-lock conflict: the watch brings the newer object within this time.
const CONFLICT_RETRY: Duration = Duration::from_millis(200);
/// After any other failure.
const RETRY: Duration = Duration::from_secs(5);

/// Why a reconciliation ended early. What is wrong with an object itself is not an error: it becomes a condition.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// The API server refused or could not be reached.
    #[error("API server: {0}")]
    Kube(#[from] kube::Error),
    /// An object that was built is not of its kind.
    #[error("a built object is not valid: {0}")]
    Build(#[from] serde_json::Error),
    /// A spec cannot be written as YAML.
    #[error("YAML: {0}")]
    Yaml(#[from] yaml_serde::Error),
    /// Certificates.
    #[error(transparent)]
    Ca(#[from] crate::ca::CaError),
    /// Storage.
    #[error(transparent)]
    Storage(#[from] crate::storage::StorageError),
    /// A deleted session's objects are not gone yet.
    #[error(transparent)]
    Erase(#[from] dormouse_erasure::EraseError),
    /// The archive.
    #[error(transparent)]
    Shelf(#[from] crate::shelf::ShelfError),
    /// A ToolBroker did not take a message.
    #[error("ToolBroker {0}")]
    Broker(String),
    /// A kernel pod did not do as asked.
    #[error("kernel pod: {0}")]
    Pod(String),
}

impl ReconcileError {
    /// When to try again.
    #[must_use]
    pub fn retry_after(&self) -> Duration {
        match self {
            Self::Kube(kube::Error::Api(status)) if status.is_conflict() => CONFLICT_RETRY,
            _ => RETRY,
        }
    }
}
