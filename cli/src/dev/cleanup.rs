//! What is left of a deleted session in the store: in a cluster the operator's work.

use std::sync::Arc;

use async_trait::async_trait;
use dormouse_gateway::directory::{
    Record,
    folder::{Cleanup, POOL},
};
use dormouse_lifecycle::SessionKey;
use dormouse_store::SnapshotStore;

/// Erases a session's objects.
pub(super) struct StoreCleanup {
    pub(super) store: Arc<dyn SnapshotStore>,
}

#[async_trait]
impl Cleanup for StoreCleanup {
    async fn clean(&self, record: &Record) -> anyhow::Result<()> {
        let key = SessionKey {
            store_prefix: super::STORE_PREFIX.to_owned(),
            tenant: record.key.namespace.clone(),
            pool: POOL.to_owned(),
            uid: record.uid.clone(),
            name: record.key.name.clone(),
        };
        Ok(dormouse_erasure::erase(self.store.as_ref(), &key).await?)
    }
}
