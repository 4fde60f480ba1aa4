//! The ServiceAccount of a tenant's namespace that has a role at a store of the tenant's, whose STS trusts the cluster: the operator asks the API
//! server for a short-lived token of it, and takes the role with that, for the tenant's pods and for its own deletions.
//!
//! Its own identity has no part in it: whoever names a bucket or a role would be lent its rights. The token stands for the tenant, so that a store
//! gives for it what the tenant has there, and nothing else. Hence one name of a ServiceAccount, and the namespace of the pool: a pool cannot choose
//! whom the operator is to be.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use dormouse_control::reason::PoolReason;
use dormouse_crds::pool::{Storage, WebIdentity};
use dormouse_service::url;
use dormouse_store::{
    Credentials,
    sts::{self, Identity, Role, StsError},
};
use jiff::Timestamp;
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::{Secret, ServiceAccount},
};
use kube::{Api, Client, api::PostParams};

use crate::{
    config::StorageArgs,
    issued::renew_at,
    refusal::Refusal,
    storage_secret::{StorageError, credentials_of},
};

/// The name of the ServiceAccount, in every namespace. The chart lets the operator ask for tokens of no other.
pub const ACCOUNT: &str = "dormouse-storage";
/// How long a token lives: the least that an API server gives. It is used at once.
const TOKEN_SECONDS: i64 = 600;

/// What the ServiceAccount of a pool's namespace has at its store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The role, and who gives it.
    pub role: Role,
    /// Whom its token is meant for.
    pub audience: String,
}

impl Account {
    /// That of a pool that names `storage`. What CEL refuses is refused again: an object may be older than the rule.
    ///
    /// # Errors
    /// A [`Refusal`]: nobody can be asked like that.
    pub fn new(identity: &WebIdentity, storage: &Storage) -> Result<Self, Refusal> {
        let invalid = |message: &str| Refusal { reason: PoolReason::InvalidSpec, message: message.to_owned() };
        if identity.audience.is_empty() {
            return Err(invalid("storage.webIdentity.audience is empty: write whom the token is meant for, such as sts.amazonaws.com."));
        }
        let endpoint = identity.sts_endpoint.clone().unwrap_or_else(|| sts::endpoint_of(&storage.endpoint, &storage.region));
        if url::plain(&endpoint).is_none() {
            return Err(invalid(
                "storage.webIdentity.stsEndpoint is no place for a token: write the http:// or https:// URL of an STS service, without user and \
                 query, and none where a cloud keeps metadata.",
            ));
        }
        let role = Role { endpoint, region: storage.region.clone(), arn: identity.role_arn.clone() };
        Ok(Self { role, audience: identity.audience.clone() })
    }

    /// Credentials for `validity`, with the rights that the role gives to the ServiceAccount of `namespace`, as far as `policy` gives them, too.
    ///
    /// # Errors
    /// [`StorageError::Refused`]: there is no such ServiceAccount, or its token gets no credentials.
    pub async fn assume(&self, client: &Client, namespace: &str, policy: &str, validity: Duration) -> Result<Credentials, StorageError> {
        let token = self.token(client, namespace).await?;
        let assumed = self.role.assume(&Identity::Token(token), Some(policy), validity).await;
        assumed.map_err(|error| {
            let reason = reason_of(&error);
            let what = match error {
                StsError::Refused { .. } => format!(
                    "let the role trust system:serviceaccount:{namespace}:{ACCOUNT} with the audience {}, or correct storage.webIdentity",
                    self.audience
                ),
                _ => "look whether it is up, or correct storage.webIdentity.stsEndpoint".to_owned(),
            };
            StorageError::Refused(Refusal { reason, message: format!("{reason}: {error}: {what}.") })
        })
    }

    async fn token(&self, client: &Client, namespace: &str) -> Result<String, StorageError> {
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
        let spec = TokenRequestSpec {
            audiences: vec![self.audience.clone()],
            expiration_seconds: Some(TOKEN_SECONDS),
            ..TokenRequestSpec::default()
        };
        let request = TokenRequest { spec, ..TokenRequest::default() };
        let refuse = |message: String| StorageError::Refused(Refusal { reason: PoolReason::StorageCredentialsInvalid, message });
        match accounts.create_token_request(ACCOUNT, &PostParams::default(), &request).await {
            Ok(answer) => answer.status.map(|status| status.token).filter(|token| !token.is_empty()).ok_or_else(|| {
                refuse(format!("The API server answers without a token of the ServiceAccount {ACCOUNT}: try another audience."))
            }),
            Err(kube::Error::Api(answer)) if answer.is_not_found() => Err(refuse(format!(
                "ServiceAccount {ACCOUNT} does not exist: make it in the namespace {namespace}, and let the role of storage.webIdentity trust it."
            ))),
            // Also of a namespace that is being deleted, which gets no new objects and no tokens.
            Err(kube::Error::Api(answer)) if answer.is_forbidden() => Err(refuse(format!(
                "The operator gets no token of the ServiceAccount {ACCOUNT} in the namespace {namespace}: {}. The chart of this version lets it \
                 ask, in namespaces that are not being deleted.",
                answer.message
            ))),
            Err(kube::Error::Api(answer)) if answer.is_invalid() => Err(refuse(format!(
                "The API server makes no token of the ServiceAccount {ACCOUNT} for this audience: {}: correct storage.webIdentity.audience.",
                answer.message
            ))),
            Err(error) => Err(error.into()),
        }
    }
}

/// What a pool says when STS gives nothing.
pub(crate) fn reason_of(error: &StsError) -> PoolReason {
    match error {
        StsError::Refused { .. } => PoolReason::StorageCredentialsInvalid,
        _ => PoolReason::StorageUnavailable,
    }
}

/// What of a store is a namespace's, as the operator itself reaches it.
#[derive(Debug, Clone)]
pub struct Place<'a> {
    /// The namespace.
    pub namespace: &'a str,
    /// The name under which credentials for it are kept in the operator's namespace.
    pub kept: String,
    /// What the operator may do there.
    pub policy: String,
    /// The bucket.
    pub bucket: &'a str,
}

/// Credentials of the operator itself, as the ServiceAccount of a namespace.
#[derive(Clone, PartialEq, Eq)]
pub struct Assumed {
    /// For all that the namespace stores there.
    pub credentials: Credentials,
    /// When others are to be had.
    pub due: Timestamp,
}

/// What the operator has got for itself as ServiceAccounts of tenants, by the name under which it is kept in the operator's namespace.
#[derive(Default)]
pub struct Accounts {
    assumed: Mutex<HashMap<String, Assumed>>,
    system_namespace: String,
}

impl Accounts {
    /// There is none. `system_namespace` is the operator's own.
    #[must_use]
    pub fn new(system_namespace: String) -> Self {
        Self { system_namespace, assumed: Mutex::default() }
    }

    /// Credentials for a place. Those of before, until they are due.
    ///
    /// # Errors
    /// See [`Account::assume`].
    pub async fn assume(&self, client: &Client, own: &StorageArgs, place: &Place<'_>, account: &Account) -> Result<Assumed, StorageError> {
        let now = Timestamp::now();
        if let Some(assumed) = self.get(&place.kept).filter(|assumed| now < assumed.due) {
            return Ok(assumed);
        }
        let credentials = account.assume(client, place.namespace, &place.policy, own.credentials_validity()).await?;
        let assumed = Assumed { credentials, due: renew_at(now, own.credentials_validity()) };
        self.put(place.kept.clone(), assumed.clone(), now);
        Ok(assumed)
    }

    /// The same for deletions. A namespace that is being deleted gets no token any more: then what there was before serves, while it is good.
    pub(crate) async fn for_deletions(
        &self,
        client: &Client,
        own: &StorageArgs,
        place: &Place<'_>,
        account: &Account,
    ) -> Result<Credentials, StorageError> {
        let refusal = match self.assume(client, own, place, account).await {
            Err(StorageError::Refused(refusal)) => refusal,
            other => return Ok(other?.credentials),
        };
        let (kept, now) = (place.kept.as_str(), Timestamp::now());
        if let Some(assumed) = self.get(kept).filter(|assumed| !is_over(&assumed.credentials, now)) {
            return Ok(assumed.credentials);
        }
        let api: Api<Secret> = Api::namespaced(client.clone(), &self.system_namespace);
        let found = api.get_opt(kept).await?.as_ref().and_then(credentials_of);
        found.filter(|credentials| !is_over(credentials, now)).ok_or_else(|| {
            let message = format!(
                "{} What was kept of its credentials is no longer good. If the ServiceAccount cannot come back: put the accessKeyId and the \
                 secretAccessKey of somebody who may delete in bucket `{}`, and nothing else, into the Secret {kept} of the namespace {}.",
                refusal.message, place.bucket, self.system_namespace
            );
            StorageError::Refused(Refusal { reason: refusal.reason, message })
        })
    }

    /// Forgets what is kept under a name.
    pub(crate) fn forget(&self, kept: &str) {
        self.assumed.lock().unwrap_or_else(PoisonError::into_inner).remove(kept);
    }

    fn get(&self, kept: &str) -> Option<Assumed> {
        self.assumed.lock().unwrap_or_else(PoisonError::into_inner).get(kept).cloned()
    }

    /// Takes it in, and drops what is of no use any more: of a pool that goes without a session nobody forgets anything.
    fn put(&self, kept: String, new: Assumed, now: Timestamp) {
        let mut assumed = self.assumed.lock().unwrap_or_else(PoisonError::into_inner);
        assumed.retain(|_, assumed| !is_over(&assumed.credentials, now));
        assumed.insert(kept, new);
    }
}

/// Whether they are good no more.
fn is_over(credentials: &Credentials, now: Timestamp) -> bool {
    let end = credentials.expiration.as_ref().and_then(|end| end.parse::<Timestamp>().ok());
    end.is_some_and(|end| end <= now)
}

#[cfg(test)]
#[path = "account_tests.rs"]
mod tests;
