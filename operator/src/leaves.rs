//! Whose certificates there are in the namespaces of tenants, as the objects say that need one, and never as the Secrets do: a tenant may write those of its
//! namespace.

use dormouse_crds::{
    broker::ToolBroker,
    pool::{Isolation, KernelPool},
};
use dormouse_watch::WatchScope;
use kube::{
    Client, Resource,
    api::{ListParams, ObjectMeta},
    core::ObjectList,
};
use serde::Deserialize;
use serde_json::Value;

use crate::leaf::Leaf;

/// Objects that a list asks for at once.
const LIST_PAGE_OBJECTS: u32 = 500;

/// Those of all pools and all ToolBrokers.
///
/// # Errors
/// The API server fails.
pub async fn of_tenants(client: &Client, scope: &WatchScope) -> Result<Vec<Leaf>, kube::Error> {
    let mut leaves = Vec::new();
    for api in scope.apis::<OutlinedPool>(client) {
        let pools = all(async |params: ListParams| api.list(&params).await).await?;
        leaves.extend(pools.iter().map(|pool| Leaf::kernel(pool, pool.isolation())));
    }
    for api in scope.apis::<ToolBroker>(client) {
        let brokers = all(async |params: ListParams| api.list_metadata(&params).await).await?;
        leaves.extend(brokers.iter().map(Leaf::broker));
    }
    Ok(leaves)
}

/// Of a KernelPool what its certificate depends on, whatever else is in it: one that cannot be read stalls nobody.
#[derive(Debug, Clone, Deserialize, Resource)]
#[resource(inherit = "KernelPool")]
struct OutlinedPool {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Value,
}

impl OutlinedPool {
    fn isolation(&self) -> Isolation {
        self.spec.get("isolation").and_then(|isolation| Isolation::deserialize(isolation).ok()).unwrap_or_default()
    }
}

/// All objects that are not on their way out, page by page.
async fn all<K: Resource + Clone>(list: impl AsyncFn(ListParams) -> Result<ObjectList<K>, kube::Error>) -> Result<Vec<K>, kube::Error> {
    let (mut objects, mut params) = (Vec::new(), ListParams::default().limit(LIST_PAGE_OBJECTS));
    loop {
        let page = list(params.clone()).await?;
        objects.extend(page.items.into_iter().filter(|object| object.meta().deletion_timestamp.is_none()));
        match page.metadata.continue_.filter(|more| !more.is_empty()) {
            Some(more) => params = params.continue_token(&more),
            None => return Ok(objects),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whatever_is_in_a_pool_its_isolation_is_read_as_far_as_it_is_one() {
        let isolation = |spec: Value| {
            let pool = json!({ "apiVersion": "dormouse.dev/v1alpha1", "kind": "KernelPool", "metadata": { "name": "p" }, "spec": spec });
            serde_json::from_value::<OutlinedPool>(pool).unwrap().isolation()
        };
        assert_eq!(isolation(json!({ "isolation": "Dedicated", "of another version": [1] })), Isolation::Dedicated);
        for other in [json!({ "isolation": "Shared" }), json!({}), json!({ "isolation": "Alone" }), json!({ "isolation": 7 }), Value::Null]
        {
            assert_eq!(isolation(other.clone()), Isolation::Shared, "{other}");
        }
    }
}
