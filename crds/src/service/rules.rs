//! What an API server refuses.

use serde_json::Value;

use super::{BODY_BYTES_MAX, LIMIT_MAX, OPEN_SECONDS_MAX, REQUEST_BYTES_MAX, RETRIES_MAX};
use crate::rules::{between, plain_url, rule, rules};

pub(super) fn service() -> Value {
    rules([
        rule("self.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')", "name of a service: write at most 63 characters of a-z, 0-9 and '-'"),
        plain_url("baseUrl", "https?", "baseUrl: write an http:// or https:// URL, without user, password, query and fragment"),
        rule(
            "self.allowedMethods.all(m, m in ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'])",
            "allowedMethods: write some of GET, HEAD, POST, PUT, PATCH, DELETE, in capitals",
        ),
        rule("self.allowedPaths.all(p, p.startsWith('/'))", "allowedPaths: write paths that begin with '/', such as /widgets/*"),
        between("requestBytesMax", 1, REQUEST_BYTES_MAX, "bytes; up to 1 GiB"),
        between("responseBytesMax", 1, BODY_BYTES_MAX, "bytes; up to 64 MiB"),
        between("retries", 0, u64::from(RETRIES_MAX), "repetitions"),
    ])
}

pub(super) fn auth() -> Value {
    rules([
        rule(
            "self.type in ['none', 'custom'] || has(self.secretRef)",
            "auth needs its credential: write secretRef: {name: …, key: …} (basic and oauth2ClientCredentials: only name; the Secret has the keys user and \
             password, or clientId and clientSecret)",
        ),
        rule(
            "!(self.type in ['bearer', 'header', 'webhook']) || !has(self.secretRef) || has(self.secretRef.key)",
            "secretRef needs a key: write the key of the Secret that holds the credential",
        ),
        rule(
            "self.type != 'oauth2ClientCredentials' || has(self.tokenUrl)",
            "auth of type oauth2ClientCredentials needs tokenUrl: write the URL that answers tokens",
        ),
        rule("self.type != 'custom' || has(self.hook)", "auth of type custom needs its hook: write hook: {url: …}"),
        rule("self.type != 'header' || has(self.headerName)", "auth of type header needs headerName: write the name of the header to set"),
        rule(
            "!has(self.headerName) || self.headerName.matches('^[A-Za-z0-9-]+$')",
            "headerName: write letters, digits and '-', such as X-Api-Key",
        ),
    ])
}

pub(super) fn call_limits() -> Value {
    rules(["concurrency", "perMinute", "sessionConcurrency", "sessionPerMinute"].map(|field| {
        let rule = format!("!has(self.{field}) || (self.{field} >= 1 && self.{field} <= {LIMIT_MAX})");
        (rule, format!("{field} is out of range: write 1 to {LIMIT_MAX}, or leave it out"))
    }))
}

pub(super) fn breaker() -> Value {
    rules([
        between("failures", 0, u64::from(LIMIT_MAX), "failures in a row; 0 for none"),
        between("openSeconds", 1, OPEN_SECONDS_MAX, "seconds"),
    ])
}
