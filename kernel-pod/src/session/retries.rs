//! Requests that were sent before: a client that heard nothing, or an older attempt that waited elsewhere.

use std::collections::VecDeque;

use dormouse_protocol::eval::{Served, Woke};
use dormouse_service::origin::Origin;
use tokio::time::Instant;

use super::actor::Actor;
use super::run::BOOTSTRAP_CELL;
use super::{EvalJob, ended, gone};
use crate::record::SessionState;

impl Actor {
    /// Answers what has an answer already, refuses what had one that is not kept any more, and lets a retry of the running cell wait for it.
    pub(super) fn answer_known(&mut self) {
        let Some(live) = self.phase.live() else { return };
        let (mut rest, mut joining) = (VecDeque::new(), Vec::new());
        for job in std::mem::take(&mut self.queue) {
            let Some(key) = job.request.idempotency_key.clone() else {
                rest.push_back(job);
                continue;
            };
            if self.current.as_ref().is_some_and(|current| current.has(&key)) {
                joining.extend(job.waiters);
            } else if let Some(known) = live.state.ends.find(&key) {
                job.answer(ended::answer(&known, &key, |sequence| live.has_stored(sequence)));
            } else {
                rest.push_back(job);
            }
        }
        self.queue = rest;
        self.join(joining);
    }

    /// Has those who wait for a cell wait for the one that awaits in `state`, and for no other: it may have ended in another process since.
    pub(super) fn follow_running(&mut self, state: &SessionState) {
        let running = state.running.as_ref().filter(|running| running.cell != BOOTSTRAP_CELL);
        let is_running = |job: &EvalJob| running.is_some_and(|running| running.request.idempotency_key == job.request.idempotency_key);
        // Its client may have waited here while the session slept.
        let waited = self.current.take();
        let (waited, over) = if waited.as_ref().is_some_and(is_running) { (waited, None) } else { (None, waited) };
        if let Some(job) = over {
            let is_known = job.request.idempotency_key.as_deref().is_some_and(|key| state.ends.find(key).is_some());
            // Whoever waits hears of the end that is recorded before another cell begins.
            if is_known {
                self.queue.push_front(job);
            } else {
                job.answer(Err(gone("another process has gone on with the session; send the cell again with its idempotency key")));
            }
        }
        let Some(running) = running else { return };
        let request = running.request.clone();
        let run = request.idempotency_key.as_ref().and_then(|key| state.runs.under(key));
        let origin = Origin::default().or_id(run.and_then(|run| run.request_id.as_deref()).unwrap_or_default());
        self.current = waited.or(Some(EvalJob {
            request,
            assignment: self.assignment.clone(),
            waiters: Vec::new(),
            attempts: 0,
            woke: Woke::Storage,
            served: Served::default(),
            arrived: Instant::now(),
            kept: false,
            run: false,
            lost: false,
            origin,
        }));
    }
}
