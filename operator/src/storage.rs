//! Object stores: which one a pool uses, the credentials that its pods get, and the operator's own access for deletions.
//!
//! Whatever lies in a tenant's namespace may be read by that tenant, so a pool's Secret reaches a part of the tenant's prefix only: either the operator
//! mints it (`credentials`), or an administrator has scoped it. With its own identity the operator mints for its own store only: for a bucket
//! that a tenant names, its rights would be lent to the tenant. There it asks as the tenant's own ServiceAccount (`account`), or copies a Secret of the
//! tenant's.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};

use dormouse_control::reason::PoolReason;
use dormouse_crds::{
    labels::{MANAGED_BY, MANAGER},
    pool::{KernelPool, Storage, StoredIn},
};
use dormouse_service::metadata::is_metadata_host;
use dormouse_store::{
    CredentialSource, Credentials, S3, S3Options, SnapshotStore, rights,
    sts::{self, Role},
};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, ObjectMeta},
};
use sha2::{Digest as _, Sha256};

use crate::{
    account::{ACCOUNT, Account, Accounts, Place},
    apply::apply,
    config::{CredentialsSource, StorageArgs},
    refusal::Refusal,
};

pub(crate) use crate::storage_secret::{StorageError, credentials_of, data_of, read_secret};

/// Annotation: which Secret of which namespace this is kept of.
const KEPT_OF: &str = "dormouse.dev/kept-of";
/// Stores that are kept open; beyond it all are closed and opened again as needed.
const STORES_MAX: usize = 256;

/// The store where the sessions of a pool are whose spec cannot be built any more, if that is still the service of now.
#[must_use]
pub fn former_target(pool: &KernelPool, own: &StorageArgs) -> Option<Target> {
    let now = target(pool.spec.storage.as_ref(), own).ok()?;
    let stored = pool.status.as_ref().and_then(|status| status.stored_in.clone());
    match stored {
        Some(StoredIn { bucket, prefix }) if now.access == Access::Mint => Some(Target { bucket, prefix, ..now }),
        _ => Some(now),
    }
}

/// Where a pool's pods get their credentials from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// The operator mints them.
    Mint,
    /// From this Secret of the pool's namespace.
    Copy(String),
    /// The operator mints them as the ServiceAccount of the pool's namespace, whose role this is.
    Account(Account),
}

/// An object store, as a pool uses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// URL of the service.
    pub endpoint: String,
    /// Bucket.
    pub bucket: String,
    /// Region.
    pub region: String,
    /// Before every key.
    pub prefix: String,
    /// Whether it is the operator's own.
    pub shared: bool,
    /// Credentials of the pods.
    pub access: Access,
    /// The name of this cluster there.
    pub cluster: String,
}

impl Target {
    /// What of it must stay as long as sessions are stored there.
    #[must_use]
    pub fn place(&self) -> StoredIn {
        StoredIn { bucket: self.bucket.clone(), prefix: self.prefix.clone() }
    }

    /// Tells a ServiceAccount's role at this store from others.
    #[must_use]
    pub(crate) fn account_digest(&self, account: &Account) -> String {
        let Role { endpoint: sts, region: _, arn } = &account.role;
        let Self { endpoint, bucket, region, prefix, .. } = self;
        let text = [endpoint, region, bucket, prefix, sts, arn.as_deref().unwrap_or_default(), &account.audience].join("\n");
        hex::encode(Sha256::digest(text.as_bytes())).get(..16).unwrap_or_default().to_owned()
    }

    /// What of it is a namespace's, as the operator reaches it by the namespace's ServiceAccount.
    #[must_use]
    pub(crate) fn place_of<'a>(&'a self, namespace: &'a str) -> Place<'a> {
        let policy = rights::tenant_policy(&self.bucket, &self.prefix, namespace);
        Place { namespace, kept: self.kept_as(namespace).unwrap_or_default(), policy, bucket: &self.bucket }
    }

    /// The name under which a namespace's credentials for it are kept for deletions; none of the operator's own.
    #[must_use]
    pub(crate) fn kept_as(&self, namespace: &str) -> Option<String> {
        match &self.access {
            Access::Mint => None,
            Access::Copy(secret) => Some(kept_name(namespace, secret)),
            // No Secret has a name with a space in it.
            Access::Account(account) => Some(kept_name(namespace, &format!("{ACCOUNT} {}", self.account_digest(account)))),
        }
    }
}

/// The store of a pool that names `spec`.
///
/// # Errors
/// A [`Refusal`]: no store is named, or one for which no credentials may be minted.
pub fn target(spec: Option<&Storage>, own: &StorageArgs) -> Result<Target, Refusal> {
    let refuse = |reason, message: &str| Refusal { reason, message: message.to_owned() };
    // An empty environment variable is an absent one.
    let given = |text: &'_ Option<String>| text.clone().filter(|text| !text.is_empty());
    let own_target = given(&own.s3_endpoint).zip(given(&own.s3_bucket)).map(|(endpoint, bucket)| Target {
        endpoint,
        bucket,
        region: own.s3_region.clone(),
        prefix: own.s3_prefix.clone(),
        shared: true,
        access: Access::Mint,
        cluster: own.cluster.clone().unwrap_or_default(),
    });
    let Some(spec) = spec else {
        let target = own_target.ok_or_else(|| {
            refuse(
                PoolReason::StorageNotConfigured,
                "No object store: write spec.storage, or install Dormouse with storage.endpoint and storage.bucket.",
            )
        })?;
        return match own.storage_credentials {
            CredentialsSource::Sts => Ok(target),
            CredentialsSource::Static => Err(refuse(
                PoolReason::StorageCredentialsInvalid,
                "This installation mints no storage credentials: write spec.storage with a credentialsSecretRef or webIdentity.",
            )),
        };
    };
    if reqwest::Url::parse(&spec.endpoint).is_ok_and(|url| url.host_str().is_some_and(is_metadata_host)) {
        return Err(refuse(PoolReason::InvalidSpec, "storage.endpoint is where a cloud keeps metadata: write the URL of an object store."));
    }
    let same = own_target
        .filter(|own| (&own.endpoint, &own.bucket, &own.region, &own.prefix) == (&spec.endpoint, &spec.bucket, &spec.region, &spec.prefix));
    let access = match (&spec.credentials_secret_ref, &spec.web_identity, &same, own.storage_credentials) {
        (Some(_), Some(_), _, _) => {
            return Err(refuse(
                PoolReason::InvalidSpec,
                "spec.storage has two sources of credentials: write credentialsSecretRef or webIdentity.",
            ));
        }
        (Some(secret), None, _, _) => Access::Copy(secret.name.clone()),
        (None, Some(identity), _, _) => Access::Account(Account::new(identity, spec)?),
        (None, None, Some(_), CredentialsSource::Sts) => Access::Mint,
        (None, None, _, _) => {
            return Err(refuse(
                PoolReason::StorageCredentialsInvalid,
                "spec.storage needs its own credentials: write credentialsSecretRef: {name: …}, a Secret with accessKeyId and secretAccessKey that reach this namespace's prefix only; or webIdentity: {roleArn: …, audience: …}, a role for this namespace's ServiceAccount dormouse-storage.",
            ));
        }
    };
    Ok(Target {
        endpoint: spec.endpoint.clone(),
        bucket: spec.bucket.clone(),
        region: spec.region.clone(),
        prefix: spec.prefix.clone(),
        shared: same.is_some(),
        access,
        cluster: own.cluster.clone().unwrap_or_default(),
    })
}

/// What to say of a pool that stores in `now`, when its sessions are elsewhere: an upgrade has given the operator another store.
#[must_use]
pub fn misplaced(pool: &KernelPool, now: &StoredIn) -> Option<String> {
    let stored = pool.status.as_ref()?.stored_in.as_ref().filter(|stored| *stored != now)?;
    let place = |place: &StoredIn| format!("bucket `{}` under the prefix `{}`", place.bucket, place.prefix);
    Some(format!(
        "Sessions of KernelPool {} are stored in {}. It now says {}, where they would not be found, so nothing of it is changed and none of its \
         sessions is deleted. Name the former again: for the operator (storage.bucket and storage.prefix of the chart), or in spec.storage of \
         this pool, with a credentialsSecretRef or webIdentity. Another pool may store at the new place.",
        pool.name_any(),
        place(stored),
        place(now)
    ))
}

/// The role that the operator has at the service of its own store.
pub(crate) fn role(own: &StorageArgs, target: &Target) -> Role {
    Role {
        endpoint: own.sts_endpoint.clone().unwrap_or_else(|| sts::endpoint_of(&target.endpoint, &target.region)),
        region: target.region.clone(),
        arn: own.storage_role_arn.clone(),
    }
}

/// Endpoint, bucket, region.
type StoreKey = (String, String, String);

/// The operator's own access to object stores, for deletions.
///
/// A namespace that is deleted loses its Secrets before its sessions are gone. So what sessions are stored with is kept, in the operator's namespace, which
/// tenants do not read, until nothing is stored with it any more.
#[derive(Default)]
pub struct Stores {
    open: Mutex<HashMap<StoreKey, Arc<dyn SnapshotStore>>>,
    /// Digests of what is kept, by the name of the Secret there.
    kept: Mutex<HashMap<String, String>>,
    /// The uids of pools that have nothing stored any more and are about to go, though others may see them still.
    going: Mutex<HashSet<String>>,
    /// What it has got as ServiceAccounts of tenants.
    pub accounts: Accounts,
    system_namespace: String,
}

impl std::fmt::Debug for Stores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stores")
    }
}

/// A store, and the prefix of the keys in it.
pub struct Opened {
    /// The store.
    pub store: Arc<dyn SnapshotStore>,
    /// Before every key.
    pub prefix: String,
}

/// The name under which the Secret `name` of a namespace is kept.
fn kept_name(namespace: &str, name: &str) -> String {
    let digest = hex::encode(Sha256::digest(format!("{namespace}/{name}").as_bytes()));
    format!("dormouse-kept-{}", digest.get(..32).unwrap_or(&digest))
}

impl Stores {
    /// None is open. `system_namespace` is the operator's own.
    #[must_use]
    pub fn new(system_namespace: String) -> Self {
        Self { accounts: Accounts::new(system_namespace.clone()), system_namespace, ..Self::default() }
    }

    /// Keeps the credentials with which a namespace stores in `target`. Whether none were kept for it before.
    ///
    /// # Errors
    /// The API server refuses it or cannot be reached.
    pub async fn keep(&self, client: &Client, namespace: &str, target: &Target, credentials: &Credentials) -> Result<bool, StorageError> {
        let Some(kept) = target.kept_as(namespace) else { return Ok(false) };
        let data = data_of(credentials);
        let digest = hex::encode(Sha256::digest(data.values().flat_map(|value| value.0.iter().copied().chain([0])).collect::<Vec<u8>>()));
        if self.kept.lock().unwrap_or_else(PoisonError::into_inner).get(&kept) == Some(&digest) {
            return Ok(false);
        }
        let api: Api<Secret> = Api::namespaced(client.clone(), &self.system_namespace);
        let before = api.get_opt(&kept).await?;
        let is_new = before.is_none();
        if before.is_none_or(|have| have.data.as_ref() != Some(&data)) {
            let name = if let Access::Copy(name) = &target.access { name } else { ACCOUNT };
            let of = BTreeMap::from([(KEPT_OF.to_owned(), format!("{namespace}/{name}"))]);
            let labels = BTreeMap::from([(MANAGED_BY.to_owned(), MANAGER.to_owned())]);
            let metadata = ObjectMeta {
                name: Some(kept.clone()),
                namespace: Some(self.system_namespace.clone()),
                annotations: Some(of),
                labels: Some(labels),
                ..ObjectMeta::default()
            };
            apply(client, &Secret { metadata, data: Some(data), ..Secret::default() }).await?;
        }
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).insert(kept, digest);
        Ok(is_new)
    }

    /// Notes that a pool is about to go. Answers all that are, of those that are `there`.
    pub fn note_going(&self, pool: Option<String>, there: &HashSet<String>) -> HashSet<String> {
        let mut going = self.going.lock().unwrap_or_else(PoisonError::into_inner);
        going.retain(|uid| there.contains(uid));
        going.extend(pool);
        going.clone()
    }

    /// Forgets what is kept of a namespace, but for what is kept under one of these names.
    ///
    /// # Errors
    /// The API server refuses it or cannot be reached.
    pub async fn forget(&self, client: &Client, namespace: &str, but: &HashSet<String>) -> Result<(), StorageError> {
        let api: Api<Secret> = Api::namespaced(client.clone(), &self.system_namespace);
        let made_here = ListParams::default().labels(&format!("{MANAGED_BY}={MANAGER}"));
        for secret in api.list_metadata(&made_here).await?.items {
            let (kept, of) = (secret.name_any(), secret.annotations().get(KEPT_OF).and_then(|of| of.split_once('/')));
            if but.contains(&kept) || of.is_none_or(|(of, _)| of != namespace) {
                continue;
            }
            self.kept.lock().unwrap_or_else(PoisonError::into_inner).remove(&kept);
            self.accounts.forget(&kept);
            match api.delete(&kept, &DeleteParams::default()).await {
                Err(kube::Error::Api(answer)) if answer.is_not_found() => {}
                other => drop(other?),
            }
        }
        Ok(())
    }

    /// The credentials in the Secret `name` of a namespace; those that were kept, when it is gone.
    async fn credentials(&self, client: &Client, namespace: &str, name: &str) -> Result<Credentials, StorageError> {
        let refusal = match read_secret(client, namespace, name).await {
            Err(refusal @ StorageError::Refused(_)) => refusal,
            other => return other,
        };
        let api: Api<Secret> = Api::namespaced(client.clone(), &self.system_namespace);
        let kept = api.get_opt(&kept_name(namespace, name)).await?;
        kept.as_ref().and_then(credentials_of).ok_or(refusal)
    }

    /// Opens the store where sessions of a pool that names `spec` are.
    ///
    /// # Errors
    /// There is none, or no credentials for it.
    pub async fn open(&self, client: &Client, own: &StorageArgs, namespace: &str, spec: Option<&Storage>) -> Result<Opened, StorageError> {
        let target = target(spec, own).map_err(StorageError::Refused)?;
        self.open_at(client, own, namespace, &target).await
    }

    /// Opens the store of a namespace's pool.
    pub(crate) async fn open_at(
        &self,
        client: &Client,
        own: &StorageArgs,
        namespace: &str,
        target: &Target,
    ) -> Result<Opened, StorageError> {
        let credentials = match &target.access {
            Access::Mint => return Ok(self.open_own(own, target)),
            Access::Copy(name) => self.credentials(client, namespace, name).await?,
            Access::Account(account) => self.accounts.for_deletions(client, own, &target.place_of(namespace), account).await?,
        };
        Ok(open(target, CredentialSource::Static(credentials)))
    }

    /// Opens a store with the operator's own credentials.
    fn open_own(&self, own: &StorageArgs, target: &Target) -> Opened {
        let credentials = match &own.s3_web_identity_token_file {
            Some(token_file) => CredentialSource::Role { role: role(own, target), token_file: token_file.clone() },
            None => CredentialSource::Folder(own.s3_credentials_dir.clone().unwrap_or_default()),
        };
        let key = (target.endpoint.clone(), target.bucket.clone(), target.region.clone());
        let mut stores = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if stores.len() >= STORES_MAX {
            stores.clear();
        }
        let store = stores.entry(key).or_insert_with(|| open(target, credentials).store).clone();
        Opened { store, prefix: target.prefix.clone() }
    }
}

fn open(target: &Target, credentials: CredentialSource) -> Opened {
    let options =
        S3Options { endpoint: target.endpoint.clone(), region: target.region.clone(), bucket: target.bucket.clone(), credentials };
    Opened { store: Arc::new(S3::new(&options)), prefix: target.prefix.clone() }
}

#[cfg(test)]
#[path = "storage_tests.rs"]
mod tests;
