//! Runs: cells that were accepted for whoever asks later. The acceptance is committed before it is told, so what was accepted and has not ended is
//! found by whoever has the session next, and goes on there.

use std::collections::BTreeMap;
use std::sync::Arc;

use dormouse_lifecycle::ends::Kept;
use dormouse_lifecycle::runs::{self, Begin, End, Outcome, run_id};
use dormouse_lifecycle::{Head, Json};
use dormouse_protocol::eval::{CellError, DroppedResult, EvalRequest, EvalResult, EvalStats, Served, Woke};
use dormouse_protocol::kernel::{Assignment, EvalCall};
use dormouse_protocol::run::{Run, RunState};
use dormouse_protocol::session::State;
use dormouse_protocol::{ApiError, ErrorCode};
use dormouse_service::origin::Origin;
use tokio::time::Instant;

use super::actor::Actor;
use super::phase::{Live, Moved};
use super::{EvalJob, Fault, QUEUED_EVALS_MAX, ended, gone};
use crate::record::{NOTICES_MAX, SessionState};

/// What a run hears that was ended by request before its cell began.
const CANCELLED: &str = "the run was cancelled before its cell began";

/// What a run hears whose cell was begun as often as it is.
const EXHAUSTED: &str = "the cell was begun three times, and each time its process or its storage was lost before anything of it was stored; it is \
                         not begun again. If it was the cell that ended them, mend it; else send it again under another idempotency key";

const LOST: &str = "kernel pods ended while they ran the cell, one after the other, before anything of it was stored: no call of it was made, and it is not \
                    begun again. If it was the cell that ended them, mend it; else send it again under another idempotency key";

/// The runs of a session as its process sees them.
#[derive(Debug)]
pub(crate) struct RunViews {
    /// Epoch and sequence of the head that it follows: what is stored behind that is newer, whoever stored it.
    pub version: (u64, u64),
    /// Newest first.
    pub runs: Vec<Run>,
}

impl Actor {
    /// Accepts a cell as a run; answers once that is committed. A key that is known, of a run or of any cell, is not begun again.
    pub(super) async fn accept_run(&mut self, call: EvalCall) -> Result<Run, Fault> {
        self.ensure_live().await?;
        let expired = self.expired();
        let Some(live) = self.phase.live_mut() else { return Err(Fault::Refused(gone("the session has no instance"))) };
        let Some(key) = call.eval.idempotency_key.clone() else {
            return Err(Fault::Refused(ApiError::new(ErrorCode::InvalidRequest, "a run has an idempotency key")));
        };
        if live.state.runs.under(&key).is_some() {
            return self.view_of(&run_id(&key)).map_err(Fault::Refused);
        }
        if let Some(error) = expired {
            return Err(Fault::Refused(error));
        }
        let now = live.clock.now().to_string();
        let known = live.state.ends.find(&key).map(|known| (known.cell, outcome_of(&known.end)));
        let under_way = self.current.iter().chain(self.queue.iter()).any(|job| job.has(&key));
        if known.is_none() && !under_way && self.queue.len() >= QUEUED_EVALS_MAX {
            let message = format!("{QUEUED_EVALS_MAX} evals wait for this session; send it again later");
            return Err(Fault::Refused(ApiError::new(ErrorCode::SessionBusy, message)));
        }
        admit(live, &key, &call.eval, &call.request_id).map_err(Fault::Refused)?;
        if let Some((cell, outcome)) = known {
            live.state.runs.end(&key, End { time: now.clone(), outcome, cell });
        } else if under_way && live.state.running.as_ref().is_some_and(|cell| cell.request.idempotency_key.as_ref() == Some(&key)) {
            live.state.runs.begin(&key, &now);
        }
        live.moved = Moved::Ran;
        self.commit().await?;
        if under_way {
            self.current.iter_mut().chain(self.queue.iter_mut()).filter(|job| job.has(&key)).for_each(|job| job.kept = true);
        } else if known.is_none() {
            let origin = Origin::default().or_id(&call.request_id);
            self.queue.push_back(EvalJob { origin, ..EvalJob::of_run(call.eval, call.assignment) });
        }
        self.show_runs();
        self.view_of(&run_id(&key)).map_err(Fault::Refused)
    }

    /// Brings what was accepted and has not ended into the queue of a session that was laid back, before what came here.
    pub(super) fn queue_runs(&mut self) {
        let Some(live) = self.phase.live() else { return };
        for run in live.state.runs.open().rev() {
            if let Some(job) = self.current.iter_mut().chain(self.queue.iter_mut()).find(|job| job.has(&run.key)) {
                job.kept = true;
                continue;
            }
            let Some(request) = run.request.as_ref().and_then(|request| request.read::<EvalRequest>().ok()) else { continue };
            let origin = Origin::default().or_id(run.request_id.as_deref().unwrap_or_default());
            self.queue.push_front(EvalJob { origin, ..EvalJob::of_run(request, self.assignment.clone()) });
        }
    }

    /// Takes a cell that is about to begin down as a run. The commit of its beginning is the one that accepts it.
    pub(super) fn keep(&mut self, job: &mut EvalJob) -> Result<(), ApiError> {
        let Some(live) = self.phase.live_mut() else { return Err(gone("the session has no instance")) };
        let Some(key) = job.request.idempotency_key.clone() else { return Ok(()) };
        admit(live, &key, &job.request, job.origin.id().unwrap_or_default())?;
        job.kept = true;
        Ok(())
    }

    /// Whether a cell begins. That of a run is noted before anything of it runs; one that has ended its processes ends instead.
    pub(super) async fn begins(&mut self, job: &EvalJob) -> Result<bool, Fault> {
        if !job.kept && !job.lost {
            return Ok(true);
        }
        let Some(live) = self.phase.live_mut() else { return Ok(false) };
        let Some(key) = job.request.idempotency_key.clone() else { return Ok(true) };
        if job.lost {
            self.end_unbegun(&key, ErrorCode::Internal, LOST);
            self.commit_runs().await?;
            return Ok(false);
        }
        // What an earlier try of it said is over.
        self.handle.control.set_progress(None);
        let now = live.clock.now().to_string();
        match live.state.runs.begin(&key, &now) {
            Begin::Over => return Ok(false),
            Begin::Go => {}
            Begin::Exhausted => {
                self.end_unbegun(&key, ErrorCode::Internal, EXHAUSTED);
                self.commit_runs().await?;
                return Ok(false);
            }
        }
        self.commit_runs().await?;
        Ok(true)
    }

    /// Tells those who wait for a cell that does not begin how it has ended.
    pub(super) fn answer_over(&self, job: EvalJob) {
        let key = job.request.idempotency_key.clone().unwrap_or_default();
        let live = self.phase.live();
        let known = live.and_then(|live| live.state.ends.find(&key));
        let is_durable = |sequence| live.is_some_and(|live| live.has_stored(sequence));
        let cancelled = || Err(ApiError::new(ErrorCode::Interrupted, CANCELLED));
        let answer = known.map_or_else(cancelled, |known| ended::answer(&known, &key, is_durable));
        job.answer(answer);
    }

    /// Takes down that the broker has a notice, or is told again later. That is stored with what comes next: to tell it twice does no harm.
    pub(super) fn on_noticed(&mut self, number: u64, taken: bool) {
        if let Some(live) = self.phase.live_mut() {
            match taken {
                true => live.state.notices.told(number),
                false => live.state.notices.put_off(number, live.clock.now_ms()),
            }
            live.moved = Moved::Ran;
        }
        self.release();
    }

    async fn commit_runs(&mut self) -> Result<(), Fault> {
        if let Some(live) = self.phase.live_mut() {
            live.moved = Moved::Ran;
        }
        self.commit().await?;
        self.show_runs();
        Ok(())
    }

    /// Ends a run; answers with its end once that is committed. One that has ended stays as it is.
    pub(super) async fn cancel_run(&mut self, id: &str) -> Result<Run, Fault> {
        self.ensure_live().await?;
        if self.phase.live().is_some_and(|live| live.state.runs.find(id).is_none()) {
            self.catch_up().await?;
        }
        let Some(live) = self.phase.live() else { return Err(Fault::Refused(gone("the session has no instance"))) };
        let Some(run) = live.state.runs.find(id) else { return Err(Fault::Refused(not_found(id))) };
        if run.end.is_some() {
            return self.view_of(id).map_err(Fault::Refused);
        }
        let key = run.key.clone();
        if live.state.running.as_ref().is_some_and(|cell| cell.request.idempotency_key.as_ref() == Some(&key)) {
            self.interrupt_awaiting().await;
            // Also where a cell's end is told before it is stored. Without an instance it is still to be recorded.
            if self.phase.is_live() {
                self.commit_runs().await?;
            }
        } else {
            let (ended, rest) = std::mem::take(&mut self.queue).into_iter().partition::<Vec<_>, _>(|job| job.has(&key));
            self.queue = rest.into();
            let result = self.end_unbegun(&key, ErrorCode::Interrupted, CANCELLED);
            self.commit_runs().await?;
            for job in ended {
                job.answer(result.clone().ok_or_else(|| gone("the session has no instance")));
            }
        }
        self.view_of(id).map_err(Fault::Refused)
    }

    /// Records the end of a run whose cell does not begin, or not again.
    fn end_unbegun(&mut self, key: &str, code: ErrorCode, message: &str) -> Option<EvalResult> {
        let caller = self.caller();
        let live = self.phase.live_mut()?;
        let error = CellError { code, name: code.to_string(), message: message.to_owned(), stack: String::new(), line: 0, column: 0 };
        let result = EvalResult {
            ok: false,
            value: None,
            dropped: None,
            value_type: "undefined".to_owned(),
            preview: String::new(),
            display: Vec::new(),
            console: Vec::new(),
            error: Some(error),
            cell: 0,
            sequence: live.owned.head.as_ref().map_or(0, |head| head.sequence),
            durable: true,
            idempotency_key: Some(key.to_owned()),
            stats: EvalStats::default(),
        };
        let now = live.clock.now();
        let wants = |event| caller.is_none_or(|caller| caller.wants(event));
        let request = live.state.runs.under(key).and_then(|run| run.request.as_ref()?.read::<EvalRequest>().ok());
        live.state.record_end(&result, &now.to_string());
        live.state.notice_end(&result, request.and_then(|request| request.webhook).as_ref(), now, wants);
        Some(result)
    }

    /// Lets others see the runs as they are now.
    pub(super) fn show_runs(&self) {
        let Some(live) = self.phase.live() else { return };
        if live.state.runs.is_empty() && self.handle.control.runs.borrow().is_none() {
            return;
        }
        let waits = matches!(self.published, Some(State::WaitingForTool | State::WaitingForApproval));
        let version = live.owned.head.as_deref().map_or((0, 0), Head::version);
        let runs = views(&live.state, waits, |sequence| live.has_stored(sequence));
        self.handle.control.runs.send_replace(Some(Arc::new(RunViews { version, runs })));
    }

    fn view_of(&self, id: &str) -> Result<Run, ApiError> {
        let Some(live) = self.phase.live() else { return Err(gone("the session has no instance")) };
        let waits = matches!(self.published, Some(State::WaitingForTool | State::WaitingForApproval));
        views(&live.state, waits, |sequence| live.has_stored(sequence)).into_iter().find(|run| run.id == id).ok_or_else(|| not_found(id))
    }
}

/// Takes a cell down as a run that has not begun. It is accepted when that is committed.
fn admit(live: &mut Live, key: &str, eval: &EvalRequest, request_id: &str) -> Result<(), ApiError> {
    let request = Json::of(eval).map_err(|error| ApiError::new(ErrorCode::InvalidRequest, error.to_string()))?;
    if live.state.notices.is_full() {
        let message = format!("the session's ToolBroker has not taken {NOTICES_MAX} notices; send the run again when it is there");
        return Err(ApiError::new(ErrorCode::SessionBusy, message));
    }
    let now = live.clock.now().to_string();
    live.state.runs.accept(key, request, request_id, &now).map_err(|refused| {
        let code = match refused {
            runs::Refused::TooMany => ErrorCode::SessionBusy,
            runs::Refused::TooLarge => ErrorCode::SizeAdmissionError,
        };
        ApiError::new(code, refused.to_string())
    })
}

impl EvalJob {
    /// The cell of a run: nobody needs to wait for it.
    fn of_run(request: EvalRequest, assignment: Assignment) -> Self {
        Self {
            request,
            assignment,
            waiters: Vec::new(),
            attempts: 0,
            woke: Woke::No,
            served: Served::default(),
            arrived: Instant::now(),
            kept: true,
            run: false,
            lost: false,
            origin: Origin::default(),
        }
    }
}

impl SessionState {
    /// Takes down how a cell ended: under its key, and of its run, if it is one.
    pub(crate) fn record_end(&mut self, result: &EvalResult, now: &str) {
        let Some(key) = &result.idempotency_key else { return };
        let end = ended::stored(result);
        if self.runs.under(key).is_none() {
            return self.ends.record(key, result.cell, end);
        }
        self.ends.record_run(key, result.cell, end);
        let outcome = match &result.error {
            _ if result.ok => Outcome::Succeeded,
            Some(error) if error.code == ErrorCode::Interrupted => Outcome::Cancelled,
            _ => Outcome::Failed,
        };
        self.runs.end(key, End { time: now.to_owned(), outcome, cell: result.cell });
    }
}

/// How a cell ended that is known only by its end.
fn outcome_of(end: &Kept<'_>) -> Outcome {
    #[derive(serde::Deserialize)]
    struct Ended {
        ok: bool,
    }
    match end {
        Kept::Whole(whole) if whole.read::<Ended>().is_ok_and(|ended| ended.ok) => Outcome::Succeeded,
        // Of one that is too large only its digest is known; what fails has no value, and is small.
        Kept::Digest(_) => Outcome::Succeeded,
        Kept::Whole(_) => Outcome::Failed,
    }
}

/// There is no run of this id, or no longer.
pub(crate) fn not_found(id: &str) -> ApiError {
    let message = format!("there is no run `{id}` in this session: list its runs; the ends of the last {} are kept", runs::RUNS_ENDED_MAX);
    ApiError::new(ErrorCode::RunNotFound, message)
}

/// The runs of a record, newest first. `waits`: the cell that runs awaits a tool.
pub(crate) fn views(state: &SessionState, waits: bool, is_durable: impl Fn(u64) -> bool + Copy) -> Vec<Run> {
    let running = state.running.as_ref().and_then(|cell| Some((cell.request.idempotency_key.clone()?, cell.cell)));
    let running: BTreeMap<_, _> = running.into_iter().collect();
    state.runs.iter().rev().map(|run| view(state, run, running.get(&run.key).copied(), waits, is_durable)).collect()
}

fn view(state: &SessionState, run: &runs::Run, cell: Option<u64>, waits: bool, is_durable: impl Fn(u64) -> bool) -> Run {
    let state_now = match &run.end {
        Some(End { outcome: Outcome::Succeeded, .. }) => RunState::Succeeded,
        Some(End { outcome: Outcome::Failed, .. }) => RunState::Failed,
        Some(End { outcome: Outcome::Cancelled, .. }) => RunState::Cancelled,
        None if cell.is_some() && waits => RunState::Waiting,
        None if cell.is_some() || run.begins > 0 => RunState::Running,
        None => RunState::Queued,
    };
    let known = run.end.as_ref().and_then(|_| state.ends.find(&run.key));
    let dropped = match known.as_ref().map(|known| &known.end) {
        Some(Kept::Digest(digest)) => Some(DroppedResult { bytes: digest.bytes, sha256: digest.sha256.clone() }),
        _ => None,
    };
    let numbered = run.end.as_ref().map(|end| end.cell).filter(|cell| *cell > 0);
    Run {
        id: run.id.clone(),
        state: state_now,
        idempotency_key: run.key.clone(),
        cell: cell.or(numbered),
        created_at: run.created_at.clone(),
        started_at: run.started_at.clone(),
        heartbeat_at: None,
        progress: None,
        ended_at: run.end.as_ref().map(|end| end.time.clone()),
        result: known.and_then(|known| ended::answer(&known, &run.key, is_durable).ok()),
        dropped,
        url: String::new(),
    }
}
