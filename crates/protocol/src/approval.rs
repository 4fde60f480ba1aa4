//! Calls that wait for a person, and what that person says.

use serde::{Deserialize, Serialize};

/// A call that waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// Names it in its session.
    pub id: String,
    /// The session; empty in what a kernel pod says.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub session: String,
    /// The tool.
    pub tool_name: String,
    /// The arguments, exactly as the call has them.
    #[schema(value_type = Object)]
    pub args: serde_json::Value,
    /// The call's number in the session.
    pub call_id: String,
    /// The epoch in which the session made it. It stays what it is while the session sleeps and wakes in later ones.
    pub epoch: u64,
    /// RFC 3339.
    pub created_at: String,
    /// RFC 3339: a decision after that comes too late.
    pub expires_at: String,
    /// Whether a decision may bring other arguments.
    pub editable: bool,
    /// Whether somebody may decide.
    #[serde(default)]
    pub state: ApprovalState,
}

/// How a call waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub enum ApprovalState {
    /// For a decision.
    #[default]
    Pending,
    /// Its time is over: a decision comes too late, and its session has not asked yet.
    Expired,
    /// One that whoever reads it does not know, because who answers is newer.
    #[serde(other)]
    Unknown,
}

/// Calls that wait.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ApprovalList {
    /// In the order of their numbers; of a namespace, session by session.
    pub items: Vec<Approval>,
    /// Whether calls of further sessions wait, which are not listed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// Body of `POST …/approvals/{id}/link`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct MakeLink {
    /// How long the link works, in seconds: up to thirty days, and no longer than the call waits. Absent: a day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_seconds: Option<u64>,
}

/// A link whose holder decides about one call, once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalLink {
    /// Where a person decides. Whoever has it can.
    pub url: String,
    /// RFC 3339.
    pub expires_at: String,
}

/// Body of `POST …/approvals/{id}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Decide {
    /// What is decided.
    pub decision: Verdict,
    /// What the code is told of a denial; at most 1 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The epoch in which the call was made that is decided about, as its approval says. Another one is refused with `ApprovalMismatch`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// Other arguments, where the approval is `editable`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub arguments: Option<serde_json::Value>,
    /// Names the decision: the same one may be sent again after a lost answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// See [`Decide`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The call is made.
    Approve,
    /// The call fails with `ApprovalDenied`, which code may catch.
    Deny,
}

/// What was decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Decided {
    /// The approval.
    pub id: String,
    /// What stands.
    pub decision: Verdict,
    /// Whether the session knows already. If not, it learns of it within the hour.
    pub told: bool,
}
