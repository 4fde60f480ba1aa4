//! The loop of a session: what arrives, and in which order it is dealt with.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use dormouse_crds::session::OperatingMode;
use dormouse_engine::{Instance, Settings};
use dormouse_lifecycle::{Json, Owned};
use dormouse_protocol::ApiError;
use dormouse_protocol::eval::WokeFrom;
use dormouse_protocol::kernel::{Anchor, Assignment, SessionReport};
use dormouse_protocol::session::State;
use dormouse_service::Clock;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::cells::Scripts;
use super::leave::Leave;
use super::ops::{InFlight, Settled};
use super::setback::{Answered, Blame, Setback};
use super::state::{RunningCell, SessionState};
use super::unresolved::{Tries, Unresolved};
use super::{EvalJob, Fault, Handle, Message, Reply, taken_over};
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
    /// The generation of the spec whose bootstrap code ended badly in a way that would come again.
    pub(super) bad_bootstrap: Option<i64>,
    /// Requests that wait for the end of the bootstrap code.
    pub(super) deferred: VecDeque<Message>,
    /// Whether guest code runs at this moment.
    pub(super) executing: bool,
    pub(super) waking: bool,
    /// Where the heap came from at the last wake.
    pub(super) woke_from: WokeFrom,
    /// What was told last.
    pub(super) told: Option<SessionReport>,
    pub(super) told_state: Option<State>,
    /// What the turn under way is for.
    pub(super) blame: Blame,
    /// The cell that has ended and is not stored yet, without its output.
    pub(super) finishing: Option<RunningCell>,
    /// What is left of the instance that was lost.
    pub(super) setback: Option<Setback>,
    pub(super) scripts: Scripts,
    /// A commit that may be stored or not.
    pub(super) unresolved: Option<Box<Unresolved>>,
    /// When what is still to be stored is tried again.
    pub(super) tries: Option<Tries>,
    /// Whether a commit was begun that did not come to its end: its segment may lie in the store unnamed.
    pub(super) lost_commit: bool,
    /// When it was looked last whether those are still there who wait.
    pub(super) looked_at_queue: Option<Instant>,
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
    /// Whether something has run that neither a commit nor `answered` has.
    pub(super) moved: bool,
    /// The last answer's state, where that is ahead of the last commit.
    pub(super) answered: Option<Box<Answered>>,
    /// Whether the way to the store is too slow for whole images: what changes is appended as long as that can go on.
    pub(super) appends: bool,
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

enum Step {
    Message(Option<Message>),
    Settled(Settled),
    Decided,
    Idle,
    Rest,
    Store,
    Resolve,
    BootstrapOver,
    QueueWaited,
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
            bad_bootstrap: None,
            deferred: VecDeque::new(),
            executing: false,
            waking: false,
            woke_from: WokeFrom::No,
            told: None,
            told_state: None,
            blame: Blame::default(),
            finishing: None,
            setback: None,
            scripts: Scripts::default(),
            unresolved: None,
            tries: None,
            lost_commit: false,
            looked_at_queue: None,
            leaving: None,
        }
    }

    pub(super) async fn run(mut self) {
        while self.leaving.is_none() {
            self.begin_deferred().await;
            self.begin_queued().await;
            self.end_stuck().await;
            self.settle_debts().await;
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
                Step::Resolve => self.try_resolve().await,
                Step::BootstrapOver => self.end_bootstrap(),
                Step::QueueWaited => self.end_waits().await,
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
        let (resolve, over, waited) = (at(self.resolve_at()), at(self.bootstrap_deadline()), at(self.queue_deadline()));
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
            () = resolve => Step::Resolve,
            () = over => Step::BootstrapOver,
            () = waited => Step::QueueWaited,
        }
    }

    /// Says whether the slot may be taken by a session that needs one.
    pub(super) fn offer_slot(&self) {
        if let Some(live) = &self.live {
            live.slot.set_idle(self.idle_deadline().map(|_| live.idle_since));
        }
    }

    /// When to go to sleep, if nothing happens until then. `None`: not while this lasts.
    pub(super) fn idle_deadline(&self) -> Option<Instant> {
        let live = self.live.as_ref()?;
        let busy = live.state.running.is_some() || live.in_flight.calls() || live.contents.is_busy() || !self.queue.is_empty();
        if busy || self.assignment.spec.operating_mode == OperatingMode::Running {
            return None;
        }
        Some(live.idle_since + Duration::from_secs(u64::from(self.assignment.spec.idle_seconds)))
    }

    pub(super) fn answer_report(&mut self, reply: Reply<SessionReport>, result: Result<(), Fault>) {
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
            return Err(taken_over(self.assignment.epoch));
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

    /// Deals with the end of something that may have failed.
    pub(super) fn on_result(&mut self, result: Result<(), Fault>) {
        let Err(fault) = result else { return };
        let error = fault.error();
        let was_bootstrapping = self.is_bootstrapping();
        tracing::warn!(uid = %self.assignment.uid, session = %self.assignment.name, %error, "the session cannot go on as it was");
        match fault {
            Fault::Gone(_) => {
                self.drop_live();
                let claimed = self.claim.as_ref().is_some_and(|claim| !claim.is_confirmed());
                self.leaving = Some(if claimed { Leave::Withdrawn(error.clone()) } else { Leave::Gone(error.clone()) });
                self.owe_no_longer(&error);
            }
            Fault::Superseded => {
                self.go_back(None);
                match self.current.take() {
                    Some(mut job) if job.attempts < RERUNS_MAX => {
                        job.attempts += 1;
                        return self.queue.push_front(job);
                    }
                    job => self.current = job,
                }
            }
            // Who waits for the cell hears of its end when that is recorded.
            Fault::Ended(end) => self.go_back(Some(end)),
            Fault::Unstored(_) => {
                self.failure = Some(error.clone());
                self.go_back(None);
            }
            Fault::Failed(_) => {
                self.failure = Some(error.clone());
                self.go_back(None);
            }
            // The instance is as it was, and so is the cell that awaits in it.
            Fault::Unavailable(_) if self.live.is_some() => return,
            Fault::Unavailable(_) => {}
        }
        if let Some(job) = self.current.take() {
            job.answer(Err(error.clone()));
        }
        if was_bootstrapping {
            // They would begin the same code again.
            self.end_waiting(&error);
        }
    }

    /// Tells how the cell ended that was lost with its instance, once that is recorded.
    async fn settle_debts(&mut self) {
        if self.leaving.is_some() || !self.owes_an_end() {
            return;
        }
        if let Err(fault) = self.ensure_live().await {
            self.owe_no_longer(&fault.error());
            self.on_result(Err(fault));
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
