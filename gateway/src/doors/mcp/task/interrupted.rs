//! What cuts off the work on a task: cells that somebody or something ended, which is seen, and what its agent says.

use dormouse_protocol::{
    ApiError, ErrorCode,
    eval::EvalResult,
    run::{Run, RunState},
};

use super::kept::{Interruption, Task, Tasks, change, load, no_task};
use crate::{directory::Key, doors::desk::Desk};

/// Interruptions of a task that are kept, the last ones.
const INTERRUPTIONS_MAX: usize = 20;
/// The label of the state that was there after the last interruption.
const INTERRUPTED: &str = "interrupted";

/// Looks whether a cell that was waited for was cut off, and if so, takes it down in the open task.
pub(in super::super) async fn look_at_end<T>(desk: &Desk, key: &Key, ended: &Result<(EvalResult, T), ApiError>) {
    let (cell, code) = match ended {
        Ok((result, _)) => (format!("cell {}", result.cell), result.error.as_ref().map(|error| error.code)),
        Err(error) => ("a cell".to_owned(), Some(error.code)),
    };
    if let Some(code) = code.filter(|code| is_cut_off(*code)) {
        take_down(desk, key, vec![format!("{cell} ended with {code}")]).await;
    }
}

/// The same of runs.
pub(in super::super) async fn look_at_runs(desk: &Desk, key: &Key, runs: &[Run]) {
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
    let checkpoint = put_aside(desk, key).await;
    let noted = change(desk, key, |tasks| {
        // Another task than the one that was interrupted knows nothing of it.
        let Some(now) = tasks.current.as_mut().filter(|now| now.started_at == task.started_at) else { return Ok(()) };
        for it in cut_off {
            if is_new(now, it) {
                add(now, Interruption { at: it.0.clone(), what: it.1.clone(), checkpoint: checkpoint.clone() });
            }
        }
        Ok(())
    });
    noted.await.map(drop)
}

/// Notes that whoever works on the open task says that they are cut off, and puts the state aside.
pub(super) async fn say(desk: &Desk, key: &Key, at: &str, reason: &str) -> Result<Tasks, ApiError> {
    let interruption = Interruption { what: reason.to_owned(), at: at.to_owned(), checkpoint: put_aside(desk, key).await };
    change(desk, key, |tasks| {
        add(tasks.current.as_mut().ok_or_else(no_task)?, interruption.clone());
        Ok(())
    })
    .await
}

/// Makes a checkpoint of what is there now, if that can be made.
async fn put_aside(desk: &Desk, key: &Key) -> Option<String> {
    let checkpoint = desk.checkpoint(key, INTERRUPTED).await;
    let checkpoint = checkpoint.inspect_err(|error| tracing::info!(session = %key, %error, "an interrupted task has no checkpoint"));
    checkpoint.ok().map(|checkpoint| checkpoint.id)
}

fn add(task: &mut Task, interruption: Interruption) {
    task.interruptions.push(interruption);
    let over = task.interruptions.len().saturating_sub(INTERRUPTIONS_MAX);
    task.interruptions.drain(..over);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_cut_off_again_is_new_and_what_is_known_or_older_than_the_task_is_not() {
        let (begun, once, again) = ("2026-01-01T12:00:00Z", "2026-01-01T12:01:00Z", "2026-01-01T12:02:00Z");
        let known = Interruption { what: "run r_1 was cut off".to_owned(), at: once.to_owned(), checkpoint: None };
        let task = Task { started_at: begun.to_owned(), interruptions: vec![known], ..Task::default() };
        let new = |at: &str| is_new(&task, &(at.to_owned(), "run r_1 was cut off".to_owned()));
        assert_eq!([once, again, "2026-01-01T11:59:00Z"].map(new), [false, true, false]);
    }
}
