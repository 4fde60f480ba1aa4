//! What a pod that runs one session in its life is given for it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Body of `POST /v1/grant`: with what a session is stored, and as whom it asks brokers. It reaches this session and no other. The pod has nothing of
/// the kind before, takes it for one session only, and again for the same one before it ends. `Debug` shows no secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Grant {
    /// Uid of the session.
    pub uid: String,
    /// The process that it is for. A pod whose own [`super::PodInfo::boot`] differs answers `SessionGone`.
    pub boot: String,
    /// For the session's objects in storage.
    pub storage: GrantedStorage,
    /// For the session's calls to brokers.
    pub certificate: GrantedCertificate,
}

/// An access key of the object store.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrantedStorage {
    /// Public part.
    pub access_key_id: String,
    /// Secret part.
    pub secret_access_key: String,
    /// Of short-lived credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_token: Option<String>,
    /// RFC 3339, of short-lived credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiration: Option<String>,
}

/// A client certificate, as PEM.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrantedCertificate {
    /// Whom to trust.
    pub ca: String,
    /// The certificate.
    pub cert: String,
    /// Its key.
    pub key: String,
}

impl fmt::Debug for GrantedStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrantedStorage")
            .field("access_key_id", &self.access_key_id)
            .field("expiration", &self.expiration)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for GrantedCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrantedCertificate").field("cert", &self.cert).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_shows_no_secret_of_a_grant() {
        let text = |text: &str| text.to_owned();
        let storage = GrantedStorage {
            access_key_id: text("id"),
            secret_access_key: text("hush"),
            session_token: Some(text("hush")),
            expiration: None,
        };
        let certificate = GrantedCertificate { ca: text("ca"), cert: text("cert"), key: text("hush") };
        let shown = format!("{:?}", Grant { uid: text("u"), boot: text("b"), storage, certificate });
        assert!(shown.contains("id") && shown.contains("cert") && !shown.contains("hush"), "{shown}");
    }
}
