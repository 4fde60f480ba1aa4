//! Which cells made a session what it is, by its journal.

use dormouse_protocol::eval::Language;
use dormouse_protocol::history::{JournalBody, JournalEntry};

/// A cell as the journal has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Recorded {
    pub(super) cell: u64,
    pub(super) source: String,
    pub(super) language: Language,
    pub(super) filename: Option<String>,
    /// Whether the journal has only the beginning of the source.
    pub(super) is_cut: bool,
    /// Whether it ended well, and the digest of what it came to. `None`: it never ended.
    pub(super) came_to: Option<(bool, String)>,
}

/// What to replay.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) cells: Vec<Recorded>,
    /// What the journal does not tell.
    pub(super) notes: Vec<String>,
}

/// The cells that are still part of the session, in order: going back to a checkpoint takes those behind it out.
pub(super) fn plan(entries: &[JournalEntry]) -> Plan {
    let mut plan = Plan::default();
    let mut marks: Vec<(&str, Vec<Recorded>)> = Vec::new();
    if entries.first().is_some_and(|first| first.seq > 1) {
        plan.notes.push("the journal does not go back to the session's beginning: its first cells are not replayed".to_owned());
    }
    for entry in entries {
        match &entry.body {
            JournalBody::Cell { cell, source, source_bytes, language, filename, .. } => plan.cells.push(Recorded {
                cell: *cell,
                source: source.clone(),
                language: *language,
                filename: filename.clone(),
                is_cut: (source.len() as u64) < *source_bytes,
                came_to: None,
            }),
            JournalBody::Result { cell, ok, digest, .. } => {
                if let Some(known) = plan.cells.iter_mut().rev().find(|known| known.cell == *cell) {
                    known.came_to = Some((*ok, digest.clone()));
                }
            }
            JournalBody::Checkpoint { id, .. } => marks.push((id, plan.cells.clone())),
            JournalBody::Restored { checkpoint } => match marks.iter().rev().find(|(id, _)| id == checkpoint) {
                Some((_, cells)) => plan.cells.clone_from(cells),
                None => plan.notes.push(format!(
                    "the session went back to checkpoint {checkpoint}, which the journal does not place: cells that were left behind there are replayed, too"
                )),
            },
            JournalBody::Reset { .. } => plan.cells.clear(),
            JournalBody::Forked { parent, .. } => {
                plan.notes.push(format!("the session began as a fork of {parent}: what was made there is not replayed"));
            }
            JournalBody::ToolCall { .. }
            | JournalBody::ToolResult { .. }
            | JournalBody::Hibernated
            | JournalBody::Woke { .. }
            | JournalBody::Migrated { .. } => {}
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(bodies: Vec<JournalBody>) -> Vec<JournalEntry> {
        (1..).zip(bodies).map(|(seq, body)| JournalEntry { seq, time: String::new(), epoch: 1, body }).collect()
    }

    fn cell(cell: u64) -> JournalBody {
        let source = format!("{cell}");
        let (source_bytes, source_digest) = (source.len() as u64, String::new());
        let (language, filename, idempotency_key, events_after) = (Language::Typescript, None, None, None);
        JournalBody::Cell { cell, source, source_bytes, source_digest, language, filename, idempotency_key, events_after }
    }

    fn cells(plan: &Plan) -> Vec<u64> {
        plan.cells.iter().map(|it| it.cell).collect()
    }

    #[test]
    fn what_was_left_behind_is_not_replayed() {
        let mark = JournalBody::Checkpoint { id: "2".to_owned(), label: None };
        let back = JournalBody::Restored { checkpoint: "2".to_owned() };
        let ended = JournalBody::Result { cell: 1, ok: true, digest: "d".to_owned(), error: None, message: None };
        let plan = plan(&entries(vec![cell(1), ended, cell(2), mark, cell(3), back, cell(4)]));
        assert_eq!((cells(&plan), plan.notes.len()), (vec![1, 2, 4], 0));
        assert_eq!(plan.cells[0].came_to, Some((true, "d".to_owned())));
    }

    #[test]
    fn what_was_before_a_reset_is_not_replayed_unless_the_session_went_back_to_it() {
        let mark = |id: &str| JournalBody::Checkpoint { id: id.to_owned(), label: None };
        let reset = || JournalBody::Reset { before: Some("2".to_owned()) };
        assert_eq!(cells(&plan(&entries(vec![cell(1), mark("2"), reset(), cell(2)]))), [2]);
        let back = JournalBody::Restored { checkpoint: "2".to_owned() };
        let plan = plan(&entries(vec![cell(1), mark("2"), reset(), cell(2), back]));
        assert_eq!((cells(&plan), plan.notes.len()), (vec![1], 0));
    }

    #[test]
    fn what_the_journal_does_not_tell_is_said() {
        let forked = JournalBody::Forked { parent: "s_p".to_owned(), sequence: 3 };
        let back = JournalBody::Restored { checkpoint: "9".to_owned() };
        let mut late = entries(vec![forked, cell(1), back]);
        late[0].seq = 5;
        let plan = plan(&late);
        assert_eq!((cells(&plan), plan.notes.len()), (vec![1], 3));
    }
}
