//! The channels of a kernel over one WebSocket. Cells wait in a queue; the rest is answered at once.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{Path, Query, Request as HttpRequest, ws::WebSocket},
    response::{IntoResponse as _, Response},
};
use dormouse_cells::{Options, compile};
use dormouse_protocol::{ApiError, ErrorCode, eval::EvalRequest};
use dormouse_service::room::json_weight;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    cell::{Kernel, failed, no_input, send, state},
    end_queues, find, history,
    keys::key_of,
    messages::{COMPLETION_NAME, Request, completion, kernel_info, path_at},
    queue::{Cell, Queue},
    resumed::Resumed,
};
use crate::{
    audit,
    auth::Verb,
    doors::{
        desk::Desk,
        socket::{self, Connection, Out, Serving},
    },
    problem::Problem,
};

/// Messages that wait for a slow client.
const MESSAGES_QUEUED_MAX: usize = 64;
/// How long a completion may take, behind a cell that runs for one.
const COMPLETION_TIMEOUT: Duration = Duration::from_secs(3);
/// The longest source of which it is said whether it is a whole cell, in bytes: it is parsed here.
const WHOLE_BYTES_MAX: usize = 16 << 10;

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
    let kernel = Arc::new(Kernel { desk, key });
    let serve = move |socket| async move {
        let _room = room;
        serve(socket, kernel, client).await;
    };
    Ok(upgrade.on_upgrade(serve).into_response())
}

async fn serve(socket: WebSocket, kernel: Arc<Kernel>, client: Client) {
    let (mut connection, out) = Connection::open(socket, &kernel.desk, Serving { queued_max: MESSAGES_QUEUED_MAX, keys: None });
    let (cells, queue) = Queue::new();
    let (queue, resumed) = (Arc::new(queue), Arc::new(Resumed::default()));
    let rooms = kernel.desk.app.rooms.clone();
    // Before anything is answered: what ends from here on is told.
    let missed = Box::pin(kernel.missed(&client.session_id)).await;
    let resuming = tokio::spawn({
        let (kernel, resumed, out) = (Arc::clone(&kernel), Arc::clone(&resumed), out.clone());
        async move {
            if let Some(missed) = missed {
                Box::pin(kernel.resume(missed, &client.session_id, &resumed, &out)).await;
            }
            resumed.end();
        }
    });
    let running = tokio::spawn({
        let (kernel, queue, out) = (Arc::clone(&kernel), Arc::clone(&queue), out.clone());
        async move { queue.run(&kernel, &out).await }
    });
    while let Some(text) = connection.next().await {
        let room = rooms.body_of(&kernel.desk.caller.user);
        let has_room = room.grow_to(json_weight(text.as_bytes())).await;
        let read = if has_room.is_ok() { serde_json::from_str::<Request>(&text) } else { Request::head_of(&text) };
        let Ok(request) = read else { continue };
        let sent = match has_room {
            Err(error) => send(&out, request.reply(failed(&error))).await,
            Ok(()) if request.header.msg_type == "execute_request" => {
                match resumed.leaves(key_of(&request.header.session, &request.header.msg_id)) {
                    true => cells.send(Cell::new(request, room, &kernel)).await.ok(),
                    // Its answer is on its way.
                    false => Some(()),
                }
            }
            Ok(()) => Box::pin(kernel.answer(&request, &out)).await,
        };
        if sent.is_none() {
            break;
        }
    }
    resuming.abort();
    let _ = resuming.await;
    drop(cells);
    connection.outlive(running).await;
    queue.abort(&out).await;
    drop(out);
    connection.close().await;
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
                end_queues(&self.desk, &self.key, Verb::Update).await;
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
