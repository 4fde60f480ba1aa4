//! Short-lived credentials that reach a part of one tenant's prefix only.
//!
//! `AssumeRole` with a session policy, of AWS STS and of MinIO, signed by hand: one request does not deserve another SDK. MinIO takes it from
//! its root user and from any user it knows, and from neither when their own credentials are short-lived.

use std::time::{Duration, SystemTime};

use aws_sigv4::{
    http_request::{SignableBody, SignableRequest, SigningSettings, sign},
    sign::v4,
};

use crate::Credentials;

/// The whole request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of an answer at most.
const ANSWER_BYTES_MAX: usize = 256 << 10;
/// The least that STS gives.
pub const DURATION_MIN: Duration = Duration::from_secs(900);
/// The name under which a session stands in the service's log.
const SESSION_NAME: &str = "dormouse";

/// Why there are no credentials.
#[derive(Debug, thiserror::Error)]
pub enum StsError {
    /// The request could not be made.
    #[error("cannot make the AssumeRole request: {0}")]
    Request(String),
    /// No answer.
    #[error("{endpoint} does not answer AssumeRole: {reason}")]
    Unreachable {
        /// The service.
        endpoint: String,
        /// Why.
        reason: String,
    },
    /// The service refused.
    #[error("{endpoint} refuses AssumeRole with {code}: {message}")]
    Refused {
        /// The service.
        endpoint: String,
        /// Its name for the error.
        code: String,
        /// What it says.
        message: String,
    },
    /// The answer holds no credentials.
    #[error("{endpoint} answers AssumeRole without credentials")]
    Answer {
        /// The service.
        endpoint: String,
    },
}

/// What a process may do below `<prefix>t/<tenant>/`, and nowhere else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights<'a> {
    /// The kernel pods of a pool: its own sessions, and what their sessions use.
    Kernel {
        /// The pool.
        pool: &'a str,
    },
    /// The pods of a ToolBroker: its journals, messages and jobs, and the audit. Documents to search are read only.
    Broker {
        /// The ToolBroker.
        name: &'a str,
    },
}

impl Rights<'_> {
    /// What may be read, written, removed and listed.
    fn own(self) -> Vec<String> {
        match self {
            Self::Kernel { pool } => vec![format!("s/{pool}/*"), "usage/*".to_owned(), "probe/*".to_owned()],
            Self::Broker { name } => {
                vec!["b/*".to_owned(), format!("webhooks/{name}/*"), format!("jobs/{name}/*"), "audit/*".to_owned(), "probe/*".to_owned()]
            }
        }
    }

    /// What may be read and listed.
    fn read(self) -> Vec<String> {
        match self {
            Self::Kernel { .. } => Vec::new(),
            Self::Broker { .. } => vec!["knowledge/*".to_owned()],
        }
    }
}

/// A policy that allows `rights` below the prefix of a tenant.
#[must_use]
pub fn policy(bucket: &str, prefix: &str, tenant: &str, rights: Rights<'_>) -> String {
    let below = |part: &String| format!("{prefix}t/{tenant}/{part}");
    let objects = |parts: &[String]| parts.iter().map(|part| format!("arn:aws:s3:::{bucket}/{}", below(part))).collect::<Vec<_>>();
    let (own, read) = (rights.own(), rights.read());
    let listed: Vec<String> = own.iter().chain(&read).map(below).collect();
    let mut statements = vec![
        serde_json::json!({
            "Effect": "Allow",
            "Action": ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"],
            "Resource": objects(&own),
        }),
        // Whoever stores something says first which cluster it is of, and nobody takes that back.
        serde_json::json!({
            "Effect": "Allow",
            "Action": ["s3:GetObject", "s3:PutObject"],
            "Resource": objects(&["clusters".to_owned()]),
        }),
        serde_json::json!({
            "Effect": "Allow",
            "Action": ["s3:ListBucket"],
            "Resource": [format!("arn:aws:s3:::{bucket}")],
            "Condition": {"StringLike": {"s3:prefix": listed}},
        }),
    ];
    if !read.is_empty() {
        statements.push(serde_json::json!({ "Effect": "Allow", "Action": ["s3:GetObject"], "Resource": objects(&read) }));
    }
    serde_json::json!({ "Version": "2012-10-17", "Statement": statements }).to_string()
}

/// Credentials with the rights that `credentials` and `policy` both give, for `duration`. See [`assume_role_as`] for AWS.
///
/// # Errors
/// When the service does not answer or refuses.
pub async fn assume_role(
    endpoint: &str,
    region: &str,
    credentials: &Credentials,
    policy: &str,
    duration: Duration,
) -> Result<Credentials, StsError> {
    assume_role_as(endpoint, region, credentials, policy, duration, None).await
}

/// [`assume_role`] with the ARN of the role, which AWS demands and MinIO ignores.
///
/// # Errors
/// When the service does not answer or refuses.
pub async fn assume_role_as(
    endpoint: &str,
    region: &str,
    credentials: &Credentials,
    policy: &str,
    duration: Duration,
    role_arn: Option<&str>,
) -> Result<Credentials, StsError> {
    let seconds = duration.max(DURATION_MIN).as_secs().to_string();
    let mut fields = vec![
        ("Action", "AssumeRole"),
        ("Version", "2011-06-15"),
        ("RoleSessionName", SESSION_NAME),
        ("DurationSeconds", &seconds),
        ("Policy", policy),
    ];
    if let Some(arn) = role_arn {
        fields.push(("RoleArn", arn));
    }
    let body = fields.iter().map(|(name, value)| format!("{name}={}", percent_encode(value))).collect::<Vec<_>>().join("&");
    let url = format!("{}/", endpoint.trim_end_matches('/'));
    let headers = signature_headers(&url, region, credentials, &body)?;
    let (status, text) =
        send(&url, headers, body).await.map_err(|reason| StsError::Unreachable { endpoint: endpoint.to_owned(), reason })?;
    if status != 200 {
        return Err(StsError::Refused {
            endpoint: endpoint.to_owned(),
            code: element(&text, "Code").unwrap_or_else(|| status.to_string()),
            message: element(&text, "Message").unwrap_or_default(),
        });
    }
    parse(&text).ok_or_else(|| StsError::Answer { endpoint: endpoint.to_owned() })
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
    let client = reqwest::Client::builder().timeout(REQUEST_TIMEOUT).build().map_err(|error| error.to_string())?;
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

    /// AWS takes no longer session policy.
    const POLICY_BYTES_MAX: usize = 2_048;

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
    fn a_policy_names_the_pool_or_the_broker_and_nothing_wider() {
        let read = |rights| serde_json::from_str::<serde_json::Value>(&policy("b", "p/", "team", rights)).unwrap();
        let kernel = read(Rights::Kernel { pool: "small" });
        let own = ["arn:aws:s3:::b/p/t/team/s/small/*", "arn:aws:s3:::b/p/t/team/usage/*", "arn:aws:s3:::b/p/t/team/probe/*"];
        assert_eq!(kernel["Statement"][0]["Resource"], serde_json::json!(own));
        assert_eq!(kernel["Statement"][1]["Resource"], serde_json::json!(["arn:aws:s3:::b/p/t/team/clusters"]));
        let listed = ["p/t/team/s/small/*", "p/t/team/usage/*", "p/t/team/probe/*"];
        assert_eq!(kernel["Statement"][2]["Condition"]["StringLike"]["s3:prefix"], serde_json::json!(listed));
        let broker = read(Rights::Broker { name: "tools" }).to_string();
        assert!(!broker.contains("/s/") && broker.contains("/b/*") && broker.contains("/webhooks/tools/*"), "{broker}");
    }

    #[test]
    fn a_policy_of_long_names_fits_what_aws_takes() {
        let (bucket, prefix, name) = ("b".repeat(30), "p".repeat(10) + "/", "n".repeat(30));
        for rights in [Rights::Kernel { pool: &name }, Rights::Broker { name: &name }] {
            let length = policy(&bucket, &prefix, &"t".repeat(40), rights).len();
            assert!(length <= POLICY_BYTES_MAX, "{rights:?}: {length}");
        }
    }

    #[test]
    fn a_policy_survives_the_form() {
        assert_eq!(percent_encode("a=b&c d/é"), "a%3Db%26c%20d%2F%C3%A9");
    }
}
