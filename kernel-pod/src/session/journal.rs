//! What a session tells its journal. Entries travel with the next commit: what no commit carried did not happen.

use dormouse_engine::OpResult;
use dormouse_lifecycle::Json;
use dormouse_lifecycle::segment::sha256_hex;
use dormouse_protocol::eval::EvalResult;
use dormouse_protocol::history::{JournalBody, JournalRecord};

use super::phase::Live;
use crate::record::RunningCell;

/// Bytes of a cell's source that the journal keeps.
const SOURCE_BYTES_MAX: usize = 16 << 10;

/// Bytes of an error's message that the journal keeps.
const MESSAGE_BYTES_MAX: usize = 1 << 10;

impl Live {
    /// Puts an entry into the next commit.
    pub(super) fn note(&mut self, body: JournalBody) {
        let record = JournalRecord { time: self.clock.now().to_string(), epoch: self.owned.epoch, body };
        match Json::of(&record) {
            Ok(entry) => self.journal.push(entry),
            Err(error) => tracing::error!(%error, "an entry of the journal cannot be written"),
        }
    }
}

/// A cell that begins, behind the event of this number.
pub(super) fn began(cell: &RunningCell, events_after: u64) -> JournalBody {
    let source = &cell.request.code;
    JournalBody::Cell {
        cell: cell.cell,
        source: cut(source, SOURCE_BYTES_MAX).to_owned(),
        source_bytes: source.len() as u64,
        source_digest: sha256_hex(source.as_bytes()),
        language: cell.request.language,
        filename: cell.request.filename.clone(),
        idempotency_key: cell.request.idempotency_key.clone(),
        events_after: Some(events_after),
    }
}

/// A cell that has ended.
pub(super) fn ended(result: &EvalResult) -> JournalBody {
    let digest = match &result.value {
        Some(value) => digest(value),
        None => sha256_hex(result.preview.as_bytes()),
    };
    let message = result.error.as_ref().map(|error| cut(&error.message, MESSAGE_BYTES_MAX).to_owned());
    JournalBody::Result { cell: result.cell, ok: result.ok, digest, error: result.error.as_ref().map(|error| error.code), message }
}

/// A tool's answer.
pub(super) fn answered(call: u64, result: &OpResult) -> JournalBody {
    let (ok, digest) = match result {
        OpResult::Ok(value) => (true, digest(value)),
        OpResult::Err { message, .. } => (false, sha256_hex(message.as_bytes())),
        OpResult::Fired => (true, sha256_hex(b"")),
    };
    JournalBody::ToolResult { call, ok, digest }
}

/// Hex sha256 of the value as JSON.
pub(super) fn digest(value: &serde_json::Value) -> String {
    sha256_hex(value.to_string().as_bytes())
}

/// The beginning of `text`, whole characters of it.
fn cut(text: &str, bytes_max: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes_max)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_keeps_whole_characters() {
        assert_eq!([cut("häuser", 2), cut("häuser", 3), cut("h", 9), cut("", 3)], ["h", "hä", "h", ""]);
    }
}
