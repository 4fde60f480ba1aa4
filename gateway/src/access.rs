//! The access log: one line a request, of who did what to which object, and how it ended. Never a body, a query or a credential.

use std::{
    sync::{Arc, OnceLock},
    time::Instant,
};

use axum::{
    extract::{MatchedPath, Request},
    http::Method,
    middleware::Next,
    response::Response,
};

use crate::problem::RequestId;

/// The target of the log's lines, for filters and collectors.
pub const TARGET: &str = "dormouse::access";

/// Who a request turned out to be of; filled when its credentials have been looked at.
#[derive(Debug, Clone, Default)]
pub(crate) struct Who(pub(crate) Arc<OnceLock<String>>);

/// What has to be found again later: reads of what cells wrote, and what cannot be undone.
fn audited(method: &Method, route: &str) -> Option<&'static str> {
    let below = route.strip_prefix("/v1/namespaces/{namespace}/sessions/{name}");
    match (method.as_str(), below) {
        ("GET", Some(part)) if part.starts_with("/files") => Some("read"),
        ("GET", Some("/events" | "/journal" | "/checkpoints/diff" | "/runs" | "/runs/{id}")) => Some("read"),
        ("POST", Some("/fork")) => Some("fork"),
        ("POST", Some("/restore")) => Some("restore"),
        ("DELETE", Some(_)) => Some("delete"),
        (_, None) if route.contains("/keys") && method != Method::GET => Some("keys"),
        ("DELETE", None) if route == "/sessions/{id}" => Some("delete"),
        ("GET", None) if route == "/sessions/{id}/stream" => Some("read"),
        _ => None,
    }
}

/// Middleware: writes the line when the answer's head leaves.
pub(crate) async fn logged(mut request: Request, next: Next) -> Response {
    let who = Who::default();
    request.extensions_mut().insert(who.clone());
    let route = request.extensions().get::<MatchedPath>().map_or("other", MatchedPath::as_str).to_owned();
    let request_id = request.extensions().get::<RequestId>().map(|id| id.0.clone()).unwrap_or_default();
    let (method, object) = (request.method().clone(), request.uri().path().to_owned());
    let began = Instant::now();
    let response = next.run(request).await;
    let (status, ms) = (response.status().as_u16(), began.elapsed().as_secs_f64() * 1000.0);
    let user = who.0.get().map_or("", String::as_str);
    match audited(&method, &route) {
        Some(audit) => tracing::info!(target: TARGET, user, %method, route, object, status, ms, request_id, audit, "request"),
        None => tracing::info!(target: TARGET, user, %method, route, object, status, ms, request_id, "request"),
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_of_what_cells_wrote_and_what_cannot_be_undone_are_audited() {
        let session = "/v1/namespaces/{namespace}/sessions/{name}";
        let at = |method: Method, path: &str| audited(&method, &format!("{session}{path}"));
        assert_eq!(at(Method::GET, "/files/{*path}"), Some("read"));
        assert_eq!(at(Method::GET, "/events"), Some("read"));
        assert_eq!(at(Method::POST, "/fork"), Some("fork"));
        assert_eq!(at(Method::POST, "/restore"), Some("restore"));
        assert_eq!(at(Method::DELETE, ""), Some("delete"));
        assert_eq!((at(Method::GET, ""), at(Method::POST, "/eval")), (None, None));
        assert_eq!(audited(&Method::POST, "/v1/namespaces/{namespace}/keys"), Some("keys"));
    }
}
