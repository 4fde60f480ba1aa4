//! Tools that a connected client provides: calls of them go out as frames `hostcall`, and what the client says of them comes back.
//!
//! What waits is read from the session as stored; its events only say when to look. So a client that connects again gets what it has not answered.

use std::collections::BTreeSet;

use dormouse_protocol::{ApiError, ErrorCode, approval::Approval, broker::ToolAnswer};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    desk::Desk,
    lines::{AGAIN, Events},
    socket::{Out, Outgoing},
};
use crate::directory::Key;

/// Before a call's number, where a protocol marks the ids of calls.
pub(super) const CALL_PREFIX: &str = "c_";

/// What a client says of a call.
#[derive(Debug, Default, Deserialize, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Said {
    /// The call, as its event or frame names it.
    #[schema(value_type = String, required)]
    call_id: Option<String>,
    /// Whether it went well.
    #[schema(value_type = bool, required)]
    ok: Option<bool>,
    /// Its result: any JSON.
    #[serde(alias = "result")]
    #[schema(rename = "result")]
    value: Value,
    /// A message, or an object with one, where `ok` is false.
    error: Value,
}

impl Said {
    fn answer(self) -> Result<(u64, ToolAnswer), ApiError> {
        let invalid = || ApiError::new(ErrorCode::InvalidRequest, "what is said of a call has callId, ok, and its result or error");
        let number = |id: &str| id.strip_prefix(CALL_PREFIX).unwrap_or(id).parse().ok();
        let call = self.call_id.as_deref().and_then(number).ok_or_else(invalid)?;
        if self.ok.ok_or_else(invalid)? {
            return Ok((call, ToolAnswer::Ok { value: self.value }));
        }
        let message = self.error.as_str().or_else(|| self.error.get("message")?.as_str());
        let message = message.unwrap_or("the client says that the call failed, and nothing else").to_owned();
        Ok((call, ToolAnswer::Err { error: ApiError::new(ErrorCode::ToolResultInvalid, message) }))
    }
}

/// Delivers what a client says of a call.
pub(super) async fn answer(desk: &Desk, key: &Key, said: Said) -> Result<(), ApiError> {
    let (call, answer) = said.answer()?;
    desk.answer_call(key, call, answer).await
}

/// Sends the client the calls of these tools, as long as it is there.
pub(super) async fn offer(desk: Desk, key: Key, tools: BTreeSet<String>, out: Out) {
    let mut sent = BTreeSet::new();
    while !out.is_closed() {
        let events = desk.events_to_look(&key, None, true).await;
        if !send_waiting(&desk, &key, &tools, &mut sent, &out).await {
            return;
        }
        if let Ok(frames) = events {
            let mut events = Events::looking(&desk, frames);
            loop {
                let line = tokio::select! {
                    () = out.closed() => return,
                    line = events.next() => line,
                };
                let Some(line) = line else { break };
                let Ok(event) = serde_json::from_slice::<Value>(&line) else { continue };
                let calls = event["type"] == "tool_call" && event["payload"]["toolName"].as_str().is_some_and(|name| tools.contains(name));
                let known = event["payload"]["callId"].as_str().is_some_and(|call| sent.contains(call));
                if calls && !known && !send_waiting(&desk, &key, &tools, &mut sent, &out).await {
                    return;
                }
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Sends what waits and was not sent. False: the client has left.
async fn send_waiting(desk: &Desk, key: &Key, tools: &BTreeSet<String>, sent: &mut BTreeSet<String>, out: &Out) -> bool {
    let waiting = match desk.hostcalls(key).await {
        Ok(waiting) => waiting.items,
        Err(error) => {
            tracing::debug!(session = %key, %error, "the calls that wait for a client cannot be read now");
            return true;
        }
    };
    sent.retain(|call| waiting.iter().any(|it| it.call_id == *call));
    for Approval { call_id, tool_name, args, .. } in waiting {
        if !tools.contains(&tool_name) || !sent.insert(call_id.clone()) {
            continue;
        }
        let frame = json!({ "t": "hostcall", "callId": call_id, "name": tool_name, "args": args });
        if out.send(Outgoing::text(&frame, None)).await.is_err() {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(value: Value) -> Result<(u64, ToolAnswer), ApiError> {
        serde_json::from_value::<Said>(value).unwrap().answer()
    }

    #[test]
    fn what_a_client_says_is_a_value_or_an_error() {
        assert_eq!(said(json!({ "callId": "3", "ok": true, "value": 7 })).unwrap(), (3, ToolAnswer::Ok { value: json!(7) }));
        assert_eq!(said(json!({ "callId": "c_3", "ok": true, "result": 7 })).unwrap(), (3, ToolAnswer::Ok { value: json!(7) }));
        for error in [json!("no"), json!({ "message": "no" })] {
            let (_, answer) = said(json!({ "callId": "3", "ok": false, "error": error })).unwrap();
            assert!(matches!(answer, ToolAnswer::Err { error } if error.message == "no"));
        }
        for wrong in
            [json!({ "ok": true }), json!({ "callId": "x", "ok": true }), json!({ "callId": "c_", "ok": true }), json!({ "callId": "3" })]
        {
            assert_eq!(said(wrong).unwrap_err().code, ErrorCode::InvalidRequest);
        }
    }
}
