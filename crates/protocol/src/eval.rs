//! What a cell is asked with and what it answers.

use serde::{Deserialize, Serialize};

use crate::ErrorCode;

/// Characters of a user's name that are kept with a cell.
pub const USER_CHARS_MAX: usize = 256;

/// The language of a cell's source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// TypeScript; every JavaScript cell is one too.
    #[default]
    Typescript,
    /// JavaScript only: type annotations are a `SyntaxError`.
    Javascript,
    /// TypeScript with JSX, which calls `React.createElement` unless a `@jsx` comment names another function.
    Tsx,
    /// JavaScript with JSX.
    Jsx,
}

/// Body of `POST …/{name}/eval`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EvalRequest {
    /// The cell's source.
    pub code: String,
    /// The language of `code`.
    #[serde(default)]
    pub language: Language,
    /// Wall-clock budget for running code in milliseconds; at most the session's `limits.evalTimeoutMs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// A retry with the same key gets the first answer and runs nothing. At most 128 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// The name that stack traces show; `cell-N.ts` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// Who is told how the cell ends, beside those that the ToolBroker names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<EvalWebhook>,
    /// Name of the API key whose holder asks. The gateway's word: what a client says is replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(ignore)]
    pub api_key: Option<String>,
    /// Name of the user who asks, for the audit: at most [`USER_CHARS_MAX`] characters of it. The gateway's word, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(ignore)]
    pub by: Option<String>,
}

/// Who is told of one cell, with a signed message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EvalWebhook {
    /// `http` or `https` URL with a public address; others need an egress rule of the ToolBroker with `private: true`.
    pub url: String,
    /// What signs the message: a Secret's key that one of the ToolBroker's `spec.webhooks` names.
    pub secret_ref: SecretKeyRef,
}

/// A key of a Secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecretKeyRef {
    /// The Secret.
    pub name: String,
    /// The key in it.
    pub key: String,
}

/// One console line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConsoleLine {
    /// `log`, `info`, `warn`, `error` or `debug`.
    pub level: String,
    /// The formatted text, without a trailing newline.
    pub text: String,
    /// Milliseconds since the cell began.
    pub at_ms: f64,
}

/// One rich rendering.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Display {
    /// Media type of `data`.
    pub mime_type: String,
    /// The text, or base64 for binary types.
    pub data: String,
}

/// How a cell failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CellError {
    /// Which error.
    pub code: ErrorCode,
    /// The exception's `name`, such as `TypeError`; for the service's own errors the code again.
    pub name: String,
    /// The exception's message.
    pub message: String,
    /// The stack, with the user's lines only.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stack: String,
    /// Line in the user's source, from 1; 0 when unknown.
    #[serde(default)]
    pub line: u32,
    /// Column in the user's source, from 1; 0 when unknown.
    #[serde(default)]
    pub column: u32,
}

/// Where the heap came from when a request found the session asleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Woke {
    /// It was live.
    #[default]
    No,
    /// From the pod's own copy.
    Cache,
    /// From object storage.
    Storage,
    /// One that whoever reads it does not know, because who answers is newer.
    #[serde(other)]
    Unknown,
}

/// Where the heap came from that a request was served with, as the header of its answer says it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Served {
    /// Whether, and from where.
    pub from: WokeFrom,
    /// Milliseconds that waking took.
    pub ms: f64,
}

/// As [`Woke`], and more exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WokeFrom {
    /// It was live, or new.
    #[default]
    No,
    /// From the pod's own copy.
    Memory,
    /// The head from object storage, all else from the pod's disk.
    Disk,
    /// From object storage.
    Storage,
}

impl std::fmt::Display for Served {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let from = match self.from {
            WokeFrom::No => "no",
            WokeFrom::Memory => "memory",
            WokeFrom::Disk => "disk",
            WokeFrom::Storage => "storage",
        };
        write!(f, "{from}; dur={:.3}", self.ms)
    }
}

/// Header of an answer that says how it was served, as [`Served`] is written.
pub const WOKE_HEADER: &str = "dormouse-woke";

/// What a cell cost.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvalStats {
    /// Wall-clock time of the cell, waiting included, in milliseconds.
    pub duration_ms: f64,
    /// Time that guest code ran, in milliseconds.
    pub cpu_ms: f64,
    /// Polls of the interrupt handler.
    pub ticks: u64,
    /// Bytes allocated in the JavaScript heap after the cell.
    pub heap_bytes: u64,
    /// Bytes that the cell's commits wrote to the store.
    pub committed_bytes: u64,
    /// Tool calls and fetches that the cell made.
    pub tool_calls: u32,
    /// Bytes of the lines that the cell wrote to its console.
    #[serde(default)]
    pub stdout_bytes: u64,
    /// Whether the session had to be woken.
    pub woke: Woke,
    /// The same for the header.
    #[serde(skip)]
    pub served: Served,
}

/// An answer that is too large to be kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DroppedResult {
    /// Bytes that it had as JSON.
    pub bytes: u64,
    /// Hex sha256 of them.
    pub sha256: String,
}

/// The answer of a cell. A script's own failure is `ok: false`, not an HTTP error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvalResult {
    /// Whether the cell finished without an error.
    pub ok: bool,
    /// The value, when it is JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value, required = false)]
    pub value: Option<serde_json::Value>,
    /// In place of a value that is too large for the session's events: only where they are read again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<DroppedResult>,
    /// `typeof` of the value, or the class of an object: `number`, `Map`, `Promise`, …
    pub value_type: String,
    /// The value as a person reads it. Empty for `undefined` of a cell that failed.
    pub preview: String,
    /// Rich renderings, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub display: Vec<Display>,
    /// Console output, in order.
    #[serde(default)]
    pub console: Vec<ConsoleLine>,
    /// The failure, when `ok` is false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<CellError>,
    /// The cell's number in the session, from 1.
    pub cell: u64,
    /// The commit's sequence that holds the cell's effects.
    pub sequence: u64,
    /// Whether that commit is in the store.
    pub durable: bool,
    /// The key under which it is recorded, given or made: the same request with it gets this answer and runs nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// What it cost.
    pub stats: EvalStats,
}
