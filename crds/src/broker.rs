//! ToolBroker: what sessions may do to the world, and the secrets it takes.

use serde::{Deserialize, Serialize};

#[cfg(feature = "kubernetes")]
use crate::rules;
use crate::{
    KeyRef,
    condition::Condition,
    egress::BrokerEgress,
    knowledge::Knowledge,
    models::Model,
    modules::Registry,
    service::{Auth, AuthType, Limits, Service},
    sources::{McpServer, OpenApi},
    webhooks::EventHook,
};

/// Desired state of a broker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(kube::CustomResource, schemars::JsonSchema))]
#[cfg_attr(
    feature = "kubernetes",
    kube(
        group = "dormouse.dev",
        version = "v1alpha1",
        kind = "ToolBroker",
        plural = "toolbrokers",
        shortname = "tb",
        namespaced,
        status = "ToolBrokerStatus",
        derive = "PartialEq",
        validation = kube::core::Rule::new("self.metadata.name.size() <= 40 && !self.metadata.name.contains('.')")
            .message("metadata.name names the Service NAME-broker: write at most 40 characters of a-z, 0-9 and '-', without dots"),
        printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
        printcolumn = r#"{"name":"Tools","type":"integer","jsonPath":".status.tools"}"#,
        printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
    )
)]
#[cfg_attr(feature = "kubernetes", schemars(extend("x-kubernetes-validations" = rules::broker())))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolBrokerSpec {
    /// Broker pods.
    #[serde(default = "default_replicas")]
    pub replicas: u32,
    /// HTTP services that tools call.
    #[serde(default)]
    #[cfg_attr(
        feature = "kubernetes",
        schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))
    )]
    pub services: Vec<Service>,
    /// What a cell may call.
    #[serde(default)]
    #[cfg_attr(
        feature = "kubernetes",
        schemars(length(max = 128), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))
    )]
    pub tools: Vec<Tool>,
    /// OpenAPI documents whose operations are tools, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(
        feature = "kubernetes",
        schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))
    )]
    pub openapi: Vec<OpenApi>,
    /// Servers of the Model Context Protocol whose tools are tools, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(
        feature = "kubernetes",
        schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))
    )]
    pub mcp_servers: Vec<McpServer>,
    /// Documents that sessions may search and read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(
        feature = "kubernetes",
        schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))
    )]
    pub knowledge: Vec<Knowledge>,
    /// Models that a cell may ask.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(
        feature = "kubernetes",
        schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))
    )]
    pub models: Vec<Model>,
    /// Who is told of what happens in sessions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 16)))]
    pub webhooks: Vec<EventHook>,
    /// Which answers stay outside the heap.
    #[serde(default)]
    pub offload: Offload,
    /// Where it is written down which calls were made.
    #[serde(default)]
    pub journal: Journal,
    /// What sessions may `fetch`. Absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress: Option<BrokerEgress>,
    /// Where packages for sessions come from. Absent: there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modules: Option<Registry>,
}

/// Largest preview of what stays outside the heap, in characters.
pub const PREVIEW_CHARS_MAX: u32 = 10_000;

/// Which answers of tools stay outside the heap: the code gets `{$ref: {id, …}}`, which stands for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "kubernetes", schemars(extend("x-kubernetes-validations" = rules::offload())))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Offload {
    /// Those of as many bytes of JSON, or more.
    pub threshold_bytes: u64,
    /// Characters of the preview.
    pub preview_chars: u32,
}

impl Default for Offload {
    fn default() -> Self {
        Self { threshold_bytes: 1 << 20, preview_chars: 500 }
    }
}

/// The journal of calls that are not safe to repeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Journal {
    /// The KernelPool of this namespace whose storage it is kept in. Without such a pool it is in the memory of each broker pod.
    #[serde(default = "default_pool")]
    #[cfg_attr(feature = "kubernetes", schemars(length(min = 1, max = 63)))]
    pub pool: String,
}

impl Default for Journal {
    fn default() -> Self {
        Self { pool: default_pool() }
    }
}

fn default_pool() -> String {
    "default".to_owned()
}

fn default_replicas() -> u32 {
    1
}

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
    #[cfg_attr(feature = "kubernetes", schemars(schema_with = "json_schema"))]
    pub input: Option<serde_json::Value>,
    /// JSON Schema of the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "kubernetes", schemars(schema_with = "json_schema"))]
    pub output: Option<serde_json::Value>,
    /// Milliseconds that a call may take.
    #[serde(default = "default_timeout_ms")]
    pub timeout_ms: u64,
    /// How many calls there may be.
    #[serde(default, skip_serializing_if = "Limits::is_none")]
    pub limits: Limits,
    /// Whether a person has to agree to a call first: `Never`, `Always`, or `{when?, editable?, expiresSeconds?}`.
    #[serde(default, skip_serializing_if = "Approval::is_never")]
    #[cfg_attr(feature = "kubernetes", schemars(schema_with = "approval"))]
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

impl Tool {
    /// The service that a webhook is, and the tool as one of that service.
    #[must_use]
    pub fn of_webhook(&self) -> Option<(Service, Self)> {
        let (service, path) = self.webhook.as_ref()?.service(&format!("webhook:{}", self.name))?;
        let name = service.name.clone();
        Some((service, Self { service: name, webhook: None, method: "POST".to_owned(), path, ..self.clone() }))
    }
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

impl ToolBrokerSpec {
    /// Everything that it has requests sent to, but registries and stores: its services, and MCP servers, webhooks, models and documents with secrets as such.
    pub fn all_services(&self) -> impl Iterator<Item = Service> {
        let webhooks = self.tools.iter().filter_map(|tool| tool.of_webhook().map(|(service, _)| service));
        let models = self.models.iter().map(Model::service);
        let events = self.webhooks.iter().filter_map(EventHook::service);
        let servers = self.mcp_servers.iter().map(McpServer::service);
        let documents = self.knowledge.iter().filter_map(Knowledge::service);
        self.services.iter().cloned().chain(servers).chain(webhooks).chain(models).chain(events).chain(documents)
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
pub(crate) fn approval(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"x-kubernetes-preserve-unknown-fields": true})
}

fn default_method() -> String {
    "GET".to_owned()
}

/// Time that a call may take if nothing else is said, in milliseconds.
pub const TOOL_TIMEOUT_MS_DEFAULT: u64 = 10_000;

fn default_timeout_ms() -> u64 {
    TOOL_TIMEOUT_MS_DEFAULT
}

#[cfg(feature = "kubernetes")]
pub(crate) fn any_value(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"x-kubernetes-preserve-unknown-fields": true})
}

#[cfg(feature = "kubernetes")]
pub(crate) fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// Observed state of a broker.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ToolBrokerStatus {
    /// The generation that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Ready` and `JournalStored`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "kubernetes", schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])))]
    pub conditions: Vec<Condition>,
    /// Number of tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<u32>,
}
