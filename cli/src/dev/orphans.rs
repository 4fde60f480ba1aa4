//! What is stored of sessions whose files are gone: looked for once, at the start. In a cluster the operator's work.

use std::sync::Arc;

use dormouse_erasure::orphans::{Known, Scope, sweep};
use dormouse_gateway::{Directory as _, directory::folder::FolderDirectory};
use dormouse_service::Clock;
use dormouse_store::SnapshotStore;

/// Sweeps `namespace`. Nothing depends on it: what fails is done at the next start.
pub(super) async fn collect(
    store: Arc<dyn SnapshotStore>,
    namespace: String,
    cluster: String,
    directory: Arc<FolderDirectory>,
    brokers: Vec<String>,
) {
    let unread = directory.unread();
    if unread > 0 {
        tracing::warn!(unread, "what is stored of sessions without a file is not looked for while files of sessions cannot be read");
        return;
    }
    let scope = Scope { store_prefix: super::STORE_PREFIX, tenant: Some(&namespace), is_ours: &|_| true, now_ms: Clock::system().now_ms() };
    let known = async || {
        let records = directory.list(None);
        // A ToolBroker that this start does not name comes again with the next, if a session names it.
        let named = records.iter().filter_map(|record| record.spec.tool_broker_ref.as_ref()).map(|broker| broker.name.clone());
        let brokers = brokers.iter().cloned().chain(named).map(|broker| (namespace.clone(), broker)).collect();
        Ok(Known { sessions: records.iter().map(|record| record.uid.clone()).collect(), brokers })
    };
    match sweep(store.as_ref(), scope, &cluster, known).await {
        Ok(swept) => {
            if swept.sessions > 0 {
                tracing::info!(sessions = swept.sessions, objects = swept.objects, "removed what was stored of sessions without a file");
            }
            if swept.leftovers > 0 {
                tracing::info!(objects = swept.leftovers, "removed what was kept for ToolBrokers that nobody names, or for too long");
            }
            for (_, why, sessions) in swept.left {
                tracing::warn!(sessions, ?why, "stored sessions that have no file here are left alone: they may be somebody else's");
            }
        }
        Err(error) => tracing::warn!(%error, "what is stored of sessions without a file stays for now"),
    }
}
