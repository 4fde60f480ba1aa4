//! The bucket, read past every process of the product.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use dormouse_lifecycle::{PAGE_BYTES, SessionKey, head::Head, keys};
use dormouse_store::{Condition, CredentialSource, Credentials, S3, S3Options, SnapshotStore, StoreError};

use crate::kube::Kube;

/// What `manifests/minio.yaml` and the values of the chart say.
const ACCESS_KEY_ID: &str = "story-access";
const SECRET_ACCESS_KEY: &str = "story-secret-key";
const BUCKET: &str = "dormouse";
/// How long the store may take to take requests.
const CREATE_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause between two attempts.
const POLL: Duration = Duration::from_millis(100);

/// A uid that no session of the story has.
const GONE: &str = "0b9f2c1e-6a57-4d3e-8f10-2c7a5b1d9e01";

/// The bucket that sessions sleep in, seen by the administrator of the store.
pub struct Bucket {
    store: S3,
}

/// A session's memory and state as they were stored, laid out as one run of bytes.
#[derive(Debug)]
pub struct Heap(Vec<u8>);

impl Heap {
    /// Whether `needle` is anywhere in it.
    #[must_use]
    pub fn contains(&self, needle: &[u8]) -> bool {
        self.0.windows(needle.len()).any(|window| window == needle)
    }
}

impl Bucket {
    /// The bucket of the chart's values, in the MinIO of the cluster.
    ///
    /// # Errors
    /// When there is no such Service.
    pub async fn open(kube: &Kube) -> Result<Self> {
        Self::named(kube, BUCKET).await
    }

    /// Another bucket of that MinIO.
    ///
    /// # Errors
    /// When there is no such Service.
    pub async fn named(kube: &Kube, bucket: &str) -> Result<Self> {
        let service = kube.get("service minio -n storage").await?;
        let address = service["spec"]["clusterIP"].as_str().context("clusterIP")?;
        let store = S3::new(&S3Options {
            endpoint: format!("http://{address}:9000"),
            region: "us-east-1".to_owned(),
            bucket: bucket.to_owned(),
            credentials: CredentialSource::Static(Credentials::new(ACCESS_KEY_ID, SECRET_ACCESS_KEY)),
        });
        Ok(Self { store })
    }

    /// Makes the bucket, as soon as the store takes requests: its readiness comes a moment before.
    ///
    /// # Errors
    /// When the store refuses, or is not there in time.
    pub async fn create(&self) -> Result<()> {
        let deadline = Instant::now() + CREATE_TIMEOUT;
        loop {
            match self.store.create_bucket().await {
                Err(StoreError::Unavailable { .. }) if Instant::now() < deadline => tokio::time::sleep(POLL).await,
                outcome => return Ok(outcome?),
            }
        }
    }

    /// Every object, as stored.
    ///
    /// # Errors
    /// When the store refuses.
    pub async fn objects(&self) -> Result<BTreeMap<String, Vec<u8>>> {
        let mut objects = BTreeMap::new();
        for key in self.store.list("").await? {
            if let Some(object) = self.store.get(&key).await? {
                objects.insert(key, object.bytes.to_vec());
            }
        }
        Ok(objects)
    }

    /// Keys of what is stored of sessions, whichever.
    ///
    /// # Errors
    /// When the store refuses.
    pub async fn sessions(&self) -> Result<Vec<String>> {
        let mut keys = self.store.list("").await?;
        // Audit, usage and messages are the namespace's, and outlive its sessions.
        let of_namespace = ["/audit/", "/usage/", "/webhooks/"];
        keys.retain(|key| !key.ends_with(&format!("/{}", keys::CLUSTERS)) && !of_namespace.iter().any(|folder| key.contains(folder)));
        Ok(keys)
    }

    /// Keys of all that is stored of a tenant.
    ///
    /// # Errors
    /// When the store refuses.
    pub async fn of_tenant(&self, tenant: &str) -> Result<Vec<String>> {
        Ok(self.store.list(&keys::tenant_prefix("", tenant)).await?)
    }

    /// Stores what a late commit of a session leaves that is gone.
    ///
    /// # Errors
    /// When the store refuses.
    pub async fn leave(&self, tenant: &str) -> Result<()> {
        let gone = SessionKey {
            store_prefix: String::new(),
            tenant: tenant.to_owned(),
            pool: "default".to_owned(),
            uid: GONE.to_owned(),
            name: String::new(),
        };
        let key = gone.segment(1, 1, "ab");
        self.store.put(&key, "late".into(), Condition::Absent).await?;
        Ok(())
    }

    /// The head of the session with this uid.
    ///
    /// # Errors
    /// When its bytes do not verify.
    pub async fn head(&self, uid: &str) -> Result<Option<Head>> {
        let end = format!("/{uid}/head");
        let Some(key) = self.store.list("").await?.into_iter().find(|key| key.ends_with(&end)) else { return Ok(None) };
        let Some(object) = self.store.get(&key).await? else { return Ok(None) };
        Ok(Some(Head::decode(&object.bytes)?))
    }

    /// The session's memory, decompressed and in order, and its state: what a person would search who has the bucket and this code.
    ///
    /// # Errors
    /// When a byte of it does not verify.
    pub async fn heap(&self, uid: &str) -> Result<Heap> {
        let head = self.head(uid).await?.context("the session has no head")?;
        let mut segments = Vec::new();
        for segment in &head.segments {
            segments.push(self.store.get(&segment.key).await?.with_context(|| format!("{} is named and missing", segment.key))?.bytes);
        }
        let pages = dormouse_lifecycle::assemble(&head, &segments)?;
        let mut bytes = Vec::with_capacity(pages.len() * PAGE_BYTES);
        for page in pages.values() {
            bytes.extend_from_slice(page.as_slice());
        }
        bytes.extend_from_slice(head.state.text().as_bytes());
        bytes.extend_from_slice(head.globals.text().as_bytes());
        Ok(Heap(bytes))
    }
}
