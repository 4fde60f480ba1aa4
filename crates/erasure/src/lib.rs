//! The end of a session in storage: no writer after the tombstone, no object left behind.
//!
//! [`put_tombstone`] first: a process that still runs the session meets the tombstone in its next commit and stops. Then whoever runs it is told to
//! forget it, which is the caller's part. Then [`remove_all`]: every object goes, the tombstone last. A deletion that is cut short anywhere
//! begins again from the start and ends the same. Operator and `dormouse dev` both delete this way.
//!
//! What a process leaves that goes on after its session's deletion has ended is what [`orphans`] removes, on the same road; [`clusters`] is how
//! it is known that nobody else's sessions are taken for such.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking"))]

pub mod clusters;
pub mod orphans;

use dormouse_lifecycle::{Head, SessionKey, head::HeadError, sweep};
use dormouse_store::{Condition, PutError, SnapshotStore, StoreError};
use futures::{StreamExt as _, TryStreamExt as _};

/// Attempts to put the tombstone over a head that keeps changing.
pub const TOMBSTONE_ATTEMPTS_MAX: u32 = 8;

/// Deletions of keys that run at the same time.
const DELETES_IN_FLIGHT_MAX: usize = 16;

/// Why a session is not erased yet. Try again from the start.
#[derive(Debug, thiserror::Error)]
pub enum EraseError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The tombstone cannot be made.
    #[error("the tombstone cannot be made: {0}")]
    Tombstone(#[from] HeadError),
    /// The session commits faster than the tombstone can be put.
    #[error("the head changed {TOMBSTONE_ATTEMPTS_MAX} times under the tombstone")]
    Restless,
}

/// [`put_tombstone`] and [`remove_all`]: the end of a session that no process has to be told of.
///
/// # Errors
/// See [`EraseError`].
pub async fn erase(store: &dyn SnapshotStore, key: &SessionKey) -> Result<(), EraseError> {
    put_tombstone(store, key).await?;
    remove_all(store, key).await
}

/// Puts the tombstone over whatever head there is.
///
/// # Errors
/// See [`EraseError`].
pub async fn put_tombstone(store: &dyn SnapshotStore, key: &SessionKey) -> Result<(), EraseError> {
    for _ in 0..TOMBSTONE_ATTEMPTS_MAX {
        let current = store.get(&key.head()).await?;
        let decoded = current.as_ref().and_then(|object| Head::decode(&object.bytes).ok());
        if decoded.as_ref().is_some_and(|head| head.tombstone) {
            return Ok(());
        }
        let bytes = decoded.map_or_else(|| sweep::tombstone_of(key), |head| sweep::tombstone(&head))?;
        let condition = current.map_or(Condition::Absent, |object| Condition::Matches(object.etag));
        match store.put(&key.head(), bytes, condition).await {
            Ok(_) => return Ok(()),
            // The session committed meanwhile, or the answer was lost: read again.
            Err(PutError::Refused | PutError::Conflicted | PutError::Unknown(_)) => {}
            Err(PutError::Failed(error)) => return Err(error.into()),
        }
    }
    Err(EraseError::Restless)
}

/// Deletes what brokers keep for the session, where its brokers keep it: its page of calls, its jobs, what it has spent, and that it was archived.
///
/// # Errors
/// When the store failed.
pub async fn remove_calls(store: &dyn SnapshotStore, key: &SessionKey) -> Result<(), EraseError> {
    store.delete(&key.calls()).await?;
    for job in store.list(&key.jobs()).await? {
        store.delete(&job).await?;
    }
    store.delete(&key.spent()).await?;
    let [_, archived] = key.archived();
    Ok(store.delete(&archived).await?)
}

/// Deletes every object of the session and what brokers keep for it, the head last.
///
/// # Errors
/// When the store failed.
pub async fn remove_all(store: &dyn SnapshotStore, key: &SessionKey) -> Result<(), EraseError> {
    remove_calls(store, key).await?;
    let head = key.head();
    let others = store.list(&key.prefix()).await?.into_iter().filter(|listed| *listed != head);
    remove_keys(store, others).await?;
    Ok(store.delete(&head).await?)
}

/// Deletes these objects, several at a time.
async fn remove_keys(store: &dyn SnapshotStore, keys: impl Iterator<Item = String>) -> Result<(), StoreError> {
    let keys: Vec<String> = keys.collect();
    let deletions = futures::stream::iter(keys).map(|key| async move { store.delete(&key).await });
    deletions.buffer_unordered(DELETES_IN_FLIGHT_MAX).try_collect().await
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use dormouse_store::Memory;

    use super::*;

    fn key() -> SessionKey {
        SessionKey {
            store_prefix: "p/".to_owned(),
            tenant: "team".to_owned(),
            pool: "default".into(),
            uid: "u-1".to_owned(),
            name: "a".to_owned(),
        }
    }

    async fn put(store: &Memory, key: &str, bytes: Bytes) {
        store.put(key, bytes, Condition::None).await.unwrap();
    }

    #[tokio::test]
    async fn nothing_is_left_and_others_are_untouched() {
        let store = Memory::default();
        let hash = "ab".repeat(16);
        put(&store, &key().segment(1, 1, &hash), Bytes::from_static(b"x")).await;
        put(&store, &key().segment(2, 9, &hash), Bytes::from_static(b"y")).await;
        put(&store, &key().calls(), Bytes::from_static(b"calls")).await;
        put(&store, "p/t/team/s/default/u-2/head", Bytes::from_static(b"another session")).await;
        put(&store, "p/t/team/b/default_u-2/calls", Bytes::from_static(b"and its calls")).await;
        put_tombstone(&store, &key()).await.unwrap();
        let head = store.get(&key().head()).await.unwrap().unwrap();
        assert!(Head::decode(&head.bytes).unwrap().tombstone);
        let late = store.put(&key().head(), Bytes::from_static(b"a first commit"), Condition::Absent).await;
        assert!(matches!(late, Err(PutError::Refused)), "no commit lands behind the tombstone");
        put_tombstone(&store, &key()).await.unwrap();
        remove_all(&store, &key()).await.unwrap();
        let mut left = store.list("p/").await.unwrap();
        left.sort_unstable();
        assert_eq!(left, ["p/t/team/b/default_u-2/calls", "p/t/team/s/default/u-2/head"]);
        remove_all(&store, &key()).await.unwrap();
    }

    #[tokio::test]
    async fn a_head_that_does_not_decode_is_buried_too() {
        let store = Memory::default();
        put(&store, &key().head(), Bytes::from_static(b"garbage")).await;
        put_tombstone(&store, &key()).await.unwrap();
        assert!(Head::decode(&store.get(&key().head()).await.unwrap().unwrap().bytes).unwrap().tombstone);
        remove_all(&store, &key()).await.unwrap();
        assert!(store.list("").await.unwrap().is_empty());
    }
}
