//! HTTP services of a ToolBroker: where they are, how they are authenticated to, and how hard they may be used.

#[cfg(feature = "kubernetes")]
mod rules;

use serde::{Deserialize, Serialize};

use crate::{KeyRef, NameRef, approval::Approval};

/// Largest response that a service may be given, in bytes: a broker holds it in memory.
pub const BODY_BYTES_MAX: u64 = 64 << 20;
/// The same of a request: one whose body is a large file is not held as a whole anywhere.
pub const REQUEST_BYTES_MAX: u64 = 1 << 30;

/// Headers that carry the request itself, end at the next hop or sign a message: none of them carries a credential.
pub const RESERVED_HEADERS: [&str; 16] = [
    "host",
    "content-length",
    "content-type",
    "transfer-encoding",
    "connection",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "webhook-id",
    "webhook-timestamp",
    "webhook-signature",
];

/// An HTTP service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "kubernetes", schemars(extend("x-kubernetes-validations" = rules::service())))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Service {
    /// Name that tools refer to.
    #[cfg_attr(feature = "kubernetes", schemars(length(min = 1, max = 63)))]
    pub name: String,
    /// `http` or `https` URL that paths are appended to.
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 2048)))]
    pub base_url: String,
    /// Credentials that the broker adds.
    #[serde(default)]
    pub auth: Auth,
    /// Secrets with the keys of `auth.secretRef` that a session may name instead of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 64), inner(length(min = 1, max = 253)), extend("x-kubernetes-list-type" = "set")))]
    pub session_secrets: Vec<String>,
    /// Further headers whose values are secret.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(
        feature = "kubernetes",
        schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))
    )]
    pub secret_headers: Vec<SecretHeader>,
    /// Certificates of both sides of its TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<ServiceTls>,
    /// HTTP methods that tools may use.
    #[serde(default = "default_methods")]
    #[cfg_attr(feature = "kubernetes", schemars(length(min = 1, max = 8), inner(length(max = 16)), extend("x-kubernetes-list-type" = "set")))]
    pub allowed_methods: Vec<String>,
    /// Paths that tools may reach; `*` matches any run of characters.
    #[serde(default = "default_paths")]
    #[cfg_attr(feature = "kubernetes", schemars(length(min = 1, max = 64), inner(length(max = 1024))))]
    pub allowed_paths: Vec<String>,
    /// Largest request body.
    #[serde(default = "default_request_bytes")]
    pub request_bytes_max: u64,
    /// Largest response body.
    #[serde(default = "default_response_bytes")]
    pub response_bytes_max: u64,
    /// The service makes two requests with one `Idempotency-Key` header once. Then a call whose outcome is unknown is sent again.
    #[serde(default)]
    pub honours_idempotency_key: bool,
    /// Lets cells call the service itself, `callService("NAME", …)`, within its allowed methods and paths. Absent: only its tools can be called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direct: Option<Direct>,
    /// How often a call is repeated that nobody has seen, was refused for now (429), or does no harm twice.
    #[serde(default = "default_retries")]
    pub retries: u32,
    /// How many calls there may be, over all tools.
    #[serde(default, skip_serializing_if = "Limits::is_none")]
    pub limits: Limits,
    /// When it is left in peace.
    #[serde(default)]
    pub breaker: Breaker,
}

/// A header whose value is in a Secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecretHeader {
    /// The header's name.
    #[cfg_attr(feature = "kubernetes", schemars(length(min = 1, max = 128)))]
    pub name: String,
    /// Where its value is; the key is needed.
    pub secret_ref: KeyRef,
}

/// Keys of a Secret of type `kubernetes.io/tls`.
pub const TLS_KEYS: [&str; 2] = ["tls.crt", "tls.key"];
/// The key of a Secret with a certificate of an authority, if none is named.
pub const CA_KEY: &str = "ca.crt";
/// Keys of the Secret of `oauth2ClientCredentials`.
pub const CLIENT_KEYS: [&str; 2] = ["clientId", "clientSecret"];
/// Keys of the Secret of `basic`.
pub const BASIC_KEYS: [&str; 2] = ["user", "password"];

/// Certificates of a service's TLS, read at each call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServiceTls {
    /// The broker's own: a Secret with [`TLS_KEYS`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret_ref: Option<NameRef>,
    /// Who signs the service's: PEM, in a Secret's key [`CA_KEY`] or another. Absent: the public authorities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_secret_ref: Option<KeyRef>,
}

/// How cells may call a service without a tool.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Direct {
    /// Whether a person has to agree first; `args` are `{service, method, path, query, body}`.
    #[serde(skip_serializing_if = "Approval::is_never")]
    #[cfg_attr(feature = "kubernetes", schemars(schema_with = "crate::approval::schema"))]
    pub approval: Approval,
    /// Milliseconds that a call may take. Absent: as a tool's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// How many calls there may be. What is over a limit waits within its own timeout, and is then refused with `RateLimited`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "kubernetes", schemars(extend("x-kubernetes-validations" = rules::call_limits())))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Limits {
    /// At one time, by one broker pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// In a minute, by one broker pod; a tenth of them may come at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_minute: Option<u32>,
    /// At one time, of one session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_concurrency: Option<u32>,
    /// In a minute, of one session; a tenth of them may come at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_per_minute: Option<u32>,
}

/// Largest number in [`Limits`].
pub const LIMIT_MAX: u32 = 1_000_000;
/// Most repetitions of a call.
pub const RETRIES_MAX: u32 = 10;
/// Longest time that a failing service is left in peace, in seconds.
pub const OPEN_SECONDS_MAX: u64 = 3_600;

impl Limits {
    /// Whether there is no limit.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// After so many failures in a row a service is not asked for some time; then by one call, on which it depends.
/// A failure is no answer, or a status from 500 up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "kubernetes", schemars(extend("x-kubernetes-validations" = rules::breaker())))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Breaker {
    /// How many; 0: it is always asked.
    pub failures: u32,
    /// How long, in seconds.
    pub open_seconds: u64,
}

impl Default for Breaker {
    fn default() -> Self {
        Self { failures: 20, open_seconds: 5 }
    }
}

fn default_retries() -> u32 {
    2
}

fn default_methods() -> Vec<String> {
    vec!["GET".to_owned()]
}

fn default_paths() -> Vec<String> {
    vec!["/*".to_owned()]
}

fn default_request_bytes() -> u64 {
    1 << 20
}

fn default_response_bytes() -> u64 {
    8 << 20
}

/// How the broker authenticates to a service.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "kubernetes", schemars(extend("x-kubernetes-validations" = rules::auth())))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Auth {
    /// The scheme.
    #[serde(rename = "type", default)]
    pub type_: AuthType,
    /// Where the credential is. `bearer`, `header` and `webhook` use `key`; `basic` uses the keys `user` and `password`, `oauth2ClientCredentials` the keys
    /// `clientId` and `clientSecret`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<KeyRef>,
    /// The header that `header` sets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 128)))]
    pub header_name: Option<String>,
    /// Where `oauth2ClientCredentials` gets its tokens (RFC 6749, 4.4).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 2048)))]
    pub token_url: Option<String>,
    /// The scopes that it asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 32), inner(length(max = 256))))]
    pub scopes: Vec<String>,
    /// Whom `custom` asks for the headers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook: Option<Hook>,
}

/// A tenant's own maker of credentials. It gets `POST {service, namespace, session, pool, sessionUid, method, path, bodySha256}` and answers
/// `{headers, expiresSeconds?}`: the headers to set, and how long they may be used again for that session; without it, for that request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Hook {
    /// `http` or `https` URL.
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 2048)))]
    pub url: String,
    /// The bearer token that the broker shows it; the key is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<KeyRef>,
}

/// A field that an object needs and does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} is needed")]
pub struct Missing(
    /// The field, as it is written.
    pub &'static str,
);

fn key_of(reference: &KeyRef, missing: &'static str) -> Result<(String, String), Missing> {
    Ok((reference.name.clone(), reference.key.clone().ok_or(Missing(missing))?))
}

fn keys_of(name: &str, keys: [&str; 2]) -> Vec<(String, String)> {
    keys.map(|key| (name.to_owned(), key.to_owned())).into()
}

impl Auth {
    /// The Secrets' keys that it needs, as `(Secret, key)`.
    ///
    /// # Errors
    /// A field is missing.
    pub fn secrets(&self) -> Result<Vec<(String, String)>, Missing> {
        let secret = || self.secret_ref.as_ref().ok_or(Missing("auth.secretRef"));
        Ok(match self.type_ {
            AuthType::None => Vec::new(),
            AuthType::Basic => keys_of(&secret()?.name, BASIC_KEYS),
            AuthType::Header if self.header_name.is_none() => return Err(Missing("auth.headerName")),
            AuthType::Bearer | AuthType::Header | AuthType::Webhook => vec![key_of(secret()?, "auth.secretRef.key")?],
            AuthType::Oauth2ClientCredentials if self.token_url.is_none() => return Err(Missing("auth.tokenUrl")),
            AuthType::Oauth2ClientCredentials => keys_of(&secret()?.name, CLIENT_KEYS),
            AuthType::Custom => {
                let hook = self.hook.as_ref().ok_or(Missing("auth.hook"))?;
                hook.secret_ref.iter().map(|reference| key_of(reference, "auth.hook.secretRef.key")).collect::<Result<_, _>>()?
            }
        })
    }

    /// The same with another Secret.
    ///
    /// # Errors
    /// It has none.
    pub fn with_secret(&self, name: &str) -> Result<Self, Missing> {
        let has_one = !matches!(self.type_, AuthType::None | AuthType::Custom);
        let own = self.secret_ref.as_ref().filter(|_| has_one).ok_or(Missing("auth.secretRef"))?;
        Ok(Self { secret_ref: Some(KeyRef { name: name.to_owned(), ..own.clone() }), ..self.clone() })
    }

    /// The URLs that it has asked, beside the service's.
    pub fn urls(&self) -> impl Iterator<Item = &str> {
        self.token_url.as_deref().into_iter().chain(self.hook.as_ref().map(|hook| hook.url.as_str()))
    }
}

impl Service {
    /// A service of which nothing else is said.
    #[must_use]
    pub fn at(name: &str, base_url: &str) -> Self {
        Self {
            name: name.to_owned(),
            base_url: base_url.to_owned(),
            auth: Auth::default(),
            session_secrets: Vec::new(),
            secret_headers: Vec::new(),
            tls: None,
            allowed_methods: default_methods(),
            allowed_paths: default_paths(),
            request_bytes_max: default_request_bytes(),
            response_bytes_max: default_response_bytes(),
            honours_idempotency_key: false,
            direct: None,
            retries: default_retries(),
            limits: Limits::default(),
            breaker: Breaker::default(),
        }
    }

    /// The keys of the Secrets that sessions may name, as `(Secret, key)`. One that is not there is missed by the sessions that name it, and by nobody
    /// else.
    ///
    /// # Errors
    /// A field is missing.
    pub fn secrets_of_sessions(&self) -> Result<Vec<(String, String)>, Missing> {
        let mut keys = Vec::new();
        for name in &self.session_secrets {
            keys.extend(self.auth.with_secret(name)?.secrets()?);
        }
        Ok(keys)
    }

    /// The Secrets' keys that it needs, as `(Secret, key)`.
    ///
    /// # Errors
    /// A field is missing.
    pub fn secrets(&self) -> Result<Vec<(String, String)>, Missing> {
        let mut needed = self.auth.secrets()?;
        for header in &self.secret_headers {
            needed.push(key_of(&header.secret_ref, "secretHeaders[].secretRef.key")?);
        }
        if let Some(tls) = &self.tls {
            needed.extend(tls.client_secret_ref.iter().flat_map(|reference| keys_of(&reference.name, TLS_KEYS)));
            needed.extend(
                tls.ca_secret_ref
                    .iter()
                    .map(|reference| (reference.name.clone(), reference.key.clone().unwrap_or_else(|| CA_KEY.to_owned()))),
            );
        }
        Ok(needed)
    }
}

/// Schemes of [`Auth`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum AuthType {
    /// Nothing is added.
    #[default]
    None,
    /// `Authorization: Bearer …`
    Bearer,
    /// A header of the service's own.
    Header,
    /// `Authorization: Basic …`
    Basic,
    /// `Authorization: Bearer …`, with a token that the broker gets and renews (RFC 6749, 4.4).
    #[serde(rename = "oauth2ClientCredentials")]
    Oauth2ClientCredentials,
    /// Headers that a hook of the tenant makes.
    Custom,
    /// Each request is signed with the key of a Secret, `whsec_…`: Standard Webhooks 1.0.0.
    Webhook,
}
