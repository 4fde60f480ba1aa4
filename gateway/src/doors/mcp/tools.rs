//! The tools: what a model may call, and what each does at its caller's desk.

use std::{sync::LazyLock, time::Duration};

use base64::Engine as _;
use bytes::Bytes;
use dormouse_crds::session::KernelSessionSpec;
use dormouse_protocol::{
    ApiError, ErrorCode,
    eval::{EvalRequest, EvalResult},
    file::Preconditions,
    history::ForkSession,
    run::WAIT_SECONDS_MAX,
    session::{CreateSession, Session},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    runs, task,
    told::{self, Told},
};
use crate::{doors::desk::Desk, service::Existing};

static TOOLS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let session = json!({ "type": "string", "description": "The session's name" });
    let mut tools = vec![
        tool(
            "session_create",
            "Make a session, or get the one that has the name",
            &[],
            json!({
                "name": { "type": "string", "description": "A DNS label; made up when absent" },
                "spec": { "type": "object", "description": "As KernelSession.spec: limits, idleSeconds, toolBrokerRef, egress, modules, ..." },
            }),
        ),
        tool(
            "session_list",
            "List sessions",
            &[],
            json!({
                "labelSelector": { "type": "string" }, "limit": { "type": "integer" }, "continue": { "type": "string" },
            }),
        ),
        tool("session_get", "What a session is doing", &["session"], json!({ "session": session })),
        tool("session_hibernate", "Put a session to sleep now; the next cell wakes it", &["session"], json!({ "session": session })),
        tool(
            "session_delete",
            "Delete a session and everything that is stored of it, for ever",
            &["session"],
            json!({ "session": session }),
        ),
        tool(
            "session_checkpoint",
            "Put the present state aside under a label",
            &["session", "label"],
            json!({
                "session": session, "label": { "type": "string" },
            }),
        ),
        tool(
            "session_restore",
            "Take a session back to a checkpoint",
            &["session", "checkpoint"],
            json!({
                "session": session, "checkpoint": { "type": "string", "description": "Its id or label" },
            }),
        ),
        tool(
            "session_fork",
            "Make a session that begins as what this one is, or was at a checkpoint",
            &["session", "name"],
            json!({
                "session": session, "name": { "type": "string", "description": "Of the new session" }, "checkpoint": { "type": "string" },
            }),
        ),
        tool(
            "eval",
            "Run a cell of TypeScript. Its last expression is the value; top-level await works; variables stay for later cells",
            &["session", "code"],
            json!({
                "session": session,
                "code": { "type": "string" },
                "timeoutMs": { "type": "integer", "description": "Of running code; at most the session's limit" },
                "background": { "type": "boolean", "description": "Do not wait: answers with a run, see run_get" },
                "idempotencyKey": { "type": "string", "description": "The same key runs nothing again and gets the first answer" },
            }),
        ),
        tool(
            "run_get",
            "What has become of a run",
            &["session", "run"],
            json!({
                "session": session, "run": { "type": "string" },
                "waitSeconds": { "type": "integer", "minimum": 0, "maximum": WAIT_SECONDS_MAX, "description": "Wait for its end" },
            }),
        ),
        tool("run_cancel", "End a run", &["session", "run"], json!({ "session": session, "run": { "type": "string" } })),
        tool(
            "file_list",
            "List the files of a session",
            &["session"],
            json!({
                "session": session, "path": { "type": "string", "description": "A directory; / when absent" }, "recursive": { "type": "boolean" },
            }),
        ),
        tool(
            "file_read",
            "Read a file of at most 4 MiB. What is no text comes as base64",
            &["session", "path"],
            json!({
                "session": session, "path": { "type": "string" },
            }),
        ),
        tool(
            "file_write",
            "Write a file, with the directories above it",
            &["session", "path"],
            json!({
                "session": session, "path": { "type": "string" },
                "text": { "type": "string" }, "base64": { "type": "string", "description": "In place of text" },
            }),
        ),
    ];
    tools.extend(task::tools());
    tools
});

/// All of them.
pub(super) fn all() -> &'static Vec<Value> {
    &TOOLS
}

/// A tool whose answer is an object.
pub(super) fn tool(name: &str, description: &str, required: &[&str], properties: Value) -> Value {
    json!({
        "name": name, "description": description, "outputSchema": { "type": "object" },
        "inputSchema": { "type": "object", "properties": properties, "required": required, "additionalProperties": false },
    })
}

/// Arguments, refused with the path of the field that does not fit.
pub(super) fn read<T: DeserializeOwned>(arguments: Value) -> Result<T, ApiError> {
    serde_path_to_error::deserialize(arguments).map_err(|error| {
        let path = error.path().to_string();
        ApiError::new(ErrorCode::InvalidRequest, format!("{path}: {}", error.inner())).with_detail("path", path)
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Of {
    session: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Create {
    name: Option<String>,
    #[serde(default)]
    spec: KernelSessionSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct List {
    #[serde(default)]
    label_selector: String,
    limit: Option<usize>,
    r#continue: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Eval {
    session: String,
    code: String,
    timeout_ms: Option<u64>,
    #[serde(default)]
    background: bool,
    idempotency_key: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct OfRun {
    session: String,
    run: String,
    #[serde(default)]
    wait_seconds: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfFile {
    session: String,
    #[serde(default)]
    path: String,
    #[serde(default)]
    recursive: bool,
    text: Option<String>,
    base64: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Past {
    session: String,
    label: Option<String>,
    checkpoint: Option<String>,
    name: Option<String>,
}

/// Calls a tool. To a client that knows `tasks`, what it does not wait for is one; one that is `told` hears of a cell's progress.
pub(super) async fn call(desk: &Desk, name: &str, arguments: Value, tasks: bool, told: Option<&Told>) -> Result<Value, ApiError> {
    if name.starts_with("session_") {
        return of_session(desk, name, arguments).await;
    }
    if name.starts_with("task_") {
        return Ok(done(task::call(desk, name, arguments).await?));
    }
    match name {
        "eval" => {
            let asked: Eval = read(arguments)?;
            let key = desk.key(&asked.session)?;
            let eval = EvalRequest {
                code: asked.code,
                timeout_ms: asked.timeout_ms,
                idempotency_key: asked.idempotency_key,
                ..EvalRequest::default()
            };
            if asked.background {
                let run = desk.accept_run(&key, eval).await?;
                return if tasks { Ok(runs::created(&key, &run.id, &run)) } else { structured(&run) };
            }
            let ended = told::eval(desk, &key, eval, told).await;
            task::look_at_end(desk, &key, &ended).await;
            Ok(evaluated(&ended?.0))
        }
        "run_get" => {
            let asked: OfRun = read(arguments)?;
            let wait = Duration::from_secs(asked.wait_seconds.min(WAIT_SECONDS_MAX));
            structured(&desk.run(&desk.key(&asked.session)?, &asked.run, wait).await?)
        }
        "run_cancel" => {
            let asked: OfRun = read(arguments)?;
            let key = desk.key(&asked.session)?;
            let run = desk.cancel_run(&key, &asked.run).await?;
            task::look_at_runs(desk, &key, std::slice::from_ref(&run)).await;
            structured(&run)
        }
        "file_list" => {
            let asked: OfFile = read(arguments)?;
            structured(&desk.files(&desk.key(&asked.session)?, &asked.path, asked.recursive).await?)
        }
        "file_read" => {
            let asked: OfFile = read(arguments)?;
            let content = desk.read_file(&desk.key(&asked.session)?, &asked.path).await?;
            Ok(done(match String::from_utf8(content.to_vec()) {
                Ok(text) => json!({ "path": asked.path, "text": text }),
                Err(binary) => {
                    json!({ "path": asked.path, "base64": base64::engine::general_purpose::STANDARD.encode(binary.as_bytes()) })
                }
            }))
        }
        "file_write" => {
            let asked: OfFile = read(arguments)?;
            let content = match (asked.text, asked.base64) {
                (Some(text), None) => Bytes::from(text),
                (None, Some(base64)) => {
                    let decoded = base64::engine::general_purpose::STANDARD.decode(base64);
                    Bytes::from(decoded.map_err(|error| ApiError::new(ErrorCode::InvalidRequest, format!("base64: {error}")))?)
                }
                _ => return Err(ApiError::new(ErrorCode::InvalidRequest, "send `text` or `base64`, and one of them")),
            };
            structured(&desk.write_file(&desk.key(&asked.session)?, &asked.path, Preconditions::default(), content).await?)
        }
        other => Err(ApiError::new(ErrorCode::ToolNotFound, format!("there is no tool `{other}`: list the tools"))),
    }
}

async fn of_session(desk: &Desk, name: &str, arguments: Value) -> Result<Value, ApiError> {
    match name {
        "session_create" => {
            let asked: Create = read(arguments)?;
            let body = CreateSession { name: asked.name, spec: asked.spec, ..CreateSession::default() };
            structured(&shown(desk.create(body, Existing::Return).await?))
        }
        "session_list" => {
            let asked: List = read(arguments)?;
            let page = desk.list(asked.limit, asked.r#continue.as_deref(), &asked.label_selector).await?;
            let items: Vec<_> = page.items.into_iter().map(shown).collect();
            Ok(done(json!({ "items": items, "continue": page.continue_token })))
        }
        "session_get" => {
            let asked: Of = read(arguments)?;
            structured(&shown(desk.get(&desk.key(&asked.session)?).await?))
        }
        "session_hibernate" => {
            let asked: Of = read(arguments)?;
            structured(&shown(desk.hibernate(&desk.key(&asked.session)?).await?))
        }
        "session_delete" => {
            let asked: Of = read(arguments)?;
            desk.delete(&desk.key(&asked.session)?).await?;
            Ok(done(json!({ "deleted": asked.session })))
        }
        "session_checkpoint" => {
            let asked: Past = read(arguments)?;
            structured(&desk.checkpoint(&desk.key(&asked.session)?, &asked.label.unwrap_or_default()).await?)
        }
        "session_restore" => {
            let asked: Past = read(arguments)?;
            let checkpoint = asked.checkpoint.unwrap_or_default();
            structured(&shown(desk.restore(&desk.key(&asked.session)?, &checkpoint, &desk.operation()).await?))
        }
        "session_fork" => {
            let asked: Past = read(arguments)?;
            let fork = ForkSession { name: asked.name.unwrap_or_default(), checkpoint: asked.checkpoint };
            structured(&shown(desk.fork(&desk.key(&asked.session)?, fork).await?))
        }
        other => Err(ApiError::new(ErrorCode::ToolNotFound, format!("there is no tool `{other}`: list the tools"))),
    }
}

/// A session without what a model has no use for.
fn shown(session: Session) -> Value {
    json!({
        "name": session.name, "namespace": session.namespace, "id": session.id, "state": session.state, "labels": session.labels,
        "spec": session.spec, "url": session.url,
    })
}

pub(super) fn structured(value: &impl serde::Serialize) -> Result<Value, ApiError> {
    let value = serde_json::to_value(value).map_err(|error| ApiError::new(ErrorCode::Internal, error.to_string()))?;
    Ok(done(value))
}

/// A tool's answer: for programs, and the same as text for those that read only that.
fn done(value: Value) -> Value {
    json!({ "content": [{ "type": "text", "text": value.to_string() }], "structuredContent": value, "isError": false })
}

/// A failure of ours.
pub(super) fn failed(error: &ApiError) -> Value {
    let text = format!("{}: {}", error.code, error.message);
    json!({ "content": [{ "type": "text", "text": text }], "structuredContent": { "error": error }, "isError": true })
}

/// A cell's answer: whole for programs, and as a person reads it for a model.
pub(super) fn evaluated(result: &EvalResult) -> Value {
    let mut text: String = result.console.iter().map(|line| format!("{}\n", line.text)).collect();
    match &result.error {
        Some(error) if error.stack.is_empty() => text.push_str(&format!("{}: {}", error.name, error.message)),
        Some(error) => text.push_str(&format!("{}: {}\n{}", error.name, error.message, error.stack)),
        None => text.push_str(&result.preview),
    }
    let whole = serde_json::to_value(result).unwrap_or_default();
    json!({ "content": [{ "type": "text", "text": text }], "structuredContent": whole, "isError": !result.ok })
}
