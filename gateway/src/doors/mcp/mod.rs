//! Sessions as an MCP server: tools, and files as resources, over stateless Streamable HTTP. The handle of everything is a session's name, so any
//! replica answers any request, and nothing is kept between two.
//!
//! Both revisions that clients speak are answered: 2026-07-28, where every request says its version and `server/discover` tells what there is, and
//! those before it, which begin with `initialize` and are given an id that says what they can. Each POST is one JSON-RPC message and has one JSON
//! answer, or a stream that ends with it: where its client wants to hear of it meanwhile, or is asked something.

use std::borrow::Cow;

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
use tracing::Span;

use self::{asked::Asked, clients::Client};
use super::desk::Desk;
use crate::{
    auth::{Part, Verb},
    body::{Body, SessionPath},
    directory::Key,
    problem::Problem,
};

mod arguments;
mod asked;
mod calls;
mod cells;
mod clients;
mod files;
mod listening;
mod logged;
mod offered;
mod registered;
mod runs;
mod streams;
mod task;
mod tasks;
mod told;
mod tools;

/// What a model reads about the server.
const INSTRUCTIONS: &str = "Dormouse keeps JavaScript/TypeScript sessions alive for ever: variables, functions, files and pending promises survive \
    sleep and crashes. Make a session with session_create, then run cells in it with eval; the session's name is the handle of every tool. Use \
    background for what takes long, and run_get for its result. Sessions cost nothing while they sleep; there is no need to delete one to save \
    anything. When you take over work, call task_resume first.";
/// The same about a session's own server.
const SESSION_INSTRUCTIONS: &str = "The tools and prompts are functions of one Dormouse session, which its cells have registered, and the resources are \
    its files and what else they have registered. The session's variables survive sleep and crashes: what a tool has done is there for the next one.";
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
    /// Absent in an answer.
    method: Option<String>,
    #[serde(default)]
    params: Value,
    /// What a client answers to a request of this server.
    result: Option<Value>,
    error: Option<Value>,
}

/// A failure of the protocol, which a client shows and a model does not see.
#[derive(Debug)]
struct Failure {
    code: i64,
    message: String,
    data: Option<Value>,
    /// The error of the API that it comes from.
    error: Option<ErrorCode>,
    /// Whether the request itself is none, in HTTP's words, whatever the code says.
    is_bad: bool,
}

impl Failure {
    fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None, error: None, is_bad: false }
    }

    fn error(self) -> Value {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let Some(data) = self.data {
            error["data"] = data;
        }
        error
    }

    fn message(self, id: &Value) -> Value {
        json!({ "jsonrpc": "2.0", "id": id, "error": self.error() })
    }
}

/// Whose tools and resources there are.
enum Scope {
    /// Those of the server, and those of the sessions of the desk's namespace under their sessions' names.
    Server,
    /// A session's own.
    Session(Key),
}

/// `POST /mcp`.
pub(crate) async fn serve(desk: Desk, headers: HeaderMap, Body(message): Body<Message>) -> Result<Response, Problem> {
    Ok(serve_in(desk, Scope::Server, headers, message).await)
}

/// `POST /v1/namespaces/{namespace}/sessions/{name}/mcp`: a server that has the tools that cells of the session have registered, and its files.
pub(crate) async fn serve_session(
    desk: Desk,
    SessionPath(key): SessionPath,
    headers: HeaderMap,
    Body(message): Body<Message>,
) -> Result<Response, Problem> {
    let desk = Desk { namespace: key.namespace.clone(), ..desk };
    desk.may(Verb::Create, &key, Part::Eval).await?;
    Ok(serve_in(desk, Scope::Session(key), headers, message).await)
}

/// `GET` of a session's own server: what a client of a revision before the stateless one is told unasked, or the rest of a stream that broke.
pub(crate) async fn listen_session(desk: Desk, SessionPath(key): SessionPath, headers: HeaderMap) -> Result<Response, Problem> {
    let desk = Desk { namespace: key.namespace.clone(), ..desk };
    desk.may(Verb::Create, &key, Part::Eval).await?;
    if let Some(response) = streams::resumed(&desk, &headers) {
        return Ok(response);
    }
    let client = Client::known(&headers);
    let Some(id) = client.id.filter(|_| told::takes_stream(&headers)) else { return Ok(StatusCode::METHOD_NOT_ALLOWED.into_response()) };
    Ok(streams::listen(desk, key, listening::Wanted::OfClient(id)).await?)
}

/// `GET /mcp`: the rest of a stream that broke. Nothing is ever sent unasked.
pub(crate) async fn listen(desk: Desk, headers: HeaderMap) -> Response {
    streams::resumed(&desk, &headers).unwrap_or_else(|| StatusCode::METHOD_NOT_ALLOWED.into_response())
}

async fn serve_in(desk: Desk, scope: Scope, headers: HeaderMap, message: Message) -> Response {
    let Some(id) = message.id.clone() else { return StatusCode::ACCEPTED.into_response() };
    let Some(method) = message.method.clone() else {
        return match calls::answered(&desk, &id, message.result, message.error).await {
            Some(Err(error)) => Problem(error).into_response(),
            Some(Ok(())) | None => StatusCode::ACCEPTED.into_response(),
        };
    };
    let revision = match version(&message, &headers) {
        Ok(_) if message.jsonrpc != "2.0" => return failed(&id, Failure::new(code::INVALID_REQUEST, "jsonrpc: write \"2.0\"")),
        Ok(revision) => revision,
        Err(failure) => return failed(&id, failure),
    };
    let span = span(&method, &message.params);
    let client = if revision == REVISIONS[0] { Client::stateless(&message.params) } else { Client::known(&headers) };
    let asked = Asked::new(desk, scope, revision, id, client, &headers);
    streams::answer(asked, method, message.params, &headers, span).await
}

fn message_of(id: &Value, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

fn failed(id: &Value, failure: Failure) -> Response {
    let status = match failure.code {
        _ if failure.is_bad => StatusCode::BAD_REQUEST,
        code::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        code::UNSUPPORTED_VERSION | code::HEADER_MISMATCH | code::MISSING_CAPABILITY | code::INVALID_REQUEST => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    };
    let mut response = Json(failure.message(id)).into_response();
    *response.status_mut() = status;
    response.extensions_mut().insert(crate::problem::Whole);
    response
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
        if let (Some(header), Some(body)) = (header(name), body)
            && decoded(header).as_deref() != Some(body.as_str())
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
    let revision = REVISIONS.into_iter().find(|revision| *revision == asked).ok_or_else(|| Failure {
        data: Some(json!({ "supported": REVISIONS, "requested": asked })),
        ..Failure::new(code::UNSUPPORTED_VERSION, format!("revision {asked} is not spoken here"))
    })?;
    if revision == REVISIONS[0] {
        clients::says_what_it_must(&message.params)?;
        let method = message.method.as_deref().unwrap_or_default();
        let named = matches!(method, "tools/call" | "prompts/get" | "resources/read");
        for (name, needed) in [("mcp-protocol-version", true), ("mcp-method", true), ("mcp-name", named)] {
            if needed && headers.get(name).is_none() {
                return Err(Failure::new(code::HEADER_MISMATCH, format!("the header {name} is missing")));
            }
        }
    }
    Ok(revision)
}

/// What a header says: itself, or text that is no ASCII, encoded. `None`: it is encoded and cannot be read.
fn decoded(header: &str) -> Option<Cow<'_, str>> {
    let Some(encoded) = header.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) else { return Some(header.into()) };
    let bytes = base64::engine::general_purpose::STANDARD.decode(encoded).ok()?;
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

/// The revision that is agreed on with a client which begins with these parameters.
fn agreed(params: &Value) -> &'static str {
    let asked = params.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
    let spoken = REVISIONS.into_iter().filter(|spoken| *spoken <= INITIALIZED).find(|spoken| *spoken == asked);
    spoken.unwrap_or(INITIALIZED)
}

/// What there is. `session`: in a session's own server.
fn capabilities(session: bool, stateless: bool) -> Value {
    let mut capabilities = json!({ "tools": {}, "resources": {} });
    if session {
        let told = json!({ "listChanged": true });
        capabilities = json!({
            "tools": told, "prompts": told, "resources": { "listChanged": true, "subscribe": true }, "completions": {}, "logging": {},
        });
    }
    if stateless {
        capabilities["logging"] = json!({});
        capabilities["extensions"] = json!({ runs::EXTENSION: {} });
    }
    capabilities
}

fn implementation() -> Value {
    json!({ "name": "dormouse", "title": "Dormouse", "version": env!("CARGO_PKG_VERSION") })
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

fn of_api(error: &ApiError) -> Failure {
    let code = match error.code {
        ErrorCode::FileNotFound | ErrorCode::SessionNotFound => code::RESOURCE_NOT_FOUND,
        ErrorCode::InvalidRequest => code::INVALID_PARAMS,
        _ => code::INTERNAL,
    };
    Failure { data: serde_json::to_value(error).ok(), error: Some(error.code), ..Failure::new(code, error.message.clone()) }
}
