//! One cell of a notebook: what runs it, and what is published of it.

use dormouse_protocol::{ApiError, ErrorCode, eval::EvalRequest};
use dormouse_service::room::Holding;
use serde_json::{Value, json};

use super::{keys::key_of, messages::Request};
use crate::{
    audit::Done,
    directory::Key,
    doors::{
        desk::Desk,
        lines::Events,
        socket::{Out, Outgoing},
    },
};

/// How a cell ended: its answer and the room that this takes, or why there is none.
pub(super) type End = Result<(Value, Holding), ApiError>;

/// A session, for one caller.
pub(super) struct Kernel {
    pub(super) desk: Desk,
    pub(super) key: Key,
}

/// Sends a message. `None`: the client has left.
pub(super) async fn send(out: &Out, message: Value) -> Option<()> {
    if out.is_closed() {
        return None;
    }
    out.send(Outgoing::text(&message, None)).await.ok()
}

/// The same of what is made from something that has room.
async fn send_large(out: &Out, message: Value, room: &Holding) -> Option<()> {
    if out.is_closed() {
        return None;
    }
    out.send(Outgoing::text(&message, Some(room))).await.ok()
}

pub(super) async fn state(out: &Out, request: &Request, state: &str) -> Option<()> {
    send(out, request.publish("status", json!({ "execution_state": state }))).await
}

impl Kernel {
    /// Runs a cell to its end, which its client is not told yet. It goes on where the client has left: that is shown nothing any more.
    pub(super) async fn execute(&self, request: &Request, count: u64, out: &Out) -> End {
        let _ = self.tell_begin(request, count, out).await;
        // A notebook that connects again and sends the same message gets the same answer, and nothing runs twice.
        let key = key_of(&request.header.session, &request.header.msg_id);
        let eval = EvalRequest { code: request.text("code").to_owned(), idempotency_key: key, ..EvalRequest::default() };
        let run = async {
            let frames = self.desk.eval_events(&self.key, eval).await?;
            self.stream(request, Events::new(&self.desk, frames), out).await
        };
        self.desk.logged(("eval", &self.key, ""), run, |end| Some(of_cell(end))).await
    }

    async fn tell_begin(&self, request: &Request, count: u64, out: &Out) -> Option<()> {
        state(out, request, "busy").await?;
        if request.flag("silent") {
            return Some(());
        }
        send(out, request.publish("execute_input", json!({ "code": request.text("code"), "execution_count": count }))).await
    }

    /// Publishes how a cell ended, and replies to its sender. `None`: the client has left.
    pub(super) async fn tell_end(&self, request: &Request, end: End, count: &mut u64, out: &Out) -> Option<()> {
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
    async fn stream(&self, request: &Request, mut events: Events, out: &Out) -> End {
        while let Some(line) = events.next().await {
            let Ok(event) = serde_json::from_slice::<Value>(&line) else { continue };
            let payload = event.get("payload").cloned().unwrap_or_default();
            match event.get("type").and_then(Value::as_str).unwrap_or_default() {
                "final" => return Ok((payload, events.room().clone())),
                "error" => return Err(serde_json::from_value(payload_error(&payload)).unwrap_or_else(|_| cut_off())),
                kind => {
                    let _ = self.show(request, kind, &payload, events.room(), out).await;
                }
            }
        }
        Err(cut_off())
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
}

/// What came of a cell.
pub(super) fn of_cell(end: &End) -> Done {
    let (end, _) = end.as_ref().map_err(|error| error.code)?;
    match end.pointer("/error/code") {
        Some(code) => Err(serde_json::from_value(code.clone()).unwrap_or(ErrorCode::Internal)),
        None => Ok(()),
    }
}

/// The function that a cell has called to ask its person something, if it failed for that there is none.
fn asks_for_input(name: &str, message: &str) -> Option<&'static str> {
    let is_missing = |asked: &str| name == "ReferenceError" && message.replace('\'', "") == format!("{asked} is not defined");
    ["prompt", "confirm", "input"].into_iter().find(|asked| is_missing(asked))
}

/// This kernel never sends an `input_request`, whether or not a notebook allows it: a cell outlives whoever could answer.
pub(super) fn no_input(who: &str) -> ApiError {
    let message = format!(
        "{who} asks for standard input, which this kernel does not have: a cell goes on when its notebook has gone. Put the value into a \
         variable or a file, or ask a person with a tool that needs approval"
    );
    ApiError::new(ErrorCode::NotSupported, message)
}

pub(super) fn failed(error: &ApiError) -> Value {
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
