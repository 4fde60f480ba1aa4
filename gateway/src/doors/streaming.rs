//! The streaming protocol's own paths: `/sessions`. The first request makes a session, runs its code and streams the events; a client that lost the
//! stream takes it up behind the last `seq` that it has seen.

use axum::{
    Json,
    body::Body as HttpBody,
    extract::Path,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use dormouse_crds::session::KernelSessionSpec;
use dormouse_protocol::{
    ApiError, ErrorBody, ErrorCode,
    eval::EvalRequest,
    event::{Event, PROTOCOL_VERSION},
    session::{CreateSession, Session, session_id},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{desk::Desk, lines::Events};
use crate::{
    directory::Key,
    kernels::NDJSON,
    problem::Problem,
    routes::{Body, Params},
    service::Existing,
};

/// Longest time that such a session's code may run, in milliseconds.
pub(crate) const EXECUTION_MS_MAX: u64 = 600_000;

/// Body of `POST /sessions`.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Start {
    /// A program: `return` gives its result, `await` may stand anywhere.
    code: String,
    /// Its limits.
    #[serde(default)]
    config: Config,
}

#[derive(Debug, Clone, Default, Deserialize, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Config {
    /// Milliseconds that code may run.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_execution_ms: Option<u64>,
    /// Tool calls that it may make.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tool_calls: Option<u32>,
    /// The name of a ToolBroker.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_broker: Option<String>,
}

/// Query of a stream.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct After {
    /// Only events with a greater `seq`. 410 `EventsExpired` when the next one is not kept any more. Without it, all that are kept.
    after: Option<u64>,
}

/// A session, as this protocol shows it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Shown {
    /// `s_…`.
    session_id: String,
    /// The name that the rest of the API knows it by.
    name: String,
    /// What it is doing.
    state: dormouse_protocol::session::State,
}

impl From<Session> for Shown {
    fn from(session: Session) -> Self {
        Self { session_id: session.id, name: session.name, state: session.state }
    }
}

/// Answer of `GET /sessions`.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct ShownList {
    sessions: Vec<Shown>,
}

/// The session of this id, or of this name.
fn find(desk: &Desk, id: &str) -> Result<Key, ApiError> {
    if !id.starts_with("s_") {
        return desk.key(id);
    }
    let of_id = |record: &&std::sync::Arc<crate::directory::Record>| session_id(&record.uid) == id;
    let records = desk.app.router.directory().list(Some(&desk.namespace));
    // One that is not there has a name that nobody has: the right to it is looked at all the same, so that the answer tells nothing.
    Ok(records.iter().find(of_id).map_or_else(|| Key::new(&desk.namespace, "-"), |record| record.key.clone()))
}

/// Makes a session, runs its code and streams its events: NDJSON that begins with `session_init` and ends in `final`.
#[utoipa::path(post, path = "/sessions", tag = "streaming", params(("Dormouse-Namespace" = Option<String>, Header, description = "the key's, or `default`")), request_body = Start,
    responses((status = 200, description = "events, one a line", content((Event = "application/x-ndjson"))), (status = "4XX", description = "refused", body = ErrorBody), (status = "5XX", description = "failed", body = ErrorBody)))]
pub(crate) async fn start(desk: Desk, Body(body): Body<Start>) -> Result<Response, Problem> {
    let mut spec = KernelSessionSpec::default();
    if let Some(ms) = body.config.max_execution_ms {
        if ms == 0 || ms > EXECUTION_MS_MAX {
            let message = format!("config.maxExecutionMs: write 1 to {EXECUTION_MS_MAX}");
            return Err(ApiError::new(ErrorCode::InvalidRequest, message).with_detail("path", "config.maxExecutionMs").into());
        }
        spec.limits.eval_timeout_ms = ms;
    }
    if let Some(calls) = body.config.max_tool_calls {
        spec.limits.tool_calls = calls;
    }
    spec.tool_broker_ref = body.config.tool_broker.clone().map(|name| dormouse_crds::NameRef { name });
    let limit_ms = spec.limits.eval_timeout_ms;
    let session = desk.create(CreateSession { spec, ..CreateSession::default() }, Existing::Refuse).await?;
    let key = desk.key(&session.name)?;
    // The program is a function's body, so that it may return.
    let code = format!("await (async () => {{{}\n}})()", body.code);
    let frames = desk.eval_events(&key, EvalRequest { code, ..EvalRequest::default() }).await?;
    let expires = desk.app.router.clock().now().checked_add(jiff::SignedDuration::from_millis(i64::try_from(limit_ms).unwrap_or(i64::MAX)));
    let first = json!({
        "protocolVersion": PROTOCOL_VERSION, "sessionId": session.id, "seq": 0, "type": "session_init",
        "payload": { "expiresAt": expires.ok().map(|time| time.to_string()), "name": session.name, "config": body.config },
    });
    Ok(answer(Some(first), Events::new(frames)))
}

/// Lists the sessions of the caller's namespace.
#[utoipa::path(get, path = "/sessions", tag = "streaming", params(("Dormouse-Namespace" = Option<String>, Header, description = "the key's, or `default`")),
    responses((status = 200, body = ShownList), (status = "4XX", description = "refused", body = ErrorBody)))]
pub(crate) async fn list(desk: Desk) -> Result<Json<ShownList>, Problem> {
    let page = desk.list(Some(crate::service::PAGE_MAX), None, "").await?;
    Ok(Json(ShownList { sessions: page.items.into_iter().map(Shown::from).collect() }))
}

/// Reads a session, by `s_…` or by name.
#[utoipa::path(get, path = "/sessions/{id}", tag = "streaming", params(("id" = String, Path,)),
    responses((status = 200, body = Shown), (status = "4XX", description = "refused", body = ErrorBody)))]
pub(crate) async fn get(desk: Desk, Path(id): Path<String>) -> Result<Json<Shown>, Problem> {
    let key = find(&desk, &id)?;
    Ok(Json(desk.get(&key).await?.into()))
}

/// Ends a session.
#[utoipa::path(delete, path = "/sessions/{id}", tag = "streaming", params(("id" = String, Path,)),
    responses((status = 204, description = "it is on its way out"), (status = "4XX", description = "refused", body = ErrorBody)))]
pub(crate) async fn delete(desk: Desk, Path(id): Path<String>) -> Result<StatusCode, Problem> {
    let key = find(&desk, &id)?;
    desk.delete(&key).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Streams a session's events behind `after`, up to the next `final`.
#[utoipa::path(get, path = "/sessions/{id}/stream", tag = "streaming", params(("id" = String, Path,), After),
    responses((status = 200, description = "events, one a line", content((Event = "application/x-ndjson"))), (status = "4XX", description = "refused", body = ErrorBody), (status = "5XX", description = "failed", body = ErrorBody)))]
pub(crate) async fn stream(desk: Desk, Path(id): Path<String>, Params(params): Params<After>) -> Result<Response, Problem> {
    let key = find(&desk, &id)?;
    let frames = desk.events(&key, params.after, true).await?;
    Ok(answer(None, Events::new(frames)))
}

/// Events as a body, up to `final`. Events of other clients' cells come between in a stream that is followed.
fn answer(first: Option<Value>, events: Events) -> Response {
    let begin = first.map(|first| Bytes::from(format!("{first}\n")));
    let lines = futures::stream::unfold((begin, events, false), move |(begin, mut events, ended)| async move {
        if ended {
            return None;
        }
        if let Some(begin) = begin {
            return Some((Ok::<_, std::convert::Infallible>(begin), (None, events, false)));
        }
        let line = events.next().await?;
        let (line, last) = shaped(&line);
        Some((Ok(line), (None, events, last)))
    });
    let headers = [(header::CONTENT_TYPE, NDJSON), (header::CACHE_CONTROL, "no-store")];
    (headers, HttpBody::from_stream(lines)).into_response()
}

/// An event's line as this protocol has it, and whether it is the last.
fn shaped(line: &Bytes) -> (Bytes, bool) {
    let plain = || {
        let mut line = line.to_vec();
        line.push(b'\n');
        Bytes::from(line)
    };
    // The type stands before the payload, which may be long.
    let near = line.get(..line.len().min(256)).unwrap_or_default();
    let is = |wanted: &[u8]| near.windows(wanted.len()).any(|window| window == wanted);
    if is(br#""type":"error""#) {
        return (plain(), true);
    }
    if !is(br#""type":"final""#) {
        return (plain(), false);
    }
    let Ok(mut event) = serde_json::from_slice::<Value>(line) else { return (plain(), true) };
    if let Some(payload) = event.get_mut("payload").and_then(Value::as_object_mut) {
        let stats = payload.get("stats").cloned().unwrap_or_default();
        let result = payload.get("value").cloned().unwrap_or(Value::Null);
        payload.insert("result".to_owned(), result);
        let mut all = stats.as_object().cloned().unwrap_or_default();
        all.insert("toolCallCount".to_owned(), stats.get("toolCalls").cloned().unwrap_or_default());
        payload.insert("stats".to_owned(), Value::Object(all));
    }
    (Bytes::from(format!("{event}\n")), true)
}
