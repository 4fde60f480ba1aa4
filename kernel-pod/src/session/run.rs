//! Cells and deliveries: into the engine, and out of it what follows.

mod end;
mod turn;

use std::collections::BTreeSet;
use std::time::Duration;

use dormouse_engine::{CellEnd, CellSource, EngineErrorCode, OpResult, Turn};
use dormouse_protocol::broker::ToolAnswer;
use dormouse_protocol::eval::{CellError, EvalRequest, EvalResult};
use dormouse_protocol::event::{Event, EventBody};
use dormouse_protocol::{ApiError, ErrorCode};
use tokio::time::Instant;

pub(super) use self::end::EvalEnd;
use self::turn::Work;
use super::actor::Actor;
use super::calls::Allowance;
use super::ops::Settled;
use super::phase::{Cause, Live, Moved};
use super::{EvalJob, Fault, calls, cells, journal, setback};
use crate::metrics::CellOutcome;
use crate::record::RunningCell;
use crate::references;
use crate::scheduler;

/// The number of the bootstrap code, which is no cell of the user's.
pub(super) const BOOTSTRAP_CELL: u64 = 0;

/// Bytes of a cell that compiles in a fraction of a millisecond.
const COMPILED_HERE_BYTES_MAX: usize = 4 << 10;

const STUCK: &str = "the cell awaits a promise that nothing can settle: no timer, no tool call and no fetch is pending. \
                     Resolve the promise in the cell, or do not await it";

impl Actor {
    /// Begins a cell. Ends when the cell has ended and is answered, or awaits the world and is committed.
    pub(super) async fn run_cell(&mut self, job: EvalJob) -> Result<(), Fault> {
        let Some(live) = self.phase.live_mut() else {
            job.answer(Err(ApiError::new(ErrorCode::Internal, "the session has no instance")));
            return Ok(());
        };
        live.state.cells += 1;
        let cell = live.state.cells;
        let request = job.request.clone();
        self.current = Some(job);
        self.begin(request, cell).await
    }

    /// Runs source as the cell of this number.
    pub(super) async fn begin(&mut self, request: EvalRequest, cell: u64) -> Result<(), Fault> {
        let filename = request.filename.clone().unwrap_or_else(|| match cell {
            BOOTSTRAP_CELL => "bootstrap.ts".to_owned(),
            _ => format!("cell-{cell}.ts"),
        });
        let constants = self.phase.live().map(|live| live.state.constants.clone()).unwrap_or_default();
        let (compiled, compile_ms) = self.compile(&request, &filename, constants).await;
        let Some(live) = self.phase.live_mut() else { return Ok(()) };
        live.moved = Moved::Ran;
        live.state.declare(self.scripts.declared(&filename));
        let mut running = RunningCell::new(request, cell, filename, live.clock.now_ms());
        running.cpu_ms = compile_ms;
        live.note(journal::began(&running, live.events.last()));
        live.state.running = Some(running);
        live.spend_cpu(Duration::from_secs_f64(compile_ms.max(0.0) / 1000.0));
        match compiled {
            Ok(source) => {
                let turn = self.execute(Work::Cell(source)).await?;
                self.settle(turn, true, None).await
            }
            Err(error) => {
                let done = self.finish(EvalEnd::failed(error))?;
                self.conclude(done, false).await
            }
        }
    }

    /// Compiles a cell, a long one where it holds up no other session; and how many milliseconds that took, which are the cell's.
    async fn compile(
        &mut self,
        request: &EvalRequest,
        filename: &str,
        constants: BTreeSet<String>,
    ) -> (Result<CellSource, CellError>, f64) {
        if request.code.len() <= COMPILED_HERE_BYTES_MAX {
            let began = std::time::Instant::now();
            let compiled = self.scripts.compile(request, filename, constants);
            return (compiled, began.elapsed().as_secs_f64() * 1000.0);
        }
        let _permit = self.host.compiles.acquire().await;
        let (request, filename) = (request.clone(), filename.to_owned());
        let compiled = self.host.environment.threads.blocking(move || {
            let began = std::time::Instant::now();
            (cells::script(&request, &filename, constants), began.elapsed())
        });
        match compiled.await {
            Ok((script, took)) => {
                scheduler::charge(took);
                (script.map(|script| self.scripts.keep(script)), took.as_secs_f64() * 1000.0)
            }
            Err(error) => {
                tracing::error!(%error, "a cell could not be compiled");
                (Err(setback::trapped()), 0.0)
            }
        }
    }

    /// Delivers what has come for an operation.
    pub(super) async fn on_settled(&mut self, settled: Settled) -> Result<(), Fault> {
        let mut outside = None;
        let (op, result, applied) = match settled {
            Settled::Timer { op } => (op, OpResult::Fired, None),
            Settled::Look => {
                self.release();
                return Ok(());
            }
            Settled::Learnt => return self.on_learnt().await,
            Settled::Noticed { number, taken } => {
                self.on_noticed(number, taken);
                return Ok(());
            }
            Settled::Refused { op, name, message } => (op, OpResult::Err { name, message }, None),
            Settled::Received { op, call, received } => {
                outside = Some(received);
                (op, OpResult::Ok(serde_json::Value::Null), call)
            }
            Settled::Tool { op, call, answer } => match answer {
                Ok(ToolAnswer::Ok { value }) => (op, OpResult::Ok(value), call),
                Ok(ToolAnswer::Stream { .. } | ToolAnswer::Send { .. }) => {
                    let message = "a broker left a call open that nobody goes on with".to_owned();
                    (op, OpResult::Err { name: ErrorCode::Internal.to_string(), message }, call)
                }
                Err(error) if error.code == ErrorCode::SessionGone => return Err(Fault::Gone(error)),
                Ok(ToolAnswer::Parked { parked }) => return self.park(op, parked).await,
                Ok(ToolAnswer::Err { error }) | Err(error) => {
                    (op, OpResult::Err { name: error.code.to_string(), message: error.message }, call)
                }
            },
        };
        let caller = self.caller();
        let Some(live) = self.phase.live_mut() else { return Ok(()) };
        let Some(pending) = live.state.pending.remove(&op) else { return Ok(()) };
        let offload = caller.map(|caller| caller.offload()).unwrap_or_default();
        live.moved = Moved::Ran;
        match (&result, &outside) {
            (_, Some(received)) => live.spend_egress(received.bytes()),
            (OpResult::Ok(value), None) => live.spend_egress(calls::size(value)),
            (OpResult::Err { .. } | OpResult::Fired, None) => {}
        }
        let kept = match (result, pending.of_tool(), outside) {
            (_, _, Some(received)) => received.adopt(&live.contents).await.map(OpResult::Ok),
            (OpResult::Ok(value), Some(wanted), None) => references::keep(&live.contents, value, wanted, offload).await.map(OpResult::Ok),
            (result, _, None) => Ok(result),
        };
        let result = kept.unwrap_or_else(|error| OpResult::Err { name: error.code.to_string(), message: error.message });
        if let Some(call) = applied {
            live.note(journal::answered(call, &result));
        }
        live.cause = Cause::Delivery(op);
        if let Some(call) = applied {
            self.show(EventBody::ToolResultApplied { call_id: call.to_string() });
        }
        let turn = self.execute(Work::Deliver(op, result)).await?;
        self.settle(turn, false, None).await?;
        self.caused_by(Cause::Cell);
        Ok(())
    }

    /// Asks the guest what no cell asks. `None`: it knows no such request.
    pub(super) async fn ask_guest(&mut self, request: serde_json::Value) -> Result<Option<serde_json::Value>, Fault> {
        self.caused_by(Cause::Request);
        let mut turn = self.execute(Work::Serve(request)).await?;
        self.caused_by(Cause::Cell);
        let answer = turn.answer.take();
        // Somebody who watches a file may have been told.
        self.settle(turn, false, None).await?;
        Ok(answer)
    }

    /// Notes what the next turn is for.
    fn caused_by(&mut self, cause: Cause) {
        if let Some(live) = self.phase.live_mut() {
            live.cause = cause;
        }
    }

    /// Ends a cell that awaits what can never come, or that somebody wanted to end in the moment in which it began to await.
    pub(super) async fn end_stuck(&mut self) {
        if self.phase.live_mut().is_some_and(|live| std::mem::take(&mut live.missed_interrupt)) {
            return self.interrupt_awaiting().await;
        }
        let stuck = |live: &Live| live.state.running.is_some() && live.state.pending.is_empty();
        let is_stuck = self.phase.live().is_some_and(stuck);
        if is_stuck && self.is_bootstrapping() {
            let message = "spec.bootstrap.code awaits a promise that nothing can settle";
            self.on_result(Err(Fault::BadBootstrap(ApiError::new(ErrorCode::UncaughtException, message))));
        } else if is_stuck {
            let result = self.abandon(EngineErrorCode::UncaughtException, STUCK).await;
            self.on_result(result);
        }
    }

    /// Ends the cell that awaits, because someone asked for it.
    pub(super) async fn interrupt_awaiting(&mut self) {
        if self.phase.live().is_some_and(|live| live.state.running.is_some()) {
            let result = self.abandon(EngineErrorCode::Interrupted, "the cell was interrupted by request").await;
            self.on_result(result);
        }
    }

    /// Ends the cell that awaits, because its client has left and others wait behind it.
    pub(super) async fn interrupt_left(&mut self) {
        let message = "the cell awaited something, its client had left, and other cells waited behind it";
        let result = self.abandon(EngineErrorCode::Interrupted, message).await;
        self.on_result(result);
    }

    async fn abandon(&mut self, code: EngineErrorCode, message: &str) -> Result<(), Fault> {
        let mut turn = self.execute(Work::Abandon(code)).await?;
        let error = dormouse_engine::CellError {
            code,
            name: code.as_str().to_owned(),
            message: message.to_owned(),
            stack: String::new(),
            line: 0,
            column: 0,
        };
        // The engine may have lost sight of the cell; its client has not.
        turn.cell =
            Some(CellEnd { ok: false, value: None, value_type: "undefined".to_owned(), preview: String::new(), error: Some(error) });
        self.settle(turn, false, None).await
    }

    /// Takes in what a turn brought: output, operations, the cell's end. Commits before anything leaves.
    async fn settle(&mut self, turn: Turn, begun: bool, explain: Option<&str>) -> Result<(), Fault> {
        let (caller, sender) = (self.caller(), self.sender());
        let Some(live) = self.phase.live_mut() else { return Ok(()) };
        live.moved = Moved::Ran;
        live.absorb(&turn);
        let mut events = Vec::new();
        let allowance = Allowance { caller: caller.as_ref(), sender: sender.as_ref(), calls_max: self.assignment.spec.limits.tool_calls };
        for op in turn.ops {
            events.extend(live.register(op, &allowance));
        }
        let calls = !events.is_empty();
        for event in events {
            self.show(event);
        }
        let done = match turn.cell {
            Some(end) => {
                let end = self.end_of(end, explain).await;
                self.finish(end)?
            }
            None => None,
        };
        // A delivery that only moved the heap is committed later: nothing of it has left, and it would be delivered again.
        if done.is_some() || calls || begun {
            return self.conclude(done, calls).await;
        }
        self.release();
        Ok(())
    }

    /// Commits if that comes first, then lets everything leave.
    pub(super) async fn conclude(&mut self, done: Option<EvalResult>, calls: bool) -> Result<(), Fault> {
        // With the commit that holds them: the end, and what the session is after it.
        let end = self.tell_end(done.as_ref());
        let durable = self.commits_first(calls);
        let committed_bytes = if durable { self.commit().await? } else { self.postpone().await? };
        self.settle_claim().await?;
        self.release();
        let Some(live) = self.phase.live_mut() else { return Ok(()) };
        (live.idle_since, live.rests) = (Instant::now(), false);
        if let Some(running) = &mut live.state.running {
            running.committed_bytes += committed_bytes;
        }
        let Some(mut result) = done else {
            // What a cell has declared and shown so far is part of nobody's answer, and it may go on from its last commit.
            return Ok(());
        };
        live.finishing = None;
        result.sequence = live.owned.head.as_ref().map_or(0, |head| head.sequence);
        result.stats.committed_bytes += committed_bytes;
        result.durable = durable;
        let outcome = if result.ok { CellOutcome::Ok } else { CellOutcome::Failed };
        self.host.metrics.cell(outcome, Duration::from_secs_f64(result.stats.duration_ms.max(0.0) / 1000.0));
        // Before the end: who has it may ask how the session is.
        self.tell();
        if let Some(end) = end {
            // Whole, and with what the commit made of it.
            self.show_waiters(&Event { body: EventBody::Final { result: Box::new(result.clone()) }, ..end });
        }
        self.show_runs();
        // Before the answer: who has it may count on the session's being idle.
        self.offer_slot();
        if let Some(job) = self.current.take() {
            job.answer(Ok(result));
        }
        if !durable {
            // Who waits is told first: this takes as long as a small cell.
            tokio::task::yield_now().await;
            self.keep_answered().await;
        }
        Ok(())
    }

    /// Lets operations begin.
    pub(super) fn release(&mut self) {
        let sender = self.sender();
        if let Some(live) = self.phase.live_mut() {
            let settled_below = if live.is_dirty() { 0 } else { live.state.settled_below() };
            live.in_flight.follow(&live.state, sender.as_ref(), settled_below);
        }
    }
}

impl RunningCell {
    fn new(request: EvalRequest, cell: u64, filename: String, started_ms: i64) -> Self {
        Self {
            request,
            cell,
            filename,
            started_ms,
            console: Vec::new(),
            display: Vec::new(),
            output_bytes: 0,
            cpu_ms: 0.0,
            ticks: 0,
            committed_bytes: 0,
            tool_calls: 0,
        }
    }
}
