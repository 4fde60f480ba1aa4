//! The routes of fetches, for kernel pods of the broker's namespace.

use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, State},
    response::Response,
    routing::post,
};
use dormouse_protocol::{
    ApiError, ErrorCode,
    broker::{BodyAnswer, BodyCall, CloseCall, FETCH, FETCH_BODY_BYTES_MAX, FetchCall},
};
use dormouse_service::{ApiJson, error::ApiResult, tls::PeerIdentity};

use super::Served;
use crate::room;

/// Largest message with a request, in bytes: the body as base64, and the rest.
const CALL_BYTES_MAX: usize = FETCH_BODY_BYTES_MAX * 2;

/// The routes.
pub(super) fn routes() -> Router<Served> {
    Router::new()
        .route("/v1/fetch", post(fetch).layer(DefaultBodyLimit::max(CALL_BYTES_MAX)))
        .route("/v1/body", post(body))
        .route("/v1/close", post(close))
}

async fn fetch(State(served): State<Served>, peer: PeerIdentity, ApiJson(mut call): ApiJson<FetchCall>) -> ApiResult<Response> {
    served.admit(&peer, &mut call.call.session_uid)?;
    served.admit_session(&call.call.namespace)?;
    if call.call.tool != FETCH {
        return Err(ApiError::new(ErrorCode::InvalidRequest, format!("the tool of a fetch is named {FETCH}")).into());
    }
    let uid = call.call.session_uid.clone();
    let room = room::holding();
    let answer = room.clone().around(served.broker.fetch(call)).await?;
    Ok(served.answer_within(room, &uid, &answer).await?)
}

async fn body(State(served): State<Served>, peer: PeerIdentity, ApiJson(mut call): ApiJson<BodyCall>) -> ApiResult<Json<BodyAnswer>> {
    served.admit(&peer, &mut call.session_uid)?;
    served.admit_session(&call.namespace)?;
    Ok(Json(served.broker.body(call).await?))
}

async fn close(State(served): State<Served>, peer: PeerIdentity, ApiJson(mut call): ApiJson<CloseCall>) -> ApiResult<Json<()>> {
    served.admit(&peer, &mut call.session_uid)?;
    served.admit_session(&call.namespace)?;
    served.broker.close(&call);
    Ok(Json(()))
}
