//! What goes into an instance and what comes out of it.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A compiled cell.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CellSource {
    /// A plain script: top-level declarations are `var` already.
    pub code: String,
    /// The name that stacks show.
    pub filename: String,
    /// Whether the script has top-level `await`.
    pub is_async: bool,
}

/// What one turn may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Wall-clock time for running code.
    pub wall: Duration,
    /// Polls of the interrupt handler; 0 for no limit.
    pub ticks: u64,
    /// Bytes of console lines, displays and the value.
    pub output_bytes: u64,
    /// Host operations that may wait at once.
    pub pending_operations: u32,
}

impl Default for Budget {
    fn default() -> Self {
        Self { wall: Duration::from_secs(30), ticks: 0, output_bytes: 1 << 20, pending_operations: 256 }
    }
}

/// The answer to a host operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OpResult {
    /// It worked: the promise resolves with this.
    Ok(Value),
    /// It failed: the promise rejects with an `Error` of this name (also its `code`) and message.
    Err {
        /// The error's name.
        name: String,
        /// The error's message.
        message: String,
    },
    /// The timer is due.
    Fired,
}

/// Everything that happened while the instance ran.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Turn {
    /// The cell's end, when it ended in this turn. `None`: it awaits the world.
    pub cell: Option<CellEnd>,
    /// Host operations asked for, in order.
    pub ops: Vec<Op>,
    /// Console output, in order.
    pub console: Vec<ConsoleLine>,
    /// Rich renderings, in order.
    pub display: Vec<Display>,
    /// Bytes of console lines, renderings, words of progress and the value.
    pub output_bytes: u64,
    /// What [`crate::Instance::serve`] asked for. `None`: an earlier engine, which knows no such requests, or code that was stopped.
    pub answer: Option<Value>,
    /// Polls of the interrupt handler.
    pub ticks: u64,
    /// Time that guest code ran.
    pub cpu: Duration,
}

/// A host operation. Ids grow for the life of a session, across restores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Op {
    /// Names the operation in [`crate::Instance::deliver`]; from 1.
    pub id: u64,
    /// What is asked for.
    pub kind: OpKind,
}

/// What a host operation asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum OpKind {
    /// Deliver [`OpResult::Fired`] after a while.
    Timer {
        /// Milliseconds from now.
        delay_ms: f64,
    },
    /// Call a tool and deliver its answer.
    Tool {
        /// The tool.
        name: String,
        /// Its arguments.
        args: Value,
        /// Whether the answer is to stay outside the heap. Without it, its size decides.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reference: Option<bool>,
    },
    /// Make an HTTP request and deliver what came of it.
    Fetch {
        /// The request, as the guest's `fetch` forms it.
        request: Value,
    },
    /// Deliver the next part of a response's body.
    Body {
        /// The body, by the number that came with the response.
        stream: u64,
        /// The part, from 0.
        part: u64,
    },
    /// The body is not read any more, and no part of it is awaited. Needs no answer.
    CloseBody {
        /// The body.
        stream: u64,
    },
    /// The operation of this id is not awaited any more. Needs no answer.
    Cancel {
        /// Of the operation.
        id: u64,
    },
    /// What the session's MCP server has under this name is another now, or gone. Needs no answer.
    Mcp {
        /// `tool`, `prompt`, `resource`, `client` or `updated`.
        of: String,
        /// Its name, URI or id.
        name: String,
        /// What is told of it; absent when it is taken away.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        entry: Option<Value>,
    },
}

/// One console line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConsoleLine {
    /// `log`, `info`, `warn`, `error` or `debug`.
    pub level: String,
    /// The formatted text, without a trailing newline.
    pub text: String,
    /// Milliseconds since the cell began, by the session's clock.
    pub at_ms: f64,
}

/// One rich rendering.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Display {
    /// Media type of `data`.
    pub mime_type: String,
    /// The text, or base64 for binary types.
    pub data: String,
}

/// How far a cell has come, by its own word.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// From 0 to 1.
    pub fraction: f64,
    /// What it is doing; at most 1 KiB.
    pub note: String,
}

/// How a cell ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CellEnd {
    /// Whether it ended without an error.
    pub ok: bool,
    /// The value, when it is JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// `typeof` of the value, or the class of an object.
    pub value_type: String,
    /// The value as a person reads it.
    pub preview: String,
    /// The failure, when `ok` is false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<CellError>,
}

/// How a cell failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CellError {
    /// Which error.
    pub code: EngineErrorCode,
    /// The exception's `name`; for the engine's own errors the code again.
    pub name: String,
    /// The exception's message.
    pub message: String,
    /// The stack, without the engine's own frames.
    pub stack: String,
    /// Line in the compiled script, from 1; 0 when unknown.
    pub line: u32,
    /// Column in the compiled script, from 1; 0 when unknown.
    pub column: u32,
}

/// The ways a cell can fail. The names are those of the wire protocol's error codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum EngineErrorCode {
    /// The script threw and nothing caught it.
    UncaughtException,
    /// The wall-clock budget is used up.
    TimeoutError,
    /// The tick budget is used up.
    TickBudgetExceeded,
    /// The heap limit was reached.
    MemoryLimitError,
    /// One allocation was larger than the heap limit.
    NativeAllocLimitError,
    /// More output than its limit.
    OutputLimitError,
    /// The script recursed deeper than the stack.
    StackOverflow,
    /// Interrupted by request.
    Interrupted,
    /// The script could not be parsed.
    SyntaxError,
}

impl EngineErrorCode {
    /// The name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UncaughtException => "UncaughtException",
            Self::TimeoutError => "TimeoutError",
            Self::TickBudgetExceeded => "TickBudgetExceeded",
            Self::MemoryLimitError => "MemoryLimitError",
            Self::NativeAllocLimitError => "NativeAllocLimitError",
            Self::OutputLimitError => "OutputLimitError",
            Self::StackOverflow => "StackOverflow",
            Self::Interrupted => "Interrupted",
            Self::SyntaxError => "SyntaxError",
        }
    }
}
