//! The streaming protocol, version 1: one JSON object a line.

use serde::{Deserialize, Serialize};

/// The protocol version that every event carries.
pub const PROTOCOL_VERSION: u32 = 1;

/// One event. `seq` rises by one for the life of a session, and further only where a head was lost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Always [`PROTOCOL_VERSION`].
    pub protocol_version: u32,
    /// The session's id, `s_…`.
    pub session_id: String,
    /// Position in the session's event log. Those who follow a session see an event when it is stored; the stream of a cell shows its events as they
    /// happen, under the position that they will have.
    pub seq: u64,
    /// What happened.
    #[serde(flatten)]
    pub body: EventBody,
}

/// The `type` and `payload` of an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "type", content = "payload", rename_all = "snake_case")]
pub enum EventBody {
    /// A cell wrote text that is not a console line.
    Stdout {
        /// The text.
        text: String,
    },
    /// A console line.
    Log {
        /// `log`, `info`, `warn`, `error` or `debug`.
        level: String,
        /// The text.
        text: String,
    },
    /// A rich rendering.
    #[serde(rename_all = "camelCase")]
    Display {
        /// Media type of `data`.
        mime_type: String,
        /// The text, or base64 for binary types.
        data: String,
    },
    /// How far the cell has come, by its own word.
    #[serde(rename_all = "camelCase")]
    Progress {
        /// From 0 to 1.
        fraction: f64,
        /// What it is doing; at most 1 KiB.
        note: String,
    },
    /// A tool call left the session.
    #[serde(rename_all = "camelCase")]
    ToolCall {
        /// The call's number in the session.
        call_id: String,
        /// The tool.
        tool_name: String,
        /// Its arguments.
        #[schema(value_type = Object)]
        args: serde_json::Value,
    },
    /// A call waits for a person.
    #[serde(rename_all = "camelCase")]
    ApprovalRequired {
        /// Names it in the session.
        approval_id: String,
        /// The call's number in the session.
        call_id: String,
        /// The tool.
        tool_name: String,
        /// Its arguments.
        #[schema(value_type = Object)]
        args: serde_json::Value,
        /// The epoch in which the session made it.
        epoch: u64,
        /// RFC 3339: a decision after that comes too late.
        expires_at: String,
    },
    /// A tool's result reached the session.
    #[serde(rename_all = "camelCase")]
    ToolResultApplied {
        /// The call's number in the session.
        call_id: String,
    },
    /// The session changed state.
    State {
        /// The new state.
        state: crate::session::State,
    },
    /// Nothing happened for a while.
    Heartbeat {},
    /// The cell may run again, since its process or the way to it was lost: what its stream has shown of it does not hold, and all of it comes once
    /// more, maybe otherwise. Only in the stream of a cell, where it is no entry of the log; `seq` is the position before the cell.
    Restarted {},
    /// The service failed while the cell ran; nothing follows. A script's own error is in `final`.
    Error {
        /// Which error.
        code: crate::ErrorCode,
        /// What happened and what to do about it.
        message: String,
    },
    /// A cell ended.
    Final {
        /// Its answer.
        #[serde(flatten)]
        result: Box<crate::eval::EvalResult>,
    },
}
