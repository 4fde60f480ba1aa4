//! Storage credentials: minted with a session policy, each with its own rights (as the operator in its own store, as the ServiceAccount of the namespace in
//! another), or copied from a Secret that an administrator has made. Those of pools and brokers are in Secrets; those for one session are in none.

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use dormouse_control::{condition::rfc3339, reason::PoolReason};
use dormouse_crds::{
    labels::{BROKER, POOL},
    pool::{Isolation, KernelPool},
};
use dormouse_erasure::clusters::TenantPrefix;
use dormouse_store::{
    Credentials,
    credentials::read_token,
    rights::{self, Rights},
    sts::Identity,
};
use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{Api, ResourceExt as _, api::ObjectMeta};
use sha2::{Digest as _, Sha256};

use crate::{
    account::{Account, reason_of},
    apply::apply,
    checked::{Found, Subject},
    config::StorageArgs,
    context::Context,
    issued::{MADE_FOR, RENEW_AT, good_until, renew_at},
    refusal::Refusal,
    restricted,
    storage::{self, Access, StorageError, Target, credentials_of, data_of, read_secret},
};

/// How often it is looked whether the original of a copied Secret has changed.
const COPY_AGAIN: Duration = Duration::from_secs(60);

/// What credentials reach, and where.
#[derive(Debug, Clone, Copy)]
pub struct Reach<'a> {
    /// Namespace: the tenant.
    pub namespace: &'a str,
    /// What they reach there.
    pub rights: Rights<'a>,
    /// The store.
    pub target: &'a Target,
}

/// Whose credentials, kept in a Secret.
#[derive(Debug, Clone)]
pub struct Holder<'a> {
    /// What they reach.
    pub reach: Reach<'a>,
    /// Name of the Secret.
    pub secret: String,
    /// Whose death is the Secret's.
    pub owner: Option<OwnerReference>,
}

/// Credentials, and when others are to be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Minted {
    /// The credentials.
    pub credentials: Credentials,
    /// When they are due.
    pub due: Timestamp,
}

/// Name of the Secret with the storage credentials that a pool's pods mount: of a dedicated pool those of its reader, since the others have none.
#[must_use]
pub fn pool_secret(pool: &str, isolation: Isolation) -> String {
    match isolation {
        Isolation::Shared => format!("dormouse-storage-{pool}"),
        Isolation::Dedicated => format!("dormouse-reader-{pool}"),
    }
}

/// Name of the Secret with the credentials that are minted for a broker.
#[must_use]
pub fn broker_secret(broker: &str) -> String {
    format!("{broker}-broker-storage")
}

impl<'a> Holder<'a> {
    /// The pods of a pool that mount credentials.
    #[must_use]
    pub fn pool(namespace: &'a str, pool: &'a str, isolation: Isolation, target: &'a Target, owner: Option<OwnerReference>) -> Self {
        let rights = match isolation {
            Isolation::Shared => Rights::Kernel { pool },
            Isolation::Dedicated => Rights::Reader { pool },
        };
        Self { reach: Reach { namespace, rights, target }, secret: pool_secret(pool, isolation), owner }
    }

    /// The pods of a ToolBroker.
    #[must_use]
    pub fn broker(namespace: &'a str, name: &'a str, target: &'a Target, owner: Option<OwnerReference>) -> Self {
        Self { reach: Reach { namespace, rights: Rights::Broker { name }, target }, secret: broker_secret(name), owner }
    }
}

impl Reach<'_> {
    fn policy(&self) -> String {
        rights::policy(&self.target.bucket, &self.target.prefix, self.namespace, self.rights)
    }

    /// Names the store and the rights: credentials for others are made anew.
    fn made_for(&self) -> String {
        let mut text = [self.target.endpoint.as_str(), &self.target.region, &self.policy()].join("\n");
        if let Access::Account(account) = &self.target.access {
            text.extend(["\n", &self.target.account_digest(account)]);
        }
        hex::encode(Sha256::digest(text.as_bytes())).get(..16).unwrap_or_default().to_owned()
    }
}

/// Makes sure that the holder's Secret holds credentials that are not due; `keep`: they are kept for deletions, too. The answer is when they will be.
///
/// # Errors
/// [`StorageError::Refused`] when somebody must change something.
pub async fn ensure(context: &Context, holder: &Holder<'_>, keep: bool) -> Result<Timestamp, StorageError> {
    let (secret, wanted) = (holder.secret.as_str(), format!("{holder:?} {keep}"));
    let original = if let Access::Copy(name) = &holder.reach.target.access { Some(name.as_str()) } else { None };
    let secrets: Vec<&str> = [secret].into_iter().chain(original).collect();
    let subject = Subject { namespace: holder.reach.namespace, secrets: &secrets, holder: secret, wanted: &wanted };
    let due = context.checked.due(subject, look(context, holder, keep)).await?;
    Ok(if original.is_some() { due.min(renew_at(Timestamp::now(), COPY_AGAIN)) } else { due })
}

/// Credentials that are kept in no Secret: for one session. Those of a Secret that an administrator has made nobody can narrow.
///
/// # Errors
/// [`StorageError::Refused`] when somebody must change something.
pub async fn fresh(context: &Context, reach: &Reach<'_>) -> Result<Minted, StorageError> {
    match &reach.target.access {
        Access::Copy(name) => {
            let credentials = read_secret(&context.client, reach.namespace, name).await?;
            Ok(Minted { credentials, due: renew_at(Timestamp::now(), COPY_AGAIN) })
        }
        Access::Mint | Access::Account(_) => minted(context, reach, Timestamp::now()).await,
    }
}

/// The same by what the API server has.
async fn look(context: &Context, holder: &Holder<'_>, keep: bool) -> Result<Found, StorageError> {
    let reach = &holder.reach;
    let api: Api<Secret> = Api::namespaced(context.client.clone(), reach.namespace);
    let current = api.get_opt(&holder.secret).await?;
    let now = Timestamp::now();
    match &reach.target.access {
        Access::Copy(name) => {
            let credentials = read_secret(&context.client, reach.namespace, name).await?;
            if keep {
                self::keep(context, reach, &credentials).await?;
            }
            let secret = secret_of(holder, &credentials, &format!("copy of {name}"), None);
            if current.as_ref().is_none_or(|current| current.data != secret.data) {
                apply(&context.client, &secret).await?;
            }
            Ok(Found::Good(Timestamp::MAX))
        }
        Access::Mint => issue(context, holder, current.as_ref(), now).await.map(Found::Good),
        Access::Account(account) => {
            let kept_due = if keep { keep_assumed(context, reach, account).await } else { Ok(Timestamp::MAX) };
            match (kept_due, current.as_ref().and_then(|secret| still_good(secret, &reach.made_for(), now))) {
                // The pods have what they need, and what was kept before may serve for longer.
                (Err(error), Some(due)) => {
                    tracing::warn!(namespace = reach.namespace, %error, "what deletions need is not kept anew yet");
                    Ok(Found::Unfinished(due))
                }
                (kept_due, _) => Ok(Found::Good(kept_due?.min(issue(context, holder, current.as_ref(), now).await?))),
            }
        }
    }
}

/// Keeps what the operator has itself as the ServiceAccount of the namespace, for deletions. The answer is when it is due.
async fn keep_assumed(context: &Context, reach: &Reach<'_>, account: &Account) -> Result<Timestamp, StorageError> {
    let own = &context.config.storage;
    let assumed = context.stores.accounts.assume(&context.client, own, &reach.target.place_of(reach.namespace), account).await?;
    keep(context, reach, &assumed.credentials).await?;
    Ok(assumed.due)
}

/// Keeps credentials for deletions. Where others are kept than before, those go that no pool names any more.
async fn keep(context: &Context, reach: &Reach<'_>, credentials: &Credentials) -> Result<(), StorageError> {
    if context.stores.keep(&context.client, reach.namespace, reach.target, credentials).await? {
        forget_unnamed(context, reach.namespace, None).await?;
    }
    Ok(())
}

/// Forgets the credentials that are kept of a namespace and that none of its pools names; `gone` is the uid of one that is to go. Of several that go at
/// once the last one that gets here sees all others.
///
/// # Errors
/// The API server refuses it or cannot be reached.
pub async fn forget_unnamed(context: &Context, namespace: &str, gone: Option<String>) -> Result<(), StorageError> {
    // A cache that is not filled yet names nothing. An error means that this process ends.
    let _ = context.caches.pools.wait_until_ready().await;
    let pools = context.caches.pools.state();
    let going = context.stores.note_going(gone, &pools.iter().filter_map(|pool| pool.uid()).collect());
    let goes = |pool: &KernelPool| pool.uid().is_some_and(|uid| going.contains(&uid));
    let stay = pools.iter().filter(|pool| pool.namespace().as_deref() == Some(namespace) && !goes(pool));
    let targets = stay.filter_map(|pool| storage::target(pool.spec.storage.as_ref(), &context.config.storage).ok());
    let named: HashSet<String> = targets.filter_map(|target| target.kept_as(namespace)).collect();
    context.stores.forget(&context.client, namespace, &named).await?;
    // A pool whose spec could not be read names nothing, and keeps it again when it can.
    context.checked.forget(namespace);
    Ok(())
}

/// Makes sure that the Secret holds minted credentials. The answer is when they are due.
async fn issue(context: &Context, holder: &Holder<'_>, current: Option<&Secret>, now: Timestamp) -> Result<Timestamp, StorageError> {
    let made_for = holder.reach.made_for();
    if let Some(due) = current.and_then(|secret| still_good(secret, &made_for, now)) {
        return Ok(due);
    }
    // Also for the sessions of a dedicated pool: there is a reader before there is any of them.
    join(context, &holder.reach).await;
    let Minted { credentials, due } = minted(context, &holder.reach, now).await?;
    apply(&context.client, &secret_of(holder, &credentials, &made_for, Some(due))).await?;
    let (namespace, secret) = (holder.reach.namespace, &holder.secret);
    tracing::info!(namespace, secret, until = credentials.expiration, "storage credentials minted");
    Ok(due)
}

/// Writes the name of this cluster where the tenant's sessions are stored. Its pods would, too, but may not look whether others store there: then the next
/// sweep has to. So a failure is no more than that.
async fn join(context: &Context, reach: &Reach<'_>) {
    let place = TenantPrefix { store_prefix: reach.target.prefix.clone(), tenant: reach.namespace.to_owned() };
    let joined = async {
        let opened = context.stores.open_at(&context.client, &context.config.storage, reach.namespace, reach.target).await?;
        Ok::<(), StorageError>(place.join(&*opened.store, &reach.target.cluster).await?)
    };
    if let Err(error) = joined.await {
        tracing::debug!(namespace = reach.namespace, %error, "the name of this cluster is left to the pods to write");
    }
}

/// Short-lived credentials: as the ServiceAccount of the namespace where its pool names a role of that, else as the operator.
async fn minted(context: &Context, reach: &Reach<'_>, now: Timestamp) -> Result<Minted, StorageError> {
    let validity = context.config.storage.credentials_validity();
    let credentials = match &reach.target.access {
        Access::Account(account) => account.assume(&context.client, reach.namespace, &reach.policy(), validity).await?,
        _ => mint(&context.config.storage, reach, validity).await?,
    };
    Ok(Minted { credentials, due: renew_at(now, validity) })
}

async fn mint(own: &StorageArgs, reach: &Reach<'_>, validity: Duration) -> Result<Credentials, StorageError> {
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
    storage::role(own, reach.target).assume(&identity, Some(&reach.policy()), validity).await.map_err(|error| {
        let reason = reason_of(&error);
        refuse(reason, format!("{reason}: {error}"))
    })
}

fn still_good(secret: &Secret, made_for: &str, now: Timestamp) -> Option<Timestamp> {
    good_until(secret, made_for, now).filter(|_| credentials_of(secret).is_some())
}

fn secret_of(holder: &Holder<'_>, credentials: &Credentials, made_for: &str, due: Option<Timestamp>) -> Secret {
    let mut annotations = BTreeMap::from([(MADE_FOR.to_owned(), made_for.to_owned())]);
    annotations.extend(due.map(|due| (RENEW_AT.to_owned(), rfc3339(due))));
    let labels = match holder.reach.rights {
        Rights::Kernel { pool } | Rights::Session { pool, .. } | Rights::Reader { pool } => restricted::labels("kernel", POOL, pool),
        Rights::Broker { name } => restricted::labels("broker", BROKER, name),
    };
    Secret {
        metadata: ObjectMeta {
            name: Some(holder.secret.clone()),
            namespace: Some(holder.reach.namespace.to_owned()),
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
