//! The cells of calls of a session's functions: what each runs, and what it says.

use std::collections::BTreeMap;

use dormouse_protocol::{
    ApiError, ErrorCode,
    broker::digest,
    eval::{EvalRequest, EvalResult},
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{directory::Key, doors::desk::Desk};

/// Before a call's id, in idempotency keys.
pub(super) const KEY: &str = "mcp-";
/// Digits of a digest in an idempotency key, which has 128 bytes at most.
const DIGITS: usize = 32;

/// A question of a function.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Question {
    pub(super) method: String,
    pub(super) params: Value,
    /// Its number in the call.
    pub(super) number: u64,
}

/// What a client is to be asked, by name.
pub(super) type Questions = BTreeMap<String, Question>;

/// What a call comes to.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The function's value, with the cell's answer.
    End(Value, Box<EvalResult>),
    /// The function, or the cell, has failed.
    Failed(Box<EvalResult>),
    /// What the client is to be asked, in the words of the stateless revision.
    Asks(Value),
    /// The task that the call is.
    Task(Value),
    /// The function needs what the client has not declared.
    Missing { capabilities: Value, message: String },
    /// Nothing was done.
    Refused(String),
}

/// What a cell of a call says.
pub(super) enum Cell {
    /// Whose round it is next, and what is asked.
    Asks(u64, Questions),
    /// What comes before the call's task has ended. The next round is the task's.
    Begins(u64),
    Ended(Outcome),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Said {
    end: Option<Value>,
    round: u64,
    asks: Option<Questions>,
    begins: bool,
    missing: Option<Value>,
    message: String,
    refused: Option<String>,
}

/// What a cell's answer says of its call.
///
/// # Errors
/// It is nothing that such a cell says.
pub(super) fn said(mut result: EvalResult) -> Result<Cell, ApiError> {
    if !result.ok {
        return Ok(Cell::Ended(Outcome::Failed(Box::new(result))));
    }
    let value = result.value.clone().unwrap_or_default();
    let has_end = value.get("end").is_some();
    let said: Said = serde_json::from_value(value).map_err(|error| ApiError::new(ErrorCode::Internal, format!("mcp.serve: {error}")))?;
    Ok(match said {
        Said { asks: Some(asks), round, .. } => Cell::Asks(round, asks),
        Said { begins: true, round, .. } => Cell::Begins(round),
        Said { missing: Some(capabilities), message, .. } => Cell::Ended(Outcome::Missing { capabilities, message }),
        Said { refused: Some(message), .. } => Cell::Ended(Outcome::Refused(message)),
        Said { end, .. } => {
            if !has_end {
                result.value = None;
            }
            Cell::Ended(Outcome::End(end.unwrap_or_default(), Box::new(result)))
        }
    })
}

/// A cell that has a session serve its client. Without a key it is one of its own.
pub(super) fn serving(request: &Value, idempotency_key: Option<String>) -> EvalRequest {
    // Text in a text: a key `__proto__` of a literal would be something else.
    let code = format!("await mcp.serve(JSON.parse({}))", Value::from(request.to_string()));
    EvalRequest { code, idempotency_key, ..EvalRequest::default() }
}

/// Leaves answers with a call, for the cell that goes on with it. Answers why it cannot, where no such call waits.
///
/// # Errors
/// `InvalidRequest`: one of them is none. As of [`Desk::eval`].
pub(super) async fn hold(desk: &Desk, key: &Key, held: &Value, idempotency_key: String) -> Result<Option<String>, ApiError> {
    let result = desk.eval(key, serving(held, Some(idempotency_key))).await?;
    let said = |name: &str| result.value.as_ref().and_then(|value| value.get(name));
    match (said("refused").and_then(Value::as_str), &result.error) {
        (Some(refused), _) if said("gone").is_some() => Ok(Some(refused.to_owned())),
        (Some(refused), _) => Err(ApiError::new(ErrorCode::InvalidRequest, refused)),
        (None, Some(error)) => Err(ApiError::new(error.code, error.message.clone())),
        (None, None) => Ok(None),
    }
}

/// A digest that is short enough for a key: of what belongs to one call.
pub(super) fn short(of: &str, value: &Value) -> String {
    let mut digits = digest(of, value);
    digits.truncate(DIGITS);
    digits
}

/// Questions as a client is asked them.
pub(super) fn requests(asks: Questions) -> Value {
    asks.into_iter().map(|(name, question)| (name, json!({ "method": question.method, "params": question.params }))).collect()
}
