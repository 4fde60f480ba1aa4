//! Sessions leave etcd when they have slept for `spec.archiveAfterSeconds`, and come back when a gateway makes their object again.
//!
//! Which of object and archive counts is never in doubt: as long as there is an object of the name, it does, and the archive is asked only where there is
//! none. A session leaves in these steps, and after each a process may be cut off:
//!
//! 1. Its process forgets it and the placement is cleared; what is stored is read again after longer than a gateway is behind (`crate::unread`).
//! 2. Its objects in the store are marked: its uid may be that of no API object from now on (`lifecycle::orphans`).
//! 3. It is put into the archive. The object still counts, and a user who deletes it has what is kept there removed, too.
//! 4. The object loses the finalizer and is deleted, each only as it was read: whoever wrote it meanwhile wins, and it stays.
//!
//! It comes back so: a gateway makes the object, with an annotation that names the identity which it had. The operator finds that in the archive, writes it
//! into status, where only the operator writes, and removes the session from the archive. Nobody places it before, and a deletion waits for it.

pub mod server;

use std::{
    cmp::Ordering,
    time::{Duration, Instant},
};

use dormouse_control::{
    archive::{Archived, Due, due},
    condition::rfc3339,
    session::Key,
};
use dormouse_crds::{
    labels::{ARCHIVED_AS, STORAGE_FINALIZER},
    pool::KernelPool,
    quota::KernelQuota,
    session::{KernelSession, KernelSessionStatus, StoredAs},
};
use dormouse_lifecycle::{Head, SessionKey, head::MANIFEST_BYTES_MAX, inline::INLINE_BYTES_MAX};
use dormouse_store::{Condition, ListFrom, PutError};
use jiff::Timestamp;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
    runtime::{controller::Action, reflector::ObjectRef},
};
use serde_json::json;

use crate::{
    context::Context,
    controller::Outcome,
    error::ReconcileError,
    session::{deletion, finalizer, own_pool, patch::clear_placement},
    shelf::{Shelf, ShelfError},
    storage::{self, Access, misplaced},
    unread,
};

/// Who writes into status which session it was: not the manager of all else, which leaves out what it has not seen yet.
const FIELD_MANAGER: &str = "dormouse-archive";
/// When to look again at a session that was written meanwhile: the watch brings it within this time.
const SOON: Duration = Duration::from_millis(200);
/// When to look again at a session that may leave by its own object, but not by something else.
const LOOK_AGAIN: Duration = Duration::from_secs(600);
/// When to look again at a session whose pool was not seen yet.
const UNSEEN_AGAIN: Duration = Duration::from_secs(5);
/// Bytes of a head at most, and some.
const HEAD_BYTES_MAX: u64 = (MANIFEST_BYTES_MAX + INLINE_BYTES_MAX + 4096) as u64;
/// When to look again at a session that says it was archived, where the operator has no store to look into.
const NO_STORE_AGAIN: Duration = Duration::from_secs(15);

/// Lets a session leave etcd if it is time. The answer is when to look again; `None`: nothing is to be done.
///
/// # Errors
/// The API server, the store or a kernel pod failed: it is looked at again.
pub async fn consider(session: &KernelSession, context: &Context) -> Result<Option<Duration>, ReconcileError> {
    if context.config.archive_listen.is_none() {
        return Ok(None);
    }
    let Some(status) = session.status.as_ref() else { return Ok(None) };
    match due(&session.spec, status, Timestamp::now()) {
        Due::Never => return Ok(None),
        Due::At(at) => return Ok(Some(Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default())),
        Due::Now => {}
    }
    let namespace = session.namespace().unwrap_or_default();
    let Some(pool) = context.caches.pools.get(&ObjectRef::new(&session.spec.pool).within(&namespace)) else {
        // It may not have been seen yet.
        return Ok(Some(UNSEEN_AGAIN));
    };
    if !may_leave(session, &pool, context) {
        return Ok(Some(LOOK_AGAIN));
    }
    if let Err(wait) = context.writes.archive(Instant::now()) {
        return Ok(Some(wait));
    }
    if is_limited(session, context).await {
        return Ok(Some(LOOK_AGAIN));
    }
    if status.placement.is_some() {
        // A gateway that is behind may send it one more cell: that is stored, and seen when what is stored is read again.
        deletion::forget(session, context).await?;
        clear_placement(context, session).await?;
        context.unread.cleared(&session.stored_uid(), own_pool::key(session), Instant::now());
        return Ok(Some(unread::READ_AFTER.into_iter().min().unwrap_or(LOOK_AGAIN)));
    }
    leave(session, context).await
}

/// Whether sessions of its pool and its ToolBroker may leave etcd.
fn may_leave(session: &KernelSession, pool: &KernelPool, context: &Context) -> bool {
    if !keeps_here(pool, context) {
        return false;
    }
    let Some(reference) = &session.spec.tool_broker_ref else { return true };
    // What its broker keeps for it must lie where the session does, to be marked there.
    let namespace = session.namespace().unwrap_or_default();
    let broker = context.caches.brokers.get(&ObjectRef::new(&reference.name).within(&namespace));
    let journal = broker.and_then(|broker| context.caches.pools.get(&ObjectRef::new(&broker.spec.journal.pool).within(&namespace)));
    journal.is_some_and(|journal| keeps_here(&journal, context))
}

/// Whether its namespace has a quota of what is stored: what is archived is not counted.
async fn is_limited(session: &KernelSession, context: &Context) -> bool {
    // A cache that is not filled yet would let them go. An error means that this process ends.
    let _ = context.caches.quotas.wait_until_ready().await;
    let limits = |quota: &KernelQuota| quota.spec.sessions.is_some() || quota.spec.stored_bytes.is_some();
    context.caches.quotas.state().iter().any(|quota| quota.namespace() == session.namespace() && limits(quota))
}

/// Whether a pool's sessions are in the operator's own store, where the archive is, and what it would keep may be read there.
pub(crate) fn keeps_here(pool: &KernelPool, context: &Context) -> bool {
    let target = storage::target(pool.spec.storage.as_ref(), &context.config.storage);
    let here = target.is_ok_and(|target| target.shared && target.access == Access::Mint && misplaced(pool, &target.place()).is_none());
    here && pool.spec.encryption.is_none() && pool.metadata.deletion_timestamp.is_none()
}

/// Steps 2 to 4.
async fn leave(session: &KernelSession, context: &Context) -> Result<Option<Duration>, ReconcileError> {
    let (namespace, name) = (session.namespace().unwrap_or_default(), session.name_any());
    let api: Api<KernelSession> = Api::namespaced(context.client.clone(), &namespace);
    let Some(whole) = api.get_opt(&name).await? else { return Ok(None) };
    let now = Timestamp::now();
    let status = whole.status.clone().unwrap_or_default();
    let same = whole.uid() == session.uid() && whole.metadata.deletion_timestamp.is_none() && status.placement.is_none();
    if !same || due(&whole.spec, &status, now) != Due::Now || whole.returning().is_some() {
        return Ok(Some(SOON));
    }
    // What somebody else waits for, or would have the cluster delete with its owner, stays.
    if whole.finalizers() != [STORAGE_FINALIZER] || !whole.owner_references().is_empty() {
        return Ok(Some(LOOK_AGAIN));
    }
    let Some(shelf) = context.shelf(&namespace).await? else { return Ok(None) };
    let key = stored_key(&whole, &shelf);
    match is_as_told(&shelf, &key, &status).await? {
        Stored::AsTold => {}
        Stored::Otherwise => return Ok(Some(LOOK_AGAIN)),
        Stored::Later => {
            // A cell whose end nobody told, and maybe a timer that it set: a kernel pod reads it.
            context.unread.silent(&key.uid, own_pool::key(session), Instant::now());
            return Ok(Some(Duration::ZERO));
        }
    }
    mark(&shelf, &key).await?;
    match shelf.put(&archived(&whole, status, now)).await {
        Err(ShelfError::Refused(refused)) => {
            tracing::warn!(namespace, name, %refused, "a session stays in etcd");
            return Ok(Some(LOOK_AGAIN));
        }
        put => put?,
    }
    let body = json!({ "metadata": { "uid": whole.uid(), "resourceVersion": whole.resource_version(), "finalizers": null } });
    let freed = match api.patch(&name, &PatchParams::default(), &Patch::Merge(&body)).await {
        Err(kube::Error::Api(answer)) if answer.is_not_found() || answer.is_conflict() => return Ok(Some(SOON)),
        freed => freed?,
    };
    let exactly = Preconditions { uid: whole.uid(), resource_version: freed.resource_version() };
    match api.delete(&name, &DeleteParams::default().preconditions(exactly)).await {
        Err(kube::Error::Api(answer)) if answer.is_conflict() => return Ok(Some(SOON)),
        Err(kube::Error::Api(answer)) if answer.is_not_found() => {
            // A user has deleted it in between, and there was nobody left to erase it.
            dormouse_erasure::erase(&*shelf.store, &key).await?;
            shelf.remove(&name, &key.uid).await?;
            return Ok(None);
        }
        deleted => drop(deleted?),
    }
    context.metrics.archived.inc();
    context.unread.forget(&key.uid);
    context.writes.caught_up(&key.uid);
    tracing::info!(namespace, name, uid = key.uid, "session archived");
    Ok(None)
}

/// What the store has of a session, beside what its status says.
enum Stored {
    /// The same.
    AsTold,
    /// A later commit.
    Later,
    /// What cannot be read here: nothing, something that is encrypted or damaged, or an earlier commit.
    Otherwise,
}

async fn is_as_told(shelf: &Shelf, key: &SessionKey, status: &KernelSessionStatus) -> Result<Stored, ReconcileError> {
    let head = shelf.store.get_within(&key.head(), HEAD_BYTES_MAX).await.map_err(ShelfError::from)?;
    let head = head.and_then(|object| Head::decode(&object.bytes).ok()).filter(|head| !head.tombstone && !head.sealed);
    let Some((head, told)) = head.zip(status.snapshot.as_ref()) else { return Ok(Stored::Otherwise) };
    Ok(match (head.epoch, head.sequence).cmp(&(told.epoch, told.sequence)) {
        Ordering::Equal => Stored::AsTold,
        Ordering::Greater => Stored::Later,
        Ordering::Less => Stored::Otherwise,
    })
}

/// Says in the store that the session's uid may be that of no API object.
async fn mark(shelf: &Shelf, key: &SessionKey) -> Result<(), ReconcileError> {
    let [own, of_brokers] = key.archived();
    let calls = shelf.store.list_page(&key.of_brokers(), ListFrom::Start, Some(1)).await.map_err(ShelfError::from)?;
    let has_calls = !calls.keys.is_empty();
    for marker in [Some(own), has_calls.then_some(of_brokers)].into_iter().flatten() {
        match shelf.store.put(&marker, Default::default(), Condition::Absent).await {
            Ok(_) | Err(PutError::Refused) => {}
            Err(PutError::Conflicted) => return Err(ShelfError::Restless.into()),
            Err(PutError::Unknown(error) | PutError::Failed(error)) => return Err(ShelfError::from(error).into()),
        }
    }
    Ok(())
}

fn stored_key(session: &KernelSession, shelf: &Shelf) -> SessionKey {
    SessionKey {
        store_prefix: shelf.store_prefix.clone(),
        tenant: session.namespace().unwrap_or_default(),
        pool: session.spec.pool.clone(),
        uid: session.stored_uid(),
        name: session.name_any(),
    }
}

/// What is kept of a session.
fn archived(session: &KernelSession, status: KernelSessionStatus, now: Timestamp) -> Archived {
    let mut annotations = session.annotations().clone();
    annotations.remove(ARCHIVED_AS);
    let before = status.stored_as.as_ref().map(|stored| stored.created_time.clone());
    let own = session.metadata.creation_timestamp.as_ref().map(|time| rfc3339(time.0));
    Archived {
        key: Key::new(session.namespace().unwrap_or_default(), session.name_any()),
        uid: session.stored_uid(),
        labels: session.labels().clone(),
        annotations,
        created_time: before.unwrap_or(own),
        archived_time: rfc3339(now),
        spec: session.spec.clone(),
        // Generations begin anew with the next object.
        status: KernelSessionStatus { observed_generation: None, wake_requested_time: None, stored_as: None, ..status },
    }
}

/// Adopts a session whose object says that it was in the archive as `uid`.
///
/// # Errors
/// The API server or the store failed: it is tried again.
pub async fn adopt(session: &KernelSession, uid: &str, context: &Context) -> Outcome {
    let (namespace, name) = (session.namespace().unwrap_or_default(), session.name_any());
    let Some(shelf) = context.shelf(&namespace).await? else {
        tracing::warn!(
            namespace,
            name,
            "a session says that it was archived, and the operator has no store of its own: name the one that it had"
        );
        return Ok(Action::requeue(NO_STORE_AGAIN));
    };
    let api: Api<KernelSession> = Api::namespaced(context.client.clone(), &namespace);
    // What was seen may be from before this process has done it.
    let Some(now) = api.get_opt(&name).await?.filter(|now| now.uid() == session.uid()) else { return Ok(Action::await_change()) };
    if now.returning().is_none() {
        return Ok(Action::requeue(SOON));
    }
    let Some(archived) = shelf.find(&name).await?.filter(|archived| archived.uid == uid) else {
        tracing::warn!(namespace, name, uid, "a session says that it was archived, and is not in the archive: it is a new one");
        let body =
            json!({ "metadata": { "uid": now.uid(), "resourceVersion": now.resource_version(), "annotations": { ARCHIVED_AS: null } } });
        api.patch(&name, &PatchParams::default(), &Patch::Merge(&body)).await?;
        return Ok(Action::requeue(SOON));
    };
    let stored_as =
        StoredAs { uid: archived.uid.clone(), created_time: archived.created_time.clone(), returned_time: rfc3339(Timestamp::now()) };
    let status = KernelSessionStatus { stored_as: Some(stored_as), placement: None, ..archived.status };
    let body = json!({ "metadata": { "uid": now.uid(), "resourceVersion": now.resource_version() }, "status": status });
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let adopted = api.patch_status(&name, &params, &Patch::Merge(&body)).await?;
    if !finalizer::is_there(&adopted) && adopted.metadata.deletion_timestamp.is_none() {
        finalizer::add(&context.client, &adopted).await?;
    }
    shelf.remove(&name, uid).await?;
    context.metrics.returned.inc();
    tracing::info!(namespace, name, uid, "session is back from the archive");
    Ok(Action::requeue(SOON))
}

/// Removes what the archive may still have of a session that is being erased.
///
/// # Errors
/// The store failed.
pub(crate) async fn forget(session: &KernelSession, context: &Context) -> Result<(), ReconcileError> {
    if let Some(shelf) = context.shelf(&session.namespace().unwrap_or_default()).await? {
        shelf.remove(&session.name_any(), &session.stored_uid()).await?;
    }
    Ok(())
}
