//! ToolBroker: what sessions may do to the world, and the secrets it takes.

use serde::{Deserialize, Serialize};

use crate::{
    condition::Condition,
    egress::BrokerEgress,
    knowledge::Knowledge,
    models::Model,
    modules::Registry,
    service::Service,
    sources::{McpServer, OpenApi},
    tools::Tool,
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

/// What an API server refuses.
#[cfg(feature = "kubernetes")]
mod rules {
    use serde_json::Value;

    use super::PREVIEW_CHARS_MAX;
    use crate::{
        pool::PODS_MAX,
        rules::{between, rule, rules},
        service::BODY_BYTES_MAX,
    };

    pub(super) fn broker() -> Value {
        rules([
            between("replicas", 0, PODS_MAX, "pods"),
            rule(
                "self.tools.all(t, has(t.webhook) || has(t.runner) || (has(t.service) && self.services.exists(s, s.name == t.service)))",
                "a tool's service does not exist: write the name of one of spec.services in tools[].service",
            ),
            rule(
                "self.tools.all(t, !has(t.service) || self.services.all(s, s.name != t.service || t.method in s.allowedMethods))",
                "a tool's method is not allowed by its service: write the method into the service's allowedMethods, or another tools[].method",
            ),
        ])
    }

    pub(super) fn offload() -> Value {
        rules([
            between("thresholdBytes", 1, BODY_BYTES_MAX, "bytes; up to 64 MiB"),
            between("previewChars", 0, u64::from(PREVIEW_CHARS_MAX), "characters"),
        ])
    }
}
