//! Sessions as an MCP server: tools, and files as resources, over stateless Streamable HTTP. The handle of everything is a session's name, so any
//! replica answers any request, and nothing is kept between two.
//!
//! Both revisions that clients speak are answered: 2026-07-28, where every request says its version and `server/discover` tells what there is, and
//! those before it, which begin with `initialize` and are given no session. Each POST is one JSON-RPC message and has one JSON answer; nothing is
//! ever sent unasked, so a GET, which would listen for that, is refused as the specification says.

use axum::{
    Json,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode},
    response::{IntoResponse as _, Response},
};
use base64::Engine as _;
use dormouse_protocol::{ApiError, ErrorCode};
use dormouse_service::traces;
use serde::Deserialize;
use serde_json::{Value, json};
use tracing::{Instrument as _, Span};

use super::desk::Desk;
use crate::{problem::Problem, routes::Body};

mod arguments;
mod registered;
mod runs;
mod task;
mod tools;

/// What a model reads about the server.
const INSTRUCTIONS: &str = "Dormouse keeps JavaScript/TypeScript sessions alive for ever: variables, functions, files and pending promises survive \
    sleep and crashes. Make a session with session_create, then run cells in it with eval; the session's name is the handle of every tool. Use \
    background for what takes long, and run_get for its result. Sessions cost nothing while they sleep; there is no need to delete one to save \
    anything. When you take over work, call task_resume first.";
/// The scheme of files.
const SCHEME: &str = "dormouse://";
/// Revisions that are spoken, newest first.
pub(crate) const REVISIONS: [&str; 4] = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"];
/// The newest revision that begins with `initialize`.
const INITIALIZED: &str = "2025-11-25";
/// Where a request of the stateless revision says its version.
const VERSION_META: &str = "io.modelcontextprotocol/protocolVersion";

/// JSON-RPC's codes, and those of MCP.
mod code {
    pub(super) const INVALID_REQUEST: i64 = -32600;
    pub(super) const METHOD_NOT_FOUND: i64 = -32601;
    pub(super) const INVALID_PARAMS: i64 = -32602;
    pub(super) const INTERNAL: i64 = -32603;
    pub(super) const RESOURCE_NOT_FOUND: i64 = -32002;
    pub(super) const MISSING_CAPABILITY: i64 = -32021;
    pub(super) const HEADER_MISMATCH: i64 = -32020;
    pub(super) const UNSUPPORTED_VERSION: i64 = -32022;
}

/// A JSON-RPC message of a client.
#[derive(Debug, Deserialize)]
pub(crate) struct Message {
    jsonrpc: String,
    /// Absent in a notification.
    id: Option<Value>,
    /// Absent in an answer, which this server asks for none of.
    method: Option<String>,
    #[serde(default)]
    params: Value,
}

/// A failure of the protocol, which a client shows and a model does not see.
struct Failure {
    code: i64,
    message: String,
    data: Option<Value>,
}

impl Failure {
    fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }
}

/// `POST /mcp`.
pub(crate) async fn serve(desk: Desk, headers: HeaderMap, Body(message): Body<Message>) -> Result<Response, Problem> {
    let Some(id) = message.id.clone() else { return Ok(StatusCode::ACCEPTED.into_response()) };
    let Some(method) = message.method.clone() else { return Ok(StatusCode::ACCEPTED.into_response()) };
    let answered = match version(&message, &headers) {
        Err(failure) => Err(failure),
        Ok(_) if message.jsonrpc != "2.0" => Err(Failure::new(code::INVALID_REQUEST, "jsonrpc: write \"2.0\"")),
        Ok(revision) => {
            let span = span(&method, &message.params);
            answer(&desk, &method, message.params, revision).instrument(span).await
        }
    };
    Ok(match answered {
        Ok(result) => Json(json!({ "jsonrpc": "2.0", "id": id, "result": result })).into_response(),
        Err(failure) => {
            let status = match failure.code {
                code::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
                code::UNSUPPORTED_VERSION | code::HEADER_MISMATCH | code::MISSING_CAPABILITY | code::INVALID_REQUEST => {
                    StatusCode::BAD_REQUEST
                }
                _ => StatusCode::OK,
            };
            let mut error = json!({ "code": failure.code, "message": failure.message });
            if let Some(data) = failure.data {
                error["data"] = data;
            }
            let mut response = Json(json!({ "jsonrpc": "2.0", "id": id, "error": error })).into_response();
            *response.status_mut() = status;
            response.extensions_mut().insert(crate::problem::Whole);
            response
        }
    })
}

/// The span of a message whose client names its trace in it; its request's own is enough for all others.
fn span(method: &str, params: &Value) -> Span {
    let said = params.get("_meta").and_then(|meta| meta.get("traceparent")).and_then(Value::as_str);
    let Some(said) = said.filter(|_| traces::are_on()).and_then(|said| HeaderValue::from_str(said).ok()) else { return Span::current() };
    let span = tracing::info_span!("message", otel.name = method, otel.kind = "server");
    traces::follow(&span, &[(HeaderName::from_static("traceparent"), said)].into_iter().collect());
    span
}

/// The revision that a request is made in: what it says itself, else what its header says, else the oldest.
fn version(message: &Message, headers: &HeaderMap) -> Result<&'static str, Failure> {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let stated = text(message.params.get("_meta").and_then(|meta| meta.get(VERSION_META)));
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    // What stands between may have judged the request by its headers: they say what the body says, or it is refused.
    let named = text(message.params.get("name").or_else(|| message.params.get("uri")).or_else(|| message.params.get("taskId")));
    let pairs = [("mcp-protocol-version", stated.clone()), ("mcp-method", message.method.clone()), ("mcp-name", named)];
    for (name, body) in pairs {
        // A name that is no ASCII stands there encoded, for nobody to judge by.
        if let (Some(header), Some(body)) = (header(name), body)
            && header != body
            && !header.starts_with("=?base64?")
        {
            return Err(Failure::new(code::HEADER_MISMATCH, format!("the header {name} says `{header}` and the body `{body}`")));
        }
    }
    let header = header("mcp-protocol-version");
    let asked = match (&stated, header) {
        (Some(stated), _) => stated.as_str(),
        (None, Some(header)) => header,
        (None, None) => return Ok("2025-03-26"),
    };
    REVISIONS.into_iter().find(|revision| *revision == asked).ok_or_else(|| Failure {
        code: code::UNSUPPORTED_VERSION,
        message: format!("revision {asked} is not spoken here"),
        data: Some(json!({ "supported": REVISIONS, "requested": asked })),
    })
}

fn capabilities() -> Value {
    json!({ "tools": {}, "resources": {} })
}

/// The same with what only the stateless revision has.
fn extended() -> Value {
    let mut capabilities = capabilities();
    capabilities["extensions"] = json!({ runs::EXTENSION: {} });
    capabilities
}

fn implementation() -> Value {
    json!({ "name": "dormouse", "title": "Dormouse", "version": env!("CARGO_PKG_VERSION") })
}

async fn answer(desk: &Desk, method: &str, params: Value, revision: &'static str) -> Result<Value, Failure> {
    let result = match method {
        "initialize" => {
            let asked = params.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
            let spoken = REVISIONS.into_iter().filter(|spoken| *spoken <= INITIALIZED).find(|spoken| *spoken == asked);
            json!({
                "protocolVersion": spoken.unwrap_or(INITIALIZED), "capabilities": capabilities(), "serverInfo": implementation(),
                "instructions": INSTRUCTIONS,
            })
        }
        "server/discover" => json!({
            "supportedVersions": REVISIONS, "capabilities": extended(), "instructions": INSTRUCTIONS, "ttlMs": 0, "cacheScope": "private",
            "_meta": { "io.modelcontextprotocol/serverInfo": implementation() },
        }),
        "ping" => json!({}),
        "tools/list" => {
            let mut all = tools::all().clone();
            all.extend(registered::list(desk).await);
            fresh(json!({ "tools": all }))
        }
        "tools/call" => {
            let name =
                params.get("name").and_then(Value::as_str).ok_or_else(|| Failure::new(code::INVALID_PARAMS, "name: say which tool"))?;
            let arguments = params.get("arguments").cloned().unwrap_or_else(|| json!({}));
            let called = match registered::Called::named(name) {
                Some(called) => called.run(desk, &arguments).await.transpose(),
                None => None,
            };
            if let Some(answer) = called {
                return Ok(completed(answer.unwrap_or_else(|error| tools::failed(&error)), revision));
            }
            if !tools::all().iter().any(|tool| tool["name"] == name) {
                return Err(Failure::new(code::INVALID_PARAMS, format!("there is no tool `{name}`: list the tools")));
            }
            // A failure of a tool is for the model to read and to act on.
            let tasks = revision == REVISIONS[0] && runs::are_known(&params);
            tools::call(desk, name, arguments, tasks).await.unwrap_or_else(|error| tools::failed(&error))
        }
        "resources/list" => fresh(json!({ "resources": [] })),
        "resources/templates/list" => fresh(json!({ "resourceTemplates": [{
            "uriTemplate": format!("{SCHEME}{{namespace}}/{{session}}/{{+path}}"), "name": "file", "title": "A file of a session",
        }] })),
        "resources/read" => fresh(resource(desk, &params).await?),
        "tasks/get" | "tasks/update" | "tasks/cancel" if revision == REVISIONS[0] => {
            if !runs::are_known(&params) {
                return Err(runs::unknown());
            }
            runs::answer(desk, method, params).await?
        }
        other => return Err(Failure::new(code::METHOD_NOT_FOUND, format!("there is no method `{other}`"))),
    };
    Ok(completed(result, revision))
}

/// A result, which says in the stateless revision whether it is all.
fn completed(mut result: Value, revision: &'static str) -> Value {
    if revision == REVISIONS[0]
        && let Some(result) = result.as_object_mut()
    {
        result.entry("resultType").or_insert_with(|| json!("complete"));
    }
    result
}

/// A list that nobody is told of when it changes.
fn fresh(mut list: Value) -> Value {
    list["ttlMs"] = json!(0);
    list["cacheScope"] = json!("private");
    list
}

async fn resource(desk: &Desk, params: &Value) -> Result<Value, Failure> {
    let uri = params.get("uri").and_then(Value::as_str).unwrap_or_default();
    let mut parts = uri.strip_prefix(SCHEME).unwrap_or_default().splitn(3, '/');
    let (Some(namespace), Some(session), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(Failure::new(code::INVALID_PARAMS, format!("`{uri}` is no file: write {SCHEME}NAMESPACE/SESSION/PATH")));
    };
    let desk = Desk { namespace: namespace.to_owned(), ..desk.clone() };
    let read = async { desk.read_file(&desk.key(session)?, &format!("/{path}")).await };
    let content = read.await.map_err(|error| of_api(&error))?;
    let content = match String::from_utf8(content.to_vec()) {
        Ok(text) => json!({ "uri": uri, "mimeType": "text/plain", "text": text }),
        Err(binary) => json!({
            "uri": uri, "mimeType": "application/octet-stream",
            "blob": base64::engine::general_purpose::STANDARD.encode(binary.as_bytes()),
        }),
    };
    Ok(json!({ "contents": [content] }))
}

fn of_api(error: &ApiError) -> Failure {
    let code = match error.code {
        ErrorCode::FileNotFound | ErrorCode::SessionNotFound => code::RESOURCE_NOT_FOUND,
        ErrorCode::InvalidRequest => code::INVALID_PARAMS,
        _ => code::INTERNAL,
    };
    Failure { code, message: error.message.clone(), data: serde_json::to_value(error).ok() }
}
