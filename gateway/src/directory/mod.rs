//! The directory: which sessions exist, what they should be, and which process may run them.
//!
//! [`Directory`] hides where that is written: API objects in a cluster, files in `dormouse dev`. It promises one thing that everything
//! else rests on: [`Directory::assign`] is a compare-and-swap, so of several writers one wins and the others learn that they lost.
//! It must never know how to reach a session or what a cell is.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use async_trait::async_trait;
use dormouse_crds::session::{KernelSessionSpec, KernelSessionStatus, Placement};
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

pub mod cached;
pub mod folder;
mod follow;
#[cfg(feature = "kubernetes")]
pub mod kubernetes;
#[cfg(feature = "kubernetes")]
mod pods;
mod settle;

/// Changes that a slow reader may be behind before it is told to look at everything again.
pub const CHANGES_BACKLOG_MAX: usize = 4096;

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

/// A session as the directory has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Namespace and name.
    #[serde(flatten)]
    pub key: Key,
    /// Object uid: the key in storage.
    pub uid: String,
    /// Changes with every write; what a compare-and-swap compares.
    pub resource_version: String,
    /// Changes with every write of the spec.
    pub generation: i64,
    /// Labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
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
}

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

/// A kernel pod that may be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelPod {
    /// Pod name.
    pub pod: String,
    /// Pod uid.
    pub uid: String,
    /// The pod's own namespace, which is in its certificate.
    pub namespace: String,
    /// Where its mTLS server listens.
    pub address: SocketAddr,
    /// Whether new sessions may be placed there.
    pub ready: bool,
}

/// What changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A session appeared, changed or went.
    Session(Key),
    /// Some kernel pod appeared, changed or went.
    Pods,
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
    /// The session as last seen. May be behind the truth; never costs a request.
    fn get(&self, key: &Key) -> Option<Arc<Record>>;

    /// The session as it is now.
    async fn read(&self, key: &Key) -> Result<Arc<Record>, DirectoryError>;

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

    /// Pods that sessions of `namespace` in `pool` may be placed on, ready or not.
    fn pods(&self, namespace: &str, pool: &str) -> Vec<KernelPod>;

    /// The pod that `placement` of a session in `namespace` names, if it still exists.
    fn pod(&self, namespace: &str, placement: &Placement) -> Option<KernelPod>;

    /// Changes from now on. A reader that falls behind is told so and must look at everything.
    fn changes(&self) -> broadcast::Receiver<Change>;

    /// What is still missing before the directory may be relied on; empty when nothing is.
    fn pending(&self) -> Vec<&'static str>;
}

/// Whether `selector` (`a=b,c!=d,e,!f`) fits `labels`. An empty selector fits all.
#[must_use]
pub fn selects(selector: &str, labels: &BTreeMap<String, String>) -> bool {
    selector.split(',').map(str::trim).filter(|term| !term.is_empty()).all(|term| {
        if let Some((key, value)) = term.split_once("!=") {
            labels.get(key.trim()).is_none_or(|have| have != value.trim())
        } else if let Some((key, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
            labels.get(key.trim()).is_some_and(|have| have == value.trim())
        } else if let Some(key) = term.strip_prefix('!') {
            !labels.contains_key(key.trim())
        } else {
            labels.contains_key(term)
        }
    })
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
    fn a_label_selector_knows_equality_inequality_and_presence() {
        let labels = BTreeMap::from([("app".to_owned(), "a".to_owned()), ("tier".to_owned(), "x".to_owned())]);
        assert!(selects("", &labels));
        assert!(selects("app=a,tier", &labels));
        assert!(selects("app==a,!missing,tier!=y", &labels));
        assert!(!selects("app=b", &labels));
        assert!(!selects("!tier", &labels));
        assert!(!selects("app=a,tier!=x", &labels));
    }

    #[test]
    fn a_merge_patch_removes_what_is_null() {
        let mut target = serde_json::json!({"a": {"b": 1, "c": 2}, "d": 3});
        merge_patch(&mut target, &serde_json::json!({"a": {"b": null, "e": 4}, "d": [1]}));
        assert_eq!(target, serde_json::json!({"a": {"c": 2, "e": 4}, "d": [1]}));
    }
}
