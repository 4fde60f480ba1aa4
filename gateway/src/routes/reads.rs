//! Reads that no process of the session answers: each says where its answer comes from, and so whether it may be old.

use axum::{
    Json,
    http::HeaderName,
    response::{IntoResponse, Response},
};
use serde::Serialize;

/// Says where the answer to a read comes from. An answer without it is the session's own, of its last acknowledged state.
pub(crate) const READ_HEADER: HeaderName = HeaderName::from_static("dormouse-read");

/// What the session's process has reported last. It may be old: by a moment while that process lives, by longer when it is gone.
pub(crate) struct Reported<T>(pub(crate) T);

/// What was committed last when it was read. Under `spec.durability: PerEval` that is the last acknowledged state; else answers may be ahead of it.
pub(crate) struct Committed<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Reported<T> {
    fn into_response(self) -> Response {
        ([(READ_HEADER, "reported")], Json(self.0)).into_response()
    }
}

impl<T: Serialize> IntoResponse for Committed<T> {
    fn into_response(self) -> Response {
        ([(READ_HEADER, "committed")], Json(self.0)).into_response()
    }
}
