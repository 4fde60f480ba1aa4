//! The access log: one line a request, of who did what to which object, and how it ended. Never a body, a query or a credential.

use std::{
    sync::{Arc, OnceLock},
    time::Instant,
};

use axum::{
    extract::{MatchedPath, Request},
    middleware::Next,
    response::Response,
};

use crate::problem::RequestId;

/// The target of the log's lines, for filters and collectors.
pub const TARGET: &str = "dormouse::access";

/// Who a request turned out to be of; filled when its credentials have been looked at.
#[derive(Debug, Clone, Default)]
pub(crate) struct Who(pub(crate) Arc<OnceLock<String>>);

/// Middleware: writes the line when the answer's head leaves.
pub(crate) async fn logged(mut request: Request, next: Next) -> Response {
    let who = Who::default();
    request.extensions_mut().insert(who.clone());
    let route = request.extensions().get::<MatchedPath>().map_or("other", MatchedPath::as_str).to_owned();
    let request_id = request.extensions().get::<RequestId>().map(|id| id.0.clone()).unwrap_or_default();
    let (method, object) = (request.method().clone(), request.uri().path().to_owned());
    let began = Instant::now();
    let response = next.run(request).await;
    let status = response.status().as_u16();
    #[expect(clippy::cast_precision_loss, reason = "microseconds of a request are far below 2^52")]
    let ms = began.elapsed().as_micros() as f64 / 1000.0;
    let user = who.0.get().map_or("", String::as_str);
    // All that its span says is in it.
    tracing::info!(target: TARGET, parent: None, user, %method, route, object, status, ms, request_id, "request");
    response
}
