//! What a pod can be asked of a session.

use dormouse_protocol::eval::EvalResult;
use dormouse_protocol::history::{Checkpoint, Migration};
use dormouse_protocol::kernel::{Assignment, CheckpointCall, EvalCall, ResetCall, RestoreCall, SessionCall, SessionReport, WaitingCall};
use dormouse_protocol::{ApiError, ErrorCode};
use tokio::sync::oneshot;

use super::Pod;
use crate::session::{Message, gone};

impl Pod {
    /// Runs a cell and waits for its answer.
    ///
    /// # Errors
    /// The service's own; a script's error is in the answer.
    pub async fn eval(&self, call: EvalCall) -> Result<EvalResult, ApiError> {
        self.eval_claimed(call, None).await
    }

    /// Makes the session live, under the assignment's spec.
    ///
    /// # Errors
    /// It is not here, or cannot run.
    pub async fn wake(&self, assignment: Assignment) -> Result<SessionReport, ApiError> {
        self.wake_claimed(assignment, None).await
    }

    /// Commits the session and frees its slot.
    ///
    /// # Errors
    /// It is not here, or cannot be stored.
    pub async fn hibernate(&self, assignment: Assignment) -> Result<SessionReport, ApiError> {
        self.ask(&assignment, |reply| Message::Hibernate(Box::new(assignment.clone()), reply)).await
    }

    /// Puts the session's present state aside under a label.
    ///
    /// # Errors
    /// It is not here, cannot be stored, or the label cannot be used.
    pub async fn checkpoint(&self, assignment: Assignment, label: String) -> Result<Checkpoint, ApiError> {
        self.make_checkpoint(CheckpointCall { assignment, label, operation: None }).await
    }

    /// The same; a call that names its operation is carried out once, however often it is sent.
    ///
    /// # Errors
    /// As those of [`Self::checkpoint`]; `Conflict` when it was carried out, and its checkpoint is no longer kept.
    pub async fn make_checkpoint(&self, call: CheckpointCall) -> Result<Checkpoint, ApiError> {
        let assignment = call.assignment.clone();
        self.ask(&assignment, |reply| Message::Checkpoint(Box::new(call), reply)).await
    }

    /// Goes back to a checkpoint, by id or label. Cells that wait end with `Interrupted`.
    ///
    /// # Errors
    /// It is not here, cannot be stored, or has no such checkpoint.
    pub async fn restore(&self, assignment: Assignment, checkpoint: String) -> Result<SessionReport, ApiError> {
        self.go_back(RestoreCall { assignment, checkpoint, operation: None }).await
    }

    /// The same; a call that names its operation is carried out once, however often it is sent.
    ///
    /// # Errors
    /// As those of [`Self::restore`].
    pub async fn go_back(&self, call: RestoreCall) -> Result<SessionReport, ApiError> {
        let assignment = call.assignment.clone();
        self.ask(&assignment, |reply| Message::Restore(Box::new(call), reply)).await
    }

    /// Empties the session: it goes on as a new one would, and what it was is a checkpoint. Cells that wait end with `Interrupted`. A call that
    /// names its operation is carried out once, however often it is sent.
    ///
    /// # Errors
    /// It is not here, cannot be stored, or its bootstrap code fails.
    pub async fn reset(&self, call: ResetCall) -> Result<SessionReport, ApiError> {
        let assignment = call.assignment.clone();
        self.ask(&assignment, |reply| Message::Reset(Box::new(call), reply)).await
    }

    /// Moves the session to the current engine by running its recorded cells again; with `dry_run` only tells what would come of it.
    ///
    /// # Errors
    /// It is not here, cannot be stored, a cell of it awaits, or a cell cannot be run again at all.
    pub async fn migrate(&self, assignment: Assignment, dry_run: bool) -> Result<Migration, ApiError> {
        self.ask(&assignment, |reply| Message::Migrate(Box::new(assignment.clone()), dry_run, reply)).await
    }

    /// Ends the running cell with `Interrupted`, also one that awaits while the session sleeps. Does nothing when none runs.
    ///
    /// # Errors
    /// The session is not here, or cannot be woken.
    pub async fn interrupt(&self, assignment: Assignment) -> Result<(), ApiError> {
        self.admit(&assignment)?;
        if self.shared.registry.get(&assignment.uid).is_some_and(|handle| handle.control.interrupt()) {
            return Ok(());
        }
        self.ask(&assignment, |reply| Message::Interrupt(Box::new(assignment.clone()), reply)).await
    }

    /// Puts a session to sleep, if it is here under that epoch: it was placed elsewhere since. What the store does not take of it any more is lost, as it
    /// is for every process that was overtaken.
    ///
    /// # Errors
    /// It is not here, or not under that epoch, or is not any more: `SessionGone`.
    pub async fn leave(&self, assignment: Assignment) -> Result<(), ApiError> {
        let reported = self.shared.host.reports.get(&assignment.uid).filter(|report| report.epoch == assignment.epoch);
        let here = self.shared.registry.get(&assignment.uid).filter(|_| reported.is_some() && assignment.boot == self.shared.host.boot);
        let handle = here.ok_or_else(|| gone("this process does not have the session under this epoch"))?;
        let (reply, answer) = oneshot::channel();
        if !handle.send_waiting(Message::Hibernate(Box::new(assignment), reply)).await {
            return Err(gone("the session has just left"));
        }
        answer.await.map_err(|_| gone("the session has just left"))?.map(drop)
    }

    /// Drops the session without a commit. A session that is not here is forgotten already. Allowed while draining.
    ///
    /// # Errors
    /// Another epoch runs here.
    pub async fn forget(&self, assignment: Assignment) -> Result<(), ApiError> {
        let Some(handle) = self.shared.registry.get(&assignment.uid) else {
            self.shared.host.cache.take(&assignment.uid);
            return Ok(());
        };
        handle.control.interrupt();
        let (reply, answer) = oneshot::channel();
        if !handle.send_waiting(Message::Forget(Box::new(assignment), reply)).await {
            return Ok(());
        }
        match answer.await {
            Ok(Err(error)) if error.code != ErrorCode::SessionGone => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// How a session is at this moment, as the report tells it.
    ///
    /// # Errors
    /// This process does not have it under that epoch.
    pub fn session(&self, call: &SessionCall) -> Result<SessionReport, ApiError> {
        let host = &self.shared.host;
        let report = host.reports.get(&call.uid).filter(|report| report.epoch == call.epoch && host.boot == call.boot);
        report.ok_or_else(|| gone("this process does not have the session under this epoch"))
    }

    /// Reports that a session waits for a slot.
    ///
    /// # Errors
    /// It is of another namespace.
    pub fn waiting(&self, call: &WaitingCall) -> Result<(), ApiError> {
        let host = &self.shared.host;
        if call.namespace != host.namespace {
            return Err(ApiError::new(ErrorCode::Forbidden, format!("this pod runs sessions of namespace {} only", host.namespace)));
        }
        host.reports.waiting(&call.uid);
        Ok(())
    }
}
