//! What of a session is not in its heap: it rides in the head, so that any process can go on where this one stopped.
//!
//! It must not know who reads or writes it.

mod mcp;
mod notices;
mod operations;

use std::collections::{BTreeMap, BTreeSet};

use dormouse_cells::Declared;
use dormouse_crds::session::KernelSessionSpec;
use dormouse_lifecycle::Json;
use dormouse_lifecycle::ends::Ends;
use dormouse_lifecycle::runs::Runs;
use dormouse_lifecycle::usage::Usage;
use dormouse_protocol::ErrorCode;
use dormouse_protocol::approval::{Approval, ApprovalState};
use dormouse_protocol::broker::WaitsFor;
use dormouse_protocol::eval::{ConsoleLine, Display, EvalRequest};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(crate) use mcp::Mcp;
pub(crate) use notices::{NOTICES_MAX, Notices};
pub(crate) use operations::Operations;

/// Version of this record.
const STATE_VERSION: u32 = 1;

/// Names that are kept as constants, and their bytes together. What is declared beyond them can be assigned to.
const CONSTANTS_MAX: usize = 4096;
const CONSTANTS_BYTES_MAX: usize = 256 << 10;

/// Operations that a record may have whose commit is left to later: with so many it is sure to fit a head, whatever else it has.
const PENDING_AHEAD_MAX: usize = 1 << 16;

/// What a cell catches when the rest of a response is lost. The guest gives it the same name.
pub(crate) const STREAM_INTERRUPTED: &str = "StreamInterrupted";

/// How far numbers jump when the last ones are lost: further than a session goes between two checkpoints.
const LOST_NUMBERS_GAP: u64 = 1 << 20;

/// The record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionState {
    /// Always the version of this record.
    pub version: u32,
    /// Namespace: with `name`, `generation` and `spec` enough to rebuild the object.
    pub namespace: String,
    /// Object name.
    pub name: String,
    /// Generation of `spec`.
    pub generation: i64,
    /// The spec in force.
    pub spec: KernelSessionSpec,
    /// Whether the bootstrap code has run.
    pub bootstrapped: bool,
    /// The generation of the spec whose bootstrap code was begun last, and how often.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootstrap_begun: Option<(i64, u32)>,
    /// Cells begun so far; the last one's number.
    pub cells: u64,
    /// Tool calls and fetches made so far; the last one's number.
    pub calls: u64,
    /// The page of calls that brokers have told of: an older one is not believed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
    /// Names that cells have declared with `const`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub constants: BTreeSet<String>,
    /// Host operations that the heap waits for, by the engine's number.
    pub pending: BTreeMap<u64, Pending>,
    /// The cell that awaits.
    pub running: Option<RunningCell>,
    /// How cells ended, by idempotency key: a retry never runs one again.
    #[serde(default, skip_serializing_if = "Ends::is_empty")]
    pub ends: Ends,
    /// Cells that run whether or not somebody waits.
    #[serde(default, skip_serializing_if = "Runs::is_empty")]
    pub runs: Runs,
    /// Requests that were carried out and are no cells.
    #[serde(default, skip_serializing_if = "Operations::is_empty")]
    pub operations: Operations,
    /// What the broker is still to be told.
    #[serde(default, skip_serializing_if = "Notices::is_empty")]
    pub notices: Notices,
    /// What its cells have used.
    #[serde(default, skip_serializing_if = "Usage::is_empty")]
    pub usage: Usage,
    /// What its MCP server has.
    #[serde(default, skip_serializing_if = "Mcp::is_empty")]
    pub mcp: Mcp,
    /// RFC 3339, the end of the last request.
    pub last_active: Option<String>,
}

/// A host operation in flight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(crate) enum Pending {
    /// A timer.
    #[serde(rename_all = "camelCase")]
    Timer {
        /// Milliseconds since the Unix epoch.
        due_ms: i64,
    },
    /// A tool call or a fetch. The same number is sent until its answer is in the heap.
    #[serde(rename_all = "camelCase")]
    Tool {
        /// The call's number in the session.
        call: u64,
        /// The tool.
        name: String,
        /// Its arguments.
        args: serde_json::Value,
        /// Whether it is a request of `fetch`, which the arguments are, and no tool's.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        fetch: bool,
        /// Whether its answer is to stay outside the heap, if the code has said so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reference: Option<bool>,
    },
    /// A call that waits for somebody, and keeps no process.
    Parked(Box<ParkedCall>),
    /// A part of a response's body, which the broker holds open.
    Body {
        /// The body.
        stream: u64,
        /// The part, from 0.
        part: u64,
    },
    /// A call that this process refuses; the failure is still to be delivered.
    Refused {
        /// The error's name.
        name: String,
        /// The error's message.
        message: String,
    },
}

impl Pending {
    /// Whether it is a call of a tool; and whether its answer is to stay outside the heap, if the code has said so.
    pub(crate) fn of_tool(&self) -> Option<Option<bool>> {
        match self {
            Self::Tool { fetch: false, reference, .. } => Some(*reference),
            Self::Parked(parked) if !parked.fetch => Some(parked.reference),
            Self::Tool { .. } | Self::Parked(_) | Self::Timer { .. } | Self::Body { .. } | Self::Refused { .. } => None,
        }
    }
}

/// A call that waits for a person, a runner or a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ParkedCall {
    /// The call's number in the session.
    pub call: u64,
    /// The tool.
    pub name: String,
    /// Its arguments.
    pub args: serde_json::Value,
    /// Whether it is a request of `fetch`, which the arguments are, and no tool's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fetch: bool,
    /// Whether its answer is to stay outside the heap, if the code has said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<bool>,
    /// For whom it waits.
    #[serde(default, skip_serializing_if = "WaitsFor::is_person")]
    pub waits_for: WaitsFor,
    /// The epoch in which it was made, which a decision about it names.
    pub epoch: u64,
    /// Whether whoever agrees may change them.
    pub editable: bool,
    /// Since when it waits, in milliseconds since the Unix epoch.
    pub since_ms: i64,
    /// Until when.
    pub until_ms: i64,
    /// When the broker is asked again without anybody telling: nobody may have lived to tell.
    pub look_ms: i64,
}

/// What an event shows of a request: no headers, no body, no query, where secrets are.
pub(crate) fn shown(request: &Value) -> Value {
    let url = request.get("url").and_then(Value::as_str).unwrap_or_default();
    let url: String = url.split(['?', '#']).next().unwrap_or_default().chars().take(SHOWN_URL_CHARS_MAX).collect();
    json!({ "method": request.get("method"), "url": url })
}

/// Longest URL that an event shows, in characters.
const SHOWN_URL_CHARS_MAX: usize = 1 << 10;

/// The broker is asked whether a decision has come that nobody has told of: after as long as the call has waited by then, within these bounds.
const LOOK_MIN_MS: i64 = 60 * 1_000;
const LOOK_MAX_MS: i64 = 60 * 60 * 1_000;

impl ParkedCall {
    /// What names it in the session.
    pub(crate) fn id(&self) -> String {
        format!("a_{}", self.call)
    }

    /// Notes that it was looked at now.
    pub(crate) fn looked(&mut self, now_ms: i64) {
        // Once more when the time is over, so that the broker says what came of it.
        let next = now_ms.saturating_add(now_ms.saturating_sub(self.since_ms).clamp(LOOK_MIN_MS, LOOK_MAX_MS));
        self.look_ms = if now_ms < self.until_ms { next.min(self.until_ms) } else { next };
    }

    /// The same, waiting so long from now on.
    pub(crate) fn within(mut self, seconds: u64, now_ms: i64) -> Self {
        let wait_ms = i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(i64::MAX);
        (self.since_ms, self.until_ms) = (now_ms, now_ms.saturating_add(wait_ms));
        self.looked(now_ms);
        self
    }

    /// As clients see it.
    pub(crate) fn view(&self) -> Approval {
        let time = |ms| jiff::Timestamp::from_millisecond(ms).map(|time| time.to_string()).unwrap_or_default();
        Approval {
            id: self.id(),
            session: String::new(),
            tool_name: self.name.clone(),
            args: self.args.clone(),
            call_id: self.call.to_string(),
            epoch: self.epoch,
            created_at: time(self.since_ms),
            expires_at: time(self.until_ms),
            editable: self.editable,
            state: ApprovalState::default(),
        }
    }
}

/// A cell between its beginning and its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunningCell {
    /// What was asked, for positions in errors and for its idempotency key.
    pub request: EvalRequest,
    /// The cell's number.
    pub cell: u64,
    /// The name in its stack traces.
    pub filename: String,
    /// When it began, in milliseconds since the Unix epoch.
    pub started_ms: i64,
    /// Console output so far.
    pub console: Vec<ConsoleLine>,
    /// Renderings so far.
    pub display: Vec<Display>,
    /// Bytes of both.
    pub output_bytes: u64,
    /// Time of guest code so far, in milliseconds.
    pub cpu_ms: f64,
    /// Interrupt ticks so far.
    pub ticks: u64,
    /// Bytes committed so far.
    pub committed_bytes: u64,
    /// Tool calls so far.
    pub tool_calls: u32,
}

impl SessionState {
    /// A session that has never run.
    pub(crate) fn fresh(assignment: &dormouse_protocol::kernel::Assignment) -> Self {
        Self {
            version: STATE_VERSION,
            namespace: assignment.namespace.clone(),
            name: assignment.name.clone(),
            generation: assignment.generation,
            spec: assignment.spec.clone(),
            bootstrapped: false,
            bootstrap_begun: None,
            cells: 0,
            calls: 0,
            page: None,
            constants: BTreeSet::new(),
            pending: BTreeMap::new(),
            running: None,
            ends: Ends::default(),
            runs: Runs::default(),
            operations: Operations::default(),
            notices: Notices::default(),
            usage: Usage::default(),
            mcp: Mcp::default(),
            last_active: None,
        }
    }

    /// Takes in what a cell declares: its names are constants now, or are none any more.
    pub(crate) fn declare(&mut self, declared: &[Declared]) {
        let mut bytes = self.constants.iter().map(String::len).sum::<usize>();
        for it in declared {
            if !it.is_constant {
                bytes -= self.constants.take(&it.name).map_or(0, |name| name.len());
            } else if self.constants.len() < CONSTANTS_MAX
                && bytes + it.name.len() <= CONSTANTS_BYTES_MAX
                && self.constants.insert(it.name.clone())
            {
                bytes += it.name.len();
            }
        }
    }

    /// Whether it could be too large for a head, so that a cell that is answered before its commit might never get one.
    pub(crate) fn may_not_fit(&self) -> bool {
        self.pending.len() > PENDING_AHEAD_MAX
    }

    /// The record as the head carries it.
    pub(crate) fn encode(&self) -> Result<Json, serde_json::Error> {
        Json::of(self)
    }

    /// Reads a record.
    pub(crate) fn decode(json: &Json) -> Result<Self, StateError> {
        let state: Self = json.read()?;
        if state.version == STATE_VERSION { Ok(state) } else { Err(StateError::Version(state.version)) }
    }

    /// The record of a session that goes on from this earlier one.
    ///
    /// Timers go on. A call that was under way then is not made again: its answer may belong to another future, so it fails with an error that
    /// code can catch. Nobody waits for the cell that ran, and no retry gets its answer.
    pub(crate) fn rewound(mut self) -> Self {
        for pending in self.pending.values_mut() {
            let (name, message) = match pending {
                Pending::Tool { .. } | Pending::Parked(_) => (
                    ErrorCode::Interrupted.to_string(),
                    "the call was under way in the state that this session goes on from; make it again if it is wanted",
                ),
                Pending::Body { .. } => (
                    STREAM_INTERRUPTED.to_owned(),
                    "the response was being read in the state that this session goes on from; fetch it again if it is wanted",
                ),
                Pending::Timer { .. } | Pending::Refused { .. } => continue,
            };
            *pending = Pending::Refused { name, message: message.to_owned() };
        }
        // No call of before is asked for again, so no page of calls is relied on, not even one that was put back.
        self.page = None;
        self.running = None;
        self.ends.clear();
        self.runs.clear();
        self.operations = Operations::default();
        self.notices = Notices::default();
        self
    }

    /// The record with numbers behind those of `now`, the session's present one; `None` when that is lost. Numbers never go back, because the
    /// broker knows a call, and a person a cell, by its number.
    pub(crate) fn numbered_after(mut self, now: Option<&Self>) -> Self {
        match now {
            Some(now) => {
                self.cells = self.cells.max(now.cells);
                self.calls = self.calls.max(now.calls);
                // A late retry of a cell that was left behind must not run it in the state that is gone back to.
                self.ends.clone_from(&now.ends);
                self.runs.clone_from(&now.runs);
                self.operations.clone_from(&now.operations);
                self.notices.clone_from(&now.notices);
                self.usage.clone_from(&now.usage);
            }
            None => {
                self.cells = self.cells.saturating_add(LOST_NUMBERS_GAP);
                self.calls = self.calls.saturating_add(LOST_NUMBERS_GAP);
            }
        }
        self
    }

    /// Whether the heap waits for a tool or for the network.
    pub(crate) fn awaits_tool(&self) -> bool {
        self.is_under_way() || self.parked().any(|parked| !parked.waits_for.is_person())
    }

    /// Whether a process is needed for something that the heap waits for.
    fn is_under_way(&self) -> bool {
        self.pending.values().any(|pending| matches!(pending, Pending::Tool { .. } | Pending::Body { .. }))
    }

    /// The calls that wait for somebody.
    pub(crate) fn parked(&self) -> impl Iterator<Item = &ParkedCall> {
        self.pending.values().filter_map(|pending| if let Pending::Parked(parked) = pending { Some(&**parked) } else { None })
    }

    /// Whether all that the heap waits for is somebody, a person among them, and time.
    pub(crate) fn awaits_approval(&self) -> bool {
        self.approvals().next().is_some() && !self.is_under_way()
    }

    /// The calls that wait for a person's decision.
    pub(crate) fn approvals(&self) -> impl Iterator<Item = &ParkedCall> {
        self.parked().filter(|parked| parked.waits_for.is_person())
    }

    /// Whether all that the heap waits for is somebody, and time.
    pub(crate) fn is_parked(&self) -> bool {
        self.parked().next().is_some() && !self.is_under_way()
    }

    /// The number below which no call waits for its answer.
    pub(crate) fn settled_below(&self) -> u64 {
        let waiting = self.pending.values().filter_map(|pending| match pending {
            Pending::Tool { call, .. } => Some(*call),
            Pending::Parked(parked) => Some(parked.call),
            // A part of a body changes nothing outside.
            Pending::Timer { .. } | Pending::Body { .. } | Pending::Refused { .. } => None,
        });
        waiting.min().unwrap_or_else(|| self.calls.saturating_add(1))
    }

    /// When a process is needed, whoever has the session: since it was stored for a call or a part of a body that is under way, since a run was accepted that
    /// has not ended, or when the first timer is due.
    pub(crate) fn needed_at(&self, stored_at: &str) -> Option<jiff::Timestamp> {
        let under_way = self.pending.values().any(|pending| !matches!(pending, Pending::Timer { .. } | Pending::Parked(_)));
        let since_stored = under_way.then(|| stored_at.parse().ok()).flatten();
        let run = self.runs.open().find_map(|run| run.created_at.parse().ok());
        let timer = self.next_timer_ms().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
        [since_stored, run, timer].into_iter().flatten().min()
    }

    /// When the first timer is due, or somebody is to be asked or told again, in milliseconds since the Unix epoch.
    fn next_timer_ms(&self) -> Option<i64> {
        self.pending
            .values()
            .filter_map(|pending| match pending {
                Pending::Timer { due_ms } => Some(*due_ms),
                Pending::Parked(parked) => Some(parked.look_ms),
                Pending::Tool { .. } | Pending::Body { .. } | Pending::Refused { .. } => None,
            })
            .chain(self.notices.due_ms())
            .min()
    }
}

/// Why a stored record cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StateError {
    /// It is not such a record.
    #[error("the session's record does not parse: {0}")]
    Parse(#[from] serde_json::Error),
    /// It was written by another version.
    #[error("the session's record has version {0}; this process reads version {STATE_VERSION}")]
    Version(u32),
}
