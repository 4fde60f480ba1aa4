//! A commit of which nobody knows whether it is stored. It is sent again until that is known; nothing else is done with the session before.

use std::sync::Arc;
use std::time::Duration;

use dormouse_protocol::ApiError;
use tokio::time::Instant;

use super::Fault;
use super::actor::Actor;
use super::commit::{Attempt, Outcome};
use crate::metrics::CommitOutcome;

/// How long a request waits for the outcome.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long one try takes that no request waits for.
const TRY_TIMEOUT: Duration = Duration::from_secs(1);

/// Wait before the first try that nobody asks for; doubled each time.
const TRY_WAIT_FIRST: Duration = Duration::from_secs(1);

/// The longest wait between two of them.
const TRY_WAIT_MAX: Duration = Duration::from_secs(60);

/// The commit.
pub(super) struct Unresolved {
    attempt: Attempt,
    next_try: Instant,
    wait: Duration,
}

impl Unresolved {
    pub(super) fn new(attempt: Attempt) -> Self {
        Self { attempt, next_try: Instant::now() + TRY_WAIT_FIRST, wait: TRY_WAIT_FIRST }
    }
}

impl Actor {
    /// When to try again, if nobody asks before.
    pub(super) fn resolve_at(&self) -> Option<Instant> {
        self.unresolved.as_ref().map(|unresolved| unresolved.next_try)
    }

    /// Learns the outcome of the commit that is on its way, if there is one.
    pub(super) async fn resolve(&mut self) -> Result<(), Fault> {
        self.resolve_within(RESOLVE_TIMEOUT).await.map_err(Fault::Failed)?
    }

    /// The same, without anybody waiting for it.
    pub(super) async fn try_resolve(&mut self) {
        // What cannot be learned now is tried again.
        if let Ok(result) = self.resolve_within(TRY_TIMEOUT).await {
            self.on_result(result);
            self.tell();
        }
    }

    /// The outer error: it is still not known. The inner: the session is not this process's to go on with.
    async fn resolve_within(&mut self, patience: Duration) -> Result<Result<(), Fault>, ApiError> {
        let Some(mut unresolved) = self.unresolved.take() else { return Ok(Ok(())) };
        let (pod, began) = (Arc::clone(&self.pod), Instant::now());
        match unresolved.attempt.drive(&pod.storage, patience).await {
            Outcome::Committed(_) => {
                pod.metrics.commit(CommitOutcome::Committed, began.elapsed());
                self.failure = None;
                Ok(Ok(()))
            }
            Outcome::Unsent(error) | Outcome::Unknown(error) => {
                unresolved.wait = (unresolved.wait * 2).min(TRY_WAIT_MAX);
                unresolved.next_try = Instant::now() + unresolved.wait;
                self.unresolved = Some(unresolved);
                Err(error)
            }
            // Whatever is stored, the next wake reads it.
            Outcome::Lost(_, Fault::Superseded | Fault::Unstored(_) | Fault::Ended(_)) => Ok(Ok(())),
            Outcome::Lost(_, fault) => Ok(Err(fault)),
        }
    }
}
