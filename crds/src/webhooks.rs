//! URLs of a tenant that take signed messages: calls of tools, and who is told of what happens in a ToolBroker's sessions.

use serde::{Deserialize, Serialize};

use crate::{
    KeyRef,
    service::{Auth, AuthType, SecretHeader, Service},
};

/// Headers of its own that a URL may be sent.
pub const HOOK_HEADERS_MAX: usize = 8;

/// A URL of the tenant that takes signed messages, as Standard Webhooks has them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "kubernetes", schemars(extend("x-kubernetes-validations" = rules::webhook())))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Webhook {
    /// `http` or `https` URL.
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 2048)))]
    pub url: String,
    /// Where the signing secret is, `whsec_…`; the key is needed.
    pub secret_ref: KeyRef,
}

impl Webhook {
    /// The service of this name that it is, and the path there.
    #[must_use]
    pub fn service(&self, name: &str) -> Option<(Service, String)> {
        let rest = self.url.find("://").map_or(0, |at| at + 3);
        let end = self.url.get(rest..)?.find('/').map_or(self.url.len(), |at| rest + at);
        let (base_url, path) = self.url.split_at(end);
        let auth = Auth { type_: AuthType::Webhook, secret_ref: Some(self.secret_ref.clone()), ..Auth::default() };
        let path = if path.is_empty() { "/" } else { path };
        let service = Service { auth, allowed_methods: vec!["POST".to_owned()], ..Service::at(name, base_url) };
        Some((service, path.to_owned()))
    }
}

/// A URL of the tenant that is told of events, with messages signed as Standard Webhooks 1.0.0 has them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "kubernetes", schemars(extend("x-kubernetes-validations" = rules::event_hook())))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EventHook {
    /// `http` or `https` URL.
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 2048)))]
    pub url: String,
    /// Which events.
    #[cfg_attr(feature = "kubernetes", schemars(length(min = 1, max = 9), extend("x-kubernetes-list-type" = "set")))]
    pub events: Vec<EventKind>,
    /// Where the signing secret is, `whsec_…`; the key is needed.
    pub secret_ref: KeyRef,
    /// Headers of its own with each message, whose values are secret: what lets the message in where it arrives.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(
        feature = "kubernetes",
        schemars(length(max = HOOK_HEADERS_MAX), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))
    )]
    pub secret_headers: Vec<SecretHeader>,
}

impl EventHook {
    /// Where its messages go, what signs them, and what else goes with them. `None`: the URL is none.
    #[must_use]
    pub fn service(&self) -> Option<Service> {
        let place = Webhook { url: self.url.clone(), secret_ref: self.secret_ref.clone() };
        let (service, _) = place.service("events")?;
        Some(Service { secret_headers: self.secret_headers.clone(), ..service })
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
    /// A session was not used for as long as its `spec.ttl` says, and takes no more cells.
    SessionExpired,
    /// A session is deleted, and what was stored of it is gone.
    SessionDeleted,
}

impl EventKind {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Completed,
        Self::Failed,
        Self::ApprovalRequired,
        Self::SessionCreated,
        Self::SessionWoken,
        Self::SessionHibernated,
        Self::SessionFailed,
        Self::SessionExpired,
        Self::SessionDeleted,
    ];

    /// Whether it may come when no kernel pod has the session: a gateway or the operator tells it.
    #[must_use]
    pub fn is_told_from_outside(self) -> bool {
        matches!(self, Self::SessionExpired | Self::SessionDeleted)
    }

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
            Self::SessionExpired => "session_expired",
            Self::SessionDeleted => "session_deleted",
        }
    }
}

/// What an API server refuses.
#[cfg(feature = "kubernetes")]
mod rules {
    use serde_json::Value;

    use crate::{
        rules::{plain_url, rule, rules},
        service::RESERVED_HEADERS,
    };

    pub(super) fn webhook() -> Value {
        rules([
            plain_url("url", "https?", "url: write an http:// or https:// URL, without user, password, query and fragment"),
            rule("has(self.secretRef.key)", "secretRef needs a key: write the key of the Secret that holds the signing secret"),
        ])
    }

    pub(super) fn event_hook() -> Value {
        let Value::Array(mut all) = webhook() else { return Value::Null };
        let reserved = RESERVED_HEADERS.map(|name| format!("'{name}'")).join(", ");
        let headers = rules([
            rule(
                "!has(self.secretHeaders) || self.secretHeaders.all(header, has(header.secretRef.key))",
                "secretHeaders: each needs secretRef.key: write the key of the Secret that holds the header's value",
            ),
            (
                format!(
                    "!has(self.secretHeaders) || self.secretHeaders.all(header, header.name.matches('^[A-Za-z0-9-]+$') && \
                     !(header.name.lowerAscii() in [{reserved}]))"
                ),
                "secretHeaders: a name has letters, digits and '-', and is none that carries or signs the message itself: write Authorization or one of your own"
                    .to_owned(),
            ),
        ]);
        all.extend(headers.as_array().cloned().unwrap_or_default());
        Value::Array(all)
    }
}
