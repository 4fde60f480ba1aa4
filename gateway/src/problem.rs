//! Errors as clients see them, and the id that ties an answer to the log lines of every process that its request crossed.

use std::sync::Arc;

use axum::{
    Json,
    extract::{MatchedPath, Request},
    http::{HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use dormouse_protocol::{ApiError, ErrorBody, ErrorCode};
use dormouse_service::{
    origin::{Origin, REQUEST_ID, id_in},
    traces,
};
use tracing::Span;

use crate::{
    chain::chain,
    directory::{DirectoryError, Key},
};

/// The media type of errors.
pub const PROBLEM: &str = "application/problem+json";
/// How long a client should wait where the code does not say.
const RETRY_AFTER_SECONDS: u32 = 1;

/// The id of a request.
#[derive(Debug, Clone)]
pub struct RequestId(pub String);

/// An error on its way to the client.
#[derive(Debug, Clone)]
pub struct Problem(pub ApiError);

impl From<ApiError> for Problem {
    fn from(error: ApiError) -> Self {
        Self(error)
    }
}

impl IntoResponse for Problem {
    /// The body is written by [`with_request_id`], which knows the id.
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = status.into_response();
        if self.0.code == ErrorCode::Unauthenticated {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.0.retryable {
            let seconds = self.0.code.retry_after_seconds().unwrap_or(RETRY_AFTER_SECONDS);
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// Marks an answer that is no success and has its body already, in another protocol's form.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Whole;

/// What a failure of the directory means to a client that asked about `key`.
#[must_use]
pub fn of_directory(error: DirectoryError, key: &Key) -> ApiError {
    match error {
        DirectoryError::NotFound => ApiError::new(
            ErrorCode::SessionNotFound,
            format!("there is no session `{}` in namespace `{}`: create it first", key.name, key.namespace),
        ),
        DirectoryError::NamespaceNotFound => {
            ApiError::new(ErrorCode::InvalidRequest, format!("namespace `{}` does not exist: create it first", key.namespace))
        }
        DirectoryError::AlreadyExists => ApiError::new(
            ErrorCode::Conflict,
            format!("session `{}` exists in namespace `{}`: choose another name, or leave out `If-None-Match`", key.name, key.namespace),
        ),
        DirectoryError::Conflict => ApiError::new(
            ErrorCode::Conflict,
            format!("session `{}` was changed by someone else meanwhile: send the request again", key.name),
        )
        .again(),
        DirectoryError::Invalid(message) => ApiError::new(ErrorCode::InvalidRequest, message),
        DirectoryError::Quota(message) => ApiError::new(ErrorCode::QuotaExceeded, message),
        DirectoryError::Denied(message) => ApiError::new(ErrorCode::Forbidden, message),
        DirectoryError::Unprivileged(message) => {
            tracing::error!(session = %key, message, "the gateway may not do what it has to");
            let message = "the gateway lacks a right in the cluster: its ClusterRole is not the chart's; its log says which right";
            ApiError::new(ErrorCode::Internal, message)
        }
        DirectoryError::Archive(error) => {
            tracing::error!(session = %key, error, "the archive of sessions failed");
            ApiError::new(
                ErrorCode::StorageUnavailable,
                "whether the session is in the archive is not known, because the operator or its object store does not answer: try again",
            )
            .again()
        }
        DirectoryError::Unavailable(error) => {
            tracing::error!(session = %key, error = %chain(&*error), "the directory of sessions failed");
            ApiError::new(
                ErrorCode::StorageUnavailable,
                "the directory of sessions, which is the API server, cannot be read or written at the moment: try again, and see the gateway's log",
            )
        }
    }
}

/// Middleware: gives the request an id, and every error answer a body that carries it.
pub async fn with_request_id(mut request: Request, next: Next) -> Response {
    let id = id_in(request.headers()).unwrap_or_else(|| uuid::Uuid::new_v4().to_string().into());
    request.extensions_mut().insert(RequestId(id.to_string()));
    let span = span(&request, &id);
    traces::follow(&span, request.headers());
    let response = Origin::new(Some(Arc::clone(&id)), span.clone()).run(next.run(request)).await;
    span.record("http.response.status_code", response.status().as_u16());
    let mut response = match problem_in(&response) {
        Some(mut error) => {
            let _entered = span.enter();
            if response.status().is_server_error() {
                tracing::warn!(code = %error.code, message = error.message, "request failed");
            } else {
                tracing::debug!(code = %error.code, message = error.message, "request refused");
            }
            error.request_id = id.to_string();
            with_body(response, error)
        }
        None => response,
    };
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// The span of a request; in traces it is called by its route, which names no session.
fn span(request: &Request, id: &str) -> Span {
    let (method, path) = (request.method(), request.uri().path());
    let route = || request.extensions().get::<MatchedPath>().map_or("other", MatchedPath::as_str);
    let name = traces::are_on().then(|| format!("{method} {}", route()));
    tracing::info_span!(
        "request",
        otel.name = name.as_deref(),
        otel.kind = name.as_ref().map(|_| "server"),
        request_id = id,
        %method,
        path,
        http.response.status_code = tracing::field::Empty
    )
}

/// The error that an answer stands for: ours, or one of the HTTP library's own.
fn problem_in(response: &Response) -> Option<ApiError> {
    if let Some(Problem(error)) = response.extensions().get::<Problem>() {
        return Some(error.clone());
    }
    if response.extensions().get::<Whole>().is_some() {
        return None;
    }
    match response.status() {
        StatusCode::NOT_FOUND => {
            Some(ApiError::new(ErrorCode::InvalidRequest, "there is no such path: the API is under /v1/namespaces/{namespace}/sessions"))
        }
        StatusCode::METHOD_NOT_ALLOWED => {
            Some(ApiError::new(ErrorCode::InvalidRequest, "this path does not take this method: see `Allow`"))
        }
        status if status.is_client_error() => {
            Some(ApiError::new(ErrorCode::InvalidRequest, format!("the request cannot be understood: {status}")))
        }
        status if status.is_server_error() => Some(ApiError::new(ErrorCode::Internal, "a fault of ours: see the gateway's log")),
        _ => None,
    }
}

fn with_body(response: Response, error: ApiError) -> Response {
    let (mut parts, _) = response.into_parts();
    parts.extensions.remove::<Problem>();
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.remove(header::CONTENT_TYPE);
    let mut response = (parts.status, Json(ErrorBody { error })).into_response();
    response.headers_mut().extend(parts.headers);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM));
    response
}
