//! An assignment that is only claimed so far: its gateway writes it into status while the session is restored here and its cell runs.
//!
//! Until it is [confirmed](Claim::confirm), nothing is answered, no call leaves and nobody is told of the session. A claim that is
//! [withdrawn](Claim::withdraw) never was: its instance is dropped. Which of the two comes first stands.

use std::sync::Arc;

use dormouse_protocol::eval::{EvalRequest, EvalResult, Served, Woke};
use dormouse_protocol::kernel::{Assignment, EvalCall, SessionReport};
use dormouse_protocol::{ApiError, ErrorCode};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::pod::{Pod, Running, ended};
use crate::session::{EvalJob, Message, Waiter, gone};

/// The longest idempotency key, in bytes.
const IDEMPOTENCY_KEY_BYTES_MAX: usize = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Open,
    Confirmed,
    Withdrawn,
}

/// A claim. Clones are the same claim. One that everybody has dropped without a word stays open for nobody.
#[derive(Debug, Clone)]
pub struct Claim {
    verdict: Arc<watch::Sender<Verdict>>,
}

impl Default for Claim {
    fn default() -> Self {
        Self { verdict: Arc::new(watch::Sender::new(Verdict::Open)) }
    }
}

impl Claim {
    /// Status has the assignment.
    pub fn confirm(&self) {
        self.decide(Verdict::Confirmed);
    }

    /// Status does not have it, or whoever would say so is gone.
    pub fn withdraw(&self) {
        self.decide(Verdict::Withdrawn);
    }

    fn decide(&self, verdict: Verdict) {
        self.verdict.send_if_modified(|now| {
            let open = *now == Verdict::Open;
            if open {
                *now = verdict;
            }
            open
        });
    }

    /// Waits for the verdict; whether it is confirmed.
    pub async fn confirmed(&self) -> bool {
        let mut verdict = self.verdict.subscribe();
        // The sender is `self`'s: it cannot be gone.
        verdict.wait_for(|verdict| *verdict != Verdict::Open).await.is_ok_and(|verdict| *verdict == Verdict::Confirmed)
    }

    /// Whether it was confirmed.
    #[must_use]
    pub fn is_confirmed(&self) -> bool {
        *self.verdict.borrow() == Verdict::Confirmed
    }

    /// Whether it was withdrawn.
    #[must_use]
    pub fn is_withdrawn(&self) -> bool {
        *self.verdict.borrow() == Verdict::Withdrawn
    }
}

impl Pod {
    /// The same under an assignment that may be only claimed so far: there is no answer before that is confirmed.
    ///
    /// # Errors
    /// As for [`Self::eval`]; and `SessionGone` when the claim is withdrawn.
    pub async fn eval_claimed(&self, call: EvalCall, claim: Option<Claim>) -> Result<EvalResult, ApiError> {
        let (reply, answer) = oneshot::channel();
        self.send_eval(call, Waiter { reply, stream: None }, claim.as_ref()).await?;
        let result = answer.await.map_err(|_| ended())??;
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
        let report = answer.await.map_err(|_| ended())??;
        confirmed(claim).await?;
        Ok(report)
    }

    async fn send_eval(&self, call: EvalCall, waiter: Waiter, claim: Option<&Claim>) -> Result<(), ApiError> {
        key_fits(&call.eval)?;
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
        };
        self.send_claimed(&assignment, Message::Eval(Box::new(job)), claim).await
    }

    /// Puts a message into the session's mailbox at once when the claim starts the session here, else when it is confirmed.
    async fn send_claimed(&self, assignment: &Assignment, message: Message, claim: Option<&Claim>) -> Result<(), ApiError> {
        let Some(claim) = claim.filter(|claim| !claim.is_confirmed()) else { return self.send(assignment, message) };
        self.admit(assignment)?;
        let Some(handle) = self.shared.registry.start_claimed(&self.shared, assignment, claim.clone()) else {
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
pub(crate) fn key_fits(eval: &EvalRequest) -> Result<(), ApiError> {
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

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn the_first_word_stands() {
        let (one, two) = (Claim::default(), Claim::default());
        assert_eq!(one.confirmed().now_or_never(), None);
        one.confirm();
        one.withdraw();
        two.withdraw();
        two.confirm();
        assert_eq!((one.confirmed().now_or_never(), two.confirmed().now_or_never()), (Some(true), Some(false)));
        assert!(two.is_withdrawn() && !one.is_withdrawn());
    }
}
