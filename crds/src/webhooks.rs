//! Who is told of what happens in a ToolBroker's sessions.

use serde::{Deserialize, Serialize};

#[cfg(feature = "kubernetes")]
use crate::rules;
use crate::{KeyRef, broker::Webhook};

/// A URL of the tenant that is told of events, with messages signed as Standard Webhooks 1.0.0 has them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "kubernetes", schemars(extend("x-kubernetes-validations" = rules::webhook())))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EventHook {
    /// `http` or `https` URL.
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 2048)))]
    pub url: String,
    /// Which events.
    #[cfg_attr(feature = "kubernetes", schemars(length(min = 1, max = 8), extend("x-kubernetes-list-type" = "set")))]
    pub events: Vec<EventKind>,
    /// Where the signing secret is, `whsec_…`; the key is needed.
    pub secret_ref: KeyRef,
}

impl EventHook {
    /// Where its messages go, and what signs them.
    #[must_use]
    pub fn target(&self) -> Webhook {
        Webhook { url: self.url.clone(), secret_ref: self.secret_ref.clone() }
    }
}

/// What somebody may be told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A run ended well.
    Completed,
    /// A run failed, or was cancelled.
    Failed,
    /// A call waits for a person.
    ApprovalRequired,
    /// A session is stored for the first time.
    SessionCreated,
    /// Code of a session runs again after it slept.
    SessionWoken,
    /// A session falls asleep.
    SessionHibernated,
    /// A session cannot go on.
    SessionFailed,
}

impl EventKind {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Completed,
        Self::Failed,
        Self::ApprovalRequired,
        Self::SessionCreated,
        Self::SessionWoken,
        Self::SessionHibernated,
        Self::SessionFailed,
    ];

    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::ApprovalRequired => "approval_required",
            Self::SessionCreated => "session_created",
            Self::SessionWoken => "session_woken",
            Self::SessionHibernated => "session_hibernated",
            Self::SessionFailed => "session_failed",
        }
    }
}
