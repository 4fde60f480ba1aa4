//! What can go wrong with a store, said so that a person can act on it.

use std::path::PathBuf;

/// Why a store did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The bucket does not exist.
    #[error("bucket {bucket} does not exist at {endpoint}: create it, or correct the bucket's name in the pool's storage")]
    NoBucket {
        /// The bucket.
        bucket: String,
        /// The service.
        endpoint: String,
    },
    /// The service does not accept the credentials at all.
    #[error("{endpoint} does not accept the storage credentials ({code}): correct or renew accessKeyId and secretAccessKey")]
    BadCredentials {
        /// The service.
        endpoint: String,
        /// Its own name for the error.
        code: String,
    },
    /// The credentials are known, but may not do this.
    #[error("the storage credentials may not {operation} in bucket {bucket} at {endpoint}: widen their policy to this key's prefix")]
    Denied {
        /// What was tried.
        operation: &'static str,
        /// The bucket.
        bucket: String,
        /// The service.
        endpoint: String,
    },
    /// There are no credentials to send.
    #[error("no storage credentials: {reason}")]
    NoCredentials {
        /// Why.
        reason: String,
    },
    /// No answer, or an answer that says: later.
    #[error("cannot {operation} at {endpoint}: {reason}")]
    Unavailable {
        /// What was tried.
        operation: &'static str,
        /// The service.
        endpoint: String,
        /// Why.
        reason: String,
    },
    /// An answer that is none of these.
    #[error("cannot {operation} at {endpoint}: {reason}")]
    Unexpected {
        /// What was tried.
        operation: &'static str,
        /// The service.
        endpoint: String,
        /// Why.
        reason: String,
    },
    /// Larger than [`crate::OBJECT_BYTES_MAX`], or than the reader takes.
    #[error("object {key} has {bytes} bytes; at most {bytes_max} are allowed")]
    TooLarge {
        /// Its key.
        key: String,
        /// Its bytes.
        bytes: u64,
        /// How many there may be.
        bytes_max: u64,
    },
    /// A key that cannot be a path.
    #[error("{key:?} cannot be a key: it needs non-empty parts of letters, digits, '-', '_' and '.' between '/'")]
    BadKey {
        /// The key.
        key: String,
    },
    /// Another process has the folder.
    #[error("folder {} is in use by another process: stop it, or choose another folder", path.display())]
    FolderInUse {
        /// The folder.
        path: PathBuf,
    },
    /// The file system refused.
    #[error("cannot {operation} {}: {source}", path.display())]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl StoreError {
    /// Whether the same request may succeed later without a person doing anything.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }
}

/// What came of a PUT that did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum PutError {
    /// The condition does not hold, so nothing was written.
    #[error("the condition of the write does not hold")]
    Refused,
    /// Another write to the same key was under way: read again, then retry.
    #[error("another write to the same key was under way")]
    Conflicted,
    /// It may have happened, or may still.
    #[error("whether the write took place is unknown: {0}")]
    Unknown(#[source] StoreError),
    /// It did not happen.
    #[error(transparent)]
    Failed(#[from] StoreError),
}
