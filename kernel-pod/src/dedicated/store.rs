//! A store that is put behind once a pod is given the credentials for it.

use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use dormouse_store::{Condition, ETag, KeyPage, ListFrom, Object, PutError, SnapshotStore, StoreError};

/// The store of a pod that is given its credentials later, and others after them. Without any it answers [`StoreError::NoCredentials`].
#[derive(Default)]
pub struct GrantedStore {
    store: RwLock<Option<Arc<dyn SnapshotStore>>>,
}

impl GrantedStore {
    /// Requests go to `store` from now on; those under way end where they began.
    pub fn replace(&self, store: Arc<dyn SnapshotStore>) {
        *self.store.write().unwrap_or_else(PoisonError::into_inner) = Some(store);
    }

    fn current(&self) -> Result<Arc<dyn SnapshotStore>, StoreError> {
        let store = self.store.read().unwrap_or_else(PoisonError::into_inner).clone();
        store.ok_or_else(|| StoreError::NoCredentials { reason: "the operator has given this pod none for its session yet".to_owned() })
    }
}

#[async_trait::async_trait]
impl SnapshotStore for GrantedStore {
    async fn get(&self, key: &str) -> Result<Option<Object>, StoreError> {
        self.current()?.get(key).await
    }

    async fn get_within(&self, key: &str, bytes_max: u64) -> Result<Option<Object>, StoreError> {
        self.current()?.get_within(key, bytes_max).await
    }

    async fn put(&self, key: &str, bytes: Bytes, condition: Condition) -> Result<ETag, PutError> {
        self.current()?.put(key, bytes, condition).await
    }

    async fn race(&self, key: &str, bodies: Vec<Bytes>, condition: Condition) -> Vec<Result<ETag, PutError>> {
        match self.current() {
            Ok(store) => store.race(key, bodies, condition).await,
            Err(error) => vec![Err(error.into())],
        }
    }

    async fn copy(&self, from: &str, to: &str) -> Result<bool, StoreError> {
        self.current()?.copy(from, to).await
    }

    async fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.current()?.delete(key).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        self.current()?.list(prefix).await
    }

    async fn list_page(&self, prefix: &str, from: ListFrom<'_>, keys_max: Option<u16>) -> Result<KeyPage, StoreError> {
        self.current()?.list_page(prefix, from, keys_max).await
    }
}
