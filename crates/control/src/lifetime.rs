//! How long a session lives that nobody uses, by what is known of its last use.

use dormouse_lifecycle::lifetime::{Lifetime, lifetime};
use jiff::Timestamp;

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
