//! Cells and wakes whose assignment may be only claimed so far.

use std::sync::Arc;

use dormouse_protocol::eval::{EvalRequest, EvalResult, Served, Woke};
use dormouse_protocol::kernel::{Assignment, EvalCall, SessionReport};
use dormouse_protocol::{ApiError, ErrorCode};
use dormouse_service::origin::Origin;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::{Pod, Running, task_ended};
use crate::claim::Claim;
use crate::session::{EvalJob, Message, Waiter, gone};

/// The longest idempotency key, in bytes.
const IDEMPOTENCY_KEY_BYTES_MAX: usize = 128;

impl Pod {
    /// The same under an assignment that may be only claimed so far: there is no answer before that is confirmed.
    ///
    /// # Errors
    /// As for [`Self::eval`]; and `SessionGone` when the claim is withdrawn.
    pub async fn eval_claimed(&self, call: EvalCall, claim: Option<Claim>) -> Result<EvalResult, ApiError> {
        let (reply, answer) = oneshot::channel();
        self.send_eval(call, Waiter { reply, stream: None }, claim.as_ref()).await?;
        let result = answer.await.map_err(|_| task_ended())??;
        confirmed(claim).await?;
        Ok(result)
    }

    /// Runs a cell whose events are wanted as they come; from when on its claim is confirmed, if it has one.
    ///
    /// # Errors
    /// The session is not here, or takes nothing more.
    pub async fn eval_streaming(&self, call: EvalCall, claim: Option<Claim>) -> Result<Running, ApiError> {
        let (reply, answer) = oneshot::channel();
        let (stream, events) = mpsc::unbounded_channel();
        self.send_eval(call, Waiter { reply, stream: Some(stream) }, claim.as_ref()).await?;
        confirmed(claim).await?;
        Ok(Running { events, answer })
    }

    /// The same under an assignment that may be only claimed so far: there is no answer before that is confirmed.
    ///
    /// # Errors
    /// As for [`Self::wake`]; and `SessionGone` when the claim is withdrawn.
    pub async fn wake_claimed(&self, assignment: Assignment, claim: Option<Claim>) -> Result<SessionReport, ApiError> {
        let (reply, answer) = oneshot::channel();
        self.send_claimed(&assignment, Message::Wake(Box::new(assignment.clone()), reply), claim.as_ref()).await?;
        let report = answer.await.map_err(|_| task_ended())??;
        confirmed(claim).await?;
        Ok(report)
    }

    async fn send_eval(&self, call: EvalCall, waiter: Waiter, claim: Option<&Claim>) -> Result<(), ApiError> {
        key_fits(&call.eval)?;
        self.shared.room(&call.assignment.uid).await?;
        let assignment = call.assignment.clone();
        let job = EvalJob {
            request: call.eval,
            assignment: call.assignment,
            waiters: vec![waiter],
            attempts: 0,
            woke: Woke::No,
            served: Served::default(),
            arrived: Instant::now(),
            kept: false,
            run: call.run,
            lost: call.lost,
            origin: Origin::current().or_id(&call.request_id),
        };
        self.send_claimed(&assignment, Message::Eval(Box::new(job)), claim).await
    }

    /// Puts a message into the session's mailbox at once when the claim starts the session here, else when it is confirmed.
    async fn send_claimed(&self, assignment: &Assignment, message: Message, claim: Option<&Claim>) -> Result<(), ApiError> {
        let Some(claim) = claim.filter(|claim| !claim.is_confirmed()) else { return self.send(assignment, message) };
        self.admit(assignment)?;
        let Some(handle) = self.start_claimed(assignment, claim.clone()) else {
            confirmed(Some(claim.clone())).await?;
            return self.send(assignment, message);
        };
        let (claim, control) = (claim.clone(), Arc::clone(&handle.control));
        tokio::spawn(async move {
            if !claim.confirmed().await {
                control.interrupt();
            }
        });
        handle.send(message).map_err(|_| gone("the session left this pod"))
    }
}

/// Refuses an idempotency key that is too long.
pub(super) fn key_fits(eval: &EvalRequest) -> Result<(), ApiError> {
    let key_bytes = eval.idempotency_key.as_ref().map_or(0, String::len);
    if key_bytes <= IDEMPOTENCY_KEY_BYTES_MAX {
        return Ok(());
    }
    let message = format!("idempotencyKey has {key_bytes} bytes; at most {IDEMPOTENCY_KEY_BYTES_MAX} are allowed");
    Err(ApiError::new(ErrorCode::InvalidRequest, message))
}

/// Waits until what is only claimed is confirmed.
async fn confirmed(claim: Option<Claim>) -> Result<(), ApiError> {
    match claim {
        Some(claim) if !claim.confirmed().await => Err(gone("the gateway that claimed the session for this pod has withdrawn")),
        _ => Ok(()),
    }
}
