//! The loop of a session: what arrives, and in which order it is dealt with.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use dormouse_crds::session::OperatingMode;
use dormouse_protocol::ApiError;
use dormouse_protocol::eval::WokeFrom;
use dormouse_protocol::kernel::{Anchor, Assignment, SessionReport};
use dormouse_protocol::session::State;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::announce::Announced;
use super::cells::Scripts;
use super::leave::Leave;
use super::ops::Settled;
use super::phase::{Failure, Live, Owed, Phase, Until};
use super::setback::Lost;
use super::unresolved::Tries;
use super::{EvalJob, Fault, Handle, Host, Message, Reply, Supervisor, gone, taken_over};
use crate::claim::Claim;

/// Times that a cell is begun again after a predecessor's late write before its client has to send it again.
const RERUNS_MAX: u32 = 3;

/// A session's task.
pub(crate) struct Actor {
    pub(super) host: Arc<Host>,
    pub(super) supervisor: Arc<dyn Supervisor>,
    pub(super) handle: Handle,
    pub(super) mailbox: mpsc::Receiver<Message>,
    /// The newest assignment.
    pub(super) assignment: Assignment,
    /// The claim that the assignment still is, until it is confirmed.
    pub(super) claim: Option<Claim>,
    /// What the session is at this moment.
    pub(super) phase: Phase,
    /// Evals that wait for the running one.
    pub(super) queue: VecDeque<EvalJob>,
    /// The one that runs.
    pub(super) current: Option<EvalJob>,
    /// Requests that wait for the end of the bootstrap code.
    pub(super) deferred: VecDeque<Message>,
    /// Whether a message comes before an operation that has settled, if both are there.
    pub(super) messages_first: bool,
    /// Where the heap came from at the last wake.
    pub(super) woke_from: WokeFrom,
    /// When it was looked last whether those are still there who wait.
    pub(super) looked_at_queue: Option<Instant>,
    /// What is known of the session while it has no instance: what was reported last.
    pub(super) reported: Option<SessionReport>,
    /// The state that followers have heard of last.
    pub(super) published: Option<State>,
    pub(super) scripts: Scripts,
    /// What others were told of the session itself.
    pub(super) announced: Announced,
    /// When what is owed to storage is tried again.
    pub(super) tries: Option<Tries>,
    /// Kept while that is so, of a session that has its pod for itself.
    pub(super) hold: Option<Arc<()>>,
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
        host: Arc<Host>,
        supervisor: Arc<dyn Supervisor>,
        assignment: Assignment,
        handle: Handle,
        mailbox: mpsc::Receiver<Message>,
        claim: Option<Claim>,
    ) -> Self {
        Self {
            host,
            supervisor,
            handle,
            mailbox,
            assignment,
            claim,
            phase: Phase::Asleep(Owed::default()),
            queue: VecDeque::new(),
            current: None,
            deferred: VecDeque::new(),
            messages_first: false,
            woke_from: WokeFrom::No,
            looked_at_queue: None,
            reported: None,
            published: None,
            scripts: Scripts::default(),
            announced: Announced::default(),
            tries: None,
            hold: None,
        }
    }

    pub(super) async fn run(mut self) {
        while !self.phase.is_leaving() {
            self.begin_deferred().await;
            self.begin_queued().await;
            self.end_stuck().await;
            self.settle_debts().await;
            if self.phase.is_leaving() {
                break;
            }
            self.hold_pod();
            self.tell();
            match self.step().await {
                Step::Message(Some(message)) => self.on_message(message).await,
                Step::Message(None) => self.leave_as(Leave::Gone(gone("the pod is stopping"))),
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
                Step::Rest => {
                    let result = self.rest().await;
                    self.on_result(result);
                }
                Step::Resolve => self.try_resolve().await,
                Step::BootstrapOver => self.end_bootstrap(),
                Step::QueueWaited => self.end_waits().await,
                Step::Store => {
                    let result = self.commit().await;
                    self.on_result(result.map(drop));
                }
            }
        }
        self.depart();
    }

    async fn step(&mut self) -> Step {
        self.offer_slot();
        let idle_at = self.idle_deadline();
        let (idle, rest, store) = (at(idle_at), at(self.rest_deadline()), at(self.store_deadline()));
        let (resolve, over, waited) = (at(self.resolve_at()), at(self.bootstrap_deadline()), at(self.queue_deadline()));
        let settled = async {
            match self.phase.live_mut() {
                Some(live) => live.in_flight.next(&live.state).await,
                None => std::future::pending().await,
            }
        };
        self.messages_first = !self.messages_first;
        let message = async { Step::Message(self.mailbox.recv().await) };
        let settled = async { Step::Settled(settled.await) };
        tokio::select! {
            // A deadline passes once; what comes without end comes after, and sleep last of all.
            biased;
            () = decided(self.claim.as_ref()) => Step::Decided,
            () = store => Step::Store,
            () = resolve => Step::Resolve,
            () = over => Step::BootstrapOver,
            () = waited => Step::QueueWaited,
            step = in_turns(self.messages_first, message, settled) => step,
            () = idle => Step::Idle,
            () = rest => Step::Rest,
        }
    }

    /// Says whether the slot may be taken by a session that needs one.
    pub(super) fn offer_slot(&self) {
        if let Some(live) = self.phase.live() {
            live.slot.set_idle(self.idle_deadline().map(|_| live.idle_since), live.instance.grown_bytes());
        }
    }

    /// When to go to sleep, if nothing happens until then. `None`: not while this lasts.
    pub(super) fn idle_deadline(&self) -> Option<Instant> {
        let live = self.phase.live()?;
        if is_at_work(live) || !self.queue.is_empty() {
            return None;
        }
        let idle = live.idle_since + Duration::from_secs(u64::from(self.assignment.spec.idle_seconds));
        let idle = (self.assignment.spec.operating_mode != OperatingMode::Running).then_some(idle);
        idle.into_iter().chain(self.expiry_deadline(live)).min()
    }

    /// Whether it holds more than its share while memory is short, and may sleep. Then it does so before its next cell, and asks for room like others:
    /// whoever never rests would leave none to those who do.
    pub(super) fn is_crowding(&self) -> bool {
        self.phase.live().is_some_and(|live| {
            live.instance.grown_bytes() > self.host.share()
                && self.assignment.spec.operating_mode != OperatingMode::Running
                && !is_at_work(live)
                && !self.host.environment.memory.has_room()
        })
    }

    /// Answers with the session as it is after a request, or with what came of it instead.
    pub(super) fn answer_report(&mut self, reply: Reply<SessionReport>, result: Result<(), Fault>) {
        let answer = self.settle_answer(result);
        let _ = reply.send(answer.map(|()| self.report()));
    }

    /// What to answer, after what has come of the request was dealt with.
    pub(super) fn settle_answer<T>(&mut self, result: Result<T, Fault>) -> Result<T, ApiError> {
        let answer = result.map_err(|fault| {
            let error = fault.error();
            self.on_result(Err(fault));
            error
        });
        self.tell();
        answer
    }

    /// Takes over a newer right or spec; refuses an older right.
    pub(super) fn adopt(&mut self, assignment: &Assignment) -> Result<(), ApiError> {
        if assignment.epoch < self.assignment.epoch {
            return Err(taken_over(self.assignment.epoch));
        }
        self.assignment.epoch = assignment.epoch;
        self.assignment.anchor = Anchor::later(self.assignment.anchor, assignment.anchor);
        self.assignment.source_anchor = Anchor::later(self.assignment.source_anchor, assignment.source_anchor);
        if assignment.generation > self.assignment.generation {
            self.assignment.generation = assignment.generation;
            self.assignment.spec = assignment.spec.clone();
            self.phase.forgive();
        }
        Ok(())
    }

    /// Deals with the end of something that may have failed.
    pub(super) fn on_result(&mut self, result: Result<(), Fault>) {
        let Err(fault) = result else { return };
        let error = match &fault {
            Fault::Refused(_) => return,
            fault => fault.error(),
        };
        let was_bootstrapping = self.is_bootstrapping();
        tracing::warn!(uid = %self.assignment.uid, session = %self.assignment.name, %error, "the session cannot go on as it was");
        let fail = |phase: &mut Phase, until| phase.fail(Failure { error: error.clone(), until });
        match fault {
            // The instance is as it was, and so is the cell that awaits in it.
            Fault::Unavailable(_) if self.phase.is_live() => return,
            Fault::Unavailable(_) | Fault::Refused(_) => {}
            Fault::Gone(_) => {
                let claimed = self.claim.as_ref().is_some_and(|claim| !claim.is_confirmed());
                self.leave_as(if claimed { Leave::Withdrawn(error.clone()) } else { Leave::Gone(error.clone()) });
            }
            Fault::Superseded => {
                self.go_back(None);
                if let Some(owed) = self.phase.owed_mut() {
                    owed.unread = true;
                }
                match self.current.take() {
                    Some(mut job) if job.attempts < RERUNS_MAX => {
                        job.attempts += 1;
                        job.show(&self.handle.control.events.restarted());
                        return self.queue.push_front(job);
                    }
                    job => self.current = job,
                }
            }
            // Who waits for the cell hears of its end when that is recorded.
            Fault::Ended(end) => match self.go_back(Some(end)) {
                Lost::Nothing => {}
                Lost::Bootstrap(error) => self.phase.fail(Failure { error, until: Until::Respec }),
            },
            Fault::Unstored(_) | Fault::Failed(_) => {
                self.go_back(None);
                fail(&mut self.phase, Until::Asked);
            }
            Fault::Unresolved(attempt, _) => {
                self.go_back(None);
                if let Some(owed) = self.phase.owed_mut() {
                    owed.commit = Some(attempt);
                }
                fail(&mut self.phase, Until::Asked);
            }
            Fault::BadBootstrap(_) => {
                self.go_back(None);
                fail(&mut self.phase, Until::Respec);
            }
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
        if !self.owes_an_end() {
            return;
        }
        if let Err(fault) = self.ensure_live().await {
            self.owe_no_longer(&fault.error());
            self.on_result(Err(fault));
        }
    }
}

/// Whichever is ready. When both are, the one whose turn it is: neither clients nor timers of zero milliseconds keep the other from its turn.
async fn in_turns<T>(first: bool, one: impl Future<Output = T>, other: impl Future<Output = T>) -> T {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|context| {
        let ready = if first { one.as_mut().poll(context) } else { other.as_mut().poll(context) };
        match ready {
            Poll::Pending if first => other.as_mut().poll(context),
            Poll::Pending => one.as_mut().poll(context),
            ready => ready,
        }
    })
    .await
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

/// Whether something of it is under way in this process.
fn is_at_work(live: &Live) -> bool {
    // Who decides may take days.
    let runs = live.state.running.is_some() && !live.state.is_parked();
    runs || live.in_flight.calls() || live.contents.is_busy()
}
