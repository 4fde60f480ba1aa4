//! What a kernel pod says to a broker. JSON over HTTP, mTLS, port [`BROKER_PORT`].
//!
//! | call | body | answer |
//! |---|---|---|
//! | `POST /v1/call` | [`ToolCall`] | [`ToolAnswer`] |
//! | `GET /v1/tools` | | [`ToolDescription`]s |

use serde::{Deserialize, Serialize};

/// Port of a broker's mTLS server.
pub const BROKER_PORT: u16 = 7444;

/// One call. `(session_uid, call)` names it for ever: a repeated call is answered from the journal, or refused with `Conflict` when what
/// came of it is not known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// Namespace of the session; must be the caller's own.
    pub namespace: String,
    /// Name of the session, for logs and approvals.
    pub session: String,
    /// Uid of the session.
    pub session_uid: String,
    /// Epoch of the caller. One below the highest seen for this session is refused with `SessionGone`.
    pub epoch: u64,
    /// The call's number in the session, from 1.
    pub call: u64,
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub args: serde_json::Value,
    /// Whether it may have been sent before: by this process, or by one that ran the session earlier. A broker that does not know of a
    /// repeated call cannot tell whether it was made, and makes it only when its method is safe (RFC 9110, 9.2.1).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeated: bool,
    /// Calls below this number have their answers in a committed heap and are not asked for again: a broker may forget them. 0 says nothing.
    #[serde(default)]
    pub settled_below: u64,
}

/// The result of a call. A tool's failure is a value here, not an HTTP error, so that it can be journaled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", untagged)]
pub enum ToolAnswer {
    /// It worked.
    Ok {
        /// The validated result.
        value: serde_json::Value,
    },
    /// It failed; the promise rejects with this.
    Err {
        /// The failure.
        error: crate::ApiError,
    },
}

/// A tool as a cell may know it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolDescription {
    /// Name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of the arguments.
    pub input: serde_json::Value,
    /// JSON Schema of the result.
    pub output: serde_json::Value,
}
