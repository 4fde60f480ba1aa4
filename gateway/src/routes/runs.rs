//! Runs.

use std::time::Duration;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use dormouse_protocol::{
    ApiError, ErrorBody, ErrorCode,
    eval::EvalRequest,
    run::{Run, RunList, WAIT_SECONDS_MAX},
};
use serde::Deserialize;

use super::keyed::Keyed;
use crate::{
    app::App,
    auth::{Caller, Verb},
    body::{ItemPath, Params, SessionPath},
    directory::Key,
    doors::desk::Desk,
    problem::Problem,
    runs,
};

const PREFER: HeaderName = HeaderName::from_static("prefer");
const RESPOND_ASYNC: &str = "respond-async";

/// Query of a list.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParams {
    /// Runs on a page: 1 to 64.
    limit: Option<usize>,
    /// The `continue` of the page before.
    #[serde(rename = "continue")]
    #[param(rename = "continue")]
    continue_token: Option<String>,
}

/// Query of one run.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct WaitParams {
    /// How long to wait for its end: 0 to 60.
    wait_seconds: u64,
}

/// Whether the client does not want to wait (RFC 7240).
pub(super) fn responds_async(headers: &HeaderMap) -> bool {
    let preferred = headers.get_all(PREFER).iter().filter_map(|value| value.to_str().ok());
    preferred.flat_map(|value| value.split([',', ';'])).any(|part| part.trim().eq_ignore_ascii_case(RESPOND_ASYNC))
}

/// The answer of an eval that nobody waits for.
pub(super) async fn accepted(app: &App, key: &Key, eval: &EvalRequest, keyed: &Keyed, request_id: &str) -> Result<Response, Problem> {
    let run = runs::accept(&app.router, key, eval, request_id).await.map_err(|error| keyed.names(error))?;
    let headers = [(header::LOCATION, run.url.clone()), (HeaderName::from_static("preference-applied"), RESPOND_ASYNC.to_owned())];
    let body = serde_json::json!({ "run": run.id, "state": run.state, "url": run.url, "idempotencyKey": run.idempotency_key });
    let mut response = (StatusCode::ACCEPTED, headers, Json(body)).into_response();
    if !run.state.is_end() {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    Ok(response)
}

/// Lists the runs of a session, newest first: those that have not ended, and the last 32 that have. Does not wake it.
#[utoipa::path(get, path = "/v1/namespaces/{namespace}/sessions/{name}/runs", tag = "runs", params(("namespace" = String, Path,), ("name" = String, Path,), ListParams),
    responses((status = 200, body = RunList)))]
pub(crate) async fn list(desk: Desk, SessionPath(key): SessionPath, Params(params): Params<ListParams>) -> Result<Json<RunList>, Problem> {
    Ok(Json(desk.runs(&key, params.limit, params.continue_token.as_deref()).await?))
}

/// Reads a run, when it has ended or the wait is over. Does not wake its session.
#[utoipa::path(get, path = "/v1/namespaces/{namespace}/sessions/{name}/runs/{id}", tag = "runs", params(("namespace" = String, Path,), ("name" = String, Path,), ("id" = String, Path,), WaitParams),
    responses((status = 200, body = Run), (status = 404, description = "no such run", body = ErrorBody)))]
pub(crate) async fn get(desk: Desk, ItemPath(key, id): ItemPath, Params(params): Params<WaitParams>) -> Result<Json<Run>, Problem> {
    if params.wait_seconds > WAIT_SECONDS_MAX {
        let message = format!("waitSeconds: write 0 to {WAIT_SECONDS_MAX}, and ask again when that is over");
        return Err(ApiError::new(ErrorCode::InvalidRequest, message).with_detail("path", "waitSeconds").into());
    }
    Ok(Json(desk.run(&key, &id, Duration::from_secs(params.wait_seconds)).await?))
}

/// Ends a run with `Interrupted`; answers when that is stored. One that has ended stays as it is.
#[utoipa::path(post, path = "/v1/namespaces/{namespace}/sessions/{name}/runs/{id}/cancel", tag = "runs", params(("namespace" = String, Path,), ("name" = String, Path,), ("id" = String, Path,)),
    responses((status = 200, body = Run), (status = 404, description = "no such run", body = ErrorBody)))]
pub(crate) async fn cancel(State(app): State<App>, caller: Caller, ItemPath(key, id): ItemPath) -> Result<Json<Run>, Problem> {
    app.allow_eval(&caller, Verb::Create, &key).await?;
    Ok(Json(runs::cancel(&app.router, &key, &id).await?))
}
