//! Keys in a cluster: a ConfigMap each in the gateway's own namespace. It holds no secret, only its digest, so the gateway needs no right to read
//! Secrets; whoever may write ConfigMaps there may make keys.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, PostParams},
};

use tokio::sync::Semaphore;

use super::{KeyRecord, KeyStore, KeyStoreError, REVOKED_WITHIN, digest};
use crate::auth::cache::TtlCache;

/// Label of a key's object that has the first digits of its digest.
const DIGEST_LABEL: &str = "dormouse.dev/key-digest";
/// Label of a key's object that has its namespace.
const NAMESPACE_LABEL: &str = "dormouse.dev/key-namespace";
/// Field of the object.
const FIELD: &str = "key";
/// Digits of a digest in a label, which has room for 63.
const LABEL_DIGITS: usize = 40;
/// Keys that are remembered.
const REMEMBERED_MAX: usize = 10_000;
/// How long a key that there is none of is not asked about again.
const UNKNOWN_TTL: Duration = Duration::from_secs(3);
/// Keys that the API server is asked about at once: a flood of keys that there are none of costs it no more than that.
const LOOKUPS_MAX: usize = 8;
/// How long the API server may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Keys as ConfigMaps.
pub struct KeyObjects {
    api: Api<ConfigMap>,
    known: TtlCache<String, Arc<KeyRecord>>,
    unknown: TtlCache<String, ()>,
    lookups: Semaphore,
}

impl KeyObjects {
    /// In this namespace, which is the gateway's.
    #[must_use]
    pub fn new(client: Client, namespace: &str) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            known: TtlCache::new(REMEMBERED_MAX),
            unknown: TtlCache::new(REMEMBERED_MAX),
            lookups: Semaphore::new(LOOKUPS_MAX),
        }
    }

    /// As if so much time had passed since what is remembered was read. For tests, which wait for nothing.
    pub fn age(&self, by: Duration) {
        self.known.age(by);
        self.unknown.age(by);
    }

    async fn by_label(&self, label: &str, value: &str) -> Result<Vec<Arc<KeyRecord>>, KeyStoreError> {
        let listed = bounded(self.api.list(&ListParams::default().labels(&format!("{label}={value}")))).await?;
        Ok(listed.items.iter().filter_map(read).map(Arc::new).collect())
    }
}

fn read(object: &ConfigMap) -> Option<KeyRecord> {
    let text = object.data.as_ref()?.get(FIELD)?;
    serde_json::from_str(text).inspect_err(|error| tracing::warn!(object = ?object.metadata.name, %error, "an API key cannot be read")).ok()
}

fn short(digest: &str) -> String {
    digest.chars().take(LABEL_DIGITS).collect()
}

fn object_name(namespace: &str, name: &str) -> String {
    format!("dormouse-key-{}", short(&digest(&format!("{namespace}/{name}"))))
}

async fn bounded<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, KeyStoreError> {
    let called = tokio::time::timeout(TIMEOUT, call).await.map_err(|elapsed| KeyStoreError::Unavailable(elapsed.into()))?;
    called.map_err(|error| match error {
        kube::Error::Api(status) if status.code == 409 => KeyStoreError::Exists,
        error => KeyStoreError::Unavailable(error.into()),
    })
}

#[async_trait]
impl KeyStore for KeyObjects {
    async fn find(&self, digest: &str) -> Result<Option<Arc<KeyRecord>>, KeyStoreError> {
        let asked = digest.to_owned();
        if let Some(known) = self.known.get(&asked) {
            return Ok(Some(known));
        }
        if self.unknown.get(&asked).is_some() {
            return Ok(None);
        }
        let began = Instant::now();
        let _lookup = self.lookups.try_acquire().map_err(|_| KeyStoreError::Busy)?;
        let found = self.by_label(DIGEST_LABEL, &short(digest)).await?.into_iter().find(|record| record.digest == digest);
        match &found {
            Some(record) => self.known.put(asked, Arc::clone(record), REVOKED_WITHIN.saturating_sub(began.elapsed())),
            None => self.unknown.put(asked, (), UNKNOWN_TTL),
        }
        Ok(found)
    }

    async fn list(&self, namespace: &str) -> Result<Vec<Arc<KeyRecord>>, KeyStoreError> {
        self.by_label(NAMESPACE_LABEL, namespace).await
    }

    async fn create(&self, record: KeyRecord) -> Result<(), KeyStoreError> {
        let about = &record.about;
        let labels = [
            (DIGEST_LABEL, short(&record.digest)),
            (NAMESPACE_LABEL, about.namespace.clone()),
            ("app.kubernetes.io/part-of", "dormouse".to_owned()),
        ];
        let text = serde_json::to_string(&record).map_err(|error| KeyStoreError::Unavailable(error.into()))?;
        let object = ConfigMap {
            metadata: ObjectMeta {
                name: Some(object_name(&about.namespace, &about.name)),
                labels: Some(labels.into_iter().map(|(label, value)| (label.to_owned(), value)).collect()),
                ..ObjectMeta::default()
            },
            data: Some(BTreeMap::from([(FIELD.to_owned(), text)])),
            ..ConfigMap::default()
        };
        bounded(self.api.create(&PostParams::default(), &object)).await.map(drop)
    }

    async fn delete(&self, namespace: &str, name: &str) -> Result<bool, KeyStoreError> {
        let object = object_name(namespace, name);
        let deleted = match bounded(self.api.get_opt(&object)).await? {
            Some(found) => {
                bounded(self.api.delete(&object, &DeleteParams::default())).await?;
                // Behind it: whoever is looked up meanwhile is not remembered here.
                if let Some(record) = read(&found) {
                    self.known.remove(&record.digest);
                }
                true
            }
            None => false,
        };
        Ok(deleted)
    }
}
