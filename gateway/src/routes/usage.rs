//! What a namespace has used.

use axum::{Json, extract::State};
use dormouse_protocol::usage::UsageReport;
use serde::Deserialize;

use crate::{
    app::App,
    auth::{Caller, Part, Verb},
    body::{Namespace, Params},
    problem::Problem,
    usage,
};

/// Query of a report.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct UsageParams {
    /// The first day, `YYYY-MM-DD` in UTC, or a time of it; `to` when absent.
    from: Option<String>,
    /// The last day; today when absent.
    to: Option<String>,
}

/// Tells what the sessions of a namespace have used, by day and session, those that are deleted among them. Wakes nothing.
#[utoipa::path(get, path = "/v1/namespaces/{namespace}/usage", tag = "usage", params(("namespace" = String, Path,), UsageParams),
    responses((status = 200, body = UsageReport)))]
pub(crate) async fn usage(
    State(app): State<App>,
    caller: Caller,
    Namespace(namespace): Namespace,
    Params(params): Params<UsageParams>,
) -> Result<Json<UsageReport>, Problem> {
    app.allow(&caller, Verb::List, &namespace, None, Part::Session).await?;
    if caller.grant.as_ref().is_some_and(|grant| !grant.selector.is_empty()) {
        let message = "this API key is for some sessions only: ask with one that is for all of the namespace";
        return Err(dormouse_protocol::ApiError::new(dormouse_protocol::ErrorCode::Forbidden, message).into());
    }
    Ok(Json(usage::report(&app.router, &namespace, params.from.as_deref(), params.to.as_deref()).await?))
}
