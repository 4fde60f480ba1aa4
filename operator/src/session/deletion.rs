//! The end of a session: no writer after the tombstone, no object left behind.
//!
//! The order matters. The tombstone first: a pod that still runs the session meets it in its next commit and stops. Then the pod is told to
//! forget. Then everything under the prefix goes, the tombstone last, and only then the finalizer: a deletion that is cut short anywhere
//! begins again from the start and ends the same.

use std::{sync::PoisonError, time::Duration};

use dormouse_crds::{
    labels::STORAGE_FINALIZER,
    pool::Storage,
    session::{KernelSession, Placement},
};
use dormouse_erasure::EraseError;
use dormouse_lifecycle::SessionKey;
use dormouse_protocol::kernel::{Assignment, KERNEL_PORT};
use dormouse_service::tls::{Identity, Process};
use dormouse_store::{SnapshotStore, StoreError};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt as _,
    runtime::{controller::Action, reflector::ObjectRef},
};
use reqwest::Method;

use crate::{
    context::Context,
    controller::Outcome,
    error::ReconcileError,
    pool::{self, PoolReason},
    reports::{self, address_of},
    storage::StorageError,
};

/// How long a pod may take to forget.
const FORGET_TIMEOUT: Duration = Duration::from_secs(10);
/// How long deletion waits for a pod that lives and does not answer. The tombstone keeps it from committing anyway.
const FORGET_PATIENCE: Duration = Duration::from_secs(60);
/// When to look again at a session whose storage cannot be cleaned because somebody must change something.
const BLOCKED_RETRY: Duration = Duration::from_secs(15);

/// Ends a session that was deleted.
///
/// # Errors
/// The API server, the store or the pod failed; it will be tried again from the start.
pub async fn reconcile(session: &KernelSession, context: &Context) -> Outcome {
    if !super::has_finalizer(session) {
        return Ok(Action::await_change());
    }
    let namespace = session.namespace().unwrap_or_default();
    let uid = session.uid().unwrap_or_default();
    // What was seen may be from before this process took the finalizer away: a tombstone that is put now would be left behind.
    let sessions: Api<KernelSession> = Api::namespaced(context.client.clone(), &namespace);
    let now = sessions.get_opt(&session.name_any()).await?;
    if !now.is_some_and(|now| now.uid() == session.uid() && super::has_finalizer(&now)) {
        return Ok(Action::await_change());
    }
    let spec = super::storage_of(session, context);
    let opened = context.stores.open(&context.client, &context.config.storage, &namespace, spec.as_ref()).await;
    match opened {
        Ok(opened) => {
            let key =
                SessionKey { store_prefix: opened.prefix.clone(), tenant: namespace.clone(), uid: uid.clone(), name: session.name_any() };
            let cleaned = match clean(session, &*opened.store, &key, context).await {
                Ok(()) => clean_calls(session, spec.as_ref(), &key, context).await,
                Err(error) => Err(error),
            };
            if let Err(error) = cleaned {
                let note = format!("The session's objects cannot be deleted yet: {error}");
                context.event(session, false, &PoolReason::StorageUnavailable.to_string(), &note).await;
                return Err(error);
            }
        }
        // Without a store nothing was ever written.
        Err(StorageError::Refused(_)) if never_stored(session) => forget(session, context).await?,
        Err(StorageError::Refused(refusal)) => {
            let note = format!("The session's objects cannot be deleted: {}", refusal.message);
            context.event(session, false, &refusal.reason.to_string(), &note).await;
            return Ok(Action::requeue(BLOCKED_RETRY));
        }
        Err(error) => return Err(error.into()),
    }
    let finalizers = session.finalizers().iter().filter(|name| *name != STORAGE_FINALIZER).cloned().collect();
    super::patch_finalizers(&context.client, session, finalizers).await?;
    context.written.lock().unwrap_or_else(PoisonError::into_inner).remove(&uid);
    tracing::info!(namespace, name = session.name_any(), uid, "session deleted, its storage swept");
    Ok(Action::await_change())
}

fn never_stored(session: &KernelSession) -> bool {
    session.status.as_ref().is_none_or(|status| status.snapshot.is_none())
}

/// Leaves no object and no writer behind.
async fn clean(session: &KernelSession, store: &dyn SnapshotStore, key: &SessionKey, context: &Context) -> Result<(), ReconcileError> {
    match dormouse_erasure::bury(store, key).await {
        Ok(()) => {
            forget(session, context).await?;
            Ok(dormouse_erasure::remove_all(store, key).await?)
        }
        // A bucket that never was holds nothing.
        Err(EraseError::Store(StoreError::NoBucket { .. })) if never_stored(session) => forget(session, context).await,
        Err(error) => Err(error.into()),
    }
}

/// Removes the page of calls where the session's broker keeps it, when that is not where the session is.
async fn clean_calls(session: &KernelSession, own: Option<&Storage>, key: &SessionKey, context: &Context) -> Result<(), ReconcileError> {
    let Some(reference) = &session.spec.tool_broker_ref else { return Ok(()) };
    let Some(broker) = context.caches.brokers.get(&ObjectRef::new(&reference.name).within(&key.tenant)) else { return Ok(()) };
    let spec = pool::storage_spec(&context.caches, &key.tenant, &broker.spec.journal.pool);
    if spec.as_ref() == own {
        return Ok(());
    }
    match context.stores.open(&context.client, &context.config.storage, &key.tenant, spec.as_ref()).await {
        Ok(opened) => {
            let key = SessionKey { store_prefix: opened.prefix, ..key.clone() };
            match dormouse_erasure::remove_calls(&*opened.store, &key).await {
                Ok(()) | Err(EraseError::Store(StoreError::NoBucket { .. })) => Ok(()),
                Err(error) => Err(error.into()),
            }
        }
        // Without a store the broker kept nothing.
        Err(StorageError::Refused(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Has the pod that may run the session drop it without a commit.
async fn forget(session: &KernelSession, context: &Context) -> Result<(), ReconcileError> {
    let Some(placement) = session.status.as_ref().and_then(|status| status.placement.clone()) else { return Ok(()) };
    let namespace = session.namespace().unwrap_or_default();
    let api: Api<Pod> = Api::namespaced(context.client.clone(), &namespace);
    let Some(pod) = api.get_opt(&placement.pod).await? else { return Ok(()) };
    let ip = pod.status.as_ref().and_then(|status| status.pod_ip.clone()).filter(|ip| !ip.is_empty());
    let (Some(ip), true) = (ip, pod.metadata.uid.as_ref() == Some(&placement.pod_uid) && !reports::is_over(&pod)) else { return Ok(()) };
    let peer = Identity::new(Process::Kernel, &namespace, &placement.pod);
    let body = assignment(session, placement);
    let request = context.peer_client().request(Method::POST, &peer, &address_of(&ip, KERNEL_PORT), "/v1/forget");
    let error = match request.timeout(FORGET_TIMEOUT).json(&body).send().await {
        // 410: it is not there.
        Ok(answer) if answer.status().is_success() || answer.status().as_u16() == 410 => return Ok(()),
        Ok(answer) => format!("{} to forget a session", answer.status()),
        Err(error) => error.to_string(),
    };
    let since = session.metadata.deletion_timestamp.as_ref().map(|time| Timestamp::now().duration_since(time.0));
    let waited = since.and_then(|since| Duration::try_from(since).ok()).unwrap_or(Duration::ZERO);
    if waited < FORGET_PATIENCE {
        return Err(ReconcileError::Pod(error));
    }
    tracing::warn!(namespace, name = session.name_any(), error, "deleting without the pod's word");
    Ok(())
}

fn assignment(session: &KernelSession, placement: Placement) -> Assignment {
    Assignment {
        namespace: session.namespace().unwrap_or_default(),
        name: session.name_any(),
        uid: session.uid().unwrap_or_default(),
        epoch: placement.epoch,
        boot: placement.boot,
        generation: session.metadata.generation.unwrap_or_default(),
        spec: session.spec.clone(),
        source_uid: None,
        anchor: None,
        source_anchor: None,
    }
}

#[cfg(test)]
#[path = "deletion_tests.rs"]
mod tests;
