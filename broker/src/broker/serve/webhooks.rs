//! The routes of messages.

use axum::{
    Json, Router,
    extract::State,
    response::{IntoResponse as _, Response},
    routing::post,
};
use dormouse_crds::webhooks::EventKind;
use dormouse_protocol::{
    ApiError, ErrorCode,
    broker::{DeliveriesCall, EventsCall, Notice, RedeliverCall, SESSION_NOTICES, WANTED_EVENTS},
    webhook::{Delivery, DeliveryList},
};
use dormouse_service::{ApiJson, error::ApiResult, tls::PeerIdentity};

use super::Served;

/// Of kernel pods.
pub(super) fn notices() -> Router<Served> {
    Router::new().route("/v1/notices", post(notice)).route("/v1/events", post(events))
}

/// Of gateways and the operator, who tell what becomes of a session that no kernel pod has.
pub(super) fn sessions() -> Router<Served> {
    Router::new().route(SESSION_NOTICES, post(session_notice)).route(WANTED_EVENTS, post(wanted))
}

/// Of gateways.
pub(super) fn orders() -> Router<Served> {
    Router::new().route("/v1/deliveries", post(deliveries)).route("/v1/redeliver", post(redeliver))
}

async fn notice(State(served): State<Served>, peer: PeerIdentity, ApiJson(mut notice): ApiJson<Notice>) -> ApiResult<Response> {
    served.admit(&peer, &mut notice.session_uid)?;
    served.admit_session(&notice.namespace)?;
    served.broker.take_notice(notice).await?;
    let mut response = Json(()).into_response();
    served.tell_events(&mut response);
    Ok(response)
}

async fn events(State(served): State<Served>, peer: PeerIdentity, ApiJson(call): ApiJson<EventsCall>) -> ApiResult<Response> {
    served.admit_peer(&peer)?;
    served.admit_session(&call.namespace)?;
    let mut response = Json(()).into_response();
    served.tell_events(&mut response);
    Ok(response)
}

async fn session_notice(State(served): State<Served>, ApiJson(notice): ApiJson<Notice>) -> ApiResult<Json<()>> {
    served.admit_session(&notice.namespace)?;
    if !notice.event.is_told_from_outside() || notice.key.is_none() || notice.webhook.is_some() {
        let message = format!("{} is told by the session's kernel pod", notice.event.name());
        return Err(ApiError::new(ErrorCode::Forbidden, message).into());
    }
    served.broker.take_notice(notice).await?;
    Ok(Json(()))
}

async fn wanted(State(served): State<Served>, ApiJson(call): ApiJson<EventsCall>) -> ApiResult<Json<Vec<EventKind>>> {
    served.admit_session(&call.namespace)?;
    Ok(Json(served.wanted_events()))
}

async fn deliveries(State(served): State<Served>, ApiJson(call): ApiJson<DeliveriesCall>) -> ApiResult<Json<DeliveryList>> {
    served.admit_session(&call.namespace)?;
    Ok(Json(served.broker.deliveries(&call).await?))
}

async fn redeliver(State(served): State<Served>, ApiJson(call): ApiJson<RedeliverCall>) -> ApiResult<Json<Delivery>> {
    served.admit_session(&call.namespace)?;
    Ok(Json(served.broker.redeliver(&call).await?))
}
