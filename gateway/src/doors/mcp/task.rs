//! Continuity of a model's work: what it set out to do, what is done, and what must not be done again. It is a file of the session, so it is
//! committed, forked and restored with everything else there, and whoever takes the session over finds it.

use bytes::Bytes;
use dormouse_protocol::{ApiError, ErrorCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::tools::{read, tool};
use crate::{directory::Key, doors::desk::Desk};

/// Where tasks are kept in a session.
const PATH: &str = "/.dormouse/tasks.json";
/// Tasks that have ended and are kept.
const HISTORY_MAX: usize = 50;
/// Entries of one list of a task.
const ENTRIES_MAX: usize = 500;
/// Bytes of one entry.
const ENTRY_BYTES_MAX: usize = 4 << 10;

/// What is kept.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tasks {
    current: Option<Task>,
    history: Vec<Task>,
}

/// A piece of work.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Task {
    goal: String,
    done: Vec<String>,
    in_progress: Vec<String>,
    blocked: Vec<String>,
    must_not_redo: Vec<String>,
    must_preserve: Vec<String>,
    failures: Vec<String>,
    started_at: String,
    updated_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outcome: Option<String>,
}

/// What a call says of a task. `done`, `mustNotRedo`, `mustPreserve` and `failures` grow; the others are replaced.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Asked {
    session: String,
    goal: Option<String>,
    #[serde(default)]
    done: Vec<String>,
    in_progress: Option<Vec<String>>,
    blocked: Option<Vec<String>>,
    #[serde(default)]
    must_not_redo: Vec<String>,
    #[serde(default)]
    must_preserve: Vec<String>,
    #[serde(default)]
    failures: Vec<String>,
    outcome: Option<String>,
}

pub(super) fn tools() -> Vec<Value> {
    let session = json!({ "type": "string", "description": "The session's name" });
    let list = |what: &str| json!({ "type": "array", "items": { "type": "string" }, "description": what });
    let state = json!({
        "session": session, "done": list("Steps that are finished, to be added"), "inProgress": list("What is under way now"),
        "blocked": list("What waits, and for what"), "mustNotRedo": list("Effects that must not happen twice, to be added"),
        "mustPreserve": list("What has to stay as it is, to be added"), "failures": list("What was tried and failed, to be added"),
    });
    let mut start = state.clone();
    start["goal"] = json!({ "type": "string" });
    vec![
        tool("task_start", "Write down what you set out to do in a session", &["session", "goal"], start),
        tool("task_update", "Write down how the work stands", &["session"], state),
        tool("task_complete", "Close the work", &["session"], json!({ "session": session, "outcome": { "type": "string" } })),
        tool("task_resume", "How the work stands, and how to go on with it", &["session"], json!({ "session": session })),
        tool(
            "task_handoff",
            "The same as a text for whoever takes over, with a checkpoint of the session",
            &["session"],
            json!({ "session": session }),
        ),
        tool("task_history", "Work that was closed", &["session"], json!({ "session": session })),
    ]
}

pub(super) async fn call(desk: &Desk, name: &str, arguments: Value) -> Result<Value, ApiError> {
    let asked: Asked = read(arguments)?;
    let key = desk.key(&asked.session)?;
    let mut tasks = load(desk, &key).await?;
    let now = desk.app.router.clock().now().to_string();
    match name {
        "task_start" => {
            let goal = asked.goal.clone().filter(|goal| !goal.trim().is_empty());
            let goal = goal.ok_or_else(|| ApiError::new(ErrorCode::InvalidRequest, "goal: say what is to be done"))?;
            if let Some(left) = tasks.current.take() {
                close(&mut tasks, left, "another task was started");
            }
            let mut task = Task { goal, started_at: now.clone(), ..Task::default() };
            update(&mut task, asked, &now)?;
            tasks.current = Some(task);
            save(desk, &key, &tasks).await?;
            Ok(json!({ "task": tasks.current }))
        }
        "task_update" => {
            let task = tasks.current.as_mut().ok_or_else(no_task)?;
            update(task, asked, &now)?;
            save(desk, &key, &tasks).await?;
            Ok(json!({ "task": tasks.current }))
        }
        "task_complete" => {
            let mut task = tasks.current.take().ok_or_else(no_task)?;
            task.updated_at = now;
            close(&mut tasks, task, asked.outcome.as_deref().unwrap_or("completed"));
            save(desk, &key, &tasks).await?;
            Ok(json!({ "task": tasks.history.last() }))
        }
        "task_resume" => {
            let runs = desk.runs(&key).await?;
            let open: Vec<_> =
                runs.items.iter().filter(|run| !run.state.is_end()).map(|run| json!({ "run": run.id, "state": run.state })).collect();
            Ok(json!({ "task": tasks.current, "hint": hint(tasks.current.as_ref()), "openRuns": open }))
        }
        "task_handoff" => {
            let task = tasks.current.as_ref().ok_or_else(no_task)?;
            let checkpoint = desk.checkpoint(&key, "handoff").await?;
            Ok(json!({ "task": task, "checkpoint": checkpoint.id, "text": text(&asked.session, task) }))
        }
        "task_history" => Ok(json!({ "tasks": tasks.history })),
        other => Err(ApiError::new(ErrorCode::ToolNotFound, format!("there is no tool `{other}`: list the tools"))),
    }
}

fn no_task() -> ApiError {
    ApiError::new(ErrorCode::Conflict, "no task is open in this session: start one with task_start")
}

fn close(tasks: &mut Tasks, task: Task, outcome: &str) {
    tasks.history.push(Task { outcome: Some(outcome.to_owned()), ..task });
    let over = tasks.history.len().saturating_sub(HISTORY_MAX);
    tasks.history.drain(..over);
}

fn update(task: &mut Task, asked: Asked, now: &str) -> Result<(), ApiError> {
    let grown = [
        (&mut task.done, asked.done),
        (&mut task.must_not_redo, asked.must_not_redo),
        (&mut task.must_preserve, asked.must_preserve),
        (&mut task.failures, asked.failures),
    ];
    for (list, more) in grown {
        for entry in more {
            if !list.contains(&entry) {
                list.push(entry);
            }
        }
    }
    if let Some(now_under_way) = asked.in_progress {
        task.in_progress = now_under_way;
    }
    if let Some(blocked) = asked.blocked {
        task.blocked = blocked;
    }
    now.clone_into(&mut task.updated_at);
    let lists = [&task.done, &task.in_progress, &task.blocked, &task.must_not_redo, &task.must_preserve, &task.failures];
    if task.goal.len() > ENTRY_BYTES_MAX
        || lists.iter().any(|list| list.len() > ENTRIES_MAX || list.iter().any(|entry| entry.len() > ENTRY_BYTES_MAX))
    {
        let message =
            format!("a list of a task has at most {ENTRIES_MAX} entries of at most {ENTRY_BYTES_MAX} bytes: put details into a file");
        return Err(ApiError::new(ErrorCode::InvalidRequest, message));
    }
    Ok(())
}

/// What to do first, for whoever comes back.
fn hint(task: Option<&Task>) -> String {
    let Some(task) = task else { return "no task is open in this session".to_owned() };
    let mut hint = format!("Goal: {}. ", task.goal);
    match task.in_progress.first() {
        Some(step) => hint.push_str(&format!("Under way when it was left: {step}. Look whether it was done before you do it again. ")),
        None => hint.push_str("Nothing was under way when it was left. "),
    }
    if !task.must_not_redo.is_empty() {
        hint.push_str(&format!("Do not do again: {}. ", task.must_not_redo.join("; ")));
    }
    if let Some(failure) = task.failures.last() {
        hint.push_str(&format!("Last failure: {failure}. "));
    }
    hint.push_str("The session's variables and files are as they were.");
    hint
}

fn text(session: &str, task: &Task) -> String {
    let mut text = format!("# {}\n\nSession: {session}\n", task.goal);
    let lists = [
        ("Done", &task.done),
        ("In progress", &task.in_progress),
        ("Blocked", &task.blocked),
        ("Must not be done again", &task.must_not_redo),
        ("Must stay as it is", &task.must_preserve),
        ("Failed before", &task.failures),
    ];
    for (title, entries) in lists.iter().filter(|(_, entries)| !entries.is_empty()) {
        text.push_str(&format!("\n## {title}\n"));
        entries.iter().for_each(|entry| text.push_str(&format!("- {entry}\n")));
    }
    text
}

async fn load(desk: &Desk, key: &Key) -> Result<Tasks, ApiError> {
    match desk.read_file(key, PATH).await {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
            ApiError::new(ErrorCode::Conflict, format!("{PATH} of the session is not what it was: {error}; mend or remove it"))
        }),
        Err(error) if error.code == ErrorCode::FileNotFound => Ok(Tasks::default()),
        Err(error) => Err(error),
    }
}

async fn save(desk: &Desk, key: &Key, tasks: &Tasks) -> Result<(), ApiError> {
    let bytes = serde_json::to_vec_pretty(tasks).map_err(|error| ApiError::new(ErrorCode::Internal, error.to_string()))?;
    desk.write_file(key, PATH, Bytes::from(bytes)).await.map(drop)
}
