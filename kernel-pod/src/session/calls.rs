//! What a cell asks of its broker: tool calls and fetches on their way into the record, and out of it when nobody waits any more.

use dormouse_lifecycle::usage::Counts;
use dormouse_protocol::ErrorCode;
use dormouse_protocol::broker::{FETCH_BODY_BYTES_MAX, MODEL_SCHEME};
use dormouse_protocol::event::EventBody;
use dormouse_protocol::history::JournalBody;
use serde_json::Value;

use super::journal;
use super::ops::InFlight;
use super::phase::Live;
use crate::record::{Pending, STREAM_INTERRUPTED, SessionState, shown};
use crate::tools::Caller;

/// Bytes of all calls and requests that wait in a record, as JSON. The record rides in every head.
const WAITING_REQUESTS_BYTES_MAX: usize = 6 << 20;

/// Bytes of one request as JSON: the largest body as base64, and room for the rest.
const REQUEST_BYTES_MAX: usize = FETCH_BODY_BYTES_MAX.div_ceil(3) * 4 + (128 << 10);

/// What a turn's calls may use.
pub(super) struct Allowance<'a> {
    /// Who calls; `None` without a broker.
    pub caller: Option<&'a Caller>,
    /// The same; `None` also while nothing may leave yet.
    pub sender: Option<&'a Caller>,
    /// Calls of a cell.
    pub calls_max: u32,
}

/// A call as the cell made it.
pub(super) struct Outgoing {
    /// The tool.
    pub name: String,
    /// Its arguments, or the request.
    pub args: Value,
    /// Whether it is a request.
    pub fetch: bool,
    /// Whether its answer is to stay outside the heap, if the code has said so.
    pub reference: Option<bool>,
}

impl Live {
    /// Gives a call its number and keeps it in the record, or keeps its refusal. Answers its event.
    pub(super) fn register_call(&mut self, op: u64, outgoing: Outgoing, allowance: &Allowance<'_>) -> Option<EventBody> {
        let Outgoing { name, args, fetch, reference } = outgoing;
        let made = self.state.running.as_ref().map_or(0, |running| running.tool_calls);
        let refused = if made >= allowance.calls_max {
            let message = format!("the cell has made {made} tool calls and fetches, which is spec.limits.toolCalls");
            Some((ErrorCode::QuotaExceeded, message))
        } else if fetch {
            refused_fetch(&self.state, &args, allowance.caller)
        } else if self.is_client_tool(&name) {
            refused_size(&self.state, &args, "the arguments of calls", WAITING_REQUESTS_BYTES_MAX)
        } else {
            refused_call(&self.state, &args, allowance.caller)
        };
        if let Some((code, message)) = refused {
            self.state.pending.insert(op, Pending::Refused { name: code.to_string(), message });
            return None;
        }
        if let Some(running) = &mut self.state.running {
            running.tool_calls += 1;
        }
        self.spend(Counts { tool_calls: 1, egress_bytes: size(&args) as u64, ..Counts::default() });
        self.state.calls += 1;
        let call = self.state.calls;
        self.note(JournalBody::ToolCall { call, tool: name.clone(), digest: journal::digest(&args) });
        let shown = if fetch { shown(&args) } else { args.clone() };
        let event = EventBody::ToolCall { call_id: call.to_string(), tool_name: name.clone(), args: shown };
        let pending = match !fetch && self.is_client_tool(&name) {
            true => self.for_client(call, name, args, reference),
            false => Pending::Tool { call, name, args, fetch, reference },
        };
        self.state.pending.insert(op, pending);
        Some(event)
    }

    /// Nobody in the heap waits for the operation any more. A call that has left may have been made; one that is parked is never let go.
    pub(super) fn cancel(&mut self, op: u64, caller: Option<&Caller>) {
        let call = match self.state.pending.remove(&op) {
            Some(Pending::Tool { call, fetch: true, .. }) => call,
            Some(Pending::Parked(parked)) if parked.fetch => parked.call,
            Some(Pending::Body { stream, .. }) => return self.close_body(stream, caller),
            _ => return,
        };
        if let Some(caller) = caller.filter(|_| self.in_flight.has_left(op)) {
            InFlight::close(caller, call);
        }
    }

    /// Keeps in the record that a part of a body is awaited.
    pub(super) fn register_part(&mut self, op: u64, stream: u64, part: u64, caller: Option<&Caller>) {
        let pending = match caller {
            Some(_) => Pending::Body { stream, part },
            None => {
                let message = "the session has no ToolBroker any more, which had the rest of the response".to_owned();
                Pending::Refused { name: STREAM_INTERRUPTED.to_owned(), message }
            }
        };
        self.state.pending.insert(op, pending);
    }

    /// Nobody reads the body any more.
    pub(super) fn close_body(&mut self, stream: u64, caller: Option<&Caller>) {
        self.state.pending.retain(|_, pending| !matches!(pending, Pending::Body { stream: waiting, .. } if *waiting == stream));
        if let Some(caller) = caller {
            InFlight::close(caller, stream);
        }
    }
}

fn refused_call(state: &SessionState, args: &Value, caller: Option<&Caller>) -> Option<(ErrorCode, String)> {
    if caller.is_none() {
        return Some((ErrorCode::ToolNotFound, "the session has no ToolBroker: name one in spec.toolBrokerRef".to_owned()));
    }
    refused_size(state, args, "the arguments of calls", WAITING_REQUESTS_BYTES_MAX)
}

/// Why the record has no room for what is to leave: it rides in every head.
fn refused_size(state: &SessionState, args: &Value, of: &str, bytes_max: usize) -> Option<(ErrorCode, String)> {
    let bytes = size(args);
    if bytes > bytes_max {
        let message = format!("{of} may have {bytes_max} bytes; these have {bytes}. Hand large data on in parts");
        return Some((ErrorCode::SizeAdmissionError, message));
    }
    let waiting = |pending: &Pending| match pending {
        Pending::Tool { args, .. } => size(args),
        Pending::Parked(parked) => size(&parked.args),
        Pending::Timer { .. } | Pending::Body { .. } | Pending::Refused { .. } => 0,
    };
    let waiting: usize = state.pending.values().map(waiting).sum();
    (waiting + bytes > WAITING_REQUESTS_BYTES_MAX).then(|| {
        let message = format!("{of} that wait would have more than {WAITING_REQUESTS_BYTES_MAX} bytes; await some first");
        (ErrorCode::QuotaExceeded, message)
    })
}

fn refused_fetch(state: &SessionState, request: &Value, caller: Option<&Caller>) -> Option<(ErrorCode, String)> {
    let denied = |message: &str| Some((ErrorCode::EgressDenied, message.to_owned()));
    let Some(caller) = caller else {
        return denied("fetch goes through a ToolBroker, and the session has none: name one in spec.toolBrokerRef");
    };
    let is_question = request.get("url").and_then(Value::as_str).is_some_and(|url| url.starts_with(MODEL_SCHEME));
    if caller.allow.is_empty() && !is_question {
        return denied("the session may fetch nothing: write what it may reach into spec.egress.allow");
    }
    refused_size(state, request, "requests", REQUEST_BYTES_MAX)
}

/// About the bytes of a request as JSON.
pub(super) fn size(request: &Value) -> usize {
    const SMALL_BYTES: usize = 8;
    match request {
        Value::String(text) => text.len() + SMALL_BYTES,
        Value::Array(items) => items.iter().map(size).sum::<usize>() + SMALL_BYTES,
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + size(value)).sum::<usize>() + SMALL_BYTES,
        Value::Null | Value::Bool(_) | Value::Number(_) => SMALL_BYTES,
    }
}
