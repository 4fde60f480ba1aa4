//! The idempotency key of a request: given by the client, or made here. Either way the client learns it, so that it can send the request again.

use axum::{
    http::{HeaderName, HeaderValue},
    response::Response,
};
use dormouse_protocol::{ApiError, ErrorCode, history::KEY_BYTES_MAX};
use dormouse_service::Ids;

/// Name of the field that a request has it in, and of the one in the details of an error.
const FIELD: &str = "idempotencyKey";

/// Header of a stream's answer that has it.
const HEADER: HeaderName = HeaderName::from_static("idempotency-key");

/// A request's key.
#[derive(Debug, Clone)]
pub(super) struct Keyed {
    /// It.
    pub(super) key: String,
}

impl Keyed {
    /// What the client gave, or a new one.
    ///
    /// # Errors
    /// `InvalidRequest`: it is no key.
    pub(super) fn of(given: Option<String>, ids: &Ids) -> Result<Self, ApiError> {
        let key = given.unwrap_or_else(|| ids.next().to_string());
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            let message = format!("{FIELD}: use 1 to {KEY_BYTES_MAX} bytes, or leave it out");
            return Err(ApiError::new(ErrorCode::InvalidRequest, message).with_detail("path", FIELD));
        }
        Ok(Self { key })
    }

    /// A stream of events, whose `error` has no room for the key.
    pub(super) fn tells(&self, mut response: Response) -> Response {
        if let Ok(key) = HeaderValue::from_str(&self.key) {
            response.headers_mut().insert(HEADER, key);
        }
        response
    }

    /// The error as the client gets it: with the key under which the request may be sent again.
    pub(super) fn names(&self, error: ApiError) -> ApiError {
        error.with_detail(FIELD, self.key.clone())
    }
}
