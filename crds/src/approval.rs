//! ToolApproval: a call that waits for a person, so that `kubectl` lists and decides it.

use serde::{Deserialize, Serialize};

#[cfg(feature = "kubernetes")]
use crate::rules;

/// The call, and what somebody decides. The gateway makes it and removes it; a person writes `decision`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(kube::CustomResource, schemars::JsonSchema))]
#[cfg_attr(
    feature = "kubernetes",
    kube(
        group = "dormouse.dev",
        version = "v1alpha1",
        kind = "ToolApproval",
        plural = "toolapprovals",
        shortname = "ta",
        namespaced,
        status = "ToolApprovalStatus",
        derive = "PartialEq",
        printcolumn = r#"{"name":"Session","type":"string","jsonPath":".spec.session"}"#,
        printcolumn = r#"{"name":"Tool","type":"string","jsonPath":".spec.toolName"}"#,
        printcolumn = r#"{"name":"Epoch","type":"integer","jsonPath":".spec.epoch"}"#,
        printcolumn = r#"{"name":"Decision","type":"string","jsonPath":".spec.decision"}"#,
        printcolumn = r#"{"name":"State","type":"string","jsonPath":".status.state"}"#,
        printcolumn = r#"{"name":"Expires","type":"string","jsonPath":".spec.expiresAt"}"#,
        printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
    )
)]
#[cfg_attr(feature = "kubernetes", schemars(extend("x-kubernetes-validations" = rules::approval())))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolApprovalSpec {
    /// The session.
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 253)))]
    pub session: String,
    /// Its uid: another session of the name is not meant.
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 64)))]
    pub session_uid: String,
    /// The epoch in which the session made the call: another one is not meant.
    pub epoch: u64,
    /// Names the call in its session.
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 64)))]
    pub approval_id: String,
    /// The tool.
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 253)))]
    pub tool_name: String,
    /// The arguments, as the call has them; absent where they are too large for an object: `dormouse approvals` shows them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "kubernetes", schemars(schema_with = "crate::broker::any_value"))]
    pub args: Option<serde_json::Value>,
    /// When it is too late, RFC 3339.
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 64)))]
    pub expires_at: String,
    /// Whether the decision may bring other `arguments`.
    pub editable: bool,
    /// What somebody decides. It stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<ApprovalDecision>,
    /// What the code is told of a denial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 1024)))]
    pub reason: Option<String>,
    /// Other arguments, where the call is `editable`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "kubernetes", schemars(schema_with = "crate::broker::json_schema"))]
    pub arguments: Option<serde_json::Value>,
}

/// See [`ToolApprovalSpec::decision`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ApprovalDecision {
    /// The call is made.
    Approve,
    /// The call fails.
    Deny,
}

/// What came of the decision.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ToolApprovalStatus {
    /// The generation that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How far it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<ApprovalState>,
    /// Why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// See [`ToolApprovalStatus::state`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
pub enum ApprovalState {
    /// Nobody has decided.
    Pending,
    /// The decision stands.
    Decided,
    /// The decision was refused, for the reason in `message`.
    Refused,
}
