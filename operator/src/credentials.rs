//! The Secrets with the storage credentials of pools and brokers: minted (STS AssumeRole with a session policy), each with its own rights, or copied from
//! one that an administrator has made.

use std::{collections::BTreeMap, time::Duration};

use dormouse_control::{condition::rfc3339, reason::PoolReason};
use dormouse_crds::labels::{BROKER, POOL};
use dormouse_erasure::clusters::TenantPrefix;
use dormouse_store::{
    Credentials,
    credentials::read_token,
    rights::{self, Rights},
    sts::{DURATION_MIN, Identity, StsError},
};
use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{Api, api::ObjectMeta};
use sha2::{Digest as _, Sha256};

use crate::{
    apply::apply,
    config::StorageArgs,
    context::Context,
    issued::{MADE_FOR, RENEW_AT, good_until, renew_at},
    refusal::Refusal,
    restricted,
    storage::{self, Access, StorageError, Target, credentials_of, data_of, read_secret},
};

/// How often a copied Secret is compared with its original.
const COPY_AGAIN: Duration = Duration::from_secs(60);

/// Whose credentials, and for what.
#[derive(Debug, Clone)]
pub struct Holder<'a> {
    /// Namespace: the tenant.
    pub namespace: &'a str,
    /// What they reach there.
    pub rights: Rights<'a>,
    /// The store.
    pub target: &'a Target,
    /// Whose death is the Secret's.
    pub owner: Option<OwnerReference>,
}

/// Name of the Secret with a pool's storage credentials.
#[must_use]
pub fn storage_secret(pool: &str) -> String {
    format!("dormouse-storage-{pool}")
}

/// Name of the Secret with the credentials that are minted for a broker.
#[must_use]
pub fn broker_secret(broker: &str) -> String {
    format!("{broker}-broker-storage")
}

impl Holder<'_> {
    fn secret(&self) -> String {
        match self.rights {
            Rights::Kernel { pool } => storage_secret(pool),
            Rights::Broker { name } => broker_secret(name),
        }
    }

    fn policy(&self) -> String {
        rights::policy(&self.target.bucket, &self.target.prefix, self.namespace, self.rights)
    }

    /// Names the store and the rights: credentials for others are made anew.
    fn made_for(&self) -> String {
        let text = [self.target.endpoint.as_str(), &self.target.region, &self.policy()].join("\n");
        hex::encode(Sha256::digest(text.as_bytes())).get(..16).unwrap_or_default().to_owned()
    }
}

/// Makes sure that the holder's Secret holds credentials that are not due; `keep`: they are kept for deletions, too. The answer is when they will be.
///
/// # Errors
/// [`StorageError::Refused`] when somebody must change something.
pub async fn ensure(context: &Context, holder: &Holder<'_>, keep: bool) -> Result<Timestamp, StorageError> {
    let api: Api<Secret> = Api::namespaced(context.client.clone(), holder.namespace);
    let current = api.get_opt(&holder.secret()).await?;
    let now = Timestamp::now();
    match &holder.target.access {
        Access::Copy(name) => {
            let credentials = read_secret(&context.client, holder.namespace, name).await?;
            if keep {
                context.stores.keep(&context.client, holder.namespace, name, &credentials).await?;
            }
            let due = renew_at(now, COPY_AGAIN);
            let secret = secret_of(holder, &credentials, &format!("copy of {name}"), None);
            if current.as_ref().is_none_or(|current| current.data != secret.data) {
                apply(&context.client, &secret).await?;
            }
            Ok(due)
        }
        Access::Mint => {
            let made_for = holder.made_for();
            if let Some(due) = current.as_ref().and_then(|secret| still_good(secret, &made_for, now)) {
                return Ok(due);
            }
            let validity = Duration::from_secs(context.config.storage.storage_credentials_seconds).max(DURATION_MIN);
            join(context, holder).await;
            let credentials = mint(&context.config.storage, holder, validity).await?;
            let due = renew_at(now, validity);
            apply(&context.client, &secret_of(holder, &credentials, &made_for, Some(due))).await?;
            tracing::info!(
                namespace = holder.namespace,
                secret = holder.secret(),
                until = credentials.expiration,
                "storage credentials minted"
            );
            Ok(due)
        }
    }
}

/// Writes the name of this cluster where the tenant's sessions are stored. Its pods would, too, but may not look whether others store there: then the next
/// sweep has to. So a failure is no more than that.
async fn join(context: &Context, holder: &Holder<'_>) {
    let place = TenantPrefix { store_prefix: holder.target.prefix.clone(), tenant: holder.namespace.to_owned() };
    let opened = context.stores.open_own(&context.config.storage, holder.target);
    if let Err(error) = place.join(&*opened.store, &holder.target.cluster).await {
        tracing::debug!(namespace = holder.namespace, %error, "the name of this cluster is left to the pods to write");
    }
}

async fn mint(own: &StorageArgs, holder: &Holder<'_>, validity: Duration) -> Result<Credentials, StorageError> {
    let refuse = |reason, message| StorageError::Refused(Refusal { reason, message });
    let read = match (&own.s3_web_identity_token_file, &own.s3_credentials_dir) {
        (Some(file), _) => read_token(file),
        (None, Some(folder)) => Credentials::read(folder).map(Identity::Key),
        (None, None) => {
            let message = "The operator has no storage credentials: install Dormouse with storage.existingSecret or storage.webIdentity.";
            return Err(refuse(PoolReason::StorageCredentialsInvalid, message.to_owned()));
        }
    };
    let identity = read.map_err(|error| refuse(PoolReason::StorageCredentialsInvalid, error.to_string()))?;
    storage::role(own, holder.target).assume(&identity, Some(&holder.policy()), validity).await.map_err(|error| {
        let reason = match &error {
            StsError::Refused { .. } => PoolReason::StorageCredentialsInvalid,
            _ => PoolReason::StorageUnavailable,
        };
        refuse(reason, format!("{reason}: {error}"))
    })
}

fn still_good(secret: &Secret, made_for: &str, now: Timestamp) -> Option<Timestamp> {
    good_until(secret, made_for, now).filter(|_| credentials_of(secret).is_some())
}

fn secret_of(holder: &Holder<'_>, credentials: &Credentials, made_for: &str, due: Option<Timestamp>) -> Secret {
    let mut annotations = BTreeMap::from([(MADE_FOR.to_owned(), made_for.to_owned())]);
    annotations.extend(due.map(|due| (RENEW_AT.to_owned(), rfc3339(due))));
    let labels = match holder.rights {
        Rights::Kernel { pool } => restricted::labels("kernel", POOL, pool),
        Rights::Broker { name } => restricted::labels("broker", BROKER, name),
    };
    Secret {
        metadata: ObjectMeta {
            name: Some(holder.secret()),
            namespace: Some(holder.namespace.to_owned()),
            labels: Some(labels),
            annotations: Some(annotations),
            owner_references: holder.owner.clone().map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        data: Some(data_of(credentials)),
        ..Secret::default()
    }
}

#[cfg(test)]
#[path = "credentials_tests.rs"]
mod tests;
