//! Answers before the last one, for attempts that come late: a key that was answered never runs its cell again, and hears what came of it for as
//! long as that is small and recent. All of it rides in the head, so it is counted in bytes.

use std::collections::VecDeque;

use dormouse_protocol::eval::{CellError, EvalResult, EvalStats};
use dormouse_protocol::{ApiError, ErrorCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::state::Recorded;

/// Idempotency keys that are remembered beyond the last answer.
const KEYS_MAX: usize = 32;

/// Hex digits of a key's sha256 that are remembered: enough to tell so few keys apart.
const KEY_DIGITS: usize = 16;

/// Bytes of JSON of one outcome that is kept.
const OUTCOME_BYTES_MAX: usize = 256;

/// Bytes of JSON of all outcomes that are kept; the oldest goes first.
const OUTCOMES_BYTES_MAX: usize = 1 << 10;

/// Keys of answers before the last, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Answered {
    answers: VecDeque<Answer>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "Stored")]
pub(crate) struct Answer {
    key: String,
    /// 0 in a record that has only keys.
    cell: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outcome: Option<Box<Outcome>>,
}

/// What a retry is told, without console lines and renderings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    ok: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<Value>,
    value_type: String,
    /// `None` when it is the value's JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    preview: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<CellError>,
    sequence: u64,
}

/// An answer as records have it: earlier ones have the key's digest alone.
#[derive(Deserialize)]
#[serde(untagged)]
enum Stored {
    Key(String),
    Whole {
        key: String,
        cell: u64,
        #[serde(default)]
        outcome: Option<Box<Outcome>>,
    },
}

impl From<Stored> for Answer {
    fn from(stored: Stored) -> Self {
        match stored {
            Stored::Key(key) => Self { key, cell: 0, outcome: None },
            Stored::Whole { key, cell, outcome } => Self { key, cell, outcome },
        }
    }
}

impl Answered {
    /// Takes in the answer that was the last one.
    pub(crate) fn push(&mut self, before: Recorded) {
        let Some(key) = before.key else { return };
        let outcome = Outcome::of(&before.result);
        let outcome = (outcome.bytes() <= OUTCOME_BYTES_MAX).then(|| Box::new(outcome));
        self.answers.push_back(Answer { key: digest(&key), cell: before.result.cell, outcome });
        while self.answers.len() > KEYS_MAX {
            self.answers.pop_front();
        }
        let mut bytes: usize = self.answers.iter().filter_map(|answer| answer.outcome.as_ref()).map(|outcome| outcome.bytes()).sum();
        for answer in &mut self.answers {
            if bytes <= OUTCOMES_BYTES_MAX {
                return;
            }
            bytes -= answer.outcome.take().map_or(0, |outcome| outcome.bytes());
        }
    }

    /// What a retry under `key` is told; `None` when no cell was answered under it, or so long ago that it is forgotten.
    pub(crate) fn find(&self, key: &str) -> Option<Result<EvalResult, ApiError>> {
        let digest = digest(key);
        self.answers.iter().rev().find(|answer| answer.key == digest).map(Answer::tell)
    }

    /// Forgets all of them.
    pub(crate) fn clear(&mut self) {
        self.answers.clear();
    }
}

impl Answer {
    fn tell(&self) -> Result<EvalResult, ApiError> {
        let Some(outcome) = &self.outcome else {
            let cell = self.cell;
            let message = format!(
                "this idempotency key was answered before, by cell {cell}; its answer was too large or is too long ago to be kept, and nothing \
                 was run again. Use a new key for a new cell"
            );
            return Err(ApiError::new(ErrorCode::Conflict, message).with_details(json!({"cell": cell})));
        };
        let preview = || outcome.value.as_ref().map(Value::to_string).unwrap_or_default();
        Ok(EvalResult {
            ok: outcome.ok,
            value: outcome.value.clone(),
            value_type: outcome.value_type.clone(),
            preview: outcome.preview.clone().unwrap_or_else(preview),
            display: Vec::new(),
            console: Vec::new(),
            error: outcome.error.clone(),
            cell: self.cell,
            sequence: outcome.sequence,
            durable: true,
            idempotency_key: None,
            stats: EvalStats::default(),
        })
    }
}

impl Outcome {
    fn of(result: &EvalResult) -> Self {
        let same = result.value.as_ref().map(Value::to_string).unwrap_or_default() == result.preview;
        Self {
            ok: result.ok,
            value: result.value.clone(),
            value_type: result.value_type.clone(),
            preview: (!same).then(|| result.preview.clone()),
            error: result.error.clone(),
            sequence: result.sequence,
        }
    }

    fn bytes(&self) -> usize {
        serde_json::to_vec(self).map_or(usize::MAX, |json| json.len())
    }
}

fn digest(key: &str) -> String {
    let mut digest = dormouse_lifecycle::segment::sha256_hex(key.as_bytes());
    digest.truncate(KEY_DIGITS);
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(cell: u64, value: Value, preview: &str) -> Recorded {
        let result = EvalResult {
            ok: true,
            value: Some(value),
            value_type: "string".to_owned(),
            preview: preview.to_owned(),
            display: Vec::new(),
            console: Vec::new(),
            error: None,
            cell,
            sequence: cell + 1,
            durable: true,
            idempotency_key: None,
            stats: EvalStats::default(),
        };
        Recorded { key: Some(format!("key-{cell}")), result }
    }

    fn told(answered: &Answered, cell: u64) -> Result<EvalResult, ApiError> {
        answered.find(&format!("key-{cell}")).expect("the key is remembered")
    }

    #[test]
    fn an_answer_comes_back_as_it_was() {
        let mut answered = Answered::default();
        answered.push(recorded(1, json!(7), "7"));
        answered.push(recorded(2, json!("a"), "'a'"));
        let stored = serde_json::to_value(&answered).unwrap();
        assert_eq!(stored[0]["outcome"], json!({"ok": true, "value": 7, "valueType": "string", "sequence": 2}));
        let answered: Answered = serde_json::from_value(stored).unwrap();
        assert_eq!(told(&answered, 1).unwrap(), recorded(1, json!(7), "7").result);
        assert_eq!(told(&answered, 2).unwrap(), recorded(2, json!("a"), "'a'").result);
        assert!(answered.find("key-3").is_none());
    }

    #[test]
    fn an_outcome_of_the_largest_size_is_kept_and_one_byte_more_is_not() {
        let room = OUTCOME_BYTES_MAX - Outcome::of(&recorded(1, json!(""), "").result).bytes();
        let mut answered = Answered::default();
        for (cell, bytes) in [(1, room), (2, room + 1)] {
            // The preview is short, so that the value alone makes the size.
            answered.push(recorded(cell, json!("x".repeat(bytes)), ""));
        }
        assert!(told(&answered, 1).is_ok());
        let error = told(&answered, 2).unwrap_err();
        assert_eq!((error.code, error.details), (ErrorCode::Conflict, Some(json!({"cell": 2}))));
    }

    #[test]
    fn outcomes_are_bounded_together_and_the_oldest_goes_first() {
        let each = OUTCOMES_BYTES_MAX / 5;
        let room = each - Outcome::of(&recorded(1, json!(""), "").result).bytes();
        let mut answered = Answered::default();
        for cell in 1..=6 {
            answered.push(recorded(cell, json!("x".repeat(room)), ""));
        }
        let kept: Vec<bool> = (1..=6).map(|cell| told(&answered, cell).is_ok()).collect();
        assert_eq!(kept, [false, true, true, true, true, true]);
        assert!(serde_json::to_vec(&answered).unwrap().len() < OUTCOMES_BYTES_MAX + 6 * 64);
    }

    #[test]
    fn keys_are_bounded() {
        let mut answered = Answered::default();
        for cell in 1..=KEYS_MAX as u64 + 1 {
            answered.push(recorded(cell, json!(cell), ""));
        }
        assert!(answered.find("key-1").is_none(), "it would run again");
        assert!(answered.find("key-2").is_some());
    }

    #[test]
    fn a_record_with_keys_alone_is_read() {
        let answered: Answered = serde_json::from_value(json!([digest("key-5")])).unwrap();
        assert_eq!(told(&answered, 5).unwrap_err().code, ErrorCode::Conflict);
    }
}
