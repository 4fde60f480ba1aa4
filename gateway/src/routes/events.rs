//! The session's event log: replay, then live.

use axum::{http::HeaderMap, response::Response};
use dormouse_protocol::event::Event;
use serde::Deserialize;

use super::eval::{accepts, streamed};
use crate::{
    body::{Params, SessionPath},
    doors::desk::Desk,
    kernels::NDJSON,
    problem::Problem,
    stream::{Framing, Wanted},
};

const SSE: &str = "text/event-stream";

/// Query of an event stream.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventsParams {
    /// Only events with a greater `seq`; the header `Last-Event-ID` says the same. 410 `EventsExpired` when the next one is not kept any more. Without it,
    /// all that are kept.
    after: Option<u64>,
    /// Whether to go on with live events after the replay.
    follow: bool,
}

impl Default for EventsParams {
    fn default() -> Self {
        Self { after: None, follow: true }
    }
}

/// Streams a session's events: NDJSON, or server-sent events by `Accept`.
#[utoipa::path(get, path = "/v1/namespaces/{namespace}/sessions/{name}/events", tag = "sessions", params(("namespace" = String, Path,), ("name" = String, Path,), EventsParams),
    responses((status = 200, description = "events, one a line", content((Event = "application/x-ndjson"), (Event = "text/event-stream")))))]
pub(crate) async fn events(
    desk: Desk,
    SessionPath(key): SessionPath,
    headers: HeaderMap,
    Params(params): Params<EventsParams>,
) -> Result<Response, Problem> {
    let last_id = headers.get("last-event-id").and_then(|value| value.to_str().ok()?.parse().ok());
    let (framing, content_type) = if accepts(&headers, SSE) { (Framing::Sse, SSE) } else { (Framing::Ndjson, NDJSON) };
    let wanted = Wanted { after: params.after.or(last_id), follow: params.follow, fresh: false, framing };
    Ok(streamed(desk.events_as(&key, wanted).await?, content_type))
}
