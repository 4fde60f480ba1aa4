//! What pools and brokers become, as the API server has it: watched, so that whoever changes or deletes a part of it is noticed at once, and compared, so that
//! nothing is written that is so already.

use std::{collections::BTreeMap, fmt::Debug, hash::Hash, sync::Arc};

use dormouse_crds::labels::{COMPONENT, MANAGED_BY, MANAGER};
use dormouse_watch::WatchScope;
use futures::{StreamExt as _, future, stream};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Service},
        networking::v1::NetworkPolicy,
        policy::v1::PodDisruptionBudget,
    },
};
use kube::{
    Client, Resource, ResourceExt as _,
    runtime::{
        WatchStreamExt as _,
        reflector::{ObjectRef, Store, store::Writer},
        watcher,
    },
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::{apply::apply, error::ReconcileError, revision::Revisions, triggers::Triggers};

/// Annotation: the digest of what was applied. What was applied once and is not wanted any more is seen by it.
const APPLIED: &str = "dormouse.dev/applied";
/// Digits of that digest.
const DIGEST_DIGITS: usize = 16;

/// The objects that were made for the objects of one kind.
#[derive(Clone)]
pub struct Owned {
    deployments: Store<Deployment>,
    policies: Store<NetworkPolicy>,
    budgets: Store<PodDisruptionBudget>,
    services: Store<Service>,
    config_maps: Store<ConfigMap>,
}

impl Debug for Owned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Owned")
    }
}

/// A kind that is made for another.
pub trait Part:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Serialize + DeserializeOwned + Clone + Debug + Send + Sync + 'static
{
    /// What is known of this kind.
    fn known(owned: &Owned) -> &Store<Self>;
}

macro_rules! parts {
    ($($kind:ty => $field:ident),*) => {
        $(impl Part for $kind {
            fn known(owned: &Owned) -> &Store<Self> {
                &owned.$field
            }
        })*
    };
}
parts!(Deployment => deployments, NetworkPolicy => policies, PodDisruptionBudget => budgets, Service => services, ConfigMap => config_maps);

impl Owned {
    /// Watches what is made with the component label `component` for objects of kind `K`. The triggers name the owner of whatever changes.
    pub fn watch<K>(revisions: &Revisions, scope: &WatchScope, client: &Client, component: &str) -> (Self, Vec<Triggers<K>>)
    where
        K: Resource<DynamicType = ()> + 'static,
    {
        let config = watcher::Config::default().labels(&format!("{MANAGED_BY}={MANAGER},{COMPONENT}={component}"));
        let mut triggers = Vec::new();
        let owned = Self {
            deployments: follow(revisions, (scope, client), &config, &mut triggers),
            policies: follow(revisions, (scope, client), &config, &mut triggers),
            budgets: follow(revisions, (scope, client), &config, &mut triggers),
            services: follow(revisions, (scope, client), &config, &mut triggers),
            config_maps: follow(revisions, (scope, client), &config, &mut triggers),
        };
        (owned, triggers)
    }

    /// Nothing is known.
    #[cfg(test)]
    pub fn unwatched() -> Self {
        Self {
            deployments: Writer::default().as_reader(),
            policies: Writer::default().as_reader(),
            budgets: Writer::default().as_reader(),
            services: Writer::default().as_reader(),
            config_maps: Writer::default().as_reader(),
        }
    }

    /// What is known of an object of this name.
    #[must_use]
    pub fn get<K: Part>(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        K::known(self).get(&ObjectRef::new(name).within(namespace))
    }

    /// Applies `wanted` if the API server has something else. The answer is what it has.
    ///
    /// # Errors
    /// The API server refuses it or cannot be reached.
    pub async fn apply<K: Part>(&self, client: &Client, mut wanted: K) -> Result<K, ReconcileError> {
        // An error means that the writer is gone, and with it this process.
        let _ = K::known(self).wait_until_ready().await;
        let digest = hex::encode(Sha256::digest(serde_json::to_vec(&wanted)?));
        let digest = digest.get(..DIGEST_DIGITS).unwrap_or_default().to_owned();
        wanted.annotations_mut().insert(APPLIED.to_owned(), digest);
        let differs = match self.get::<K>(&wanted.namespace().unwrap_or_default(), &wanted.name_any()) {
            None => "it is not there".to_owned(),
            Some(known) => match difference(&serde_json::to_value(&*known)?, &serde_json::to_value(&wanted)?) {
                None => return Ok(K::clone(&known)),
                Some(path) => path,
            },
        };
        tracing::info!(kind = %K::kind(&()), namespace = wanted.namespace(), name = wanted.name_any(), differs, "applied");
        Ok(apply(client, &wanted).await?)
    }
}

fn follow<K, O>(
    revisions: &Revisions,
    (scope, client): (&WatchScope, &Client),
    config: &watcher::Config,
    triggers: &mut Vec<Triggers<K>>,
) -> Store<O>
where
    K: Resource<DynamicType = ()> + 'static,
    O: Part,
    ObjectRef<O>: Hash + Eq,
{
    let (scope, client, config, writer) = (scope.clone(), client.clone(), config.clone(), Writer::<O>::default());
    let store = writer.as_reader();
    let events = revisions.renewed(move || scope.watch::<O>(&client, config.clone()));
    let touched = events.modify(|object| object.managed_fields_mut().clear()).reflect(writer).touched_objects();
    let logged = touched.filter_map(|result| future::ready(result.inspect_err(|error| tracing::warn!(%error, "watch")).ok()));
    let owners = logged.flat_map(|object| {
        let namespace = object.namespace().unwrap_or_default();
        let mine = object.owner_references().iter().filter(|owner| owner.kind == K::kind(&()) && owner.controller == Some(true));
        stream::iter(mine.map(|owner| ObjectRef::new(&owner.name).within(&namespace)).collect::<Vec<_>>())
    });
    triggers.push(owners.boxed());
    store
}

/// Where `have` does not say what `wanted` says. What the API server adds by itself does not count, and nothing is the same as empty.
fn difference(have: &Value, wanted: &Value) -> Option<String> {
    let below = |part: String, inner: String| if inner.is_empty() { part } else { format!("{part}.{inner}") };
    match (have, wanted) {
        (Value::Object(have), Value::Object(wanted)) => wanted.iter().find_map(|(key, wanted)| match have.get(key) {
            Some(have) => difference(have, wanted).map(|inner| below(key.clone(), inner)),
            None => (!is_empty(wanted)).then(|| key.clone()),
        }),
        (Value::Array(have), Value::Array(wanted)) if have.len() == wanted.len() => {
            let mut pairs = have.iter().zip(wanted).enumerate();
            pairs.find_map(|(index, (have, wanted))| difference(have, wanted).map(|inner| below(index.to_string(), inner)))
        }
        (have, wanted) => {
            let same = have == wanted || (is_empty(have) && is_empty(wanted)) || same_quantity(have, wanted);
            (!same).then(String::new)
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        _ => false,
    }
}

/// Whether two texts are one quantity: the API server writes `1000m` as `1`.
fn same_quantity(have: &Value, wanted: &Value) -> bool {
    let of = |value: &Value| value.as_str().and_then(milli);
    of(have).is_some_and(|have| Some(have) == of(wanted))
}

/// A quantity in thousandths.
fn milli(text: &str) -> Option<i128> {
    let suffixes: BTreeMap<&str, i128> = [
        ("m", 1),
        ("", 1_000),
        ("k", 1_000_000),
        ("M", 1_000_000_000),
        ("G", 1_000_000_000_000),
        ("T", 1_000_000_000_000_000),
        ("Ki", 1_000 << 10),
        ("Mi", 1_000 << 20),
        ("Gi", 1_000 << 30),
        ("Ti", 1_000 << 40),
    ]
    .into();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, suffix) = text.split_at_checked(digits)?;
    number.parse::<i128>().ok()?.checked_mul(*suffixes.get(suffix)?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn same(have: &Value, wanted: &Value) -> bool {
        difference(have, wanted).is_none()
    }

    #[test]
    fn what_the_api_server_adds_is_no_difference_and_what_it_lacks_is() {
        let have = json!({ "metadata": { "name": "a", "uid": "u", "annotations": { APPLIED: "1" } },
            "spec": { "replicas": 2, "containers": [{ "name": "k", "terminationMessagePath": "/dev/log", "cpu": "1" }] } });
        let wanted = |replicas: u32, cpu: &str| {
            json!({ "metadata": { "name": "a", "annotations": { APPLIED: "1" }, "ownerReferences": [] },
            "spec": { "replicas": replicas, "runtime": null, "containers": [{ "name": "k", "cpu": cpu, "env": [], "value": "" }] } })
        };
        assert!(same(&have, &wanted(2, "1")));
        assert!(same(&have, &wanted(2, "1000m")));
        assert!(!same(&have, &wanted(3, "1")));
        assert_eq!(difference(&have, &wanted(2, "2")).as_deref(), Some("spec.containers.0.cpu"));
        let removed = json!({ "metadata": { "annotations": { APPLIED: "2" } } });
        assert!(!same(&have, &removed), "something was applied that is not wanted any more");
        assert!(!same(&json!({ "list": [1, 2] }), &json!({ "list": [1] })));
    }

    #[test]
    fn quantities_are_compared_by_what_they_mean() {
        for (one, other) in [("1", "1000m"), ("1Gi", "1024Mi"), ("2k", "2000"), ("1M", "1000k")] {
            assert!(milli(one).is_some() && milli(one) == milli(other), "{one} {other}");
        }
        assert_eq!(milli("name"), None);
        assert_eq!(milli("0.5"), None, "then it is compared as it is written");
    }
}
