//! Requests of cells, and bodies that a broker holds open.

use dormouse_crds::egress::EgressRule;
use serde::{Deserialize, Serialize};

use super::ToolCall;

/// Largest body of a request of `fetch`, in bytes. It rides in the head of its session until it is answered.
pub const FETCH_BODY_BYTES_MAX: usize = 1 << 20;

/// How the URL of a fetch begins that asks a model of the ToolBroker, whose answer is read as it comes; the model's name follows. It is no address, so no
/// rule of `spec.egress` is needed for it.
pub const MODEL_SCHEME: &str = "model:";

/// Name of the tool in a [`FetchCall`].
pub const FETCH: &str = "fetch";

/// One `fetch`: numbered, journaled and repeated as every call is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FetchCall {
    /// The call. Its tool is [`FETCH`], its arguments are a [`FetchRequest`].
    pub call: ToolCall,
    /// What the session's spec allows. The broker's own rules bound it further.
    pub allow: Vec<EgressRule>,
}

/// A request as a cell makes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FetchRequest {
    /// The method.
    pub method: String,
    /// The absolute URL.
    pub url: String,
    /// Names and values; each character of a value is one byte.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
    /// The body, base64; absent for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// What to do about a redirect.
    #[serde(default)]
    pub redirect: RedirectMode,
}

/// What to do about a redirect, as the Fetch standard has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RedirectMode {
    /// Go there.
    #[default]
    Follow,
    /// Fail.
    Error,
    /// Answer it.
    Manual,
}

/// What came of a request that the rules allow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FetchOutcome {
    /// An answer, whatever its status.
    Response(FetchResponse),
    /// None.
    Failed(NetworkFailure),
}

/// An answer's head and the beginning of its body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FetchResponse {
    /// The status.
    pub status: u16,
    /// Its text, as the server or else the standard has it.
    pub status_text: String,
    /// The URL that answered, without a fragment.
    pub url: String,
    /// Whether a redirect was followed.
    pub redirected: bool,
    /// Names and values; each character of a value is one byte.
    pub headers: Vec<(String, String)>,
    /// The body's first bytes, decoded, base64.
    pub body: String,
    /// The stream that has the rest: the call's own number. Absent when `body` is all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<u64>,
}

/// Why there is no answer, or no more of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkFailure {
    /// A name as Node has it, such as `ECONNREFUSED`.
    pub code: String,
    /// What happened.
    pub message: String,
}

/// Asks for a part of a body that is open at the broker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BodyCall {
    /// Namespace of the session; must be the caller's own.
    pub namespace: String,
    /// Uid of the session.
    pub session_uid: String,
    /// Epoch of the caller. One below the highest seen for this stream is refused with `SessionGone`.
    pub epoch: u64,
    /// The stream.
    pub stream: u64,
    /// The part, from 0. The one that was answered last is answered again.
    pub part: u64,
}

/// A part of a body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BodyAnswer {
    /// The bytes, base64; none only when they are the last.
    Part {
        /// The bytes, base64.
        bytes: String,
        /// Whether the body ends with them.
        last: bool,
    },
    /// The connection failed, or a limit was reached.
    Failed(NetworkFailure),
    /// The broker has no such stream, or is past this part.
    Lost {},
}

/// Nobody waits for this any more: the request is given up, or its open body is closed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CloseCall {
    /// Namespace of the session; must be the caller's own.
    pub namespace: String,
    /// Uid of the session.
    pub session_uid: String,
    /// Epoch of the caller.
    pub epoch: u64,
    /// The call's number in the session, which is also its stream's.
    pub call: u64,
}
