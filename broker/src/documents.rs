//! Small things that replicas of a broker share: one JSON object each in the store, replaced by compare-and-swap, and encrypted where the pool is.

use bytes::Bytes;
use dormouse_protocol::{ApiError, ErrorCode};
use dormouse_seal::Name;
use dormouse_store::{Condition, ETag, ListFrom, PutError, StoreError};
use serde::{Serialize, de::DeserializeOwned};

use crate::BrokerStore;

/// Tries of a request that the store did not answer.
const TRIES_MAX: u32 = 4;
/// The wait before the second; doubled each time.
const WAIT_FIRST: std::time::Duration = std::time::Duration::from_millis(20);

/// Why one is not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DocumentError {
    /// Somebody else was first, or the condition does not hold.
    #[error("it was changed meanwhile")]
    Changed,
    /// The store, or whoever has the keys, does not answer; the change may be stored all the same.
    #[error("it cannot be stored now: {0}")]
    Unavailable(String),
    /// What is stored is something else.
    #[error("{key} cannot be read: {reason}")]
    Damaged {
        /// Its key.
        key: String,
        /// Why.
        reason: String,
    },
}

impl From<DocumentError> for ApiError {
    fn from(error: DocumentError) -> Self {
        let code = match error {
            DocumentError::Changed => ErrorCode::Conflict,
            DocumentError::Unavailable(_) => ErrorCode::StorageUnavailable,
            DocumentError::Damaged { .. } => ErrorCode::SnapshotCorrupt,
        };
        Self::new(code, error.to_string())
    }
}

impl BrokerStore {
    /// Reads one, with its version.
    pub(crate) async fn read<T: DeserializeOwned>(&self, key: &str) -> Result<Option<(T, ETag)>, DocumentError> {
        let Some(object) = again(|| self.store.get(key)).await? else { return Ok(None) };
        let damaged = |reason: String| DocumentError::Damaged { key: key.to_owned(), reason };
        let opened = self.seal.open(object.bytes).await.map_err(|error| match error.wants_keys() {
            true => DocumentError::Unavailable(error.to_string()),
            false => damaged(error.to_string()),
        })?;
        if opened.sealed.as_ref().is_some_and(|sealed| sealed.object != last_part(key)) {
            return Err(damaged("it was put in another's place".to_owned()));
        }
        let document = serde_json::from_slice(&opened.bytes).map_err(|error| damaged(error.to_string()))?;
        Ok(Some((document, object.etag)))
    }

    /// Writes one under a condition. What nobody answered may be stored.
    pub(crate) async fn write<T: Serialize>(&self, key: &str, document: &T, condition: Condition) -> Result<ETag, DocumentError> {
        let unavailable = |error: &dyn std::fmt::Display| DocumentError::Unavailable(error.to_string());
        let mut bytes = Bytes::from(serde_json::to_vec(document).map_err(|error| unavailable(&error))?);
        if let Some(writer) = self.seal.writer().await.map_err(|error| unavailable(&error))? {
            let name = Name { session: &self.namespace, object: last_part(key), engine: "" };
            bytes = writer.seal(name, &bytes).map_err(|error| unavailable(&error))?;
        }
        self.store.put(key, bytes, condition).await.map_err(|error| match error {
            PutError::Refused | PutError::Conflicted => DocumentError::Changed,
            PutError::Unknown(error) | PutError::Failed(error) => unavailable(&error),
        })
    }

    /// Removes one; there may be none.
    pub(crate) async fn remove(&self, key: &str) -> Result<(), DocumentError> {
        again(|| self.store.delete(key)).await
    }

    /// The names of those below a prefix: at most so many, the first by their order.
    pub(crate) async fn names(&self, prefix: &str, max: usize) -> Result<Vec<String>, DocumentError> {
        let (mut names, mut next) = (Vec::new(), None);
        loop {
            let page = again(|| self.store.list_page(prefix, ListFrom::next(next.as_deref()), None)).await?;
            names.extend(page.keys.iter().filter_map(|key| key.strip_prefix(prefix)).map(str::to_owned));
            next = page.next;
            // A store that answers in parts does so in order.
            if next.is_none() || names.len() >= max {
                break;
            }
        }
        names.sort_unstable();
        names.truncate(max);
        Ok(names)
    }
}

async fn again<T, Asked: Future<Output = Result<T, StoreError>>>(ask: impl Fn() -> Asked) -> Result<T, DocumentError> {
    let mut wait = WAIT_FIRST;
    let mut tries = 1;
    loop {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(error) if tries < TRIES_MAX && error.is_transient() => {}
            Err(error) => return Err(DocumentError::Unavailable(error.to_string())),
        }
        tokio::time::sleep(wait).await;
        (tries, wait) = (tries + 1, wait * 2);
    }
}

fn last_part(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or(key)
}
