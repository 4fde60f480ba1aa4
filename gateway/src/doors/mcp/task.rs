//! Continuity of a model's work: what it set out to do, what is done, and what must not be done again. It is a file of the session, so it is
//! committed, forked and restored with everything else there, and whoever takes the session over finds it.

use bytes::Bytes;
use dormouse_protocol::{
    ApiError, ErrorCode,
    eval::EvalResult,
    file::Preconditions,
    run::{Run, RunState},
};
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
/// Interruptions of a task that are kept, the last ones.
const INTERRUPTIONS_MAX: usize = 20;
/// Times that a change is made to what others have written meanwhile. Each time that it fails another one has succeeded.
const TRIES_MAX: usize = 16;
/// The label of the state that was there after the last interruption.
const INTERRUPTED: &str = "interrupted";

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
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    interruptions: Vec<Interruption>,
    started_at: String,
    updated_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outcome: Option<String>,
}

/// A cell that was cut off while the task was open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Interruption {
    /// The run or the cell, and what became of it.
    what: String,
    at: String,
    /// Id of the checkpoint that holds what was there behind it, if that could be made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    checkpoint: Option<String>,
}

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
    let now = desk.app.router.clock().now().to_string();
    match name {
        "task_start" => {
            let goal = asked.goal.clone().filter(|goal| !goal.trim().is_empty());
            let goal = goal.ok_or_else(|| ApiError::new(ErrorCode::InvalidRequest, "goal: say what is to be done"))?;
            let tasks = change(desk, &key, |tasks| {
                if let Some(left) = tasks.current.take() {
                    close(tasks, left, "another task was started");
                }
                let mut task = Task { goal: goal.clone(), started_at: now.clone(), ..Task::default() };
                update(&mut task, asked.clone(), &now)?;
                tasks.current = Some(task);
                Ok(())
            });
            Ok(json!({ "task": tasks.await?.current }))
        }
        "task_update" => {
            let tasks = change(desk, &key, |tasks| update(tasks.current.as_mut().ok_or_else(no_task)?, asked.clone(), &now));
            Ok(json!({ "task": tasks.await?.current }))
        }
        "task_complete" => {
            let tasks = change(desk, &key, |tasks| {
                let mut task = tasks.current.take().ok_or_else(no_task)?;
                task.updated_at.clone_from(&now);
                close(tasks, task, asked.outcome.as_deref().unwrap_or("completed"));
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
            Ok(json!({ "task": tasks.current, "hint": hint(tasks.current.as_ref()), "openRuns": open }))
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

/// Looks whether a cell that was waited for was cut off, and if so, takes it down in the open task.
pub(super) async fn look_at_end<T>(desk: &Desk, key: &Key, ended: &Result<(EvalResult, T), ApiError>) {
    let (cell, code) = match ended {
        Ok((result, _)) => (format!("cell {}", result.cell), result.error.as_ref().map(|error| error.code)),
        Err(error) => ("a cell".to_owned(), Some(error.code)),
    };
    if let Some(code) = code.filter(|code| is_cut_off(*code)) {
        take_down(desk, key, vec![format!("{cell} ended with {code}")]).await;
    }
}

/// The same of runs.
pub(super) async fn look_at_runs(desk: &Desk, key: &Key, runs: &[Run]) {
    let cut_off = runs.iter().filter_map(|run| {
        let code = run.result.as_ref().and_then(|result| result.error.as_ref()).map(|error| error.code);
        match run.state {
            RunState::Cancelled => Some(format!("run {} was cancelled", run.id)),
            RunState::Failed => code.filter(|code| is_cut_off(*code)).map(|code| format!("run {} ended with {code}", run.id)),
            _ => None,
        }
        .map(|what| (run.ended_at.clone().unwrap_or_default(), what))
    });
    let mut cut_off: Vec<_> = cut_off.collect();
    cut_off.sort();
    if !cut_off.is_empty() {
        take_down_since(desk, key, cut_off).await;
    }
}

/// Whether a cell that ends so was cut off by something other than its own code.
fn is_cut_off(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::Interrupted | ErrorCode::SessionGone | ErrorCode::OutcomeUnknown | ErrorCode::Internal)
}

async fn take_down(desk: &Desk, key: &Key, what: Vec<String>) {
    let now = desk.app.router.clock().now().to_string();
    take_down_since(desk, key, what.into_iter().map(|what| (now.clone(), what)).collect()).await;
}

/// Takes down what was cut off, each with its time. The answer to the cell does not wait for its success: who comes back finds what is missing, and a
/// failure is in the log.
async fn take_down_since(desk: &Desk, key: &Key, cut_off: Vec<(String, String)>) {
    if let Err(error) = note(desk, key, &cut_off).await {
        tracing::info!(session = %key, %error, "a task does not know that it was interrupted");
    }
}

/// Whether a task does not know yet what was cut off since it was begun.
fn is_new(task: &Task, (at, what): &(String, String)) -> bool {
    let time = |at: &str| at.parse::<jiff::Timestamp>().ok();
    time(at) >= time(&task.started_at) && task.interruptions.iter().all(|known| (&known.at, &known.what) != (at, what))
}

/// Notes in the open task what is new to it, and puts the state aside that is there now.
async fn note(desk: &Desk, key: &Key, cut_off: &[(String, String)]) -> Result<(), ApiError> {
    let tasks = load(desk, key).await?.0;
    let Some(task) = tasks.current.filter(|task| cut_off.iter().any(|it| is_new(task, it))) else { return Ok(()) };
    let checkpoint = desk.checkpoint(key, INTERRUPTED).await;
    let checkpoint = checkpoint.inspect_err(|error| tracing::info!(session = %key, %error, "an interrupted task has no checkpoint"));
    let checkpoint = checkpoint.ok().map(|checkpoint| checkpoint.id);
    let noted = change(desk, key, |tasks| {
        // Another task than the one that was interrupted knows nothing of it.
        let Some(now) = tasks.current.as_mut().filter(|now| now.started_at == task.started_at) else { return Ok(()) };
        for it in cut_off {
            if !is_new(now, it) {
                continue;
            }
            now.interruptions.push(Interruption { at: it.0.clone(), what: it.1.clone(), checkpoint: checkpoint.clone() });
        }
        let over = now.interruptions.len().saturating_sub(INTERRUPTIONS_MAX);
        now.interruptions.drain(..over);
        Ok(())
    });
    noted.await.map(drop)
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
    for it in &task.interruptions {
        let checkpoint = it.checkpoint.as_ref().map(|id| format!(" (the state behind it is checkpoint {id})")).unwrap_or_default();
        hint.push_str(&format!("Cut off at {}: {}{checkpoint}. ", it.at, it.what));
    }
    let lists = [
        ("Blocked", &task.blocked),
        ("Do not do again", &task.must_not_redo),
        ("Keep as it is", &task.must_preserve),
        ("Failed before", &task.failures),
    ];
    for (title, entries) in lists.iter().filter(|(_, entries)| !entries.is_empty()) {
        hint.push_str(&format!("{title}: {}. ", entries.join("; ")));
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
    if !task.interruptions.is_empty() {
        text.push_str("\n## Cut off\n");
        task.interruptions.iter().for_each(|it| text.push_str(&format!("- {}: {}\n", it.at, it.what)));
    }
    text
}

/// What is written down, and the file's tag.
async fn load(desk: &Desk, key: &Key) -> Result<(Tasks, Option<String>), ApiError> {
    match desk.read_tagged(key, PATH).await {
        Ok((bytes, tag)) => serde_json::from_slice(&bytes).map(|tasks| (tasks, tag)).map_err(|error| {
            ApiError::new(ErrorCode::Conflict, format!("{PATH} of the session is not what it was: {error}; mend or remove it"))
        }),
        Err(error) if error.code == ErrorCode::FileNotFound => Ok((Tasks::default(), None)),
        Err(error) => Err(error),
    }
}

/// Changes what is written down: to what is there when it is written, whoever has written meanwhile.
async fn change(desk: &Desk, key: &Key, change: impl Fn(&mut Tasks) -> Result<(), ApiError>) -> Result<Tasks, ApiError> {
    for _ in 0..TRIES_MAX {
        let (mut tasks, tag) = load(desk, key).await?;
        change(&mut tasks)?;
        let bytes = serde_json::to_vec_pretty(&tasks).map_err(|error| ApiError::new(ErrorCode::Internal, error.to_string()))?;
        let preconditions = match tag {
            Some(tag) => Preconditions { if_match: Some(tag), ..Preconditions::default() },
            None => Preconditions { if_none_match: Some("*".to_owned()), ..Preconditions::default() },
        };
        match desk.write_file(key, PATH, preconditions, Bytes::from(bytes)).await {
            Ok(_) => return Ok(tasks),
            Err(error) if error.code == ErrorCode::PreconditionFailed => {}
            Err(error) => return Err(error),
        }
    }
    Err(ApiError::new(ErrorCode::Conflict, "others write this session's task all the time: send it again later").again())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_names_all_that_whoever_comes_back_must_know() {
        let list = |entries: &[&str]| entries.iter().map(|entry| (*entry).to_owned()).collect::<Vec<_>>();
        let interruption =
            Interruption { what: "cell 7 ended with Interrupted".to_owned(), at: "noon".to_owned(), checkpoint: Some("12".to_owned()) };
        let task = Task {
            goal: "ship".to_owned(),
            in_progress: list(&["build"]),
            blocked: list(&["a review"]),
            must_not_redo: list(&["mail"]),
            must_preserve: list(&["/data"]),
            failures: list(&["first", "second"]),
            interruptions: vec![interruption],
            ..Task::default()
        };
        let said = hint(Some(&task));
        for part in ["ship", "build", "a review", "mail", "/data", "first; second", "cell 7 ended with Interrupted", "checkpoint 12"] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert!(text("s", &task).contains("cell 7 ended with Interrupted"));
    }

    #[test]
    fn what_was_cut_off_again_is_new_and_what_is_known_or_older_than_the_task_is_not() {
        let (begun, once, again) = ("2026-01-01T12:00:00Z", "2026-01-01T12:01:00Z", "2026-01-01T12:02:00Z");
        let known = Interruption { what: "run r_1 was cut off".to_owned(), at: once.to_owned(), checkpoint: None };
        let task = Task { started_at: begun.to_owned(), interruptions: vec![known], ..Task::default() };
        let new = |at: &str| is_new(&task, &(at.to_owned(), "run r_1 was cut off".to_owned()));
        assert_eq!([once, again, "2026-01-01T11:59:00Z"].map(new), [false, true, false]);
    }
}
