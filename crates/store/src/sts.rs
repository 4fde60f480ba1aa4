//! Short-lived credentials, of AWS STS and of MinIO: `AssumeRole` for who has an access key, `AssumeRoleWithWebIdentity` for who has a token of an issuer
//! that the service trusts, such as a cluster's.
//!
//! Asked and signed by hand: one request does not deserve another SDK. MinIO takes `AssumeRole` from its root user and from any user it knows, and from
//! neither when their own credentials are short-lived. So who has a token asks with it for every purpose, and takes no role with what it got.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use aws_sigv4::{
    http_request::{SignableBody, SignableRequest, SigningSettings, sign},
    sign::v4,
};

use crate::{Credentials, resolver::Resolver};

/// The whole request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of an answer at most.
const ANSWER_BYTES_MAX: usize = 256 << 10;
/// Characters of what a service says about a refusal: it becomes part of a condition.
const MESSAGE_CHARS_MAX: usize = 500;
/// The least that STS gives.
pub const DURATION_MIN: Duration = Duration::from_secs(900);
/// The name under which a session stands in the service's log.
const SESSION_NAME: &str = "dormouse";
/// What the names of AWS's services end in.
const AWS_DOMAINS: [&str; 2] = [".amazonaws.com", ".amazonaws.com.cn"];

/// Why there are no credentials.
#[derive(Debug, thiserror::Error)]
pub enum StsError {
    /// The request could not be made.
    #[error("cannot make the request for credentials: {0}")]
    Request(String),
    /// No answer.
    #[error("{endpoint} does not answer a request for credentials: {reason}")]
    Unreachable {
        /// The service.
        endpoint: String,
        /// Why.
        reason: String,
    },
    /// The service refused.
    #[error("{endpoint} refuses credentials with {code}: {message}")]
    Refused {
        /// The service.
        endpoint: String,
        /// Its name for the error.
        code: String,
        /// What it says.
        message: String,
    },
    /// The answer holds no credentials.
    #[error("{endpoint} answers without credentials")]
    Answer {
        /// The service.
        endpoint: String,
    },
}

/// An STS service, and the role to take there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Role {
    /// URL of the service. See [`endpoint_of`].
    pub endpoint: String,
    /// Region that requests are signed for.
    pub region: String,
    /// ARN of the role. MinIO needs none from who has a key, AWS always.
    pub arn: Option<String>,
}

/// Who takes a role. `Debug` shows no secret.
#[derive(Clone)]
pub enum Identity {
    /// The holder of a key.
    Key(Credentials),
    /// Whom a token stands for.
    Token(String),
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Key(credentials) => credentials.fmt(f),
            Self::Token(_) => f.write_str("Token"),
        }
    }
}

/// URL of the STS service that goes with an S3 service: another host of the same region at AWS, the same elsewhere.
#[must_use]
pub fn endpoint_of(store: &str, region: &str) -> String {
    let host = reqwest::Url::parse(store).ok().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default();
    match AWS_DOMAINS.into_iter().find(|domain| host.ends_with(domain)) {
        Some(domain) => format!("https://sts.{region}{domain}"),
        None => store.to_owned(),
    }
}

impl Role {
    /// Credentials for `duration`, with the rights of the role as far as `policy` gives them, too.
    ///
    /// # Errors
    /// When the service does not answer or refuses.
    pub async fn assume(&self, identity: &Identity, policy: Option<&str>, duration: Duration) -> Result<Credentials, StsError> {
        let seconds = duration.max(DURATION_MIN).as_secs().to_string();
        let mut fields = vec![("Version", "2011-06-15"), ("RoleSessionName", SESSION_NAME), ("DurationSeconds", &seconds)];
        fields.extend(policy.map(|policy| ("Policy", policy)));
        fields.extend(self.arn.as_deref().map(|arn| ("RoleArn", arn)));
        match identity {
            Identity::Key(_) => fields.push(("Action", "AssumeRole")),
            Identity::Token(token) => fields.extend([("Action", "AssumeRoleWithWebIdentity"), ("WebIdentityToken", token)]),
        }
        let body = fields.iter().map(|(name, value)| format!("{name}={}", percent_encode(value))).collect::<Vec<_>>().join("&");
        let url = format!("{}/", self.endpoint.trim_end_matches('/'));
        let headers = match identity {
            Identity::Key(credentials) => signature_headers(&url, &self.region, credentials, &body)?,
            Identity::Token(_) => Vec::new(),
        };
        let (status, text) =
            send(&url, headers, body).await.map_err(|reason| StsError::Unreachable { endpoint: self.endpoint.clone(), reason })?;
        if status != 200 {
            return Err(StsError::Refused {
                endpoint: self.endpoint.clone(),
                code: said(&text, "Code").unwrap_or_else(|| status.to_string()),
                message: said(&text, "Message").unwrap_or_default(),
            });
        }
        parse(&text).ok_or_else(|| StsError::Answer { endpoint: self.endpoint.clone() })
    }
}

const FORM: &str = "application/x-www-form-urlencoded";

fn signature_headers(url: &str, region: &str, credentials: &Credentials, body: &str) -> Result<Vec<(String, String)>, StsError> {
    let fail = |error: &dyn std::fmt::Display| StsError::Request(error.to_string());
    let identity = credentials.to_sdk().into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name("sts")
        .time(SystemTime::now())
        .settings(SigningSettings::default())
        .build()
        .map_err(|error| fail(&error))?
        .into();
    let headers = [("content-type", FORM)].into_iter();
    let request = SignableRequest::new("POST", url, headers, SignableBody::Bytes(body.as_bytes())).map_err(|error| fail(&error))?;
    let (instructions, _) = sign(request, &params).map_err(|error| fail(&error))?.into_parts();
    Ok(instructions.headers().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

async fn send(url: &str, headers: Vec<(String, String)>, body: String) -> Result<(u16, String), String> {
    // Harmless when the process has installed its provider already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    // A tenant may name the service: what it answers leads nowhere else, and its name stands for no metadata service.
    let client = reqwest::Client::builder()
        .timeout(REQUEST_TIMEOUT)
        .redirect(reqwest::redirect::Policy::none())
        .dns_resolver(Arc::new(Resolver))
        .build()
        .map_err(|error| error.to_string())?;
    let mut request = client.post(url).header("content-type", FORM).body(body);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let mut answer = request.send().await.map_err(chain)?;
    let status = answer.status().as_u16();
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(chain)? {
        if bytes.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Err("the answer is too long".to_owned());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok((status, String::from_utf8_lossy(&bytes).into_owned()))
}

/// An error with its causes: reqwest's own text names only the URL.
fn chain(error: reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}

fn parse(text: &str) -> Option<Credentials> {
    let (_, text) = text.split_once("<Credentials>")?;
    Some(Credentials {
        access_key_id: element(text, "AccessKeyId")?,
        secret_access_key: element(text, "SecretAccessKey")?,
        session_token: Some(element(text, "SessionToken")?),
        expiration: element(text, "Expiration"),
    })
}

/// What a service says of a refusal, as far as it is shown.
fn said(text: &str, name: &str) -> Option<String> {
    element(text, name).map(|text| text.chars().take(MESSAGE_CHARS_MAX).collect())
}

/// The text of the first `<name>` without attributes. STS answers nest nothing inside the elements that are read here.
fn element(text: &str, name: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let (value, _) = rest.split_once(&format!("</{name}>"))?;
    let value = value.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&#34;", "\"").replace("&apos;", "'");
    Some(value.replace("&#39;", "'").replace("&#43;", "+").replace("&amp;", "&"))
}

fn percent_encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_and_a_strange_one_is_not() {
        let text = "<AssumeRoleResponse xmlns=\"x\"><AssumeRoleResult><Credentials><AccessKeyId>A</AccessKeyId><SecretAccessKey>a&amp;b+c/</SecretAccessKey>\
                    <SessionToken>t</SessionToken><Expiration>2026-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>";
        let credentials = parse(text).unwrap();
        assert_eq!(credentials.secret_access_key, "a&b+c/");
        assert_eq!(credentials.expiration.as_deref(), Some("2026-01-01T00:00:00Z"));
        assert!(parse("<html>").is_none());
        assert!(parse("<Credentials><AccessKeyId>A</AccessKeyId>").is_none());
    }

    #[test]
    fn a_service_has_its_say_in_short() {
        let text = format!("<Message>{}</Message>", "é".repeat(MESSAGE_CHARS_MAX + 1));
        assert_eq!(said(&text, "Message").unwrap().chars().count(), MESSAGE_CHARS_MAX);
        assert_eq!(said(&text, "Code"), None);
    }

    #[test]
    fn a_policy_survives_the_form() {
        assert_eq!(percent_encode("a=b&c d/é"), "a%3Db%26c%20d%2F%C3%A9");
    }

    #[test]
    fn a_request_for_credentials_goes_to_another_host_at_aws_only() {
        for (store, sts) in [
            ("https://s3.eu-central-1.amazonaws.com", "https://sts.eu-central-1.amazonaws.com"),
            ("https://s3.amazonaws.com/", "https://sts.eu-central-1.amazonaws.com"),
            ("https://s3.dualstack.eu-central-1.amazonaws.com", "https://sts.eu-central-1.amazonaws.com"),
            ("https://s3.cn-north-1.amazonaws.com.cn", "https://sts.eu-central-1.amazonaws.com.cn"),
            ("http://minio.storage.svc:9000", "http://minio.storage.svc:9000"),
            ("https://amazonaws.com.example.com", "https://amazonaws.com.example.com"),
        ] {
            assert_eq!(endpoint_of(store, "eu-central-1"), sts);
        }
    }
}
