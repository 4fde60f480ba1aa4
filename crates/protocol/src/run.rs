//! Cells that nobody has to wait for.

use serde::{Deserialize, Serialize};

use crate::eval::{DroppedResult, EvalResult};

/// Longest time that a request waits for the end of a run, in seconds.
pub const WAIT_SECONDS_MAX: u64 = 60;

/// Where a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
pub enum RunState {
    /// It waits for cells before it.
    Queued,
    /// Its cell has begun.
    Running,
    /// Its cell awaits a tool or a person.
    Waiting,
    /// Its cell ended well.
    Succeeded,
    /// Its cell failed, or its process was lost too often.
    Failed,
    /// It was ended by request.
    Cancelled,
    /// One that whoever reads it does not know, because who answers is newer.
    #[serde(other)]
    Unknown,
}

impl RunState {
    /// Whether nothing of it will change any more.
    #[must_use]
    pub fn is_end(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }
}

/// How far a cell has come, by its own word.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// From 0 to 1.
    pub fraction: f64,
    /// What it is doing; at most 1 KiB.
    pub note: String,
}

/// A cell under its idempotency key, which runs whether or not somebody waits for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// `r_…`; follows from the idempotency key.
    pub id: String,
    /// Where it is.
    pub state: RunState,
    /// The key under which the cell is recorded: an eval with it waits for this run, or gets its result.
    pub idempotency_key: String,
    /// The cell's number, since it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<u64>,
    /// When it was accepted, RFC 3339.
    pub created_at: String,
    /// When its cell began, for the last time if a process was lost before it had stored anything of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When the process that has it said last that it is there. Absent while no process has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat_at: Option<String>,
    /// What its cell said last with `host.progress`, to the process that has it: nothing of it is stored, and the end has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// What its cell answered, as far as that is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<EvalResult>,
    /// In place of a result that is too large to be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<DroppedResult>,
    /// Path of the run on this server. Filled by the gateway.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub url: String,
}

impl Run {
    /// Whether nothing of it will change any more, also in a state that is not known here.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.state.is_end() || self.ended_at.is_some()
    }
}

/// Answer of `GET …/{name}/runs`, newest first.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunList {
    /// The runs.
    pub items: Vec<Run>,
    /// Where the next page begins; absent on the last.
    #[serde(default, rename = "continue", skip_serializing_if = "Option::is_none")]
    pub continue_token: Option<String>,
}
