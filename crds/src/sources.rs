//! Tools from elsewhere: descriptions of them that others wrote.

use serde::{Deserialize, Serialize};

use crate::{
    KeyRef,
    approval::Approval,
    service::{Auth, Limits, SecretHeader, Service},
    tools::TOOL_TIMEOUT_MS_DEFAULT,
};

/// An OpenAPI document, 3.0 or 3.1: each of its operations that the service allows is a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OpenApi {
    /// Name, for messages.
    #[cfg_attr(feature = "kubernetes", schemars(length(min = 1, max = 63)))]
    pub name: String,
    /// The service that the operations are of; its `baseUrl` stands for the document's `servers`.
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 63)))]
    pub service: String,
    /// Where the document is.
    pub document: DocumentSource,
    /// Which operations, by `operationId`; `*` matches any run of characters.
    #[serde(default = "all")]
    #[cfg_attr(feature = "kubernetes", schemars(length(min = 1, max = 64), inner(length(max = 256))))]
    pub include: Vec<String>,
    /// Whether a person has to agree to a call first, as of a tool.
    #[serde(default, skip_serializing_if = "Approval::is_never")]
    #[cfg_attr(feature = "kubernetes", schemars(schema_with = "crate::approval::schema"))]
    pub approval: Approval,
    /// Milliseconds that a call may take.
    #[serde(default = "default_timeout_ms")]
    pub timeout_ms: u64,
}

/// A server of the Model Context Protocol, over Streamable HTTP: its tools are tools.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "kubernetes", schemars(extend("x-kubernetes-validations" = rules::mcp_server())))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct McpServer {
    /// Name, for messages.
    #[cfg_attr(feature = "kubernetes", schemars(length(min = 1, max = 63)))]
    pub name: String,
    /// `http` or `https` URL of its endpoint.
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 2048)))]
    pub url: String,
    /// Credentials that the broker adds.
    #[serde(default)]
    pub auth: Auth,
    /// Further headers whose values are secret.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(
        feature = "kubernetes",
        schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))
    )]
    pub secret_headers: Vec<SecretHeader>,
    /// Which tools, by name; `*` matches any run of characters.
    #[serde(default = "all")]
    #[cfg_attr(feature = "kubernetes", schemars(length(min = 1, max = 64), inner(length(max = 256))))]
    pub tools: Vec<String>,
    /// Whether its resources may be listed and read, too: as the tools `NAME.resources` and `NAME.read`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resources: bool,
    /// Whether a person has to agree to a call first, as of a tool.
    #[serde(default, skip_serializing_if = "Approval::is_never")]
    #[cfg_attr(feature = "kubernetes", schemars(schema_with = "crate::approval::schema"))]
    pub approval: Approval,
    /// How many calls there may be.
    #[serde(default, skip_serializing_if = "Limits::is_none")]
    pub limits: Limits,
    /// Milliseconds that a call may take.
    #[serde(default = "default_timeout_ms")]
    pub timeout_ms: u64,
}

impl McpServer {
    /// The server as a service that takes messages at its URL.
    #[must_use]
    pub fn service(&self) -> Service {
        Service {
            auth: self.auth.clone(),
            secret_headers: self.secret_headers.clone(),
            limits: self.limits,
            allowed_methods: vec!["POST".to_owned()],
            ..Service::at(&self.name, &self.url)
        }
    }
}

/// Where a document is: one of them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "kubernetes", schemars(extend("x-kubernetes-validations" = rules::document())))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct DocumentSource {
    /// Here.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "kubernetes", schemars(schema_with = "crate::schema::json_schema"))]
    pub inline: Option<serde_json::Value>,
    /// In a ConfigMap of the namespace, as JSON or YAML; the key is needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<KeyRef>,
    /// At this `http` or `https` URL, as JSON or YAML; asked for without credentials, and again every few minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 2048)))]
    pub url: Option<String>,
}

/// Largest document, in bytes.
pub const DOCUMENT_BYTES_MAX: usize = 8 << 20;

fn all() -> Vec<String> {
    vec!["*".to_owned()]
}

fn default_timeout_ms() -> u64 {
    TOOL_TIMEOUT_MS_DEFAULT
}

/// What an API server refuses.
#[cfg(feature = "kubernetes")]
mod rules {
    use serde_json::Value;

    use crate::{
        rules::{between, plain_url, rule, rules},
        tools::TOOL_TIMEOUT_MS_MAX,
    };

    pub(super) fn mcp_server() -> Value {
        rules([
            plain_url("url", "https?", "url: write an http:// or https:// URL, without user, password, query and fragment"),
            between("timeoutMs", 1, TOOL_TIMEOUT_MS_MAX, "milliseconds; up to 10 minutes"),
        ])
    }

    pub(super) fn document() -> Value {
        rules([
            rule(
                "[has(self.inline), has(self.configMapRef), has(self.url)].filter(it, it).size() == 1",
                "document: write one of inline, configMapRef and url",
            ),
            rule(
                "!has(self.configMapRef) || has(self.configMapRef.key)",
                "configMapRef needs a key: write the key of the ConfigMap that holds the document",
            ),
            rule("!has(self.url) || self.url.matches('^https?://')", "url: write an http:// or https:// URL"),
        ])
    }
}
