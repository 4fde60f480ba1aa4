//! The finalizer of a session: its object stays until what it has stored is erased.

use dormouse_crds::{labels::STORAGE_FINALIZER, session::KernelSession};
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::error::ReconcileError;

/// Whether the object has it.
pub(super) fn is_there(session: &KernelSession) -> bool {
    session.finalizers().iter().any(|name| name == STORAGE_FINALIZER)
}

/// Adds it.
pub(super) async fn add(client: &Client, session: &KernelSession) -> Result<(), ReconcileError> {
    let mut finalizers = session.finalizers().to_vec();
    finalizers.push(STORAGE_FINALIZER.to_owned());
    replace(client, session, finalizers).await
}

/// Takes it away, after which the object goes.
pub(super) async fn remove(client: &Client, session: &KernelSession) -> Result<(), ReconcileError> {
    let finalizers = session.finalizers().iter().filter(|name| *name != STORAGE_FINALIZER).cloned().collect();
    replace(client, session, finalizers).await
}

/// Replaces the finalizers, if the object is still the one that was read.
async fn replace(client: &Client, session: &KernelSession, finalizers: Vec<String>) -> Result<(), ReconcileError> {
    let api: Api<KernelSession> = Api::namespaced(client.clone(), &session.namespace().unwrap_or_default());
    let body = json!({ "metadata": {
        "uid": session.uid(), "resourceVersion": session.resource_version(), "finalizers": finalizers,
    } });
    match api.patch(&session.name_any(), &PatchParams::default(), &Patch::Merge(&body)).await {
        Err(kube::Error::Api(answer)) if answer.is_not_found() => Ok(()),
        other => Ok(other.map(|_| ())?),
    }
}
