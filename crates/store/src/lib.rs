//! Where bytes lie: [`SnapshotStore`] over S3, a folder, or memory, and what must be known of a store before it is trusted.
//!
//! The only user of the S3 SDK. It must not know what a head or a segment means: keys and bytes are opaque here. What it owes its caller is
//! the difference between *refused* (the condition does not hold), *conflicted* (another write was under way), *unknown* (it may have
//! happened) and *failed* (it did not), because a commit is decided by that difference.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking"))]

pub mod access_key;
pub mod args;
pub mod credentials;
pub mod disk;
pub mod error;
pub mod folder;
mod held;
pub mod memory;
pub mod probe;
mod resolver;
pub mod rights;
pub mod s3;
mod s3_errors;
pub mod sts;

use bytes::Bytes;
use futures::future::join_all;

pub use access_key::Credentials;
pub use args::S3Args;
pub use credentials::CredentialSource;
pub use disk::{DiskCache, DiskCacheOptions};
pub use error::{PutError, StoreError};
pub use folder::Folder;
pub use memory::Memory;
pub use s3::{S3, S3Options};

/// Bytes of one object at most, read or written.
pub const OBJECT_BYTES_MAX: u64 = 1 << 30;

/// Names one version of an object; opaque, compared as it came.
pub type ETag = String;

/// An object that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its bytes.
    pub bytes: Bytes,
    /// Its version.
    pub etag: ETag,
}

/// When a PUT may take place. The store checks and writes as one atomic act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// Always.
    None,
    /// Only if nothing is there (`If-None-Match: *`).
    Absent,
    /// Only if what is there has this ETag (`If-Match`).
    Matches(ETag),
}

/// A store of objects with conditional writes. Reads see every write that was acknowledged before them.
#[async_trait::async_trait]
pub trait SnapshotStore: Send + Sync {
    /// The object at `key`, if any.
    async fn get(&self, key: &str) -> Result<Option<Object>, StoreError>;

    /// The same of at most so many bytes: of a larger one nothing is read.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`], beside those of [`Self::get`].
    async fn get_within(&self, key: &str, bytes_max: u64) -> Result<Option<Object>, StoreError> {
        let found = self.get(key).await?;
        // A store whose objects are in memory, or that cannot tell before.
        match &found {
            Some(object) if object.bytes.len() as u64 > bytes_max => {
                Err(StoreError::TooLarge { key: key.to_owned(), bytes: object.bytes.len() as u64, bytes_max })
            }
            _ => Ok(found),
        }
    }

    /// Puts `bytes` at `key` if the condition holds. It is never tried twice behind the caller's back.
    async fn put(&self, key: &str, bytes: Bytes, condition: Condition) -> Result<ETag, PutError>;

    /// Puts several bodies at one key under one condition, as close together as this store can send them: how a probe sees whether the condition of
    /// more than one can hold. Each is as one [`SnapshotStore::put`].
    async fn race(&self, key: &str, bodies: Vec<Bytes>, condition: Condition) -> Vec<Result<ETag, PutError>> {
        join_all(bodies.into_iter().map(|body| self.put(key, body, condition.clone()))).await
    }

    /// Makes the object at `to` what the one at `from` is; `false` when there is none. The bytes need not pass through this process.
    async fn copy(&self, from: &str, to: &str) -> Result<bool, StoreError> {
        let Some(object) = self.get(from).await? else { return Ok(false) };
        match self.put(to, object.bytes, Condition::None).await {
            Ok(_) => Ok(true),
            Err(PutError::Failed(error) | PutError::Unknown(error)) => Err(error),
            Err(error @ (PutError::Refused | PutError::Conflicted)) => {
                Err(StoreError::Unexpected { operation: "copy", endpoint: String::new(), reason: error.to_string() })
            }
        }
    }

    /// Removes the object at `key`; also a success when there is none.
    async fn delete(&self, key: &str) -> Result<(), StoreError>;

    /// Every key that begins with `prefix`, in no particular order: for what is bounded, such as one session.
    async fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError>;

    /// The same in parts and in the order of the keys' bytes, for what is not. What is written meanwhile may be in none. A part has `keys_max` at
    /// most, which is at most 1,000; `None`: as many as the store likes.
    async fn list_page(&self, prefix: &str, from: ListFrom<'_>, keys_max: Option<u16>) -> Result<KeyPage, StoreError> {
        // A store that is in memory or on this machine.
        let mut keys = self.list(prefix).await?;
        if let ListFrom::Next(after) | ListFrom::After(after) = from {
            keys.retain(|key| key.as_str() > after);
        }
        keys.sort_unstable();
        let listed = keys.len();
        keys.truncate(keys_max.map_or(listed, usize::from));
        let next = if keys.len() < listed { keys.last().cloned() } else { None };
        Ok(KeyPage { keys, next })
    }
}

/// Where a part of a listing begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ListFrom<'a> {
    /// At the beginning.
    #[default]
    Start,
    /// Where another has ended: its [`KeyPage::next`].
    Next(&'a str),
    /// Behind this key, in the order of their bytes.
    After(&'a str),
}

impl<'a> ListFrom<'a> {
    /// At the beginning, or where another part has ended.
    #[must_use]
    pub fn next(next: Option<&'a str>) -> Self {
        next.map_or(Self::Start, Self::Next)
    }
}

/// A part of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyPage {
    /// The keys.
    pub keys: Vec<String>,
    /// Names the next part; `None` after the last.
    pub next: Option<String>,
}
