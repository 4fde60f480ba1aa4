//! The streaming protocol's own paths: `/sessions`. The first request makes a session, runs its code and streams the events; a client that lost the
//! stream takes it up behind the last `seq` that it has seen, and makes the calls of the tools that it said it makes.

use axum::{
    Json,
    extract::Path,
    http::{HeaderMap, StatusCode},
    response::Response,
};
use dormouse_crds::session::{KernelSessionSpec, ToolBrokerRef, Ttl};
use dormouse_protocol::{
    ApiError, ErrorCode,
    eval::EvalRequest,
    event::Event,
    session::{CreateSession, Session, State, session_id},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    config,
    desk::Desk,
    hostcalls::{self, Said},
};
use crate::{
    audit,
    body::{Body, Params},
    directory::Key,
    names::check_name,
    problem::Problem,
    service::Existing,
};

mod answer;
mod encryption;
mod shape;

use answer::{Begin, Stream};
use encryption::Encryption;

/// Longest time that such a session's code may run, in milliseconds.
pub(crate) const EXECUTION_MS_MAX: u64 = 600_000;
/// How long such a session is kept that nobody uses, unless its client says otherwise: as long as a call waits for a client. Then it is read only for
/// a day, and deleted.
const TTL: Ttl = Ttl { active_seconds: 7 * 86_400, retained_seconds: 86_400 };

/// Body of `POST /sessions`.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Start {
    /// A program: `return` gives its result, `await` may stand anywhere.
    code: String,
    /// An id of the client's own, `s_` and then lower-case letters, digits and `-`: one that is taken is refused, so that the request may be repeated.
    session_id: Option<String>,
    /// Its limits, and its tools.
    #[serde(default)]
    config: Config,
    /// Whether the events are encrypted.
    #[serde(default)]
    encryption: Encryption,
}

#[derive(Debug, Clone, Default, Deserialize, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Config {
    /// Milliseconds that code may run. What it waits for a tool is not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_execution_ms: Option<u64>,
    /// Tool calls that it may make.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tool_calls: Option<u32>,
    /// Bytes that it may write.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_stdout_bytes: Option<u64>,
    /// How often the client expects a heartbeat. It has one every 10 seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    heartbeat_interval_ms: Option<u64>,
    /// How long the session is kept that nobody uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    ttl: Option<Ttl>,
    /// The name of a ToolBroker.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_broker: Option<String>,
    /// Tools that the client makes itself, `[{name, description?, input?}]`; or `{broker, client}`, or the name of a ToolBroker.
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Value>,
}

impl Config {
    fn spec(&self) -> Result<KernelSessionSpec, ApiError> {
        let mut spec = KernelSessionSpec { ttl: self.ttl.unwrap_or(TTL), ..KernelSessionSpec::default() };
        if let Some(ms) = self.max_execution_ms {
            if ms == 0 || ms > EXECUTION_MS_MAX {
                return Err(config::invalid("maxExecutionMs", &format!("write 1 to {EXECUTION_MS_MAX}")));
            }
            spec.limits.eval_timeout_ms = ms;
        }
        spec.limits.tool_calls = self.max_tool_calls.unwrap_or(spec.limits.tool_calls);
        spec.limits.output_bytes = self.max_stdout_bytes.unwrap_or(spec.limits.output_bytes);
        spec.tool_broker_ref = self.tool_broker.clone().map(ToolBrokerRef::new);
        let mut fields = serde_json::Map::new();
        config::add_tools(&mut fields, self.tools.as_ref())?;
        config::with_fields(&spec, fields)
    }
}

/// Query of a stream. At most one of its fields.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct Position {
    /// Only events with a greater `seq`. 410 `EventsExpired` when the next one is not kept any more. Without it, all that are kept.
    after: Option<u64>,
    /// Only events with this `seq` or a greater one.
    from: Option<u64>,
    /// The same.
    from_seq: Option<u64>,
}

impl Position {
    /// Behind which event the stream begins; `None`: with the oldest that is kept.
    fn after(&self) -> Result<Option<u64>, ApiError> {
        match (self.after, self.from.xor(self.from_seq)) {
            (after, None) if self.from.is_none() => Ok(after),
            (None, Some(from)) => Ok(from.checked_sub(1)),
            _ => Err(ApiError::new(ErrorCode::InvalidRequest, "query: write one of `after`, `from` and `fromSeq`")),
        }
    }
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
    state: State,
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
    /// How many they are.
    total: usize,
}

/// The name of a session whose client has given it this id.
fn name_of(id: &str) -> Result<String, ApiError> {
    let name = id.strip_prefix("s_").map(|rest| format!("s-{rest}"));
    let name = name.ok_or_else(|| ApiError::new(ErrorCode::InvalidRequest, "sessionId: it begins with `s_`"))?;
    check_name(&name, "sessionId")?;
    Ok(name)
}

/// The session of this id, of its client's id, or of this name.
fn find(desk: &Desk, id: &str) -> Result<Key, ApiError> {
    if !id.starts_with("s_") {
        return desk.key(id);
    }
    let of_id = |record: &&std::sync::Arc<crate::directory::Record>| session_id(&record.uid) == id;
    let records = desk.app.router.directory().list(Some(&desk.namespace));
    // One that is not there has a name that nobody has: the right to it is looked at all the same, so that the answer tells nothing.
    let named = || Key::new(&desk.namespace, name_of(id).unwrap_or_else(|_| "-".to_owned()));
    Ok(records.iter().find(of_id).map_or_else(named, |record| record.key.clone()))
}

/// Makes a session, runs its code and streams its events: NDJSON that begins with `session_init` and ends in `final`. The code is a run: once the first
/// line is there, it runs to its end whoever reads.
#[utoipa::path(post, path = "/sessions", tag = "streaming", params(("Dormouse-Namespace" = Option<String>, Header, description = "the key's, or `default`")), request_body = Start,
    responses((status = 200, description = "events, one a line", content((Event = "application/x-ndjson")))))]
pub(crate) async fn start(desk: Desk, Body(body): Body<Start>) -> Result<Response, Problem> {
    let spec = body.config.spec()?;
    let ttl = spec.ttl;
    let name = body.session_id.as_deref().map(name_of).transpose()?;
    let hello = body.encryption.hello()?;
    // The keys are made with the session's id; a half that makes none is refused before there is a session.
    hello.map(|hello| hello.accept(None)).transpose()?;
    let session = desk.create(CreateSession { name, spec, ..CreateSession::default() }, Existing::Refuse).await?;
    let keys = hello.map(|hello| hello.accept(Some(&session.id))).transpose()?;
    let key = desk.key(&session.name)?;
    // The program is a function's body, so that it may return.
    let code = format!("await (async () => {{{}\n}})()", body.code);
    let run = desk.run_events(&key, EvalRequest { code, ..EvalRequest::default() });
    let frames = desk.logged(("eval", &key, ""), run, |frames| Some(audit::done(frames))).await?;
    let begin = Begin { session, ttl, config: Some(body.config), after: 0 };
    Ok(Stream::new(desk, keys, frames).answer(Some(begin)))
}

/// Lists the sessions of the caller's namespace.
#[utoipa::path(get, path = "/sessions", tag = "streaming", params(("Dormouse-Namespace" = Option<String>, Header, description = "the key's, or `default`")),
    responses((status = 200, body = ShownList)))]
pub(crate) async fn list(desk: Desk) -> Result<Json<ShownList>, Problem> {
    let page = desk.list(Some(crate::service::PAGE_MAX), None, "").await?;
    let sessions: Vec<_> = page.items.into_iter().map(Shown::from).collect();
    Ok(Json(ShownList { total: sessions.len(), sessions }))
}

/// Reads a session, by `s_…` or by name.
#[utoipa::path(get, path = "/sessions/{id}", tag = "streaming", params(("id" = String, Path,)),
    responses((status = 200, body = Shown)))]
pub(crate) async fn get(desk: Desk, Path(id): Path<String>) -> Result<Json<Shown>, Problem> {
    let key = find(&desk, &id)?;
    Ok(Json(desk.get(&key).await?.into()))
}

/// Deletes a session.
#[utoipa::path(delete, path = "/sessions/{id}", tag = "streaming", params(("id" = String, Path,)),
    responses((status = 204, description = "it is on its way out")))]
pub(crate) async fn delete(desk: Desk, Path(id): Path<String>) -> Result<StatusCode, Problem> {
    let key = find(&desk, &id)?;
    desk.delete(&key).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Ends what runs in a session: its `final` says `Interrupted`. The session stays.
#[utoipa::path(post, path = "/sessions/{id}/cancel", tag = "streaming", params(("id" = String, Path,)),
    responses((status = 204, description = "nothing of it runs any more")))]
pub(crate) async fn cancel(desk: Desk, Path(id): Path<String>) -> Result<StatusCode, Problem> {
    let key = find(&desk, &id)?;
    for run in desk.open_runs(&key).await? {
        desk.cancel_run(&key, &run).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Delivers the result of a tool that the client makes, as `tool_call` asked for it. Answers when it is stored.
#[utoipa::path(post, path = "/sessions/{id}/tool-results", tag = "streaming", params(("id" = String, Path,)), request_body = Said,
    responses((status = 204, description = "the session has it")))]
pub(crate) async fn tool_result(desk: Desk, Path(id): Path<String>, Body(said): Body<Said>) -> Result<StatusCode, Problem> {
    let key = find(&desk, &id)?;
    hostcalls::answer(&desk, &key, said).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Streams a session's events, up to the next `final`. Where nothing runs, it ends behind the last event that there is.
#[utoipa::path(get, path = "/sessions/{id}/stream", tag = "streaming",
    params(("id" = String, Path,), Position, ("Dormouse-Client-Hello" = Option<String>, Header, description = "a `clientHello` as JSON in base64: the events are encrypted, and come behind a `session_init` with the keys")),
    responses((status = 200, description = "events, one a line", content((Event = "application/x-ndjson")))))]
pub(crate) async fn stream(
    desk: Desk,
    Path(id): Path<String>,
    Params(place): Params<Position>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let after = place.after()?;
    let hello = encryption::hello_of(&headers)?;
    let key = find(&desk, &id)?;
    let runs = !desk.open_runs(&key).await?.is_empty();
    let session = desk.get_to_run(&key).await?;
    let frames = desk.events(&key, after, runs || !is_at_rest(session.state)).await?;
    let keys = hello.map(|hello| hello.accept(Some(&session.id))).transpose()?;
    let begin = keys.is_some().then(|| Begin { ttl: session.spec.ttl, session, config: None, after: after.unwrap_or(0) });
    Ok(Stream::new(desk, keys, frames).answer(begin))
}

/// Whether a cell that nobody has accepted as a run cannot be under way.
fn is_at_rest(state: State) -> bool {
    matches!(state, State::Idle | State::Hibernated | State::Archived | State::Failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_begins_behind_a_number_or_with_one() {
        let place = |after, from, from_seq| Position { after, from, from_seq }.after().ok();
        assert_eq!(place(None, None, None), Some(None));
        assert_eq!(place(Some(0), None, None), Some(Some(0)));
        assert_eq!((place(None, Some(7), None), place(None, None, Some(7))), (Some(Some(6)), Some(Some(6))));
        assert_eq!(place(None, Some(0), None), Some(None), "from the oldest");
        for several in [place(Some(1), Some(1), None), place(None, Some(1), Some(1)), place(Some(1), Some(1), Some(1))] {
            assert_eq!(several, None);
        }
    }

    #[test]
    fn an_id_of_the_clients_is_a_name() {
        assert_eq!(name_of("s_5f0c-1").unwrap(), "s-5f0c-1");
        for wrong in ["5f0c", "s_", "s_A", "s_a/b", "s_a.b"] {
            assert_eq!(name_of(wrong).unwrap_err().code, ErrorCode::InvalidRequest, "{wrong}");
        }
    }
}
