//! Checkpoints, forks and the journal of a session.

use axum::{
    Json,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use dormouse_protocol::{
    ErrorBody,
    history::{
        Checkpoint, CheckpointList, Difference, ForkSession, JournalPage, MakeCheckpoint, MigrateSession, Migration, ResetSession,
        RestoreSession,
    },
    session::Session,
};
use serde::Deserialize;

use super::{keyed::Keyed, reads::Committed};
use crate::{
    app::App,
    audit::Act,
    auth::{Caller, Part, Verb},
    body::{Body, Params, SessionPath},
    doors::desk::Desk,
    history,
    problem::Problem,
};

/// Query of a journal.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct JournalParams {
    /// Only entries with a greater `seq`.
    after: u64,
    /// Entries on a page: 1 to 10000.
    limit: Option<usize>,
}

/// Lists a session's checkpoints, oldest first. Does not wake it.
#[utoipa::path(get, path = "/v1/namespaces/{namespace}/sessions/{name}/checkpoints", tag = "sessions", params(("namespace" = String, Path,), ("name" = String, Path,)),
    responses((status = 200, body = CheckpointList, headers(("Dormouse-Read" = String, description = "`committed`: the last commit; older than the last answer only where `spec.durability` is not `PerEval`")))))]
pub(crate) async fn checkpoints(
    State(app): State<App>,
    caller: Caller,
    SessionPath(key): SessionPath,
) -> Result<Committed<CheckpointList>, Problem> {
    app.allow_session(&caller, Verb::Get, &key).await?;
    Ok(Committed(history::checkpoints(&app.router, &key).await?))
}

/// Query of a difference.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DifferenceParams {
    /// Id or label of the earlier checkpoint.
    from: String,
    /// Id or label of the later one; the last commit when absent.
    to: Option<String>,
}

/// Tells which globals and files differ between two checkpoints. Does not wake the session, and changes nothing.
#[utoipa::path(get, path = "/v1/namespaces/{namespace}/sessions/{name}/checkpoints/diff", tag = "sessions", params(("namespace" = String, Path,), ("name" = String, Path,), DifferenceParams),
    responses((status = 200, body = Difference, headers(("Dormouse-Read" = String, description = "`committed`: the last commit; older than the last answer only where `spec.durability` is not `PerEval`"))), (status = 409, description = "nothing is stored yet", body = ErrorBody), (status = 413, description = "too large to be compared", body = ErrorBody)))]
pub(crate) async fn difference(
    desk: Desk,
    SessionPath(key): SessionPath,
    Params(params): Params<DifferenceParams>,
) -> Result<Committed<Difference>, Problem> {
    let compared = desk.audited(Act::Read, &key, "checkpoints/diff", async {
        // It shows values, which are for those who may run cells.
        desk.may(Verb::Create, &key, Part::Eval).await?;
        history::difference(&desk.app.router, &key, params.from, params.to).await
    });
    Ok(Committed(compared.await?))
}

/// Puts a session's present state aside under a label; a label that is in use moves to it.
#[utoipa::path(post, path = "/v1/namespaces/{namespace}/sessions/{name}/checkpoints", tag = "sessions", params(("namespace" = String, Path,), ("name" = String, Path,)), request_body = MakeCheckpoint,
    responses((status = 201, body = Checkpoint)))]
pub(crate) async fn make_checkpoint(
    State(app): State<App>,
    caller: Caller,
    SessionPath(key): SessionPath,
    Body(body): Body<MakeCheckpoint>,
) -> Result<(StatusCode, Json<Checkpoint>), Problem> {
    app.allow_session(&caller, Verb::Update, &key).await?;
    let operation = Keyed::of(body.idempotency_key, app.router.ids())?;
    let made = history::checkpoint(&app.router, &key, &body.label, &operation.key).await;
    Ok((StatusCode::CREATED, Json(made.map_err(|error| operation.names(error))?)))
}

/// Takes a session back to a checkpoint; answers when it is so. Cells that wait end with `Interrupted`.
#[utoipa::path(post, path = "/v1/namespaces/{namespace}/sessions/{name}/restore", tag = "sessions", params(("namespace" = String, Path,), ("name" = String, Path,)), request_body = RestoreSession,
    responses((status = 200, body = Session)))]
pub(crate) async fn restore(desk: Desk, SessionPath(key): SessionPath, Body(body): Body<RestoreSession>) -> Result<Json<Session>, Problem> {
    let operation = Keyed::of(body.idempotency_key, desk.app.router.ids())?;
    let restored = desk.restore(&key, &body.checkpoint, &operation.key).await;
    Ok(Json(restored.map_err(|error| operation.names(error))?))
}

/// Empties a session: it goes on as a new one would, under the same name and id. The state before stays as a checkpoint. Cells that run or wait end
/// with `Interrupted`.
#[utoipa::path(post, path = "/v1/namespaces/{namespace}/sessions/{name}/reset", tag = "sessions", params(("namespace" = String, Path,), ("name" = String, Path,)), request_body = ResetSession,
    responses((status = 200, body = Session)))]
pub(crate) async fn reset(desk: Desk, SessionPath(key): SessionPath, Body(body): Body<ResetSession>) -> Result<Json<Session>, Problem> {
    let operation = Keyed::of(body.idempotency_key, desk.app.router.ids())?;
    let emptied = desk.reset(&key, &operation.key).await;
    Ok(Json(emptied.map_err(|error| operation.names(error))?))
}

/// Moves a session to the current engine by running its recorded cells again, and says what it could not carry. The state before stays as a checkpoint.
#[utoipa::path(post, path = "/v1/namespaces/{namespace}/sessions/{name}/migrate", tag = "sessions", params(("namespace" = String, Path,), ("name" = String, Path,)), request_body = MigrateSession,
    responses((status = 200, body = Migration)))]
pub(crate) async fn migrate(
    desk: Desk,
    SessionPath(key): SessionPath,
    Body(body): Body<MigrateSession>,
) -> Result<Json<Migration>, Problem> {
    let (act, part) = if body.dry_run { (Act::Read, "migrate") } else { (Act::Migrate, "") };
    let migrated = desk.audited(act, &key, part, async {
        desk.may(Verb::Update, &key, Part::Session).await?;
        // Its cells run again, and the report shows values.
        desk.may(Verb::Create, &key, Part::Eval).await?;
        history::migrate(&desk.app.router, &key, body.dry_run).await
    });
    Ok(Json(migrated.await?))
}

/// Makes a session that begins as what this one is, or was at a checkpoint.
#[utoipa::path(post, path = "/v1/namespaces/{namespace}/sessions/{name}/fork", tag = "sessions", params(("namespace" = String, Path,), ("name" = String, Path,)), request_body = ForkSession,
    responses((status = 201, body = Session), (status = 409, description = "the name is taken, or nothing is stored yet", body = ErrorBody)))]
pub(crate) async fn fork(desk: Desk, SessionPath(key): SessionPath, Body(body): Body<ForkSession>) -> Result<Response, Problem> {
    let session = desk.fork(&key, body).await?;
    Ok((StatusCode::CREATED, [(header::LOCATION, session.url.clone())], Json(session)).into_response())
}

/// Reads a session's journal. Does not wake it, and also tells what is left of a damaged one.
#[utoipa::path(get, path = "/v1/namespaces/{namespace}/sessions/{name}/journal", tag = "sessions", params(("namespace" = String, Path,), ("name" = String, Path,), JournalParams),
    responses((status = 200, body = JournalPage, headers(("Dormouse-Read" = String, description = "`committed`: the last commit; older than the last answer only where `spec.durability` is not `PerEval`")))))]
pub(crate) async fn journal(
    desk: Desk,
    SessionPath(key): SessionPath,
    Params(params): Params<JournalParams>,
) -> Result<Committed<JournalPage>, Problem> {
    Ok(Committed(desk.journal(&key, params.after, params.limit).await?))
}
