//! A service's credential: where it comes from, how it goes out, how it is renewed, and what of it must not come back.

mod issuer;
mod scheme;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use base64::Engine as _;
use dormouse_crds::service::{Auth, BASIC_KEYS, SecretHeader};
use dormouse_protocol::{
    ApiError, ErrorCode,
    broker::{ModulesCall, ToolCall},
};
use dormouse_service::wire::Http;
use reqwest::{
    RequestBuilder,
    header::{AUTHORIZATION, HeaderName, HeaderValue},
};
use standardwebhooks::{HEADER_WEBHOOK_ID, HEADER_WEBHOOK_SIGNATURE, HEADER_WEBHOOK_TIMESTAMP, Webhook};
use tokio::time::Instant;

use self::{
    issuer::{Issuer, Made},
    scheme::{Scheme, SecretKey, check_scheme, header_name},
};
use crate::{Problem, ProblemKind, SecretError, Secrets, redact::Redactor};

pub(crate) use scheme::usable_name;

/// A shorter user name is not taken out of answers: it is no secret, and they would be shredded by it.
const USER_BYTES_MIN: usize = 4;
/// A credential is renewed so long before its end, or, if it lives shortly, a tenth of its life before.
const RENEWED_BEFORE: Duration = Duration::from_secs(30);
/// Sessions whose made credentials are kept.
const KEPT_MAX: usize = 1_024;

/// Whose call needs a credential.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) session: &'a str,
    pub(crate) session_uid: &'a str,
    /// The Secrets that the session names, by service.
    pub(crate) secrets: Option<&'a BTreeMap<String, String>>,
    /// What it is to be sent with, where that is one request to the service.
    pub(crate) request: Option<Outgoing<'a>>,
}

/// A request as a signature may cover it.
#[derive(Clone, Copy)]
pub(crate) struct Outgoing<'a> {
    pub(crate) method: &'a str,
    /// With the query.
    pub(crate) path: &'a str,
    pub(crate) body: &'a [u8],
}

impl std::fmt::Debug for Outgoing<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Outgoing")
    }
}

impl Caller<'static> {
    /// The broker itself, which asks what there is.
    pub(crate) const BROKER: Self = Self { namespace: "", session: "", session_uid: "", secrets: None, request: None };
}

impl<'a> From<&'a ToolCall> for Caller<'a> {
    fn from(call: &'a ToolCall) -> Self {
        let secrets = Some(&call.service_secrets);
        Self { namespace: &call.namespace, session: &call.session, session_uid: &call.session_uid, secrets, request: None }
    }
}

impl<'a> From<&'a ModulesCall> for Caller<'a> {
    fn from(call: &'a ModulesCall) -> Self {
        Self { namespace: &call.namespace, session: &call.session, session_uid: &call.session_uid, secrets: None, request: None }
    }
}

/// A service's credentials, and those that were made for it and may be used again.
#[derive(Debug, Default)]
pub(crate) struct Authentication {
    service: String,
    scheme: Scheme,
    headers: Vec<(HeaderName, SecretKey)>,
    /// Secrets that a session may name instead of the scheme's.
    session_secrets: BTreeSet<String>,
    /// By session, where they are made for one, or by the Secret that it names; else under the empty name. Whoever holds a slot is the only one to ask the issuer.
    kept: Mutex<HashMap<String, Arc<Slot>>>,
}

type Slot = tokio::sync::Mutex<Option<Kept>>;

#[derive(Debug)]
struct Kept {
    made: Made,
    until: Instant,
}

/// A credential, ready to be sent. It has no `Debug`.
pub(crate) struct Credential {
    headers: Vec<(HeaderName, HeaderValue)>,
    signer: Option<Webhook>,
    pub(crate) redactor: Redactor,
}

impl Credential {
    /// The request with it.
    pub(crate) fn apply(&self, request: RequestBuilder) -> RequestBuilder {
        self.headers.iter().fold(request, |request, (name, value)| request.header(name, value))
    }

    /// The same, signed where this credential is for that. `id` names the message: another sending of it has the same.
    ///
    /// # Errors
    /// It cannot be signed.
    pub(crate) fn sign(&self, request: RequestBuilder, id: &str, body: &[u8]) -> Result<RequestBuilder, ApiError> {
        let Some(signer) = &self.signer else { return Ok(self.apply(request)) };
        let time = jiff::Timestamp::now().as_second();
        let failed = |error| ApiError::new(ErrorCode::Internal, format!("the message cannot be signed: {error}"));
        let signature = signer.sign(id, time, body).map_err(failed)?;
        let signed =
            request.header(HEADER_WEBHOOK_ID, id).header(HEADER_WEBHOOK_TIMESTAMP, time).header(HEADER_WEBHOOK_SIGNATURE, signature);
        Ok(self.apply(signed))
    }
}

/// Why there is no credential.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CredentialError {
    /// A Secret's value cannot be used.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The session names one that the service does not allow.
    #[error("the session names the Secret `{0}`, which is not among the service's sessionSecrets")]
    NotAllowed(String),
    /// Whoever makes it does not, or makes something else. The text is free of secrets.
    #[error("{0}")]
    Issuer(String),
}

impl Authentication {
    /// The checked form of `auth` and `headers`, or what is wrong below `path`.
    pub(crate) fn check(
        service: &str,
        auth: &Auth,
        headers: &[SecretHeader],
        path: &str,
        secrets: &Secrets,
        problems: &mut Vec<Problem>,
    ) -> Option<Self> {
        let before = problems.len();
        let scheme = check_scheme(auth, &format!("{path}.auth"), problems);
        let mut checked = Vec::new();
        for (index, header) in headers.iter().enumerate() {
            let path = format!("{path}.secretHeaders[{index}]");
            let name = header_name(&header.name, format!("{path}.name"), problems);
            let value = SecretKey::of(&header.secret_ref);
            if value.is_none() {
                problems.push(Problem { path: format!("{path}.secretRef.key"), kind: ProblemKind::AuthFieldMissing("secretHeaders") });
            }
            checked.extend(name.zip(value));
        }
        if problems.len() > before {
            return None;
        }
        let checked = Self {
            service: service.to_owned(),
            scheme: scheme?,
            headers: checked,
            session_secrets: BTreeSet::new(),
            kept: Mutex::default(),
        };
        let mut wrong = "";
        for (field, key) in &checked.keys() {
            if let Err(error) = key.read(secrets)
                && wrong != field
            {
                wrong = field;
                problems.push(Problem { path: format!("{path}.{field}"), kind: ProblemKind::Secret(error) });
            }
        }
        Some(checked)
    }

    /// The same, of which sessions may name these Secrets. One that cannot be read is missed by who names it, and by nobody else.
    pub(crate) fn for_sessions(self, names: &[String], path: &str, problems: &mut Vec<Problem>) -> Self {
        for (index, name) in names.iter().enumerate() {
            if self.scheme.with_secret(name).is_none() {
                let path = format!("{path}.sessionSecrets[{index}]");
                problems.push(Problem { path, kind: ProblemKind::AuthFieldMissing("sessionSecrets") });
            }
        }
        Self { session_secrets: names.iter().cloned().collect(), ..self }
    }

    /// Whether it is made for the body that it is sent with.
    pub(crate) fn covers_bodies(&self) -> bool {
        matches!(&self.scheme, Scheme::Signature(_) | Scheme::Issued(Issuer::Hook { .. }))
    }

    /// How this caller's requests are authenticated, and the Secret that it names.
    fn scheme_of<'a>(&'a self, caller: Caller<'a>) -> Result<(Cow<'a, Scheme>, Option<&'a str>), CredentialError> {
        let Some(named) = caller.secrets.and_then(|secrets| secrets.get(&self.service)) else {
            return Ok((Cow::Borrowed(&self.scheme), None));
        };
        let scheme = self.scheme.with_secret(named).filter(|_| self.session_secrets.contains(named));
        Ok((Cow::Owned(scheme.ok_or_else(|| CredentialError::NotAllowed(named.clone()))?), Some(named)))
    }

    /// What it reads of Secrets, by field.
    fn keys(&self) -> Vec<(String, SecretKey)> {
        let mut keys = self.scheme.keys();
        for (index, (_, key)) in self.headers.iter().enumerate() {
            keys.push((format!("secretHeaders[{index}].secretRef"), key.clone()));
        }
        keys
    }

    /// The credential as it is now: Secrets are read at each use, and what an issuer makes is made when it is needed, once for all who wait.
    ///
    /// # Errors
    /// A Secret cannot be used, or the issuer does not make one.
    pub(crate) async fn credential(&self, http: &Http, secrets: &Secrets, caller: Caller<'_>) -> Result<Credential, CredentialError> {
        self.read(http, secrets, caller, None).await
    }

    /// Another credential, after the service has refused one; `None` where there is no other.
    ///
    /// # Errors
    /// As [`Self::credential`].
    pub(crate) async fn renewed(
        &self,
        http: &Http,
        secrets: &Secrets,
        caller: Caller<'_>,
        refused: &Credential,
    ) -> Result<Option<Credential>, CredentialError> {
        let other = self.read(http, secrets, caller, Some(refused)).await?;
        Ok((other.headers != refused.headers).then_some(other))
    }

    async fn read(
        &self,
        http: &Http,
        secrets: &Secrets,
        caller: Caller<'_>,
        refused: Option<&Credential>,
    ) -> Result<Credential, CredentialError> {
        let mut signer = None;
        let (scheme, named) = self.scheme_of(caller)?;
        let mut made = match &*scheme {
            Scheme::None => Made { headers: Vec::new(), secret: Vec::new() },
            Scheme::Bearer(key) => {
                let token = key.read(secrets)?;
                Made { headers: vec![(AUTHORIZATION, key.header(&format!("Bearer {token}"))?)], secret: vec![token] }
            }
            Scheme::Header { name, value: key } => {
                let value = key.read(secrets)?;
                Made { headers: vec![(name.clone(), key.header(&value)?)], secret: vec![value] }
            }
            Scheme::Basic { secret } => {
                let [user, password] = BASIC_KEYS.map(|key| SecretKey::in_secret(secret, key));
                let (user, key, password) = (user.read(secrets)?, &password, password.read(secrets)?);
                let pair = format!("{user}:{password}");
                let header = key.header(&format!("Basic {}", base64(&pair)))?;
                let user = if user.len() < USER_BYTES_MIN { String::new() } else { user };
                Made { headers: vec![(AUTHORIZATION, header)], secret: vec![pair, password, user] }
            }
            Scheme::Signature(key) => {
                let secret = key.read(secrets)?;
                signer = Some(
                    Webhook::new(&secret).map_err(|_| SecretError::NoSigningSecret { secret: key.secret.clone(), key: key.key.clone() })?,
                );
                Made { headers: Vec::new(), secret: vec![secret] }
            }
            Scheme::Issued(issuer) => self.kept(http, secrets, issuer, (caller, named), refused).await?,
        };
        for (name, key) in &self.headers {
            let value = key.read(secrets)?;
            made.headers.push((name.clone(), key.header(&value)?));
            made.secret.push(value);
        }
        let secret: Vec<&str> = made.secret.iter().map(String::as_str).collect();
        Ok(Credential { redactor: Redactor::new(&secret), headers: made.headers, signer })
    }

    /// What the issuer made before, unless it is over or was refused; else what it makes now.
    async fn kept(
        &self,
        http: &Http,
        secrets: &Secrets,
        issuer: &Issuer,
        (caller, named): (Caller<'_>, Option<&str>),
        refused: Option<&Credential>,
    ) -> Result<Made, CredentialError> {
        // No session's uid has a blank.
        let named = named.map(|name| format!("Secret {name}"));
        let of = named.as_deref().unwrap_or_else(|| issuer.makes_for(caller));
        let slot = {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() >= KEPT_MAX && !kept.contains_key(of) {
                kept.retain(|_, slot| Arc::strong_count(slot) > 1);
            }
            Arc::clone(kept.entry(of.to_owned()).or_default())
        };
        let mut slot = slot.lock().await;
        let usable =
            |kept: &Kept| Instant::now() < kept.until && refused.is_none_or(|refused| !refused.headers.starts_with(&kept.made.headers));
        if let Some(kept) = slot.as_ref().filter(|kept| usable(kept)) {
            return Ok(kept.made.clone());
        }
        *slot = None;
        let (made, life) = issuer.issue(http, secrets, &self.service, caller).await?;
        let life = life.saturating_sub(RENEWED_BEFORE.min(life / 10));
        if !life.is_zero() {
            *slot = Some(Kept { made: made.clone(), until: Instant::now() + life });
        }
        Ok(made)
    }
}

pub(crate) fn base64(text: &str) -> String {
    base64::engine::general_purpose::STANDARD.encode(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_short_user_name_does_not_shred_answers() {
        let values = [("user", "a"), ("password", "hunter22")].map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec()));
        let secrets = Secrets::memory([("s".to_owned(), values.into_iter().collect())].into_iter().collect());
        let auth = serde_json::from_value(json!({ "type": "basic", "secretRef": { "name": "s" } })).unwrap();
        let mut problems = Vec::new();
        let checked = Authentication::check("s", &auth, &[], "services[0]", &secrets, &mut problems).unwrap();
        let call = Caller { namespace: "n", session: "s", session_uid: "u", secrets: None, request: None };
        let http = Http::new(crate::net::client(&Default::default()).unwrap());
        let credential = checked.credential(&http, &secrets, call).await.unwrap();
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!(credential.redactor.text("a banana hunter22 a:hunter22"), "a banana [redacted] [redacted]");
    }
}
