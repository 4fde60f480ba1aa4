//! The audit: who had the broker do what, appended to the bucket, line by line.
//!
//! A line holds no argument, no answer and no secret. Lines wait a few seconds for others and go into an object of their own, which nobody
//! writes again. What the store does not take stays here and is offered again, up to a bound.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use dormouse_lifecycle::{
    json,
    keys::{self, of_broker_name},
};
use dormouse_protocol::{
    ApiError,
    broker::{AnswerJobCall, ToolAnswer, ToolCall, Waits, digest},
};
use dormouse_service::origin;
use dormouse_store::{Condition, PutError};
use serde::Serialize;

use crate::{BrokerStore, meters::Meters};

/// How long a line waits for others.
const GATHER: Duration = Duration::from_secs(5);
/// Lines of one object.
const LINES_MAX: usize = 2_000;
/// Lines that wait for the store; further ones are counted as lost.
const WAITING_MAX: usize = 50_000;
/// Characters of a text in a line: names are a tenant's. Kubernetes' own are shorter.
const TEXT_CHARS_MAX: usize = 512;

/// One thing that was done or refused.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Line {
    time: String,
    /// `call`, `fetch`, `job` or `decision`.
    kind: &'static str,
    namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    session: String,
    session_uid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<u64>,
    call: u64,
    tool: String,
    /// The model that was asked, by its name in the spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// Of tool and arguments, see [`digest`].
    digest: String,
    /// Whose cell it was, as far as somebody has sent one; who decided, of a decision; who answered, of a job.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    /// `ok`, or the error code; of a decision that stands `approved` or `denied`.
    status: String,
    /// Bytes of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    milliseconds: Option<u64>,
    /// The id of the client's request that it was done for.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
}

impl Line {
    /// A call that was made, or refused.
    pub(crate) fn call(kind: &'static str, call: &ToolCall, answer: &ToolAnswer, took: Duration) -> Self {
        let (status, bytes) = match answer {
            ToolAnswer::Ok { value } => ("ok".to_owned(), Some(json::bytes(value))),
            ToolAnswer::Err { error } => (error.code.to_string(), Some(0)),
            ToolAnswer::Parked { .. } | ToolAnswer::Send { .. } => ("parked".to_owned(), Some(0)),
            // How many come is not known yet.
            ToolAnswer::Stream { .. } => ("ok".to_owned(), None),
        };
        Self { status, bytes, milliseconds: u64::try_from(took.as_millis()).ok(), ..Self::of(kind, call) }
    }

    /// A call that was refused before it was made.
    pub(crate) fn refused(kind: &'static str, call: &ToolCall, error: &ApiError) -> Self {
        Self { status: error.code.to_string(), bytes: Some(0), ..Self::of(kind, call) }
    }

    fn of(kind: &'static str, call: &ToolCall) -> Self {
        Self {
            time: now(),
            kind,
            namespace: call.namespace.clone(),
            session: cut(&call.session),
            session_uid: cut(of_broker_name(&call.session_uid).1),
            epoch: Some(call.epoch),
            call: call.call,
            tool: cut(&call.tool),
            model: None,
            digest: digest(&call.tool, &call.args),
            by: call.by.as_deref().map(cut),
            status: String::new(),
            bytes: None,
            milliseconds: None,
            request_id: request_id(),
        }
    }

    /// The same, of a question to this model.
    pub(crate) fn about_model(self, model: Option<&str>) -> Self {
        Self { model: model.map(cut), ..self }
    }

    /// The same, of what was refused.
    pub(crate) fn with_error(self, error: &ApiError) -> Self {
        Self { status: error.code.to_string(), ..self }
    }

    /// What somebody decided about a call.
    pub(crate) fn decision(call: &dormouse_protocol::broker::DecideCall) -> Self {
        Self {
            time: now(),
            kind: "decision",
            namespace: call.namespace.clone(),
            session: cut(&call.session),
            session_uid: cut(of_broker_name(&call.session_uid).1),
            epoch: Some(call.epoch),
            call: call.call,
            tool: cut(&call.tool),
            model: None,
            digest: cut(&call.digest),
            by: Some(cut(&call.by)),
            status: if call.approve { "approved" } else { "denied" }.to_owned(),
            bytes: None,
            milliseconds: None,
            request_id: request_id(),
        }
    }
}

impl Line {
    /// What a runner answered.
    pub(crate) fn job(call: &AnswerJobCall, session: &str, tool: &str, args: &serde_json::Value, by: &str) -> Self {
        let (status, bytes) = match &call.answer {
            ToolAnswer::Ok { value } => ("ok".to_owned(), json::bytes(value)),
            ToolAnswer::Err { error } => (error.code.to_string(), 0),
            ToolAnswer::Parked { .. } | ToolAnswer::Stream { .. } | ToolAnswer::Send { .. } => ("parked".to_owned(), 0),
        };
        Self {
            time: now(),
            kind: "job",
            namespace: call.namespace.clone(),
            session: cut(session),
            session_uid: cut(of_broker_name(&call.session_uid).1),
            epoch: None,
            call: call.call,
            tool: cut(tool),
            model: None,
            digest: digest(tool, args),
            by: Some(cut(by)),
            status,
            bytes: Some(bytes),
            milliseconds: None,
            request_id: request_id(),
        }
    }
}

fn request_id() -> Option<String> {
    origin::request_id().map(|id| id.to_string())
}

fn now() -> String {
    jiff::Timestamp::now().to_string()
}

fn cut(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}

/// Where lines go. Clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct Audit {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    place: BrokerStore,
    process: String,
    meters: Meters,
    waiting: Mutex<Waiting>,
    /// Whoever writes holds it: the number of the next object.
    number: tokio::sync::Mutex<u64>,
}

#[derive(Debug, Default)]
struct Waiting {
    lines: VecDeque<String>,
    /// Somebody will write them.
    awaited: bool,
}

impl Audit {
    /// To this store, under the name of this process.
    pub(crate) fn new(place: BrokerStore, process: String, meters: Meters) -> Self {
        Self { inner: Arc::new(Inner { place, process, meters, waiting: Mutex::default(), number: tokio::sync::Mutex::default() }) }
    }

    /// Notes a line; it is stored in a few seconds.
    pub(crate) fn note(&self, line: &Line) {
        let Ok(text) = serde_json::to_string(line) else { return };
        let mut waiting = self.lock();
        if waiting.lines.len() >= WAITING_MAX {
            self.inner.meters.unaudited.inc();
            return;
        }
        waiting.lines.push_back(text);
        if !waiting.awaited {
            waiting.awaited = true;
            let this = self.clone();
            tokio::spawn(async move { this.gather().await });
        }
    }

    async fn gather(&self) {
        loop {
            tokio::time::sleep(GATHER).await;
            self.flush().await;
            let mut waiting = self.lock();
            if waiting.lines.is_empty() {
                waiting.awaited = false;
                return;
            }
        }
    }

    /// Stores what waits now.
    pub(crate) async fn flush(&self) {
        let mut number = self.inner.number.lock().await;
        loop {
            let batch: Vec<String> = {
                let waiting = self.lock();
                waiting.lines.iter().take(LINES_MAX).cloned().collect()
            };
            if batch.is_empty() {
                return;
            }
            let BrokerStore { store, prefix, namespace, .. } = &self.inner.place;
            let day = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
            let key = keys::audit(prefix, namespace, &day, &self.inner.process, *number);
            let body = batch.join("\n") + "\n";
            match store.put(&key, body.into(), Condition::Absent).await {
                // Refused: an earlier try, of which nobody heard, has stored this number; these lines go under the next. So a line may be there twice.
                Ok(_) => drop(self.lock().lines.drain(..batch.len())),
                Err(PutError::Refused | PutError::Conflicted) => {}
                Err(error) => {
                    tracing::warn!(%error, lines = batch.len(), "the audit cannot be stored now");
                    // Its outcome may be unknown: the number is not used for other lines.
                    *number += 1;
                    return;
                }
            }
            *number += 1;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.inner.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a call that waits was only looked at: it does so still, which was counted and told of when it began.
pub(crate) fn is_idle_look(call: &ToolCall, answer: &ToolAnswer) -> bool {
    call.waits != Waits::No && matches!(answer, ToolAnswer::Parked { .. })
}
