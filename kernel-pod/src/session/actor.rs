//! The loop of a session: what arrives, and in which order it is dealt with.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use dormouse_crds::session::OperatingMode;
use dormouse_engine::{Instance, Settings};
use dormouse_lifecycle::{Json, Owned};
use dormouse_protocol::ApiError;
use dormouse_protocol::kernel::{Anchor, Assignment, SessionReport};
use dormouse_protocol::session::State;
use dormouse_service::Clock;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::cells::Scripts;
use super::leave::Leave;
use super::ops::{InFlight, Settled};
use super::state::SessionState;
use super::{EvalJob, Fault, Handle, Message, QUEUED_EVALS_MAX, Reply, gone};
use crate::claim::Claim;
use crate::contents::Contents;
use crate::pod::Shared;
use crate::slots::Slot;

/// Times that a cell is begun again after a predecessor's late write before its client has to send it again.
const RERUNS_MAX: u32 = 3;

/// A session's task.
pub(crate) struct Actor {
    pub(super) pod: Arc<Shared>,
    pub(super) handle: Handle,
    pub(super) mailbox: mpsc::Receiver<Message>,
    /// The newest assignment.
    pub(super) assignment: Assignment,
    /// The claim that the assignment still is, until it is confirmed.
    pub(super) claim: Option<Claim>,
    /// Evals that wait for the running one.
    pub(super) queue: VecDeque<EvalJob>,
    /// The one that runs.
    pub(super) current: Option<EvalJob>,
    pub(super) live: Option<Live>,
    /// Whether a later epoch was given to this process while the session was live: somebody else may have committed between.
    pub(super) verify: bool,
    /// Whether the spec has changed since the instance was made.
    pub(super) respec: bool,
    /// Why it cannot run.
    pub(super) failure: Option<ApiError>,
    /// Whether guest code runs at this moment.
    pub(super) executing: bool,
    pub(super) waking: bool,
    /// What was told last.
    pub(super) told: Option<SessionReport>,
    pub(super) told_state: Option<State>,
    /// What made an instance trap: it is not tried again after the restore.
    pub(super) poison: Poison,
    pub(super) scripts: Scripts,
    /// Whether a commit was begun that nobody knows the outcome of: its segment may lie in the store unnamed.
    pub(super) lost_commit: bool,
    pub(super) leaving: Option<Leave>,
}

/// What a session holds while it has a slot.
pub(super) struct Live {
    pub(super) instance: Instance,
    /// What the instance was made with.
    pub(super) settings: Settings,
    pub(super) owned: Owned,
    /// What it keeps outside its heap.
    pub(super) contents: Arc<Contents>,
    pub(super) state: SessionState,
    pub(super) in_flight: InFlight,
    pub(super) slot: Slot,
    /// Whether something has run since the last commit.
    pub(super) dirty: bool,
    /// Since when an answer is ahead of storage.
    pub(super) unstored_since: Option<Instant>,
    /// Whether processes before this one may have left objects that no head names. The next commit sweeps them.
    pub(super) litter: bool,
    /// Entries of the journal for the next commit.
    pub(super) journal: Vec<Json>,
    pub(super) idle_since: Instant,
    pub(super) clock: Clock,
    /// Whether it has given back the memory that it does not need since it ran last.
    pub(super) rests: bool,
}

/// What is left out of the record after a restore.
#[derive(Debug, Default)]
pub(super) struct Poison {
    pub(super) op: Option<u64>,
    pub(super) cell: Option<u64>,
}

enum Step {
    Message(Option<Message>),
    Settled(Settled),
    Decided,
    Idle,
    Rest,
    Store,
}

impl Actor {
    pub(super) fn new(
        pod: Arc<Shared>,
        assignment: Assignment,
        handle: Handle,
        mailbox: mpsc::Receiver<Message>,
        claim: Option<Claim>,
    ) -> Self {
        Self {
            pod,
            handle,
            mailbox,
            assignment,
            claim,
            queue: VecDeque::new(),
            current: None,
            live: None,
            verify: false,
            respec: false,
            failure: None,
            executing: false,
            waking: false,
            told: None,
            told_state: None,
            poison: Poison::default(),
            scripts: Scripts::default(),
            lost_commit: false,
            leaving: None,
        }
    }

    pub(super) async fn run(mut self) {
        while self.leaving.is_none() {
            self.begin_queued().await;
            self.end_stuck().await;
            if self.leaving.is_some() {
                break;
            }
            self.tell();
            match self.step().await {
                Step::Message(Some(message)) => self.on_message(message).await,
                Step::Message(None) => break,
                Step::Settled(settled) => {
                    let result = self.on_settled(settled).await;
                    self.on_result(result);
                }
                Step::Decided => {
                    let result = self.settle_claim().await;
                    self.on_result(result);
                }
                Step::Idle => {
                    let result = self.hibernate().await;
                    self.on_result(result);
                }
                Step::Rest => self.rest(),
                Step::Store => {
                    let result = self.commit().await;
                    self.on_result(result.map(drop));
                }
            }
        }
        self.leave();
    }

    async fn step(&mut self) -> Step {
        self.offer_slot();
        let idle_at = self.idle_deadline();
        let (idle, rest, store) = (at(idle_at), at(self.rest_deadline()), at(self.store_deadline()));
        let settled = async {
            match &mut self.live {
                Some(live) => live.in_flight.next(&live.state).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            message = self.mailbox.recv() => Step::Message(message),
            () = decided(self.claim.as_ref()) => Step::Decided,
            settled = settled => Step::Settled(settled),
            () = store => Step::Store,
            () = idle => Step::Idle,
            () = rest => Step::Rest,
        }
    }

    /// Says whether the slot may be taken by a session that needs one.
    pub(super) fn offer_slot(&self) {
        if let Some(live) = &self.live {
            live.slot.set_idle(self.idle_deadline().map(|_| live.idle_since));
        }
    }

    /// When to go to sleep, if nothing happens until then. `None`: not while this lasts.
    fn idle_deadline(&self) -> Option<Instant> {
        let live = self.live.as_ref()?;
        let busy = live.state.running.is_some() || live.in_flight.calls() || live.contents.is_busy() || !self.queue.is_empty();
        if busy || self.assignment.spec.operating_mode == OperatingMode::Running {
            return None;
        }
        Some(live.idle_since + Duration::from_secs(u64::from(self.assignment.spec.idle_seconds)))
    }

    async fn on_message(&mut self, message: Message) {
        match message {
            Message::Eval(job) => self.on_eval(*job),
            Message::Wake(assignment, reply) => {
                let result = match self.adopt(&assignment) {
                    Ok(()) => self.wake_and_store().await,
                    Err(error) => return drop(reply.send(Err(error))),
                };
                if let Some(live) = &mut self.live {
                    live.idle_since = Instant::now();
                }
                self.answer_report(reply, result);
            }
            Message::Hibernate(assignment, reply) => {
                if let Err(error) = self.adopt(&assignment) {
                    return drop(reply.send(Err(error)));
                }
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
            Message::Checkpoint(assignment, label, reply) => {
                if let Err(error) = self.adopt(&assignment) {
                    return drop(reply.send(Err(error)));
                }
                let result = self.make_checkpoint(label).await;
                let answer = self.settle_answer(result);
                let _ = reply.send(answer);
            }
            Message::Restore(assignment, checkpoint, reply) => {
                if let Err(error) = self.adopt(&assignment) {
                    return drop(reply.send(Err(error)));
                }
                let result = self.restore_checkpoint(&checkpoint).await;
                let answer = self.settle_answer(result);
                let _ = reply.send(answer.map(|()| self.report()));
            }
            Message::Migrate(assignment, dry_run, reply) => self.answer_migrate(&assignment, dry_run, reply).await,
            Message::Files(assignment, ask, reply) => self.answer_files(&assignment, *ask, reply).await,
            Message::Interrupt(assignment, reply) => {
                let result = self.adopt(&assignment);
                if result.is_ok() {
                    self.interrupt_awaiting().await;
                }
                let _ = reply.send(result);
            }
            Message::Forget(assignment, reply) => match self.adopt(&assignment) {
                Ok(()) => self.leaving = Some(Leave::Forgotten(reply)),
                Err(error) => drop(reply.send(Err(error))),
            },
            Message::Drain(reply) => {
                let result = self.hibernate().await;
                self.on_result(result);
                if self.leaving.is_none() {
                    self.tell();
                    self.leaving = Some(Leave::Drained(Some(reply)));
                } else {
                    let _ = reply.send(());
                }
            }
        }
    }

    fn answer_report(&mut self, reply: Reply<SessionReport>, result: Result<(), Fault>) {
        let error = result.as_ref().err().map(Fault::error);
        self.on_result(result);
        if self.leaving.is_none() {
            self.tell();
        }
        let _ = reply.send(error.map_or_else(|| Ok(self.report()), Err));
    }

    /// What to answer: the error of an answer leaves the session as it is, a fault does not.
    pub(super) fn settle_answer<T>(&mut self, result: Result<Result<T, ApiError>, Fault>) -> Result<T, ApiError> {
        let answer = result.unwrap_or_else(|fault| {
            let error = fault.error();
            self.on_result(Err(fault));
            Err(error)
        });
        if self.leaving.is_none() {
            self.tell();
        }
        answer
    }

    /// Takes over a newer right or spec; refuses an older right.
    pub(super) fn adopt(&mut self, assignment: &Assignment) -> Result<(), ApiError> {
        if assignment.epoch < self.assignment.epoch {
            return Err(gone(format!("this pod runs the session under epoch {}", self.assignment.epoch)));
        }
        if assignment.epoch > self.assignment.epoch {
            self.assignment.epoch = assignment.epoch;
            self.verify = true;
        }
        self.assignment.anchor = Anchor::later(self.assignment.anchor, assignment.anchor);
        self.assignment.source_anchor = Anchor::later(self.assignment.source_anchor, assignment.source_anchor);
        if assignment.generation > self.assignment.generation {
            self.assignment.generation = assignment.generation;
            self.assignment.spec = assignment.spec.clone();
            self.respec = true;
            self.failure = None;
        }
        Ok(())
    }

    fn on_eval(&mut self, job: EvalJob) {
        if let Err(error) = self.adopt(&job.assignment) {
            return job.answer(Err(error));
        }
        let key = &job.request.idempotency_key;
        let same = |other: &&mut EvalJob| key.is_some() && other.request.idempotency_key == *key;
        if let Some(known) = self.current.as_mut().into_iter().chain(self.queue.iter_mut()).find(same) {
            return known.waiters.extend(job.waiters);
        }
        if self.queue.len() >= QUEUED_EVALS_MAX {
            let message = format!("{QUEUED_EVALS_MAX} evals wait for this session; send it again later");
            return job.answer(Err(ApiError::new(dormouse_protocol::ErrorCode::SessionBusy, message)));
        }
        self.queue.push_back(job);
    }

    /// Begins the evals that wait, one after the other, until one of them awaits the world.
    async fn begin_queued(&mut self) {
        while self.leaving.is_none() && !self.queue.is_empty() {
            let woke = match self.ensure_live().await {
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
            if self.current.is_some() {
                return;
            }
            let Some(mut job) = self.queue.pop_front() else { return };
            if woke != dormouse_protocol::eval::Woke::No {
                job.woke = woke;
            }
            let result = self.run_cell(job).await;
            self.on_result(result);
        }
    }

    /// Deals with the end of something that may have failed.
    pub(super) fn on_result(&mut self, result: Result<(), Fault>) {
        let Err(fault) = result else { return };
        let error = fault.error();
        let reason = fault.reason();
        tracing::warn!(uid = %self.assignment.uid, session = %self.assignment.name, reason, "the session cannot go on as it was");
        if let Fault::Poisoned(_) | Fault::Overrun = &fault {
            self.poison.cell = self.live.as_ref().and_then(|live| live.state.running.as_ref()).map(|running| running.cell);
        }
        self.drop_live();
        let current = self.current.take();
        match fault {
            Fault::Superseded => match current {
                Some(mut job) if job.attempts < RERUNS_MAX => {
                    job.attempts += 1;
                    self.queue.push_front(job);
                }
                Some(job) => job.answer(Err(error)),
                None => {}
            },
            Fault::Gone(_) => {
                let claimed = self.claim.as_ref().is_some_and(|claim| !claim.is_confirmed());
                self.leaving = Some(if claimed { Leave::Withdrawn(error.clone()) } else { Leave::Gone(error.clone()) });
                if let Some(job) = current {
                    job.answer(Err(error));
                }
            }
            Fault::Failed(_) | Fault::Unavailable(_) | Fault::Poisoned(_) | Fault::Overrun => {
                if let Fault::Failed(error) = fault {
                    self.failure = Some(error);
                }
                if let Some(job) = current {
                    job.answer(Err(error));
                }
            }
        }
    }
}

/// Ends when the claim is decided; never without one.
async fn decided(claim: Option<&Claim>) {
    match claim {
        Some(claim) => drop(claim.confirmed().await),
        None => std::future::pending().await,
    }
}

/// Ends at that time, or never.
async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
