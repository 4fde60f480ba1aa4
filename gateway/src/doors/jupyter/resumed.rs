//! The cell that runs while its notebook connects again: what it has shown comes once more, then what it shows, its reply, and `idle`.
//!
//! It is read from the session's events, so any gateway can do it, and nothing runs for it.

use std::{
    collections::HashSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

use dormouse_protocol::{
    ApiError,
    history::{JournalBody, JournalEntry},
    session::State,
};
use serde_json::{Value, json};

use super::{
    channels::{KEY_PREFIX, Kernel, send, state},
    messages::Request,
};
use crate::doors::{lines::Events, socket::Out};

/// Entries at the journal's end among which the beginning of an open cell is looked for.
const WINDOW: usize = 500;

/// A cell that has begun and not ended.
pub(super) struct Open {
    /// The message that it was sent with. `None`: nothing of the cell is stored yet.
    message: Option<String>,
    /// The last entry of the journal when it was looked at.
    journal: u64,
    /// Behind which event the cell's are. `None`: behind none that is kept.
    before: Option<u64>,
}

/// Which cell a client is told of by its message, that did not send it over this connection.
#[derive(Default)]
pub(super) struct Resumed(Mutex<Messages>);

#[derive(Default)]
struct Messages {
    resumed: Option<String>,
    /// What this connection has sent since it began.
    sent: HashSet<String>,
    is_over: bool,
}

impl Resumed {
    fn lock(&self) -> MutexGuard<'_, Messages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the connection itself is to run the cell that it is sent with this message.
    pub(super) fn leaves(&self, message: &str) -> bool {
        let mut messages = self.lock();
        let leaves = messages.resumed.as_deref() != Some(message);
        if leaves && !messages.is_over {
            messages.sent.insert(message.to_owned());
        }
        leaves
    }

    /// Takes a cell, unless the connection itself runs it.
    fn takes(&self, message: &str) -> bool {
        let mut messages = self.lock();
        let takes = !messages.sent.contains(message);
        messages.resumed = takes.then(|| message.to_owned());
        takes
    }

    /// No cell is told of any more.
    pub(super) fn end(&self) {
        *self.lock() = Messages { is_over: true, ..Messages::default() };
    }
}

impl Kernel {
    /// The notebook's cell under way, if there is one.
    pub(super) async fn open_cell(&self) -> Option<Open> {
        self.look_for_open().await.unwrap_or_else(|error| {
            tracing::debug!(session = %self.key, %error, "it cannot be told whether a notebook has a cell under way");
            None
        })
    }

    /// Shows a client that has just connected the cell under way, and its end.
    pub(super) async fn resume(&self, open: Open, session: &str, out: &Out) {
        // A client that has left needs nothing more.
        if let Err(error) = self.follow(open, session, out).await {
            tracing::debug!(session = %self.key, %error, "a notebook is not told of its cell under way");
        }
    }

    async fn look_for_open(&self) -> Result<Option<Open>, ApiError> {
        let now = self.desk.get(&self.key).await?.state;
        if matches!(now, State::Idle | State::Failed | State::Archived) {
            return Ok(None);
        }
        let journal = self.desk.journal(&self.key, u64::MAX, Some(1)).await?.last;
        let entries = self.desk.journal(&self.key, journal.saturating_sub(WINDOW as u64), Some(WINDOW)).await?.entries;
        let key = open_key(&entries);
        let message = key.and_then(message_of).map(str::to_owned);
        // Another door's cell is none of a notebook's; and in a session that sleeps only a cell is open that waits, which is stored.
        if message.is_none() && (key.is_some() || now == State::Hibernated) {
            return Ok(None);
        }
        let before = self.before(message.as_deref()).await?;
        Ok(Some(Open { message, journal, before }))
    }

    /// Behind which event those of the open cell are.
    async fn before(&self, message: Option<&str>) -> Result<Option<u64>, ApiError> {
        let mut events = Events::looking(&self.desk, self.desk.events_to_look(&self.key, None, false).await?);
        let mut before = None;
        while let Some(line) = events.next().await {
            let Ok(event) = serde_json::from_slice::<Value>(&line) else { continue };
            if field(&event, "type") != "final" {
                continue;
            }
            let ended = event.get("payload").and_then(|payload| message_of(field(payload, "idempotencyKey")));
            if ended.is_some() && ended == message {
                break;
            }
            before = event.get("seq").and_then(Value::as_u64);
        }
        Ok(before)
    }

    async fn follow(&self, open: Open, session: &str, out: &Out) -> Result<Option<()>, ApiError> {
        let mut events = Events::new(&self.desk, self.desk.events(&self.key, open.before, true).await?);
        let mut request: Option<Request> = None;
        while let Some(line) = events.next().await {
            let Ok(mut event) = serde_json::from_slice::<Value>(&line) else { continue };
            let payload = event.get_mut("payload").map(Value::take).unwrap_or_default();
            let told = match (field(&event, "type"), &request) {
                // A cell that was lost before anything of it was stored has no end.
                ("heartbeat", None) if self.is_at_rest().await? => break,
                ("state", None) if field(&payload, "state") == "Running" => {
                    let Some(message) = self.message(&open).await?.filter(|message| self.resumed.takes(message)) else { break };
                    let resumed = Request::of_message(&message, session);
                    let begun = self.begin_again(&resumed, out).await;
                    request = Some(resumed);
                    begun
                }
                ("final", Some(request)) => {
                    let end = (payload, events.room().clone());
                    return Ok(self.tell_end(request, Ok(end), &mut 0, out).await);
                }
                ("final" | "error", _) => break,
                (kind, Some(request)) => self.show(request, kind, &payload, events.room(), out).await,
                _ => Some(()),
            };
            if told.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(()))
    }

    /// The message that the cell was sent with whose first event is there: its beginning is stored with that.
    async fn message(&self, open: &Open) -> Result<Option<String>, ApiError> {
        if open.message.is_some() {
            return Ok(open.message.clone());
        }
        let entries = self.desk.journal(&self.key, open.journal, Some(WINDOW)).await?.entries;
        Ok(entries.iter().find_map(begun).and_then(|(_, key)| message_of(key)).map(str::to_owned))
    }

    async fn is_at_rest(&self) -> Result<bool, ApiError> {
        let now = self.desk.get(&self.key).await?.state;
        Ok(matches!(now, State::Idle | State::Hibernated | State::Failed | State::Archived))
    }

    /// What was shown of the cell before comes again.
    async fn begin_again(&self, request: &Request, out: &Out) -> Option<()> {
        state(out, request, "busy").await?;
        send(out, request.publish("clear_output", json!({ "wait": false }))).await
    }
}

fn field<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The id of the message that a cell was sent with under this key, if a notebook sent it.
fn message_of(key: &str) -> Option<&str> {
    key.strip_prefix(KEY_PREFIX)
}

/// The cell that this entry begins, and its key.
fn begun(entry: &JournalEntry) -> Option<(u64, &str)> {
    match &entry.body {
        JournalBody::Cell { cell, idempotency_key, .. } => Some((*cell, idempotency_key.as_deref().unwrap_or_default())),
        _ => None,
    }
}

/// The key of the last cell that has begun, if it has not ended.
fn open_key(entries: &[JournalEntry]) -> Option<&str> {
    let (cell, key) = entries.iter().rev().find_map(begun)?;
    let has_ended = |entry: &JournalEntry| matches!(&entry.body, JournalBody::Result { cell: ended, .. } if *ended == cell);
    (!entries.iter().any(has_ended)).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(seq: u64, body: Value) -> JournalEntry {
        JournalEntry { seq, time: String::new(), epoch: 1, body: serde_json::from_value(body).unwrap() }
    }

    fn cell(seq: u64, number: u64, key: &str) -> JournalEntry {
        let body = json!({ "kind": "cell", "cell": number, "source": "", "sourceBytes": 0, "sourceDigest": "", "idempotencyKey": key });
        entry(seq, body)
    }

    #[test]
    fn a_cell_is_told_of_once() {
        let resumed = Resumed::default();
        assert!(resumed.leaves("a") && !resumed.takes("a"), "this connection has sent it");
        assert!(resumed.takes("b") && !resumed.leaves("b"), "another one has");
        resumed.end();
        assert!(resumed.leaves("b"), "its answer was told");
    }

    #[test]
    fn the_open_cell_is_the_last_that_has_no_end() {
        let ended = entry(2, json!({ "kind": "result", "cell": 1, "ok": true, "digest": "" }));
        let entries = [cell(1, 1, "jupyter-a"), ended, cell(3, 2, "jupyter-b")];
        assert_eq!(open_key(&entries).and_then(message_of), Some("b"));
        assert_eq!(open_key(&entries[..2]), None);
        assert_eq!(message_of("another door's"), None);
    }
}
