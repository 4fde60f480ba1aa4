//! Calls that wait for a person: which ones do, and ToolApproval, so that `kubectl` lists and decides one.

use serde::{Deserialize, Serialize};

/// When a person has to agree to a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Approval {
    /// Always or never.
    Word(ApprovalWord),
    /// By rules.
    Rules(ApprovalRules),
}

/// The short forms of [`Approval`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ApprovalWord {
    /// Calls are made at once.
    Never,
    /// Each call waits for a person.
    Always,
}

/// The long form of [`Approval`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ApprovalRules {
    /// A CEL expression over `args`: the call waits where it is true, or cannot be evaluated. Absent: always.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// Whether whoever agrees may change the arguments.
    pub editable: bool,
    /// How long the call waits, in seconds. Absent: [`APPROVAL_SECONDS_DEFAULT`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_seconds: Option<u64>,
}

/// How long a call waits for a person if nothing else is said: a week.
pub const APPROVAL_SECONDS_DEFAULT: u64 = 7 * 24 * 60 * 60;
/// The longest that it may wait: ten years.
pub const APPROVAL_SECONDS_MAX: u64 = 10 * 365 * 24 * 60 * 60;
/// Bytes of an expression of [`ApprovalRules::when`].
pub const APPROVAL_WHEN_BYTES_MAX: usize = 4 << 10;

impl Default for Approval {
    fn default() -> Self {
        Self::Word(ApprovalWord::Never)
    }
}

impl Approval {
    /// Whether no call waits.
    #[must_use]
    pub fn is_never(&self) -> bool {
        *self == Self::Word(ApprovalWord::Never)
    }
}

/// The two forms have no type in common, which a structural schema cannot say; the broker checks the rest.
#[cfg(feature = "kubernetes")]
pub(crate) fn schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"x-kubernetes-preserve-unknown-fields": true})
}

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
    #[cfg_attr(feature = "kubernetes", schemars(schema_with = "crate::schema::any_value"))]
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
    #[cfg_attr(feature = "kubernetes", schemars(schema_with = "crate::schema::json_schema"))]
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

/// What an API server refuses.
#[cfg(feature = "kubernetes")]
mod rules {
    use serde_json::Value;

    use crate::rules::{rule, rules};

    pub(super) fn approval() -> Value {
        rules([
            rule(
                "self.session == oldSelf.session && self.sessionUid == oldSelf.sessionUid && self.epoch == oldSelf.epoch && self.approvalId == oldSelf.approvalId && self.toolName == \
                 oldSelf.toolName && self.expiresAt == oldSelf.expiresAt && self.editable == oldSelf.editable",
                "a ToolApproval is about one call: write decision, reason and arguments, and leave the rest as it is",
            ),
            rule(
                "!has(oldSelf.decision) || (has(self.decision) && self.decision == oldSelf.decision)",
                "decision: it was decided, and the first decision stands",
            ),
            rule("!has(self.arguments) || self.editable", "arguments: those of this call may not be changed, it is not editable"),
        ])
    }
}
