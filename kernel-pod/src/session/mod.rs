//! A session: one task that owns its instance, reads a mailbox and does one thing at a time.
//!
//! It decides when to commit, sleep and wake by what its spec, its requests and its store say. What it may ask of its
//! process is [`host`]; it must not know the pod, who may send what, nor how many sessions there are.

mod actor;
mod announce;
mod approvals;
mod bootstrap;
mod budget;
mod calls;
mod cells;
mod claimed;
mod commit;
mod ended;
mod engines;
mod expiry;
pub(crate) mod files;
mod history;
mod host;
mod hostcalls;
mod inbox;
mod journal;
mod lag;
mod leave;
mod migrate;
mod ops;
mod phase;
mod reset;
mod rest;
mod retries;
mod run;
pub(crate) mod runs;
mod setback;
mod sleep;
mod spent;
mod tell;
mod unresolved;
mod wake;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use dormouse_engine::InterruptHandle;
use dormouse_lifecycle::runs::run_id;
use dormouse_protocol::eval::{CellError, EvalRequest, EvalResult, Served, Woke};
use dormouse_protocol::event::Event;
use dormouse_protocol::history::{Checkpoint, Migration};
use dormouse_protocol::kernel::{
    AnswerCall, Assignment, CancelRunCall, CheckpointCall, DecidedCall, EvalCall, ResetCall, RestoreCall, SessionReport,
};
use dormouse_protocol::run::{Progress, Run};
use dormouse_protocol::{ApiError, ErrorCode};
use dormouse_service::origin::Origin;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) use engines::of as engine_of;
pub(crate) use history::checkpoint;
pub(crate) use host::{Host, Supervisor};
pub(crate) use wake::image;

use crate::claim::Claim;
use crate::events::EventLog;

/// Messages that may wait in a mailbox. One more is answered with `SessionBusy`.
const MAILBOX_MESSAGES_MAX: usize = 128;

/// Evals that may wait for the one that runs. One more is answered with `SessionBusy`.
const QUEUED_EVALS_MAX: usize = 64;

/// Where an answer goes.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, ApiError>>;

/// What a session is told.
pub(crate) enum Message {
    /// Run a cell.
    Eval(Box<EvalJob>),
    /// Be live, under the assignment's spec.
    Wake(Box<Assignment>, Reply<SessionReport>),
    /// Commit and sleep.
    Hibernate(Box<Assignment>, Reply<SessionReport>),
    /// Put the present state aside under a label.
    Checkpoint(Box<CheckpointCall>, Reply<Checkpoint>),
    /// Go back to a checkpoint.
    Restore(Box<RestoreCall>, Reply<SessionReport>),
    /// Begin anew, with nothing in the heap.
    Reset(Box<ResetCall>, Reply<SessionReport>),
    /// Move to the current engine, or only tell what would come of it.
    Migrate(Box<Assignment>, bool, Reply<Migration>),
    /// Accept a cell as a run.
    AcceptRun(Box<EvalCall>, Reply<Run>),
    /// End a run.
    CancelRun(Box<CancelRunCall>, Reply<Run>),
    /// Somebody has decided about a call that waits.
    Decided(Box<DecidedCall>, Reply<()>),
    /// A client has answered a call that waits for one.
    Answer(Box<AnswerCall>, Reply<()>),
    /// Something about its files.
    Files(Box<Assignment>, Box<files::Ask>, Reply<files::Answer>),
    /// Give up the slot, if there is nothing to do. Answered once it has been given up or kept.
    Evict(oneshot::Sender<()>),
    /// End the cell that awaits.
    Interrupt(Box<Assignment>, Reply<()>),
    /// Drop everything without a commit.
    Forget(Box<Assignment>, Reply<()>),
    /// Commit, sleep and take nothing more: the process stops.
    Drain(oneshot::Sender<()>),
}

impl Message {
    /// By what right it is asked, if another task of the session may do it as well.
    pub(crate) fn assignment(&self) -> Option<&Assignment> {
        match self {
            Self::Eval(job) => Some(&job.assignment),
            Self::Wake(assignment, _) | Self::Hibernate(assignment, _) | Self::Interrupt(assignment, _) => Some(assignment),
            Self::Checkpoint(call, _) => Some(&call.assignment),
            Self::AcceptRun(call, _) => Some(&call.assignment),
            Self::CancelRun(call, _) => Some(&call.assignment),
            Self::Decided(call, _) => Some(&call.assignment),
            Self::Answer(call, _) => Some(&call.assignment),
            Self::Restore(call, _) => Some(&call.assignment),
            Self::Reset(call, _) => Some(&call.assignment),
            Self::Migrate(assignment, ..) | Self::Files(assignment, ..) => Some(assignment),
            Self::Forget(..) | Self::Evict(_) | Self::Drain(_) => None,
        }
    }

    /// Answers without doing it.
    pub(crate) fn refuse(self, error: ApiError) {
        match self {
            Self::Eval(job) => job.answer(Err(error)),
            Self::Wake(_, reply) | Self::Hibernate(_, reply) | Self::Restore(_, reply) | Self::Reset(_, reply) => {
                drop(reply.send(Err(error)));
            }
            Self::Checkpoint(_, reply) => drop(reply.send(Err(error))),
            Self::AcceptRun(_, reply) | Self::CancelRun(_, reply) => drop(reply.send(Err(error))),
            Self::Migrate(_, _, reply) => drop(reply.send(Err(error))),
            Self::Files(_, _, reply) => drop(reply.send(Err(error))),
            Self::Interrupt(_, reply) | Self::Forget(_, reply) | Self::Decided(_, reply) | Self::Answer(_, reply) => {
                drop(reply.send(Err(error)))
            }
            Self::Evict(reply) | Self::Drain(reply) => drop(reply.send(())),
        }
    }
}

/// A cell to run, and who waits for its answer.
pub(crate) struct EvalJob {
    /// What was asked.
    pub request: EvalRequest,
    /// By what right.
    pub assignment: Assignment,
    /// Who waits: a retry with the same key joins them.
    pub waiters: Vec<Waiter>,
    /// How often it was begun and lost to a predecessor's late write.
    pub attempts: u32,
    /// Where the heap came from.
    pub woke: Woke,
    /// The same with how long it took.
    pub served: Served,
    /// When it came.
    pub arrived: Instant,
    /// Whether it is a run's: it goes on without anybody who waits.
    pub kept: bool,
    /// Whether it is to be a run, and is not accepted as one yet.
    pub run: bool,
    /// Whether processes have ended while they had it: it is not begun again.
    pub lost: bool,
    /// Whose request it is, as long as this process has it.
    pub origin: Origin,
}

/// Someone who waits for a cell.
pub(crate) struct Waiter {
    /// For the answer.
    pub reply: Reply<EvalResult>,
    /// For the events of the cell. A cell's output limit bounds what can wait here.
    pub stream: Option<mpsc::UnboundedSender<Event>>,
}

impl EvalJob {
    /// Whether everyone who waited has left. One that was restored with its session had nobody here; the end of one that is lost is recorded for whoever
    /// comes back.
    pub(crate) fn is_left(&self) -> bool {
        !self.kept && !self.lost && !self.waiters.is_empty() && self.waiters.iter().all(|waiter| waiter.reply.is_closed())
    }

    /// Whether it is the cell under this key.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.request.idempotency_key.as_deref() == Some(key)
    }

    /// Shows an event to those who wait, and to nobody else.
    pub(crate) fn show(&self, event: &Event) {
        for stream in self.waiters.iter().filter_map(|waiter| waiter.stream.as_ref()) {
            let _ = stream.send(event.clone());
        }
    }

    /// Tells everyone who waits.
    pub(crate) fn answer(self, result: Result<EvalResult, ApiError>) {
        for waiter in self.waiters {
            let _ = waiter.reply.send(result.clone());
        }
    }
}

/// What others may touch of a session.
pub(crate) struct Control {
    /// The event log.
    pub events: EventLog,
    /// Its runs, once this process has seen the session.
    pub runs: watch::Sender<Option<Arc<runs::RunViews>>>,
    /// The claim under which the task was started, and its epoch.
    claim: Option<(Claim, u64)>,
    executing: Mutex<Executing>,
    /// What the cell under way said last of how far it is, under the id of its run.
    progress: Mutex<Option<(String, Progress)>>,
    /// Work of the session's task that can be cut off, other than a turn.
    abortable: Mutex<Option<CancellationToken>>,
}

/// What runs at this moment.
#[derive(Default)]
struct Executing {
    /// The code, and the idempotency key of its cell.
    code: Option<(InterruptHandle, Option<String>)>,
    /// Runs that somebody is about to end, by id: their code ends as soon as it begins.
    cancelling: BTreeSet<String>,
}

/// Somebody is about to end a run.
pub(crate) struct Cancelling {
    control: Arc<Control>,
    run: String,
}

impl Drop for Cancelling {
    fn drop(&mut self) {
        self.control.lock().cancelling.remove(&self.run);
    }
}

impl Control {
    fn lock(&self) -> std::sync::MutexGuard<'_, Executing> {
        self.executing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_executing(&self, handle: Option<InterruptHandle>, key: Option<String>) {
        let mut executing = self.lock();
        if let (Some(handle), Some(key)) = (&handle, &key)
            && !executing.cancelling.is_empty()
            && executing.cancelling.contains(&run_id(key))
        {
            handle.interrupt();
        }
        executing.code = handle.map(|handle| (handle, key));
    }

    /// Notes how far the run of an id says that it is; `None`: it has said nothing yet.
    fn set_progress(&self, said: Option<(String, Progress)>) {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = said;
    }

    /// What the run of this id said last.
    pub(crate) fn progress_of(&self, id: &str) -> Option<Progress> {
        let said = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        said.as_ref().filter(|(run, _)| run == id).map(|(_, progress)| progress.clone())
    }

    /// Ends the code of the run of this id, now or as soon as it begins, for as long as the answer lives.
    pub(crate) fn cancel(self: &Arc<Self>, id: &str) -> Cancelling {
        let mut executing = self.lock();
        executing.cancelling.insert(id.to_owned());
        if let Some((handle, Some(key))) = &executing.code
            && run_id(key) == id
        {
            handle.interrupt();
        }
        Cancelling { control: Arc::clone(self), run: id.to_owned() }
    }

    /// Notes that status has an assignment of this epoch to this process: whoever claimed it was right, whichever gateway wrote it. A
    /// claim on an earlier epoch was not.
    pub(crate) fn assigned(&self, epoch: u64) {
        match &self.claim {
            Some((claim, claimed)) if epoch == *claimed => claim.confirm(),
            Some((claim, claimed)) if epoch > *claimed => claim.withdraw(),
            _ => {}
        }
    }

    /// Lets work be cut off by [`Self::interrupt`].
    fn set_abortable(&self, token: Option<CancellationToken>) {
        *self.abortable.lock().unwrap_or_else(PoisonError::into_inner) = token;
    }

    /// Ends the code that runs now. False when none does.
    pub(crate) fn interrupt(&self) -> bool {
        if let Some(token) = &*self.abortable.lock().unwrap_or_else(PoisonError::into_inner) {
            token.cancel();
            return true;
        }
        self.lock().code.as_ref().inspect(|(handle, _)| handle.interrupt()).is_some()
    }
}

/// How to reach a session. Clones reach the same one.
#[derive(Clone)]
pub(crate) struct Handle {
    mailbox: mpsc::Sender<Message>,
    /// What needs no turn in the mailbox.
    pub control: Arc<Control>,
}

/// Why a message was not taken.
pub(crate) enum Undelivered {
    /// The mailbox is full.
    Full,
    /// The session has left; ask the registry again.
    Left(Message),
}

impl Handle {
    /// Starts the task of a session.
    pub(crate) fn spawn(host: Arc<Host>, supervisor: Arc<dyn Supervisor>, assignment: Assignment, claim: Option<Claim>) -> Self {
        let (mailbox, inbox) = mpsc::channel(MAILBOX_MESSAGES_MAX);
        let events = EventLog::new(dormouse_protocol::session::session_id(&assignment.uid));
        let claimed = claim.clone().map(|claim| (claim, assignment.epoch));
        let control = Arc::new(Control {
            events,
            claim: claimed,
            runs: watch::Sender::new(None),
            executing: Mutex::default(),
            progress: Mutex::default(),
            abortable: Mutex::new(None),
        });
        let handle = Self { mailbox, control };
        let scheduler = host.scheduler.clone();
        tokio::spawn(scheduler.run(actor::Actor::new(host, supervisor, assignment, handle.clone(), inbox, claim).run()));
        handle
    }

    /// Puts a message into the mailbox.
    pub(crate) fn send(&self, message: Message) -> Result<(), Undelivered> {
        self.mailbox.try_send(message).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Undelivered::Full,
            mpsc::error::TrySendError::Closed(message) => Undelivered::Left(message),
        })
    }

    /// Puts a message into the mailbox, however long that takes. False when the session has left.
    pub(crate) async fn send_waiting(&self, message: Message) -> bool {
        self.mailbox.send(message).await.is_ok()
    }

    /// Whether both reach the same task.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.mailbox.same_channel(&other.mailbox)
    }
}

/// Why something was not done, and what that means for the session.
pub(crate) enum Fault {
    /// It cannot be done as it was asked. The session is as it was.
    Refused(ApiError),
    /// It cannot be done now: no slot, no storage. The session is as it was.
    Unavailable(ApiError),
    /// The session is not here any more.
    Gone(ApiError),
    /// A predecessor's write is newer than what was restored: restore, and run the unacked cell again.
    Superseded,
    /// The instance is lost, and the cell that ran in it ends with this: what it did since its last commit cannot be stored.
    Ended(CellError),
    /// What ran last is not stored. The instance goes back to what was answered before it, and the same request may be sent again.
    Unstored(ApiError),
    /// The same, and nobody knows yet whether it is stored: the commit is sent again before anything else is done.
    Unresolved(Box<commit::Attempt>, ApiError),
    /// It cannot run until someone changes something.
    Failed(ApiError),
    /// It cannot run under this spec: its bootstrap code would end so again.
    BadBootstrap(ApiError),
}

impl Fault {
    /// What a client is told.
    pub(crate) fn error(&self) -> ApiError {
        match self {
            Self::Refused(error)
            | Self::Unavailable(error)
            | Self::Gone(error)
            | Self::Unstored(error)
            | Self::Unresolved(_, error)
            | Self::Failed(error)
            | Self::BadBootstrap(error) => error.clone(),
            Self::Superseded => gone("a predecessor's commit arrived late; send the request again"),
            Self::Ended(error) => ApiError::new(error.code, error.message.clone()),
        }
    }
}

/// `SessionGone` with a reason.
pub(crate) fn gone(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::SessionGone, message)
}

/// The same, naming the epoch that has the session: whoever gives out the next one need not find it by trying.
pub(crate) fn taken_over(epoch: u64) -> ApiError {
    gone(format!("epoch {epoch} has taken the session over")).with_detail("epoch", epoch)
}
