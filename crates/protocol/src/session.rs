//! A session as the HTTP API shows it.

use std::collections::BTreeMap;

use dormouse_crds::session::{KernelSessionSpec, KernelSessionStatus};
use serde::{Deserialize, Serialize};

/// What a session is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
pub enum State {
    /// A cell is running.
    Running,
    /// Live, nothing to do.
    Idle,
    /// Live, its cell waits for a tool.
    WaitingForTool,
    /// Its cell waits for a person.
    WaitingForApproval,
    /// In storage only, or in a pod's copy of it.
    Hibernated,
    /// On its way back, or not yet placed for the first time.
    Waking,
    /// It cannot run; the `Ready` condition says why.
    Failed,
    /// Asleep, and in the object store only: a request brings its object back.
    Archived,
    /// One that whoever reads it does not know, because who answers is newer.
    #[serde(other)]
    Unknown,
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self, f)
    }
}

/// A session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// Object name.
    pub name: String,
    /// Namespace, which is the tenant.
    pub namespace: String,
    /// `s_` and the object's uid without dashes.
    pub id: String,
    /// Labels of the object.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The spec of the object.
    #[schema(value_type = Object)]
    pub spec: KernelSessionSpec,
    /// The status of the object.
    #[schema(value_type = Object)]
    pub status: KernelSessionStatus,
    /// What it is doing.
    pub state: State,
    /// Path of the session on this server.
    pub url: String,
}

/// Body of `POST …/sessions`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateSession {
    /// A DNS label; generated when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Labels of the object.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The spec of the object.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub spec: KernelSessionSpec,
}

/// Answer of `GET …/sessions`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionList {
    /// The sessions of this page.
    pub items: Vec<Session>,
    /// Where the next page begins; absent on the last.
    #[serde(default, rename = "continue", skip_serializing_if = "Option::is_none")]
    pub continue_token: Option<String>,
}

/// `s_` and the uid without dashes: the id that events carry.
#[must_use]
pub fn session_id(uid: &str) -> String {
    format!("s_{}", uid.replace('-', ""))
}
