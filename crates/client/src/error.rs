//! What can go wrong between a client and the gateway.

use dormouse_protocol::{ApiError, ErrorCode};

/// A request that was not answered as asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The gateway's own answer; its message says what to do.
    #[error("{}: {}", error.code, error.message)]
    Api {
        /// HTTP status; absent when the answer had begun, and the error came as one of its events.
        status: Option<u16>,
        /// What the gateway says.
        error: Box<ApiError>,
    },
    /// The server's URL, the token, a session's name, or whom to believe cannot be used.
    #[error("{0}")]
    Address(String),
    /// Nothing answers there.
    #[error("{url} cannot be reached: {reason}")]
    Unreachable {
        /// What was asked.
        url: String,
        /// Why not.
        reason: String,
    },
    /// The answer broke off. Whether the request was done is unknown.
    #[error("the answer broke off: {0}")]
    CutOff(String),
    /// What answers is no gateway of this version.
    #[error("the answer cannot be understood (HTTP {status}): {reason}")]
    Garbled {
        /// HTTP status.
        status: u16,
        /// Why not.
        reason: String,
    },
}

impl Error {
    /// Whether the same request, sent again, may succeed without having been done twice.
    #[must_use]
    pub fn retryable(&self) -> bool {
        match self {
            Self::Api { error, .. } => error.retryable,
            Self::Unreachable { .. } => true,
            Self::Address(_) | Self::CutOff(_) | Self::Garbled { .. } => false,
        }
    }

    /// The gateway's code, when it is the gateway's answer.
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Api { error, .. } => Some(error.code),
            _ => None,
        }
    }
}

impl From<reqwest::Error> for Error {
    fn from(error: reqwest::Error) -> Self {
        let reason = innermost(&error);
        if error.is_connect() || error.is_builder() {
            let url = error.url().map_or_else(|| "the server".to_owned(), |url| url.origin().ascii_serialization());
            return Self::Unreachable { url, reason };
        }
        Self::CutOff(reason)
    }
}

/// The cause that says something: the outer ones only repeat that a request failed.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
