//! The end of a cell as the record keeps it, and as a retry hears it.

use dormouse_lifecycle::Json;
use dormouse_lifecycle::ends::{Kept, RecordedEnd};
use dormouse_protocol::eval::{CellError, ConsoleLine, Display, EvalResult, EvalStats};
use dormouse_protocol::{ApiError, ErrorCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// An answer without what it cost, and without what is known anyway.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    ok: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<Value>,
    value_type: String,
    /// `None` when it is the value's JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    preview: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    display: Vec<Display>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    console: Vec<ConsoleLine>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<CellError>,
    sequence: u64,
}

/// What is recorded of an answer.
pub(super) fn stored(result: &EvalResult) -> Json {
    let same = result.value.as_ref().map(Value::to_string).unwrap_or_default() == result.preview;
    let stored = Stored {
        ok: result.ok,
        value: result.value.clone(),
        value_type: result.value_type.clone(),
        preview: (!same).then(|| result.preview.clone()),
        display: result.display.clone(),
        console: result.console.clone(),
        error: result.error.clone(),
        sequence: result.sequence,
    };
    // Nothing of it can fail to be JSON.
    Json::of(&stored).unwrap_or_else(|_| Json::null())
}

/// What a retry under `key` is told. `is_durable` says it of the sequence of a commit.
pub(super) fn answer(known: &RecordedEnd<'_>, key: &str, is_durable: impl Fn(u64) -> bool) -> Result<EvalResult, ApiError> {
    let whole = match known.end {
        Kept::Whole(whole) => whole.read::<Stored>().ok(),
        Kept::Digest(_) => None,
    };
    let Some(stored) = whole else { return Err(not_kept(known)) };
    let preview = || stored.value.as_ref().map(Value::to_string).unwrap_or_default();
    Ok(EvalResult {
        ok: stored.ok,
        preview: stored.preview.clone().unwrap_or_else(preview),
        value: stored.value,
        dropped: None,
        value_type: stored.value_type,
        display: stored.display,
        console: stored.console,
        error: stored.error,
        cell: known.cell,
        sequence: stored.sequence,
        durable: is_durable(stored.sequence),
        idempotency_key: Some(key.to_owned()),
        stats: EvalStats::default(),
    })
}

fn not_kept(known: &RecordedEnd<'_>) -> ApiError {
    let cell = known.cell;
    let message = format!(
        "cell {cell} ran under this idempotency key and has ended; its answer is too large to be kept, and nothing was run again. Read what you \
         need of it by another cell, under a new key"
    );
    let details = match known.end {
        Kept::Digest(digest) => json!({ "cell": cell, "bytes": digest.bytes, "sha256": digest.sha256 }),
        Kept::Whole(_) => json!({ "cell": cell }),
    };
    ApiError::new(ErrorCode::Conflict, message).with_details(details)
}

#[cfg(test)]
mod tests {
    use dormouse_lifecycle::ends::{END_BYTES_MAX, Ends};

    use super::*;

    fn result(value: Value, preview: &str) -> EvalResult {
        EvalResult {
            ok: true,
            value: Some(value),
            dropped: None,
            value_type: "string".to_owned(),
            preview: preview.to_owned(),
            display: vec![Display { mime_type: "text/html".to_owned(), data: "<b>".to_owned() }],
            console: vec![ConsoleLine { level: "log".to_owned(), text: "hi".to_owned(), at_ms: 1.5 }],
            error: None,
            cell: 3,
            sequence: 4,
            durable: true,
            idempotency_key: Some("key".to_owned()),
            stats: EvalStats::default(),
        }
    }

    #[test]
    fn a_retry_hears_what_the_first_request_did() {
        for result in [result(json!(7), "7"), result(json!("a"), "'a'")] {
            let mut ends = Ends::default();
            ends.record("key", result.cell, stored(&result));
            let ends: Ends = serde_json::from_str(&serde_json::to_string(&ends).unwrap()).unwrap();
            assert_eq!(answer(&ends.find("key").unwrap(), "key", |sequence| sequence <= 4).unwrap(), result);
            assert!(!answer(&ends.find("key").unwrap(), "key", |sequence| sequence < 4).unwrap().durable);
        }
    }

    #[test]
    fn an_answer_that_is_too_large_is_named_and_nothing_runs_again() {
        let mut ends = Ends::default();
        ends.record("key", 3, stored(&result(json!("x".repeat(END_BYTES_MAX)), "")));
        let error = answer(&ends.find("key").unwrap(), "key", |_| true).unwrap_err();
        assert_eq!((error.code, error.retryable), (ErrorCode::Conflict, false));
        let details = error.details.unwrap();
        assert!(details["bytes"].as_u64().unwrap() > END_BYTES_MAX as u64 && details["cell"] == json!(3), "{details}");
    }
}
