//! Who makes a service's credentials: an OAuth server, or a hook of the tenant.

use std::{collections::BTreeMap, time::Duration};

use dormouse_lifecycle::{keys::of_broker_name, segment::sha256_hex};
use dormouse_service::wire::Http;
use reqwest::{
    RequestBuilder, Url,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue},
};
use serde::Deserialize;
use serde_json::json;

use super::{
    Caller, CredentialError, Outgoing, base64,
    scheme::{SecretKey, usable_name},
};
use crate::{Secrets, net, path};

/// How long whoever makes credentials may take.
const ISSUER_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest answer of it, in bytes.
const ISSUER_BYTES_MAX: usize = 64 << 10;
/// Headers that a hook may set.
const ISSUED_HEADERS_MAX: usize = 16;
/// How long a token is used whose issuer does not say.
const TOKEN_SECONDS: u64 = 300;

/// Whoever makes credentials, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Issuer {
    /// RFC 6749, 4.4.
    ClientCredentials { token_url: Url, scopes: String, id: SecretKey, password: SecretKey },
    /// Asked for each session.
    Hook { url: Url, token: Option<SecretKey> },
}

/// What an issuer made. It has no values in its `Debug`.
#[derive(Clone, PartialEq)]
pub(crate) struct Made {
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// What must not come back.
    pub(crate) secret: Vec<String>,
}

impl std::fmt::Debug for Made {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Made")
    }
}

impl Issuer {
    /// Whom it makes a credential for: the session's uid, or nobody in particular.
    pub(crate) fn makes_for<'a>(&self, caller: Caller<'a>) -> &'a str {
        match self {
            Self::ClientCredentials { .. } => "",
            Self::Hook { .. } => caller.session_uid,
        }
    }

    /// Has a credential made; answers it, and how long it may be used.
    ///
    /// # Errors
    /// A Secret cannot be used, or the issuer does not make one in time.
    pub(crate) async fn issue(
        &self,
        http: &Http,
        secrets: &Secrets,
        service: &str,
        caller: Caller<'_>,
    ) -> Result<(Made, Duration), CredentialError> {
        let late = |_| CredentialError::Issuer(format!("its issuer did not answer within {} s", ISSUER_TIMEOUT.as_secs()));
        tokio::time::timeout(ISSUER_TIMEOUT, self.make(http, secrets, service, caller)).await.map_err(late)?
    }

    async fn make(&self, http: &Http, secrets: &Secrets, service: &str, caller: Caller<'_>) -> Result<(Made, Duration), CredentialError> {
        match self {
            Self::ClientCredentials { token_url, scopes, id, password } => {
                let (id, password) = (id.read(secrets)?, password.read(secrets)?);
                // RFC 6749, 2.3.1: both are form-encoded before they become a user and a password.
                let pair = format!("{}:{}", form(&id), form(&password));
                let mut fields = "grant_type=client_credentials".to_owned();
                if !scopes.is_empty() {
                    fields.push_str("&scope=");
                    fields.push_str(&form(scopes));
                }
                let request = http
                    .client()
                    .post(token_url.clone())
                    .header(AUTHORIZATION, format!("Basic {}", base64(&pair)))
                    .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
                    .header(ACCEPT, "application/json")
                    .body(fields);
                let token: Token = ask(http, request, "the token's URL").await?;
                if !token.token_type.eq_ignore_ascii_case("bearer") {
                    return Err(CredentialError::Issuer("the token's URL answers a token that is no bearer token".to_owned()));
                }
                let value = sensitive(&format!("Bearer {}", token.access_token)).ok_or_else(|| unusable("the token's URL"))?;
                let life = Duration::from_secs(token.expires_in.unwrap_or(TOKEN_SECONDS));
                Ok((Made { headers: vec![(AUTHORIZATION, value)], secret: vec![token.access_token, password] }, life))
            }
            Self::Hook { url, token } => {
                // Pool and uid are what the pod's certificate is held to; the name is what the pod says.
                let (pool, uid) = of_broker_name(caller.session_uid);
                let mut body = json!({ "service": service, "namespace": caller.namespace, "session": caller.session, "pool": pool, "sessionUid": uid });
                if let Some(Outgoing { method, path, body: sent }) = caller.request {
                    (body["method"], body["path"], body["bodySha256"]) = (method.into(), path.into(), sha256_hex(sent).into());
                }
                let mut request = http.client().post(url.clone()).json(&body);
                let mut secret = Vec::new();
                if let Some(token) = token {
                    let value = token.read(secrets)?;
                    request = request.header(AUTHORIZATION, token.header(&format!("Bearer {value}"))?);
                    secret.push(value);
                }
                let issued: Issued = ask(http, request, "the hook").await?;
                if issued.headers.len() > ISSUED_HEADERS_MAX {
                    return Err(unusable("the hook"));
                }
                let mut headers = Vec::new();
                for (name, value) in issued.headers {
                    let name = usable_name(&name).ok_or_else(|| unusable("the hook"))?;
                    headers.push((name, sensitive(&value).ok_or_else(|| unusable("the hook"))?));
                    // The scheme before a token is no secret.
                    secret.extend(value.split_once(' ').map(|(_, token)| token.to_owned()));
                    secret.push(value);
                }
                Ok((Made { headers, secret }, Duration::from_secs(issued.expires_seconds.unwrap_or(0))))
            }
        }
    }
}

/// RFC 6749, 5.1.
#[derive(Deserialize)]
struct Token {
    access_token: String,
    token_type: String,
    expires_in: Option<u64>,
}

/// What a hook answers.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Issued {
    headers: BTreeMap<String, String>,
    expires_seconds: Option<u64>,
}

/// Asks an issuer. What it answers instead is not told: it may repeat what it was shown.
async fn ask<T: serde::de::DeserializeOwned>(http: &Http, request: RequestBuilder, who: &str) -> Result<T, CredentialError> {
    let silent = || CredentialError::Issuer(format!("{who} cannot be reached"));
    let mut response = http.send(request).await.map_err(|error| CredentialError::Issuer(format!("{who} {}", net::silence(&error))))?;
    let status = response.status();
    if !status.is_success() {
        return Err(CredentialError::Issuer(format!("{who} answered {status}")));
    }
    let (body, whole) = net::read_up_to(&mut response, ISSUER_BYTES_MAX).await.map_err(|_| silent())?;
    if !whole {
        return Err(CredentialError::Issuer(format!("{who} answered more than {ISSUER_BYTES_MAX} bytes")));
    }
    serde_json::from_slice(&body).map_err(|_| unusable(who))
}

fn unusable(who: &str) -> CredentialError {
    CredentialError::Issuer(format!("{who} answered something else than a credential"))
}

fn sensitive(value: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// As `application/x-www-form-urlencoded` has it.
fn form(text: &str) -> String {
    path::encode(text)
}
