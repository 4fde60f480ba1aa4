//! Messages to the tasks of sessions, which are started for them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use dormouse_protocol::kernel::Assignment;
use dormouse_protocol::{ApiError, ErrorCode};
use tokio::sync::oneshot;

use super::Pod;
use crate::claim::Claim;
use crate::session::{Handle, Message, Reply, Supervisor, Undelivered, gone};

/// Times that a message is sent again because the session's task had just ended.
const SEND_ATTEMPTS_MAX: u32 = 3;

impl Pod {
    /// The session's task, started under `assignment` if there is none.
    pub(super) fn start(&self, assignment: &Assignment) -> Handle {
        self.shared.registry.get_or_start(&assignment.uid, || self.spawn(assignment, None))
    }

    /// Starts the session's task under an assignment that is only claimed. `None` when there is a task already: it must not hear of a claim.
    pub(super) fn start_claimed(&self, assignment: &Assignment, claim: Claim) -> Option<Handle> {
        self.shared.registry.start(&assignment.uid, || self.spawn(assignment, Some(claim)))
    }

    fn spawn(&self, assignment: &Assignment, claim: Option<Claim>) -> Handle {
        let supervisor: Arc<dyn Supervisor> = Arc::clone(&self.shared) as _;
        Handle::spawn(Arc::clone(&self.shared.host), supervisor, assignment.clone(), claim)
    }

    pub(crate) fn admit(&self, assignment: &Assignment) -> Result<(), ApiError> {
        if assignment.boot != self.shared.host.boot {
            return Err(gone("this is another process than the one that the session was placed on"));
        }
        if assignment.namespace != self.shared.host.namespace {
            let message = format!("this pod runs sessions of namespace {} only", self.shared.host.namespace);
            return Err(ApiError::new(ErrorCode::Forbidden, message));
        }
        if self.shared.draining.load(Ordering::SeqCst) {
            return Err(gone("the pod is stopping"));
        }
        if self.shared.host.slots.max() == 0 {
            return Err(ApiError::new(ErrorCode::CapacityExhausted, "this pod tells what is stored and runs no session"));
        }
        match &self.shared.host.only {
            Some(only) => only.admit(&assignment.uid),
            None => Ok(()),
        }
    }

    pub(crate) async fn ask<T>(&self, assignment: &Assignment, message: impl FnOnce(Reply<T>) -> Message) -> Result<T, ApiError> {
        self.ask_once(assignment, message, task_ended).await
    }

    /// The same of what may not arrive twice: `unanswered` says what to answer when the session's task ends without a word.
    pub(crate) async fn ask_once<T>(
        &self,
        assignment: &Assignment,
        message: impl FnOnce(Reply<T>) -> Message,
        unanswered: impl FnOnce() -> ApiError,
    ) -> Result<T, ApiError> {
        let (reply, answer) = oneshot::channel();
        self.send(assignment, message(reply))?;
        answer.await.unwrap_or_else(|_| Err(unanswered()))
    }

    /// Puts a message into the session's mailbox, starting the session if it is not here.
    pub(crate) fn send(&self, assignment: &Assignment, mut message: Message) -> Result<(), ApiError> {
        self.admit(assignment)?;
        for _ in 0..SEND_ATTEMPTS_MAX {
            let handle = self.start(assignment);
            handle.control.assigned(assignment.epoch);
            match handle.send(message) {
                Ok(()) => return Ok(()),
                Err(Undelivered::Full) => {
                    return Err(ApiError::new(ErrorCode::SessionBusy, "too many requests wait for this session; send it again later"));
                }
                Err(Undelivered::Left(undelivered)) => {
                    message = undelivered;
                    self.shared.registry.remove(&assignment.uid, &handle);
                }
            }
        }
        Err(gone("the session left this pod"))
    }
}

/// The session's task is gone without an answer, which is a fault of ours; the store has what was acked, and by its key what was carried out.
pub(crate) fn task_ended() -> ApiError {
    let message = "the session's task ended unexpectedly; send the request again, with its idempotencyKey if it has one";
    ApiError::new(ErrorCode::Internal, message).again()
}
