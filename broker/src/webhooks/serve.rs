//! The routes of messages.

use axum::{
    Json, Router,
    extract::State,
    response::{IntoResponse as _, Response},
    routing::post,
};
use dormouse_protocol::{
    broker::{DeliveriesCall, EventsCall, Notice, RedeliverCall},
    webhook::{Delivery, DeliveryList},
};
use dormouse_service::{ApiJson, error::ApiResult, tls::PeerIdentity};

use crate::serve::Served;

/// Of kernel pods.
pub(crate) fn notices() -> Router<Served> {
    Router::new().route("/v1/notices", post(notice)).route("/v1/events", post(events))
}

/// Of gateways.
pub(crate) fn orders() -> Router<Served> {
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

async fn deliveries(State(served): State<Served>, ApiJson(call): ApiJson<DeliveriesCall>) -> ApiResult<Json<DeliveryList>> {
    served.admit_session(&call.namespace)?;
    Ok(Json(served.broker.deliveries(&call).await?))
}

async fn redeliver(State(served): State<Served>, ApiJson(call): ApiJson<RedeliverCall>) -> ApiResult<Json<Delivery>> {
    served.admit_session(&call.namespace)?;
    Ok(Json(served.broker.redeliver(&call).await?))
}
