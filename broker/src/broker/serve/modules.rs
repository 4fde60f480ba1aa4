//! The route of packages, for kernel pods of the broker's namespace.

use axum::{Json, Router, extract::State, routing::post};
use dormouse_protocol::broker::{ModulesAnswer, ModulesCall};
use dormouse_service::{ApiJson, error::ApiResult, tls::PeerIdentity};

use super::Served;

/// The route.
pub(super) fn routes() -> Router<Served> {
    Router::new().route("/v1/modules", post(modules))
}

async fn modules(
    State(served): State<Served>,
    peer: PeerIdentity,
    ApiJson(mut call): ApiJson<ModulesCall>,
) -> ApiResult<Json<ModulesAnswer>> {
    served.admit(&peer, &mut call.session_uid)?;
    served.admit_session(&call.namespace)?;
    Ok(Json(served.broker.modules(call).await?))
}
