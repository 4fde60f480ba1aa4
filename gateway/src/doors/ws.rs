//! Sessions over a WebSocket: JSON text frames `{t, id?, …}`, each answered by `{t: "T-result", id, …}`. With the subprotocol `dormouse.v1` the events
//! of a cell come between the two, as `{t: "event", id, event}`. With `dormouse.v1.encrypted` each frame is sealed, too.
//!
//! Cells of one socket run one after the other; everything else is answered at once. A socket holds nothing that its session needs: a client that
//! connects again, through any gateway, goes on where it was.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

use axum::{
    extract::{Path, Query, Request, ws::WebSocket},
    response::{IntoResponse as _, Response},
};
use dormouse_crds::session::KernelSessionSpec;
use dormouse_protocol::{
    ApiError, ErrorCode,
    eval::{EvalRequest, Language},
    session::CreateSession,
};
use dormouse_service::room::{Holding, json_weight};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use tokio::{sync::mpsc, task::JoinHandle};

use super::{
    desk::Desk,
    hostcalls::{self, Said},
    lines::Events,
    sealed,
    socket::{self, Connection, Out, Outgoing, Serving},
    ws_config::{Config, spec},
};
use crate::{audit::Done, directory::Key, problem::Problem, service::Existing};

/// Cells of one socket that may wait. One more is answered with `SessionBusy`.
const CELLS_QUEUED_MAX: usize = 64;
/// Frames that wait for a slow client before its session has to.
const FRAMES_QUEUED_MAX: usize = 16;
/// Frames that do something to the session, beside `create` and `eval`.
const FRAMES: [&str; 5] = ["gen", "interrupt", "evict", "hostcall-result", "reset"];
/// The subprotocol with events.
const EVENTS_PROTOCOL: &str = "dormouse.v1";
/// The same with frames that are sealed after an exchange of keys.
const SEALED_PROTOCOL: &str = "dormouse.v1.encrypted";

/// Query of `/ws`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Named {
    id: String,
}

/// `GET /v1/namespaces/{namespace}/sessions/{name}/ws`.
pub(crate) async fn session(desk: Desk, Path((namespace, name)): Path<(String, String)>, request: Request) -> Result<Response, Problem> {
    connect(Desk { namespace, ..desk }, &name, request).await
}

/// `GET /ws?id=NAME`.
pub(crate) async fn named(desk: Desk, Query(Named { id }): Query<Named>, request: Request) -> Result<Response, Problem> {
    connect(desk, &id, request).await
}

async fn connect(desk: Desk, name: &str, request: Request) -> Result<Response, Problem> {
    let key = desk.key(name)?;
    desk.may_something(&key).await?;
    let upgrade = socket::upgrade(&desk, request).await?.protocols([SEALED_PROTOCOL, EVENTS_PROTOCOL]);
    let room = desk.app.sockets.enter()?;
    let door = Arc::new(Door { desk, key });
    let response = upgrade.on_upgrade(move |mut socket| async move {
        let _room = room;
        let chosen = socket.protocol().and_then(|protocol| protocol.to_str().ok()).unwrap_or_default().to_owned();
        let keys = match chosen.as_str() {
            SEALED_PROTOCOL => match Box::pin(sealed::handshake(&mut socket)).await {
                Some(keys) => Some(keys),
                None => return,
            },
            _ => None,
        };
        let serving = Serving { queued_max: FRAMES_QUEUED_MAX, keys };
        serve(socket, door, !chosen.is_empty(), serving).await;
    });
    Ok(response.into_response())
}

/// A connected client.
struct Door {
    desk: Desk,
    key: Key,
}

/// A frame of a client.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Frame {
    t: String,
    #[serde(default)]
    id: Value,
    #[serde(default)]
    config: Option<Config>,
    #[serde(alias = "src")]
    code: Option<String>,
    timeout_ms: Option<u64>,
    idempotency_key: Option<String>,
    filename: Option<String>,
    language: Option<Language>,
    /// Of a `hostcall-result`.
    #[serde(flatten)]
    said: Said,
}

/// Bytes of an `id` that the refusal of a frame repeats that was not read.
const HEAD_ID_BYTES_MAX: usize = 1 << 10;

/// What is read of a frame for which there is no room.
#[derive(Debug, Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    t: Cow<'a, str>,
    #[serde(default, borrow)]
    id: Option<&'a RawValue>,
}

async fn serve(socket: WebSocket, door: Arc<Door>, streams: bool, serving: Serving) {
    let (mut connection, out) = Connection::open(socket, &door.desk, serving);
    // In a box, as what goes out: a queue has room for dozens from the beginning.
    let (cells, mut queue) = mpsc::channel::<Box<(Frame, Holding)>>(CELLS_QUEUED_MAX);
    let rooms = door.desk.app.rooms.clone();
    let running = tokio::spawn({
        let (door, out, rooms) = (Arc::clone(&door), out.clone(), rooms.clone());
        async move {
            while let Some(cell) = queue.recv().await {
                let (frame, _room) = *cell;
                let room = rooms.answer_to(&door.desk.caller.user);
                // In a box of its own, here and below: a socket that is idle has no room for what it may do.
                let answer = room.clone().around(Box::pin(door.cell(frame, streams, &out))).await;
                if out.send(Outgoing::text(&answer, Some(&room))).await.is_err() {
                    return;
                }
            }
        }
    });
    let mut offering: Option<JoinHandle<()>> = None;
    while let Some(frame) = connection.next().await {
        let room = rooms.body_of(&door.desk.caller.user);
        if let Err(full) = room.grow_to(json_weight(frame.as_bytes())).await {
            if out.send(Outgoing::text(&unread(&frame, &full), None)).await.is_err() {
                break;
            }
            continue;
        }
        let answer = match serde_json::from_str::<Frame>(&frame) {
            Ok(frame) if frame.t == "eval" => match cells.try_send(Box::new((frame, room))) {
                Ok(()) => continue,
                Err(mpsc::error::TrySendError::Full(cell) | mpsc::error::TrySendError::Closed(cell)) => {
                    let (frame, _) = *cell;
                    let message = format!("{CELLS_QUEUED_MAX} cells of this socket wait: send it again later");
                    failed(&frame, &ApiError::new(ErrorCode::SessionBusy, message))
                }
            },
            Ok(frame) if frame.t == "create" => {
                let (answer, own) = Box::pin(door.create(&frame)).await;
                if !own.is_empty() {
                    let offer = hostcalls::offer(door.desk.clone(), door.key.clone(), own, out.clone());
                    if let Some(before) = offering.replace(tokio::spawn(offer)) {
                        before.abort();
                    }
                }
                answer
            }
            Ok(frame) => Box::pin(door.answer(frame)).await,
            Err(error) => {
                let error = ApiError::new(ErrorCode::InvalidRequest, format!("a frame is a JSON object with a field `t`: {error}"));
                json!({ "t": "error", "ok": false, "error": error })
            }
        };
        if out.send(Outgoing::text(&answer, None)).await.is_err() {
            break;
        }
    }
    if let Some(offering) = offering {
        offering.abort();
        let _ = offering.await;
    }
    drop((out, cells));
    connection.end(running).await;
}

fn answered(frame: &Frame, body: Value) -> Value {
    let mut answer = json!({ "t": format!("{}-result", frame.t), "id": frame.id, "ok": true });
    if let (Some(answer), Value::Object(body)) = (answer.as_object_mut(), body) {
        answer.extend(body);
    }
    answer
}

/// The same of a frame for which there is no room: of that only the head is read.
fn unread(frame: &str, error: &ApiError) -> Value {
    let Ok(Head { t, id }) = serde_json::from_str(frame) else { return json!({ "t": "error", "ok": false, "error": error }) };
    let id = id.filter(|id| id.get().len() <= HEAD_ID_BYTES_MAX);
    json!({ "t": format!("{t}-result"), "id": id, "ok": false, "error": error })
}

fn failed(frame: &Frame, error: &ApiError) -> Value {
    json!({ "t": format!("{}-result", frame.t), "id": frame.id, "ok": false, "error": error })
}

/// What came of a frame.
fn done(answer: &Value) -> Done {
    if answer.get("ok").and_then(Value::as_bool) == Some(true) {
        return Ok(());
    }
    let code = answer.pointer("/error/code").cloned().unwrap_or_default();
    Err(serde_json::from_value(code).unwrap_or(ErrorCode::Internal))
}

impl Door {
    /// What is no cell.
    async fn answer(&self, frame: Frame) -> Value {
        match FRAMES.into_iter().find(|known| *known == frame.t) {
            Some(verb) => self.desk.logged((verb, &self.key, ""), self.act(frame), |answer| Some(done(answer))).await,
            None => self.act(frame).await,
        }
    }

    async fn act(&self, mut frame: Frame) -> Value {
        let done = match frame.t.as_str() {
            "ping" => Ok(json!({})),
            "gen" => self.generation().await,
            "interrupt" => self.desk.interrupt(&self.key).await.map(|()| json!({})),
            "evict" => self.desk.hibernate(&self.key).await.map(|session| json!({ "state": session.state })),
            "hostcall-result" => hostcalls::answer(&self.desk, &self.key, std::mem::take(&mut frame.said)).await.map(|()| json!({})),
            "reset" => self.desk.reset(&self.key, &self.desk.operation()).await.map(|session| json!({ "state": session.state })),
            other => {
                let message =
                    format!("there is no frame `{other}`: send create, eval, ping, gen, interrupt, reset, evict or hostcall-result");
                Err(ApiError::new(ErrorCode::InvalidRequest, message))
            }
        };
        done.map_or_else(|error| failed(&frame, &error), |body| answered(&frame, body))
    }

    /// Makes the session, or takes the one that is there. Answers the names of the tools that this client makes, too.
    async fn create(&self, frame: &Frame) -> (Value, BTreeSet<String>) {
        self.desk.logged(("create", &self.key, ""), self.make(frame), |(answer, _)| Some(done(answer))).await
    }

    async fn make(&self, frame: &Frame) -> (Value, BTreeSet<String>) {
        let made = async {
            let spec = frame.config.as_ref().map_or_else(|| Ok(KernelSessionSpec::default()), spec)?;
            let own: BTreeSet<String> = spec.client_tools.iter().map(|tool| tool.name.clone()).collect();
            let body = CreateSession { name: Some(self.key.name.clone()), spec, ..CreateSession::default() };
            let session = self.desk.create(body, Existing::Return).await?;
            Ok((json!({ "sessionId": session.id, "name": session.name, "state": session.state }), own))
        };
        match made.await {
            Ok((body, own)) => (answered(frame, body), own),
            Err(error) => (failed(frame, &error), BTreeSet::new()),
        }
    }

    /// Never wakes.
    async fn generation(&self) -> Result<Value, ApiError> {
        let session = self.desk.get(&self.key).await?;
        Ok(json!({ "generation": session.status.last_epoch.unwrap_or(0), "state": session.state }))
    }

    async fn cell(&self, frame: Frame, streams: bool, out: &Out) -> Value {
        self.desk.logged(("eval", &self.key, ""), self.run(frame, streams, out), |answer| Some(done(answer))).await
    }

    async fn run(&self, frame: Frame, streams: bool, out: &Out) -> Value {
        let Some(code) = frame.code.clone() else {
            return failed(&frame, &ApiError::new(ErrorCode::InvalidRequest, "an eval has `code`"));
        };
        // The client's own, so that it may send the cell again whatever becomes of this socket.
        let key = frame.idempotency_key.clone().unwrap_or_else(|| self.desk.operation());
        let failed = |error: ApiError| failed(&frame, &error.with_detail("idempotencyKey", key.clone()));
        let eval = EvalRequest {
            code,
            language: frame.language.unwrap_or_default(),
            timeout_ms: frame.timeout_ms,
            idempotency_key: Some(key.clone()),
            filename: frame.filename.clone(),
            webhook: None,
            api_key: None,
            by: None,
        };
        if !streams {
            let result = self.desk.eval(&self.key, eval).await;
            return result.map_or_else(failed, |result| answered(&frame, serde_json::to_value(&result).unwrap_or_default()));
        }
        match self.desk.eval_events(&self.key, eval).await {
            Ok(frames) => self.streamed(&frame, &key, Events::new(&self.desk, frames), out).await.unwrap_or_else(failed),
            Err(error) => failed(error),
        }
    }

    /// Passes the events of a cell on, with its key beside the first; its last one is the answer.
    async fn streamed(&self, frame: &Frame, key: &str, mut events: Events, out: &Out) -> Result<Value, ApiError> {
        let mut key = Some(key);
        while let Some(line) = events.next().await {
            let Ok(event) = serde_json::from_slice::<Value>(&line) else { continue };
            match event.get("type").and_then(Value::as_str) {
                Some("final") => {
                    if let Some(room) = Holding::current() {
                        room.take_over(events.room());
                    }
                    return Ok(answered(frame, event.get("payload").cloned().unwrap_or_default()));
                }
                Some("error") => {
                    return Ok(json!({ "t": "eval-result", "id": frame.id, "ok": false, "error": event.get("payload") }));
                }
                _ => {}
            }
            let mut event = json!({ "t": "event", "id": frame.id, "event": event });
            if let Some(key) = key.take() {
                event["idempotencyKey"] = json!(key);
            }
            if out.send(Outgoing::text(&event, Some(events.room()))).await.is_err() {
                break;
            }
        }
        Err(ApiError::new(ErrorCode::SessionGone, "the events ended early: send the cell again with its idempotencyKey"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_without_room_is_refused_by_its_head() {
        let full = ApiError::new(ErrorCode::CapacityExhausted, "later");
        let of = |frame: &str| unread(frame, &full);
        let refused = of(&json!({ "t": "eval", "id": { "a": 1 }, "code": [[1, 2], { "t": "x" }] }).to_string());
        assert_eq!(
            (&refused["t"], &refused["id"], &refused["error"]["code"]),
            (&json!("eval-result"), &json!({ "a": 1 }), &json!("CapacityExhausted"))
        );
        assert_eq!(of(r#"{"\u0074":"\u0065val"}"#)["t"], "eval-result");
        let id = |bytes: usize| "x".repeat(bytes - 2);
        assert_eq!(of(&json!({ "t": "eval", "id": id(HEAD_ID_BYTES_MAX) }).to_string())["id"], id(HEAD_ID_BYTES_MAX));
        assert_eq!(of(&json!({ "t": "eval", "id": id(HEAD_ID_BYTES_MAX + 1) }).to_string())["id"], Value::Null);
        assert_eq!(of("[]")["t"], "error", "also one that is no frame");
    }
}
