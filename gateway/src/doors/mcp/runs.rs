//! Runs as tasks of MCP's extension `io.modelcontextprotocol/tasks` (revision 2026-07-28): `eval` with `background` answers with a task to a client
//! that knows tasks. The task is the run, so it outlives every process; what waits for a person's approval is input that the task requires.

use std::time::Duration;

use dormouse_protocol::{
    ApiError, ErrorCode,
    approval::{Approval, Decide, Verdict},
    run::{Run, RunState},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Failure, code, tools};
use crate::{directory::Key, doors::desk::Desk};

/// The extension, among capabilities.
pub(super) const EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// Where a request says what its client can do.
const CAPABILITIES: &str = "/_meta/io.modelcontextprotocol~1clientCapabilities";
/// How often a client should ask, in milliseconds.
const POLL_MS: u64 = 1_000;
/// Before an approval's id and its epoch, in the key of the request that asks for it: so the answer is about the very call that was shown.
const APPROVAL: &str = "approval-";
/// Before the id of a call, in the id of its task. The others are runs.
const CALL: &str = "call-";
/// What a run waits for.
const WAITS: &str = "the cell waits for a tool, or for somebody's approval";

/// Whether the client of a request knows tasks.
pub(super) fn are_known(params: &Value) -> bool {
    capability(params, "extensions").is_some_and(|extensions| extensions.get(EXTENSION).is_some())
}

fn capability<'a>(params: &'a Value, name: &str) -> Option<&'a Value> {
    params.pointer(CAPABILITIES)?.get(name)
}

/// What a client is told that asks for tasks and does not say that it knows them.
pub(super) fn unknown() -> Failure {
    let wanted = json!({ "requiredCapabilities": wanted() });
    Failure { data: Some(wanted), ..Failure::new(code::MISSING_CAPABILITY, "say among your capabilities that you know tasks") }
}

/// Whether the client of a request can be asked for an approval.
pub(super) fn can_be_asked(params: &Value) -> bool {
    capability(params, "elicitation").is_some()
}

/// What a client is told that calls a tool whose calls are always tasks, and does not know them.
pub(super) fn wanted() -> Value {
    json!({ "extensions": { EXTENSION: {} } })
}

/// The task of a call of a function, in its session.
pub(super) fn of_call(call: &str) -> String {
    format!("{CALL}{call}")
}

/// The call whose task this is.
pub(super) fn call_of(task: &str) -> Option<&str> {
    task.strip_prefix(CALL)
}

/// What `tools/call` answers that has begun a run. `id`: its task's, in the session.
pub(super) fn created(key: &Key, id: &str, run: &Run) -> Value {
    let (status, message) = standing(run);
    let mut task = shown(key, id, (status, &message), (run, run));
    task["resultType"] = json!("task");
    task
}

/// What somebody said who was asked for an approval.
#[derive(Deserialize)]
struct Input {
    action: Action,
    #[serde(default)]
    content: Content,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    Accept,
    Decline,
    /// Somebody closed the question: it stays open.
    Cancel,
}

#[derive(Default, Deserialize)]
struct Content {
    decision: Option<Verdict>,
    reason: Option<String>,
    /// JSON, as somebody may have changed it.
    arguments: Option<String>,
}

/// `tasks/get` of a run. `asks`: whether its client can be asked.
pub(super) async fn get(desk: &Desk, key: &Key, run: &str, asks: bool) -> Result<Value, ApiError> {
    let run = desk.run(key, run, Duration::ZERO).await?;
    show(desk, key, &run, asks).await
}

/// A run as the task that it is.
pub(super) async fn show(desk: &Desk, key: &Key, run: &Run, asks: bool) -> Result<Value, ApiError> {
    let open = if asks && run.state == RunState::Waiting { open(desk, key).await? } else { Vec::new() };
    let (status, message) = if open.is_empty() { standing(run) } else { ("input_required", WAITS.to_owned()) };
    let mut task = shown(key, &run.id, (status, &message), (run, run));
    if status == "completed" {
        let mut result = run.result.as_ref().map_or_else(|| tools::structured(run).unwrap_or_default(), tools::evaluated);
        result["resultType"] = json!("complete");
        task["result"] = result;
    }
    if !open.is_empty() {
        task["inputRequests"] = questions(key, &open).into_iter().collect();
    }
    Ok(task)
}

/// `tasks/update` of a run.
pub(super) async fn update(desk: &Desk, key: &Key, run: &str, said: Map<String, Value>) -> Result<(), ApiError> {
    desk.run(key, run, Duration::ZERO).await?;
    decide(desk, key, said).await
}

/// The calls of a session that wait for a person. Of whoever may not decide about them, nothing is asked.
pub(super) async fn open(desk: &Desk, key: &Key) -> Result<Vec<Approval>, ApiError> {
    match desk.approvals(key).await {
        Ok(list) => Ok(list.items),
        Err(error) if error.code == ErrorCode::Forbidden => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Decides what was asked. What was never asked, or is decided already, is passed over.
pub(super) async fn decide(desk: &Desk, key: &Key, said: Map<String, Value>) -> Result<(), ApiError> {
    for (asked, input) in said {
        let Some((id, epoch)) = asked.strip_prefix(APPROVAL).and_then(|asked| asked.rsplit_once('-')) else { continue };
        let Ok(epoch) = epoch.parse() else { continue };
        let Input { action, content } = serde_json::from_value(input)
            .map_err(|error| ApiError::new(ErrorCode::InvalidRequest, format!("the answer to `{asked}` is none: {error}")))?;
        let decision = match action {
            Action::Accept => content.decision.unwrap_or(Verdict::Approve),
            Action::Decline => Verdict::Deny,
            Action::Cancel => continue,
        };
        let edited = content.arguments.filter(|_| decision == Verdict::Approve);
        let arguments = edited
            .as_deref()
            .map(serde_json::from_str)
            .transpose()
            .map_err(|error| ApiError::new(ErrorCode::InvalidRequest, format!("the arguments of `{asked}` are not JSON: {error}")))?;
        let decide = Decide { decision, reason: content.reason, epoch: Some(epoch), arguments, idempotency_key: None };
        match desk.decide(key, id, decide, &desk.operation()).await {
            Ok(_) => {}
            Err(error) if matches!(error.code, ErrorCode::ApprovalNotFound | ErrorCode::ApprovalUsed | ErrorCode::ApprovalExpired) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// What a run's state is in the words of the extension, and what it is in ours.
pub(super) fn standing(run: &Run) -> (&'static str, String) {
    let (status, message) = match run.state {
        RunState::Queued => ("working", "the cell waits for others of its session"),
        RunState::Running => ("working", "the cell runs"),
        RunState::Waiting => ("working", WAITS),
        RunState::Succeeded => ("completed", "the cell has ended"),
        // A cell that failed has been called: its failure is the tool's answer.
        RunState::Failed => ("completed", "the cell has failed"),
        RunState::Cancelled => ("cancelled", "the run was cancelled"),
        RunState::Unknown => ("working", "the run is in a state of a newer release"),
    };
    let note = run.progress.as_ref().map(|progress| progress.note.as_str()).filter(|note| !note.is_empty());
    (status, note.unwrap_or(message).to_owned())
}

/// A task as the extension shows it: its id in the session, its status with a message, and the first and the last of its runs.
pub(super) fn shown(key: &Key, id: &str, (status, message): (&str, &str), (first, last): (&Run, &Run)) -> Value {
    let updated = last.ended_at.as_ref().or(last.heartbeat_at.as_ref()).or(last.started_at.as_ref()).unwrap_or(&last.created_at);
    json!({
        "taskId": format!("{}/{}/{id}", key.namespace, key.name), "status": status, "statusMessage": message, "createdAt": first.created_at,
        "lastUpdatedAt": updated, "ttlMs": null, "pollIntervalMs": POLL_MS,
    })
}

/// What a person is asked about calls that wait, by names of their own.
pub(super) fn questions(key: &Key, open: &[Approval]) -> Map<String, Value> {
    open.iter().map(|approval| (key_of(approval), question(key, approval))).collect()
}

fn key_of(approval: &Approval) -> String {
    format!("{APPROVAL}{}-{}", approval.id, approval.epoch)
}

/// What a person is asked about a call.
fn question(key: &Key, approval: &Approval) -> Value {
    let Approval { tool_name, args, epoch, expires_at, .. } = approval;
    let message = format!("Session {} wants to call {tool_name} with {args}, in its epoch {epoch}. Until {expires_at}.", key.name);
    let mut fields = json!({
        "decision": { "type": "string", "enum": ["approve", "deny"], "title": "Decision" },
        "reason": { "type": "string", "title": "Reason", "description": "What the code is told of a denial" },
    });
    if approval.editable {
        let said = "JSON with which the call is made in place of its own";
        fields["arguments"] = json!({ "type": "string", "title": "Arguments", "description": said, "default": approval.args.to_string() });
    }
    json!({ "method": "elicitation/create", "params": {
        "mode": "form", "message": message, "requestedSchema": { "type": "object", "required": ["decision"], "properties": fields },
    } })
}
