//! What a session does with a message, and in which order cells run.

use std::time::Duration;

use dormouse_protocol::ApiError;
use dormouse_protocol::ErrorCode;
use dormouse_protocol::eval::{Served, Woke};
use serde_json::json;
use tokio::time::Instant;
use tracing::{Instrument as _, Span};

use super::actor::Actor;
use super::leave::Leave;
use super::{EvalJob, Message, QUEUED_EVALS_MAX};

/// How often it is looked whether the client of a cell is still there that others wait behind.
const LEFT_CHECK_INTERVAL: Duration = Duration::from_secs(1);

impl Actor {
    pub(super) async fn on_message(&mut self, message: Message) {
        if let Some(assignment) = message.assignment().cloned()
            && let Err(error) = self.adopt(&assignment)
        {
            return message.refuse(error);
        }
        match message {
            Message::Eval(job) => self.on_eval(*job),
            message @ (Message::Wake(..)
            | Message::Checkpoint(..)
            | Message::Migrate(..)
            | Message::AcceptRun(..)
            | Message::CancelRun(..)
            | Message::Decided(..)
            | Message::Answer(..)
            | Message::Files(..)) => {
                self.deferred.push_back(message);
                self.begin_deferred().await;
            }
            Message::Hibernate(_, reply) => {
                let result = self.sleep_on_request().await;
                self.answer_report(reply, result);
            }
            Message::Evict(reply) => {
                if self.idle_deadline().is_some() {
                    let result = self.hibernate().await;
                    self.on_result(result);
                }
                let _ = reply.send(());
            }
            Message::Restore(call, reply) => {
                let result = self.restore_checkpoint(&call.checkpoint, call.operation).await;
                self.answer_report(reply, result);
            }
            Message::Reset(call, reply) => {
                let result = self.reset(call.operation).await;
                self.answer_report(reply, result);
            }
            Message::Interrupt(_, reply) => {
                // A session sleeps while its cell waits for a person, and what was stored of one whose process is gone may await something, too.
                let live = if self.phase.is_live() { Ok(()) } else { self.ensure_live().await.map(drop) };
                if live.is_ok() {
                    self.interrupt_awaiting().await;
                }
                let _ = reply.send(self.settle_answer(live));
            }
            Message::Forget(assignment, reply) => match self.adopt(&assignment) {
                Ok(()) => self.leave_as(Leave::Forgotten(reply)),
                Err(error) => drop(reply.send(Err(error))),
            },
            Message::Drain(reply) => {
                if self.owes_storage() {
                    let live = self.ensure_live().await;
                    self.on_result(live.map(drop));
                }
                let result = self.hibernate().await;
                self.on_result(result);
                if !self.phase.is_leaving() {
                    self.tell();
                    self.leave_as(Leave::Drained(reply));
                } else {
                    let _ = reply.send(());
                }
            }
        }
    }

    /// Deals with the requests that take a session that has begun.
    pub(super) async fn begin_deferred(&mut self) {
        while !self.phase.is_leaving() && !self.deferred.is_empty() {
            if let Err(fault) = self.ensure_live().await {
                let error = fault.error();
                self.on_result(Err(fault));
                self.tell();
                for message in std::mem::take(&mut self.deferred) {
                    message.refuse(error.clone());
                }
                return;
            }
            if self.is_bootstrapping() {
                return;
            }
            let Some(message) = self.deferred.pop_front() else { return };
            self.begin_request(message).await;
        }
    }

    async fn begin_request(&mut self, message: Message) {
        match message {
            Message::Wake(_, reply) => {
                let result = self.store_new().await;
                if let Some(live) = self.phase.live_mut() {
                    live.idle_since = Instant::now();
                }
                self.answer_report(reply, result);
            }
            Message::Checkpoint(call, reply) => {
                let result = self.make_checkpoint(call.label, call.operation).await;
                let answer = self.settle_answer(result);
                let _ = reply.send(answer);
            }
            Message::Migrate(_, dry_run, reply) => self.answer_migrate(dry_run, reply).await,
            Message::AcceptRun(call, reply) => {
                let result = self.accept_run(*call).await;
                let answer = self.settle_answer(result);
                let _ = reply.send(answer);
            }
            Message::CancelRun(call, reply) => {
                let result = self.cancel_run(&call.run).await;
                let answer = self.settle_answer(result);
                let _ = reply.send(answer);
            }
            Message::Decided(call, reply) => {
                if let Some(live) = self.phase.live_mut() {
                    live.idle_since = Instant::now();
                }
                let _ = reply.send(self.on_decided(call.call));
            }
            Message::Answer(call, reply) => {
                if let Some(live) = self.phase.live_mut() {
                    live.idle_since = Instant::now();
                }
                let result = self.answer_call(call.call, call.answer).await;
                let answer = self.settle_answer(result);
                let _ = reply.send(answer);
            }
            Message::Files(_, ask, reply) => self.answer_files(*ask, reply).await,
            other => other.refuse(ApiError::new(ErrorCode::Internal, "this request does not wait for a session")),
        }
    }

    fn on_eval(&mut self, mut job: EvalJob) {
        // What is recorded has a key: a cell that must begin again knows itself by it.
        let key = job.request.idempotency_key.get_or_insert_with(|| self.host.environment.ids.next().to_string()).clone();
        if let Some(begun) = self.current.as_mut().filter(|begun| begun.has(&key)) {
            begun.run |= job.run;
            return self.join(job.waiters);
        }
        if let Some(known) = self.queue.iter_mut().find(|known| known.has(&key)) {
            known.run |= job.run;
            known.lost |= job.lost;
            return known.waiters.extend(job.waiters);
        }
        self.queue.retain(|job| !job.is_left());
        if self.queue.len() >= QUEUED_EVALS_MAX {
            let message = format!("{QUEUED_EVALS_MAX} evals wait for this session; send it again later");
            return job.answer(Err(ApiError::new(ErrorCode::SessionBusy, message)));
        }
        self.queue.push_back(job);
    }

    /// Begins the evals that wait, one after the other, until one of them awaits the world.
    pub(super) async fn begin_queued(&mut self) {
        while !self.phase.is_leaving() && !self.queue.is_empty() {
            let began = Instant::now();
            if self.is_crowding() {
                let waiting = std::mem::take(&mut self.queue);
                let result = self.hibernate().await;
                self.queue.extend(waiting);
                self.on_result(result);
            }
            let step = self.queue.front().filter(|_| !self.phase.is_live()).map_or_else(Span::none, |job| job.origin.step("wake"));
            let woke = match self.ensure_live().instrument(step).await {
                Ok(woke) => woke,
                Err(fault) => {
                    let error = fault.error();
                    self.on_result(Err(fault));
                    for job in std::mem::take(&mut self.queue) {
                        job.answer(Err(error.clone()));
                    }
                    return;
                }
            };
            self.answer_known();
            if self.current.is_some() || self.is_bootstrapping() {
                return;
            }
            let Some(mut job) = self.queue.pop_front() else { return };
            // Nobody would hear of it, and nothing of it has begun.
            if job.is_left() {
                continue;
            }
            if let Some(error) = self.expired().filter(|_| !job.kept) {
                job.answer(Err(error));
                continue;
            }
            if job.run
                && !job.kept
                && let Err(error) = self.keep(&mut job)
            {
                job.answer(Err(error));
                continue;
            }
            if woke != Woke::No {
                job.woke = woke;
                job.served = Served { from: self.woke_from, ms: began.elapsed().as_secs_f64() * 1000.0 };
            }
            match self.begins(&job).await {
                Ok(true) => {}
                Ok(false) => {
                    self.answer_over(job);
                    continue;
                }
                Err(fault) => {
                    let error = fault.error();
                    self.on_result(Err(fault));
                    job.answer(Err(error));
                    continue;
                }
            }
            let result = self.run_cell(job).await;
            self.on_result(result);
        }
    }

    /// When the first of the evals that wait has waited for as long as its cell might have run, behind one that awaits.
    pub(super) fn queue_deadline(&self) -> Option<Instant> {
        self.current.as_ref()?;
        let limit = |job: &EvalJob| {
            let asked = job.request.timeout_ms.unwrap_or(u64::MAX);
            Duration::from_millis(self.assignment.spec.limits.eval_timeout_ms.min(asked))
        };
        let waited = self.queue.iter().filter(|job| !job.kept).map(|job| job.arrived + limit(job)).min()?;
        let looked = self.looked_at_queue.map(|at| at + LEFT_CHECK_INTERVAL);
        Some(looked.map_or(waited, |looked| looked.max(waited)))
    }

    /// Ends the wait behind a cell that awaits: the cell's, if its client has left, else that of those who wait.
    pub(super) async fn end_waits(&mut self) {
        self.looked_at_queue = Some(Instant::now());
        self.queue.retain(|job| !job.is_left());
        if self.queue.is_empty() {
            return;
        }
        // Nobody need wait for a cell that waits for somebody's decision.
        let parked = self.phase.live().is_some_and(|live| live.state.is_parked());
        if !parked && self.current.as_ref().is_some_and(EvalJob::is_left) {
            return self.interrupt_left().await;
        }
        let cell = self.phase.live().and_then(|live| live.state.running.as_ref()).map(|running| running.cell);
        let now = Instant::now();
        let limit_ms = self.assignment.spec.limits.eval_timeout_ms;
        let (over, rest) = std::mem::take(&mut self.queue).into_iter().partition::<Vec<_>, _>(|job| {
            !job.kept && now >= job.arrived + Duration::from_millis(limit_ms.min(job.request.timeout_ms.unwrap_or(u64::MAX)))
        });
        self.queue = rest.into();
        for job in over {
            let message = "another cell of this session awaits something, and cells run one after the other; nothing of this one has run. Wait for \
                           that cell, or interrupt it";
            let error = ApiError::new(ErrorCode::SessionBusy, message).with_details(json!({ "cell": cell }));
            job.answer(Err(error));
        }
    }
}
