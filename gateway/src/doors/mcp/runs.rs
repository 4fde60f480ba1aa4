//! Runs as tasks of MCP's extension `io.modelcontextprotocol/tasks` (revision 2026-07-28): `eval` with `background` answers with a task to a client
//! that knows tasks. The task is the run, so it outlives every process; what waits for a person's approval is input that the task requires.

use std::{collections::BTreeMap, time::Duration};

use dormouse_protocol::{
    ApiError, ErrorCode,
    approval::{Approval, Decide, Verdict},
    run::{Run, RunState},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Failure, code, of_api, tools};
use crate::{directory::Key, doors::desk::Desk};

/// The extension, among capabilities.
pub(super) const EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// Where a request says what its client can do.
const CAPABILITIES: &str = "/_meta/io.modelcontextprotocol~1clientCapabilities";
/// How often a client should ask, in milliseconds.
const POLL_MS: u64 = 1_000;
/// Before an approval's id and its epoch, in the key of the request that asks for it: so the answer is about the very call that was shown.
const APPROVAL: &str = "approval-";

/// Whether the client of a request knows tasks.
pub(super) fn are_known(params: &Value) -> bool {
    capability(params, "extensions").is_some_and(|extensions| extensions.get(EXTENSION).is_some())
}

fn capability<'a>(params: &'a Value, name: &str) -> Option<&'a Value> {
    params.pointer(CAPABILITIES)?.get(name)
}

/// What a client is told that asks for tasks and does not say that it knows them.
pub(super) fn unknown() -> Failure {
    let wanted = json!({ "requiredCapabilities": { "extensions": { EXTENSION: {} } } });
    Failure { data: Some(wanted), ..Failure::new(code::MISSING_CAPABILITY, "say among your capabilities that you know tasks") }
}

/// What `tools/call` answers that has begun a run.
pub(super) fn created(key: &Key, run: &Run) -> Value {
    let mut task = task(key, run, &[]);
    task["resultType"] = json!("task");
    // A result is what `tasks/get` brings.
    if let Some(task) = task.as_object_mut() {
        task.remove("result");
    }
    task
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Of {
    task_id: String,
    #[serde(default)]
    input_responses: BTreeMap<String, Input>,
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

/// `tasks/get`, `tasks/update` and `tasks/cancel`.
pub(super) async fn answer(desk: &Desk, method: &str, params: Value) -> Result<Value, Failure> {
    let asks = capability(&params, "elicitation").is_some();
    let of: Of = serde_json::from_value(params).map_err(|error| Failure::new(code::INVALID_PARAMS, error.to_string()))?;
    let mut parts = of.task_id.splitn(3, '/');
    let (Some(namespace), Some(session), Some(run)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(Failure::new(code::INVALID_PARAMS, format!("there is no task `{}`", of.task_id)));
    };
    let desk = Desk { namespace: namespace.to_owned(), ..desk.clone() };
    let done = async {
        let key = desk.key(session)?;
        match method {
            "tasks/cancel" => desk.cancel_run(&key, run).await.map(|_| json!({})),
            "tasks/update" => update(&desk, &key, run, of.input_responses).await.map(|()| json!({})),
            _ => {
                let run = desk.run(&key, run, Duration::ZERO).await?;
                let open = if asks && run.state == RunState::Waiting { open(&desk, &key).await? } else { Vec::new() };
                Ok(task(&key, &run, &open))
            }
        }
    };
    done.await.map_err(|error| match error.code {
        ErrorCode::SessionNotFound | ErrorCode::RunNotFound => Failure { code: code::INVALID_PARAMS, ..of_api(&error) },
        _ => of_api(&error),
    })
}

/// The calls of a session that wait for a person. Of whoever may not decide about them, nothing is asked.
async fn open(desk: &Desk, key: &Key) -> Result<Vec<Approval>, ApiError> {
    match desk.approvals(key).await {
        Ok(list) => Ok(list.items),
        Err(error) if error.code == ErrorCode::Forbidden => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Decides what was asked. What was never asked, or is decided already, is passed over.
async fn update(desk: &Desk, key: &Key, run: &str, said: BTreeMap<String, Input>) -> Result<(), ApiError> {
    desk.run(key, run, Duration::ZERO).await?;
    for (asked, Input { action, content }) in said {
        let Some((id, epoch)) = asked.strip_prefix(APPROVAL).and_then(|asked| asked.rsplit_once('-')) else { continue };
        let Ok(epoch) = epoch.parse() else { continue };
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

/// A run as the extension shows it.
fn task(key: &Key, run: &Run, open: &[Approval]) -> Value {
    let status = match run.state {
        RunState::Waiting if !open.is_empty() => "input_required",
        RunState::Queued | RunState::Running | RunState::Waiting | RunState::Unknown => "working",
        RunState::Cancelled => "cancelled",
        // A cell that failed has been called: its failure is the tool's answer.
        RunState::Succeeded | RunState::Failed => "completed",
    };
    let message = match run.state {
        RunState::Queued => "the cell waits for others of its session",
        RunState::Running => "the cell runs",
        RunState::Waiting => "the cell waits for a tool, or for somebody's approval",
        RunState::Succeeded => "the cell has ended",
        RunState::Failed => "the cell has failed",
        RunState::Cancelled => "the run was cancelled",
        RunState::Unknown => "the run is in a state of a newer release",
    };
    let updated = run.ended_at.as_ref().or(run.heartbeat_at.as_ref()).or(run.started_at.as_ref()).unwrap_or(&run.created_at);
    let mut task = json!({
        "taskId": format!("{}/{}/{}", key.namespace, key.name, run.id), "status": status, "statusMessage": message, "createdAt": run.created_at,
        "lastUpdatedAt": updated, "ttlMs": null, "pollIntervalMs": POLL_MS,
    });
    if status == "completed" {
        let mut result = run.result.as_ref().map_or_else(|| tools::structured(run).unwrap_or_default(), tools::evaluated);
        result["resultType"] = json!("complete");
        task["result"] = result;
    }
    if status == "input_required" {
        task["inputRequests"] = open.iter().map(|approval| (key_of(approval), question(key, approval))).collect();
    }
    task
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
