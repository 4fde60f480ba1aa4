//! JSON-RPC over Streamable HTTP: what is posted, and which of what comes is the answer.

use reqwest::{
    Response,
    header::{CONTENT_TYPE, HeaderMap, HeaderName},
};
use serde_json::Value;

use crate::{
    room::{self, SMALL_BYTES_MAX},
    sse::Events,
};

/// What a server calls its session with the broker.
pub(crate) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// One message to a server: its body, and the headers that belong to it.
pub(crate) struct Posted {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

/// The answer in a response of either form: JSON, or the event that holds it. What a server says or asks before it is passed over, and not kept. `None`:
/// an event, or the JSON, has more than `max` bytes.
///
/// # Errors
/// The connection broke.
pub(crate) async fn answer_in(response: &mut Response, max: usize) -> Result<Option<Vec<u8>>, reqwest::Error> {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let streams = kind.starts_with("text/event-stream");
    let mut events = Events::default();
    while let Some(chunk) = response.chunk().await? {
        if events.held() + chunk.len() > max {
            return Ok(None);
        }
        if events.held() + chunk.len() > SMALL_BYTES_MAX {
            room::current().wait_for(max).await;
        }
        events.push(&chunk);
        if let Some(found) = streams.then(|| answer(&mut events)).flatten() {
            return Ok(Some(found));
        }
    }
    if streams {
        // The last event needs no blank line behind it if the stream ends.
        events.push(b"\n\n");
        return Ok(Some(answer(&mut events).unwrap_or_default()));
    }
    Ok(Some(events.into_rest()))
}

/// The first of the events that is an answer.
fn answer(events: &mut Events) -> Option<Vec<u8>> {
    std::iter::from_fn(|| events.next()).find(|data| is_answer(data))
}

fn is_answer(data: &[u8]) -> bool {
    let message: Value = serde_json::from_slice(data).unwrap_or_default();
    message.get("result").is_some() || message.get("error").is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_answer_is_found_among_other_events() {
        let mut events = Events::default();
        events.push(b": hi\n\ndata: {\"method\":\"ping\",\"id\":1}\n\ndata: {\"id\":1,\ndata: \"result\":{}}\n\ndata: {\"result\":2}\n\n");
        let found = answer(&mut events).expect("it is there");
        assert_eq!(serde_json::from_slice::<Value>(&found).unwrap(), json!({ "id": 1, "result": {} }));
    }
}
