//! The access log: one line a request, of who did what to which object, and how it ended. A request that holds a connection, or a message of MCP, names
//! no session; so each frame of a socket and each message of MCP has a line of its own. Never a body, a query or a credential.

use std::{
    sync::{Arc, OnceLock},
    time::Instant,
};

use axum::{
    extract::{MatchedPath, Request},
    middleware::Next,
    response::Response,
};

use crate::{
    audit::{Done, outcome, shortened},
    problem::RequestId,
};

/// The target of the log's lines, for filters and collectors.
pub const TARGET: &str = "dormouse::access";

/// Who a request turned out to be of; filled when its credentials have been looked at.
#[derive(Debug, Clone, Default)]
pub(crate) struct Who(pub(crate) Arc<OnceLock<String>>);

/// Middleware: writes the line when the answer's head leaves.
pub(crate) async fn logged(mut request: Request, next: Next) -> Response {
    let who = Who::default();
    request.extensions_mut().insert(who.clone());
    let route = request.extensions().get::<MatchedPath>().map_or("other", MatchedPath::as_str).to_owned();
    let request_id = request.extensions().get::<RequestId>().map(|id| id.0.clone()).unwrap_or_default();
    let (method, object) = (request.method().clone(), request.uri().path().to_owned());
    let began = Instant::now();
    let response = next.run(request).await;
    let status = response.status().as_u16();
    let ms = ms_since(began);
    let user = who.0.get().map_or("", String::as_str);
    // All that its span says is in it.
    tracing::info!(target: TARGET, parent: None, user, %method, route, object, status, ms, request_id, "request");
    response
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of a request are far below 2^52")]
fn ms_since(began: Instant) -> f64 {
    began.elapsed().as_micros() as f64 / 1000.0
}

/// What a client does by a message whose request names no session.
pub(crate) struct Message<'a> {
    pub(crate) user: &'a str,
    pub(crate) verb: &'a str,
    /// The session, or the namespace of what is no session's.
    pub(crate) object: String,
    /// What of it.
    pub(crate) part: &'a str,
    /// That of the connection, where the message is a frame.
    pub(crate) request_id: &'a str,
}

/// The line of a message that is worked on. Dropped before its result is known, it says so.
struct Line<'a> {
    message: Message<'a>,
    began: Instant,
    result: Option<Done>,
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        let Message { user, verb, object, part, request_id } = &self.message;
        let (part, result, ms) = (shortened(part), outcome(self.result), ms_since(self.began));
        tracing::info!(target: TARGET, parent: None, user, verb, object, part, result, ms, request_id, "message");
    }
}

/// Does `work`, and writes the line of its message. `done` says what came of it; `None`: nobody knows.
pub(crate) async fn told<T>(message: Message<'_>, work: impl Future<Output = T>, done: impl FnOnce(&T) -> Option<Done>) -> T {
    let mut line = Line { message, began: Instant::now(), result: None };
    let result = work.await;
    line.result = done(&result);
    result
}
