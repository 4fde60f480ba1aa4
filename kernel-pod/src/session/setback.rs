//! What a session goes back to when what ran in it last is lost with its instance: the state of its last answer, or else its last commit.
//!
//! An instance is lost when a turn can only be ended with it, or when what it did cannot be stored. Storage has the last commit. Where answers are
//! ahead of storage (`spec.durability`), the process keeps what they changed at hand, so they are lost with the process only.

use std::collections::BTreeMap;

use dormouse_engine::{Globals, HostState, Image};
use dormouse_lifecycle::Page;
use dormouse_lifecycle::blobs::Table;
use dormouse_protocol::eval::CellError;
use dormouse_protocol::{ApiError, ErrorCode};
use tokio::time::Instant;

use super::actor::Actor;
use super::run::{BOOTSTRAP_CELL, EvalEnd};
use super::state::{RunningCell, SessionState};
use super::{EvalJob, Fault, journal};

/// A session as it answered last, where that is ahead of its last commit.
pub(super) struct Answered {
    /// Pages that differ from those of the last commit.
    pages: BTreeMap<u32, Page>,
    /// Size of linear memory in pages of [`dormouse_engine::PAGE_BYTES`].
    memory_pages: u32,
    globals: Globals,
    host: HostState,
    state: SessionState,
    /// Entries of the journal that belong to it, of those that wait for the next commit.
    journal_entries: usize,
    /// What it has outside its heap, if that differs from the last commit's.
    table: Option<Table>,
}

impl Answered {
    /// Its pages with later ones over them, ascending.
    pub(super) fn with(&self, later: Vec<(u32, Page)>) -> Vec<(u32, Page)> {
        let mut pages = self.pages.clone();
        pages.extend(later);
        pages.into_iter().collect()
    }
}

/// A session whose instance was lost, until it has another one.
#[derive(Default)]
pub(super) struct Setback {
    /// What was answered, and the ETag of the head that it lies over.
    pub(super) answered: Option<(Box<Answered>, Option<String>)>,
    /// Entries of the journal that belong to that.
    pub(super) journal: Vec<dormouse_lifecycle::Json>,
    /// The operation whose delivery the instance did not survive: it is not delivered again.
    pub(super) op: Option<u64>,
    /// The cell that cannot go on.
    ended: Option<EndedCell>,
}

/// A cell that cannot go on. Its end is recorded before it is told.
struct EndedCell {
    running: RunningCell,
    /// Cells begun when it ended: their numbers are used up.
    cells: u64,
    error: CellError,
    job: Option<EvalJob>,
}

/// What a failure of the instance is put down to.
#[derive(Debug, Default)]
pub(super) struct Blame {
    /// A delivery.
    pub(super) op: Option<u64>,
    /// Something that no cell asked for: the cell that awaits goes on.
    pub(super) is_request: bool,
}

impl Actor {
    /// Keeps the state that is answered now at hand, because it is not stored.
    pub(super) async fn keep_answered(&mut self) {
        let Some(live) = &mut self.live else { return };
        let delta = live.instance.delta();
        live.instance.mark_committed();
        let table = live.contents.changed_table().await;
        let mut pages = live.answered.take().map(|answered| answered.pages).unwrap_or_default();
        pages.extend(delta.pages);
        live.answered = Some(Box::new(Answered {
            pages,
            memory_pages: delta.memory_pages,
            globals: delta.globals,
            host: delta.host,
            state: live.state.clone(),
            journal_entries: live.journal.len(),
            table,
        }));
        live.moved = false;
    }

    /// Drops the instance, and what ran in it since the last answer. With an error, the cell that ran ends with that; its client hears of it once it
    /// is recorded.
    pub(super) fn go_back(&mut self, error: Option<CellError>) {
        let blame = std::mem::take(&mut self.blame);
        let finishing = self.finishing.take();
        // What only could not be stored now is delivered once more.
        let op = blame.op.filter(|_| error.is_some());
        let Some(mut live) = self.live.take() else { return };
        self.lost_commit |= live.contents.may_have_left_pieces();
        let running = live.state.running.take().or(finishing).filter(|_| !blame.is_request);
        let ended = match (error, running) {
            (Some(error), Some(running)) if running.cell == BOOTSTRAP_CELL => {
                self.bootstrap_ended(ApiError::new(error.code, format!("spec.bootstrap.code failed: {}: {}", error.name, error.message)));
                None
            }
            (Some(error), Some(mut running)) => {
                if error.code == ErrorCode::SizeAdmissionError {
                    // Its output may be what was too large.
                    running.console.clear();
                    running.display.clear();
                }
                Some(EndedCell { running, cells: live.state.cells, error, job: self.current.take() })
            }
            (Some(_) | None, _) => None,
        };
        let mut journal = std::mem::take(&mut live.journal);
        journal.truncate(live.answered.as_ref().map_or(0, |answered| answered.journal_entries));
        let answered = live.answered.take().map(|answered| (answered, live.owned.etag.clone()));
        self.setback = Some(Setback { answered, journal, op, ended });
    }

    /// Drops the instance and all that is not stored.
    pub(super) fn drop_live(&mut self) {
        self.setback = None;
        self.finishing = None;
        self.blame = Blame::default();
        if let Some(live) = self.live.take() {
            self.lost_commit |= live.contents.may_have_left_pieces();
        }
    }

    /// Lays what was answered over the image of the last commit, if `etag` names that one. Answers the record that goes with it.
    pub(super) fn over_answered(&mut self, image: &mut Image, etag: Option<&String>) -> Option<SessionState> {
        let setback = self.setback.as_mut()?;
        let (answered, over) = setback.answered.as_ref()?;
        if over.as_ref() != etag {
            tracing::warn!(uid = %self.assignment.uid, "another state was stored meanwhile; answers that were ahead of storage are lost");
            setback.answered = None;
            setback.journal.clear();
            return None;
        }
        image.pages.extend(answered.pages.iter().map(|(number, page)| (*number, page.clone())));
        (image.memory_pages, image.globals, image.host) = (answered.memory_pages, answered.globals.clone(), answered.host.clone());
        Some(answered.state.clone())
    }

    /// Brings what is left of a setback into the instance that was made: what was answered is still to be stored.
    pub(super) async fn take_setback(&mut self) {
        let (Some(live), Some(setback)) = (&mut self.live, &mut self.setback) else { return };
        if let Some((answered, _)) = setback.answered.take() {
            if let Some(table) = &answered.table {
                live.contents.go_on_from(table).await;
            }
            live.journal.splice(..0, std::mem::take(&mut setback.journal));
            live.answered = Some(answered);
            (live.dirty, live.litter) = (true, true);
            live.unstored_since.get_or_insert_with(Instant::now);
        }
    }

    /// Whether there are answers that only this process has, and no instance.
    pub(super) fn owes_storage(&self) -> bool {
        self.live.is_none() && self.setback.as_ref().is_some_and(|setback| setback.answered.is_some())
    }

    /// Whether somebody waits for the end of a cell that is still to be recorded.
    pub(super) fn owes_an_end(&self) -> bool {
        self.setback.as_ref().and_then(|setback| setback.ended.as_ref()).is_some_and(|ended| ended.job.is_some())
    }

    /// Gives the client of a cell whose end cannot be recorded now another answer: it may ask again.
    pub(super) fn owe_no_longer(&mut self, error: &ApiError) {
        let job = self.setback.as_mut().and_then(|setback| setback.ended.as_mut()).and_then(|ended| ended.job.take());
        if let Some(job) = job {
            job.answer(Err(error.clone()));
        }
    }

    /// Records and tells how the cell ended that was lost with the last instance.
    pub(super) async fn record_lost(&mut self) -> Result<(), Fault> {
        let Some(Setback { ended, .. }) = self.setback.take() else { return Ok(()) };
        let Some(EndedCell { running, cells, error, job }) = ended else { return Ok(()) };
        let Some(live) = &mut self.live else { return Ok(()) };
        live.state.cells = live.state.cells.max(cells);
        if live.state.running.take().is_none() {
            live.note(journal::began(&running));
        }
        live.state.running = Some(running);
        // What was laid back may have brought the cell with it, and a retry may wait for it already.
        let later = self.current.take();
        self.current = match (job, later) {
            (Some(mut job), later) => {
                job.waiters.extend(later.into_iter().flat_map(|later| later.waiters));
                Some(job)
            }
            (None, later) => later,
        };
        let done = self.finish(EvalEnd::failed(error))?;
        self.conclude(done, Vec::new(), false).await
    }
}

/// How a cell ends whose turn could only be ended with its instance.
pub(super) fn overrun() -> CellError {
    lost(
        ErrorCode::TimeoutError,
        "the cell was over its budget and could not be interrupted (one long operation, or promises without end); the session goes on from its last \
         commit, which is before the cell or where it last awaited. Split the work, or raise timeoutMs or limits.evalTimeoutMs",
    )
}

/// How a cell ends that somebody interrupted where no exception ends it.
pub(super) fn interrupted() -> CellError {
    lost(
        ErrorCode::Interrupted,
        "the cell was interrupted by request inside one long operation; the session goes on from its last commit, which is before the cell or where it \
         last awaited",
    )
}

/// How a cell ends whose instance failed.
pub(super) fn trapped() -> CellError {
    lost(
        ErrorCode::Internal,
        "the interpreter failed while it ran this cell; the session goes on from its last commit, which is before the cell or where it last awaited. \
         Do not run the same code again",
    )
}

/// How a cell ends whose state cannot be stored, for the reason that `message` says.
pub(super) fn too_large(message: &str) -> CellError {
    lost(ErrorCode::SizeAdmissionError, message)
}

fn lost(code: ErrorCode, message: &str) -> CellError {
    CellError { code, name: code.to_string(), message: message.to_owned(), stack: String::new(), line: 0, column: 0 }
}
