//! How long a session lives that nobody uses, by what is known of its last use.

use dormouse_lifecycle::lifetime::{Lifetime, lifetime};
use jiff::{SignedDuration, Timestamp};

use crate::session::Record;

/// What a session is by a last use at `last_active`, RFC 3339, or by its creation where it has had none.
#[must_use]
pub fn judged(record: &Record, last_active: Option<&str>, now: Timestamp) -> Lifetime {
    let used = last_active.into_iter().chain([record.created_at.as_str()]).find_map(|time| time.parse::<Timestamp>().ok());
    let ttl = record.spec.ttl;
    match used {
        Some(used) => lifetime(ttl.active_seconds, ttl.retained_seconds, used.as_millisecond(), now.as_millisecond()),
        None => Lifetime::Active { until_ms: None },
    }
}

/// What a session is as far as its status says, which may be behind its use.
#[must_use]
pub fn by_status(record: &Record, now: Timestamp) -> Lifetime {
    judged(record, record.status.last_active_time.as_deref(), now)
}

/// How long after its expiry a session's ToolBroker may still be told of it: shorter than brokers keep messages, so that none is sent anew.
pub const EXPIRY_TOLD_WITHIN: SignedDuration = SignedDuration::from_hours(7 * 24);

/// When a session with a last use at `last_active` has expired, if it has and its ToolBroker may be told of it at `now`.
#[must_use]
pub fn expired_at(record: &Record, last_active: Option<&str>, now: Timestamp) -> Option<Timestamp> {
    if record.deleting || record.spec.tool_broker_ref.is_none() || !matches!(judged(record, last_active, now), Lifetime::Expired { .. }) {
        return None;
    }
    let used = last_active.into_iter().chain([record.created_at.as_str()]).find_map(|time| time.parse::<Timestamp>().ok())?;
    let unused = SignedDuration::from_secs(i64::try_from(record.spec.ttl.active_seconds).ok()?);
    let expired = used.checked_add(unused).ok()?;
    (now.duration_since(expired) < EXPIRY_TOLD_WITHIN).then_some(expired)
}
