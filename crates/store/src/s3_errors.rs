//! From the SDK's errors to ours.

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_s3::{
    config::http::HttpResponse,
    error::{DisplayErrorContext, ProvideErrorMetadata, SdkError},
};

use crate::{PutError, StoreError};

/// Which service and bucket a request went to.
#[derive(Debug, Clone)]
pub(crate) struct BucketAddress {
    pub(crate) endpoint: String,
    pub(crate) bucket: String,
}

/// HTTP status of the answer, if there was one.
fn status<E>(error: &SdkError<E, HttpResponse>) -> Option<u16> {
    error.raw_response().map(|response| response.status().as_u16())
}

fn code<E: ProvideErrorMetadata>(error: &SdkError<E, HttpResponse>) -> &str {
    error.as_service_error().and_then(ProvideErrorMetadata::code).unwrap_or_default()
}

impl BucketAddress {
    /// What a failed request means.
    pub(crate) fn classify<E>(&self, operation: &'static str, error: &SdkError<E, HttpResponse>) -> StoreError
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        if let Some(reason) = credentials_reason(error) {
            return StoreError::NoCredentials { reason };
        }
        let (endpoint, bucket) = (self.endpoint.clone(), self.bucket.clone());
        let code = code(error);
        let transient = match (code, status(error)) {
            ("NoSuchBucket", _) => return StoreError::NoBucket { bucket, endpoint },
            (
                "InvalidAccessKeyId"
                | "SignatureDoesNotMatch"
                | "ExpiredToken"
                | "InvalidToken"
                | "InvalidTokenId"
                | "TokenRefreshRequired",
                _,
            ) => return StoreError::BadCredentials { endpoint, code: code.to_owned() },
            ("AccessDenied" | "AllAccessDisabled" | "AccountProblem", _) | (_, Some(401 | 403)) => {
                return StoreError::Denied { operation, bucket, endpoint };
            }
            ("SlowDown" | "RequestTimeout" | "Throttling" | "RequestTimeTooSkewed", _) => true,
            (_, Some(status)) => status >= 500 || matches!(status, 408 | 429),
            (_, None) => !matches!(error, SdkError::ConstructionFailure(_)),
        };
        let reason = match error.as_service_error() {
            Some(service) => format!("{code}: {}", service.message().unwrap_or("no message")),
            None => DisplayErrorContext(error).to_string(),
        };
        if transient {
            StoreError::Unavailable { operation, endpoint, reason }
        } else {
            StoreError::Unexpected { operation, endpoint, reason }
        }
    }

    /// What a failed PUT means. `matches` tells whether it demanded an ETag: then nothing there (404) is a broken condition.
    pub(crate) fn classify_put<E>(&self, error: &SdkError<E, HttpResponse>, matches: bool) -> PutError
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        match (code(error), status(error)) {
            (_, Some(412)) => PutError::Refused,
            ("NoSuchKey", Some(404)) if matches => PutError::Refused,
            (_, Some(409)) => PutError::Conflicted,
            _ => match self.classify("write", error) {
                transient if transient.is_transient() => PutError::Unknown(transient),
                failed => PutError::Failed(failed),
            },
        }
    }
}

fn credentials_reason<E: std::error::Error + 'static>(error: &SdkError<E, HttpResponse>) -> Option<String> {
    let mut source: Option<&(dyn std::error::Error + 'static)> = std::error::Error::source(error);
    while let Some(inner) = source {
        if inner.is::<CredentialsError>() {
            return Some(inner.source().unwrap_or(inner).to_string());
        }
        source = inner.source();
    }
    None
}
