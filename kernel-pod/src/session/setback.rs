//! What a session goes back to when what ran in it last is lost with its instance: the state of its last answer, or else its last commit.
//!
//! An instance is lost when a turn can only be ended with it, or when what it did cannot be stored. Storage has the last commit. Where answers are
//! ahead of storage (`spec.durability`), the process keeps what they changed at hand, so they are lost with the process only.

use std::collections::BTreeMap;

use dormouse_engine::{Globals, HostState, Image};
use dormouse_lifecycle::blobs::Table;
use dormouse_lifecycle::{Json, Page};
use dormouse_protocol::eval::CellError;
use dormouse_protocol::event::EventBody;
use dormouse_protocol::{ApiError, ErrorCode};
use tokio::time::Instant;

use super::actor::Actor;
use super::phase::{Cause, Live, Moved};
use super::run::{BOOTSTRAP_CELL, EvalEnd};
use super::{EvalJob, Fault, journal};
use crate::record::{RunningCell, SessionState};

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
    /// The same of events.
    events: usize,
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

/// What is left of an instance that was lost, until there is another one.
#[derive(Default)]
pub(super) struct Setback {
    /// What was answered, and the ETag of the head that it lies over.
    pub(super) answered: Option<(Box<Answered>, Option<String>)>,
    /// Entries of the journal that belong to that.
    journal: Vec<Json>,
    /// Events that belong to that.
    events: Vec<EventBody>,
    /// The operation whose delivery the instance did not survive: it is not delivered again.
    pub(super) op: Option<u64>,
    /// The cell that cannot go on.
    ended: Option<EndedCell>,
}

/// A cell that cannot go on. Its end is recorded before it is told.
pub(super) struct EndedCell {
    running: RunningCell,
    /// Cells begun when it ended: their numbers are used up.
    cells: u64,
    error: CellError,
    job: Option<EvalJob>,
}

/// What was lost with an instance beside the cell that ran.
pub(super) enum Lost {
    Nothing,
    /// The bootstrap code, for this reason: it would end so again.
    Bootstrap(ApiError),
}

impl Setback {
    /// Whoever waits for the end of a cell that is not recorded.
    pub(super) fn into_job(self) -> Option<EvalJob> {
        self.ended?.job
    }

    /// Applies what was answered to the image of the last commit, if `etag` names that one. Answers the record that goes with it.
    pub(super) fn apply_answered(&mut self, image: &mut Image, etag: Option<&String>) -> Option<SessionState> {
        let (answered, over) = self.answered.as_ref()?;
        if over.as_ref() != etag {
            tracing::warn!("another state was stored meanwhile; answers that were ahead of storage are lost");
            self.answered = None;
            self.journal.clear();
            self.events.clear();
            return None;
        }
        image.pages.extend(answered.pages.iter().map(|(number, page)| (*number, page.clone())));
        (image.memory_pages, image.globals, image.host) = (answered.memory_pages, answered.globals.clone(), answered.host.clone());
        Some(answered.state.clone())
    }

    /// Brings what was answered into the instance that was made of it: it is still to be stored. Answers the cell whose end is to be recorded.
    pub(super) async fn bring_into(self, live: &mut Live) -> Option<EndedCell> {
        if let Some((answered, _)) = self.answered {
            if let Some(table) = &answered.table {
                live.contents.go_on_from(table).await;
            }
            live.journal.splice(..0, self.journal);
            live.events.put_first(self.events);
            live.answered = Some(answered);
            live.litter = true;
            live.unstored_since.get_or_insert_with(Instant::now);
        }
        self.ended
    }
}

impl Actor {
    /// Keeps the state that is answered now at hand, because it is not stored.
    pub(super) async fn keep_answered(&mut self) {
        let Some(live) = self.phase.live_mut() else { return };
        let delta = live.instance.delta().await;
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
            events: live.events.len(),
            table,
        }));
        live.moved = Moved::No;
    }

    /// Drops the instance, and what ran in it since the last answer. With an error, the cell that ran ends with that; its client hears of it once it
    /// is recorded.
    pub(super) fn go_back(&mut self, error: Option<CellError>) -> Lost {
        let Some(mut live) = self.phase.take_live() else { return Lost::Nothing };
        let (cause, finishing) = (live.cause, live.finishing.take());
        let running = live.state.running.take().or(finishing).filter(|_| cause != Cause::Request);
        let mut lost = Lost::Nothing;
        let (op, ended) = match (error, running) {
            // What only could not be stored now is delivered once more.
            (None, _) => (None, None),
            (Some(error), Some(running)) if running.cell == BOOTSTRAP_CELL => {
                lost = Lost::Bootstrap(ApiError::new(error.code, format!("spec.bootstrap.code failed: {}: {}", error.name, error.message)));
                (cause.delivery(), None)
            }
            (Some(error), Some(mut running)) => {
                if error.code == ErrorCode::SizeAdmissionError {
                    // Its output may be what was too large.
                    running.console.clear();
                    running.display.clear();
                }
                (cause.delivery(), Some(EndedCell { running, cells: live.state.cells, error, job: self.current.take() }))
            }
            (Some(_), None) => (cause.delivery(), None),
        };
        let mut journal = std::mem::take(&mut live.journal);
        journal.truncate(live.answered.as_ref().map_or(0, |answered| answered.journal_entries));
        let events = live.events.take(live.answered.as_ref().map_or(0, |answered| answered.events));
        let answered = live.answered.take().map(|answered| (answered, live.owned.etag.clone()));
        if let Some(owed) = self.phase.owed_mut() {
            owed.setback = Setback { answered, journal, events, op, ended };
        }
        lost
    }

    /// Whether there are answers that only this process has, and no instance.
    pub(super) fn owes_storage(&self) -> bool {
        self.phase.owed().is_some_and(|owed| owed.setback.answered.is_some())
    }

    /// Whether somebody waits for the end of a cell that is still to be recorded.
    pub(super) fn owes_an_end(&self) -> bool {
        self.phase.owed().and_then(|owed| owed.setback.ended.as_ref()).is_some_and(|ended| ended.job.is_some())
    }

    /// Gives the client of a cell whose end cannot be recorded now another answer: it may ask again.
    pub(super) fn owe_no_longer(&mut self, error: &ApiError) {
        let job = self.phase.owed_mut().and_then(|owed| owed.setback.ended.as_mut()).and_then(|ended| ended.job.take());
        if let Some(job) = job {
            job.answer(Err(error.clone()));
        }
    }

    /// Records and tells how a cell ended that was lost with the last instance, unless what is stored by now is ahead of it.
    pub(super) async fn record_lost(&mut self, ended: EndedCell) -> Result<(), Fault> {
        let EndedCell { running, cells, error, job } = ended;
        let Some(live) = self.phase.live_mut() else { return Ok(()) };
        // What another process has stored after this one read the session comes before a cell that was never stored: the end of the same one, or
        // another one that awaits. Whoever waits for it hears that end, or has it run behind the other one.
        let key = running.request.idempotency_key.as_deref();
        let is_known = key.is_some_and(|key| live.state.ends.find(key).is_some());
        if is_known || live.state.running.as_ref().is_some_and(|other| other.request.idempotency_key.as_deref() != key) {
            self.queue.extend(job);
            return Ok(());
        }
        live.state.cells = live.state.cells.max(cells);
        if live.state.running.take().is_none() {
            live.note(journal::began(&running, live.events.last()));
        }
        live.state.running = Some(running);
        // What was applied may have brought the cell with it, and a retry may wait for it already.
        let later = self.current.take();
        self.current = match (job, later) {
            (Some(mut job), later) => {
                job.waiters.extend(later.into_iter().flat_map(|later| later.waiters));
                Some(job)
            }
            (None, later) => later,
        };
        let done = self.finish(EvalEnd::failed(error))?;
        self.conclude(done, false).await
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
