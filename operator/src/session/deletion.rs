//! The end of a session: no writer after the tombstone, no object left behind.
//!
//! The order matters. The tombstone first: a pod that still runs the session meets it in its next commit and stops. Then the pod is told to
//! forget. Then everything under the prefix goes, the tombstone last, whoever is to be told is, and only then the finalizer goes: a deletion that is cut
//! short anywhere begins again from the start and ends the same.

use std::time::Duration;

use dormouse_control::{
    reason::{PoolReason, SessionReason},
    session::deletion_blocked,
};
use dormouse_crds::{
    labels::ABANDON_STORAGE,
    pool::{KernelPool, Storage},
    session::{KernelSession, KernelSessionSpec, Placement},
};
use dormouse_erasure::EraseError;
use dormouse_lifecycle::SessionKey;
use dormouse_protocol::kernel::{Assignment, KERNEL_PORT};
use dormouse_service::tls::Identity;
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
    pods::{address_of, is_over},
    session::{archive, finalizer, patch::patch_status, told},
    storage::{self, StorageError, misplaced},
};

/// How long a pod may take to forget a session, or to put it to sleep.
pub(super) const ORDER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long deletion waits for a pod that lives and does not answer. The tombstone keeps it from committing anyway.
const FORGET_PATIENCE: Duration = Duration::from_secs(60);
/// When to look again at a session whose storage cannot be cleaned because somebody must change something.
const BLOCKED_RETRY: Duration = Duration::from_secs(15);

/// Ends a session that was deleted.
///
/// # Errors
/// The API server, the store or the pod failed; it will be tried again from the start.
pub async fn reconcile(session: &KernelSession, context: &Context) -> Outcome {
    if !finalizer::is_there(session) {
        return Ok(Action::await_change());
    }
    let namespace = session.namespace().unwrap_or_default();
    let uid = session.stored_uid();
    // What was seen may be from before this process took the finalizer away: a tombstone that is put now would be left behind.
    let sessions: Api<KernelSession> = Api::namespaced(context.client.clone(), &namespace);
    let Some(now) = sessions.get_opt(&session.name_any()).await? else { return Ok(Action::await_change()) };
    if now.uid() != session.uid() || !finalizer::is_there(&now) {
        return Ok(Action::await_change());
    }
    if now.annotations().get(ABANDON_STORAGE).is_some_and(|abandon| abandon == "true") {
        tracing::warn!(
            namespace,
            name = session.name_any(),
            uid,
            "session deleted, its objects in storage abandoned as its annotation says"
        );
        forget(session, context).await?;
    } else if let Err(blocked) = erase(session, context).await? {
        blocked.tell(session, context).await?;
        return Ok(Action::requeue(BLOCKED_RETRY));
    }
    tell_deleted(session, context).await?;
    finalizer::remove(&context.client, session).await?;
    context.writes.caught_up(&uid);
    tracing::info!(namespace, name = session.name_any(), uid, "session deleted, its storage swept");
    Ok(Action::await_change())
}

/// Tells the session's ToolBroker, if that tells anybody.
async fn tell_deleted(session: &KernelSession, context: &Context) -> Result<(), ReconcileError> {
    let Some(reference) = &session.spec.tool_broker_ref else { return Ok(()) };
    let broker = context.caches.brokers.get(&ObjectRef::new(&reference.name).within(&session.namespace().unwrap_or_default()));
    let address = &context.config.broker_address;
    told::tell_deleted(session, broker.as_deref(), &context.peer_client(), address, Timestamp::now()).await
}

/// Why a session cannot be deleted yet.
struct Blocked {
    reason: SessionReason,
    message: String,
}

impl Blocked {
    fn new(reason: SessionReason, why: &str) -> Self {
        let message = format!(
            "The session's objects cannot be deleted yet: {why} It is tried again. To leave them where they are, annotate the session with {ABANDON_STORAGE}=true."
        );
        Self { reason, message }
    }

    /// In a condition: a namespace that is being deleted takes no Event.
    async fn tell(self, session: &KernelSession, context: &Context) -> Result<(), ReconcileError> {
        let (previous, generation) = (session.status.clone().unwrap_or_default(), session.metadata.generation);
        let Some(status) = deletion_blocked(&previous, generation, self.reason, &self.message, Timestamp::now()) else { return Ok(()) };
        patch_status(&context.client, session, &status).await?;
        context.event(session, false, &self.reason.to_string(), &self.message).await;
        Ok(())
    }
}

/// Leaves no object and no writer behind. The inner error is for a person to see.
async fn erase(session: &KernelSession, context: &Context) -> Result<Result<(), Blocked>, ReconcileError> {
    let namespace = session.namespace().unwrap_or_default();
    let pool = context.caches.pools.get(&ObjectRef::new(&session.spec.pool).within(&namespace));
    let spec = pool.as_ref().and_then(|pool| pool.spec.storage.clone());
    if let Some(blocked) = pool.as_deref().and_then(|pool| elsewhere(pool, context)) {
        return Ok(Err(blocked));
    }
    let opened = match context.stores.open(&context.client, &context.config.storage, &namespace, spec.as_ref()).await {
        Ok(opened) => opened,
        // Without a store nothing was ever written.
        Err(StorageError::Refused(_)) if never_stored(session) => return Ok(Ok(forget(session, context).await?)),
        Err(StorageError::Refused(refusal)) => return Ok(Err(Blocked::new(SessionReason::Pool(refusal.reason), &refusal.message))),
        Err(error) => return Err(error.into()),
    };
    let uid = session.stored_uid();
    let key = SessionKey {
        store_prefix: opened.prefix.clone(),
        tenant: namespace,
        pool: session.spec.pool.clone(),
        uid,
        name: session.name_any(),
    };
    let erased = async {
        if pool.is_none() && !never_stored(session) && opened.store.get(&key.head()).await.map_err(EraseError::Store)?.is_none() {
            let why =
                format!("KernelPool {} is gone, and nothing of the session is where pools store that name no storage.", session.spec.pool);
            return Ok(Err(Blocked::new(SessionReason::PoolNotFound, &why)));
        }
        clean(session, &*opened.store, &key, context).await?;
        archive::forget(session, context).await?;
        clean_calls(session, spec.as_ref(), &key, context).await
    };
    match erased.await {
        Err(ReconcileError::Erase(error)) => {
            Ok(Err(Blocked::new(SessionReason::Pool(PoolReason::StorageUnavailable), &format!("{error}."))))
        }
        other => other,
    }
}

/// Where a pool says that it stores now, nothing of its sessions is: to find nothing there would be taken for having erased them.
fn elsewhere(pool: &KernelPool, context: &Context) -> Option<Blocked> {
    let now = storage::target(pool.spec.storage.as_ref(), &context.config.storage).ok()?.place();
    Some(Blocked::new(SessionReason::Pool(PoolReason::InvalidSpec), &misplaced(pool, &now)?))
}

fn never_stored(session: &KernelSession) -> bool {
    session.status.as_ref().is_none_or(|status| status.snapshot.is_none())
}

/// Leaves no object and no writer behind.
async fn clean(session: &KernelSession, store: &dyn SnapshotStore, key: &SessionKey, context: &Context) -> Result<(), ReconcileError> {
    match dormouse_erasure::put_tombstone(store, key).await {
        Ok(()) => {
            forget(session, context).await?;
            Ok(dormouse_erasure::remove_all(store, key).await?)
        }
        // A bucket that is not there holds nothing.
        Err(EraseError::Store(StoreError::NoBucket { .. })) => forget(session, context).await,
        Err(error) => Err(error.into()),
    }
}

/// Removes the page of calls where the session's broker keeps it, when that is not where the session is: in the storage of any pool of the namespace, when
/// the broker is gone.
async fn clean_calls(
    session: &KernelSession,
    own: Option<&Storage>,
    key: &SessionKey,
    context: &Context,
) -> Result<Result<(), Blocked>, ReconcileError> {
    let Some(reference) = &session.spec.tool_broker_ref else { return Ok(Ok(())) };
    let broker = context.caches.brokers.get(&ObjectRef::new(&reference.name).within(&key.tenant));
    let pools = context.caches.pools.state();
    let mine = pools.iter().filter(|pool| pool.namespace().as_deref() == Some(&key.tenant));
    let journals = mine.filter(|pool| broker.as_ref().is_none_or(|broker| broker.spec.journal.pool == pool.name_any()));
    for pool in journals.filter(|pool| pool.spec.storage.as_ref() != own) {
        if let Some(blocked) = elsewhere(pool, context) {
            return Ok(Err(blocked));
        }
        let spec = pool.spec.storage.as_ref();
        match context.stores.open(&context.client, &context.config.storage, &key.tenant, spec).await {
            Ok(opened) => {
                let key = SessionKey { store_prefix: opened.prefix, ..key.clone() };
                match dormouse_erasure::remove_calls(&*opened.store, &key).await {
                    Ok(()) | Err(EraseError::Store(StoreError::NoBucket { .. })) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            // Without a store the broker kept nothing.
            Err(StorageError::Refused(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Ok(()))
}

/// Has the pod that may run the session drop it without a commit.
pub(crate) async fn forget(session: &KernelSession, context: &Context) -> Result<(), ReconcileError> {
    let Some(placement) = session.status.as_ref().and_then(|status| status.placement.clone()) else { return Ok(()) };
    let namespace = session.namespace().unwrap_or_default();
    let api: Api<Pod> = Api::namespaced(context.client.clone(), &namespace);
    let Some(pod) = api.get_opt(&placement.pod).await? else { return Ok(()) };
    let ip = pod.status.as_ref().and_then(|status| status.pod_ip.clone()).filter(|ip| !ip.is_empty());
    let (Some(ip), true) = (ip, pod.metadata.uid.as_ref() == Some(&placement.pod_uid) && !is_over(&pod)) else { return Ok(()) };
    let peer = Identity::kernel(&namespace, &session.spec.pool, &placement.pod);
    let body = assignment(session, placement);
    let request = context.peer_client().request(Method::POST, &peer, &address_of(&ip, KERNEL_PORT), "/v1/forget");
    let error = match request.timeout(ORDER_TIMEOUT).json(&body).send().await {
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

/// The session under a placement, for a pod that is to have it no more. Without what is in its spec: a process that says that it has a session may lie, and
/// one that has it keeps what it knows, because nothing is older than this generation.
pub(super) fn assignment(session: &KernelSession, placement: Placement) -> Assignment {
    Assignment {
        namespace: session.namespace().unwrap_or_default(),
        name: session.name_any(),
        uid: session.stored_uid(),
        epoch: placement.epoch,
        boot: placement.boot,
        generation: 0,
        spec: KernelSessionSpec::default(),
        source_uid: None,
        anchor: None,
        source_anchor: None,
    }
}

#[cfg(test)]
#[path = "deletion_tests.rs"]
mod tests;
