//! Sessions as Jupyter kernels: the REST paths and the channels of a kernel gateway, so that notebooks attach with `--gateway-url`.
//!
//! A kernel is a session, and its id the session's uid: Jupyter's own servers take only ids of that form. Closing a notebook costs nothing: the cells
//! that it has sent go on, and an idle session sleeps by itself. Interrupting a cell keeps its heap.

use std::sync::Arc;

use axum::{
    Json,
    body::Bytes,
    extract::{Path, Query},
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use dormouse_protocol::{
    ApiError, ErrorCode,
    session::{CreateSession, Session, State as SessionState},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::desk::Desk;
use crate::{
    auth::{Caller, Part, Verb},
    body::Whole,
    directory::{Key, Record},
    problem::Problem,
    service::{Existing, PAGE_MAX},
};

mod cell;
pub(crate) mod channels;
mod history;
mod keys;
mod messages;
mod past;
mod queue;
mod resumed;

/// The only kernel there is.
const KERNEL: &str = "dormouse";
/// The variable of a notebook that names the session to attach to; without it a new one is made.
const SESSION_VARIABLE: &str = "KERNEL_DORMOUSE_SESSION";

/// Body of `POST /api/kernels`. Clients send more, which means nothing here.
#[derive(Debug, Deserialize)]
pub(crate) struct Start {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    env: serde_json::Map<String, Value>,
}

/// Query of `DELETE /api/kernels/{id}`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Stop {
    delete: bool,
}

/// The session whose uid, or whose name, is `id`.
pub(super) fn find(desk: &Desk, id: &str) -> Result<Key, ApiError> {
    let records = desk.app.router.directory().list(Some(&desk.namespace));
    let of_id = |record: &&Arc<Record>| record.uid == id;
    records.iter().find(of_id).map_or_else(|| desk.key(id), |record| Ok(record.key.clone()))
}

/// Ends the queues that this gateway has for a kernel which is shut down or restarted: the cells in them would wake it, or run in what is new. Who may
/// not do that ends none.
async fn end_queues(desk: &Desk, key: &Key, verb: Verb) {
    if desk.may(verb, key, Part::Session).await.is_ok() {
        // There may be none.
        let _ = desk.app.shut_kernels.send(key.clone());
    }
}

fn id_of(desk: &Desk, session: &Session) -> String {
    let key = Key::new(&session.namespace, &session.name);
    desk.app.router.directory().get(&key).map_or_else(|| session.name.clone(), |record| record.uid.clone())
}

fn kernel(desk: &Desk, session: &Session) -> Value {
    let state = match session.state {
        SessionState::Running | SessionState::WaitingForTool | SessionState::WaitingForApproval => "busy",
        SessionState::Waking | SessionState::Unknown => "starting",
        SessionState::Failed => "dead",
        SessionState::Idle | SessionState::Hibernated | SessionState::Archived => "idle",
    };
    let active = session.status.last_active_time.as_ref().and_then(|time| time.parse().ok());
    // Jupyter's servers read microseconds, all six digits, and nothing else.
    let active = format!("{:.6}", active.unwrap_or_else(|| desk.app.router.clock().now()));
    json!({ "id": id_of(desk, session), "name": KERNEL, "last_activity": active, "execution_state": state, "connections": 1, "session": session.name })
}

/// `GET /api`.
pub(crate) async fn version(_caller: Caller) -> Json<Value> {
    Json(json!({ "version": "2.14.0" }))
}

fn spec() -> Value {
    json!({
        "name": KERNEL, "resources": {},
        "spec": {
            "argv": [], "env": {}, "language": "typescript", "display_name": "Dormouse (TypeScript)", "interrupt_mode": "message", "metadata": {},
        },
    })
}

/// `GET /api/kernelspecs`.
pub(crate) async fn specs(_caller: Caller) -> Json<Value> {
    Json(json!({ "default": KERNEL, "kernelspecs": { KERNEL: spec() } }))
}

/// `GET /api/kernelspecs/{name}`.
pub(crate) async fn one_spec(_caller: Caller, Path(name): Path<String>) -> Result<Json<Value>, Problem> {
    if name == KERNEL { Ok(Json(spec())) } else { Err(no_such_kernel(&name)) }
}

fn no_such_kernel(name: &str) -> Problem {
    Problem(ApiError::new(ErrorCode::InvalidRequest, format!("there is no kernel `{name}`: use `{KERNEL}`")))
}

/// `GET /api/kernels`.
pub(crate) async fn list(desk: Desk) -> Result<Json<Value>, Problem> {
    let page = desk.list(Some(PAGE_MAX), None, "").await?;
    Ok(Json(page.items.iter().map(|session| kernel(&desk, session)).collect()))
}

/// `POST /api/kernels`.
pub(crate) async fn start(desk: Desk, Whole(body): Whole) -> Result<Response, Problem> {
    // Jupyter's servers send JSON and call it a form. No page of another origin can send what this takes: its credential is a header.
    let body = if body.is_empty() { Bytes::from_static(b"{}") } else { body };
    let body: Start = serde_json::from_slice(&body)
        .map_err(|error| ApiError::new(ErrorCode::InvalidRequest, format!("the body is no JSON that starts a kernel: {error}")))?;
    if let Some(name) = body.name.as_deref().filter(|name| *name != KERNEL) {
        return Err(no_such_kernel(name));
    }
    let name = body.env.get(SESSION_VARIABLE).and_then(Value::as_str).map(str::to_owned);
    let session = desk.create(CreateSession { name, ..CreateSession::default() }, Existing::Return).await?;
    Ok((StatusCode::CREATED, Json(kernel(&desk, &session))).into_response())
}

/// `GET /api/kernels/{id}`.
pub(crate) async fn get(desk: Desk, Path(id): Path<String>) -> Result<Json<Value>, Problem> {
    let session = desk.get(&find(&desk, &id)?).await?;
    Ok(Json(kernel(&desk, &session)))
}

/// `DELETE /api/kernels/{id}`: puts the session to sleep, or deletes it.
pub(crate) async fn stop(desk: Desk, Path(id): Path<String>, Query(stop): Query<Stop>) -> Result<StatusCode, Problem> {
    let key = find(&desk, &id)?;
    end_queues(&desk, &key, if stop.delete { Verb::Delete } else { Verb::Update }).await;
    if stop.delete {
        desk.delete(&key).await?;
    } else {
        desk.hibernate(&key).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

/// `POST /api/kernels/{id}/interrupt`.
pub(crate) async fn interrupt(desk: Desk, Path(id): Path<String>) -> Result<StatusCode, Problem> {
    desk.interrupt(&find(&desk, &id)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `POST /api/kernels/{id}/restart`: empties the session.
pub(crate) async fn restart(desk: Desk, Path(id): Path<String>) -> Result<Json<Value>, Problem> {
    let key = find(&desk, &id)?;
    end_queues(&desk, &key, Verb::Update).await;
    let session = desk.reset(&key, &desk.operation()).await?;
    Ok(Json(kernel(&desk, &session)))
}
