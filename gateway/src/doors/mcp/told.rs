//! What a client is told while its request is worked on, in a stream that ends with the answer: how far the cell has come, what it prints, and what
//! its function asks.

use std::{convert::Infallible, time::Duration};

use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, header},
    response::{IntoResponse as _, Response},
};
use dormouse_protocol::{
    ApiError, ErrorCode,
    eval::{EvalRequest, EvalResult},
    event::{Event as EventOfCell, EventBody},
};
use dormouse_service::room::Holding;
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::of_api;
use crate::{
    auth::review::Review,
    directory::Key,
    doors::{desk::Desk, lines::Events},
};

/// After so long without a message an empty one keeps the connection.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Messages that wait for a slow client.
const QUEUED_MAX: usize = 16;
/// When a client whose stream broke comes back.
const RETRY: Duration = Duration::from_secs(1);
/// Levels of messages, the least first, as RFC 5424 has them.
const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// The least level of what a client wants to hear.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Level(usize);

impl Level {
    pub(super) fn named(name: &str) -> Option<Self> {
        LEVELS.iter().position(|level| *level == name).map(Self)
    }

    /// Of a line of the console.
    fn of_console(level: &str) -> Self {
        Self(match level {
            "debug" => 0,
            "warn" => 3,
            "error" => 4,
            _ => 1,
        })
    }

    fn name(self) -> &'static str {
        LEVELS.get(self.0).copied().unwrap_or("info")
    }
}

/// What a client wants to be told.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// Under which token it wants to hear of progress.
    pub(super) token: Option<Value>,
    /// What it wants to hear of what is printed.
    pub(super) level: Option<Level>,
    /// Whether it can be asked in the stream.
    pub(super) asked: bool,
    /// Whether it comes back to a stream that broke.
    pub(super) returns: bool,
}

impl Wanted {
    /// Whether all of that needs a stream.
    pub(super) fn is_any(&self) -> bool {
        self.token.is_some() || self.level.is_some() || self.asked
    }
}

/// Under which token a request wants to hear of progress.
pub(super) fn token(params: &Value) -> Option<Value> {
    params.get("_meta")?.get("progressToken").filter(|token| token.is_string() || token.is_number()).cloned()
}

/// Whether a client takes an answer of several messages.
pub(super) fn takes_stream(headers: &HeaderMap) -> bool {
    headers.get_all(header::ACCEPT).iter().any(|accept| accept.to_str().is_ok_and(|accept| accept.contains("text/event-stream")))
}

/// A message of a stream.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// Behind which a client may go on.
    pub(super) id: Option<String>,
    /// Absent in what only bears an id.
    pub(super) message: Option<Value>,
    /// What it takes until it has left.
    room: Option<Holding>,
}

impl Sent {
    /// As an event. One without a message has data that is empty: only so it counts, and its id.
    fn written(self) -> String {
        let id = self.id.map(|id| format!("id: {id}\n")).unwrap_or_default();
        match self.message {
            Some(message) => format!("{id}data: {message}\n\n"),
            None => format!("{id}retry: {}\ndata: \n\n", RETRY.as_millis()),
        }
    }
}

impl From<Value> for Sent {
    fn from(message: Value) -> Self {
        Self { message: Some(message), ..Self::default() }
    }
}

/// Who is told.
pub(super) struct Told {
    wanted: Wanted,
    out: mpsc::Sender<Sent>,
}

/// The answer of a request of this id that is told: what `work` tells, and then what it comes to, or that the credential is over, as server-sent events.
pub(super) fn stream<F: Future<Output = Option<Value>> + Send + 'static>(
    review: Review,
    id: Option<Value>,
    wanted: Wanted,
    work: impl FnOnce(Told) -> F,
) -> Response {
    let (out, queue) = mpsc::channel(QUEUED_MAX);
    let (working, room) = (work(Told { wanted, out: out.clone() }), Holding::current());
    let ends = async move {
        let answer = match &room {
            Some(room) => room.clone().around(working).await,
            None => working.await,
        };
        if let Some(answer) = answer {
            // The client has left.
            let _ = out.send(Sent { message: Some(answer), room, ..Sent::default() }).await;
        }
    };
    let ends = stream::once(ends).filter_map(|()| std::future::ready(None));
    let sent = stream::select(ReceiverStream::new(queue), ends).boxed();
    // Whoever asks for the next message has sent the one before.
    let written = stream::unfold(Some((sent, review, id, None)), |state| async move {
        let (mut sent, mut review, id, before) = state?;
        drop::<Option<Holding>>(before);
        match review.until(tokio::time::timeout(HEARTBEAT, sent.next())).await {
            Ok(Ok(next)) => {
                let mut next = next?;
                let room = next.room.take();
                Some((next.written(), Some((sent, review, id, room))))
            }
            Ok(Err(_)) => Some((":\n\n".to_owned(), Some((sent, review, id, None)))),
            Err(over) => Some((Sent::from(of_api(&over).message(&id?)).written(), None)),
        }
    });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache"),
        // A proxy in between is not to keep what it could hand on.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, Body::from_stream(written.map(Ok::<_, Infallible>))).into_response()
}

/// Runs a cell and waits for its end, telling of it. Answers it with its place in the session's events, where it was told of.
///
/// # Errors
/// As of [`Desk::eval`].
pub(super) async fn eval(desk: &Desk, key: &Key, eval: EvalRequest, told: Option<&Told>) -> Result<(EvalResult, u64), ApiError> {
    let Some(told) = told else { return Ok((desk.eval(key, eval).await?, 0)) };
    let mut events = Events::new(desk, desk.eval_events(key, eval).await?);
    let (mut furthest, mut printed) = (-1.0, false);
    while let Some(line) = events.next().await {
        let Ok(EventOfCell { seq, body, .. }) = serde_json::from_slice::<EventOfCell>(&line) else { continue };
        match body {
            // It may only grow, as the protocol has it.
            EventBody::Progress { fraction, note } if fraction > furthest => {
                furthest = fraction;
                told.progress(fraction, &note).await;
            }
            EventBody::Log { level, text } => printed |= told.log(key, &level, &text, events.room()).await,
            EventBody::Restarted {} if printed => told.restarted(key).await,
            EventBody::Final { result } => {
                if let Some(room) = Holding::current() {
                    room.take_over(events.room());
                }
                return Ok((*result, seq));
            }
            EventBody::Error { code, message, .. } => return Err(ApiError::new(code, message)),
            _ => {}
        }
    }
    Err(ApiError::new(ErrorCode::SessionGone, "the answer was cut off: send the cell again with its key"))
}

impl Told {
    /// Says behind which event a client may go on, before there is anything else.
    pub(super) async fn prime(&self, id: Option<String>) {
        if self.wanted.returns && id.is_some() {
            self.send(Sent { id, ..Sent::default() }).await;
        }
    }

    /// Asks the client.
    pub(super) async fn ask(&self, mark: Option<String>, id: &str, method: &str, params: Value) {
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(Sent { id: mark.filter(|_| self.wanted.returns), ..message.into() }).await;
    }

    /// Tells it anything else.
    pub(super) async fn notify(&self, method: &str, params: Value) {
        self.send(json!({ "jsonrpc": "2.0", "method": method, "params": params }).into()).await;
    }

    /// Returns when the client has left.
    pub(super) async fn left(&self) {
        self.out.closed().await;
    }

    async fn send(&self, sent: Sent) {
        // Whoever has left is told nothing more; the cell goes on.
        let _ = self.out.send(sent).await;
    }

    async fn progress(&self, fraction: f64, note: &str) {
        let Some(token) = &self.wanted.token else { return };
        self.notify("notifications/progress", json!({ "progressToken": token, "progress": fraction, "total": 1, "message": note })).await;
    }

    /// Tells of a line, if the client wants to hear of such. Answers whether it does.
    async fn log(&self, key: &Key, level: &str, text: &str, room: &Holding) -> bool {
        let level = Level::of_console(level);
        let wanted = self.wanted.level.is_some_and(|least| level >= least);
        if wanted {
            self.send(Sent { room: Some(room.clone()), ..line(key, level, json!(text)).into() }).await;
        }
        wanted
    }

    /// Says that the lines which came do not hold: the cell may run again. It has the least level that the client wants, so whoever got one gets this.
    async fn restarted(&self, key: &Key) {
        if let Some(level) = self.wanted.level {
            self.send(line(key, level, json!({ "restarted": true })).into()).await;
        }
    }
}

/// A line of the log.
fn line(key: &Key, level: Level, data: Value) -> Value {
    let params = json!({ "level": level.name(), "logger": key.name, "data": data });
    json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": params })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_only_bears_an_id_has_empty_data() {
        let id = Some("a/b".to_owned());
        assert_eq!(Sent { id: id.clone(), ..Sent::default() }.written(), "id: a/b\nretry: 1000\ndata: \n\n");
        assert_eq!(Sent { id, ..json!({ "text": "a\nb" }).into() }.written(), "id: a/b\ndata: {\"text\":\"a\\nb\"}\n\n");
        assert_eq!(Sent::from(json!(1)).written(), "data: 1\n\n");
    }

    #[test]
    fn levels_are_in_order() {
        let named = |name| Level::named(name).unwrap();
        assert!(named("debug") < named("info") && named("info") < named("warning") && named("warning") < named("error"));
        assert!(named("error") < named("emergency"));
        assert_eq!(Level::named("log"), None);
        for (console, level) in [("debug", "debug"), ("log", "info"), ("info", "info"), ("warn", "warning"), ("error", "error")] {
            assert_eq!(Level::of_console(console).name(), level);
        }
    }

    #[tokio::test]
    async fn whoever_hears_of_lines_hears_that_they_do_not_hold() {
        let (out, mut queue) = mpsc::channel(QUEUED_MAX);
        let wanted = Wanted { level: Level::named("warning"), ..Wanted::default() };
        let key = Key::new("ns", "s");
        Told { wanted, out: out.clone() }.restarted(&key).await;
        Told { wanted: Wanted::default(), out }.restarted(&key).await;
        let said = queue.recv().await.and_then(|sent| sent.message).unwrap();
        assert_eq!(said["params"], json!({ "level": "warning", "logger": "s", "data": { "restarted": true } }));
        assert!(queue.recv().await.is_none(), "who hears of no lines hears nothing");
    }
}
