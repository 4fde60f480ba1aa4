//! Continuity of a model's work: what it set out to do, what is done, and what must not be done again. It is a file of the session, so it is
//! committed, forked and restored with everything else there, and whoever takes the session over finds it.

use dormouse_protocol::{ApiError, ErrorCode};
use serde::Deserialize;
use serde_json::{Value, json};

use self::{
    kept::{ENTRY_BYTES_MAX, Task, change, load, no_task},
    summary::{hint, text},
};
use super::tools::{read, tool};
use crate::doors::desk::Desk;

mod interrupted;
mod kept;
mod summary;

pub(super) use interrupted::{look_at_end, look_at_runs};

/// What a call says of a task. `done`, `mustNotRedo`, `mustPreserve` and `failures` grow; the others are replaced.
#[derive(Debug, Clone, Deserialize)]
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
    /// Why the work is about to be cut off, as its agent knows it.
    interrupted: Option<String>,
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
    let mut update = state;
    let interrupted = "Why you have to stop now, such as a context that is full: makes a checkpoint, and tells whoever comes back";
    update["interrupted"] = json!({ "type": "string", "description": interrupted });
    vec![
        tool(
            "task_start",
            "Write down what you set out to do in a session; answers what failed in earlier tasks, too",
            &["session", "goal"],
            start,
        ),
        tool("task_update", "Write down how the work stands", &["session"], update),
        tool("task_complete", "Close the work", &["session"], json!({ "session": session, "outcome": { "type": "string" } })),
        tool(
            "task_resume",
            "How the work stands, how to go on with it, and what failed in earlier tasks",
            &["session"],
            json!({ "session": session }),
        ),
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
    let now = desk.app.router.clock().now().to_string();
    match name {
        "task_start" => {
            let goal = asked.goal.clone().filter(|goal| !goal.trim().is_empty());
            let goal = goal.ok_or_else(|| ApiError::new(ErrorCode::InvalidRequest, "goal: say what is to be done"))?;
            let tasks = change(desk, &key, |tasks| {
                if let Some(left) = tasks.current.take() {
                    tasks.close(left, "another task was started");
                }
                let mut task = Task { goal: goal.clone(), started_at: now.clone(), ..Task::default() };
                update(&mut task, asked.clone(), &now)?;
                tasks.current = Some(task);
                Ok(())
            });
            let tasks = tasks.await?;
            Ok(json!({ "task": tasks.current, "pastFailures": tasks.past_failures() }))
        }
        "task_update" => {
            let reason = asked.interrupted.as_deref().map(reason).transpose()?;
            let tasks = change(desk, &key, |tasks| update(tasks.current.as_mut().ok_or_else(no_task)?, asked.clone(), &now)).await?;
            let Some(reason) = reason else { return Ok(json!({ "task": tasks.current })) };
            // What is put aside has what was just written down.
            let tasks = interrupted::say(desk, &key, &now, reason).await?;
            Ok(json!({ "task": tasks.current, "hint": hint(&tasks) }))
        }
        "task_complete" => {
            let tasks = change(desk, &key, |tasks| {
                let mut task = tasks.current.take().ok_or_else(no_task)?;
                task.updated_at.clone_from(&now);
                tasks.close(task, asked.outcome.as_deref().unwrap_or("completed"));
                Ok(())
            });
            Ok(json!({ "task": tasks.await?.history.last() }))
        }
        "task_resume" => {
            let runs = desk.runs(&key, None, None).await?.items;
            // Who comes back may be the first to see what was cut off.
            look_at_runs(desk, &key, &runs).await;
            let tasks = load(desk, &key).await?.0;
            let open: Vec<_> =
                runs.iter().filter(|run| !run.state.is_end()).map(|run| json!({ "run": run.id, "state": run.state })).collect();
            Ok(json!({
                "task": tasks.current, "hint": hint(&tasks), "openRuns": open, "pastFailures": tasks.past_failures(),
            }))
        }
        "task_handoff" => {
            let tasks = load(desk, &key).await?.0;
            let task = tasks.current.as_ref().ok_or_else(no_task)?;
            let checkpoint = desk.checkpoint(&key, "handoff").await?;
            Ok(json!({ "task": task, "checkpoint": checkpoint.id, "text": text(&asked.session, task) }))
        }
        "task_history" => Ok(json!({ "tasks": load(desk, &key).await?.0.history })),
        other => Err(ApiError::new(ErrorCode::ToolNotFound, format!("there is no tool `{other}`: list the tools"))),
    }
}

/// Why the work is cut off.
fn reason(said: &str) -> Result<&str, ApiError> {
    if said.trim().is_empty() || said.len() > ENTRY_BYTES_MAX {
        return Err(ApiError::new(ErrorCode::InvalidRequest, format!("interrupted: say why, in at most {ENTRY_BYTES_MAX} bytes")));
    }
    Ok(said)
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
    task.fits()
}
