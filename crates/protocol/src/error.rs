//! The closed set of error codes, and the body that carries one.

use serde::{Deserialize, Serialize};

/// Every error that a client can meet. The name on the wire is the variant's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
pub enum ErrorCode {
    /// The script threw and nothing caught it.
    UncaughtException,
    /// The cell ran longer than its wall-clock budget.
    TimeoutError,
    /// The cell used more interrupt ticks than its budget.
    TickBudgetExceeded,
    /// The session's heap limit was reached.
    MemoryLimitError,
    /// One allocation was larger than the heap limit.
    NativeAllocLimitError,
    /// A snapshot would be larger than what may be stored.
    SizeAdmissionError,
    /// The cell wrote more output than its limit.
    OutputLimitError,
    /// The script recursed deeper than the stack.
    StackOverflow,
    /// The cell was interrupted by request.
    Interrupted,
    /// The source could not be parsed.
    SyntaxError,
    /// The snapshot was made by an engine that this process does not have.
    EngineMismatch,
    /// There is no such session.
    SessionNotFound,
    /// The session is no longer where the request went.
    SessionGone,
    /// The session has too many requests waiting.
    SessionBusy,
    /// No kernel pod has a free slot and memory for it.
    CapacityExhausted,
    /// A quota of the tenant is used up.
    QuotaExceeded,
    /// No valid credentials.
    Unauthenticated,
    /// The caller may not do this.
    Forbidden,
    /// The request cannot be understood.
    InvalidRequest,
    /// The object changed, or already exists.
    Conflict,
    /// The broker has no such tool.
    ToolNotFound,
    /// The arguments do not fit the tool's schema.
    ToolArgsInvalid,
    /// The result does not fit the tool's schema, or the service failed.
    ToolResultInvalid,
    /// The tool refused, or its approval was denied.
    ToolDenied,
    /// The address may not be reached.
    EgressDenied,
    /// The registry has no such package, or no such version of it.
    ModuleNotFound,
    /// The registry cannot be reached, or what it gave does not verify or cannot be used.
    ModuleUnavailable,
    /// The object store, or where sessions are written down, cannot be reached.
    StorageUnavailable,
    /// The object store does not keep conditional writes atomic.
    StorageUnsafe,
    /// Stored bytes do not verify.
    SnapshotCorrupt,
    /// There is no such file.
    FileNotFound,
    /// There is no such run, or it ended so long ago that it is forgotten.
    RunNotFound,
    /// What is there is not what `If-Match` or `If-None-Match` demands.
    PreconditionFailed,
    /// The range lies outside of the content.
    RangeNotSatisfiable,
    /// Somebody has denied the call.
    ApprovalDenied,
    /// No call waits for this approval.
    ApprovalNotFound,
    /// There is no such message of a webhook, or it is not kept any more.
    DeliveryNotFound,
    /// Nobody decided about the call in time.
    ApprovalExpired,
    /// It was decided about the call already.
    ApprovalUsed,
    /// The decision is about another call than the one that waits.
    ApprovalMismatch,
    /// There were more calls than a limit allows, for longer than this one could wait.
    RateLimited,
    /// The session has no such reference.
    RefNotFound,
    /// The budget of a model is spent.
    ModelBudgetExceeded,
    /// The session was not used for as long as its `spec.ttl` says.
    SessionExpired,
    /// The events that were asked for are not kept any more.
    EventsExpired,
    /// It may have been done or not, and nobody knows.
    OutcomeUnknown,
    /// The process is stopping.
    ShuttingDown,
    /// What was asked for is not built.
    NotSupported,
    /// A fault of ours.
    Internal,
    /// One that whoever reads it does not know, because who answers is newer.
    #[serde(other)]
    Unknown,
}

impl ErrorCode {
    /// The HTTP status that carries this code when it is the service's own answer.
    #[must_use]
    pub fn http_status(self) -> u16 {
        match self {
            Self::InvalidRequest | Self::SyntaxError | Self::ToolArgsInvalid => 400,
            Self::Unauthenticated => 401,
            Self::Forbidden | Self::ToolDenied | Self::EgressDenied | Self::ApprovalDenied => 403,
            Self::SessionNotFound
            | Self::ToolNotFound
            | Self::FileNotFound
            | Self::ModuleNotFound
            | Self::RunNotFound
            | Self::RefNotFound
            | Self::DeliveryNotFound
            | Self::ApprovalNotFound => 404,
            Self::TimeoutError => 408,
            Self::Conflict | Self::ApprovalExpired | Self::ApprovalUsed | Self::ApprovalMismatch => 409,
            Self::SessionGone | Self::SessionExpired | Self::EventsExpired => 410,
            Self::PreconditionFailed => 412,
            Self::RangeNotSatisfiable => 416,
            Self::SizeAdmissionError | Self::OutputLimitError => 413,
            Self::UncaughtException
            | Self::TickBudgetExceeded
            | Self::MemoryLimitError
            | Self::NativeAllocLimitError
            | Self::StackOverflow
            | Self::Interrupted => 422,
            Self::SessionBusy | Self::QuotaExceeded | Self::RateLimited | Self::ModelBudgetExceeded => 429,
            Self::Internal | Self::SnapshotCorrupt | Self::EngineMismatch | Self::Unknown => 500,
            Self::NotSupported => 501,
            Self::ToolResultInvalid | Self::ModuleUnavailable | Self::OutcomeUnknown => 502,
            Self::CapacityExhausted | Self::StorageUnavailable | Self::StorageUnsafe | Self::ShuttingDown => 503,
        }
    }

    /// Whether the same request, with the same idempotency key where it has one, may be sent again: nothing is done twice by it, and it may
    /// succeed without anything else changing.
    #[must_use]
    pub fn retryable(self) -> bool {
        self.retry_after_seconds().is_some()
    }

    /// How long a client should wait before that.
    #[must_use]
    pub fn retry_after_seconds(self) -> Option<u32> {
        match self {
            Self::SessionGone | Self::SessionBusy | Self::ShuttingDown | Self::RateLimited => Some(1),
            Self::CapacityExhausted | Self::StorageUnavailable => Some(5),
            _ => None,
        }
    }
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self, f)
    }
}

/// An error as a client sees it. `message` says what to do about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[error("{code}: {message}")]
pub struct ApiError {
    /// Which error.
    pub code: ErrorCode,
    /// What happened and what to do about it.
    pub message: String,
    /// Facts for programs, by code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub details: Option<serde_json::Value>,
    /// Whether the same request may be sent again, see [`ErrorCode::retryable`]; with the `idempotencyKey` in `details`, if there is one.
    pub retryable: bool,
    /// The request's id, as in the log lines of every process it crossed. Empty until the gateway fills it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub request_id: String,
}

impl ApiError {
    /// An error of `code` with `message`.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: None, retryable: code.retryable(), request_id: String::new() }
    }

    /// The same error with `details`.
    #[must_use]
    pub fn with_details(mut self, details: serde_json::Value) -> Self {
        self.details = Some(details);
        self
    }

    /// The same error with one more fact in its details.
    #[must_use]
    pub fn with_detail(mut self, name: &str, value: impl Into<serde_json::Value>) -> Self {
        match self.details.get_or_insert_with(|| serde_json::Value::Object(serde_json::Map::new())) {
            serde_json::Value::Object(details) => drop(details.insert(name.to_owned(), value.into())),
            other => *other = serde_json::json!({ name: value.into() }),
        }
        self
    }

    /// The same error of a request that may be sent again, although most of its code may not.
    #[must_use]
    pub fn again(mut self) -> Self {
        self.retryable = true;
        self
    }
}

/// The body of every answer that is not a success: `{"error": {…}}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ErrorBody {
    /// The error.
    pub error: ApiError,
}
