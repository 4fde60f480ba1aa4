//! API keys: credentials that an app holds, made for one namespace.

use serde::{Deserialize, Serialize};

/// What every API key begins with.
pub const KEY_PREFIX: &str = "dmk_";

/// What the holder of a key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum KeyVerb {
    /// Make sessions.
    Create,
    /// Read a session.
    Get,
    /// List sessions.
    List,
    /// Change sessions, put them to sleep, wake them, make checkpoints and go back to them.
    Update,
    /// Delete sessions.
    Delete,
    /// Run cells, read what they wrote, and read and write files.
    Eval,
    /// See which calls wait for a person, and decide about them.
    Approve,
    /// Name any ToolBroker of the namespace in a session.
    Use,
    /// Claim and answer jobs of any ToolBroker of the namespace.
    Run,
}

/// Body of `POST …/keys`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateKey {
    /// Its name, a DNS label.
    pub name: String,
    /// What its holder may do.
    pub verbs: Vec<KeyVerb>,
    /// Only sessions with these labels, such as `app=a,tier!=x`; all of the namespace when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<String>,
    /// When it ends, RFC 3339; never when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

/// A key, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiKey {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// What its holder may do.
    pub verbs: Vec<KeyVerb>,
    /// Only sessions with these labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<String>,
    /// When it ends, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// When it was made, RFC 3339.
    pub created_at: String,
    /// Who made it.
    pub created_by: String,
}

/// Answer of `POST …/keys`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewKey {
    /// What goes behind `Authorization: Bearer`. It is shown once and stored nowhere.
    pub key: String,
    /// The rest.
    #[serde(flatten)]
    pub about: ApiKey,
}

/// Answer of `GET …/keys`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyList {
    /// The keys, by name.
    pub items: Vec<ApiKey>,
}
