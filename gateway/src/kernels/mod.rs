//! Requests to kernel pods, and decisions to brokers, over mutual TLS.
//!
//! Knows addresses, identities and the calls of `dormouse_protocol::kernel`; decides nothing about where a request should go.

mod answers;
mod lines;
mod pod;
mod unwritten;

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use dormouse_control::session::Record;
use dormouse_crds::session::Placement;
use dormouse_lifecycle::usage::Sheet;
use dormouse_protocol::{
    approval::ApprovalList,
    broker::{BROKER_PORT, DecideCall},
    eval::WOKE_HEADER,
    file::{FileCall, FileEntry, FileList},
    history::{Checkpoint, CheckpointList, Difference, JournalPage, Migration},
    kernel::{
        Anchor, AnswerCall, Assignment, CancelRunCall, CheckpointCall, DecidedCall, DifferenceCall, EvalCall, EventsCall, JournalCall,
        LiveUsage, McpCatalog, MigrateCall, PodInfo, ReportLine, ResetCall, RestoreCall, RunsCall, SessionCall, SessionReport, StoredCall,
        StoredStatus, StoredUsage, UsageCall, WaitingCall,
    },
    run::{Run, RunList},
};
use dormouse_service::tls::{Identity, PeerClient, Process};
use futures::{StreamExt as _, stream::BoxStream};
use reqwest::{
    Method, RequestBuilder, Response,
    header::{ACCEPT, HeaderValue},
};
use serde::{Serialize, de::DeserializeOwned};

pub use self::{
    answers::{ANSWER_BYTES_MAX, ERROR_BYTES_MAX, KernelError},
    lines::{LINE_BYTES_MAX, LINE_KEPT_BYTES_MAX, Lines, Piece},
    pod::{KernelPod, Role},
    unwritten::{Unwritten, Writing, writing},
};
use self::{
    answers::{checked, json},
    lines::{lines, split},
    unwritten::send_with,
};

/// How long `GET /v1/info` may take: a pod that needs longer takes no new session.
pub const INFO_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a pod may take to wake a session, to put one to sleep, or to forget one.
pub const ORDER_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a pod may take to note an interrupt.
pub const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest line of a pod's reports, in bytes.
pub const REPORT_BYTES_MAX: usize = 4 << 20;
/// Bytes of a cell's answer that are kept until its end has come; of a longer one the rest is passed on as it comes.
pub const ANSWER_KEPT_BYTES_MAX: usize = 256 << 10;
/// Media type of streams.
pub const NDJSON: &str = "application/x-ndjson";

/// The answer to a cell, an `EvalResult` in JSON.
pub struct Answer {
    /// How it was served, as the pod says it.
    pub woke: Option<HeaderValue>,
    /// All of it, or its first bytes.
    pub start: Bytes,
    /// What follows, of a long one.
    pub rest: Option<BoxStream<'static, Result<Bytes, reqwest::Error>>>,
}

/// The client of kernel pods. Clones share connections.
#[derive(Clone)]
pub struct Kernels {
    client: PeerClient,
    /// Where brokers listen: `host:port`, in which `{name}` and `{namespace}` are replaced.
    brokers: String,
}

/// By what right a pod may run a session: what is sent with every call.
#[must_use]
pub fn assignment(record: &Record, placement: &Placement) -> Assignment {
    Assignment {
        namespace: record.key.namespace.clone(),
        name: record.key.name.clone(),
        uid: record.uid.clone(),
        epoch: placement.epoch,
        boot: placement.boot.clone(),
        generation: record.generation,
        spec: record.spec.clone(),
        source_uid: None,
        anchor: anchor(record),
        source_anchor: None,
    }
}

/// A session that is looked at, not run.
#[must_use]
pub fn stored(record: &Record) -> StoredCall {
    StoredCall { namespace: record.key.namespace.clone(), name: record.key.name.clone(), uid: record.uid.clone(), anchor: anchor(record) }
}

/// What status knows to have been stored of a session.
#[must_use]
pub fn anchor(record: &Record) -> Option<Anchor> {
    record.status.snapshot.as_ref().map(Anchor::from)
}

impl Kernels {
    /// A client that proves who it is with `client`'s certificate.
    #[must_use]
    pub fn new(client: PeerClient) -> Self {
        Self { client, brokers: format!("{{name}}-broker.{{namespace}}.svc:{BROKER_PORT}") }
    }

    /// The same, with brokers at this `host:port`, in which `{name}` and `{namespace}` are replaced.
    #[must_use]
    pub fn with_brokers(self, brokers: String) -> Self {
        Self { brokers, ..self }
    }

    /// Tells a broker what somebody decided about a call that waits.
    pub async fn decide(&self, broker: &str, call: &DecideCall) -> Result<(), KernelError> {
        self.ask_broker(&call.namespace, broker, "/v1/decide", call).await
    }

    /// Asks a broker of a namespace something.
    pub async fn ask_broker<A: DeserializeOwned>(
        &self,
        namespace: &str,
        broker: &str,
        path: &str,
        call: &impl Serialize,
    ) -> Result<A, KernelError> {
        let address = self.brokers.replace("{name}", broker).replace("{namespace}", namespace);
        let peer = Identity::new(Process::Broker, namespace, broker);
        let request = self.client.request(Method::POST, &peer, &address, path).timeout(ORDER_TIMEOUT).json(call);
        json(self.client.send(request).await?).await
    }

    /// Lets a session ask its broker again for a call that waits.
    pub async fn decided(&self, pod: &KernelPod, call: &DecidedCall) -> Result<(), KernelError> {
        json(self.client.send(self.order(pod, "/v1/decided", call)).await?).await
    }

    /// Delivers what a client of a session says of a call that waits for one.
    pub async fn answer(&self, pod: &KernelPod, call: &AnswerCall) -> Result<(), KernelError> {
        json(self.client.send(self.order(pod, "/v1/answer", call)).await?).await
    }

    /// The calls of a session that wait for a client, as stored.
    pub async fn stored_hostcalls(&self, pod: &KernelPod, call: &StoredCall) -> Result<ApprovalList, KernelError> {
        json(self.client.send(self.order(pod, "/v1/stored/hostcalls", call)).await?).await
    }

    /// What a session's MCP server has, as stored.
    pub async fn stored_mcp(&self, pod: &KernelPod, call: &StoredCall) -> Result<McpCatalog, KernelError> {
        json(self.client.send(self.order(pod, "/v1/stored/mcp", call)).await?).await
    }

    /// The calls of a session that wait for a person, as stored. Any pod of its pool that reads can tell.
    pub async fn stored_approvals(&self, pod: &KernelPod, call: &StoredCall) -> Result<ApprovalList, KernelError> {
        json(self.client.send(self.order(pod, "/v1/stored/approvals", call)).await?).await
    }

    /// What the pod is, and how much fits.
    pub async fn info(&self, pod: &KernelPod) -> Result<PodInfo, KernelError> {
        json(self.client.send(self.request(pod, Method::GET, "/v1/info").timeout(INFO_TIMEOUT)).await?).await
    }

    /// How a session is at this moment.
    pub async fn session(&self, pod: &KernelPod, call: &SessionCall) -> Result<SessionReport, KernelError> {
        json(self.client.send(self.request(pod, Method::POST, "/v1/session").timeout(INFO_TIMEOUT).json(call)).await?).await
    }

    /// Lets the pod report that a session waits for a slot.
    pub async fn waiting(&self, pod: &KernelPod, call: &WaitingCall) -> Result<(), KernelError> {
        let request = self.request(pod, Method::POST, "/v1/waiting").timeout(INFO_TIMEOUT).json(call);
        checked(self.client.send(request).await?).await.map(drop)
    }

    /// Runs a cell.
    pub async fn eval(&self, pod: &KernelPod, call: &EvalCall, unwritten: Option<Unwritten>) -> Result<Answer, KernelError> {
        let request = send_with(self.request(pod, Method::POST, "/v1/eval"), call, unwritten);
        let mut response = checked(self.client.send(request).await?).await?;
        let woke = response.headers().get(WOKE_HEADER).cloned();
        let mut start = BytesMut::new();
        while let Some(chunk) = response.chunk().await? {
            start.extend_from_slice(&chunk);
            if start.len() > ANSWER_KEPT_BYTES_MAX {
                return Ok(Answer { woke, start: start.freeze(), rest: Some(response.bytes_stream().boxed()) });
            }
        }
        Ok(Answer { woke, start: start.freeze(), rest: None })
    }

    /// Runs a cell and streams its events; the last line is `final`.
    pub async fn eval_events(&self, pod: &KernelPod, call: &EvalCall, unwritten: Option<Unwritten>) -> Result<Lines, KernelError> {
        let request = send_with(self.request(pod, Method::POST, "/v1/eval").header(ACCEPT, NDJSON), call, unwritten);
        Ok(lines(checked(self.client.send(request).await?).await?))
    }

    /// Accepts a cell as a run.
    pub async fn accept_run(&self, pod: &KernelPod, call: &EvalCall) -> Result<Run, KernelError> {
        json(self.client.send(self.order(pod, "/v1/runs/accept", call)).await?).await
    }

    /// Ends a run.
    pub async fn cancel_run(&self, pod: &KernelPod, call: &CancelRunCall) -> Result<Run, KernelError> {
        json(self.client.send(self.order(pod, "/v1/runs/cancel", call)).await?).await
    }

    /// Runs of a session. Any pod of its pool that reads can tell; the one that has it waits as long as the call says.
    pub async fn runs(&self, pod: &KernelPod, call: &RunsCall) -> Result<RunList, KernelError> {
        let timeout = ORDER_TIMEOUT + Duration::from_millis(call.wait_ms);
        json(self.client.send(self.order(pod, "/v1/runs/look", call).timeout(timeout)).await?).await
    }

    /// The session's events.
    pub async fn events(&self, pod: &KernelPod, call: &EventsCall) -> Result<Lines, KernelError> {
        Ok(lines(checked(self.client.send(self.request(pod, Method::POST, "/v1/events").json(call)).await?).await?))
    }

    /// Makes the session live, or gives a live one its new spec.
    pub async fn wake(&self, pod: &KernelPod, assignment: &Assignment, unwritten: Option<Unwritten>) -> Result<SessionReport, KernelError> {
        let request = self.request(pod, Method::POST, "/v1/wake").timeout(ORDER_TIMEOUT);
        json(self.client.send(send_with(request, assignment, unwritten)).await?).await
    }

    /// Puts the session to sleep; answers once its head is stored.
    pub async fn hibernate(&self, pod: &KernelPod, assignment: &Assignment) -> Result<SessionReport, KernelError> {
        json(self.client.send(self.order(pod, "/v1/hibernate", assignment)).await?).await
    }

    /// Puts the session's present state aside.
    pub async fn checkpoint(&self, pod: &KernelPod, call: &CheckpointCall) -> Result<Checkpoint, KernelError> {
        json(self.client.send(self.order(pod, "/v1/checkpoint", call)).await?).await
    }

    /// Takes the session back to a checkpoint; answers once that is stored.
    pub async fn restore(&self, pod: &KernelPod, call: &RestoreCall) -> Result<SessionReport, KernelError> {
        json(self.client.send(self.order(pod, "/v1/restore", call)).await?).await
    }

    /// Empties the session; answers once that is stored.
    pub async fn reset(&self, pod: &KernelPod, call: &ResetCall) -> Result<SessionReport, KernelError> {
        json(self.client.send(self.order(pod, "/v1/reset", call)).await?).await
    }

    /// Moves the session to the pod's current engine. As long as it takes to run all of its cells again.
    pub async fn migrate(&self, pod: &KernelPod, call: &MigrateCall) -> Result<Migration, KernelError> {
        json(self.client.send(self.request(pod, Method::POST, "/v1/migrate").json(call)).await?).await
    }

    /// The checkpoints of a session, as stored. Any pod of its pool that reads can tell.
    pub async fn stored_checkpoints(&self, pod: &KernelPod, call: &StoredCall) -> Result<CheckpointList, KernelError> {
        json(self.client.send(self.order(pod, "/v1/stored/checkpoints", call)).await?).await
    }

    /// Entries of a session's journal, as stored. Any pod of its pool that reads can tell.
    pub async fn stored_journal(&self, pod: &KernelPod, call: &JournalCall) -> Result<JournalPage, KernelError> {
        json(self.client.send(self.order(pod, "/v1/stored/journal", call)).await?).await
    }

    /// Names below a directory of the session's file system.
    pub async fn list_files(&self, pod: &KernelPod, call: &FileCall) -> Result<FileList, KernelError> {
        json(self.client.send(self.order(pod, "/v1/files/list", call)).await?).await
    }

    /// A file's content as the pod sends it; 304 is an answer, too.
    pub async fn read_file(&self, pod: &KernelPod, call: &FileCall) -> Result<Response, KernelError> {
        let response = self.client.send(self.request(pod, Method::POST, "/v1/files/read").json(call)).await?;
        if response.status() == reqwest::StatusCode::NOT_MODIFIED { Ok(response) } else { checked(response).await }
    }

    /// Sends a file's content; answers once it is committed, and whether the file is new.
    pub async fn write_file(
        &self,
        pod: &KernelPod,
        call: &FileCall,
        content: BoxStream<'static, Result<Bytes, std::io::Error>>,
    ) -> Result<(FileEntry, bool), KernelError> {
        let call = serde_json::to_vec(call).map_err(|error| KernelError::Garbled(error.to_string()))?;
        let length = u32::try_from(call.len()).map_err(|error| KernelError::Garbled(error.to_string()))?;
        let before = Bytes::from([&length.to_le_bytes()[..], &call].concat());
        let body = reqwest::Body::wrap_stream(futures::stream::iter([Ok(before)]).chain(content));
        let response = checked(self.client.send(self.request(pod, Method::POST, "/v1/files/write").body(body)).await?).await?;
        let is_new = response.status() == reqwest::StatusCode::CREATED;
        Ok((json(response).await?, is_new))
    }

    /// Removes a file or a directory.
    pub async fn remove_file(&self, pod: &KernelPod, call: &FileCall) -> Result<(), KernelError> {
        checked(self.client.send(self.order(pod, "/v1/files/remove", call)).await?).await.map(drop)
    }

    /// What changed between two states of a session, as stored. Any pod of its pool that reads can tell.
    pub async fn stored_difference(&self, pod: &KernelPod, call: &DifferenceCall) -> Result<Difference, KernelError> {
        json(self.client.send(self.order(pod, "/v1/stored/difference", call)).await?).await
    }

    /// What status should say of a session whose process is gone. For the operator, and whoever stands in for it.
    pub async fn stored_status(&self, pod: &KernelPod, call: &StoredCall) -> Result<StoredStatus, KernelError> {
        json(self.client.send(self.order(pod, "/v1/stored/status", call)).await?).await
    }

    /// What a process saw used and has not stored yet.
    pub async fn live_usage(&self, pod: &KernelPod, call: &UsageCall) -> Result<LiveUsage<Sheet>, KernelError> {
        json(self.client.send(self.order(pod, "/v1/usage/live", call)).await?).await
    }

    /// What all processes of a pool's store have stored of what was used. Any pod of the pool that reads can tell.
    pub async fn stored_usage(&self, pod: &KernelPod, call: &UsageCall) -> Result<StoredUsage<Sheet>, KernelError> {
        json(self.client.send(self.order(pod, "/v1/usage/stored", call)).await?).await
    }

    /// Ends the running cell.
    pub async fn interrupt(&self, pod: &KernelPod, assignment: &Assignment) -> Result<(), KernelError> {
        checked(self.client.send(self.order(pod, "/v1/interrupt", assignment).timeout(INTERRUPT_TIMEOUT)).await?).await.map(drop)
    }

    /// Drops the session without a commit.
    pub async fn forget(&self, pod: &KernelPod, assignment: &Assignment) -> Result<(), KernelError> {
        checked(self.client.send(self.order(pod, "/v1/forget", assignment)).await?).await.map(drop)
    }

    /// What the pod reports, for ever.
    pub async fn report(&self, pod: &KernelPod) -> Result<BoxStream<'static, Result<ReportLine, KernelError>>, KernelError> {
        let response = checked(self.client.send(self.request(pod, Method::GET, "/v1/report")).await?).await?;
        let lines = split(response.bytes_stream().map(|chunk| chunk.map_err(KernelError::from)), REPORT_BYTES_MAX);
        let read = |piece| match piece {
            Piece::Line(line) => serde_json::from_slice(&line).map_err(|error| KernelError::Garbled(error.to_string())),
            _ => Err(KernelError::Garbled(format!("a report of more than {REPORT_BYTES_MAX} bytes"))),
        };
        Ok(lines.map(move |piece| read(piece?)).boxed())
    }

    fn order(&self, pod: &KernelPod, path: &str, body: &impl serde::Serialize) -> RequestBuilder {
        self.request(pod, Method::POST, path).timeout(ORDER_TIMEOUT).json(body)
    }

    fn request(&self, pod: &KernelPod, method: Method, path: &str) -> RequestBuilder {
        let identity = Identity::kernel(pod.namespace.clone(), pod.pool.clone(), pod.pod.clone());
        self.client.request(method, &identity, &pod.address.to_string(), path)
    }
}
