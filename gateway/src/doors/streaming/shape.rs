//! Events as this protocol has them: with its names beside ours.

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::doors::hostcalls::CALL_PREFIX;

/// An event, and whether the stream ends with it.
pub(super) struct Shaped {
    pub(super) event: Value,
    pub(super) is_last: bool,
}

/// An event's line in this protocol's words. `None`: it is no JSON object.
pub(super) fn shaped(line: &Bytes, now: Timestamp) -> Option<Shaped> {
    let mut event: Value = serde_json::from_slice(line).ok()?;
    let kind = event.get("type")?.as_str()?.to_owned();
    let payload = event.get_mut("payload")?.as_object_mut()?;
    match kind.as_str() {
        "stdout" => also(payload, "text", "chunk"),
        "log" => {
            also(payload, "text", "message");
            if payload.get("level").is_some_and(|level| level == "log") {
                payload.insert("level".to_owned(), json!("info"));
            }
        }
        "heartbeat" => drop(payload.insert("ts".to_owned(), json!(now.to_string()))),
        "tool_call" | "tool_result_applied" | "approval_required" => {
            if let Some(Value::String(call)) = payload.get_mut("callId") {
                call.insert_str(0, CALL_PREFIX);
            }
        }
        "final" => end(payload),
        _ => {}
    }
    Some(Shaped { event, is_last: matches!(kind.as_str(), "final" | "error") })
}

/// The field `ours` under the name `theirs`, too.
fn also(payload: &mut Map<String, Value>, ours: &str, theirs: &str) {
    if let Some(value) = payload.get(ours).cloned() {
        payload.insert(theirs.to_owned(), value);
    }
}

fn end(payload: &mut Map<String, Value>) {
    // A result that was dropped is not none: `dropped` stands in its place.
    if !payload.contains_key("dropped") {
        let result = payload.get("value").cloned().unwrap_or(Value::Null);
        payload.insert("result".to_owned(), result);
    }
    let mut stats = payload.get("stats").and_then(Value::as_object).cloned().unwrap_or_default();
    let calls = stats.get("toolCalls").cloned().unwrap_or_default();
    stats.insert("toolCallCount".to_owned(), calls);
    payload.insert("stats".to_owned(), Value::Object(stats));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: &str, payload: Value) -> Shaped {
        let event = json!({ "protocolVersion": 1, "sessionId": "s_1", "seq": 3, "type": kind, "payload": payload });
        shaped(&Bytes::from(event.to_string()), Timestamp::UNIX_EPOCH).unwrap()
    }

    #[test]
    fn an_event_has_the_names_of_both_protocols() {
        assert_eq!(of("stdout", json!({ "text": "a" })).event["payload"], json!({ "text": "a", "chunk": "a" }));
        let log = of("log", json!({ "level": "log", "text": "a" })).event;
        assert_eq!((&log["payload"], &log["seq"]), (&json!({ "level": "info", "text": "a", "message": "a" }), &json!(3)));
        assert_eq!(of("log", json!({ "level": "warn", "text": "a" })).event["payload"]["level"], "warn");
        assert_eq!(of("heartbeat", json!({})).event["payload"]["ts"], "1970-01-01T00:00:00Z");
        let call = of("tool_call", json!({ "callId": "7", "toolName": "ask", "args": {} }));
        assert_eq!((&call.event["payload"]["callId"], call.is_last), (&json!("c_7"), false));
        let end = of("final", json!({ "ok": true, "value": [1], "stats": { "toolCalls": 2 } }));
        assert_eq!((&end.event["payload"]["result"], &end.event["payload"]["stats"]["toolCallCount"]), (&json!([1]), &json!(2)));
        let large = of("final", json!({ "ok": true, "dropped": { "bytes": 20_000, "sha256": "a" }, "stats": {} })).event;
        assert_eq!(
            (large["payload"].get("result"), &large["payload"]["dropped"]["bytes"]),
            (None, &json!(20_000)),
            "it returned something"
        );
        let nothing = of("final", json!({ "ok": true, "stats": {} })).event;
        assert_eq!(nothing["payload"].get("result"), Some(&Value::Null), "and this one did not");
        assert!(end.is_last && of("error", json!({ "code": "Internal", "message": "" })).is_last);
    }
}
