//! Calls that wait for a person.

use axum::Json;
use dormouse_protocol::approval::{ApprovalList, Decide, Decided};

use super::keyed::Keyed;
use crate::{
    body::{Body, ItemPath, Namespace, SessionPath},
    doors::desk::Desk,
    problem::Problem,
};

/// Lists the calls of a session that wait for a person. Does not wake it.
#[utoipa::path(get, path = "/v1/namespaces/{namespace}/sessions/{name}/approvals", tag = "approvals", params(("namespace" = String, Path,), ("name" = String, Path,)),
    responses((status = 200, body = ApprovalList)))]
pub(crate) async fn list(desk: Desk, SessionPath(key): SessionPath) -> Result<Json<ApprovalList>, Problem> {
    Ok(Json(desk.approvals(&key).await?))
}

/// Lists the calls of a namespace's sessions that wait for a person. Wakes none.
#[utoipa::path(get, path = "/v1/namespaces/{namespace}/approvals", tag = "approvals", params(("namespace" = String, Path,)),
    responses((status = 200, body = ApprovalList)))]
pub(crate) async fn list_all(desk: Desk, Namespace(namespace): Namespace) -> Result<Json<ApprovalList>, Problem> {
    let desk = Desk { namespace, ..desk };
    Ok(Json(desk.all_approvals().await?))
}

/// Decides about a call that waits. The first decision stands; the same one may be sent again with its key.
#[utoipa::path(post, path = "/v1/namespaces/{namespace}/sessions/{name}/approvals/{id}", tag = "approvals", params(("namespace" = String, Path,), ("name" = String, Path,), ("id" = String, Path,)), request_body = Decide,
    responses((status = 200, body = Decided)))]
pub(crate) async fn decide(desk: Desk, ItemPath(key, id): ItemPath, Body(body): Body<Decide>) -> Result<Json<Decided>, Problem> {
    let keyed = Keyed::of(body.idempotency_key.clone(), desk.app.router.ids())?;
    let decided = desk.decide(&key, &id, body, &keyed.key).await;
    Ok(Json(decided.map_err(|error| keyed.names(error))?))
}
