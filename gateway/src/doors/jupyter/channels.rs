//! The channels of a kernel over one WebSocket. Cells run one after the other; the rest is answered at once.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{Path, Query, Request as HttpRequest, ws::WebSocket},
    response::{IntoResponse as _, Response},
};
use dormouse_cells::{Options, compile};
use dormouse_protocol::{ApiError, ErrorCode, eval::EvalRequest};
use dormouse_service::room::{Holding, json_weight};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{
    find, history,
    messages::{Request, completion, kernel_info, path_at},
    resumed::Resumed,
};
use crate::{
    audit::{self, Done},
    directory::Key,
    doors::{
        desk::Desk,
        lines::Events,
        socket::{self, Connection, Out, Outgoing, Serving},
    },
    problem::Problem,
};

/// Cells of one notebook that may wait.
const CELLS_QUEUED_MAX: usize = 256;
/// Messages that wait for a slow client.
const MESSAGES_QUEUED_MAX: usize = 64;
/// How long a completion may take, behind a cell that runs for one.
const COMPLETION_TIMEOUT: Duration = Duration::from_secs(3);
/// The name under which the kernel's own small cells run.
pub(super) const COMPLETION_NAME: &str = "completion";
/// The longest source of which it is said whether it is a whole cell, in bytes: it is parsed here.
const WHOLE_BYTES_MAX: usize = 16 << 10;
/// Before a message's id in the idempotency key of its cell.
pub(super) const KEY_PREFIX: &str = "jupyter-";
/// Longest idempotency key that a message's id makes, in bytes.
const KEY_BYTES_MAX: usize = 128;

/// Query of `/api/kernels/{id}/channels`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Client {
    /// The client's own name for itself, as it stands in its messages.
    session_id: String,
}

/// `GET /api/kernels/{id}/channels`.
pub(crate) async fn connect(
    desk: Desk,
    Path(id): Path<String>,
    Query(client): Query<Client>,
    request: HttpRequest,
) -> Result<Response, Problem> {
    let key = find(&desk, &id)?;
    // Whoever may not see it learns nothing of it.
    desk.get(&key).await?;
    let upgrade = socket::upgrade(&desk, request).await?;
    let room = desk.app.sockets.enter()?;
    let kernel = Arc::new(Kernel { desk, key, resumed: Resumed::default() });
    let serve = move |socket| async move {
        let _room = room;
        serve(socket, kernel, client).await;
    };
    Ok(upgrade.on_upgrade(serve).into_response())
}

pub(super) struct Kernel {
    pub(super) desk: Desk,
    pub(super) key: Key,
    pub(super) resumed: Resumed,
}

async fn serve(socket: WebSocket, kernel: Arc<Kernel>, client: Client) {
    let (mut connection, out) = Connection::open(socket, &kernel.desk, Serving { queued_max: MESSAGES_QUEUED_MAX, keys: None });
    let (cells, mut queue) = mpsc::channel::<(Box<Request>, Holding)>(CELLS_QUEUED_MAX);
    let rooms = kernel.desk.app.rooms.clone();
    // Before anything is answered: what ends from here on is told.
    let open = Box::pin(kernel.open_cell()).await;
    let resuming = tokio::spawn({
        let (kernel, out) = (Arc::clone(&kernel), out.clone());
        async move {
            if let Some(open) = open {
                Box::pin(kernel.resume(open, &client.session_id, &out)).await;
            }
            kernel.resumed.end();
        }
    });
    let running = tokio::spawn({
        let (kernel, out) = (Arc::clone(&kernel), out.clone());
        async move {
            let mut count = 0;
            while let Some((request, _room)) = queue.recv().await {
                if Box::pin(kernel.execute(&request, &mut count, &out)).await.is_none() {
                    return;
                }
            }
        }
    });
    while let Some(text) = connection.next().await {
        let room = rooms.body_of(&kernel.desk.caller.user);
        let has_room = room.grow_to(json_weight(text.as_bytes())).await;
        let read = if has_room.is_ok() { serde_json::from_str::<Request>(&text) } else { Request::head_of(&text) };
        let Ok(request) = read else { continue };
        let sent = match has_room {
            Err(error) => send(&out, request.reply(failed(&error))).await,
            Ok(()) if request.header.msg_type == "execute_request" => match kernel.resumed.leaves(&request.header.msg_id) {
                true => cells.send((Box::new(request), room)).await.ok(),
                // Its answer is on its way.
                false => Some(()),
            },
            Ok(()) => Box::pin(kernel.answer(&request, &out)).await,
        };
        if sent.is_none() {
            break;
        }
    }
    resuming.abort();
    let _ = resuming.await;
    drop((out, cells));
    connection.end(running).await;
}

pub(super) async fn send(out: &Out, message: Value) -> Option<()> {
    out.send(Outgoing::text(&message, None)).await.ok()
}

/// The same of what is made from something that has room.
async fn send_large(out: &Out, message: Value, room: &Holding) -> Option<()> {
    out.send(Outgoing::text(&message, Some(room))).await.ok()
}

pub(super) async fn state(out: &Out, request: &Request, state: &str) -> Option<()> {
    send(out, request.publish("status", json!({ "execution_state": state }))).await
}

impl Kernel {
    /// What is no cell. `None`: the client has left.
    async fn answer(&self, request: &Request, out: &Out) -> Option<()> {
        state(out, request, "busy").await?;
        let content = match request.header.msg_type.as_str() {
            "kernel_info_request" => kernel_info(),
            "complete_request" => self.complete(request).await,
            "inspect_request" => self.inspect(request).await,
            "is_complete_request" => is_complete(request.text("code").to_owned()).await,
            "input_request" | "input_reply" => failed(&no_input("a message")),
            "comm_info_request" => json!({ "status": "ok", "comms": {} }),
            "history_request" => history::reply(&self.desk, &self.key, &request.content).await.unwrap_or_else(|error| failed(&error)),
            "interrupt_request" => {
                let work = self.desk.interrupt(&self.key);
                done(self.desk.logged(("interrupt", &self.key, ""), work, |done| Some(audit::done(done))).await)
            }
            "shutdown_request" => {
                let restart = request.flag("restart");
                let done_with = match restart {
                    true => self.desk.reset(&self.key, &self.desk.operation()).await,
                    false => self.desk.hibernate(&self.key).await,
                };
                let mut reply = done(done_with.map(drop));
                reply["restart"] = json!(restart);
                reply
            }
            other => failed(&ApiError::new(ErrorCode::NotSupported, format!("this kernel does not know `{other}`"))),
        };
        send(out, request.reply(content)).await?;
        state(out, request, "idle").await
    }

    /// Runs a cell. `None`: the client has left.
    async fn execute(&self, request: &Request, count: &mut u64, out: &Out) -> Option<()> {
        state(out, request, "busy").await?;
        *count += 1;
        let code = request.text("code");
        if !request.flag("silent") {
            send(out, request.publish("execute_input", json!({ "code": code, "execution_count": count }))).await?;
        }
        // A notebook that connects again and sends the same message gets the same answer, and nothing runs twice.
        let key = format!("{KEY_PREFIX}{}", request.header.msg_id);
        let key = Some(key).filter(|key| key.len() <= KEY_BYTES_MAX);
        let eval = EvalRequest { code: code.to_owned(), idempotency_key: key, ..EvalRequest::default() };
        let run = async {
            match self.desk.eval_events(&self.key, eval).await {
                Ok(frames) => self.stream(request, Events::new(&self.desk, frames), out).await,
                Err(error) => Some(Err(error)),
            }
        };
        let end = self.desk.logged(("eval", &self.key, ""), run, |end| end.as_ref().map(of_cell)).await?;
        self.tell_end(request, end, count, out).await
    }

    /// Publishes how a cell ended, and replies to its sender. `None`: the client has left.
    pub(super) async fn tell_end(
        &self,
        request: &Request,
        end: Result<(Value, Holding), ApiError>,
        count: &mut u64,
        out: &Out,
    ) -> Option<()> {
        let mut reply = match end {
            Ok((end, room)) => self.ended(request, &end, &room, count, out).await?,
            Err(error) => {
                let content = json!({ "ename": error.code.to_string(), "evalue": error.message, "traceback": [error.to_string()] });
                send(out, request.publish("error", content)).await?;
                failed(&error)
            }
        };
        reply["execution_count"] = json!(count);
        send(out, request.reply(reply)).await?;
        state(out, request, "idle").await
    }

    /// Publishes what a cell writes; gives its end.
    async fn stream(&self, request: &Request, mut events: Events, out: &Out) -> Option<Result<(Value, Holding), ApiError>> {
        while let Some(line) = events.next().await {
            let Ok(event) = serde_json::from_slice::<Value>(&line) else { continue };
            let payload = event.get("payload").cloned().unwrap_or_default();
            match event.get("type").and_then(Value::as_str).unwrap_or_default() {
                "final" => return Some(Ok((payload, events.room().clone()))),
                "error" => return Some(Err(serde_json::from_value(payload_error(&payload)).unwrap_or_else(|_| cut_off()))),
                kind => self.show(request, kind, &payload, events.room(), out).await?,
            }
        }
        Some(Err(cut_off()))
    }

    /// Publishes what an event of a cell shows. `None`: the client has left.
    pub(super) async fn show(&self, request: &Request, kind: &str, payload: &Value, room: &Holding, out: &Out) -> Option<()> {
        let text = |field: &str| payload.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (msg_type, content) = match kind {
            "log" => {
                let name = if matches!(text("level").as_str(), "warn" | "error") { "stderr" } else { "stdout" };
                ("stream", json!({ "name": name, "text": format!("{}\n", text("text")) }))
            }
            "display" => {
                let data = json!({ text("mimeType"): text("data") });
                ("display_data", json!({ "data": data, "metadata": {}, "transient": {} }))
            }
            // All of it comes once more.
            "restarted" => ("clear_output", json!({ "wait": false })),
            _ => return Some(()),
        };
        send_large(out, request.publish(msg_type, content), room).await
    }

    /// Publishes how a cell ended; gives the reply to its sender.
    async fn ended(&self, request: &Request, end: &Value, room: &Holding, count: &mut u64, out: &Out) -> Option<Value> {
        *count = end.get("cell").and_then(Value::as_u64).unwrap_or(*count);
        let text = |value: &Value, field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        if let Some(error) = end.get("error").filter(|error| !error.is_null()) {
            let unasked = asks_for_input(&text(error, "name"), &text(error, "message"));
            if let Some(refused) = unasked.map(|asked| no_input(&format!("`{asked}`"))) {
                let mut reply = failed(&refused);
                let traceback: Vec<String> =
                    [refused.to_string()].into_iter().chain(text(error, "stack").lines().map(str::to_owned)).collect();
                reply["traceback"] = json!(traceback);
                let content = json!({ "ename": reply["ename"], "evalue": reply["evalue"], "traceback": reply["traceback"] });
                send_large(out, request.publish("error", content), room).await?;
                return Some(reply);
            }
            let headline = format!("{}: {}", text(error, "name"), text(error, "message"));
            let traceback: Vec<String> = [headline].into_iter().chain(text(error, "stack").lines().map(str::to_owned)).collect();
            let content = json!({ "ename": text(error, "name"), "evalue": text(error, "message"), "traceback": traceback });
            send_large(out, request.publish("error", content.clone()), room).await?;
            let mut reply = content;
            reply["status"] = json!("error");
            return Some(reply);
        }
        if text(end, "valueType") != "undefined" && !request.flag("silent") {
            let mut data = json!({ "text/plain": text(end, "preview") });
            if let Some(value) = end.get("value").filter(|value| value.is_object() || value.is_array()) {
                data["application/json"] = value.clone();
            }
            let content = json!({ "data": data, "metadata": {}, "execution_count": count });
            send_large(out, request.publish("execute_result", content), room).await?;
        }
        Some(json!({ "status": "ok", "payload": [], "user_expressions": {} }))
    }

    async fn complete(&self, request: &Request) -> Value {
        let cursor = cursor(request);
        let Some((begin, object, name)) = path_at(request.text("code"), cursor) else { return matches(cursor, cursor, json!([])) };
        let found = self.asked(completion(&object, &name)).await.unwrap_or_else(|| json!([]));
        matches(begin, cursor, found)
    }

    async fn inspect(&self, request: &Request) -> Value {
        let nothing = json!({ "status": "ok", "found": false, "data": {}, "metadata": {} });
        // The whole name at the cursor, wherever in it the cursor is.
        let code = request.text("code");
        let more = code.chars().skip(cursor(request)).take_while(|it| it.is_alphanumeric() || matches!(it, '_' | '$')).count();
        let Some((_, object, name)) = path_at(code, cursor(request) + more).filter(|(_, _, name)| !name.is_empty()) else { return nothing };
        let path = if object.is_empty() { name } else { format!("{object}.{name}") };
        let asked = format!(
            "(() => {{ try {{ return require('util').inspect({path}, {{ depth: 2 }}).slice(0, 10000) }} catch {{ return null }} }})()"
        );
        match self.asked(asked).await {
            Some(Value::String(text)) => json!({ "status": "ok", "found": true, "data": { "text/plain": text }, "metadata": {} }),
            _ => nothing,
        }
    }

    /// The value of a small cell, if it has one soon.
    async fn asked(&self, code: String) -> Option<Value> {
        let eval = EvalRequest { code, filename: Some(COMPLETION_NAME.to_owned()), ..EvalRequest::default() };
        let run = self.desk.eval(&self.key, eval);
        let run = self.desk.logged(("eval", &self.key, COMPLETION_NAME), run, |end| Some(audit::done(end)));
        tokio::time::timeout(COMPLETION_TIMEOUT, run).await.ok()?.ok()?.value
    }
}

/// What came of a cell.
fn of_cell(end: &Result<(Value, Holding), ApiError>) -> Done {
    let (end, _) = end.as_ref().map_err(|error| error.code)?;
    match end.pointer("/error/code") {
        Some(code) => Err(serde_json::from_value(code.clone()).unwrap_or(ErrorCode::Internal)),
        None => Ok(()),
    }
}

/// Whether a console sends the source, or lets its person go on writing.
async fn is_complete(code: String) -> Value {
    if code.len() > WHOLE_BYTES_MAX {
        return json!({ "status": "unknown" });
    }
    let compiled = tokio::task::spawn_blocking(move || compile(&code, &Options::default()).map(drop)).await;
    match compiled {
        Ok(Ok(())) => json!({ "status": "complete" }),
        Ok(Err(error)) if error.at_end => json!({ "status": "incomplete", "indent": "" }),
        Ok(Err(_)) => json!({ "status": "invalid" }),
        Err(_) => json!({ "status": "unknown" }),
    }
}

/// The function that a cell has called to ask its person something, if it failed for that there is none.
fn asks_for_input(name: &str, message: &str) -> Option<&'static str> {
    let is_missing = |asked: &str| name == "ReferenceError" && message.replace('\'', "") == format!("{asked} is not defined");
    ["prompt", "confirm", "input"].into_iter().find(|asked| is_missing(asked))
}

/// This kernel never sends an `input_request`, whether or not a notebook allows it: a cell outlives whoever could answer.
fn no_input(who: &str) -> ApiError {
    let message = format!(
        "{who} asks for standard input, which this kernel does not have: a cell goes on when its notebook has gone. Put the value into a \
         variable or a file, or ask a person with a tool that needs approval"
    );
    ApiError::new(ErrorCode::NotSupported, message)
}

fn cursor(request: &Request) -> usize {
    let given = request.content.get("cursor_pos").and_then(Value::as_u64).and_then(|at| usize::try_from(at).ok());
    given.unwrap_or_else(|| request.text("code").chars().count())
}

fn matches(begin: usize, end: usize, found: Value) -> Value {
    json!({ "status": "ok", "matches": found, "cursor_start": begin, "cursor_end": end, "metadata": {} })
}

fn done(result: Result<(), ApiError>) -> Value {
    result.map_or_else(|error| failed(&error), |()| json!({ "status": "ok" }))
}

fn failed(error: &ApiError) -> Value {
    json!({ "status": "error", "ename": error.code.to_string(), "evalue": error.message, "traceback": [error.to_string()] })
}

fn payload_error(payload: &Value) -> Value {
    json!({ "code": payload.get("code"), "message": payload.get("message"), "retryable": false })
}

fn cut_off() -> ApiError {
    ApiError::new(ErrorCode::SessionGone, "the events ended early: run the cell again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_function_of_input_that_is_missing_is_a_question_to_a_person() {
        assert_eq!(asks_for_input("ReferenceError", "prompt is not defined"), Some("prompt"));
        assert_eq!(asks_for_input("ReferenceError", "'input' is not defined"), Some("input"));
        for (name, message) in
            [("TypeError", "prompt is not defined"), ("ReferenceError", "prompts is not defined"), ("ReferenceError", "x")]
        {
            assert_eq!(asks_for_input(name, message), None, "{name}: {message}");
        }
    }
}
