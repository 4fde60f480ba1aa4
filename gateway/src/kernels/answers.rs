//! What comes back of a request, or why nothing does.

use bytes::BytesMut;
use dormouse_protocol::{ApiError, ErrorBody, ErrorCode};
use dormouse_service::wire::SendError;
use reqwest::Response;
use serde::de::DeserializeOwned;

/// Largest answer of a pod that is read as a whole, in bytes.
pub const ANSWER_BYTES_MAX: usize = 32 << 20;
/// Largest error of a pod, in bytes.
pub const ERROR_BYTES_MAX: usize = 1 << 20;

/// Why a pod gave no answer that counts.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// It answered with an error of its own.
    #[error("{0}")]
    Refused(ApiError),
    /// It cannot be connected to: it has not seen the request.
    #[error("the kernel pod cannot be reached: {0}")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The connection failed after the request had left: what came of it is not known.
    #[error("the kernel pod's answer was lost: {0}")]
    Lost(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A stream ended before its last event.
    #[error("the kernel pod's stream ended before its last event")]
    CutOff,
    /// The answer is not what was agreed.
    #[error("the kernel pod's answer cannot be understood: {0}")]
    Garbled(String),
}

impl From<SendError> for KernelError {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Unreachable(cause) => Self::Unreachable(cause),
            SendError::Lost(cause) => Self::Lost(cause),
        }
    }
}

impl From<reqwest::Error> for KernelError {
    fn from(error: reqwest::Error) -> Self {
        SendError::from(error).into()
    }
}

pub(super) async fn checked(response: Response) -> Result<Response, KernelError> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let body = whole(response, ERROR_BYTES_MAX).await?;
    Err(match serde_json::from_slice::<ErrorBody>(&body) {
        Ok(body) => KernelError::Refused(body.error),
        Err(_) if status.as_u16() == 413 => {
            KernelError::Refused(ApiError::new(ErrorCode::InvalidRequest, "the cell is larger than a kernel pod takes; send it in parts"))
        }
        Err(_) => KernelError::Garbled(format!("status {status} without an error body")),
    })
}

pub(super) async fn json<T: DeserializeOwned>(response: Response) -> Result<T, KernelError> {
    let body = whole(checked(response).await?, ANSWER_BYTES_MAX).await?;
    serde_json::from_slice(&body).map_err(|error| KernelError::Garbled(error.to_string()))
}

async fn whole(mut response: Response, bytes_max: usize) -> Result<BytesMut, KernelError> {
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > bytes_max {
            return Err(KernelError::Garbled(format!("an answer of more than {bytes_max} bytes")));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}
