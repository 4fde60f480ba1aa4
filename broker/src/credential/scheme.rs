//! How a service is authenticated to, as its spec has it: checked, and with the Secrets that it names.

use dormouse_crds::{
    KeyRef,
    service::{Auth, AuthType, BASIC_KEYS, CLIENT_KEYS, RESERVED_HEADERS},
};
use dormouse_service::url;
use reqwest::{
    Url,
    header::{HeaderName, HeaderValue},
};

use super::issuer::Issuer;
use crate::{Problem, ProblemKind, SecretError, Secrets};

/// A key of a Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SecretKey {
    pub(crate) secret: String,
    pub(crate) key: String,
}

impl SecretKey {
    pub(crate) fn of(reference: &KeyRef) -> Option<Self> {
        Some(Self { secret: reference.name.clone(), key: reference.key.clone()? })
    }

    pub(crate) fn in_secret(secret: &str, key: &str) -> Self {
        Self { secret: secret.to_owned(), key: key.to_owned() }
    }

    pub(crate) fn read(&self, secrets: &Secrets) -> Result<String, SecretError> {
        secrets.read(&self.secret, &self.key)
    }

    pub(crate) fn header(&self, value: &str) -> Result<HeaderValue, SecretError> {
        let refused = |_| SecretError::NotAHeaderValue { secret: self.secret.clone(), key: self.key.clone() };
        let mut value = HeaderValue::from_str(value).map_err(refused)?;
        value.set_sensitive(true);
        Ok(value)
    }
}

/// How a service is authenticated to, checked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Scheme {
    #[default]
    None,
    Bearer(SecretKey),
    Header {
        name: HeaderName,
        value: SecretKey,
    },
    Basic {
        secret: String,
    },
    /// What somebody makes, and for how long.
    Issued(Issuer),
    /// What each request is signed with.
    Signature(SecretKey),
}

impl Scheme {
    /// The same with another Secret; `None` where it has none.
    pub(crate) fn with_secret(&self, name: &str) -> Option<Self> {
        let in_it = |key: &SecretKey| SecretKey::in_secret(name, &key.key);
        Some(match self {
            Self::None | Self::Issued(Issuer::Hook { .. }) => return None,
            Self::Bearer(key) => Self::Bearer(in_it(key)),
            Self::Header { name: header, value } => Self::Header { name: header.clone(), value: in_it(value) },
            Self::Basic { .. } => Self::Basic { secret: name.to_owned() },
            Self::Signature(key) => Self::Signature(in_it(key)),
            Self::Issued(Issuer::ClientCredentials { token_url, scopes, id, password }) => {
                let (id, password) = (in_it(id), in_it(password));
                Self::Issued(Issuer::ClientCredentials { token_url: token_url.clone(), scopes: scopes.clone(), id, password })
            }
        })
    }

    /// What it reads of Secrets, by field.
    pub(crate) fn keys(&self) -> Vec<(String, SecretKey)> {
        let of = |field: &str, keys: &[SecretKey]| keys.iter().map(|key| (field.to_owned(), key.clone())).collect::<Vec<_>>();
        match self {
            Self::None | Self::Issued(Issuer::Hook { token: None, .. }) => Vec::new(),
            Self::Bearer(value) | Self::Header { value, .. } | Self::Signature(value) => of("auth.secretRef", std::slice::from_ref(value)),
            Self::Basic { secret } => of("auth.secretRef", &BASIC_KEYS.map(|key| SecretKey::in_secret(secret, key))),
            Self::Issued(Issuer::ClientCredentials { id, password, .. }) => of("auth.secretRef", &[id.clone(), password.clone()]),
            Self::Issued(Issuer::Hook { token: Some(token), .. }) => of("auth.hook.secretRef", std::slice::from_ref(token)),
        }
    }
}

/// A header's name, unless it carries the request itself.
pub(crate) fn usable_name(name: &str) -> Option<HeaderName> {
    name.parse::<HeaderName>().ok().filter(|name| !RESERVED_HEADERS.contains(&name.as_str()))
}

pub(crate) fn header_name(name: &str, path: String, problems: &mut Vec<Problem>) -> Option<HeaderName> {
    let parsed = usable_name(name);
    if parsed.is_none() {
        problems.push(Problem { path, kind: ProblemKind::Header(name.to_owned()) });
    }
    parsed
}

fn issuer_url(text: Option<&str>, path: String, scheme: &'static str, problems: &mut Vec<Problem>) -> Option<Url> {
    let Some(text) = text else {
        problems.push(Problem { path, kind: ProblemKind::AuthFieldMissing(scheme) });
        return None;
    };
    let found = url::plain(text);
    if found.is_none() {
        problems.push(Problem { path, kind: ProblemKind::BaseUrl });
    }
    found
}

/// How `auth` says that a service is authenticated to, or what is wrong below `path`.
pub(crate) fn check_scheme(auth: &Auth, path: &str, problems: &mut Vec<Problem>) -> Option<Scheme> {
    let name = match auth.type_ {
        AuthType::None => return Some(Scheme::None),
        AuthType::Bearer => "bearer",
        AuthType::Header => "header",
        AuthType::Basic => "basic",
        AuthType::Oauth2ClientCredentials => "oauth2ClientCredentials",
        AuthType::Custom => "custom",
        AuthType::Webhook => "webhook",
    };
    if auth.type_ == AuthType::Custom {
        let url = issuer_url(auth.hook.as_ref().map(|hook| hook.url.as_str()), format!("{path}.hook"), name, problems);
        let reference = auth.hook.as_ref().and_then(|hook| hook.secret_ref.as_ref());
        let token = reference.map(SecretKey::of);
        if token == Some(None) {
            problems.push(Problem { path: format!("{path}.hook.secretRef.key"), kind: ProblemKind::AuthFieldMissing(name) });
        }
        return Some(Scheme::Issued(Issuer::Hook { url: url?, token: token.flatten() }));
    }
    let mut missing = |field: &str| problems.push(Problem { path: format!("{path}.{field}"), kind: ProblemKind::AuthFieldMissing(name) });
    let Some(reference) = &auth.secret_ref else {
        missing("secretRef");
        return None;
    };
    let secret = reference.name.clone();
    match auth.type_ {
        AuthType::Basic => return Some(Scheme::Basic { secret }),
        AuthType::Oauth2ClientCredentials => {
            let token_url = issuer_url(auth.token_url.as_deref(), format!("{path}.tokenUrl"), name, problems)?;
            let [id, password] = CLIENT_KEYS.map(|key| SecretKey::in_secret(&secret, key));
            return Some(Scheme::Issued(Issuer::ClientCredentials { token_url, scopes: auth.scopes.join(" "), id, password }));
        }
        _ => {}
    }
    let Some(key) = SecretKey::of(reference) else {
        missing("secretRef.key");
        return None;
    };
    match auth.type_ {
        AuthType::Bearer => return Some(Scheme::Bearer(key)),
        AuthType::Webhook => return Some(Scheme::Signature(key)),
        _ => {}
    }
    let Some(header) = &auth.header_name else {
        missing("headerName");
        return None;
    };
    Some(Scheme::Header { name: header_name(header, format!("{path}.headerName"), problems)?, value: key })
}
