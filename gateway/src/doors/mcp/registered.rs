//! Functions of sessions that cells have registered as MCP tools, by `mcp.tool`. They are listed as they are stored, so that nothing wakes for it; to
//! call one is to run a cell that calls the function.

use dormouse_protocol::{
    ApiError, ErrorCode,
    eval::EvalResult,
    kernel::{McpCatalog, McpTool},
};
use futures::StreamExt as _;
use serde_json::{Value, json};

use super::{Failure, cells::Outcome, code, tools};
use crate::{
    auth::{Part, Verb},
    directory::Key,
    doors::desk::Desk,
    kernels::stored,
    stored::ask,
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

/// What the server of a session has, for those who may run cells in it. Wakes nothing.
pub(super) async fn catalog(desk: &Desk, key: &Key) -> Result<McpCatalog, ApiError> {
    desk.may(Verb::Create, key, Part::Eval).await?;
    let router = &desk.app.router;
    let record = router.find(key).await?;
    let call = stored(&record);
    ask(router, &record, |pod| {
        let call = &call;
        async move { router.kernels().stored_mcp(&pod, call).await }
    })
    .await
}

/// The tools of a session, with something before their names.
pub(super) fn shown(catalog: McpCatalog, before: &str) -> Vec<Value> {
    let shown = |(name, tool): (String, McpTool)| json!({ "name": format!("{before}{name}"), "description": tool.description, "inputSchema": tool.input });
    catalog.tools.into_iter().map(shown).collect()
}

async fn listed(desk: &Desk, key: &Key) -> Vec<Value> {
    match catalog(desk, key).await {
        Ok(found) => shown(found, &format!("{}.", key.name)),
        // One session that cannot be read takes nobody the others; whoever may not see it does not.
        Err(error) => {
            if error.code != ErrorCode::Forbidden {
                tracing::info!(session = %key, %error, "the MCP tools of a session cannot be read");
            }
            Vec::new()
        }
    }
}

/// The session and the tool that a name stands for: `SESSION.TOOL`; no tool of the server itself has a dot.
pub(super) fn named(name: &str) -> Option<(&str, &str)> {
    name.rsplit_once('.')
}

/// What a tool's call comes to, as its client sees it: failures are for the model to read.
pub(super) fn result(outcome: Outcome, stateless: bool) -> Result<Value, Failure> {
    Ok(match outcome {
        Outcome::End(value, cell) => answer(value, &cell),
        Outcome::Failed(cell) => tools::evaluated(&cell),
        Outcome::Asks(said) | Outcome::Task(said) => said,
        Outcome::Missing { capabilities, message } if stateless => return Err(missing(capabilities, message)),
        Outcome::Missing { message, .. } => tools::failed(&ApiError::new(ErrorCode::NotSupported, message)),
        Outcome::Refused(message) => return Err(Failure::new(code::INVALID_PARAMS, message)),
    })
}

/// What is answered to a client that lacks what a function asks for.
pub(super) fn missing(capabilities: Value, message: String) -> Failure {
    Failure { data: Some(json!({ "requiredCapabilities": capabilities })), ..Failure::new(code::MISSING_CAPABILITY, message) }
}

fn answer(value: Value, cell: &EvalResult) -> Value {
    if is_result(&value) {
        return value;
    }
    let text = match &value {
        Value::String(text) => text.clone(),
        // No JSON, so what is shown of it says more: without what the cell has put it into.
        Value::Null if cell.value.is_none() => {
            let shown = cell.preview.strip_prefix("{ end: ").and_then(|rest| rest.strip_suffix(" }"));
            shown.unwrap_or(&cell.preview).to_owned()
        }
        other => other.to_string(),
    };
    let mut answer = json!({ "content": [{ "type": "text", "text": text }], "isError": false });
    if value.is_object() {
        answer["structuredContent"] = value;
    }
    answer
}

/// Whether a value is a tool's answer as the protocol has it: `content` is a list of nothing but its blocks.
fn is_result(value: &Value) -> bool {
    value.get("content").and_then(Value::as_array).is_some_and(|blocks| !blocks.is_empty() && blocks.iter().all(is_block))
}

/// Whether a value is a block of content.
pub(super) fn is_block(block: &Value) -> bool {
    match block.get("type").and_then(Value::as_str) {
        Some("text") => block.get("text").is_some_and(Value::is_string),
        Some("image" | "audio") => ["data", "mimeType"].iter().all(|field| block.get(field).is_some_and(Value::is_string)),
        Some("resource") => block.get("resource").and_then(|resource| resource.get("uri")).is_some_and(Value::is_string),
        Some("resource_link") => ["uri", "name"].iter().all(|field| block.get(field).is_some_and(Value::is_string)),
        _ => false,
    }
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
