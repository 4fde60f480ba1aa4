//! What a session's MCP server has.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// An MCP tool that a cell has registered: a function of the session.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpTool {
    /// What it does.
    pub description: String,
    /// JSON Schema of its arguments.
    pub input: serde_json::Value,
    /// Whether its calls are tasks.
    #[serde(default, skip_serializing_if = "McpTask::is_forbidden")]
    pub task: McpTask,
    /// Whether it asks its client something before its task begins.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub before: bool,
}

/// Whether calls of a tool are tasks of clients that know them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum McpTask {
    /// Never: whoever calls waits.
    #[default]
    Forbidden,
    /// They are; whoever knows no tasks waits.
    Optional,
    /// They are; whoever knows no tasks cannot call it.
    Required,
}

impl McpTask {
    /// Whether they never are.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        *self == Self::Forbidden
    }
}

/// A prompt that a cell has registered.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpPrompt {
    /// Its name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is for.
    pub description: String,
    /// Its arguments.
    #[serde(default)]
    pub arguments: Vec<McpArgument>,
}

/// An argument of a prompt.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpArgument {
    /// Its name.
    pub name: String,
    /// Its name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether there is no prompt without it.
    #[serde(default)]
    pub required: bool,
}

/// A resource that a cell has registered.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpResource {
    /// Its name.
    pub name: String,
    /// Its name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Media type of its contents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Whether its URI is a template.
    #[serde(default)]
    pub template: bool,
}

/// What a client of a revision before the stateless one has said for all its requests.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpClient {
    /// The least level of the messages that it wants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// URIs of resources that it wants to hear of.
    #[serde(default)]
    pub uris: Vec<String>,
}

/// What a session's MCP server has. All by name, but resources and changes by URI, and clients by id.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct McpCatalog {
    /// Functions that are tools.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, McpTool>,
    /// Prompts.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub prompts: BTreeMap<String, McpPrompt>,
    /// Resources and templates of them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<String, McpResource>,
    /// Clients.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub clients: BTreeMap<String, McpClient>,
    /// Resources that the session said had changed, each with a number that rises.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub updated: BTreeMap<String, u64>,
}
