//! A store in memory, for tests.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;

use crate::{Condition, ETag, Object, PutError, SnapshotStore, StoreError};

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<String, Object>,
    writes: u64,
}

/// Objects in memory. Lost with the process.
#[derive(Debug, Default)]
pub struct Memory {
    state: Mutex<State>,
}

impl Memory {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait::async_trait]
impl SnapshotStore for Memory {
    async fn get(&self, key: &str) -> Result<Option<Object>, StoreError> {
        Ok(self.state().objects.get(key).cloned())
    }

    async fn put(&self, key: &str, bytes: Bytes, condition: Condition) -> Result<ETag, PutError> {
        let mut state = self.state();
        let now = state.objects.get(key).map(|object| &object.etag);
        let holds = match &condition {
            Condition::None => true,
            Condition::Absent => now.is_none(),
            Condition::Matches(etag) => now == Some(etag),
        };
        if !holds {
            return Err(PutError::Refused);
        }
        state.writes += 1;
        let etag = format!("\"{}\"", state.writes);
        state.objects.insert(key.to_owned(), Object { bytes, etag: etag.clone() });
        Ok(etag)
    }

    async fn copy(&self, from: &str, to: &str) -> Result<bool, StoreError> {
        let mut state = self.state();
        let Some(object) = state.objects.get(from) else { return Ok(false) };
        let bytes = object.bytes.clone();
        state.writes += 1;
        let etag = format!("\"{}\"", state.writes);
        state.objects.insert(to.to_owned(), Object { bytes, etag });
        Ok(true)
    }

    async fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.state().objects.remove(key);
        Ok(())
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        Ok(self.state().objects.keys().filter(|key| key.starts_with(prefix)).cloned().collect())
    }
}
