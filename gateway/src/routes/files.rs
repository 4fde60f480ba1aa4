//! Files of a session.

use axum::{
    Json,
    body::Body,
    extract::State,
    http::{HeaderMap, HeaderName, StatusCode, header},
    response::{IntoResponse, Response},
};
use dormouse_protocol::{
    ErrorBody,
    file::{FileEntry, FileList, Preconditions},
};
use futures::StreamExt as _;
use serde::Deserialize;

use crate::{
    app::App,
    audit::{self, Act},
    auth::{Caller, Part, Verb},
    body::{ItemPath, Params, SessionPath},
    doors::desk::Desk,
    files,
    problem::Problem,
};

/// Headers of a pod's answer that are the client's.
const PASSED: [HeaderName; 6] =
    [header::ETAG, header::LAST_MODIFIED, header::ACCEPT_RANGES, header::CONTENT_TYPE, header::CONTENT_LENGTH, header::CONTENT_RANGE];

/// Query of a list.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParams {
    /// The directory; without it, all of the file system.
    path: String,
    /// Whether to list what is in its directories, too.
    recursive: bool,
}

/// Query of a removal.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct RemoveParams {
    /// Whether to remove a directory that is not empty, with all that is in it.
    recursive: bool,
}

fn preconditions(headers: &HeaderMap) -> Preconditions {
    let header = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    Preconditions {
        if_match: header(header::IF_MATCH),
        if_none_match: header(header::IF_NONE_MATCH),
        range: header(header::RANGE),
        if_range: header(header::IF_RANGE),
    }
}

/// Lists a session's files, at most 10000. Wakes it.
#[utoipa::path(get, path = "/v1/namespaces/{namespace}/sessions/{name}/files", tag = "sessions", params(("namespace" = String, Path,), ("name" = String, Path,), ListParams),
    responses((status = 200, body = FileList), (status = 404, description = "no such directory", body = ErrorBody)))]
pub(crate) async fn list(desk: Desk, SessionPath(key): SessionPath, Params(params): Params<ListParams>) -> Result<Json<FileList>, Problem> {
    Ok(Json(desk.files(&key, &params.path, params.recursive).await?))
}

/// Reads a file. `Range`, `If-Range`, `If-Match` and `If-None-Match` are regarded. Wakes the session.
#[utoipa::path(get, path = "/v1/namespaces/{namespace}/sessions/{name}/files/{path}", tag = "sessions", params(("namespace" = String, Path,), ("name" = String, Path,), ("path" = String, Path, description = "may have slashes")),
    responses((status = 200, description = "the content", content_type = "application/octet-stream"), (status = 206, description = "the range", content_type = "application/octet-stream"), (status = 304, description = "it is still the same"), (status = 404, description = "no such file", body = ErrorBody), (status = 412, description = "it is another one", body = ErrorBody), (status = 416, description = "the range lies outside", body = ErrorBody)))]
pub(crate) async fn read(desk: Desk, ItemPath(key, file): ItemPath, headers: HeaderMap) -> Result<Response, Problem> {
    let part = audit::file(&file);
    let found = desk.audited(Act::Read, &key, &part, async {
        desk.may(Verb::Create, &key, Part::Eval).await?;
        files::read(&desk.app.router, &key, &file, &preconditions(&headers)).await
    });
    let found = found.await?;
    let status = StatusCode::from_u16(found.status().as_u16()).unwrap_or(StatusCode::BAD_GATEWAY);
    let mut passed = HeaderMap::new();
    for name in PASSED {
        if let Some(value) = found.headers().get(&name) {
            passed.insert(name, value.clone());
        }
    }
    // A tenant's bytes are never a page of this origin.
    passed.insert(header::X_CONTENT_TYPE_OPTIONS, header::HeaderValue::from_static("nosniff"));
    Ok((status, passed, Body::from_stream(desk.review.around(found.bytes_stream()))).into_response())
}

/// Writes a file, with the directories above it; answers when it is committed. `If-Match` and `If-None-Match` are regarded. Wakes the session.
#[utoipa::path(put, path = "/v1/namespaces/{namespace}/sessions/{name}/files/{path}", tag = "sessions", params(("namespace" = String, Path,), ("name" = String, Path,), ("path" = String, Path, description = "may have slashes")), request_body(content_type = "application/octet-stream"),
    responses((status = 200, description = "replaced", body = FileEntry), (status = 201, description = "new", body = FileEntry), (status = 412, description = "it is another one", body = ErrorBody)))]
pub(crate) async fn write(
    State(app): State<App>,
    caller: Caller,
    ItemPath(key, file): ItemPath,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    app.allow_eval(&caller, Verb::Create, &key).await?;
    let content = body.into_data_stream().map(|chunk| chunk.map_err(std::io::Error::other)).boxed();
    let (entry, is_new) = files::write(&app.router, &key, &file, preconditions(&headers), content).await?;
    let etag = entry.etag.clone().unwrap_or_default();
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, [(header::ETAG, etag)], Json(entry)).into_response())
}

/// Removes a file or an empty directory; answers when that is committed. `If-Match` is regarded. Wakes the session.
#[utoipa::path(delete, path = "/v1/namespaces/{namespace}/sessions/{name}/files/{path}", tag = "sessions", params(("namespace" = String, Path,), ("name" = String, Path,), ("path" = String, Path, description = "may have slashes"), RemoveParams),
    responses((status = 204, description = "gone"), (status = 404, description = "no such file", body = ErrorBody), (status = 412, description = "it is another one", body = ErrorBody)))]
pub(crate) async fn remove(
    desk: Desk,
    ItemPath(key, file): ItemPath,
    headers: HeaderMap,
    Params(params): Params<RemoveParams>,
) -> Result<StatusCode, Problem> {
    let part = audit::file(&file);
    let removed = desk.audited(Act::Delete, &key, &part, async {
        desk.may(Verb::Create, &key, Part::Eval).await?;
        files::remove(&desk.app.router, &key, &file, params.recursive, &preconditions(&headers)).await
    });
    removed.await?;
    Ok(StatusCode::NO_CONTENT)
}
