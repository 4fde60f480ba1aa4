//! Tools of an MCP server, over Streamable HTTP: <https://modelcontextprotocol.io/specification>.
//!
//! Two revisions are spoken: 2026-07-28, where each request says what it is, and 2025-11-25, where a client introduces itself first. A server is asked in
//! the newer one; where it does not understand that, the broker introduces itself. It offers a server nothing: no sampling, no questions to people. A client
//! library would keep a connection with a state of its own; here each call is one request with a call's credential, limits and repetitions.

use std::time::Duration;

use dormouse_lifecycle::json;
use dormouse_protocol::{ApiError, ErrorCode};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::server::McpAsk;
pub(crate) use crate::rpc::Posted;
use crate::rpc::SESSION;

/// The revision in which every request stands for itself.
const STATELESS: &str = "2026-07-28";
/// The one in which a client introduces itself.
const INTRODUCED: &str = "2025-11-25";
/// Where a request of 2026-07-28 says its revision.
const VERSION_META: &str = "io.modelcontextprotocol/protocolVersion";
const CLIENT_META: &str = "io.modelcontextprotocol/clientInfo";
const CAPABILITIES_META: &str = "io.modelcontextprotocol/clientCapabilities";
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// Both forms of an answer.
const ACCEPTED: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
/// Pages of a list.
const PAGES_MAX: usize = 64;
/// Tools of one server, or resources.
const LISTED_MAX: usize = 1_024;
/// Bytes of all their descriptions, as JSON.
const LIST_BYTES_MAX: usize = 4 << 20;

/// A tool as its server describes it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Described {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) description: Option<String>,
    pub(crate) input_schema: Value,
    #[serde(default)]
    pub(crate) output_schema: Option<Value>,
    #[serde(default)]
    pub(crate) annotations: Annotations,
}

/// What a server says of a tool's effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Annotations {
    pub(crate) read_only_hint: bool,
}

/// How a server is spoken to.
#[derive(Debug, Clone)]
pub(crate) enum Speech {
    Stateless,
    /// With what the server called the session, and the revision that it chose.
    Introduced {
        session: Option<HeaderValue>,
        revision: HeaderValue,
    },
}

/// A server, and how it is spoken to once that is known.
#[derive(Debug, Default)]
pub(crate) struct Server {
    speech: Mutex<Option<Speech>>,
}

/// Sends a message and answers what came: the status, the headers, and the server's answer.
pub(crate) trait Post {
    /// Sends it.
    async fn post(&self, message: Posted) -> Result<Reply, ApiError>;
}

/// What a server answered.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) session: Option<HeaderValue>,
    /// The JSON-RPC message; `Null` for none.
    pub(crate) message: Value,
}

impl Server {
    /// Calls a method in whatever revision the server understands.
    ///
    /// # Errors
    /// The server cannot be asked, or answers an error.
    pub(crate) async fn call(&self, to: &impl Post, id: u64, method: &'static str, params: &Value) -> Result<Value, ApiError> {
        let known = self.speech.lock().await.clone();
        let speech = match known {
            Some(speech) => speech,
            None => return self.first_call(to, id, method, params).await,
        };
        let reply = to.post(message(&speech, id, method, params)).await?;
        if matches!(speech, Speech::Introduced { session: Some(_), .. }) && reply.status == 404 {
            // The session is over, and this call was not made.
            *self.speech.lock().await = None;
            return self.first_call(to, id, method, params).await;
        }
        result(reply)
    }

    /// Finds out how the server is spoken to, with the call itself where that goes.
    async fn first_call(&self, to: &impl Post, id: u64, method: &'static str, params: &Value) -> Result<Value, ApiError> {
        let mut speech = self.speech.lock().await;
        let reply = to.post(message(&Speech::Stateless, id, method, params)).await?;
        if understood(&reply) {
            *speech = Some(Speech::Stateless);
            return result(reply);
        }
        let introduced = introduce(to).await?;
        let reply = to.post(message(&introduced, id, method, params)).await?;
        *speech = Some(introduced);
        result(reply)
    }

    /// All tools of the server.
    ///
    /// # Errors
    /// The server cannot be asked, or its list is none.
    pub(crate) async fn list(&self, to: &impl Post) -> Result<Vec<Described>, ApiError> {
        let listed = Value::Array(self.pages(to, "tools/list", "tools").await?);
        serde_json::from_value(listed).map_err(|error| unusable(&format!("its list of tools is none: {error}")))
    }

    /// All resources of the server, as it describes them.
    ///
    /// # Errors
    /// The server cannot be asked, has none, or its list is none.
    pub(crate) async fn resources(&self, to: &impl Post) -> Result<Value, ApiError> {
        self.pages(to, "resources/list", "resources").await.map(Value::Array)
    }

    /// All pages of a list.
    async fn pages(&self, to: &impl Post, method: &'static str, of: &str) -> Result<Vec<Value>, ApiError> {
        let (mut all, mut cursor, mut bytes) = (Vec::new(), Value::Null, 0);
        for page in 0..PAGES_MAX {
            let params = if cursor.is_null() { json!({}) } else { json!({ "cursor": cursor }) };
            let id = u64::try_from(page).unwrap_or(0) + 1;
            let mut listed = self.call(to, id, method, &params).await?;
            bytes += json::bytes(&listed[of]);
            if bytes > LIST_BYTES_MAX {
                return Err(unusable(&format!("its list of {of} has more than {LIST_BYTES_MAX} bytes")));
            }
            let Value::Array(more) = listed[of].take() else { return Err(unusable(&format!("its list of {of} is none"))) };
            all.extend(more);
            cursor = listed["nextCursor"].take();
            if all.len() > LISTED_MAX {
                return Err(unusable(&format!("it has more than {LISTED_MAX} {of}")));
            }
            if cursor.is_null() {
                return Ok(all);
            }
        }
        Err(unusable(&format!("its list of {of} has more than {PAGES_MAX} pages")))
    }
}

/// Introduces the broker, as 2025-11-25 wants it.
async fn introduce(to: &impl Post) -> Result<Speech, ApiError> {
    let params = json!({ "protocolVersion": INTRODUCED, "capabilities": {}, "clientInfo": client() });
    let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    let reply = to.post(Posted { headers: base_headers(), body }).await?;
    let session = reply.session.clone();
    let told = result(reply)?;
    let revision = told["protocolVersion"].as_str().and_then(|text| HeaderValue::from_str(text).ok());
    let revision = revision.ok_or_else(|| unusable("it does not say which revision it speaks"))?;
    let speech = Speech::Introduced { session, revision };
    let done = Posted { headers: headers(&speech), body: json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }) };
    to.post(done).await?;
    Ok(speech)
}

fn client() -> Value {
    json!({ "name": "dormouse-broker", "version": env!("CARGO_PKG_VERSION") })
}

/// Whether the answer is one to a request of 2026-07-28. Servers of before refuse it, in one of many ways.
fn understood(reply: &Reply) -> bool {
    let says_no = |code: i64| matches!(code, -32_600 | -32_602 | -32_000 | -32_001 | -32_022);
    let refused = reply.message["error"]["code"].as_i64();
    (200..300).contains(&reply.status) && reply.message.is_object() && !refused.is_some_and(says_no)
}

fn base_headers() -> HeaderMap {
    [(ACCEPT, ACCEPTED), (CONTENT_TYPE, HeaderValue::from_static("application/json"))].into_iter().collect()
}

fn headers(speech: &Speech) -> HeaderMap {
    let mut headers = base_headers();
    match speech {
        Speech::Stateless => drop(headers.insert(VERSION, HeaderValue::from_static(STATELESS))),
        Speech::Introduced { session, revision } => {
            headers.insert(VERSION, revision.clone());
            headers.extend(session.clone().map(|session| (SESSION, session)));
        }
    }
    headers
}

fn message(speech: &Speech, id: u64, method: &'static str, params: &Value) -> Posted {
    let (mut headers, mut params) = (headers(speech), params.clone());
    if let (Speech::Stateless, Some(params)) = (speech, params.as_object_mut()) {
        headers.insert(METHOD, HeaderValue::from_static(method));
        let name = params.get("name").or_else(|| params.get("uri")).and_then(Value::as_str);
        headers.extend(name.and_then(|name| HeaderValue::from_str(name).ok()).map(|name| (NAME, name)));
        params.insert("_meta".to_owned(), json!({ VERSION_META: STATELESS, CLIENT_META: client(), CAPABILITIES_META: {} }));
    }
    Posted { headers, body: json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }) }
}

fn result(mut reply: Reply) -> Result<Value, ApiError> {
    if let Value::Object(result) = reply.message["result"].take() {
        return Ok(Value::Object(result));
    }
    let message = reply.message["error"]["message"].as_str().unwrap_or("it answered no result").to_owned();
    Err(unusable(&message).with_details(json!({ "status": reply.status, "code": reply.message["error"]["code"] })))
}

fn unusable(why: &str) -> ApiError {
    let cut: String = why.chars().take(512).collect();
    ApiError::new(ErrorCode::ToolResultInvalid, format!("the MCP server: {cut}"))
}

/// What a tool answered: `structuredContent`, else `content`. A tool's own failure is one.
///
/// # Errors
/// The tool says that it failed.
pub(crate) fn outcome(mut result: Value) -> Result<Value, ApiError> {
    if result["isError"] == true {
        let texts = result["content"].as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
        return Err(unusable(&texts.collect::<Vec<_>>().join("\n")));
    }
    match result["structuredContent"].take() {
        Value::Null => Ok(result["content"].take()),
        structured => Ok(structured),
    }
}

/// What a server's resources are as tools: the end of the name, what is asked, what it is, and the schema of its arguments.
pub(crate) fn resource_tools() -> [(&'static str, McpAsk, &'static str, Value); 2] {
    let uri = json!({ "type": "string", "minLength": 1, "maxLength": URI_BYTES_MAX });
    let read = json!({ "type": "object", "properties": { "uri": uri }, "required": ["uri"], "additionalProperties": false });
    let list = json!({ "type": "object", "additionalProperties": false });
    [
        ("resources", McpAsk::Resources, "Lists what can be read at the MCP server", list),
        ("read", McpAsk::Read, "Reads a resource, by its `uri`, of the MCP server", read),
    ]
}

/// Longest `uri` of a resource.
const URI_BYTES_MAX: usize = 4 << 10;

/// How long a server that was asked may stay silent while its tools are looked for.
pub(crate) const LIST_TIMEOUT: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tools_own_failure_is_one() {
        assert_eq!(outcome(json!({ "structuredContent": { "a": 1 }, "content": [] })).unwrap(), json!({ "a": 1 }));
        assert_eq!(outcome(json!({ "content": [{ "type": "text", "text": "x" }] })).unwrap(), json!([{ "type": "text", "text": "x" }]));
        let failed = outcome(json!({ "isError": true, "content": [{ "type": "text", "text": "no such city" }] })).unwrap_err();
        assert_eq!(failed.message, "the MCP server: no such city");
    }
}
