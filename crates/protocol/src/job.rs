//! Calls that a runner makes: it claims them, says that it lives, and answers.

use serde::{Deserialize, Serialize};

/// Longest time that a claim waits for a job, in seconds.
pub const CLAIM_WAIT_SECONDS_MAX: u64 = 30;

/// Body of `POST /v1/namespaces/{ns}/jobs/claim`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ClaimJob {
    /// The ToolBroker; any that the caller may run jobs of when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker: Option<String>,
    /// What the runner can do: jobs of tools with one of these capabilities.
    pub capabilities: Vec<String>,
    /// The runner's name, for people.
    pub runner: String,
    /// How long to wait for a job, in seconds: 0 to 30.
    pub wait_seconds: u64,
}

/// A job that a runner has claimed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Job {
    /// Names it: the same for whoever gets it again.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// What the runner must be able to do.
    pub capability: String,
    /// The arguments. They fit the tool's schema.
    #[schema(value_type = Object)]
    pub arguments: serde_json::Value,
    /// The session whose cell waits.
    pub session: String,
    /// When the call was made, RFC 3339.
    pub created_at: String,
    /// When nobody waits for it any more, RFC 3339.
    pub expires_at: String,
    /// How often it was claimed, with this time.
    pub attempt: u32,
    /// Shows that it is this runner's: it goes into heartbeat and answer.
    pub lease: String,
    /// Without a heartbeat for so long, it is offered to others.
    pub lease_seconds: u64,
}

/// Body of `POST …/jobs/{id}/heartbeat`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeartbeatJob {
    /// The job's lease.
    pub lease: String,
}

/// Answer of a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobLease {
    /// From now on.
    pub lease_seconds: u64,
}

/// Body of `POST …/jobs/{id}/answer`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AnswerJob {
    /// The job's lease.
    pub lease: String,
    /// Whether it worked.
    pub ok: bool,
    /// The result; must fit the tool's schema.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub value: serde_json::Value,
    /// Why it did not work: what the cell catches says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What an answer came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct JobAnswered {
    /// Whether the session knows already. If not, it learns of it by itself.
    pub told: bool,
}
