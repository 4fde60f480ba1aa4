//! Bodies and queries, parsed once into types that cannot be wrong.

use axum::{
    body::{Bytes, HttpBody as _},
    extract::{FromRequest, FromRequestParts, Path, Query, Request},
    http::{HeaderMap, header, request::Parts},
};
use bytes::BytesMut;
use dormouse_protocol::{ApiError, ErrorCode};
use dormouse_service::room::{SMALL_BYTES_MAX, json_weight};
use futures::StreamExt as _;
use serde::de::DeserializeOwned;

use crate::{directory::Key, names::check_name, problem::Problem, rooms::OfBody};

/// Largest request body, in bytes.
pub const BODY_BYTES_MAX: usize = 8 << 20;

/// A JSON body. What does not fit is refused with the path of the field. It must say that it is JSON: a web page may send any other type
/// anywhere without asking.
pub struct Body<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let is_json = says_json(request.headers());
        let Whole(bytes) = Whole::from_request(request, state).await?;
        if !bytes.is_empty() && !is_json {
            const TYPE: &str = "the body must be JSON and say so: send `Content-Type: application/json` (`curl --json` does)";
            return Err(ApiError::new(ErrorCode::InvalidRequest, TYPE).into());
        }
        // No body means: all fields as they are by default.
        let bytes = if bytes.is_empty() { &b"{}"[..] } else { &bytes };
        parse(bytes).map(Self).map_err(Problem)
    }
}

/// A body, whole. A large one is read on once there is room for all that it announces; one that announces nothing counts as the largest.
pub struct Whole(pub Bytes);

impl<S: Send + Sync> FromRequest<S> for Whole {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let refuse = |message: String| ApiError::new(ErrorCode::InvalidRequest, message);
        let too_large = || refuse(format!("the body is larger than {BODY_BYTES_MAX} bytes: send less at a time"));
        let (parts, body) = request.into_parts();
        let announced = body.size_hint().upper().map_or(BODY_BYTES_MAX, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        if announced > BODY_BYTES_MAX {
            return Err(too_large().into());
        }
        let (mut chunks, mut bytes) = (body.into_data_stream(), BytesMut::new());
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|error| refuse(format!("the body cannot be read: {error}")))?;
            let more = bytes.len() + chunk.len();
            if more > BODY_BYTES_MAX {
                return Err(too_large().into());
            }
            if more > SMALL_BYTES_MAX {
                if let Some(OfBody(room)) = parts.extensions.get() {
                    room.grow_to(announced).await?;
                }
                bytes.reserve(announced.max(more) - bytes.len());
            }
            bytes.extend_from_slice(&chunk);
        }
        if let Some(OfBody(room)) = parts.extensions.get() {
            room.grow_to(json_weight(&bytes)).await?;
        }
        Ok(Self(bytes.freeze()))
    }
}

fn says_json(headers: &HeaderMap) -> bool {
    let said = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    said.split(';').next().is_some_and(|media_type| media_type.trim().eq_ignore_ascii_case("application/json"))
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let place = if path == "." { String::new() } else { format!("{path}: ") };
        let refusal = ApiError::new(ErrorCode::InvalidRequest, format!("{place}{}", error.inner()));
        if place.is_empty() { refusal } else { refusal.with_details(serde_json::json!({ "path": path })) }
    })?;
    json.end().map_err(|error| ApiError::new(ErrorCode::InvalidRequest, format!("the body is not one JSON value: {error}")))?;
    Ok(value)
}

/// A query string. What does not fit, and what is not known, is refused.
pub struct Params<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let query = Query::<T>::from_request_parts(parts, state).await;
        let Query(value) =
            query.map_err(|rejection| ApiError::new(ErrorCode::InvalidRequest, format!("query: {}", rejection.body_text())))?;
        Ok(Self(value))
    }
}

/// The namespace in the path.
pub struct Namespace(pub String);

impl<S: Send + Sync> FromRequestParts<S> for Namespace {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Path(namespace) = Path::<String>::from_request_parts(parts, state).await.map_err(|_| bad_path())?;
        check_name(&namespace, "namespace")?;
        Ok(Self(namespace))
    }
}

/// Namespace and name of the session in the path.
pub struct SessionPath(pub Key);

impl<S: Send + Sync> FromRequestParts<S> for SessionPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Path((namespace, name)) = Path::<(String, String)>::from_request_parts(parts, state).await.map_err(|_| bad_path())?;
        Ok(Self(key(namespace, name)?))
    }
}

/// The session in the path, and what of it: a run, a file, an approval.
pub struct ItemPath(pub Key, pub String);

impl<S: Send + Sync> FromRequestParts<S> for ItemPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let found = Path::<(String, String, String)>::from_request_parts(parts, state).await;
        let Path((namespace, name, item)) = found.map_err(|_| bad_path())?;
        Ok(Self(key(namespace, name)?, item))
    }
}

fn key(namespace: String, name: String) -> Result<Key, ApiError> {
    check_name(&namespace, "namespace")?;
    // A session that kubectl made may have dots in its name.
    for label in name.split('.') {
        check_name(label, "name")?;
    }
    Ok(Key { namespace, name })
}

fn bad_path() -> ApiError {
    ApiError::new(ErrorCode::InvalidRequest, "the path is not UTF-8 when decoded")
}

#[cfg(test)]
mod tests {
    use dormouse_protocol::{eval::EvalRequest, session::CreateSession};

    use super::*;

    fn path_of<T: DeserializeOwned>(body: &str) -> (String, String) {
        let Err(error) = parse::<T>(body.as_bytes()) else { panic!("accepted: {body}") };
        assert_eq!(error.code, ErrorCode::InvalidRequest);
        (error.details.map(|details| details["path"].as_str().unwrap().to_owned()).unwrap_or_default(), error.message)
    }

    #[test]
    fn an_unknown_field_is_refused_with_its_path() {
        let (path, message) = path_of::<CreateSession>(r#"{"spec":{"limits":{"heapBites":1}}}"#);
        assert_eq!(path, "spec.limits.heapBites");
        assert!(message.contains("unknown field `heapBites`"), "{message}");
        assert_eq!(path_of::<EvalRequest>(r#"{"code":"1","extra":2}"#).0, "extra");
    }

    #[test]
    fn a_wrong_type_is_refused_with_its_path() {
        assert_eq!(path_of::<EvalRequest>(r#"{"code":1}"#).0, "code");
        assert_eq!(path_of::<EvalRequest>(r#"{"code":"1"} x"#).0, "");
        assert!(path_of::<EvalRequest>("{}").1.contains("missing field `code`"));
    }
}
