//! Sessions as objects, and the orders to them that have no body.

use std::collections::BTreeMap;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use dormouse_protocol::{
    ApiError, ErrorBody, ErrorCode,
    session::{CreateSession, Session, SessionList},
};
use serde::Deserialize;

use super::reads::Reported;
use crate::{
    app::App,
    auth::{Caller, Part, Verb},
    body::{Body, Namespace, Params, SessionPath},
    doors::desk::Desk,
    problem::Problem,
    service::{self, Created, Existing},
};

/// Query of a list.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParams {
    /// Sessions on a page: 1 to 500.
    limit: Option<usize>,
    /// The `continue` of the page before.
    #[serde(rename = "continue")]
    #[param(rename = "continue")]
    continue_token: Option<String>,
    /// Such as `app=a,tier!=x,!hidden`.
    label_selector: Option<String>,
}

/// Body of a patch: JSON merge patches (RFC 7396).
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct PatchSession {
    /// Of the spec.
    #[schema(value_type = Option<Object>)]
    spec: Option<serde_json::Map<String, serde_json::Value>>,
    /// Of the labels; `null` removes one.
    labels: Option<BTreeMap<String, Option<String>>>,
}

/// Makes a session. An existing one is answered as it is, unless `If-None-Match: *` is sent.
#[utoipa::path(post, path = "/v1/namespaces/{namespace}/sessions", tag = "sessions", params(("namespace" = String, Path,), ("If-None-Match" = Option<String>, Header, description = "`*` refuses an existing name")), request_body = CreateSession,
    responses((status = 201, description = "it is new", body = Session), (status = 200, description = "it was there", body = Session), (status = 409, description = "it was there, and `If-None-Match: *` was sent", body = ErrorBody)))]
pub(crate) async fn create(
    desk: Desk,
    Namespace(namespace): Namespace,
    headers: HeaderMap,
    Body(body): Body<CreateSession>,
) -> Result<Response, Problem> {
    let desk = Desk { namespace, ..desk };
    let refuse = headers.get(header::IF_NONE_MATCH).is_some_and(|value| value == "*");
    Ok(match desk.make(body, if refuse { Existing::Refuse } else { Existing::Return }).await? {
        Created::New(session) => (StatusCode::CREATED, [(header::LOCATION, session.url.clone())], Json(session)).into_response(),
        Created::Old(session) => Json(session).into_response(),
    })
}

/// Lists the sessions of a namespace.
#[utoipa::path(get, path = "/v1/namespaces/{namespace}/sessions", tag = "sessions", params(("namespace" = String, Path,), ListParams),
    responses((status = 200, body = SessionList, headers(("Dormouse-Read" = String, description = "`reported`: what its process reported last, which may be old")))))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Namespace(namespace): Namespace,
    Params(params): Params<ListParams>,
) -> Result<Reported<SessionList>, Problem> {
    app.allow(&caller, Verb::List, &namespace, None, Part::Session).await?;
    let own = caller.grant.as_ref().map(|grant| grant.selector.as_str()).unwrap_or_default();
    // A key sees what its selector fits, whatever else is asked for.
    let selector = [own, params.label_selector.as_deref().unwrap_or_default()].join(",");
    Ok(Reported(service::list(&app.router, &namespace, params.limit, params.continue_token.as_deref(), &selector).await?))
}

/// Reads a session.
#[utoipa::path(get, path = "/v1/namespaces/{namespace}/sessions/{name}", tag = "sessions", params(("namespace" = String, Path,), ("name" = String, Path,)),
    responses((status = 200, body = Session, headers(("Dormouse-Read" = String, description = "`reported`: what its process reported last, which may be old")))))]
pub(crate) async fn get(State(app): State<App>, caller: Caller, SessionPath(key): SessionPath) -> Result<Reported<Session>, Problem> {
    app.allow_session(&caller, Verb::Get, &key).await?;
    Ok(Reported(service::get(&app.router, &key).await?))
}

/// Changes spec or labels of a session.
#[utoipa::path(patch, path = "/v1/namespaces/{namespace}/sessions/{name}", tag = "sessions", params(("namespace" = String, Path,), ("name" = String, Path,)), request_body = PatchSession,
    responses((status = 200, body = Session)))]
pub(crate) async fn patch(
    State(app): State<App>,
    caller: Caller,
    SessionPath(key): SessionPath,
    Body(body): Body<PatchSession>,
) -> Result<Json<Session>, Problem> {
    app.allow_session(&caller, Verb::Update, &key).await?;
    let mut spec = body.spec.map(serde_json::Value::Object);
    if let Some(broker) = spec.as_mut().and_then(|spec| spec.pointer_mut("/toolBrokerRef")?.as_object_mut()) {
        let Some(name) = broker.get("name").and_then(serde_json::Value::as_str) else {
            let message = "spec.toolBrokerRef: write its `name`, too, or null to have no ToolBroker";
            return Err(ApiError::new(ErrorCode::InvalidRequest, message).with_detail("path", "spec.toolBrokerRef.name").into());
        };
        app.allow_broker(&caller, &key.namespace, Some(name)).await?;
        broker.insert("namedBy".to_owned(), serde_json::json!(app.authenticator.subject(&caller)));
    }
    Ok(Json(service::patch(&app.router, &key, spec, body.labels).await?))
}

/// Deletes a session and everything that is stored of it.
#[utoipa::path(delete, path = "/v1/namespaces/{namespace}/sessions/{name}", tag = "sessions", params(("namespace" = String, Path,), ("name" = String, Path,)),
    responses((status = 202, description = "it is on its way out")))]
pub(crate) async fn delete(desk: Desk, SessionPath(key): SessionPath) -> Result<StatusCode, Problem> {
    desk.delete(&key).await?;
    Ok(StatusCode::ACCEPTED)
}

/// Ends the running cell with `Interrupted`.
#[utoipa::path(post, path = "/v1/namespaces/{namespace}/sessions/{name}/interrupt", tag = "sessions", params(("namespace" = String, Path,), ("name" = String, Path,)),
    responses((status = 202, description = "the running cell, if any, ends")))]
pub(crate) async fn interrupt(State(app): State<App>, caller: Caller, SessionPath(key): SessionPath) -> Result<StatusCode, Problem> {
    app.allow_eval(&caller, Verb::Create, &key).await?;
    service::interrupt(&app.router, &key).await?;
    Ok(StatusCode::ACCEPTED)
}

/// Puts a session to sleep; answers when it is so.
#[utoipa::path(post, path = "/v1/namespaces/{namespace}/sessions/{name}/hibernate", tag = "sessions", params(("namespace" = String, Path,), ("name" = String, Path,)),
    responses((status = 200, body = Session)))]
pub(crate) async fn hibernate(desk: Desk, SessionPath(key): SessionPath) -> Result<Json<Session>, Problem> {
    Ok(Json(desk.hibernate(&key).await?))
}

/// Wakes a session; answers when it is so.
#[utoipa::path(post, path = "/v1/namespaces/{namespace}/sessions/{name}/wake", tag = "sessions", params(("namespace" = String, Path,), ("name" = String, Path,)),
    responses((status = 200, body = Session)))]
pub(crate) async fn wake(State(app): State<App>, caller: Caller, SessionPath(key): SessionPath) -> Result<Json<Session>, Problem> {
    app.allow_session(&caller, Verb::Update, &key).await?;
    Ok(Json(service::wake(&app.router, &key).await?))
}
