//! What a session's MCP server has: told by the guest, which holds to the limits. What is over them here is left out.

use std::collections::BTreeMap;

use dormouse_lifecycle::json;
use dormouse_protocol::kernel::McpCatalog;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

/// Entries of each kind.
const ENTRIES_MAX: usize = 64;
/// Bytes of the whole as JSON: what is said of tools, prompts and resources, and the same again of clients and changes. It rides in every head.
const BYTES_MAX: usize = 256 << 10;

/// They.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Mcp(pub McpCatalog);

impl std::ops::Deref for Mcp {
    type Target = McpCatalog;

    fn deref(&self) -> &McpCatalog {
        &self.0
    }
}

impl Mcp {
    pub(crate) fn is_empty(&self) -> bool {
        self.0 == McpCatalog::default()
    }

    /// Takes in what is told: what there is under a name now, or that it is gone.
    pub(crate) fn tell(&mut self, of: &str, name: String, entry: Option<Value>) {
        let before = entry.is_some().then(|| self.0.clone());
        match of {
            "tool" => put(&mut self.0.tools, name, entry),
            "prompt" => put(&mut self.0.prompts, name, entry),
            "resource" => put(&mut self.0.resources, name, entry),
            "client" => put(&mut self.0.clients, name, entry),
            "updated" => put(&mut self.0.updated, name, entry),
            _ => {}
        }
        if let Some(before) = before
            && json::bytes(&self.0) > BYTES_MAX
        {
            self.0 = before;
        }
    }
}

fn put<T: DeserializeOwned>(entries: &mut BTreeMap<String, T>, name: String, entry: Option<Value>) {
    let Some(entry) = entry.and_then(|entry| serde_json::from_value(entry).ok()) else {
        entries.remove(&name);
        return;
    };
    // One more than may stay: the guest takes the oldest away after it has told of a new one.
    if entries.len() <= ENTRIES_MAX || entries.contains_key(&name) {
        entries.insert(name, entry);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_over_the_limits_is_left_out() {
        let mut mcp = Mcp::default();
        assert!(mcp.is_empty());
        for number in 0..ENTRIES_MAX + 3 {
            mcp.tell("updated", format!("a://{number}"), Some(json!(number)));
        }
        assert_eq!(mcp.updated.len(), ENTRIES_MAX + 1);
        mcp.tell("updated", "a://0".to_owned(), None);
        assert!(!mcp.updated.contains_key("a://0"));
        let tool = |bytes: usize| Some(json!({ "description": "x".repeat(bytes), "input": {} }));
        mcp.tell("tool", "large".to_owned(), tool(BYTES_MAX));
        mcp.tell("tool", "none".to_owned(), Some(json!(7)));
        assert!(mcp.tools.is_empty());
        mcp.tell("tool", "small".to_owned(), tool(10));
        mcp.tell("nothing", "known".to_owned(), tool(10));
        assert_eq!(mcp.tools.keys().collect::<Vec<_>>(), ["small"]);
    }
}
