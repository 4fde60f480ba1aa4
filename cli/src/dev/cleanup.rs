//! What is left of a deleted session in the store: in a cluster the operator's work.

use std::sync::Arc;

use async_trait::async_trait;
use dormouse_gateway::directory::{
    Record,
    folder::{Cleanup, POOL},
};
use dormouse_gateway::kernels::{KernelError, Kernels};
use dormouse_lifecycle::{SessionKey, keys::broker_name};
use dormouse_protocol::broker::{Notice, SESSION_NOTICES};
use dormouse_store::SnapshotStore;
use jiff::Timestamp;

/// Erases a session's objects, and tells its ToolBroker.
pub(super) struct StoreCleanup {
    pub(super) store: Arc<dyn SnapshotStore>,
    /// Speaks as the operator.
    pub(super) brokers: Kernels,
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
        dormouse_erasure::erase(self.store.as_ref(), &key).await?;
        let Some(broker) = &record.spec.tool_broker_ref else { return Ok(()) };
        let notice = Notice::of_deletion(&key.tenant, &key.name, broker_name(POOL, &record.uid), &Timestamp::now().to_string());
        match self.brokers.ask_broker::<()>(&key.tenant, &broker.name, SESSION_NOTICES, &notice).await {
            // There is none, or it never takes it.
            Err(KernelError::Refused(refusal)) if !refusal.retryable => {
                tracing::info!(session = key.name, %refusal, "nobody is told that a session is deleted");
                Ok(())
            }
            told => Ok(told?),
        }
    }
}
