//! Cells.

use std::sync::Arc;

use axum::{
    body::Body as HttpBody,
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
};
use dormouse_protocol::{
    ApiError, ErrorCode,
    eval::{EvalRequest, EvalResult, WOKE_HEADER},
    kernel::EvalCall,
};
use futures::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;

use super::{keyed::Keyed, runs};
use crate::{
    auth::Verb,
    body::{Body, SessionPath},
    directory::Record,
    doors::desk::Desk,
    in_flight::InFlight,
    kernels::NDJSON,
    problem::Problem,
    quota,
    stream::{self, Frames},
};

/// Runs a cell. A script's own failure is `200 {ok: false}`. With `Accept: application/x-ndjson` the same comes as events that end in `final`; with
/// `Prefer: respond-async` the cell becomes a run, which goes on without anybody who waits.
#[utoipa::path(post, path = "/v1/namespaces/{namespace}/sessions/{name}/eval", tag = "sessions", params(("namespace" = String, Path,), ("name" = String, Path,), ("Prefer" = Option<String>, Header, description = "`respond-async`: do not wait")), request_body = EvalRequest,
    responses(
        (status = 202, description = "it is stored that the cell will run", body = Object),
        (status = 200, description = "the cell ended", content((EvalResult = "application/json"), (dormouse_protocol::event::Event = "application/x-ndjson")))))]
pub(crate) async fn eval(
    Desk { app, caller, request_id, mut review, .. }: Desk,
    SessionPath(key): SessionPath,
    headers: HeaderMap,
    Body(mut eval): Body<EvalRequest>,
) -> Result<Response, Problem> {
    app.allow_eval(&caller, Verb::Create, &key).await?;
    let has_broker = |record: Arc<Record>| record.spec.tool_broker_ref.is_some();
    if eval.webhook.is_some() && !app.router.directory().get(&key).is_some_and(has_broker) {
        let message = "webhook: a ToolBroker delivers the message, and the session has none: name one in spec.toolBrokerRef";
        return Err(ApiError::new(ErrorCode::InvalidRequest, message).with_details(serde_json::json!({ "path": "webhook" })).into());
    }
    let keyed = Keyed::of(eval.idempotency_key.take(), app.router.ids())?;
    quota::admit_cell(&app.router, &key.namespace).await.map_err(|error| keyed.names(error))?;
    eval.idempotency_key = Some(keyed.key.clone());
    caller.sign(&mut eval);
    if runs::responds_async(&headers) {
        return runs::accepted(&app, &key, &eval, &keyed, &request_id).await;
    }
    if accepts(&headers, NDJSON) {
        let frames = stream::eval(&app.router, &key, eval, request_id, review).await.map_err(|error| keyed.names(error))?;
        return Ok(keyed.tells(streamed(frames, NDJSON)));
    }
    let (router, eval, request_id) = (&app.router, &eval, &request_id);
    let mut in_flight = InFlight::of_cell();
    let sent = router.send_claiming(&mut in_flight, &key, |pod, assignment, unwritten, lost| async move {
        let call = EvalCall { assignment, eval: eval.clone(), request_id: request_id.clone(), run: false, lost };
        router.kernels().eval(&pod, &call, unwritten).await
    });
    let sent = review.until(Box::pin(sent)).await.and_then(|sent| sent);
    let (result, _) = sent.map_err(|error| keyed.names(error))?;
    let body = match result.rest {
        None => HttpBody::from(result.start),
        Some(rest) => HttpBody::from_stream(review.around(futures::stream::iter([Ok(result.start)]).chain(rest))),
    };
    let mut response = ([(header::CONTENT_TYPE, "application/json")], body).into_response();
    if let Some(woke) = result.woke {
        response.headers_mut().insert(WOKE_HEADER, woke);
    }
    Ok(response)
}

/// Whether the client asked for `media_type`.
pub(super) fn accepts(headers: &HeaderMap, media_type: &str) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted
        .flat_map(|value| value.split(','))
        .any(|part| part.split(';').next().is_some_and(|part| part.trim().eq_ignore_ascii_case(media_type)))
}

/// Frames as a body that is never buffered on its way.
pub(super) fn streamed(frames: Frames, content_type: &'static str) -> Response {
    let body = HttpBody::from_stream(ReceiverStream::new(frames).map(|frame| Ok::<_, std::convert::Infallible>(frame.bytes)));
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (header::CACHE_CONTROL, "no-store"),
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, body).into_response()
}
