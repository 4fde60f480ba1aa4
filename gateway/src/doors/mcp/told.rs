//! What a client is told while its tool runs: how far the cell has come, as `host.progress` says.

use std::{convert::Infallible, time::Duration};

use axum::{
    http::{HeaderMap, header},
    response::{
        IntoResponse as _, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use dormouse_protocol::{
    ApiError, ErrorCode,
    eval::{EvalRequest, EvalResult},
    event::{Event as EventOfCell, EventBody},
};
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::{
    directory::Key,
    doors::{desk::Desk, lines::Events},
};

/// After so long without a message an empty one keeps the connection.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Messages that wait for a slow client.
const QUEUED_MAX: usize = 16;

/// Who is told, and under which token.
pub(super) struct Told {
    token: Value,
    out: mpsc::Sender<Value>,
}

/// Whether a request wants to be told: it has a token for that, and takes an answer of several messages.
pub(super) fn wanted(params: &Value, headers: &HeaderMap) -> Option<Value> {
    let token = params.get("_meta").and_then(|meta| meta.get("progressToken")).filter(|token| token.is_string() || token.is_number())?;
    let takes =
        headers.get_all(header::ACCEPT).iter().any(|accept| accept.to_str().is_ok_and(|accept| accept.contains("text/event-stream")));
    takes.then(|| token.clone())
}

/// The answer of a request that is told: what `work` tells, and then what it comes to, as server-sent events.
pub(super) fn stream<F: Future<Output = Value> + Send + 'static>(token: Value, work: impl FnOnce(Told) -> F) -> Response {
    let (out, queue) = mpsc::channel(QUEUED_MAX);
    let working = work(Told { token, out: out.clone() });
    let ends = async move {
        let answer = working.await;
        // The client has left.
        let _ = out.send(answer).await;
    };
    let ends = stream::once(ends).filter_map(|()| std::future::ready(None));
    let events = stream::select(ReceiverStream::new(queue), ends)
        .map(|message: Value| Ok::<_, Infallible>(Event::default().data(message.to_string())));
    Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response()
}

/// Runs a cell and waits for its end, telling its progress.
///
/// # Errors
/// As of [`Desk::eval`].
pub(super) async fn eval(desk: &Desk, key: &Key, eval: EvalRequest, told: Option<&Told>) -> Result<EvalResult, ApiError> {
    let Some(told) = told else { return desk.eval(key, eval).await };
    let mut events = Events::new(desk.eval_events(key, eval).await?);
    let mut furthest = -1.0;
    while let Some(line) = events.next().await {
        match serde_json::from_slice::<EventOfCell>(&line).map(|event| event.body) {
            // It may only grow, as the protocol has it.
            Ok(EventBody::Progress { fraction, note }) if fraction > furthest => {
                furthest = fraction;
                told.progress(fraction, &note).await;
            }
            Ok(EventBody::Final { result }) => return Ok(*result),
            Ok(EventBody::Error { code, message, .. }) => return Err(ApiError::new(code, message)),
            _ => {}
        }
    }
    Err(ApiError::new(ErrorCode::SessionGone, "the answer was cut off: send the cell again with its key"))
}

impl Told {
    async fn progress(&self, fraction: f64, note: &str) {
        let params = json!({ "progressToken": self.token, "progress": fraction, "total": 1, "message": note });
        // Whoever has left is told nothing more; the cell goes on.
        let _ = self.out.send(json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params })).await;
    }
}
