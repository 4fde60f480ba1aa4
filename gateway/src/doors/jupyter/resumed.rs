//! What a notebook is told that connects again: of its cells that ended meanwhile, then of the one under way, and of those that it has sent and that come
//! behind it.
//!
//! Which cells are its own says the journal, and what they showed the session's events: so any gateway can tell it, and nothing runs for it.

use std::{
    collections::HashSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

use dormouse_protocol::{ApiError, ErrorCode, session::State};
use serde_json::{Value, json};

use super::{
    cell::{End, Kernel, send, state},
    keys::{client_of, sender_of},
    messages::Request,
    past::{Cells, Past, unknown_end},
};
use crate::{
    doors::{lines::Events, socket::Out},
    stream::Frames,
};

/// Entries at the journal's end among which a client's cells are looked for.
const WINDOW: usize = 500;

/// What a client may have missed.
pub(super) struct Missed {
    /// From the first on that it is told of.
    cells: Cells,
    /// The first cell from this entry of the journal on is open, and told to any notebook.
    open: Option<u64>,
    /// Behind which event theirs are. `None`: behind none that is known.
    after: Option<u64>,
}

/// Which cell a client is told of, that did not send it over this connection. Cells are named by their keys.
#[derive(Default)]
pub(super) struct Resumed(Mutex<Keys>);

#[derive(Default)]
struct Keys {
    told: Option<String>,
    /// What this connection has sent since it began.
    sent: HashSet<String>,
    is_over: bool,
}

impl Resumed {
    fn lock(&self) -> MutexGuard<'_, Keys> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the connection itself is to run the cell that it is sent.
    pub(super) fn leaves(&self, key: Option<String>) -> bool {
        let Some(key) = key else { return true };
        let mut keys = self.lock();
        let leaves = keys.told.as_ref() != Some(&key);
        if leaves && !keys.is_over {
            keys.sent.insert(key);
        }
        leaves
    }

    /// Takes a cell, unless the connection itself runs it.
    fn takes(&self, key: &str) -> bool {
        let mut keys = self.lock();
        let takes = !keys.sent.contains(key);
        keys.told = takes.then(|| key.to_owned());
        takes
    }

    /// The cell that was taken was told to its end.
    fn has_told(&self) {
        self.lock().told = None;
    }

    /// No cell is told of any more.
    pub(super) fn end(&self) {
        *self.lock() = Keys { is_over: true, ..Keys::default() };
    }
}

impl Kernel {
    /// What the client of this session of Jupyter's may have missed, if it may have missed anything.
    pub(super) async fn missed(&self, session: &str) -> Option<Missed> {
        self.look_for_missed(session).await.unwrap_or_else(|error| {
            tracing::debug!(session = %self.key, %error, "it cannot be told what a notebook has missed");
            None
        })
    }

    /// Tells a client that has just connected what it has missed, and what its cells go on to do.
    pub(super) async fn resume(&self, missed: Missed, session: &str, resumed: &Resumed, out: &Out) {
        let Missed { cells, open, after } = missed;
        let client = client(session);
        let telling = Telling { kernel: self, session, client, resumed, out, cells, open, first: First::Nothing };
        // A client that has left needs nothing more.
        if let Err(error) = telling.follow(after).await {
            tracing::debug!(session = %self.key, %error, "a notebook is not told what it has missed");
        }
    }

    async fn look_for_missed(&self, session: &str) -> Result<Option<Missed>, ApiError> {
        let now = self.desk.get(&self.key).await?.state;
        let client = client(session);
        let rests = matches!(now, State::Idle | State::Failed);
        if now == State::Archived || rests && client.is_none() {
            return Ok(None);
        }
        let last = self.desk.journal_to_look(&self.key, u64::MAX, Some(1)).await?.last;
        let window = self.desk.journal_to_look(&self.key, last.saturating_sub(WINDOW as u64), Some(WINDOW)).await?;
        let mut cells = Cells { last_entry: last, ..Cells::default() };
        cells.add(&window.entries);
        Ok(missed(cells, now, client.as_deref()))
    }
}

/// What of these cells the client is told, in a session that is in this state.
fn missed(mut cells: Cells, now: State, client: Option<&str>) -> Option<Missed> {
    let open = match cells.cells.back() {
        _ if matches!(now, State::Idle | State::Failed) => None,
        Some(last) if last.end.is_none() => Some(last.entry),
        // In a session that sleeps only a cell is open that waits, and so is stored.
        _ => (now != State::Hibernated).then_some(cells.last_entry + 1),
    };
    let is_told = |past: &Past| past.is_of(client) || open == Some(past.entry) && past.is_of_a_notebook();
    if let Some(first) = cells.cells.iter().position(is_told) {
        cells.cells.drain(..first);
        let after = cells.cells.front().and_then(|past| past.events_after);
        return Some(Missed { cells, open, after });
    }
    // Of another door's cell, which is open, a notebook is told nothing.
    open.filter(|open| *open > cells.last_entry)?;
    let after = cells.cells.back().and_then(|past| past.events_after);
    cells.cells.clear();
    Some(Missed { cells, open, after })
}

/// What stands for the client of this session of Jupyter's in the keys of its cells. Who names none has no cells that could be known again.
fn client(session: &str) -> Option<String> {
    (!session.is_empty()).then(|| client_of(session))
}

/// A client that is told of cells, one after the other.
struct Telling<'a> {
    kernel: &'a Kernel,
    session: &'a str,
    client: Option<String>,
    resumed: &'a Resumed,
    out: &'a Out,
    /// Those whose end was not seen.
    cells: Cells,
    open: Option<u64>,
    first: First,
}

/// What of the first cell was seen.
enum First {
    Nothing,
    /// Some, which is nothing to the client.
    Skipped,
    /// Some, of which the client is told under this message.
    Told(Request),
}

impl Telling<'_> {
    /// Tells until the client has left, or the session rests and all is told. `None`: the client has left, or has to.
    async fn follow(mut self, after: Option<u64>) -> Result<Option<()>, ApiError> {
        if self.hear(after, true).await?.is_none() {
            return Ok(None);
        }
        // What the stream did not bring: where it was broken, or where the events are not kept any more.
        if let Some(first) = self.cells.cells.front() {
            let after = first.events_after;
            if let First::Told(request) = &self.first {
                let _ = clear(request, self.out).await;
            }
            if self.hear(after, false).await?.is_none() {
                return Ok(None);
            }
        }
        while !self.cells.cells.is_empty() && !self.out.is_closed() {
            let _ = self.leave().await;
        }
        Ok(Some(()))
    }

    /// Tells of events: up to those of now, or until the session rests. `None`: the client has left, or has to.
    async fn hear(&mut self, after: Option<u64>, follows: bool) -> Result<Option<()>, ApiError> {
        let mut events = Events::new(&self.kernel.desk, self.events(after, follows).await?);
        while let Some(line) = events.next().await {
            let Ok(mut event) = serde_json::from_slice::<Value>(&line) else { continue };
            let payload = event.get_mut("payload").map(Value::take).unwrap_or_default();
            let told = match field(&event, "type") {
                "heartbeat" if follows && self.is_over().await? => return Ok(Some(())),
                "heartbeat" => Some(()),
                "error" => None,
                kind => {
                    // A cell whose code cannot be compiled has its end only.
                    let is_known_now = kind == "final" || kind == "state" && field(&payload, "state") == "Running";
                    let seq = event.get("seq").and_then(Value::as_u64).unwrap_or_default();
                    let is_of_cell = (kind != "state" || is_known_now) && self.comes_to(seq, is_known_now).await?;
                    if is_of_cell { self.tell(kind, payload, &events).await } else { Some(()) }
                }
            };
            if told.is_none() || self.out.is_closed() {
                return Ok(None);
            }
        }
        Ok((!follows).then_some(()))
    }

    /// The session's events from there on; or all that are kept, where those are not any more.
    async fn events(&self, after: Option<u64>, follows: bool) -> Result<Frames, ApiError> {
        let desk = &self.kernel.desk;
        match desk.events(&self.kernel.key, after, follows).await {
            Err(error) if error.code == ErrorCode::EventsExpired => desk.events(&self.kernel.key, None, follows).await,
            events => events,
        }
    }

    /// Goes on to the cell that the event of this number belongs to; whether there is one. Where the cell must be stored by now it is looked for.
    async fn comes_to(&mut self, seq: u64, is_known_now: bool) -> Result<bool, ApiError> {
        let mut at = self.cells.of_event(seq);
        if at.is_none() && is_known_now {
            self.read_on().await?;
            at = self.cells.of_event(seq);
        }
        let Some(at) = at else { return Ok(false) };
        for _ in 0..at {
            let _ = self.leave().await;
        }
        Ok(true)
    }

    /// Reads what the journal has more by now.
    async fn read_on(&mut self) -> Result<(), ApiError> {
        let page = self.kernel.desk.journal_to_look(&self.kernel.key, self.cells.last_entry, Some(WINDOW)).await?;
        self.cells.add(&page.entries);
        Ok(())
    }

    /// Tells of an event of the first cell. `None`: the client has left.
    async fn tell(&mut self, kind: &str, payload: Value, events: &Events) -> Option<()> {
        if matches!(self.first, First::Nothing) {
            self.first = self.begin();
            if let First::Told(request) = &self.first {
                state(self.out, request, "busy").await?;
                clear(request, self.out).await?;
            }
        }
        if kind == "final" {
            let end = Ok((payload, events.room().clone()));
            return self.end(|_| end).await;
        }
        let First::Told(request) = &self.first else { return Some(()) };
        self.kernel.show(request, kind, &payload, events.room(), self.out).await
    }

    /// Leaves the first cell, of whose events no more are kept: the journal still knows how it ended. `None`: the client has left.
    async fn leave(&mut self) -> Option<()> {
        if matches!(self.first, First::Nothing) {
            self.first = self.begin();
        }
        if let First::Told(request) = &self.first {
            state(self.out, request, "busy").await?;
            let lost = "what this cell showed is not kept any more: some of it may be missing here\n";
            send(self.out, request.publish("stream", json!({ "name": "stderr", "text": lost }))).await?;
        }
        let room = self.kernel.desk.app.rooms.answer_to(&self.kernel.desk.caller.user);
        let known = |past: Past| match past.end {
            Some(Ok(())) => Ok((json!({ "cell": past.number, "valueType": "undefined" }), room)),
            Some(Err(error)) => Err(error),
            None => Err(unknown_end()),
        };
        self.end(known).await
    }

    /// Goes on behind the first cell, and tells its end. `None`: the client has left.
    async fn end(&mut self, end: impl FnOnce(Past) -> End) -> Option<()> {
        let first = std::mem::replace(&mut self.first, First::Nothing);
        let past = self.cells.cells.pop_front()?;
        let First::Told(request) = first else { return Some(()) };
        let mut number = past.number;
        let told = self.kernel.tell_end(&request, end(past), &mut number, self.out).await;
        self.resumed.has_told();
        told
    }

    /// Begins with the first cell: whether the client is told of it, and under which message.
    fn begin(&mut self) -> First {
        let Some(past) = self.cells.cells.front() else { return First::Nothing };
        let is_open = self.open.is_some_and(|open| past.entry >= open);
        if is_open {
            self.open = None;
        }
        let is_told = is_open || past.is_of(self.client.as_deref());
        match sender_of(&past.key) {
            Some((_, message)) if is_told && self.resumed.takes(&past.key) => First::Told(Request::of_message(message, self.session)),
            _ => First::Skipped,
        }
    }

    /// Whether nothing comes any more. A cell that was lost before anything of it was stored has no end; one that waits while its session sleeps has.
    async fn is_over(&mut self) -> Result<bool, ApiError> {
        let now = self.kernel.desk.get(&self.kernel.key).await?.state;
        if !matches!(now, State::Idle | State::Hibernated | State::Failed | State::Archived) {
            return Ok(false);
        }
        self.read_on().await?;
        Ok(self.cells.cells.back().is_none_or(|last| last.end.is_some()))
    }
}

/// What was shown of a cell before comes again.
async fn clear(request: &Request, out: &Out) -> Option<()> {
    send(out, request.publish("clear_output", json!({ "wait": false }))).await
}

fn field<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doors::jupyter::keys::key_of;

    /// Cells in order: who sent each, and whether it has ended. Each has ten events and two entries.
    fn cells(of: &[(&str, bool)]) -> Cells {
        let past = |(at, (client, has_ended)): (u64, &(&str, bool))| Past {
            entry: at * 2 + 1,
            number: at + 1,
            key: if client.is_empty() { "another door's".to_owned() } else { key_of(client, &format!("m{at}")).unwrap() },
            events_after: Some(at * 10),
            end: has_ended.then_some(Ok(())),
        };
        Cells { cells: (0..).zip(of).map(past).collect(), last_entry: 100 }
    }

    /// The cells from the first that is told on, the open entry, and the event before.
    fn told(of: &[(&str, bool)], now: State, session: &str) -> Option<(Vec<u64>, Option<u64>, Option<u64>)> {
        let missed = missed(cells(of), now, client(session).as_deref())?;
        Some((missed.cells.cells.iter().map(|past| past.number).collect(), missed.open, missed.after))
    }

    #[test]
    fn a_cell_is_told_of_once() {
        let resumed = Resumed::default();
        let leaves = |key: &str| resumed.leaves(Some(key.to_owned()));
        assert!(leaves("a") && !resumed.takes("a"), "this connection has sent it");
        assert!(resumed.takes("b") && !leaves("b"), "another one has");
        resumed.has_told();
        assert!(leaves("b"), "its answer was told");
        assert!(resumed.takes("c"));
        resumed.end();
        assert!(leaves("c") && resumed.leaves(None));
    }

    #[test]
    fn a_client_is_told_of_its_own_cells_and_of_any_notebooks_that_is_open() {
        let ended = [("yours", true), ("mine", true), ("", true), ("mine", true)];
        assert_eq!(told(&ended, State::Idle, "mine"), Some((vec![2, 3, 4], None, Some(10))));
        assert_eq!(told(&ended, State::Hibernated, "mine"), Some((vec![2, 3, 4], None, Some(10))));
        for new in ["new", ""] {
            assert_eq!(told(&ended, State::Idle, new), None, "{new}");
            assert_eq!(told(&ended, State::Hibernated, new), None, "{new}");
            assert_eq!(
                told(&ended, State::Running, new),
                Some((vec![], Some(101), Some(30))),
                "one may be open of which nothing is stored: {new}"
            );
        }
        let open = [("mine", true), ("", true), ("yours", false)];
        assert_eq!(told(&open, State::Running, "new"), Some((vec![3], Some(5), Some(20))));
        assert_eq!(told(&open, State::WaitingForTool, "mine"), Some((vec![1, 2, 3], Some(5), Some(0))));
        assert_eq!(told(&open, State::Hibernated, "new"), Some((vec![3], Some(5), Some(20))), "it waits");
        assert_eq!(told(&[("yours", true), ("", false)], State::Running, "new"), None, "another door's");
        assert_eq!(told(&[], State::Idle, "mine"), None);
    }
}
