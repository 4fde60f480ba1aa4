//! HTTP errors as every process answers them, and a JSON body that is refused the same way.

use axum::{
    Json,
    body::Bytes,
    extract::{FromRequest, Request},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use dormouse_protocol::{ApiError, ErrorBody, ErrorCode};
use serde::de::DeserializeOwned;

/// An [`ApiError`] as an HTTP response: its code's status and an [`ErrorBody`]. `?` turns an `ApiError` into one.
#[derive(Debug, Clone)]
pub struct ApiErrorResponse(pub ApiError);

impl From<ApiError> for ApiErrorResponse {
    fn from(error: ApiError) -> Self {
        Self(error)
    }
}

impl IntoResponse for ApiErrorResponse {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, Json(ErrorBody { error: self.0 })).into_response()
    }
}

/// What a handler returns.
pub type ApiResult<T> = Result<T, ApiErrorResponse>;

/// A JSON body. What does not fit `T` is refused with `InvalidRequest` and the path of the field. Any content type is taken:
/// there is no other format, and `curl -d` names the wrong one.
#[derive(Debug, Clone, Copy, Default)]
pub struct ApiJson<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for ApiJson<T> {
    type Rejection = ApiErrorResponse;

    async fn from_request(request: Request, state: &S) -> Result<Self, Self::Rejection> {
        let bytes = Bytes::from_request(request, state).await.map_err(|rejection| {
            let too_large = rejection.status() == StatusCode::PAYLOAD_TOO_LARGE;
            let code = if too_large { ErrorCode::SizeAdmissionError } else { ErrorCode::InvalidRequest };
            ApiErrorResponse(ApiError::new(code, format!("the body cannot be read: {}", rejection.body_text())))
        })?;
        parse(&bytes).map(Self).map_err(ApiErrorResponse)
    }
}

/// `bytes` as JSON of a `T`.
///
/// # Errors
/// `InvalidRequest` with the path of the field that does not fit.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    let Json(value) = Json::<T>::from_bytes(bytes).map_err(|rejection| ApiError::new(ErrorCode::InvalidRequest, rejection.body_text()))?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_the_bad_field_is_named() {
        let body = br#"{"namespace":"a","session":"s","sessionUid":"u","epoch":"x","call":1,"tool":"t","args":{}}"#;
        let error = parse::<dormouse_protocol::broker::ToolCall>(body).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidRequest);
        assert!(error.message.contains("epoch"), "{}", error.message);
    }

    #[test]
    fn the_status_is_the_codes() {
        let response = ApiErrorResponse(ApiError::new(ErrorCode::SessionGone, "moved")).into_response();
        assert_eq!(response.status(), StatusCode::GONE);
    }
}
