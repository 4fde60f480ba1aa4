//! The end of a session: no writer after the tombstone, no object left behind.
//!
//! The order matters. The tombstone first: a pod that still runs the session meets it in its next commit and stops. Then the pod is told to
//! forget. Then everything under the prefix goes, the tombstone last, and only then the finalizer: a deletion that is cut short anywhere
//! begins again from the start and ends the same.

use std::{sync::PoisonError, time::Duration};

use dormouse_crds::{
    labels::STORAGE_FINALIZER,
    session::{KernelSession, Placement},
};
use dormouse_lifecycle::{Head, SessionKey, sweep};
use dormouse_protocol::kernel::{Assignment, KERNEL_PORT};
use dormouse_service::tls::{Identity, Process};
use dormouse_store::{Condition, PutError, SnapshotStore, StoreError};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt as _, runtime::controller::Action};
use reqwest::Method;

use crate::{
    context::Context,
    controller::Outcome,
    error::ReconcileError,
    pool::PoolReason,
    reports::{self, address_of},
    storage::StorageError,
};

/// How long a pod may take to forget.
const FORGET_TIMEOUT: Duration = Duration::from_secs(10);
/// How long deletion waits for a pod that lives and does not answer. The tombstone keeps it from committing anyway.
const FORGET_PATIENCE: Duration = Duration::from_secs(60);
/// When to look again at a session whose storage cannot be cleaned because somebody must change something.
const BLOCKED_RETRY: Duration = Duration::from_secs(15);
/// Attempts to put the tombstone over a head that keeps changing.
const TOMBSTONE_ATTEMPTS: u32 = 8;
/// Deletions of keys that run at the same time.
const DELETES_IN_FLIGHT: usize = 16;

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
    let spec = super::storage_of(session, context);
    let opened = context.stores.open(&context.client, &context.config.storage, &namespace, spec.as_ref()).await;
    match opened {
        Ok(opened) => {
            let key =
                SessionKey { store_prefix: opened.prefix.clone(), tenant: namespace.clone(), uid: uid.clone(), name: session.name_any() };
            if let Err(error) = clean(session, &*opened.store, &key, context).await {
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
    match bury(store, key).await {
        Ok(()) => {
            forget(session, context).await?;
            remove_all(store, key).await
        }
        // A bucket that never was holds nothing.
        Err(ReconcileError::Storage(StorageError::Store(StoreError::NoBucket { .. }))) if never_stored(session) => {
            forget(session, context).await
        }
        Err(error) => Err(error),
    }
}

/// Puts the tombstone over whatever head there is.
async fn bury(store: &dyn SnapshotStore, key: &SessionKey) -> Result<(), ReconcileError> {
    for _ in 0..TOMBSTONE_ATTEMPTS {
        let current = store.get(&key.head()).await.map_err(StorageError::Store)?;
        let decoded = current.as_ref().and_then(|object| Head::decode(&object.bytes).ok());
        if decoded.as_ref().is_some_and(|head| head.tombstone) {
            return Ok(());
        }
        let bytes = decoded.map_or_else(|| sweep::tombstone_of(key), |head| sweep::tombstone(&head));
        let bytes = bytes.map_err(|error| ReconcileError::Pod(format!("tombstone: {error}")))?;
        let condition = current.map_or(Condition::Absent, |object| Condition::Matches(object.etag));
        match store.put(&key.head(), bytes, condition).await {
            Ok(_) => return Ok(()),
            // The session committed meanwhile, or the answer was lost: read again.
            Err(PutError::Refused | PutError::Conflicted | PutError::Unknown(_)) => {}
            Err(PutError::Failed(error)) => return Err(StorageError::Store(error).into()),
        }
    }
    Err(ReconcileError::Pod("the head keeps changing under the tombstone".to_owned()))
}

/// Deletes every object of the session, the head last.
async fn remove_all(store: &dyn SnapshotStore, key: &SessionKey) -> Result<(), ReconcileError> {
    use futures::{StreamExt as _, TryStreamExt as _};
    let head = key.head();
    let listed = store.list(&key.prefix()).await.map_err(StorageError::Store)?;
    let others = listed.into_iter().filter(|listed| *listed != head);
    futures::stream::iter(others)
        .map(|key| async move { store.delete(&key).await })
        .buffer_unordered(DELETES_IN_FLIGHT)
        .try_collect::<()>()
        .await
        .map_err(StorageError::Store)?;
    Ok(store.delete(&head).await.map_err(StorageError::Store)?)
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
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use dormouse_store::Memory;

    use super::*;

    fn key() -> SessionKey {
        SessionKey { store_prefix: "p/".to_owned(), tenant: "team".to_owned(), uid: "u-1".to_owned(), name: "a".to_owned() }
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
        put(&store, "p/t/team/s/u-2/head", Bytes::from_static(b"another session")).await;
        bury(&store, &key()).await.unwrap();
        let head = store.get(&key().head()).await.unwrap().unwrap();
        assert!(Head::decode(&head.bytes).unwrap().tombstone);
        let late = store.put(&key().head(), Bytes::from_static(b"a first commit"), Condition::Absent).await;
        assert!(matches!(late, Err(PutError::Refused)), "no commit lands behind the tombstone");
        bury(&store, &key()).await.unwrap();
        remove_all(&store, &key()).await.unwrap();
        assert_eq!(store.list("p/").await.unwrap(), ["p/t/team/s/u-2/head"]);
        remove_all(&store, &key()).await.unwrap();
    }

    #[tokio::test]
    async fn a_head_that_does_not_decode_is_buried_too() {
        let store = Memory::default();
        put(&store, &key().head(), Bytes::from_static(b"garbage")).await;
        bury(&store, &key()).await.unwrap();
        assert!(Head::decode(&store.get(&key().head()).await.unwrap().unwrap().bytes).unwrap().tombstone);
        remove_all(&store, &key()).await.unwrap();
        assert!(store.list("").await.unwrap().is_empty());
    }
}
