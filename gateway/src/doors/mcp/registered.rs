//! Functions of sessions that cells have registered as MCP tools, by `mcp.tool`. They are listed as they are stored, so that nothing wakes for it; to
//! call one is to run a cell that calls the function.

use dormouse_protocol::{
    ApiError, ErrorCode,
    eval::EvalRequest,
    kernel::{McpTool, McpTools},
};
use futures::StreamExt as _;
use serde_json::{Value, json};

use super::{
    arguments,
    told::{self, Told},
    tools,
};
use crate::{
    auth::{Part, Verb},
    directory::Key,
    doors::desk::Desk,
    history::ask,
    kernels::stored,
    router::Router,
};

/// Sessions whose tools one list shows.
const SESSIONS_MAX: usize = 200;
/// Sessions that are read at one time.
const READS_IN_FLIGHT_MAX: usize = 8;

/// The tools of those sessions of the desk's namespace in which its caller may run cells.
pub(super) async fn list(desk: &Desk) -> Vec<Value> {
    let records = desk.app.router.directory().list(Some(&desk.namespace)).into_iter();
    let with_tools = records.filter(|record| record.status.mcp_tools.is_some_and(|count| count > 0));
    let keys: Vec<Key> = with_tools.map(|record| record.key.clone()).take(SESSIONS_MAX).collect();
    let lists: Vec<Vec<Value>> =
        futures::stream::iter(keys).map(|key| async move { listed(desk, &key).await }).buffered(READS_IN_FLIGHT_MAX).collect().await;
    lists.into_iter().flatten().collect()
}

async fn stored_tools(router: &Router, key: &Key) -> Result<McpTools, ApiError> {
    let record = router.find(key).await?;
    let call = stored(&record);
    ask(router, &record, |pod| {
        let call = &call;
        async move { router.kernels().stored_mcp_tools(&pod, call).await }
    })
    .await
}

/// The tools of a session, with something before their names.
pub(super) async fn of_session(desk: &Desk, key: &Key, before: &str) -> Result<Vec<Value>, ApiError> {
    desk.may(Verb::Create, key, Part::Eval).await?;
    let found = stored_tools(&desk.app.router, key).await?;
    let shown = |(name, tool): (String, McpTool)| json!({ "name": format!("{before}{name}"), "description": tool.description, "inputSchema": tool.input });
    Ok(found.tools.into_iter().map(shown).collect())
}

async fn listed(desk: &Desk, key: &Key) -> Vec<Value> {
    match of_session(desk, key, &format!("{}.", key.name)).await {
        Ok(found) => found,
        // One session that cannot be read takes nobody the others; whoever may not see it does not.
        Err(error) => {
            if error.code != ErrorCode::Forbidden {
                tracing::info!(session = %key, %error, "the MCP tools of a session cannot be read");
            }
            Vec::new()
        }
    }
}

/// A tool of a session, as a call names it.
pub(super) struct Called<'a> {
    pub(super) session: &'a str,
    pub(super) tool: &'a str,
}

impl<'a> Called<'a> {
    /// `SESSION.TOOL`; no tool of the server itself has a dot.
    pub(super) fn named(name: &'a str) -> Option<Self> {
        let (session, tool) = name.rsplit_once('.')?;
        Some(Self { session, tool })
    }

    /// Calls it. `None`: there is no such tool.
    pub(super) async fn run(&self, desk: &Desk, given: &Value, told: Option<&Told>) -> Result<Option<Value>, ApiError> {
        let Ok(key) = desk.key(self.session) else { return Ok(None) };
        desk.may(Verb::Create, &key, Part::Eval).await?;
        let known = match stored_tools(&desk.app.router, &key).await {
            Err(error) if error.code == ErrorCode::SessionNotFound => return Ok(None),
            known => known?,
        };
        let Some(known) = known.tools.get(self.tool) else { return Ok(None) };
        arguments::check(&known.input, given).await?;
        // Text in a text: a key `__proto__` of a literal would be something else.
        let code = format!("await mcp.call({}, JSON.parse({}))", Value::from(self.tool), Value::from(given.to_string()));
        let result = told::eval(desk, &key, EvalRequest { code, ..EvalRequest::default() }, told).await?;
        if !result.ok {
            return Ok(Some(tools::evaluated(&result)));
        }
        let value = result.value.unwrap_or_default();
        if is_result(&value) {
            return Ok(Some(value));
        }
        let text = match &value {
            Value::String(text) => text.clone(),
            Value::Null => result.preview,
            other => other.to_string(),
        };
        let mut answer = json!({ "content": [{ "type": "text", "text": text }], "isError": false });
        if value.is_object() {
            answer["structuredContent"] = value;
        }
        Ok(Some(answer))
    }
}

/// Whether a value is a tool's answer as the protocol has it: `content` is a list of nothing but its blocks.
fn is_result(value: &Value) -> bool {
    let block = |block: &Value| match block.get("type").and_then(Value::as_str) {
        Some("text") => block.get("text").is_some_and(Value::is_string),
        Some("image" | "audio") => ["data", "mimeType"].iter().all(|field| block.get(field).is_some_and(Value::is_string)),
        Some("resource") => block.get("resource").and_then(|resource| resource.get("uri")).is_some_and(Value::is_string),
        Some("resource_link") => ["uri", "name"].iter().all(|field| block.get(field).is_some_and(Value::is_string)),
        _ => false,
    };
    value.get("content").and_then(Value::as_array).is_some_and(|blocks| !blocks.is_empty() && blocks.iter().all(block))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_blocks_of_the_protocol_is_an_answer_as_it_stands() {
        let text = json!({ "type": "text", "text": "x" });
        let image = json!({ "type": "image", "data": "aGk=", "mimeType": "image/png" });
        assert!(is_result(&json!({ "content": [text, image], "isError": true })));
        assert!(is_result(&json!({ "content": [{ "type": "resource", "resource": { "uri": "a://b", "text": "x" } }] })));
        for other in [
            json!(null),
            json!([text]),
            json!({ "content": "x" }),
            json!({ "content": [] }),
            json!({ "content": [text, { "type": "video" }] }),
        ] {
            assert!(!is_result(&other), "{other}");
        }
    }
}
