//! Tasks of MCP's extension: runs of `eval`, and calls of a session's functions. A run begins such a call, and another one goes on with it when its
//! client has answered what it asked. Where the task stands follows from these runs, so nothing else is kept of it, and any replica knows it.

use std::time::Duration;

use dormouse_protocol::{
    ApiError, ErrorCode,
    run::{Run, RunState, WAIT_SECONDS_MAX},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    Failure,
    cells::{self, Cell, KEY, Outcome, Questions, hold, requests, serving, short},
    code, of_api, registered, runs, tools,
};
use crate::{directory::Key, doors::desk::Desk};

/// Behind a call's id, in the key of the cell that ends it.
const CANCEL: &str = "cancel";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Of {
    task_id: String,
    #[serde(default)]
    input_responses: Map<String, Value>,
}

/// `tasks/get`, `tasks/update` and `tasks/cancel`.
pub(super) async fn answer(desk: &Desk, method: &str, params: Value) -> Result<Value, Failure> {
    let asks = runs::can_be_asked(&params);
    let Of { task_id, input_responses } =
        serde_json::from_value(params).map_err(|error| Failure::new(code::INVALID_PARAMS, error.to_string()))?;
    let mut parts = task_id.splitn(3, '/');
    let (Some(namespace), Some(session), Some(task)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(Failure::new(code::INVALID_PARAMS, format!("there is no task `{task_id}`")));
    };
    let desk = Desk { namespace: namespace.to_owned(), ..desk.clone() };
    let done = async {
        let key = desk.key(session)?;
        match (method, runs::call_of(task)) {
            ("tasks/cancel", None) => desk.cancel_run(&key, task).await.map(|_| json!({})),
            ("tasks/update", None) => runs::update(&desk, &key, task, input_responses).await.map(|()| json!({})),
            (_, None) => runs::get(&desk, &key, task, asks).await,
            ("tasks/cancel", Some(call)) => cancel(&desk, &key, call).await.map(|()| json!({})),
            ("tasks/update", Some(call)) => update(&desk, &key, call, input_responses).await.map(|()| json!({})),
            (_, Some(_)) => show(&desk, &key, task, asks, &desk.runs(&key, None, None).await?.items).await,
        }
    };
    done.await.map_err(|error| match error.code {
        ErrorCode::SessionNotFound | ErrorCode::RunNotFound => Failure { code: code::INVALID_PARAMS, ..of_api(&error) },
        _ => of_api(&error),
    })
}

/// Where the task of a call stands.
#[derive(Debug)]
enum Standing<'a> {
    /// This run of it has not ended.
    Working(&'a Run),
    /// Its client is asked.
    Asks(Questions),
    /// What the call has come to: what it would have been answered.
    Ended(Result<Value, Failure>),
    Cancelled,
}

/// The runs of a call, newest first.
struct Call<'a>(Vec<&'a Run>);

impl<'a> Call<'a> {
    /// Those among all of its session.
    fn among(all: &'a [Run], call: &str) -> Result<Self, ApiError> {
        let before = format!("{KEY}{call}-");
        let own: Vec<_> = all.iter().filter(|run| run.idempotency_key.starts_with(&before)).collect();
        if own.is_empty() { Err(none(&runs::of_call(call))) } else { Ok(Self(own)) }
    }

    /// Those that go on with the call. The other one ends it.
    fn cells(&self) -> impl Iterator<Item = &'a Run> {
        self.0.iter().copied().filter(|run| !run.idempotency_key.ends_with(CANCEL))
    }

    fn open(&self) -> Option<&'a Run> {
        self.cells().find(|run| !run.state.is_end())
    }

    fn standing(&self) -> Standing<'a> {
        let (mut asks, mut refused) = (None, None);
        for run in self.cells().filter(|run| matches!(run.state, RunState::Succeeded | RunState::Failed)) {
            match said(run) {
                // The newest has the newest questions.
                Ok(Cell::Asks(_, questions)) => asks = asks.or(Some(questions)),
                Ok(Cell::Begins(_)) => {}
                Ok(Cell::Ended(Outcome::Refused(message))) => refused = Some(message),
                Ok(Cell::Ended(outcome)) => return Standing::Ended(registered::result(outcome, true)),
                Err(error) => return Standing::Ended(Ok(tools::failed(&error))),
            }
        }
        match (self.open(), refused, asks) {
            (Some(open), ..) => Standing::Working(open),
            _ if self.0.len() > self.cells().count() || self.cells().any(|run| run.state == RunState::Cancelled) => Standing::Cancelled,
            // The session knows the call no more: others came after it, or it was taken back to what it was before.
            (None, Some(message), _) => Standing::Ended(Err(Failure::new(code::INVALID_PARAMS, message))),
            (None, None, Some(asks)) => Standing::Asks(asks),
            (None, None, None) => Standing::Cancelled,
        }
    }
}

fn none(task: &str) -> ApiError {
    ApiError::new(
        ErrorCode::RunNotFound,
        format!("there is no task `{task}` in this session, or it ended so long ago that it is forgotten"),
    )
}

/// What the cell of a run that has ended says.
fn said(run: &Run) -> Result<Cell, ApiError> {
    let Some(result) = &run.result else {
        let bytes = run.dropped.as_ref().map(|dropped| dropped.bytes).unwrap_or_default();
        let message = format!("the call has ended, and what it said is too large to be kept: {bytes} bytes; put it into a file");
        return Err(ApiError::new(ErrorCode::QuotaExceeded, message));
    };
    cells::said(result.clone())
}

/// A task of a session as it stands, by all of the session's runs. `asks`: whether whoever sees it can be asked for an approval.
pub(super) async fn show(desk: &Desk, key: &Key, task: &str, asks: bool, all: &[Run]) -> Result<Value, ApiError> {
    let Some(call) = runs::call_of(task) else {
        let run = all.iter().find(|run| run.id == task).ok_or_else(|| none(task))?;
        return runs::show(desk, key, run, asks).await;
    };
    let runs = Call::among(all, call)?;
    let (Some(newest), Some(oldest)) = (runs.0.first(), runs.0.last()) else { return Ok(json!({})) };
    let shown = |status: &str, message: &str| runs::shown(key, task, (status, message), (oldest, newest));
    Ok(match runs.standing() {
        Standing::Working(run) => {
            let open = if asks && run.state == RunState::Waiting { runs::open(desk, key).await? } else { Vec::new() };
            let (status, message) = runs::standing(run);
            let mut task = shown(if open.is_empty() { status } else { "input_required" }, &message);
            if !open.is_empty() {
                task["inputRequests"] = Value::Object(runs::questions(key, &open));
            }
            task
        }
        Standing::Asks(questions) => {
            let mut task = shown("input_required", "the function asks its client");
            task["inputRequests"] = requests(questions);
            task
        }
        Standing::Ended(Ok(mut result)) => {
            let failed = result.get("isError").and_then(Value::as_bool) == Some(true);
            let mut task = shown("completed", if failed { "the function has failed" } else { "the function has ended" });
            result["resultType"] = json!("complete");
            task["result"] = result;
            task
        }
        Standing::Ended(Err(failure)) => {
            let mut task = shown("failed", &failure.message);
            task["error"] = failure.error();
            task
        }
        Standing::Cancelled => shown("cancelled", "the task was cancelled"),
    })
}

/// Brings a call what its client answers, and has it go on.
async fn update(desk: &Desk, key: &Key, call: &str, said: Map<String, Value>) -> Result<(), ApiError> {
    let all = desk.runs(key, None, None).await?.items;
    let runs = Call::among(&all, call)?;
    let asks = match runs.standing() {
        Standing::Asks(asks) => asks,
        _ => Questions::new(),
    };
    let (answers, others): (Map<_, _>, Map<_, _>) = said.into_iter().partition(|(name, _)| asks.contains_key(name));
    runs::decide(desk, key, others).await?;
    if answers.is_empty() {
        return Ok(());
    }
    let left = answers.len() < asks.len();
    let held = json!({ "call": call, "hold": answers });
    let digest = short("answers", &held);
    // Where no call waits any more, the cell that goes on says so.
    hold(desk, key, &held, format!("{KEY}{call}-held-{digest}")).await?;
    let next = serving(&json!({ "call": call, "next": true }), Some(format!("{KEY}{call}-next-{digest}")));
    let run = desk.accept_run(key, next).await?;
    if left {
        // It ends at once, as others of its questions are open; then the task shows which.
        desk.run(key, &run.id, Duration::from_secs(WAIT_SECONDS_MAX)).await?;
    }
    Ok(())
}

/// Ends what runs of a call, and lets its function know that nobody will answer it.
async fn cancel(desk: &Desk, key: &Key, call: &str) -> Result<(), ApiError> {
    let all = desk.runs(key, None, None).await?.items;
    let runs = Call::among(&all, call)?;
    if matches!(runs.standing(), Standing::Ended(_) | Standing::Cancelled) {
        return Ok(());
    }
    for run in runs.cells().filter(|run| !run.state.is_end()) {
        desk.cancel_run(key, &run.id).await?;
    }
    let ends = serving(&json!({ "call": call, "cancel": true }), Some(format!("{KEY}{call}-{CANCEL}")));
    desk.accept_run(key, ends).await.map(drop)
}

#[cfg(test)]
mod tests {
    use dormouse_protocol::eval::{DroppedResult, EvalStats};

    use super::*;

    /// A run under a key whose cell is in this state, and has said this.
    fn run(key: &str, state: &str, said: Value) -> Run {
        let result = json!({
            "ok": true, "value": said, "valueType": "object", "preview": "", "cell": 1, "sequence": 1, "durable": true,
            "stats": EvalStats::default(),
        });
        let run = json!({ "id": key, "state": state, "idempotencyKey": key, "createdAt": "t", "result": result });
        serde_json::from_value(run).unwrap()
    }

    fn asks(names: &[&str]) -> Value {
        let question = json!({ "method": "elicitation/create", "params": {}, "number": 1 });
        let asks: Map<_, _> = names.iter().map(|name| ((*name).to_owned(), question.clone())).collect();
        json!({ "round": 1, "asks": asks })
    }

    fn standing(runs: &[Run]) -> String {
        match Call::among(runs, "c").unwrap().standing() {
            Standing::Working(run) => format!("working {}", run.id),
            Standing::Asks(asks) => format!("asks {}", asks.into_keys().collect::<String>()),
            Standing::Ended(Ok(result)) => format!("ended {}", result["content"][0]["text"]),
            Standing::Ended(Err(failure)) => format!("failed {}", failure.message),
            Standing::Cancelled => "cancelled".to_owned(),
        }
    }

    #[test]
    fn where_a_task_stands_follows_from_its_runs() {
        let began = || run("mcp-c-0", "Succeeded", asks(&["a", "b"]));
        let next = |state: &str, said: Value| run("mcp-c-next-1", state, said);
        let ends = |state: &str| run("mcp-c-cancel", state, json!({ "cancelled": true }));
        let gone = || json!({ "refused": "gone" });
        for (runs, expected) in [
            (vec![run("mcp-c-0", "Queued", json!({}))], "working mcp-c-0"),
            (vec![run("mcp-d-0", "Queued", json!({})), began()], "asks ab"),
            (vec![next("Running", json!({})), began()], "working mcp-c-next-1"),
            (vec![next("Succeeded", asks(&["b"])), began()], "asks b"),
            (vec![next("Succeeded", json!({ "end": "x" })), began()], "ended \"x\""),
            (vec![next("Succeeded", gone()), began()], "failed gone"),
            (vec![run("mcp-c-next-2", "Succeeded", gone()), next("Succeeded", json!({ "end": "x" })), began()], "ended \"x\""),
            (vec![next("Cancelled", json!({})), began()], "cancelled"),
            (vec![ends("Queued"), began()], "cancelled"),
            (vec![ends("Queued"), next("Running", json!({})), began()], "working mcp-c-next-1"),
            (vec![ends("Succeeded"), next("Succeeded", json!({ "end": "x" })), began()], "ended \"x\""),
        ] {
            assert_eq!(standing(&runs), expected, "{runs:?}");
        }
        assert!(Call::among(&[began()], "d").is_err());
    }

    #[test]
    fn what_is_too_large_to_be_kept_is_a_failure_that_says_so() {
        let mut large = run("mcp-c-0", "Succeeded", json!({ "end": "x" }));
        (large.result, large.dropped) = (None, Some(DroppedResult { bytes: 17, sha256: String::new() }));
        assert!(standing(&[large]).contains("17 bytes"));
    }
}
