//! Server-side apply of what was built, and of status.

use dormouse_crds::labels::MANAGER;
use k8s_openapi::NamespaceResourceScope;
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

/// Applies `object` as the operator's, taking over fields that others changed.
///
/// # Errors
/// The API server refuses it or cannot be reached.
pub async fn apply<K>(client: &Client, object: &K) -> Result<K, kube::Error>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Serialize + DeserializeOwned + Clone + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(client.clone(), &object.namespace().unwrap_or_default());
    api.patch(&object.name_any(), &PatchParams::apply(MANAGER).force(), &Patch::Apply(object)).await
}

/// The object that `of` is, as the API server has it now; `None` if it is gone, or has another spec, and will be looked at for that. Who decides by a
/// cache what to write writes again what it wrote a moment ago, and says that it changed now.
///
/// # Errors
/// The API server cannot be reached.
pub async fn latest<K>(client: &Client, of: &K) -> Result<Option<K>, kube::Error>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + DeserializeOwned + Clone + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(client.clone(), &of.namespace().unwrap_or_default());
    let is_same = |found: &K| found.uid() == of.uid() && found.meta().generation == of.meta().generation;
    Ok(api.get_opt(&of.name_any()).await?.filter(is_same))
}

/// Applies `status` to the object that `of` is: one of the same name but another uid is left alone.
///
/// # Errors
/// The API server refuses it or cannot be reached.
pub async fn apply_status<K, S>(client: &Client, of: &K, status: &S) -> Result<(), kube::Error>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + DeserializeOwned + Clone + std::fmt::Debug,
    S: Serialize,
{
    let api: Api<K> = Api::namespaced(client.clone(), &of.namespace().unwrap_or_default());
    let body = json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        "metadata": { "name": of.name_any(), "uid": of.uid() },
        "status": status,
    });
    match api.patch_status(&of.name_any(), &PatchParams::apply(MANAGER).force(), &Patch::Apply(&body)).await {
        Err(kube::Error::Api(answer)) if answer.is_not_found() => Ok(()),
        other => other.map(drop),
    }
}
