//! Kubernetes tokens: TokenReview says whose they are, SubjectAccessReview what they may.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec},
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;

use super::{Access, AuthError, Authenticator, CREDENTIAL_BYTES_MAX, Caller, cache::TtlCache};

/// How long a good token is not asked about again: it stays good this long after it was revoked.
pub const TOKEN_TTL: Duration = Duration::from_secs(10);
/// How long a bad token is not asked about again.
pub const TOKEN_REFUSED_TTL: Duration = Duration::from_secs(3);
/// How long a right is not asked about again.
pub const ACCESS_TTL: Duration = Duration::from_secs(10);
/// How long a refused right is not asked about again.
pub const ACCESS_REFUSED_TTL: Duration = Duration::from_secs(2);
/// Good tokens that are remembered.
pub const TOKENS_MAX: usize = 10_000;
/// Bad tokens that are remembered, apart from the good ones: a flood of them forgets only others of them.
pub const TOKENS_REFUSED_MAX: usize = 1_000;
/// New tokens that the API server is asked about at once.
pub const REVIEWS_AT_ONCE_MAX: usize = 64;
/// How long a new token may wait until it is asked about.
pub const REVIEW_WAIT_MAX: Duration = Duration::from_secs(5);
/// Rights that are remembered.
pub const ACCESSES_MAX: usize = 50_000;
/// Refused rights that are remembered.
pub const ACCESSES_REFUSED_MAX: usize = 5_000;
/// How long the API server may take.
pub const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);

/// Asks the API server, and remembers its answers for a short time.
pub struct KubernetesAuthenticator {
    client: Client,
    audience: String,
    /// By digest: a token is not kept.
    tokens: TtlCache<[u8; 32], Caller>,
    refused_tokens: TtlCache<[u8; 32], ()>,
    reviews: Semaphore,
    accesses: TtlCache<(Caller, Access), ()>,
    refused_accesses: TtlCache<(Caller, Access), ()>,
}

impl KubernetesAuthenticator {
    /// Takes tokens that are meant for `audience`.
    #[must_use]
    pub fn new(client: Client, audience: String) -> Self {
        Self {
            client,
            audience,
            tokens: TtlCache::new(TOKENS_MAX),
            refused_tokens: TtlCache::new(TOKENS_REFUSED_MAX),
            reviews: Semaphore::new(REVIEWS_AT_ONCE_MAX),
            accesses: TtlCache::new(ACCESSES_MAX),
            refused_accesses: TtlCache::new(ACCESSES_REFUSED_MAX),
        }
    }

    async fn review_token(&self, token: &str) -> Result<Option<Caller>, AuthError> {
        let spec = TokenReviewSpec { token: Some(token.to_owned()), audiences: Some(vec![self.audience.clone()]) };
        let review = TokenReview { spec, ..TokenReview::default() };
        let status = bounded(Api::all(self.client.clone()).create(&PostParams::default(), &review)).await?.status.unwrap_or_default();
        let meant_for_us = status.audiences.is_some_and(|audiences| audiences.contains(&self.audience));
        if status.authenticated != Some(true) || !meant_for_us {
            return Ok(None);
        }
        let user = status.user.unwrap_or_default();
        Ok(Some(Caller {
            user: user.username.unwrap_or_default(),
            uid: user.uid.unwrap_or_default(),
            groups: user.groups.unwrap_or_default(),
            extra: user.extra.unwrap_or_default().into_iter().collect(),
            grant: None,
        }))
    }

    async fn review_access(&self, caller: &Caller, access: &Access) -> Result<bool, AuthError> {
        let (resource, subresource) = match access.part.resource().split_once('/') {
            Some((resource, part)) => (resource, Some(part.to_owned())),
            None => (access.part.resource(), None),
        };
        let attributes = ResourceAttributes {
            group: Some(dormouse_crds::GROUP.to_owned()),
            version: Some(dormouse_crds::VERSION.to_owned()),
            resource: Some(resource.to_owned()),
            subresource,
            namespace: Some(access.namespace.clone()),
            name: access.name.clone(),
            verb: Some(access.verb.as_str().to_owned()),
            ..ResourceAttributes::default()
        };
        let spec = SubjectAccessReviewSpec {
            user: Some(caller.user.clone()),
            uid: Some(caller.uid.clone()),
            groups: Some(caller.groups.clone()),
            extra: Some(caller.extra.iter().cloned().collect::<BTreeMap<_, _>>()),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let reviewed = bounded(Api::all(self.client.clone()).create(&PostParams::default(), &review)).await?;
        Ok(reviewed.status.is_some_and(|status| status.allowed && status.denied != Some(true)))
    }

    /// What the API server says, or said a short time ago.
    async fn may(&self, caller: &Caller, access: &Access) -> Result<bool, AuthError> {
        let key = (caller.clone(), access.clone());
        if self.accesses.get(&key).is_some() {
            return Ok(true);
        }
        if self.refused_accesses.get(&key).is_some() {
            return Ok(false);
        }
        let allowed = self.review_access(caller, access).await?;
        if allowed {
            self.accesses.put(key, (), ACCESS_TTL);
        } else {
            self.refused_accesses.put(key, (), ACCESS_REFUSED_TTL);
        }
        Ok(allowed)
    }
}

async fn bounded<T>(review: impl Future<Output = kube::Result<T>>) -> Result<T, AuthError> {
    let reviewed = tokio::time::timeout(REVIEW_TIMEOUT, review).await.map_err(|elapsed| AuthError::Unavailable(elapsed.into()))?;
    reviewed.map_err(|error| AuthError::Unavailable(error.into()))
}

#[async_trait]
impl Authenticator for KubernetesAuthenticator {
    async fn authenticate(&self, bearer: Option<&str>) -> Result<Caller, AuthError> {
        let token = bearer.filter(|token| !token.is_empty() && token.len() <= CREDENTIAL_BYTES_MAX).ok_or(AuthError::Unauthenticated)?;
        let digest: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        if let Some(caller) = self.tokens.get(&digest) {
            return Ok(caller);
        }
        if self.refused_tokens.get(&digest).is_some() {
            return Err(AuthError::Unauthenticated);
        }
        let turn = tokio::time::timeout(REVIEW_WAIT_MAX, self.reviews.acquire()).await;
        let _turn = turn.map_err(|_| AuthError::Busy)?.map_err(|closed| AuthError::Unavailable(closed.into()))?;
        match self.review_token(token).await? {
            Some(caller) => {
                self.tokens.put(digest, caller.clone(), TOKEN_TTL);
                Ok(caller)
            }
            None => {
                self.refused_tokens.put(digest, (), TOKEN_REFUSED_TTL);
                Err(AuthError::Unauthenticated)
            }
        }
    }

    async fn authorize(&self, caller: &Caller, access: &Access) -> Result<(), AuthError> {
        // Without a name a review is about all of the namespace: who may do it to all is asked about once, and not for each session.
        let to_all = Access { name: None, ..access.clone() };
        if self.may(caller, &to_all).await? || (access.name.is_some() && self.may(caller, access).await?) {
            return Ok(());
        }
        let (resource, namespace) = (access.part.resource(), access.namespace.clone());
        Err(AuthError::Forbidden { user: caller.user.clone(), verb: access.verb.as_str(), resource, namespace })
    }
}

#[cfg(test)]
#[path = "kubernetes_tests.rs"]
mod tests;
