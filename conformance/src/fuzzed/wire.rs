//! What clients, gateways, kernel pods and brokers send each other.

use dormouse_protocol::{broker, error, eval, event, history, kernel, session};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// JSON as each of the types on the wire; what is read can be written and read again, and is the same.
pub(super) fn wire(data: &[u8]) {
    let Ok(value) = serde_json::from_slice::<Value>(data) else { return };
    for read in READERS {
        read(&value);
    }
}

const READERS: [fn(&Value); 22] = [
    again::<kernel::Assignment>,
    again::<kernel::EvalCall>,
    again::<kernel::EventsCall>,
    again::<kernel::CheckpointCall>,
    again::<kernel::RestoreCall>,
    again::<kernel::StoredCall>,
    again::<kernel::JournalCall>,
    again::<kernel::PodInfo>,
    again::<kernel::SessionReport>,
    again::<kernel::ReportLine>,
    again::<broker::ToolCall>,
    again::<broker::ToolAnswer>,
    again::<broker::ToolDescription>,
    again::<error::ErrorBody>,
    again::<eval::EvalRequest>,
    again::<eval::EvalResult>,
    again::<event::Event>,
    again::<history::JournalEntry>,
    again::<history::JournalPage>,
    again::<history::CheckpointList>,
    again::<session::Session>,
    again::<session::CreateSession>,
];

fn again<T: Serialize + DeserializeOwned>(value: &Value) {
    let Ok(read) = serde_json::from_value::<T>(value.clone()) else { return };
    let written = serde_json::to_value(&read).ok();
    let reread = written.clone().and_then(|value| serde_json::from_value::<T>(value).ok());
    let rewritten = reread.and_then(|read| serde_json::to_value(&read).ok());
    assert!(written.is_some() && written == rewritten, "{}: {value} is not what it was after a in_flight", std::any::type_name::<T>());
}

pub(super) fn seeds() -> anyhow::Result<Vec<Vec<u8>>> {
    let assignment = json!({ "namespace": "n", "name": "s", "uid": "u", "epoch": 1, "generation": 1, "boot": "b", "spec": { "poolRef": { "name": "p" } } });
    let result = json!({
        "ok": true, "value": [1], "valueType": "object", "preview": "[1]", "display": [{ "mimeType": "text/html", "data": "x" }],
        "console": [{ "level": "log", "text": "x", "atMs": 1.5 }], "error": null, "cell": 1, "sequence": 2, "durable": true,
        "stats": { "durationMs": 1.0, "cpuMs": 1.0, "ticks": 1, "heapBytes": 1, "committedBytes": 1, "toolCalls": 0, "woke": "No" },
    });
    let values = [
        assignment.clone(),
        json!({ "assignment": assignment, "request": { "code": "1" } }),
        json!({ "code": "1+1", "language": "typescript", "timeoutMs": 5, "idempotencyKey": "k" }),
        result,
        json!({ "error": { "code": "SessionBusy", "message": "m", "retryable": true } }),
        json!({ "ok": { "value": 1 } }),
        json!({ "name": "t", "args": {}, "callId": "1.2.3", "session": "s", "namespace": "n", "uid": "u", "epoch": 1, "call": 1 }),
        json!({ "seq": 1, "id": "1", "at": "t", "type": "console", "level": "log", "text": "x" }),
    ];
    values.iter().map(|value| Ok(serde_json::to_vec(value)?)).collect()
}
