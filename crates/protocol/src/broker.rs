//! What a kernel pod says to a broker. JSON over HTTP, mTLS, port [`BROKER_PORT`].
//!
//! | call | body | answer |
//! |---|---|---|
//! | `POST /v1/call` | [`ToolCall`] | [`ToolAnswer`] |
//! | `GET /v1/tools` | | [`ToolDescription`]s |
//! | `POST /v1/fetch` | [`FetchCall`] | [`ToolAnswer`] whose value is a [`FetchOutcome`] |
//! | `POST /v1/body` | [`BodyCall`] | [`BodyAnswer`] |
//! | `POST /v1/close` | [`CloseCall`] | `null` |
//! | `POST /v1/modules` | [`ModulesCall`] | [`ModulesAnswer`] |
//! | `POST /v1/upload` | bytes of a [`ToolCall`] (u32 LE), it, its [`LargeBody`] | [`ToolAnswer`] |
//! | `POST /v1/notices` | [`Notice`] | `null` once it is stored |
//! | `POST /v1/events` | [`EventsCall`] | `null`, with [`EVENTS_HEADER`] |
//! | `POST /v1/session-notices`, of gateways and the operator | [`Notice`] of a session that no pod has | `null` once it is stored |
//! | `POST /v1/wanted`, of gateways and the operator | [`EventsCall`] | [`EventKind`]s of which anybody is told |
//! | `POST /v1/decide`, of gateways only | [`DecideCall`] | `null` |
//! | `POST /v1/jobs/claim`, of gateways only | [`ClaimJobCall`] | [`ClaimedJob`] |
//! | `POST /v1/jobs/heartbeat`, of gateways only | [`HeartbeatJobCall`] | [`crate::job::JobLease`] |
//! | `POST /v1/jobs/answer`, of gateways only | [`AnswerJobCall`] | [`AnsweredJob`] |
//! | `POST /v1/deliveries`, of gateways only | [`DeliveriesCall`] | [`crate::webhook::DeliveryList`] |
//! | `POST /v1/redeliver`, of gateways only | [`RedeliverCall`] | [`crate::webhook::Delivery`] |

mod fetch;
mod job;
mod module;
mod notice;

use std::borrow::Cow;
use std::collections::BTreeMap;

use dormouse_crds::broker::Offload;
use serde::{Deserialize, Serialize};

use crate::reference;

pub use fetch::{
    BodyAnswer, BodyCall, CloseCall, FETCH, FETCH_BODY_BYTES_MAX, FetchCall, FetchOutcome, FetchRequest, FetchResponse, MODEL_SCHEME,
    NetworkFailure, RedirectMode,
};
pub use job::{AnswerJobCall, AnsweredJob, ClaimJobCall, ClaimedJob, HeartbeatJobCall, JobEnded};
pub use module::{ModulesAnswer, ModulesCall, Package};
pub use notice::{
    DeliveriesCall, EVENTS_HEADER, EventsCall, Notice, RedeliverCall, SESSION_NOTICES, WANTED_EVENTS, events_of, events_text,
};

/// Port of a broker's mTLS server.
pub const BROKER_PORT: u16 = 7444;

/// Bytes of one [`ToolCall`] at most, with what its references stand for.
pub const CALL_BYTES_MAX: usize = 32 << 20;

/// Header of the answer to a call: which page of calls of the session was stored last, where one is. Opaque.
pub const PAGE_HEADER: &str = "dormouse-page";

/// Header of the answer to a call: which answers stay outside the heap, as [`offload_text`] writes it.
pub const OFFLOAD_HEADER: &str = "dormouse-offload";

/// The tool of a call of a service itself.
pub const CALL_SERVICE: &str = "callService";

/// `THRESHOLD_BYTES PREVIEW_CHARS`.
#[must_use]
pub fn offload_text(offload: Offload) -> String {
    format!("{} {}", offload.threshold_bytes, offload.preview_chars)
}

/// What [`offload_text`] wrote.
#[must_use]
pub fn offload_of(text: &str) -> Option<Offload> {
    let (threshold, preview) = text.split_once(' ')?;
    Some(Offload { threshold_bytes: threshold.parse().ok()?, preview_chars: preview.parse().ok()? })
}

/// One call. `(session_uid, call)` names it for ever: a repeated call is answered from the journal, or refused with `OutcomeUnknown`
/// when what came of it is not known.
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
    /// Its arguments, as the code gave them.
    pub args: serde_json::Value,
    /// What the references among the arguments stand for, by their ids ([`crate::reference`]).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub references: BTreeMap<String, serde_json::Value>,
    /// The body of a service's request that is not sent along, because it is large: [`ToolAnswer::Send`] asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<LargeBody>,
    /// Whether it may have been sent before: by this process, or by one that ran the session earlier. A broker that does not know of a
    /// repeated call cannot tell whether it was made, and makes it only when its method is safe (RFC 9110, 9.2.1).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeated: bool,
    /// Calls below this number have their answers in a committed heap and are not asked for again: a broker may forget them. 0 says nothing.
    #[serde(default)]
    pub settled_below: u64,
    /// Which page of calls of the session is known to have been stored: what the header [`PAGE_HEADER`] of an earlier answer said. An older one is
    /// not believed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
    /// Whether it waits for a person's decision already.
    #[serde(default, skip_serializing_if = "Waits::is_no")]
    pub waits: Waits,
    /// Of a call that waits: the epoch in which it was made, which is earlier than `epoch` once another process has the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_in: Option<u64>,
    /// The Secrets that the session's spec names, by service.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub service_secrets: BTreeMap<String, String>,
    /// The bases of documents, or folders of them, that the session's spec names; without it, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub knowledge: Option<Vec<String>>,
    /// An answer of more bytes than that may be [`ToolAnswer::Stream`]; without it, none may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_above: Option<u64>,
    /// Who sent the cell that runs, for the audit: [`crate::eval::EvalRequest::by`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl ToolCall {
    /// The arguments with what their references stand for.
    ///
    /// # Errors
    /// `RefNotFound`: one was not sent along.
    pub fn arguments(&self) -> Result<Cow<'_, serde_json::Value>, crate::ApiError> {
        if reference::ids(&self.args).is_empty() {
            return Ok(Cow::Borrowed(&self.args));
        }
        let mut args = self.args.clone();
        if let (Some(body), Some(place)) = (&self.body, args.get_mut("body")) {
            reference::put_sent(place, &body.id, body.bytes);
        }
        reference::put_in(&mut args, &self.references)?;
        Ok(Cow::Owned(args))
    }
}

/// A request's body that is sent by itself: bytes of the session's, which `args.body` stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LargeBody {
    /// The reference's id.
    pub id: String,
    /// How many bytes.
    pub bytes: u64,
}

/// What a call waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Waits {
    /// Nothing: it is made for the first time, or goes on.
    #[default]
    No,
    /// A person's decision, whatever the tool's spec says by now.
    Decision,
    /// Nothing any more: its time is over, unless there is a decision.
    Over,
    /// A runner's answer.
    Job,
    /// Nothing any more: its time is over, unless a runner has answered.
    JobOver,
}

impl Waits {
    fn is_no(&self) -> bool {
        *self == Self::No
    }
}

/// What somebody decided about a call that waits. Only gateways tell it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecideCall {
    /// Namespace of the session.
    pub namespace: String,
    /// Its name, for the audit.
    #[serde(default)]
    pub session: String,
    /// Uid of the session.
    pub session_uid: String,
    /// The epoch in which the call was made, as whoever decided has seen it. A decision about another one is refused with `ApprovalMismatch`.
    pub epoch: u64,
    /// The call's number in the session.
    pub call: u64,
    /// The tool.
    pub tool: String,
    /// [`digest`] of tool and arguments, as whoever decided has seen them.
    pub digest: String,
    /// Names this decision: another sending of it changes nothing.
    pub id: String,
    /// Whether the call is made.
    pub approve: bool,
    /// What the code is told of a denial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Other arguments than those that were seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<serde_json::Value>,
    /// Who decided.
    pub by: String,
}

/// Hex sha256 of a tool's name and its arguments as JSON whose keys are sorted, without blanks: what a decision binds.
#[must_use]
pub fn digest(tool: &str, args: &serde_json::Value) -> String {
    use sha2::Digest as _;
    let text = format!("{}\n{tool}\n{}", tool.len(), sorted(args));
    sha2::Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sorted(value: &serde_json::Value) -> String {
    use serde_json::Value;
    match value {
        Value::Object(fields) => {
            let fields: BTreeMap<&String, &Value> = fields.iter().collect();
            let fields: Vec<String> =
                fields.into_iter().map(|(name, value)| format!("{}:{}", Value::from(name.as_str()), sorted(value))).collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(sorted).collect::<Vec<_>>().join(",")),
        other => other.to_string(),
    }
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
    /// It is not made before somebody agrees: ask again when there is a decision, or when the time is over.
    Parked {
        /// How.
        parked: Parked,
    },
    /// It is being made, and its [`LargeBody`] is wanted now. The broker waits for it; another asking joins the call.
    Send {
        /// What is wanted.
        wanted: LargeBody,
    },
    /// It worked, and its answer is large: it is read part by part, as [`BodyCall`] reads a body, under the call's own number.
    Stream {
        /// What comes.
        stream: StreamedAnswer,
    },
}

/// An answer that a broker holds open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamedAnswer {
    /// What the service says that it is.
    pub mime_type: String,
    /// Whether the call may be made again when its answer breaks off.
    pub repeatable: bool,
}

/// How a call waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Parked {
    /// How long, in seconds from now.
    pub expires_seconds: u64,
    /// Whether whoever agrees may change the arguments.
    pub editable: bool,
    /// For whom.
    #[serde(default, skip_serializing_if = "WaitsFor::is_person")]
    pub waits_for: WaitsFor,
    /// The epoch in which it was told to wait first: a process may have ended before it knew. Absent where no decision is about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_in: Option<u64>,
}

/// For whom a call waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WaitsFor {
    /// A person who agrees.
    #[default]
    Person,
    /// A runner that makes it.
    Runner,
    /// A client of the session that makes it. No broker knows of it.
    Client,
}

impl WaitsFor {
    /// Whether it is a person.
    #[must_use]
    pub fn is_person(&self) -> bool {
        *self == Self::Person
    }
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
    /// Whether calls may wait for a person.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approval: bool,
}
