//! The routes of jobs, for gateways.

use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, State},
    routing::post,
};
use dormouse_protocol::{
    broker::{AnswerJobCall, AnsweredJob, ClaimJobCall, ClaimedJob, HeartbeatJobCall},
    job::JobLease,
};
use dormouse_service::{ApiJson, error::ApiResult};

use super::Served;
use crate::jobs::ANSWER_BYTES_MAX;

/// Largest answer, in bytes, with the rest of the message.
const ANSWER_MESSAGE_BYTES_MAX: usize = ANSWER_BYTES_MAX + (64 << 10);

/// The routes.
pub(super) fn routes() -> Router<Served> {
    Router::new()
        .route("/v1/jobs/claim", post(claim))
        .route("/v1/jobs/heartbeat", post(heartbeat))
        .route("/v1/jobs/answer", post(answer).layer(DefaultBodyLimit::max(ANSWER_MESSAGE_BYTES_MAX)))
}

async fn claim(State(served): State<Served>, ApiJson(call): ApiJson<ClaimJobCall>) -> ApiResult<Json<ClaimedJob>> {
    served.admit_session(&call.namespace)?;
    Ok(Json(served.broker.claim_job(&call).await?))
}

async fn heartbeat(State(served): State<Served>, ApiJson(call): ApiJson<HeartbeatJobCall>) -> ApiResult<Json<JobLease>> {
    served.admit_session(&call.namespace)?;
    Ok(Json(served.broker.keep_job(&call).await?))
}

async fn answer(State(served): State<Served>, ApiJson(call): ApiJson<AnswerJobCall>) -> ApiResult<Json<AnsweredJob>> {
    served.admit_session(&call.namespace)?;
    Ok(Json(served.broker.answer_job(&call).await?))
}
