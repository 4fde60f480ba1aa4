//! Cells that are run whether or not somebody waits: accepted before they begin, and known after they have ended.
//!
//! They are part of the record that a head carries, so whoever has the session next finds what was accepted and not ended. Bounded in number and
//! in bytes. What a cell answered is not here: that is the end under its key ([`crate::ends`]).

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::{Json, ends::ENDS_MAX, segment::sha256_hex};

/// Runs that may wait or run at once.
pub const RUNS_OPEN_MAX: usize = 32;

/// Bytes of what they were asked with, as JSON, all together.
pub const RUNS_BYTES_MAX: usize = 1 << 20;

/// Runs that have ended and are kept; the oldest goes first.
pub const RUNS_ENDED_MAX: usize = ENDS_MAX;

/// Times that a cell is begun. A process that was lost each time before it had stored anything of the cell may have been lost by it.
pub const BEGINS_MAX: u32 = 3;

/// Hex digits of a run's id.
const ID_DIGITS: usize = 32;

/// The runs of a session, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Runs {
    runs: VecDeque<Run>,
}

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// Follows from the key.
    pub id: String,
    /// Its idempotency key.
    pub key: String,
    /// What was asked. Absent once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Json>,
    /// The id of the request that it was accepted with: whoever finds it works for that request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// When it was accepted, RFC 3339.
    pub created_at: String,
    /// When its cell began last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// How often its cell was begun.
    #[serde(default)]
    pub begins: u32,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct End {
    /// When, RFC 3339.
    pub time: String,
    /// How.
    pub outcome: Outcome,
    /// The cell's number; 0 when it never began.
    pub cell: u64,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// Its cell ended well.
    Succeeded,
    /// Its cell failed.
    Failed,
    /// It was ended by request.
    Cancelled,
}

/// Why a run is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Too many have not ended.
    #[error("{RUNS_OPEN_MAX} runs of this session wait or run; send it again when one has ended")]
    TooMany,
    /// What they were asked with is too much to be kept.
    #[error(
        "what runs of this session that have not ended were asked with would be more than {RUNS_BYTES_MAX} bytes; wait for their ends, or put long code into a file"
    )]
    TooLarge,
}

/// What to do with a run whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// Run its cell.
    Go,
    /// It has been begun too often.
    Exhausted,
    /// It has ended, or is not known.
    Over,
}

/// The id of the run under `key`.
#[must_use]
pub fn run_id(key: &str) -> String {
    let mut digits = sha256_hex(key.as_bytes());
    digits.truncate(ID_DIGITS);
    format!("r_{digits}")
}

impl Runs {
    /// Accepts a run under `key`, on behalf of the request of this id, if it has one. One that is known stays as it is.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn accept(&mut self, key: &str, request: Json, request_id: &str, now: &str) -> Result<(), Refused> {
        if self.under(key).is_some() {
            return Ok(());
        }
        let open = || self.runs.iter().filter(|run| run.end.is_none());
        if open().count() >= RUNS_OPEN_MAX {
            return Err(Refused::TooMany);
        }
        let bytes: usize = open().filter_map(|run| run.request.as_ref()).map(|request| request.text().len()).sum();
        if bytes + request.text().len() > RUNS_BYTES_MAX {
            return Err(Refused::TooLarge);
        }
        self.runs.push_back(Run {
            id: run_id(key),
            key: key.to_owned(),
            request: Some(request),
            request_id: Some(request_id.to_owned()).filter(|id| !id.is_empty()),
            created_at: now.to_owned(),
            started_at: None,
            begins: 0,
            end: None,
        });
        Ok(())
    }

    /// Notes that the cell of the run under `key` begins.
    pub fn begin(&mut self, key: &str, now: &str) -> Begin {
        let Some(run) = self.runs.iter_mut().find(|run| run.key == key && run.end.is_none()) else { return Begin::Over };
        if run.begins >= BEGINS_MAX {
            return Begin::Exhausted;
        }
        run.begins += 1;
        run.started_at = Some(now.to_owned());
        Begin::Go
    }

    /// Notes how the run under `key` ended, if there is one that has not. An end stays.
    pub fn end(&mut self, key: &str, end: End) {
        let Some(run) = self.runs.iter_mut().find(|run| run.key == key && run.end.is_none()) else { return };
        (run.end, run.request) = (Some(end), None);
        let ended = self.runs.iter().filter(|run| run.end.is_some()).count();
        for _ in RUNS_ENDED_MAX..ended {
            // The one that has just ended is the last of them, however long ago it was accepted.
            if let Some(oldest) = self.runs.iter().position(|run| run.end.is_some() && run.key != key) {
                self.runs.remove(oldest);
            }
        }
    }

    /// Ends what has not ended, as cancelled.
    pub fn cancel_open(&mut self, now: &str) {
        let open: Vec<_> = self.open().map(|run| run.key.clone()).collect();
        for key in open {
            self.end(&key, End { time: now.to_owned(), outcome: Outcome::Cancelled, cell: 0 });
        }
    }

    /// The run under `key`.
    #[must_use]
    pub fn under(&self, key: &str) -> Option<&Run> {
        self.runs.iter().find(|run| run.key == key)
    }

    /// The run of this id.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<&Run> {
        self.runs.iter().find(|run| run.id == id)
    }

    /// All of them, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Run> {
        self.runs.iter()
    }

    /// Those that have not ended, oldest first.
    pub fn open(&self) -> impl DoubleEndedIterator<Item = &Run> {
        self.runs.iter().filter(|run| run.end.is_none())
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.runs.clear();
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(bytes: usize) -> Json {
        json!("x".repeat(bytes - 2)).into()
    }

    fn end(cell: u64) -> End {
        End { time: "t".to_owned(), outcome: Outcome::Succeeded, cell }
    }

    #[test]
    fn what_is_accepted_is_found_by_whoever_reads_the_record_until_it_has_ended() {
        let mut runs = Runs::default();
        runs.accept("a", request(10), "", "t1").unwrap();
        runs.accept("b", request(10), "", "t2").unwrap();
        runs.accept("a", request(20), "", "t3").unwrap();
        assert_eq!(runs.begin("a", "t4"), Begin::Go);
        let mut runs: Runs = serde_json::from_str(&serde_json::to_string(&runs).unwrap()).unwrap();
        assert_eq!(runs.open().map(|run| run.key.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        runs.end("a", end(1));
        assert_eq!((runs.begin("a", "t5"), runs.begin("unknown", "t5")), (Begin::Over, Begin::Over));
        assert_eq!(runs.find(&run_id("a")).unwrap().request, None);
        assert_eq!(runs.open().count(), 1);
    }

    #[test]
    fn a_cell_is_begun_so_often_and_no_more() {
        let mut runs = Runs::default();
        runs.accept("a", request(10), "", "t").unwrap();
        for _ in 0..BEGINS_MAX {
            assert_eq!(runs.begin("a", "t"), Begin::Go);
        }
        assert_eq!(runs.begin("a", "t"), Begin::Exhausted);
    }

    #[test]
    fn so_many_may_be_open_with_so_many_bytes_and_one_more_is_refused() {
        let mut runs = Runs::default();
        for n in 0..RUNS_OPEN_MAX {
            runs.accept(&n.to_string(), request(10), "", "t").unwrap();
        }
        assert_eq!(runs.accept("more", request(10), "", "t"), Err(Refused::TooMany));
        runs.end("0", end(1));
        runs.accept("more", request(10), "", "t").unwrap();

        let mut runs = Runs::default();
        runs.accept("a", request(RUNS_BYTES_MAX - 10), "", "t").unwrap();
        assert_eq!(runs.accept("b", request(11), "", "t"), Err(Refused::TooLarge));
        runs.accept("b", request(10), "", "t").unwrap();
    }

    #[test]
    fn the_last_ended_are_kept_and_none_that_has_not_ended_goes() {
        let mut runs = Runs::default();
        runs.accept("open", request(10), "", "t").unwrap();
        for n in 0..=RUNS_ENDED_MAX {
            runs.accept(&n.to_string(), request(10), "", "t").unwrap();
            runs.end(&n.to_string(), end(n as u64));
        }
        assert!(runs.under("0").is_none() && runs.under("1").is_some() && runs.under("open").is_some());
        runs.cancel_open("later");
        assert_eq!(runs.open().count(), 0);
        assert_eq!(runs.under("open").unwrap().end.as_ref().unwrap().outcome, Outcome::Cancelled);
    }
}
