//! Whether a session has expired.
//!
//! Status may be behind a session that is used right now, so it only raises the question. The session's process, or the store, answers it.

use std::sync::Arc;

use dormouse_control::{
    lifetime::{by_status, judged},
    session::is_live,
};
use dormouse_lifecycle::lifetime::Lifetime;
use dormouse_protocol::{ApiError, ErrorCode};
use jiff::Timestamp;

use crate::{
    directory::{Key, Record},
    kernels::stored,
    router::Router,
    stored::ask,
};

/// Refuses to use a session that has expired.
pub(crate) async fn refuse_expired(router: &Router, key: &Key) -> Result<(), ApiError> {
    let record = router.find(key).await?;
    if matches!(by_status(&record, router.clock().now()), Lifetime::Active { .. }) {
        return Ok(());
    }
    // A live one knows best, and refuses by itself.
    if router.placed(&record, 0).is_some() && is_live(&record.status) {
        return Ok(());
    }
    let until_ms = match as_stored(router, &record).await? {
        Lifetime::Active { .. } => return Ok(()),
        Lifetime::Expired { until_ms } => until_ms,
        Lifetime::Over => None,
    };
    let message = format!(
        "session `{}` was not used for {} s and has expired: it can still be read. Raise spec.ttl.activeSeconds to go on with it",
        key.name, record.spec.ttl.active_seconds
    );
    let error = ApiError::new(ErrorCode::SessionExpired, message);
    let deleted_at = until_ms.and_then(|ms| Timestamp::from_millisecond(ms).ok());
    Err(match deleted_at {
        Some(deleted_at) => error.with_detail("deletedAt", deleted_at.to_string()),
        None => error,
    })
}

/// What a session is by what is stored of it.
pub(crate) async fn as_stored(router: &Router, record: &Arc<Record>) -> Result<Lifetime, ApiError> {
    let last_active = last_active(router, record).await?;
    Ok(judged(record, last_active.as_deref(), router.clock().now()))
}

/// A session's last use by what is stored of it.
pub(crate) async fn last_active(router: &Router, record: &Arc<Record>) -> Result<Option<String>, ApiError> {
    if record.status.snapshot.is_none() {
        return Ok(record.status.last_active_time.clone());
    }
    let call = stored(record);
    let told = ask(router, record, |pod| {
        let call = &call;
        async move { router.kernels().stored_status(&pod, call).await }
    });
    Ok(told.await?.last_active_time.or_else(|| record.status.last_active_time.clone()))
}
