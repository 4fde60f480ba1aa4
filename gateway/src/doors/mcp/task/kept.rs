//! What is kept of tasks: a file of the session, which whoever writes it changes as it was read.

use bytes::Bytes;
use dormouse_protocol::{ApiError, ErrorCode, file::Preconditions};
use serde::{Deserialize, Serialize};

use crate::{directory::Key, doors::desk::Desk};

/// Where tasks are kept in a session.
const PATH: &str = "/.dormouse/tasks.json";
/// Tasks that have ended and are kept.
const HISTORY_MAX: usize = 50;
/// Entries of one list of a task.
const ENTRIES_MAX: usize = 500;
/// Bytes of one entry.
pub(super) const ENTRY_BYTES_MAX: usize = 4 << 10;
/// Times that a change is made to what others have written meanwhile. Each time that it fails another one has succeeded.
const TRIES_MAX: usize = 16;
/// Failures of tasks that have ended, as one answer has them.
const PAST_FAILURES_MAX: usize = 20;

/// What is kept.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Tasks {
    pub(super) current: Option<Task>,
    pub(super) history: Vec<Task>,
}

/// A piece of work.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Task {
    pub(super) goal: String,
    pub(super) done: Vec<String>,
    pub(super) in_progress: Vec<String>,
    pub(super) blocked: Vec<String>,
    pub(super) must_not_redo: Vec<String>,
    pub(super) must_preserve: Vec<String>,
    pub(super) failures: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) interruptions: Vec<Interruption>,
    pub(super) started_at: String,
    pub(super) updated_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) outcome: Option<String>,
}

/// What cut off the work while the task was open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Interruption {
    /// The run or the cell, and what became of it; or the reason, where the agent has said it.
    pub(super) what: String,
    pub(super) at: String,
    /// Id of the checkpoint that holds what was there behind it, if that could be made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) checkpoint: Option<String>,
}

/// What was tried and failed in a task that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PastFailure {
    pub(super) failure: String,
    /// The goal of its task, and how that ended.
    pub(super) goal: String,
    pub(super) outcome: Option<String>,
    /// When its task was written last.
    pub(super) at: String,
}

impl Tasks {
    /// Closes a task.
    pub(super) fn close(&mut self, task: Task, outcome: &str) {
        self.history.push(Task { outcome: Some(outcome.to_owned()), ..task });
        let over = self.history.len().saturating_sub(HISTORY_MAX);
        self.history.drain(..over);
    }

    /// What failed in tasks that have ended, newest first, each once and the last [`PAST_FAILURES_MAX`] of all.
    pub(super) fn past_failures(&self) -> Vec<PastFailure> {
        let newest = self.history.iter().rev().flat_map(|task| task.failures.iter().rev().map(move |failure| (task, failure)));
        let mut past: Vec<PastFailure> = Vec::new();
        for (task, failure) in newest {
            if past.len() == PAST_FAILURES_MAX {
                break;
            }
            if past.iter().any(|known| known.failure == *failure) {
                continue;
            }
            let (goal, outcome, at) = (task.goal.clone(), task.outcome.clone(), task.updated_at.clone());
            past.push(PastFailure { failure: failure.clone(), goal, outcome, at });
        }
        past
    }
}

impl Task {
    /// Whether all that it has fits.
    pub(super) fn fits(&self) -> Result<(), ApiError> {
        let lists = [&self.done, &self.in_progress, &self.blocked, &self.must_not_redo, &self.must_preserve, &self.failures];
        if self.goal.len() > ENTRY_BYTES_MAX
            || lists.iter().any(|list| list.len() > ENTRIES_MAX || list.iter().any(|entry| entry.len() > ENTRY_BYTES_MAX))
        {
            let message =
                format!("a list of a task has at most {ENTRIES_MAX} entries of at most {ENTRY_BYTES_MAX} bytes: put details into a file");
            return Err(ApiError::new(ErrorCode::InvalidRequest, message));
        }
        Ok(())
    }
}

pub(super) fn no_task() -> ApiError {
    ApiError::new(ErrorCode::Conflict, "no task is open in this session: start one with task_start")
}

/// What is written down, and the file's tag.
pub(super) async fn load(desk: &Desk, key: &Key) -> Result<(Tasks, Option<String>), ApiError> {
    match desk.read_tagged(key, PATH).await {
        Ok((bytes, tag)) => serde_json::from_slice(&bytes).map(|tasks| (tasks, tag)).map_err(|error| {
            ApiError::new(ErrorCode::Conflict, format!("{PATH} of the session is not what it was: {error}; mend or remove it"))
        }),
        Err(error) if error.code == ErrorCode::FileNotFound => Ok((Tasks::default(), None)),
        Err(error) => Err(error),
    }
}

/// Changes what is written down: to what is there when it is written, whoever has written meanwhile.
pub(super) async fn change(desk: &Desk, key: &Key, change: impl Fn(&mut Tasks) -> Result<(), ApiError>) -> Result<Tasks, ApiError> {
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
    fn failures_of_tasks_that_have_ended_come_newest_first_each_once_and_so_many_only() {
        let task = |goal: &str, failures: &[&str]| Task {
            goal: goal.to_owned(),
            failures: failures.iter().map(|failure| (*failure).to_owned()).collect(),
            ..Task::default()
        };
        let mut tasks = Tasks { current: Some(task("now", &["of the open one"])), history: Vec::new() };
        tasks.close(task("first", &["a", "b"]), "gave up");
        tasks.close(task("second", &["c", "a"]), "completed");
        let said = |tasks: &Tasks| tasks.past_failures().into_iter().map(|it| (it.failure, it.goal)).collect::<Vec<_>>();
        let pair = |failure: &str, goal: &str| (failure.to_owned(), goal.to_owned());
        assert_eq!(said(&tasks), [pair("a", "second"), pair("c", "second"), pair("b", "first")]);
        assert_eq!(tasks.past_failures()[2].outcome.as_deref(), Some("gave up"));
        let many: Vec<String> = (0..=PAST_FAILURES_MAX).map(|n| n.to_string()).collect();
        tasks.close(task("third", &many.iter().map(String::as_str).collect::<Vec<_>>()), "completed");
        assert_eq!((said(&tasks).len(), &said(&tasks)[0]), (PAST_FAILURES_MAX, &pair(&PAST_FAILURES_MAX.to_string(), "third")));
    }
}
