//! The clusters' object in a store: whoever stores sessions writes its name there first.

use std::sync::Arc;

use bytes::Bytes;
use dormouse_lifecycle::{clusters::Clusters, keys, orphans::Listed};
use dormouse_store::{Condition, ETag, KeyPage, ListFrom, Object, PutError, SnapshotStore, StoreError};
use tokio::sync::OnceCell;

/// Attempts to write a name while others write theirs.
const JOIN_ATTEMPTS_MAX: u32 = 16;

/// A tenant's part of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantPrefix {
    /// Before every key: empty, or ending in `/`.
    pub store_prefix: String,
    /// The namespace.
    pub tenant: String,
}

impl TenantPrefix {
    fn clusters(&self) -> String {
        keys::clusters(&self.store_prefix, &self.tenant)
    }

    /// The object, and its version.
    pub(crate) async fn read(&self, store: &dyn SnapshotStore) -> Result<(Option<Clusters>, Condition), StoreError> {
        let key = self.clusters();
        let Some(object) = store.get(&key).await? else { return Ok((None, Condition::Absent)) };
        let clusters = Clusters::decode(&object.bytes).map_err(|error| no_clusters(&key, &error))?;
        Ok((Some(clusters), Condition::Matches(object.etag)))
    }

    /// Puts it if it is still as it was read. `false`: it is not, or nobody knows.
    pub(crate) async fn write(&self, store: &dyn SnapshotStore, clusters: &Clusters, condition: Condition) -> Result<bool, StoreError> {
        let key = self.clusters();
        let bytes = clusters.encode().map_err(|error| no_clusters(&key, &error))?;
        match store.put(&key, bytes, condition).await {
            Ok(_) => Ok(true),
            Err(PutError::Refused | PutError::Conflicted | PutError::Unknown(_)) => Ok(false),
            Err(PutError::Failed(error)) => Err(error),
        }
    }

    /// Makes sure that the name of `cluster` stands there.
    ///
    /// # Errors
    /// The store failed, or the object is none of ours.
    pub async fn join(&self, store: &dyn SnapshotStore, cluster: &str) -> Result<(), StoreError> {
        for _ in 0..JOIN_ATTEMPTS_MAX {
            let (stored, condition) = self.read(store).await?;
            let empty = stored.is_none() && self.seems_empty(store).await?;
            let Some(joined) = Clusters::join(stored.as_ref(), cluster, empty) else { return Ok(()) };
            if self.write(store, &joined, condition).await? {
                return Ok(());
            }
        }
        Err(unavailable(&self.clusters(), "it changed too often"))
    }

    /// Removes the object, and what is kept there beside sessions but the audit, if no session is there and no other cluster has its name there. Who comes
    /// later writes it anew; and what may be there by then is left alone, because nobody has accounted for it.
    ///
    /// # Errors
    /// The store failed.
    pub async fn leave(&self, store: &dyn SnapshotStore, cluster: &str) -> Result<(), StoreError> {
        let (stored, _) = self.read(store).await?;
        if stored.is_some_and(|stored| stored.is_alone(cluster)) && self.is_empty(store).await? {
            for prefix in keys::shared(&self.store_prefix, &self.tenant) {
                loop {
                    // What is deleted is in no later page.
                    let page = store.list_page(&prefix, ListFrom::Start, None).await?;
                    if page.keys.is_empty() {
                        break;
                    }
                    crate::remove_keys(store, page.keys.into_iter()).await?;
                }
            }
            store.delete(&self.clusters()).await?;
        }
        Ok(())
    }

    /// A process of a pool may not list what others keep there. It leaves open what is there; the next sweep accounts for it.
    async fn seems_empty(&self, store: &dyn SnapshotStore) -> Result<bool, StoreError> {
        match self.is_empty(store).await {
            Err(StoreError::Denied { .. }) => Ok(false),
            other => other,
        }
    }

    async fn is_empty(&self, store: &dyn SnapshotStore) -> Result<bool, StoreError> {
        let (prefix, mut next) = (keys::tenant_prefix(&self.store_prefix, &self.tenant), None);
        loop {
            let page = store.list_page(&prefix, ListFrom::next(next.as_deref()), None).await?;
            if !Listed::of(&self.store_prefix, &page.keys).is_empty() {
                return Ok(false);
            }
            next = page.next;
            if next.is_none() {
                return Ok(true);
            }
        }
    }
}

fn unavailable(key: &str, reason: &str) -> StoreError {
    StoreError::Unavailable { operation: "write the name of this cluster", endpoint: key.to_owned(), reason: reason.to_owned() }
}

fn no_clusters(key: &str, error: &dyn std::fmt::Display) -> StoreError {
    let reason = format!("{error}. Remove that object: it is written again, and no session is in it");
    StoreError::Unexpected { operation: "tell which clusters use this store", endpoint: key.to_owned(), reason }
}

/// A store in which nothing is written before the name of the cluster stands where it says who writes.
pub struct Joined {
    inner: Arc<dyn SnapshotStore>,
    place: TenantPrefix,
    cluster: String,
    joined: OnceCell<()>,
}

impl Joined {
    /// `inner`, for a process of `cluster` that writes at `place` only.
    #[must_use]
    pub fn new(inner: Arc<dyn SnapshotStore>, place: TenantPrefix, cluster: String) -> Self {
        Self { inner, place, cluster, joined: OnceCell::new() }
    }

    async fn join(&self) -> Result<(), StoreError> {
        self.joined.get_or_try_init(|| self.place.join(&*self.inner, &self.cluster)).await.copied()
    }
}

#[async_trait::async_trait]
impl SnapshotStore for Joined {
    async fn get(&self, key: &str) -> Result<Option<Object>, StoreError> {
        self.inner.get(key).await
    }

    async fn get_within(&self, key: &str, bytes_max: u64) -> Result<Option<Object>, StoreError> {
        self.inner.get_within(key, bytes_max).await
    }

    async fn put(&self, key: &str, bytes: Bytes, condition: Condition) -> Result<ETag, PutError> {
        self.join().await?;
        self.inner.put(key, bytes, condition).await
    }

    async fn race(&self, key: &str, bodies: Vec<Bytes>, condition: Condition) -> Vec<Result<ETag, PutError>> {
        match self.join().await {
            Ok(()) => self.inner.race(key, bodies, condition).await,
            Err(error) => vec![Err(error.into())],
        }
    }

    async fn copy(&self, from: &str, to: &str) -> Result<bool, StoreError> {
        self.join().await?;
        self.inner.copy(from, to).await
    }

    async fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.inner.delete(key).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        self.inner.list(prefix).await
    }

    async fn list_page(&self, prefix: &str, from: ListFrom<'_>, keys_max: Option<u16>) -> Result<KeyPage, StoreError> {
        self.inner.list_page(prefix, from, keys_max).await
    }
}

#[cfg(test)]
#[path = "clusters_tests.rs"]
mod tests;
