//! Secrets whose contents the operator makes, and makes anew in time: annotations say what each was made for and until when it is good.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;

/// Annotation: what the contents were made for. For anything else they are made anew.
pub const MADE_FOR: &str = "dormouse.dev/made-for";
/// Annotation: when to make them anew, RFC 3339.
pub const RENEW_AT: &str = "dormouse.dev/renew-at";

/// When to renew what lives for `validity` from `now`: at two thirds of its life.
#[must_use]
pub fn renew_at(now: Timestamp, validity: Duration) -> Timestamp {
    now.checked_add(validity * 2 / 3).unwrap_or(now)
}

/// When the Secret is due, if it was made for this and is not due yet. Whether it holds what it should, its owner knows.
#[must_use]
pub fn good_until(secret: &Secret, made_for: &str, now: Timestamp) -> Option<Timestamp> {
    let annotations = secret.metadata.annotations.as_ref()?;
    let due: Timestamp = annotations.get(RENEW_AT)?.parse().ok()?;
    (annotations.get(MADE_FOR)? == made_for && due > now).then_some(due)
}
