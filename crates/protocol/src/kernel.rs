//! What gateway and operator say to a kernel pod. JSON over HTTP, mTLS, port [`KERNEL_PORT`].
//!
//! | call | body | answer | caller |
//! |---|---|---|---|
//! | `GET /v1/info` | | [`PodInfo`] | gateway, operator |
//! | `POST /v1/session` | [`SessionCall`] | [`SessionReport`], if the process has, or had last, the session under that epoch | gateway |
//! | `POST /v1/waiting` | [`WaitingCall`] | 204; the operator hears of it in the report | gateway |
//! | `POST /v1/eval` | [`EvalCall`] | [`crate::eval::EvalResult`] | gateway |
//! | `POST /v1/eval` with `Accept: application/x-ndjson` | [`EvalCall`] | [`crate::event::Event`] a line, ending in `final` | gateway |
//! | `POST /v1/wake` | [`Assignment`] | [`SessionReport`] | gateway |
//! | `POST /v1/hibernate` | [`Assignment`] | [`SessionReport`] once the head is stored | gateway |
//! | `POST /v1/interrupt` | [`Assignment`] | 202 | gateway |
//! | `POST /v1/checkpoint` | [`CheckpointCall`] | [`crate::history::Checkpoint`] | gateway |
//! | `POST /v1/restore` | [`RestoreCall`] | [`SessionReport`] once the restored state is committed | gateway |
//! | `POST /v1/reset` | [`ResetCall`] | [`SessionReport`] once the empty state is committed | gateway |
//! | `POST /v1/migrate` | [`MigrateCall`] | [`crate::history::Migration`] once it is committed | gateway |
//! | `POST /v1/stored/checkpoints` | [`StoredCall`] | [`crate::history::CheckpointList`] | gateway |
//! | `POST /v1/stored/journal` | [`JournalCall`] | [`crate::history::JournalPage`] | gateway |
//! | `POST /v1/stored/difference` | [`DifferenceCall`] | [`crate::history::Difference`] | gateway |
//! | `POST /v1/stored/status` | [`StoredCall`] | [`StoredStatus`] | operator, of a session whose process is gone; gateway, of one that may have expired |
//! | `POST /v1/files/list` | [`crate::file::FileCall`] | [`crate::file::FileList`] | gateway |
//! | `POST /v1/files/read` | [`crate::file::FileCall`] | the content, 200, 206 or 304 | gateway |
//! | `POST /v1/files/write` | bytes of a [`crate::file::FileCall`] (u32 LE), it, the content | [`crate::file::FileEntry`] once it is committed; 201 for a new file | gateway |
//! | `POST /v1/files/remove` | [`crate::file::FileCall`] | 204 once it is committed | gateway |
//! | `POST /v1/runs/accept` | [`EvalCall`] | [`crate::run::Run`] once it is committed that the cell will run | gateway |
//! | `POST /v1/runs/cancel` | [`CancelRunCall`] | [`crate::run::Run`] once its end is committed | gateway |
//! | `POST /v1/runs/look` | [`RunsCall`] | [`crate::run::RunList`]; any pod of the namespace answers, the session's own knows more | gateway |
//! | `POST /v1/usage/live` | [`UsageCall`] | [`LiveUsage`]: what this process has not stored yet | gateway |
//! | `POST /v1/usage/stored` | [`UsageCall`] | [`StoredUsage`] | gateway |
//! | `POST /v1/forget` | [`Assignment`] | 204 once the session is dropped without a commit | operator, at deletion |
//! | `POST /v1/grant` | [`Grant`] | 204 once the pod uses it; only of a pod that runs one session in its life | operator |
//! | `POST /v1/events` | [`EventsCall`] | [`crate::event::Event`] a line | gateway |
//! | `GET /v1/report` | | [`ReportLine`] a line, for ever | operator |
//!
//! `eval` and `wake` with the header [`CLAIM_HEADER`] come under an assignment that the gateway is still writing into status. Their body is the JSON and a
//! newline, and it *ends* when status has the assignment: the pod begins at once, and neither answers nor lets an effect leave before that end.
//! A body that is cut off, by a gateway that lost or died, withdraws the claim. A pod that does not know the header waits for the end by itself.
//!
//! Every answer that is not 2xx is [`crate::ErrorBody`]. `SessionGone` means: the session is not here (another `boot`, another epoch, draining);
//! read the status again and route anew. `/v1/stored/…` reads the store only: any pod of the namespace answers, whether it runs the session or not.
//! But a pod that runs one session in its life reads of that one only: of others, and to `/v1/usage/stored`, it answers `SessionGone`. Beside such
//! pods there is one without slots, which runs no session and reads of all.

mod grant;
mod mcp;
mod report;
mod stored;

use std::collections::BTreeMap;

use dormouse_crds::session::{KernelSessionSpec, SnapshotStatus};
use serde::{Deserialize, Serialize};

use crate::eval::EvalRequest;

pub use grant::{Grant, GrantedCertificate, GrantedStorage};
pub use mcp::{McpArgument, McpCatalog, McpClient, McpPrompt, McpResource, McpTask, McpTool};
pub use report::{PodInfo, ReportLine, SessionReport};
pub use stored::{DifferenceCall, JournalCall, StoredCall, StoredStatus};

/// Header of a call under an assignment that status does not have yet. Its value does not matter.
pub const CLAIM_HEADER: &str = "dormouse-claim";

/// Port of a kernel pod's mTLS server.
pub const KERNEL_PORT: u16 = 7443;

/// Who a session is, and by what right this pod may run it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Assignment {
    /// Namespace, which is the tenant.
    pub namespace: String,
    /// Object name.
    pub name: String,
    /// Object uid: the key in storage.
    pub uid: String,
    /// The epoch that status names for this pod. Starts at 1.
    pub epoch: u64,
    /// The process that status names. A pod whose own [`PodInfo::boot`] differs answers `SessionGone`.
    pub boot: String,
    /// `metadata.generation` of the spec.
    pub generation: i64,
    /// The spec.
    pub spec: KernelSessionSpec,
    /// The session that `spec.source` names, if it exists: a new session begins as what that one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_uid: Option<String>,
    /// What is known to have been stored of the session: an older head, or none, is not believed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchor: Option<Anchor>,
    /// The same of the session that it is forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_anchor: Option<Anchor>,
}

/// A commit that some process has reported. Status is coalesced, so later ones may be stored: it is a lower bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Anchor {
    /// The assignment under which it was written.
    pub epoch: u64,
    /// Commits in the session's life.
    pub sequence: u64,
    /// Whether it was encrypted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub encrypted: bool,
}

impl Anchor {
    /// What strictly grows with every commit.
    #[must_use]
    pub fn version(&self) -> (u64, u64) {
        (self.epoch, self.sequence)
    }

    /// The later one of what two have seen.
    #[must_use]
    pub fn later(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        one.into_iter().chain(other).max_by_key(Self::version)
    }
}

impl From<&SnapshotStatus> for Anchor {
    fn from(snapshot: &SnapshotStatus) -> Self {
        Self { epoch: snapshot.epoch, sequence: snapshot.sequence, encrypted: snapshot.encrypted }
    }
}

/// Body of `POST /v1/session`: how a session is at this moment. Wakes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionCall {
    /// Object uid.
    pub uid: String,
    /// The epoch that status names.
    pub epoch: u64,
    /// The process that status names.
    pub boot: String,
}

/// Body of `POST /v1/waiting`: a session of the pod's pool that finds no slot in any pod that a gateway has asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitingCall {
    /// Namespace, which is the tenant.
    pub namespace: String,
    /// Object uid.
    pub uid: String,
}

/// Body of `POST /v1/checkpoint`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointCall {
    /// The session.
    pub assignment: Assignment,
    /// The label.
    pub label: String,
    /// Names the request: another sending of it changes nothing and gets the first one's checkpoint. The gateway always fills it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
}

/// Body of `POST /v1/restore`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestoreCall {
    /// The session.
    pub assignment: Assignment,
    /// Id or label of a checkpoint.
    pub checkpoint: String,
    /// Names the request: another sending of it, however late, changes nothing. The gateway always fills it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
}

/// Body of `POST /v1/reset`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResetCall {
    /// The session.
    pub assignment: Assignment,
    /// Names the request: another sending of it, however late, changes nothing. The gateway always fills it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
}

/// Body of `POST /v1/migrate`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MigrateCall {
    /// The session.
    pub assignment: Assignment,
    /// Only tell what would come of it.
    pub dry_run: bool,
}

/// Body of `POST /v1/eval`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvalCall {
    /// The session.
    pub assignment: Assignment,
    /// The cell. The gateway always fills `idempotency_key`, so that it may send the cell again after a lost pod.
    pub eval: EvalRequest,
    /// The client's request id, for logs.
    #[serde(default)]
    pub request_id: String,
    /// Whether the cell is a run from its beginning: then nothing of its events comes before it is stored that it will run to its end.
    #[serde(default)]
    pub run: bool,
    /// Whether as many processes as may have ended while they had the cell: one of which nothing is stored is not begun. It ends with an error that is
    /// recorded under its key.
    #[serde(default)]
    pub lost: bool,
}

/// Body of `POST /v1/runs/cancel`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CancelRunCall {
    /// The session.
    pub assignment: Assignment,
    /// The run.
    pub run: String,
}

/// Body of `POST /v1/runs/look`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunsCall {
    /// The session.
    pub session: StoredCall,
    /// Only this run; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// How long to wait for the end of that run, in milliseconds. A pod that does not run the session answers at once.
    #[serde(default)]
    pub wait_ms: u64,
}

/// Body of `POST /v1/answer`: what a client of the session says of a call that waits for one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AnswerCall {
    /// The session.
    pub assignment: Assignment,
    /// The call's number in the session.
    pub call: u64,
    /// What came of it.
    pub answer: crate::broker::ToolAnswer,
}

/// Body of `POST /v1/usage/live`, and of `POST /v1/usage/stored`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageCall {
    /// Namespace, which is the tenant.
    pub namespace: String,
    /// The days, `YYYY-MM-DD`.
    pub days: Vec<String>,
}

/// What a process has not stored yet of what it saw used. `D` is `dormouse_lifecycle::usage::Sheet`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LiveUsage<D> {
    /// The process.
    pub boot: String,
    /// Stored sheets of this process with this number or a higher one have been told here.
    pub number: u64,
    /// By day.
    pub days: BTreeMap<String, D>,
    /// Bytes of all live heaps.
    pub heap_bytes: u64,
}

/// Sheets as they are stored: by day, and by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredUsage<D> {
    /// By day, and by name.
    pub days: BTreeMap<String, BTreeMap<String, D>>,
}

/// Body of `POST /v1/decided`: the broker knows what was decided about a call that waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecidedCall {
    /// The session.
    pub assignment: Assignment,
    /// The call's number in the session.
    pub call: u64,
}

/// Body of `POST /v1/events`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventsCall {
    /// The session.
    pub assignment: Assignment,
    /// Only events with a greater `seq`, and none of them may be missing; `None` for all that are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// Whether to go on with live events; else the answer ends after the replay.
    pub follow: bool,
    /// Whether only what comes from now on is wanted, and no replay.
    #[serde(default)]
    pub fresh: bool,
}
