//! How cells ended, by idempotency key: a key that has an end never runs its cell again, and a retry is told that end.
//!
//! It is part of the record that a head carries, so it is bounded in number and in bytes.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::{Json, segment::sha256_hex};

/// Ends that are kept, of runs and of other cells each; the oldest goes first.
pub const ENDS_MAX: usize = 32;

/// Bytes of JSON of an end that is kept whole. Of a larger one its digest is kept.
pub const END_BYTES_MAX: usize = 16 << 10;

/// Hex digits of a key's sha256 that are kept: enough to tell so few keys apart.
const KEY_DIGITS: usize = 16;

/// The last ends of a session's cells, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ends {
    ends: VecDeque<End>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct End {
    /// [`KEY_DIGITS`] of the key's digest.
    key: String,
    cell: u64,
    end: Stored,
    /// Whether it is the end of a run: others do not push it out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    run: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Stored {
    Whole(Json),
    Digest(Digest),
}

/// What is left of an end that is too large to be kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest {
    /// Bytes that it had as JSON.
    pub bytes: u64,
    /// Hex sha256 of them.
    pub sha256: String,
}

/// What is known of the cell that ended under a key.
#[derive(Debug, PartialEq)]
pub struct RecordedEnd<'a> {
    /// Its number.
    pub cell: u64,
    /// How it ended.
    pub end: Kept<'a>,
}

/// An end as far as it is kept.
#[derive(Debug, PartialEq)]
pub enum Kept<'a> {
    /// The whole of it.
    Whole(&'a Json),
    /// It was too large.
    Digest(&'a Digest),
}

impl Ends {
    /// Records how the cell of this number ended that ran under `key`. A key has one end: a later one is not taken.
    pub fn record(&mut self, key: &str, cell: u64, end: Json) {
        self.keep(key, cell, end, false);
    }

    /// The same of a run's cell.
    pub fn record_run(&mut self, key: &str, cell: u64, end: Json) {
        self.keep(key, cell, end, true);
    }

    fn keep(&mut self, key: &str, cell: u64, end: Json, run: bool) {
        if self.find(key).is_some() {
            return;
        }
        let bytes = end.text().len();
        let end = if bytes <= END_BYTES_MAX {
            Stored::Whole(end)
        } else {
            Stored::Digest(Digest { bytes: bytes as u64, sha256: sha256_hex(end.text().as_bytes()) })
        };
        self.ends.push_back(End { key: digits(key), cell, end, run });
        let alike = self.ends.iter().filter(|end| end.run == run).count();
        if alike > ENDS_MAX
            && let Some(oldest) = self.ends.iter().position(|end| end.run == run)
        {
            self.ends.remove(oldest);
        }
    }

    /// How the cell under `key` ended. `None`: none did, or so long ago that it is forgotten.
    #[must_use]
    pub fn find(&self, key: &str) -> Option<RecordedEnd<'_>> {
        let key = digits(key);
        let end = self.ends.iter().rev().find(|end| end.key == key)?;
        let kept = match &end.end {
            Stored::Whole(whole) => Kept::Whole(whole),
            Stored::Digest(digest) => Kept::Digest(digest),
        };
        Some(RecordedEnd { cell: end.cell, end: kept })
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.ends.clear();
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

fn digits(key: &str) -> String {
    let mut digest = sha256_hex(key.as_bytes());
    digest.truncate(KEY_DIGITS);
    digest
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// An end of so many bytes.
    fn sized(bytes: usize) -> Json {
        json!("x".repeat(bytes - 2)).into()
    }

    #[test]
    fn an_end_of_the_largest_size_is_kept_whole_and_one_byte_more_by_its_digest() {
        let mut ends = Ends::default();
        ends.record("fits", 1, sized(END_BYTES_MAX));
        ends.record("too large", 2, sized(END_BYTES_MAX + 1));
        let stored = serde_json::to_string(&ends).unwrap();
        let ends: Ends = serde_json::from_str(&stored).unwrap();
        assert_eq!(ends.find("fits"), Some(RecordedEnd { cell: 1, end: Kept::Whole(&sized(END_BYTES_MAX)) }));
        let digest = Digest { bytes: END_BYTES_MAX as u64 + 1, sha256: sha256_hex(sized(END_BYTES_MAX + 1).text().as_bytes()) };
        assert_eq!(ends.find("too large"), Some(RecordedEnd { cell: 2, end: Kept::Digest(&digest) }));
        assert_eq!(ends.find("another"), None);
    }

    #[test]
    fn the_last_ends_are_kept_and_the_oldest_is_forgotten() {
        let mut ends = Ends::default();
        for cell in 1..=ENDS_MAX as u64 + 1 {
            ends.record(&format!("key-{cell}"), cell, json!(cell).into());
        }
        assert_eq!(ends.find("key-1"), None);
        assert_eq!(ends.find("key-2"), Some(RecordedEnd { cell: 2, end: Kept::Whole(&json!(2).into()) }));
        assert_eq!(ends.find("key-33").map(|known| known.cell), Some(33));
    }

    #[test]
    fn other_cells_do_not_push_out_the_end_of_a_run() {
        let mut ends = Ends::default();
        ends.record_run("run", 1, json!(1).into());
        for cell in 0..=ENDS_MAX as u64 {
            ends.record(&format!("key-{cell}"), cell, json!(cell).into());
        }
        assert!(ends.find("run").is_some() && ends.find("key-0").is_none());
    }

    #[test]
    fn a_key_has_one_end() {
        let mut ends = Ends::default();
        ends.record("key", 1, json!("first").into());
        ends.record("key", 2, json!("second").into());
        assert_eq!(ends.find("key"), Some(RecordedEnd { cell: 1, end: Kept::Whole(&json!("first").into()) }));
    }
}
