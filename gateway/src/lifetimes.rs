//! Sessions that nobody has used for as long as their spec says: cells are refused, and in the end they are deleted.
//!
//! Status may be behind a session that is used right now, so it only raises the question. The session's process, or the store, answers it.

use dormouse_control::lifetime::{by_status, expired_at, judged};
use dormouse_crds::webhooks::EventKind;
use dormouse_lifecycle::{keys::broker_name, lifetime::Lifetime};
use dormouse_protocol::{
    ApiError, ErrorCode,
    broker::{EventsCall, Notice, SESSION_NOTICES, WANTED_EVENTS},
};
use jiff::Timestamp;

use crate::{
    approvals::unheard,
    directory::Key,
    expiry::{as_stored, last_active},
    kernels::KernelError,
    problem::of_directory,
    router::Router,
    service::hibernate_once,
};

/// Tells a session's ToolBroker that it has expired, unless it was used after all or nobody wants to know. The message is named after the expiry, so
/// whoever tells it again tells the same.
pub(crate) async fn tell_expiry(router: &Router, key: &Key) -> Result<(), ApiError> {
    let record = router.directory().read(key).await.map_err(|error| of_directory(error, key))?;
    let Some(broker) = record.spec.tool_broker_ref.as_ref().map(|broker| broker.name.clone()) else { return Ok(()) };
    let asked = EventsCall { namespace: key.namespace.clone() };
    let wanted = match router.kernels().ask_broker::<Vec<EventKind>>(&key.namespace, &broker, WANTED_EVENTS, &asked).await {
        Err(KernelError::Refused(refusal)) if refusal.code == ErrorCode::ToolNotFound => return Ok(()),
        wanted => wanted.map_err(|error| unheard(&broker, error))?,
    };
    if !wanted.contains(&EventKind::SessionExpired) {
        return Ok(());
    }
    let last_active = last_active(router, &record).await?;
    let now = router.clock().now();
    let Some(expired) = expired_at(&record, last_active.as_deref(), now) else { return Ok(()) };
    let mut data = serde_json::Map::new();
    if let Lifetime::Expired { until_ms: Some(until_ms) } = judged(&record, last_active.as_deref(), now)
        && let Ok(deleted) = Timestamp::from_millisecond(until_ms)
    {
        data.insert("deletedAt".to_owned(), deleted.to_string().into());
    }
    let notice = Notice {
        namespace: key.namespace.clone(),
        session: key.name.clone(),
        session_uid: broker_name(&router.directory().pool_of(&record), &record.uid),
        number: 0,
        key: Some(format!("{} {}", EventKind::SessionExpired.name(), expired.as_millisecond())),
        event: EventKind::SessionExpired,
        time: expired.to_string(),
        data,
        webhook: None,
    };
    let told = router.kernels().ask_broker::<()>(&key.namespace, &broker, SESSION_NOTICES, &notice);
    told.await.map_err(|error| unheard(&broker, error))
}

/// Deletes a session that was not used for so long, unless it was: its process puts it to sleep first, and the store has the last word.
pub(crate) async fn end(router: &Router, key: &Key) -> Result<(), ApiError> {
    let record = router.directory().read(key).await.map_err(|error| of_directory(error, key))?;
    if record.deleting || by_status(&record, router.clock().now()) != Lifetime::Over {
        return Ok(());
    }
    let (record, _) = hibernate_once(router, key).await?;
    if as_stored(router, &record).await? != Lifetime::Over {
        return Ok(());
    }
    tracing::info!(session = %key, "the session was not used for as long as its ttl says; it is deleted");
    router.directory().delete(key).await.map_err(|error| of_directory(error, key))
}
