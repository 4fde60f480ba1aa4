//! The directory: which sessions exist, what they should be, and which process may run them.
//!
//! [`Directory`] hides where that is written: API objects in a cluster, files in `dormouse dev`. It promises one thing that everything
//! else rests on: [`Directory::assign`] is a compare-and-swap, so of several writers one wins and the others learn that they lost.
//! It must never know how to reach a session or what a cell is.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use async_trait::async_trait;
pub use dormouse_control::{
    archive::ArchivedPage,
    session::{Key, Record},
};
use dormouse_crds::{
    quota::{KernelQuotaSpec, KernelQuotaStatus},
    session::{KernelSessionSpec, Placement},
};
use tokio::sync::broadcast;

pub use selector::{Selector, SelectorError};

pub use crate::kernels::{KernelPod, Role};
#[cfg(feature = "kubernetes")]
pub(crate) use watches::went_back;

#[cfg(feature = "kubernetes")]
pub mod archive;
pub mod cached;
pub mod files;
pub mod folder;
mod follow;
#[cfg(feature = "kubernetes")]
pub mod kubernetes;
#[cfg(feature = "kubernetes")]
mod pods;
#[cfg(feature = "kubernetes")]
mod quotas;
#[cfg(feature = "kubernetes")]
mod returning;
mod selector;
mod settle;
#[cfg(feature = "kubernetes")]
pub mod specs;
#[cfg(feature = "kubernetes")]
mod watches;

/// Changes that a slow reader may be behind before it is told to look at everything again.
pub const CHANGES_BACKLOG_MAX: usize = 4096;

/// A session to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSession {
    /// Namespace and name.
    pub key: Key,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// What it should be.
    pub spec: KernelSessionSpec,
}

/// A change to a session by its user: JSON merge patches (RFC 7396).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SessionPatch {
    /// Of the spec.
    pub spec: Option<serde_json::Value>,
    /// Of the labels; `null` removes one.
    pub labels: Option<BTreeMap<String, Option<String>>>,
}

/// A session, wherever it is written down.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// The session.
    pub record: Arc<Record>,
    /// Whether it is in the archive: nobody may place it before it is back.
    pub archived: bool,
}

/// A quota, as it was seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Quota {
    /// Namespace and name.
    pub key: Key,
    /// Uid of the object.
    pub object_uid: String,
    /// What a compare-and-swap compares.
    pub resource_version: String,
    /// Changes with every write of the limits.
    pub generation: Option<i64>,
    /// What it allows.
    pub limits: KernelQuotaSpec,
    /// What it says is used.
    pub status: KernelQuotaStatus,
}

/// What changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A session appeared, changed or went.
    Session(Key),
    /// Some kernel pod appeared, changed or went.
    Pods,
    /// A quota of this namespace, or of any, appeared, changed or went.
    Quotas(Option<String>),
}

/// Why the directory did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// No such object.
    #[error("the session does not exist")]
    NotFound,
    /// No such namespace.
    #[error("the namespace does not exist")]
    NamespaceNotFound,
    /// The name is taken.
    #[error("a session of this name exists")]
    AlreadyExists,
    /// Somebody else wrote first.
    #[error("the session was changed by another writer")]
    Conflict,
    /// The object would not be valid.
    #[error("{0}")]
    Invalid(String),
    /// A quota of the namespace is used up.
    #[error("{0}")]
    Quota(String),
    /// A policy of the cluster refuses it, or the namespace is on its way out.
    #[error("{0}")]
    Denied(String),
    /// This process itself lacks the right.
    #[error("{0}")]
    Unprivileged(String),
    /// Whether the session is in the archive is not known: the operator, who has it, does not answer.
    #[error("the archive of sessions does not answer: {0}")]
    Archive(String),
    /// It cannot be reached, or failed.
    #[error("the directory of sessions failed: {0}")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl DirectoryError {
    /// An [`DirectoryError::Unavailable`] of any error.
    pub fn unavailable(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Unavailable(error.into())
    }
}

/// Where sessions are written down.
#[async_trait]
pub trait Directory: Send + Sync + 'static {
    /// The session as last seen, perhaps with a part of its spec only ([`Directory::whole`]). May be behind the truth; never costs a request.
    fn get(&self, key: &Key) -> Option<Arc<Record>>;

    /// The session as it is now. One that is in the archive is brought back.
    async fn read(&self, key: &Key) -> Result<Arc<Record>, DirectoryError>;

    /// The same, and what is in the archive stays there.
    async fn look(&self, key: &Key) -> Result<Seen, DirectoryError> {
        Ok(Seen { record: self.read(key).await?, archived: false })
    }

    /// `record` with all of its spec, as it is now. Costs a request where that is large and was not read of late.
    async fn whole(&self, record: &Arc<Record>) -> Result<Arc<Record>, DirectoryError> {
        Ok(Arc::clone(record))
    }

    /// A page of the sessions of `namespace` that are in the archive.
    async fn archived(&self, _namespace: &str, _after: Option<String>, _limit: usize) -> Result<ArchivedPage, DirectoryError> {
        Ok(ArchivedPage::default())
    }

    /// Whether there is an archive.
    fn has_archive(&self) -> bool {
        false
    }

    /// The sessions of `namespace`, or all, as last seen, in order of namespace and name.
    fn list(&self, namespace: Option<&str>) -> Vec<Arc<Record>>;

    /// Makes a session, with the promise to clean its storage.
    async fn create(&self, new: NewSession) -> Result<Arc<Record>, DirectoryError>;

    /// Changes spec or labels.
    async fn patch(&self, key: &Key, patch: SessionPatch) -> Result<Arc<Record>, DirectoryError>;

    /// Begins to delete a session.
    async fn delete(&self, key: &Key) -> Result<(), DirectoryError>;

    /// Writes `placement` and `lastEpoch` if the session is still what `seen` is; else [`DirectoryError::Conflict`].
    async fn assign(&self, seen: &Record, placement: Placement) -> Result<Arc<Record>, DirectoryError>;

    /// Writes down that somebody waits for a session whose pool has no pod, unless that was written a moment ago.
    async fn request_wake(&self, _seen: &Record) -> Result<(), DirectoryError> {
        Ok(())
    }

    /// The text under `key` in a ConfigMap of `namespace`, as it is now. `None`: there is none.
    async fn config(&self, _namespace: &str, _name: &str, _key: &str) -> Result<Option<String>, DirectoryError> {
        Ok(None)
    }

    /// What the quotas of `namespace` allow together.
    fn limits(&self, _namespace: &str) -> KernelQuotaSpec {
        KernelQuotaSpec::default()
    }

    /// The quotas of `namespace`, or all, that have a status.
    fn quotas(&self, _namespace: Option<&str>) -> Vec<Arc<Quota>> {
        Vec::new()
    }

    /// Writes the status of a quota if that is still what `seen` is; else [`DirectoryError::Conflict`].
    async fn write_quota(&self, _seen: &Quota, _status: KernelQuotaStatus) -> Result<(), DirectoryError> {
        Ok(())
    }

    /// The pool whose pods run a session.
    fn pool_of(&self, record: &Record) -> String {
        record.spec.pool.clone()
    }

    /// The pools of `namespace` that anything is known of.
    fn pools(&self, namespace: &str) -> BTreeSet<String> {
        let named = self.list(Some(namespace)).into_iter().map(|record| record.spec.pool.clone());
        named.chain([KernelSessionSpec::default().pool]).collect()
    }

    /// Kernel pods for sessions of `namespace` in `pool`, ready or not, whatever they are for.
    fn pods(&self, namespace: &str, pool: &str) -> Vec<KernelPod>;

    /// The pod that `placement` of a session in `namespace` names, if it still exists.
    fn pod(&self, namespace: &str, placement: &Placement) -> Option<KernelPod>;

    /// Changes from now on. A reader that falls behind is told so and must look at everything.
    fn changes(&self) -> broadcast::Receiver<Change>;

    /// What is still missing before the directory may be relied on; empty when nothing is.
    fn pending(&self) -> Vec<&'static str>;
}

/// Whether `selector` fits `labels`; one that cannot be read fits none.
#[must_use]
pub fn selects(selector: &str, labels: &BTreeMap<String, String>) -> bool {
    Selector::parse(selector).is_ok_and(|selector| selector.fits(labels))
}

/// Applies a JSON merge patch (RFC 7396) to `target`.
pub fn merge_patch(target: &mut serde_json::Value, patch: &serde_json::Value) {
    let serde_json::Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = serde_json::Value::Object(serde_json::Map::new());
    }
    if let serde_json::Value::Object(target) = target {
        for (key, value) in patch {
            if value.is_null() {
                target.remove(key);
            } else {
                merge_patch(target.entry(key.clone()).or_insert(serde_json::Value::Null), value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merge_patch_removes_what_is_null() {
        let mut target = serde_json::json!({"a": {"b": 1, "c": 2}, "d": 3});
        merge_patch(&mut target, &serde_json::json!({"a": {"b": null, "e": 4}, "d": [1]}));
        assert_eq!(target, serde_json::json!({"a": {"c": 2, "e": 4}, "d": [1]}));
    }
}
