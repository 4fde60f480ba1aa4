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
use dormouse_protocol::{ApiError, ErrorCode};
use dormouse_service::traces;
use serde::Deserialize;
use serde_json::{Value, json};
use tracing::{Instrument as _, Span};

use super::desk::Desk;
use crate::{
    auth::{Part, Verb},
    directory::Key,
    problem::Problem,
    routes::{Body, SessionPath},
};

mod arguments;
mod files;
mod registered;
mod runs;
mod task;
mod told;
mod tools;

/// What a model reads about the server.
const INSTRUCTIONS: &str = "Dormouse keeps JavaScript/TypeScript sessions alive for ever: variables, functions, files and pending promises survive \
    sleep and crashes. Make a session with session_create, then run cells in it with eval; the session's name is the handle of every tool. Use \
    background for what takes long, and run_get for its result. Sessions cost nothing while they sleep; there is no need to delete one to save \
    anything. When you take over work, call task_resume first.";
/// The same about a session's own server.
const SESSION_INSTRUCTIONS: &str = "The tools are functions of one Dormouse session, which its cells have registered with mcp.tool, and the resources \
    are its files. The session's variables survive sleep and crashes: what a tool has done is there for the next one.";
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

    fn message(self, id: &Value) -> Value {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let Some(data) = self.data {
            error["data"] = data;
        }
        json!({ "jsonrpc": "2.0", "id": id, "error": error })
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

async fn serve_in(desk: Desk, scope: Scope, headers: HeaderMap, message: Message) -> Response {
    let Some(id) = message.id.clone() else { return StatusCode::ACCEPTED.into_response() };
    let Some(method) = message.method.clone() else { return StatusCode::ACCEPTED.into_response() };
    let revision = match version(&message, &headers) {
        Ok(_) if message.jsonrpc != "2.0" => return failed(&id, Failure::new(code::INVALID_REQUEST, "jsonrpc: write \"2.0\"")),
        Ok(revision) => revision,
        Err(failure) => return failed(&id, failure),
    };
    let span = span(&method, &message.params);
    let token = told::wanted(&message.params, &headers).filter(|_| method == "tools/call");
    let asked = Asked { desk, scope, revision, told: None };
    if let Some(token) = token {
        let work = move |told| {
            let asked = Asked { told: Some(told), ..asked };
            async move {
                let answered = asked.answer(&method, message.params).await;
                answered.map_or_else(|failure| failure.message(&id), |result| message_of(&id, result))
            }
            .instrument(span)
        };
        return told::stream(token, work);
    }
    match asked.answer(&method, message.params).instrument(span).await {
        Ok(result) => Json(message_of(&id, result)).into_response(),
        Err(failure) => failed(&id, failure),
    }
}

fn message_of(id: &Value, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

fn failed(id: &Value, failure: Failure) -> Response {
    let status = match failure.code {
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

/// A request, at its caller's desk.
struct Asked {
    desk: Desk,
    scope: Scope,
    revision: &'static str,
    told: Option<told::Told>,
}

impl Asked {
    async fn answer(&self, method: &str, params: Value) -> Result<Value, Failure> {
        let (desk, stateless) = (&self.desk, self.revision == REVISIONS[0]);
        let result = match method {
            "initialize" => {
                let asked = params.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
                let spoken = REVISIONS.into_iter().filter(|spoken| *spoken <= INITIALIZED).find(|spoken| *spoken == asked);
                json!({
                    "protocolVersion": spoken.unwrap_or(INITIALIZED), "capabilities": capabilities(), "serverInfo": implementation(),
                    "instructions": self.instructions(),
                })
            }
            "server/discover" => json!({
                "supportedVersions": REVISIONS, "capabilities": extended(), "instructions": self.instructions(), "ttlMs": 0,
                "cacheScope": "private", "_meta": { "io.modelcontextprotocol/serverInfo": implementation() },
            }),
            "ping" => json!({}),
            "tools/list" => fresh(json!({ "tools": self.tools().await? })),
            "tools/call" => self.call(params).await?,
            "resources/list" => fresh(match &self.scope {
                Scope::Server => json!({ "resources": [] }),
                Scope::Session(key) => files::list(desk, key, &params).await?,
            }),
            "resources/templates/list" => {
                let session = match &self.scope {
                    Scope::Server => format!("{SCHEME}{{namespace}}/{{session}}"),
                    Scope::Session(key) => format!("{SCHEME}{}/{}", key.namespace, key.name),
                };
                fresh(json!({ "resourceTemplates": [
                    { "uriTemplate": format!("{session}/{{+path}}"), "name": "file", "title": "A file of a session" },
                ] }))
            }
            "resources/read" => fresh(files::read(desk, &self.scope, &params).await?),
            "tasks/get" | "tasks/update" | "tasks/cancel" if stateless => {
                if !runs::are_known(&params) {
                    return Err(runs::unknown());
                }
                runs::answer(desk, method, params).await?
            }
            other => return Err(Failure::new(code::METHOD_NOT_FOUND, format!("there is no method `{other}`"))),
        };
        Ok(completed(result, self.revision))
    }

    fn instructions(&self) -> &'static str {
        if matches!(self.scope, Scope::Server) { INSTRUCTIONS } else { SESSION_INSTRUCTIONS }
    }

    async fn tools(&self) -> Result<Vec<Value>, Failure> {
        match &self.scope {
            Scope::Server => {
                let mut all = tools::all().clone();
                all.extend(registered::list(&self.desk).await);
                Ok(all)
            }
            Scope::Session(key) => registered::of_session(&self.desk, key, "").await.map_err(|error| of_api(&error)),
        }
    }

    /// A failure of a tool is for the model to read and to act on.
    async fn call(&self, params: Value) -> Result<Value, Failure> {
        let name = params.get("name").and_then(Value::as_str).ok_or_else(|| Failure::new(code::INVALID_PARAMS, "name: say which tool"))?;
        let arguments = params.get("arguments").cloned().unwrap_or_else(|| json!({}));
        let none = || Failure::new(code::INVALID_PARAMS, format!("there is no tool `{name}`: list the tools"));
        let called = match &self.scope {
            Scope::Server => registered::Called::named(name),
            Scope::Session(key) => Some(registered::Called { session: &key.name, tool: name }),
        };
        if let Some(called) = called
            && let Some(answer) = called.run(&self.desk, &arguments, self.told.as_ref()).await.transpose()
        {
            return Ok(answer.unwrap_or_else(|error| tools::failed(&error)));
        }
        if matches!(self.scope, Scope::Session(_)) || !tools::all().iter().any(|tool| tool["name"] == name) {
            return Err(none());
        }
        let tasks = self.revision == REVISIONS[0] && runs::are_known(&params);
        let called = tools::call(&self.desk, name, arguments, tasks, self.told.as_ref()).await;
        Ok(called.unwrap_or_else(|error| tools::failed(&error)))
    }
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
    Failure { code, message: error.message.clone(), data: serde_json::to_value(error).ok() }
}
