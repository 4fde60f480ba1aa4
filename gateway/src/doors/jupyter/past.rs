//! The cells of a session, as its journal tells of them.

use std::collections::VecDeque;

use dormouse_protocol::{
    ApiError, ErrorCode,
    history::{JournalBody, JournalEntry},
};

use super::keys::sender_of;

/// A cell that has begun.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Past {
    /// Its entry of the journal.
    pub(super) entry: u64,
    pub(super) number: u64,
    pub(super) key: String,
    /// The last event before it. `None`: it is not known any more which events are its own.
    pub(super) events_after: Option<u64>,
    /// How it ended, as far as it has.
    pub(super) end: Option<Result<(), ApiError>>,
}

impl Past {
    /// Whether this client of notebooks sent it.
    pub(super) fn is_of(&self, client: Option<&str>) -> bool {
        client.is_some() && sender_of(&self.key).map(|(sender, _)| sender) == client
    }

    /// Whether any notebook did.
    pub(super) fn is_of_a_notebook(&self) -> bool {
        sender_of(&self.key).is_some()
    }
}

/// Cells in order, those first that began first.
#[derive(Debug, Default)]
pub(super) struct Cells {
    pub(super) cells: VecDeque<Past>,
    /// The last entry of the journal that they come from.
    pub(super) last_entry: u64,
}

impl Cells {
    /// Adds what these entries tell, which follow those that were added before.
    pub(super) fn add(&mut self, entries: &[JournalEntry]) {
        for entry in entries {
            self.last_entry = entry.seq;
            match &entry.body {
                JournalBody::Cell { cell, idempotency_key, events_after, .. } => self.cells.push_back(Past {
                    entry: entry.seq,
                    number: *cell,
                    key: idempotency_key.clone().unwrap_or_default(),
                    events_after: *events_after,
                    end: None,
                }),
                JournalBody::Result { cell, ok, error, message, .. } => {
                    let code = error.unwrap_or(ErrorCode::UncaughtException);
                    let end = if *ok { Ok(()) } else { Err(ApiError::new(code, message.clone().unwrap_or_default())) };
                    if let Some(past) = self.cells.iter_mut().rev().find(|past| past.number == *cell) {
                        past.end = Some(end);
                    }
                }
                JournalBody::Restored { .. } | JournalBody::Reset { .. } => {
                    for past in &mut self.cells {
                        past.end.get_or_insert_with(|| Err(unknown_end()));
                    }
                }
                _ => {}
            }
        }
    }

    /// Which of them the event of this number belongs to, unless that has no cell.
    pub(super) fn of_event(&self, event: u64) -> Option<usize> {
        self.cells.iter().rposition(|past| past.events_after.is_some_and(|after| after < event))
    }
}

/// What is told of a cell that nobody knows the end of.
pub(super) fn unknown_end() -> ApiError {
    ApiError::new(ErrorCode::SessionGone, "how this cell ended is not known: look at what it did, and run it again if that is not there")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::doors::jupyter::keys::{client_of, key_of};

    /// A cell of a client, behind an event.
    fn cell(number: u64, client: &str, after: u64) -> Value {
        let key = key_of(client, &format!("m{number}")).unwrap();
        json!({
            "kind": "cell", "cell": number, "source": "", "sourceBytes": 0, "sourceDigest": "", "idempotencyKey": key, "eventsAfter": after,
        })
    }

    fn cells(bodies: Vec<Value>) -> Cells {
        let entry = |(seq, body)| JournalEntry { seq, time: String::new(), epoch: 1, body: serde_json::from_value(body).unwrap() };
        let mut cells = Cells::default();
        cells.add(&(1..).zip(bodies).map(entry).collect::<Vec<_>>());
        cells
    }

    #[test]
    fn the_journal_tells_whose_cells_ended_and_how() {
        let failed = json!({ "kind": "result", "cell": 2, "ok": false, "digest": "", "error": "TimeoutError", "message": "late" });
        let cells = cells(vec![
            cell(1, "mine", 0),
            json!({ "kind": "result", "cell": 1, "ok": true, "digest": "" }),
            cell(2, "yours", 4),
            failed,
            cell(3, "mine", 8),
        ]);
        let mine = client_of("mine");
        let told: Vec<_> = cells.cells.iter().map(|past| (past.number, past.is_of(Some(&mine)), past.end.is_some())).collect();
        assert_eq!(told, [(1, true, true), (2, false, true), (3, true, false)]);
        assert!(cells.cells.iter().all(|past| past.is_of_a_notebook() && !past.is_of(None)));
        let late = cells.cells[1].end.clone().unwrap().unwrap_err();
        assert_eq!((late.code, late.message.as_str(), cells.last_entry), (ErrorCode::TimeoutError, "late", 5));
    }

    #[test]
    fn an_event_belongs_to_the_cell_that_began_last_before_it() {
        let mut cells = cells(vec![cell(1, "mine", 2), cell(2, "mine", 6), cell(3, "mine", 9)]);
        assert_eq!(
            [2, 3, 6, 7, 9, 10, 99].map(|event| cells.of_event(event)),
            [None, Some(0), Some(0), Some(1), Some(1), Some(2), Some(2)]
        );
        cells.cells.pop_front();
        assert_eq!(cells.of_event(5), None, "what comes behind a cell's end belongs to none");
    }

    #[test]
    fn a_cell_that_a_session_went_back_before_has_no_end_that_is_known() {
        let back = cells(vec![cell(1, "mine", 0), json!({ "kind": "reset" }), cell(2, "mine", 5)]);
        assert_eq!(back.cells[0].end, Some(Err(unknown_end())));
        assert_eq!(back.cells[1].end, None);
    }
}
