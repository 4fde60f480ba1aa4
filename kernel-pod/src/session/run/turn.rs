//! A turn of the engine, and what it leaves in the record.

use dormouse_engine::{CellSource, EngineError, EngineErrorCode, Op, OpKind, OpResult, Turn};
use dormouse_protocol::broker::FETCH;
use dormouse_protocol::eval::{ConsoleLine, Display};
use dormouse_protocol::event::EventBody;

use super::super::actor::Actor;
use super::super::calls::{Allowance, Outgoing};
use super::super::phase::{Cause, Live};
use super::super::{Fault, budget, setback};
use crate::record::Pending;

/// What an instance is asked to do.
pub(super) enum Work {
    Cell(CellSource),
    Deliver(u64, OpResult),
    Abandon(EngineErrorCode),
    Serve(serde_json::Value),
}

impl Actor {
    pub(super) async fn execute(&mut self, work: Work) -> Result<Turn, Fault> {
        self.unless_withdrawn()?;
        let budget = budget::budget(&self.assignment.spec, self.phase.live().and_then(|live| live.state.running.as_ref()));
        self.tell_in_turn();
        let outlet = self.outlet();
        let Some(live) = self.phase.live_mut() else { return Ok(Turn::default()) };
        live.slot.set_idle(None, live.instance.grown_bytes());
        live.instance.set_outlet(Some(outlet));
        let key = live.state.running.as_ref().and_then(|running| running.request.idempotency_key.clone());
        self.handle.control.set_executing(Some(live.instance.interrupt_handle()), key);
        let result = match &work {
            Work::Cell(source) => live.instance.eval(source, &budget).await,
            Work::Deliver(op, result) => live.instance.deliver(*op, result, &budget).await,
            Work::Abandon(code) => live.instance.abandon(*code, &budget).await,
            Work::Serve(request) => live.instance.serve(request, &budget).await,
        };
        live.instance.set_outlet(None);
        self.handle.control.set_executing(None, None);
        // The turn may have ended while somebody asked for that.
        live.missed_interrupt = live.instance.missed_interrupt();
        result.map_err(|error| match error {
            EngineError::Overrun => Fault::Ended(setback::overrun()),
            EngineError::Interrupted => Fault::Ended(setback::interrupted()),
            error => {
                tracing::error!(uid = %self.assignment.uid, %error, "the interpreter failed");
                Fault::Ended(setback::trapped())
            }
        })
    }
}

impl Live {
    /// Counts a turn and keeps its output.
    pub(super) fn absorb(&mut self, turn: &Turn) {
        self.ran |= self.cause != Cause::Request;
        if let Some(running) = &mut self.state.running {
            let line =
                |line: &dormouse_engine::ConsoleLine| ConsoleLine { level: line.level.clone(), text: line.text.clone(), at_ms: line.at_ms };
            let display = |display: &dormouse_engine::Display| Display { mime_type: display.mime_type.clone(), data: display.data.clone() };
            running.console.extend(turn.console.iter().map(line));
            running.display.extend(turn.display.iter().map(display));
            running.output_bytes += turn.output_bytes;
            running.ticks += turn.ticks;
            running.cpu_ms += turn.cpu.as_secs_f64() * 1000.0;
        }
        self.spend_cpu(turn.cpu);
    }

    /// Keeps an operation in the record. Answers the event of a call.
    pub(super) fn register(&mut self, op: Op, allowance: &Allowance<'_>) -> Option<EventBody> {
        match op.kind {
            OpKind::Timer { delay_ms } => {
                #[expect(clippy::cast_possible_truncation, reason = "a cast from float saturates, and the delay is at least 0")]
                let delay_ms = delay_ms.max(0.0).ceil() as i64;
                self.state.pending.insert(op.id, Pending::Timer { due_ms: self.clock.now_ms().saturating_add(delay_ms) });
                None
            }
            OpKind::Tool { name, args, reference } => {
                self.register_call(op.id, Outgoing { name, args, fetch: false, reference }, allowance)
            }
            OpKind::Fetch { request } => {
                self.register_call(op.id, Outgoing { name: FETCH.to_owned(), args: request, fetch: true, reference: None }, allowance)
            }
            OpKind::Cancel { id } => {
                self.cancel(id, allowance.sender);
                None
            }
            OpKind::Body { stream, part } => {
                self.register_part(op.id, stream, part, allowance.caller);
                None
            }
            OpKind::CloseBody { stream } => {
                self.close_body(stream, allowance.sender);
                None
            }
            OpKind::Mcp { of, name, entry } => {
                self.state.mcp.tell(&of, name, entry);
                None
            }
        }
    }
}
