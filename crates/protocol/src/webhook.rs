//! Messages about what happened in sessions, and how their delivery goes.

use serde::{Deserialize, Serialize};

/// A message to one URL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    /// `msg_…`, the `webhook-id` of every attempt.
    pub id: String,
    /// `completed`, `failed`, `approval_required`, `session_created`, `session_woken`, `session_hibernated` or `session_failed`.
    #[serde(rename = "type")]
    pub event: String,
    /// The session.
    pub session: String,
    /// Where it goes.
    pub url: String,
    /// How far it is.
    pub state: DeliveryState,
    /// When the event was taken, RFC 3339.
    pub created_at: String,
    /// When it is tried next; absent when it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<String>,
    /// The last attempts, oldest first.
    pub attempts: Vec<DeliveryAttempt>,
}

/// See [`Delivery`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub enum DeliveryState {
    /// It is being tried.
    Pending,
    /// The far side has taken it.
    Delivered,
    /// It was refused, or tried as often as it is.
    Failed,
}

/// One attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryAttempt {
    /// When it began, RFC 3339.
    pub time: String,
    /// What the far side answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Why there is no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How long it took.
    pub milliseconds: u64,
}

/// Deliveries of a namespace, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DeliveryList {
    /// The deliveries.
    pub items: Vec<Delivery>,
}
