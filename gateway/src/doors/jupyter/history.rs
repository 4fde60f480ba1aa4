//! The cells that a console goes back through, out of the session's journal: closing the notebook, sleep and crashes take none of them.

use std::collections::VecDeque;

use dormouse_protocol::{
    ApiError,
    history::{JournalBody, JournalEntry},
};
use dormouse_service::wildcard;
use serde_json::{Value, json};

use super::messages::COMPLETION_NAME;
use crate::{directory::Key, doors::desk::Desk};

/// Most cells of an answer.
const CELLS_MAX: usize = 1_000;
/// Entries of the journal that are read at once, and how often: what lies further back is not found.
const WINDOW: u64 = 500;
const WINDOWS_MAX: usize = 20;
/// The number of the only run of this kernel: a session has no others.
const SESSION: u64 = 1;

/// What is asked for: `history_request` of Jupyter's messaging protocol 5.3.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    /// The last ones.
    Tail(usize),
    /// Those with numbers from one, up to the other.
    Range(u64, u64),
    /// The last ones that a pattern covers, in which `*` stands for anything; or each source once.
    Search { pattern: String, count: usize, once: bool },
}

impl Wanted {
    fn read(content: &Value) -> Self {
        let number = |field: &str| content.get(field).and_then(Value::as_u64);
        let count = number("n").and_then(|n| usize::try_from(n).ok()).unwrap_or(CELLS_MAX).min(CELLS_MAX);
        match content.get("hist_access_type").and_then(Value::as_str) {
            Some("range") => Self::Range(number("start").unwrap_or(0), number("stop").unwrap_or(u64::MAX)),
            Some("search") => {
                let pattern = content.get("pattern").and_then(Value::as_str).unwrap_or("*").to_owned();
                Self::Search { pattern, count, once: content.get("unique").and_then(Value::as_bool).unwrap_or(false) }
            }
            _ => Self::Tail(count),
        }
    }

    /// Whether a cell is among them, behind those that were found already, the latest of which come last.
    fn takes(&self, (number, source): (u64, &str), found: &VecDeque<(u64, String)>) -> bool {
        match self {
            Self::Tail(_) => true,
            Self::Range(begin, end) => (*begin..*end).contains(&number),
            Self::Search { pattern, once, .. } => {
                wildcard::covers(pattern, source) && !(*once && found.iter().any(|(_, other)| other == source))
            }
        }
    }

    fn count(&self) -> usize {
        match self {
            Self::Tail(count) | Self::Search { count, .. } => *count,
            Self::Range(begin, end) => usize::try_from(end.saturating_sub(*begin)).unwrap_or(CELLS_MAX).min(CELLS_MAX),
        }
    }
}

/// Content of a `history_reply`: rows of the run's number, the cell's, and its source, which is cut as the journal cuts it. Nobody keeps outputs here.
///
/// # Errors
/// The journal cannot be read.
pub(super) async fn reply(desk: &Desk, key: &Key, content: &Value) -> Result<Value, ApiError> {
    let wanted = Wanted::read(content);
    let mut found = VecDeque::new();
    let mut end = desk.journal(key, u64::MAX, Some(1)).await?.last;
    for _ in 0..WINDOWS_MAX {
        if end == 0 || found.len() >= wanted.count() {
            break;
        }
        let begin = end.saturating_sub(WINDOW);
        let page = desk.journal(key, begin, Some((end - begin) as usize)).await?;
        collect(&page.entries, &wanted, &mut found);
        end = begin;
    }
    let outputs = content.get("output").and_then(Value::as_bool).unwrap_or(false);
    let row = |(number, source): (u64, String)| {
        let said = if outputs { json!([source, null]) } else { json!(source) };
        json!([SESSION, number, said])
    };
    Ok(json!({ "status": "ok", "history": found.into_iter().map(row).collect::<Vec<_>>() }))
}

/// Puts what is wanted of `entries` before what was found behind them.
fn collect(entries: &[JournalEntry], wanted: &Wanted, found: &mut VecDeque<(u64, String)>) {
    for entry in entries.iter().rev() {
        let JournalBody::Cell { cell, source, filename, .. } = &entry.body else { continue };
        if filename.as_deref() == Some(COMPLETION_NAME) {
            continue;
        }
        if found.len() < wanted.count() && wanted.takes((*cell, source), found) {
            found.push_front((*cell, source.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(number: u64, source: &str, filename: Option<&str>) -> JournalEntry {
        let body = JournalBody::Cell {
            cell: number,
            source: source.to_owned(),
            source_bytes: source.len() as u64,
            source_digest: String::new(),
            language: Default::default(),
            filename: filename.map(str::to_owned),
            idempotency_key: None,
            events_after: None,
        };
        JournalEntry { seq: number, time: String::new(), epoch: 1, body }
    }

    fn found(content: Value) -> Vec<u64> {
        let entries = [
            cell(1, "let a = 1", None),
            cell(2, "a + 1", None),
            cell(3, "(() => 1)()", Some(COMPLETION_NAME)),
            cell(4, "a + 1", None),
            cell(5, "let b = 2", None),
        ];
        let mut found = VecDeque::new();
        collect(&entries, &Wanted::read(&content), &mut found);
        found.into_iter().map(|(number, _)| number).collect()
    }

    #[test]
    fn the_last_cells_of_people_are_told_in_order() {
        assert_eq!(found(json!({ "hist_access_type": "tail", "n": 2 })), [4, 5]);
        assert_eq!(found(json!({ "hist_access_type": "tail" })), [1, 2, 4, 5]);
        assert_eq!(found(json!({ "hist_access_type": "tail", "n": 0 })), [] as [u64; 0]);
    }

    #[test]
    fn cells_are_found_by_number_and_by_pattern() {
        assert_eq!(found(json!({ "hist_access_type": "range", "session": 0, "start": 2, "stop": 5 })), [2, 4]);
        assert_eq!(found(json!({ "hist_access_type": "search", "pattern": "a*" })), [2, 4]);
        assert_eq!(found(json!({ "hist_access_type": "search", "pattern": "a*", "unique": true })), [4]);
        assert_eq!(found(json!({ "hist_access_type": "search", "pattern": "let * = *", "n": 1 })), [5]);
    }
}
