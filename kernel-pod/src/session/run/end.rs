//! The end of a cell: what it comes to, and who is told.

use std::collections::BTreeSet;

use dormouse_engine::CellEnd;
use dormouse_lifecycle::usage::Counts;
use dormouse_protocol::ApiError;
use dormouse_protocol::eval::{CellError, EvalResult, EvalStats, Woke};
use dormouse_protocol::event::Event;

use super::super::actor::Actor;
use super::super::{Fault, journal};
use super::BOOTSTRAP_CELL;
use crate::events;

/// A cell's end on the wire's terms.
pub(in super::super) struct EvalEnd {
    ok: bool,
    value: Option<serde_json::Value>,
    value_type: String,
    preview: String,
    error: Option<CellError>,
}

impl EvalEnd {
    pub(in super::super) fn failed(error: CellError) -> Self {
        Self { ok: false, value: None, value_type: "undefined".to_owned(), preview: String::new(), error: Some(error) }
    }
}

impl Actor {
    /// Puts into the next commit how the cell ends, if it does, and what the session is then. Who waits for the cell sees its end when it is stored.
    pub(super) fn tell_end(&self, done: Option<&EvalResult>) -> Option<Event> {
        let live = self.phase.live()?;
        let Some(result) = done else {
            self.show_state(self.state(true));
            return None;
        };
        let end = live.events.push(events::end(result));
        live.events.push_state(self.state(true));
        Some(end)
    }

    /// The end of a cell with the user's positions.
    pub(super) async fn end_of(&mut self, end: CellEnd, explain: Option<&str>) -> EvalEnd {
        let running = self.phase.live().and_then(|live| live.state.running.clone());
        let filename = running.as_ref().map(|cell| cell.filename.clone()).unwrap_or_default();
        // Its script may be gone since it awaited: where its positions are is compiled again.
        if let Some(cell) = running.filter(|_| end.error.is_some() && !self.scripts.has(&filename)) {
            let _ = self.compile(&cell.request, &filename, BTreeSet::new()).await;
        }
        let error = end.error.map(|error| {
            let mut error = self.scripts.error(error, &filename);
            if let Some(explain) = explain {
                explain.clone_into(&mut error.message);
            }
            error
        });
        EvalEnd { ok: end.ok, value: end.value, value_type: end.value_type, preview: end.preview, error }
    }

    /// Closes the running cell. `None` when it was the bootstrap code.
    pub(in super::super) fn finish(&mut self, end: EvalEnd) -> Result<Option<EvalResult>, Fault> {
        let woke = self.current.as_ref().map_or(Woke::No, |job| job.woke);
        let served = self.current.as_ref().map(|job| job.served).unwrap_or_default();
        let caller = self.caller();
        let Some(live) = self.phase.live_mut() else { return Ok(None) };
        let Some(mut running) = live.state.running.take() else { return Ok(None) };
        if running.cell == BOOTSTRAP_CELL {
            if let Some(error) = end.error {
                let message = format!("spec.bootstrap.code failed: {}: {}", error.name, error.message);
                return Err(Fault::Failed(ApiError::new(error.code, message)));
            }
            live.state.bootstrapped = true;
            return Ok(None);
        }
        #[expect(clippy::cast_precision_loss, reason = "the duration of a cell in milliseconds is far below 2^52")]
        let duration_ms = live.clock.now_ms().saturating_sub(running.started_ms).max(0) as f64;
        let stats = EvalStats {
            duration_ms: duration_ms.max(running.cpu_ms),
            cpu_ms: running.cpu_ms,
            ticks: running.ticks,
            heap_bytes: live.instance.heap_bytes(),
            committed_bytes: running.committed_bytes,
            tool_calls: running.tool_calls,
            stdout_bytes: running.console.iter().map(|line| line.text.len() as u64 + 1).sum(),
            woke,
            served,
        };
        live.spend_under(running.request.api_key.as_deref().unwrap_or_default(), Counts { evals: 1, ..Counts::default() });
        let result = EvalResult {
            ok: end.ok,
            value: end.value,
            dropped: None,
            value_type: end.value_type,
            preview: end.preview,
            display: std::mem::take(&mut running.display),
            console: std::mem::take(&mut running.console),
            error: end.error,
            cell: running.cell,
            sequence: live.owned.head.as_ref().map_or(0, |head| head.sequence) + 1,
            durable: true,
            idempotency_key: running.request.idempotency_key.clone(),
            stats,
        };
        live.note(journal::ended(&result));
        let now = live.clock.now();
        live.state.record_end(&result, &now.to_string());
        let wants = |event| caller.is_none_or(|caller| caller.wants(event));
        live.state.notice_end(&result, running.request.webhook.as_ref(), now, wants);
        live.state.last_active = Some(now.to_string());
        live.finishing = Some(running);
        Ok(Some(result))
    }
}
