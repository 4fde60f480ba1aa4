//! The pool of a session.

use dormouse_control::{condition::find, reason::PoolReason};
use dormouse_crds::{
    condition::READY,
    labels::MANAGER,
    pool::{KernelPool, KernelPoolSpec},
    session::KernelSession,
};
use kube::{Api, ResourceExt as _, api::PostParams, runtime::reflector::ObjectRef};

use crate::{
    context::Context,
    error::ReconcileError,
    pool::{self, DEFAULT_POOL},
};

/// Its namespace and name.
pub(super) fn key(session: &KernelSession) -> (String, String) {
    (session.namespace().unwrap_or_default(), session.spec.pool.clone())
}

/// Has it looked at if it should have another number of pods.
pub(super) fn resize(session: &KernelSession, context: &Context) {
    let (namespace, pool) = key(session);
    if pool::is_to_resize(context, &namespace, &pool) {
        // A pool whose turn does not fit the queue is looked at before long in any case.
        let _ = context.pool_triggers.try_send(ObjectRef::new(&pool).within(&namespace));
    }
}

/// A namespace's first session brings the default pool with it.
pub(super) async fn ensure(session: &KernelSession, context: &Context) -> Result<(), ReconcileError> {
    let namespace = session.namespace().unwrap_or_default();
    if session.spec.pool != DEFAULT_POOL || context.caches.pools.get(&ObjectRef::new(DEFAULT_POOL).within(&namespace)).is_some() {
        return Ok(());
    }
    let api: Api<KernelPool> = Api::namespaced(context.client.clone(), &namespace);
    let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
    match api.create(&params, &KernelPool::new(DEFAULT_POOL, KernelPoolSpec::default())).await {
        Ok(_) => {
            tracing::info!(namespace, "made the default pool");
            Ok(())
        }
        // Already there, or the namespace is on its way out.
        Err(kube::Error::Api(answer)) if matches!(answer.code, 403 | 409) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Why it cannot run a session, in words that a session's condition may repeat.
pub(super) fn trouble(session: &KernelSession, context: &Context) -> Option<(PoolReason, String)> {
    let (namespace, pool) = key(session);
    let pool = context.caches.pools.get(&ObjectRef::new(&pool).within(&namespace))?;
    let ready = find(&pool.status.as_ref()?.conditions, READY)?;
    let reason = PoolReason::parse(&ready.reason).filter(|reason| ready.status == "False" && reason.is_trouble())?;
    Some((reason, ready.message.clone()))
}
