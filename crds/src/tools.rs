//! What a cell may call by name, and who makes the call.

use serde::{Deserialize, Serialize};

use crate::{
    approval::{APPROVAL_SECONDS_DEFAULT, Approval},
    service::{Limits, Service},
    webhooks::Webhook,
};

/// Longest time that a tool's call may take, in milliseconds.
pub const TOOL_TIMEOUT_MS_MAX: u64 = 10 * 60 * 1_000;

/// Something that a cell may call by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "kubernetes", schemars(extend("x-kubernetes-validations" = rules::tool())))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Tool {
    /// Name: `callTool("NAME", …)`.
    #[cfg_attr(feature = "kubernetes", schemars(length(min = 1, max = 64)))]
    pub name: String,
    /// What it does, for people and models.
    #[serde(default)]
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 4096)))]
    pub description: String,
    /// The service that it calls.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 63)))]
    pub service: String,
    /// Instead of a service: the arguments are sent to this URL, signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<Webhook>,
    /// Instead of a service: a runner of this capability claims the call as a job, and answers it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner: Option<Runner>,
    /// HTTP method.
    #[serde(default = "default_method")]
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 16)))]
    pub method: String,
    /// Path below the service's `baseUrl`; `{name}` is replaced by the argument of that name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 1024)))]
    pub path: String,
    /// JSON Schema of the arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "kubernetes", schemars(schema_with = "crate::schema::json_schema"))]
    pub input: Option<serde_json::Value>,
    /// JSON Schema of the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "kubernetes", schemars(schema_with = "crate::schema::json_schema"))]
    pub output: Option<serde_json::Value>,
    /// Milliseconds that a call may take.
    #[serde(default = "default_timeout_ms")]
    pub timeout_ms: u64,
    /// How many calls there may be.
    #[serde(default, skip_serializing_if = "Limits::is_none")]
    pub limits: Limits,
    /// Whether a person has to agree to a call first: `Never`, `Always`, or `{when?, editable?, expiresSeconds?}`.
    #[serde(default, skip_serializing_if = "Approval::is_never")]
    #[cfg_attr(feature = "kubernetes", schemars(schema_with = "crate::approval::schema"))]
    pub approval: Approval,
}

/// Who makes the calls of a tool: processes that claim them over the API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "kubernetes", schemars(extend("x-kubernetes-validations" = rules::runner())))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Runner {
    /// What a runner must be able to do: letters, digits and `-`.
    #[cfg_attr(feature = "kubernetes", schemars(length(min = 1, max = 63)))]
    pub capability: String,
    /// How long a call waits for an answer, in seconds.
    #[serde(default = "default_job_seconds")]
    pub expires_seconds: u64,
}

fn default_job_seconds() -> u64 {
    APPROVAL_SECONDS_DEFAULT
}

impl Tool {
    /// The service that a webhook is, and the tool as one of that service.
    #[must_use]
    pub fn of_webhook(&self) -> Option<(Service, Self)> {
        let (service, path) = self.webhook.as_ref()?.service(&format!("webhook:{}", self.name))?;
        let name = service.name.clone();
        Some((service, Self { service: name, webhook: None, method: "POST".to_owned(), path, ..self.clone() }))
    }
}

fn default_method() -> String {
    "GET".to_owned()
}

/// Time that a call may take if nothing else is said, in milliseconds.
pub const TOOL_TIMEOUT_MS_DEFAULT: u64 = 10_000;

fn default_timeout_ms() -> u64 {
    TOOL_TIMEOUT_MS_DEFAULT
}

/// What an API server refuses.
#[cfg(feature = "kubernetes")]
mod rules {
    use serde_json::Value;

    use super::TOOL_TIMEOUT_MS_MAX;
    use crate::{
        approval::APPROVAL_SECONDS_MAX,
        rules::{between, rule, rules},
    };

    pub(super) fn tool() -> Value {
        rules([
            rule(
                "self.name.matches('^[A-Za-z_][A-Za-z0-9_.-]*$')",
                "name of a tool: write a letter or '_', then letters, digits, '_', '.' and '-', such as getWidget",
            ),
            rule(
                "(has(self.webhook) ? 1 : 0) + (has(self.runner) ? 1 : 0) + (has(self.service) && self.service != '' ? 1 : 0) == 1 && ((has(self.service) && self.service != '') || !has(self.path) || self.path == '')",
                "a tool calls a service, a webhook or a runner: write service and path, or webhook, or runner",
            ),
            rule(
                "has(self.webhook) || has(self.runner) || (has(self.path) && self.path.startsWith('/'))",
                "path: write a path below the service's baseUrl that begins with '/', such as /widgets/{id}",
            ),
            between("timeoutMs", 1, TOOL_TIMEOUT_MS_MAX, "milliseconds; up to 10 minutes"),
        ])
    }

    pub(super) fn runner() -> Value {
        rules([
            rule("self.capability.matches('^[A-Za-z0-9-]+$')", "capability: write letters, digits and '-', such as browser"),
            between("expiresSeconds", 1, APPROVAL_SECONDS_MAX, "seconds; up to ten years"),
        ])
    }
}
