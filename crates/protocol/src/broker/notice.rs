//! Events, and the messages about them.

use dormouse_crds::webhooks::EventKind;
use serde::{Deserialize, Serialize};

use crate::eval::EvalWebhook;

/// Header of an answer: of which events the ToolBroker tells anybody, as [`events_text`] writes it.
pub const EVENTS_HEADER: &str = "dormouse-events";

/// Where a gateway or the operator tells what becomes of a session that no kernel pod has.
pub const SESSION_NOTICES: &str = "/v1/session-notices";

/// Where they ask of which events anybody is told.
pub const WANTED_EVENTS: &str = "/v1/wanted";

/// The names of these events, with commas between them.
#[must_use]
pub fn events_text(events: &[EventKind]) -> String {
    events.iter().map(|event| event.name()).collect::<Vec<_>>().join(",")
}

/// What [`events_text`] wrote; names that are not known are left out.
#[must_use]
pub fn events_of(text: &str) -> Vec<EventKind> {
    text.split(',').filter_map(|name| EventKind::ALL.into_iter().find(|event| event.name() == name)).collect()
}

/// Something that happened in a session, for those who are to be told of it. `(session_uid, number)` names it for ever, or `(session_uid, key)` where it
/// has one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Notice {
    /// Namespace of the session; must be the caller's own.
    pub namespace: String,
    /// Name of the session.
    pub session: String,
    /// Uid of the session.
    pub session_uid: String,
    /// Its number in the session, from 1; 0 of one that is not counted there.
    pub number: u64,
    /// What names an event of the session itself, which may be told before anything of it is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What happened.
    pub event: EventKind,
    /// RFC 3339.
    pub time: String,
    /// What is told of it beside the session's name.
    pub data: serde_json::Map<String, serde_json::Value>,
    /// Who is told beside those that the ToolBroker names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<EvalWebhook>,
}

impl Notice {
    /// A session is deleted, since `time` (RFC 3339). `session_uid` is the name that brokers know it by.
    #[must_use]
    pub fn of_deletion(namespace: &str, session: &str, session_uid: String, time: &str) -> Self {
        let event = EventKind::SessionDeleted;
        Self {
            namespace: namespace.to_owned(),
            session: session.to_owned(),
            session_uid,
            number: 0,
            // It happens once.
            key: Some(event.name().to_owned()),
            event,
            time: time.to_owned(),
            data: serde_json::Map::new(),
            webhook: None,
        }
    }
}

/// Asks of which events a ToolBroker tells anybody; that is said in the header [`EVENTS_HEADER`] of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventsCall {
    /// The namespace.
    pub namespace: String,
}

/// Asks for messages that were or are being delivered, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeliveriesCall {
    /// The namespace.
    pub namespace: String,
    /// Only those of this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// At most so many.
    pub limit: usize,
}

/// Has a message delivered again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RedeliverCall {
    /// The namespace.
    pub namespace: String,
    /// The message.
    pub id: String,
}
