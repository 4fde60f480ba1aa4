//! How long a pool stays: as long as sessions are stored where it says. Whoever deletes them has to know where that is, and with which credentials.

use std::time::Duration;

use dormouse_control::reason::PoolReason;
use dormouse_crds::{
    labels::{MANAGER, SESSIONS_FINALIZER},
    pool::KernelPool,
    session::KernelSession,
};
use dormouse_erasure::clusters::TenantPrefix;
use dormouse_lifecycle::SessionKey;
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, Patch, PatchParams, PostParams},
    runtime::{controller::Action, reflector::ObjectRef},
};
use serde_json::json;

use super::{Health, write_status};
use crate::{context::Context, controller::Outcome, credentials, error::ReconcileError, storage, trim::LIST_PAGE_OBJECTS};

/// How soon a pool that is to go is looked at again while sessions are stored there.
const REMAINING_AGAIN: Duration = Duration::from_secs(5);

fn is_held(pool: &KernelPool) -> bool {
    pool.finalizers().iter().any(|name| name == SESSIONS_FINALIZER)
}

/// Makes sure that a pool with sessions stays until they are gone. Whether it stays.
pub(super) async fn hold(pool: &KernelPool, context: &Context) -> Result<bool, ReconcileError> {
    if is_held(pool) {
        return Ok(true);
    }
    if !is_used(pool, context) {
        return Ok(false);
    }
    let mut finalizers = pool.finalizers().to_vec();
    finalizers.push(SESSIONS_FINALIZER.to_owned());
    patch_finalizers(pool, finalizers, context).await?;
    Ok(true)
}

/// Has a pool looked at that is used now and could still go.
pub(crate) fn have_held(context: &Context, namespace: &str, name: &str) {
    let pool = ObjectRef::<KernelPool>::new(name).within(namespace);
    if context.caches.pools.get(&pool).is_some_and(|found| !is_held(&found) && is_used(&found, context)) {
        // A pool whose turn does not fit the queue is looked at before long in any case.
        let _ = context.pool_triggers.try_send(pool);
    }
}

/// Whether anything may be stored where it says: sessions of its own, or a broker's journal of those of the namespace.
pub(super) fn is_used(pool: &KernelPool, context: &Context) -> bool {
    let index = context.index();
    let namespace = pool.namespace().unwrap_or_default();
    index.count(&namespace, &pool.name_any()) > 0 || (has_journal(pool, context) && index.has_any(&namespace))
}

/// Whether a broker of the namespace keeps its journal there.
pub(super) fn has_journal(pool: &KernelPool, context: &Context) -> bool {
    let (namespace, name) = (pool.namespace(), pool.name_any());
    context.caches.brokers.state().iter().any(|broker| broker.namespace() == namespace && broker.spec.journal.pool == name)
}

/// Lets a deleted pool go once nothing is stored where it says.
pub(super) async fn release(pool: &KernelPool, context: &Context) -> Outcome {
    if !is_held(pool) {
        // Everything it has is owned by it and goes with it.
        return Ok(Action::await_change());
    }
    let known = known(pool, context);
    if known > 0 {
        return sessions_remain(pool, known, context).await;
    }
    if archived_remain(pool, context).await? {
        let message = "It is being deleted, and stays until the archived sessions are gone that are stored where it says: list them over HTTP, and delete them.";
        return stays(pool, message.to_owned(), context).await;
    }
    // Last, and not each time that it is looked at: this reads every session of the namespace. One that has come from the archive meanwhile is there.
    let (sessions, others) = listed(pool, context).await?;
    if sessions > 0 {
        return sessions_remain(pool, sessions, context).await;
    }
    if others == 0 {
        leave_store(pool, context).await;
    }
    credentials::forget_unnamed(context, &pool.namespace().unwrap_or_default(), pool.uid()).await?;
    let finalizers = pool.finalizers().iter().filter(|name| *name != SESSIONS_FINALIZER).cloned().collect();
    patch_finalizers(pool, finalizers, context).await?;
    Ok(Action::await_change())
}

async fn sessions_remain(pool: &KernelPool, sessions: usize, context: &Context) -> Outcome {
    let message =
        format!("It is being deleted, and stays until the {sessions} sessions are gone that are stored where it says: delete them.");
    stays(pool, message, context).await
}

async fn stays(pool: &KernelPool, message: String, context: &Context) -> Outcome {
    let health = Health { ready: false, reason: PoolReason::SessionsRemain, message, pods: 0 };
    write_status(pool, context, &health, None).await?;
    Ok(Action::requeue(REMAINING_AGAIN))
}

/// Tells of a broker's name whether its journal may be where the pool says.
fn keeps_calls_in(pool: &KernelPool, context: &Context) -> impl Fn(&str) -> bool {
    let (namespace, name, brokers) = (pool.namespace(), pool.name_any(), context.caches.brokers.state());
    move |broker| {
        let found = brokers.iter().find(|it| it.namespace() == namespace && it.name_any() == broker);
        // Of a broker that is gone nobody knows where its journal was.
        found.is_none_or(|broker| broker.spec.journal.pool == name)
    }
}

/// Sessions that are, or whose calls may be, stored where the pool says, as far as the watch has told of them.
fn known(pool: &KernelPool, context: &Context) -> usize {
    let keeps_calls = keeps_calls_in(pool, context);
    context.index().stored_with(&pool.namespace().unwrap_or_default(), &pool.name_any(), keeps_calls)
}

/// The same as etcd has them now; and all others of the namespace.
async fn listed(pool: &KernelPool, context: &Context) -> Result<(usize, usize), kube::Error> {
    let (name, keeps_calls) = (pool.name_any(), keeps_calls_in(pool, context));
    let api: Api<KernelSession> = Api::namespaced(context.client.clone(), &pool.namespace().unwrap_or_default());
    let mut params = ListParams::default().limit(LIST_PAGE_OBJECTS);
    let (mut mine, mut others) = (0, 0);
    loop {
        let page = api.list(&params).await?;
        for session in &page.items {
            let here = session.spec.pool == name || session.spec.tool_broker_ref.as_ref().is_some_and(|broker| keeps_calls(&broker.name));
            if here { mine += 1 } else { others += 1 }
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok((mine, others)),
        }
    }
}

/// Takes the name of this cluster from where nothing of it is stored any more. A store that does not answer keeps a name that nobody misses.
async fn leave_store(pool: &KernelPool, context: &Context) {
    let (tenant, own) = (pool.namespace().unwrap_or_default(), &context.config.storage);
    let Ok(opened) = context.stores.open(&context.client, own, &tenant, pool.spec.storage.as_ref()).await else { return };
    let place = TenantPrefix { store_prefix: opened.prefix.clone(), tenant };
    if let Err(error) = place.leave(&*opened.store, own.cluster.as_deref().unwrap_or_default()).await {
        tracing::warn!(namespace = place.tenant, %error, "the name of this cluster stays in a store");
    }
}

async fn patch_finalizers(pool: &KernelPool, finalizers: Vec<String>, context: &Context) -> Result<(), ReconcileError> {
    let api: Api<KernelPool> = Api::namespaced(context.client.clone(), &pool.namespace().unwrap_or_default());
    let body = json!({ "metadata": { "uid": pool.uid(), "resourceVersion": pool.resource_version(), "finalizers": finalizers } });
    match api.patch(&pool.name_any(), &PatchParams::default(), &Patch::Merge(&body)).await {
        Err(kube::Error::Api(answer)) if answer.is_not_found() => Ok(()),
        other => Ok(other.map(|_| ())?),
    }
}

/// Whether archived sessions may be stored where the pool says. A store that does not answer may have some.
pub(super) async fn holds_archived(pool: &KernelPool, context: &Context) -> bool {
    let here = storage::target(pool.spec.storage.as_ref(), &context.config.storage).is_ok_and(|target| target.shared);
    if context.config.archive_listen.is_none() || !here {
        return false;
    }
    match context.shelf(&pool.namespace().unwrap_or_default()).await {
        Ok(Some(shelf)) => shelf.page(None, 1).await.map_or(true, |page| !page.sessions.is_empty() || page.next.is_some()),
        Ok(None) => false,
        Err(_) => true,
    }
}

/// What is left in the archive of a pool that is to go: whether anything is. Where its namespace goes, too, that is erased.
///
/// # Errors
/// The API server or the store failed.
async fn archived_remain(pool: &KernelPool, context: &Context) -> Result<bool, ReconcileError> {
    let namespace = pool.namespace().unwrap_or_default();
    let Some(shelf) = context.shelf(&namespace).await? else { return Ok(false) };
    let (mut after, mut others) = (None::<String>, false);
    loop {
        let page = shelf.page(after.as_deref(), dormouse_control::archive::PAGE_MAX).await?;
        let (mine, not_mine): (Vec<_>, Vec<_>) = page.sessions.into_iter().partition(|session| session.spec.pool == pool.name_any());
        others |= !not_mine.is_empty();
        if !mine.is_empty() && !namespace_ends(pool, context).await? {
            return Ok(true);
        }
        for session in mine {
            let (tenant, name) = (session.key.namespace, session.key.name);
            let key = SessionKey { store_prefix: shelf.store_prefix.clone(), tenant, pool: session.spec.pool, uid: session.uid, name };
            dormouse_erasure::erase(&*shelf.store, &key).await?;
            shelf.remove(&key.name, &key.uid).await?;
            tracing::info!(namespace, name = key.name, uid = key.uid, "archived session erased with its namespace");
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    if !others {
        shelf.clear().await?;
    }
    Ok(false)
}

/// Whether the namespace of an object is being deleted. The API server takes nothing new there, and says so before it looks whether the name is free.
async fn namespace_ends(pool: &KernelPool, context: &Context) -> Result<bool, ReconcileError> {
    let api: Api<KernelPool> = Api::namespaced(context.client.clone(), &pool.namespace().unwrap_or_default());
    let params = PostParams { dry_run: true, field_manager: Some(MANAGER.to_owned()) };
    match api.create(&params, &KernelPool::new(&pool.name_any(), Default::default())).await {
        Err(kube::Error::Api(answer)) if answer.code == 403 => Ok(answer.message.contains("because it is being terminated")),
        Err(kube::Error::Api(answer)) if answer.is_already_exists() => Ok(false),
        answer => Ok(answer.map(|_| false)?),
    }
}
