//! API keys: random secrets of 256 bits, of which only the sha256 is kept. A key acts in one namespace, by its verbs, on the sessions that its
//! selector fits; whoever makes one has these rights too.
//!
//! [`Keys`] stands before another authority: it looks at credentials that are keys, and hands over all others.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use dormouse_crds::session::Subject;
use dormouse_protocol::{
    ApiError, ErrorCode,
    key::{ApiKey, CreateKey, KEY_PREFIX, KeyList, KeyVerb, NewKey},
};
use dormouse_service::Clock;
use rand::RngCore as _;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{Access, AuthError, Authenticator, Caller, Part, Verb};
use crate::{
    directory::{Directory, Key, selects},
    names::check_name,
};

pub mod file;
#[cfg(feature = "kubernetes")]
pub mod objects;

/// Keys of one namespace.
pub const KEYS_MAX: usize = 1_000;
/// Longest selector, in bytes.
pub const SELECTOR_BYTES_MAX: usize = 1_024;
/// How long a key that was revoked through another gateway is still taken here.
pub const REVOKED_WITHIN: Duration = Duration::from_secs(30);
/// Random bytes of a key.
const SECRET_BYTES: usize = 32;
/// Hex digits behind the prefix.
const SECRET_DIGITS: usize = 2 * SECRET_BYTES;

/// A key as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyRecord {
    /// Hex sha256 of the whole key.
    pub digest: String,
    /// Who made it, and is asked about later for what its holder writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_by: Option<Subject>,
    /// All that may be shown.
    #[serde(flatten)]
    pub about: ApiKey,
}

/// What a key's holder may do, as far as it says something of the caller.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Grant {
    /// The key's name.
    pub name: String,
    /// The only namespace.
    pub namespace: String,
    /// The only verbs.
    pub verbs: Vec<KeyVerb>,
    /// The only sessions; empty for all.
    pub selector: String,
    /// Who made the key, if that is known.
    pub made_by: Option<Subject>,
}

/// Why keys cannot be kept or found.
#[derive(Debug, thiserror::Error)]
pub enum KeyStoreError {
    /// The name is taken.
    #[error("a key of this name exists")]
    Exists,
    /// As many unknown keys are being looked up as may be at once.
    #[error("too many new keys are being looked up")]
    Busy,
    /// It cannot be read or written.
    #[error("keys cannot be read or written: {0}")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Where keys are kept.
#[async_trait]
pub trait KeyStore: Send + Sync + 'static {
    /// The key of this digest. May be behind the truth by [`REVOKED_WITHIN`].
    async fn find(&self, digest: &str) -> Result<Option<Arc<KeyRecord>>, KeyStoreError>;

    /// The keys of a namespace, by name.
    async fn list(&self, namespace: &str) -> Result<Vec<Arc<KeyRecord>>, KeyStoreError>;

    /// Keeps a new key.
    async fn create(&self, record: KeyRecord) -> Result<(), KeyStoreError>;

    /// Forgets a key; whether there was one.
    async fn delete(&self, namespace: &str, name: &str) -> Result<bool, KeyStoreError>;
}

/// An authority that knows keys, before one that knows other credentials.
pub struct Keys {
    store: Arc<dyn KeyStore>,
    directory: Arc<dyn Directory>,
    others: Arc<dyn Authenticator>,
    clock: Clock,
}

impl Keys {
    /// Keys of `store`, which may be selective by labels in `directory`; `others` is asked about everybody else.
    #[must_use]
    pub fn new(store: Arc<dyn KeyStore>, directory: Arc<dyn Directory>, others: Arc<dyn Authenticator>) -> Self {
        Self { store, directory, others, clock: Clock::system() }
    }

    /// Whether the key's selector fits the session. What does not exist fits none.
    async fn fits(&self, grant: &Grant, access: &Access) -> bool {
        // To make one, its labels are looked at by who makes it; a list is narrowed to what fits.
        let Some(name) = access.name.as_ref().filter(|_| !grant.selector.is_empty()) else { return true };
        let key = Key::new(&access.namespace, name);
        let record = match self.directory.get(&key) {
            Some(record) => Some(record),
            // Whoever may not ask for it does not bring it back.
            None => self.directory.look(&key).await.ok().map(|seen| seen.record),
        };
        record.is_some_and(|record| selects(&grant.selector, &record.labels))
    }
}

#[async_trait]
impl Authenticator for Keys {
    async fn authenticate(&self, bearer: Option<&str>) -> Result<Caller, AuthError> {
        let Some(secret) = bearer.filter(|bearer| bearer.starts_with(KEY_PREFIX)) else { return self.others.authenticate(bearer).await };
        if !is_key(secret) {
            return Err(AuthError::Unauthenticated);
        }
        let found = self.store.find(&digest(secret)).await.map_err(|error| match error {
            KeyStoreError::Busy => AuthError::Busy,
            error => AuthError::Unavailable(error.into()),
        })?;
        let record = found.filter(|record| !is_over(&record.about, self.clock)).ok_or(AuthError::Unauthenticated)?;
        let ApiKey { name, namespace, verbs, label_selector, .. } = record.about.clone();
        let user = format!("dormouse:key:{namespace}:{name}");
        let selector = label_selector.unwrap_or_default();
        let grant = Grant { name, namespace, verbs, selector, made_by: record.made_by.clone() };
        Ok(Caller { user, grant: Some(grant), ..Caller::default() })
    }

    async fn authorize(&self, caller: &Caller, access: &Access) -> Result<(), AuthError> {
        let Some(grant) = &caller.grant else { return self.others.authorize(caller, access).await };
        let wanted = match (access.part, access.verb) {
            (Part::Keys, _) => None,
            (Part::Eval, _) => Some(KeyVerb::Eval),
            (Part::Approvals, _) => Some(KeyVerb::Approve),
            (Part::Broker, _) => Some(KeyVerb::Use),
            (Part::Jobs, _) => Some(KeyVerb::Run),
            (Part::Session, verb) => verb_of(verb),
        };
        let may = grant.namespace == access.namespace && wanted.is_some_and(|wanted| grant.verbs.contains(&wanted));
        if may && self.fits(grant, access).await {
            return Ok(());
        }
        Err(AuthError::Forbidden {
            user: caller.user.clone(),
            verb: access.verb.as_str(),
            resource: access.part.resource(),
            namespace: access.namespace.clone(),
        })
    }

    fn subject(&self, caller: &Caller) -> Option<Subject> {
        self.others.subject(caller)
    }
}

fn verb_of(verb: Verb) -> Option<KeyVerb> {
    Some(match verb {
        Verb::Create => KeyVerb::Create,
        Verb::Get => KeyVerb::Get,
        Verb::List => KeyVerb::List,
        Verb::Update => KeyVerb::Update,
        Verb::Delete => KeyVerb::Delete,
        Verb::Use => return None,
    })
}

/// What a verb of a key is to an authority.
#[must_use]
pub fn access_of(verb: KeyVerb, namespace: &str) -> Access {
    let (verb, part) = match verb {
        KeyVerb::Create => (Verb::Create, Part::Session),
        KeyVerb::Get => (Verb::Get, Part::Session),
        KeyVerb::List => (Verb::List, Part::Session),
        KeyVerb::Update => (Verb::Update, Part::Session),
        KeyVerb::Delete => (Verb::Delete, Part::Session),
        KeyVerb::Eval => (Verb::Create, Part::Eval),
        KeyVerb::Approve => (Verb::Update, Part::Approvals),
        KeyVerb::Use => (Verb::Use, Part::Broker),
        KeyVerb::Run => (Verb::Update, Part::Jobs),
    };
    Access { namespace: namespace.to_owned(), name: None, verb, part }
}

fn is_key(secret: &str) -> bool {
    let digits = secret.strip_prefix(KEY_PREFIX).unwrap_or_default();
    digits.len() == SECRET_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// Hex sha256 of a key. The key has 256 random bits, so nothing slower keeps it any safer.
#[must_use]
pub fn digest(secret: &str) -> String {
    hex::encode(Sha256::digest(secret.as_bytes()))
}

fn is_over(about: &ApiKey, clock: Clock) -> bool {
    about.expires_at.as_ref().is_some_and(|at| at.parse::<jiff::Timestamp>().is_ok_and(|at| at <= clock.now()))
}

/// Makes a key, for `by`; `made_by` is who is asked about later for what its holder writes.
///
/// # Errors
/// It is not one that can be made, or cannot be kept.
pub async fn create(
    store: &dyn KeyStore,
    namespace: &str,
    asked: CreateKey,
    (by, made_by): (&Caller, Option<Subject>),
    clock: Clock,
) -> Result<NewKey, ApiError> {
    let invalid =
        |path: &str, message: String| Err(ApiError::new(ErrorCode::InvalidRequest, format!("{path}: {message}")).with_detail("path", path));
    check_name(&asked.name, "name")?;
    if asked.verbs.is_empty() {
        return invalid("verbs", "name at least one of create, get, list, update, delete, eval, approve, use, run".to_owned());
    }
    if asked.label_selector.as_ref().is_some_and(|selector| selector.len() > SELECTOR_BYTES_MAX) {
        return invalid("labelSelector", format!("use at most {SELECTOR_BYTES_MAX} bytes"));
    }
    match asked.expires_at.as_ref().map(|at| at.parse::<jiff::Timestamp>()) {
        Some(Err(error)) => return invalid("expiresAt", format!("write it as RFC 3339, such as 2027-01-31T00:00:00Z: {error}")),
        Some(Ok(at)) if at <= clock.now() => return invalid("expiresAt", "it has passed".to_owned()),
        Some(Ok(_)) | None => {}
    }
    if store.list(namespace).await.map_err(of_store)?.len() >= KEYS_MAX {
        return Err(ApiError::new(ErrorCode::QuotaExceeded, format!("the namespace has {KEYS_MAX} keys: revoke some")));
    }
    let mut bytes = [0; SECRET_BYTES];
    rand::rng().fill_bytes(&mut bytes);
    let secret = format!("{KEY_PREFIX}{}", hex::encode(bytes));
    let mut verbs = asked.verbs;
    verbs.sort_unstable();
    verbs.dedup();
    let about = ApiKey {
        name: asked.name,
        namespace: namespace.to_owned(),
        verbs,
        label_selector: asked.label_selector.filter(|selector| !selector.trim().is_empty()),
        expires_at: asked.expires_at,
        created_at: clock.now().to_string(),
        created_by: by.user.clone(),
    };
    store.create(KeyRecord { digest: digest(&secret), made_by, about: about.clone() }).await.map_err(of_store)?;
    Ok(NewKey { key: secret, about })
}

/// The keys of a namespace.
///
/// # Errors
/// They cannot be read.
pub async fn list(store: &dyn KeyStore, namespace: &str) -> Result<KeyList, ApiError> {
    let mut items: Vec<_> = store.list(namespace).await.map_err(of_store)?.iter().map(|record| record.about.clone()).collect();
    items.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(KeyList { items })
}

/// Revokes a key: within [`REVOKED_WITHIN`] no gateway takes it any more. One that is not there is revoked already.
///
/// # Errors
/// It cannot be written.
pub async fn revoke(store: &dyn KeyStore, namespace: &str, name: &str) -> Result<(), ApiError> {
    store.delete(namespace, name).await.map(drop).map_err(of_store)
}

fn of_store(error: KeyStoreError) -> ApiError {
    match error {
        KeyStoreError::Exists => ApiError::new(ErrorCode::Conflict, "a key of this name exists: choose another name, or revoke that one"),
        KeyStoreError::Busy => AuthError::Busy.into(),
        KeyStoreError::Unavailable(cause) => {
            tracing::error!(error = %crate::chain::chain(&*cause), "API keys cannot be read or written");
            ApiError::new(
                ErrorCode::StorageUnavailable,
                "API keys cannot be read or written at the moment: try again, and see the gateway's log",
            )
        }
    }
}
