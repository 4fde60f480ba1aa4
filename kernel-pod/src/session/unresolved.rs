//! What is still to be stored of a session that has no instance: a commit of which nobody knows whether it is stored, or answers that were ahead of
//! storage. The commit is sent again until its outcome is known; nothing else is done with the session before. And what another process has stored
//! meanwhile, which may await something, as may what is stored once its outcome is known.

use std::sync::Arc;
use std::time::Duration;

use dormouse_protocol::ApiError;
use tokio::time::Instant;

use super::Fault;
use super::actor::Actor;
use super::commit::Outcome;
use crate::dedicated::Only;
use crate::metrics::CommitOutcome;

/// How long a request waits for the outcome.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long one try takes that no request waits for.
const TRY_TIMEOUT: Duration = Duration::from_secs(1);

/// Wait before the first try that nobody asks for; doubled each time.
const TRY_WAIT_FIRST: Duration = Duration::from_secs(1);

/// The longest wait between two of them.
const TRY_WAIT_MAX: Duration = Duration::from_secs(60);

/// What became of a commit that was in doubt.
enum Resolution {
    /// Nothing is in doubt any more.
    Settled,
    /// It still is.
    Unknown(ApiError),
    /// The session is not this process's to go on with.
    Lost(Fault),
}

/// When it is tried again without anybody asking.
#[derive(Debug)]
pub(super) struct Tries {
    next: Instant,
    wait: Duration,
}

impl Tries {
    fn begin() -> Self {
        Self { next: Instant::now() + TRY_WAIT_FIRST, wait: TRY_WAIT_FIRST }
    }

    fn later(&mut self) {
        self.wait = (self.wait * 2).min(TRY_WAIT_MAX);
        self.next = Instant::now() + self.wait;
    }
}

impl Actor {
    /// When to try again, if nobody asks before.
    pub(super) fn resolve_at(&mut self) -> Option<Instant> {
        if !self.owes() {
            self.tries = None;
            return None;
        }
        Some(self.tries.get_or_insert_with(Tries::begin).next)
    }

    /// Keeps a pod that is this session's alone from ending as long as something is owed.
    pub(super) fn hold_pod(&mut self) {
        self.hold = self.host.only.as_ref().filter(|_| self.owes()).map(Only::hold);
    }

    fn owes(&self) -> bool {
        self.is_in_doubt() || self.owes_storage() || self.owes_a_look()
    }

    /// Whether there is a commit that may be stored or not.
    fn is_in_doubt(&self) -> bool {
        self.phase.owed().is_some_and(|owed| owed.commit.is_some())
    }

    /// Whether another process has stored what nobody has read yet.
    fn owes_a_look(&self) -> bool {
        self.phase.owed().is_some_and(|owed| owed.unread)
    }

    /// Learns the outcome of the commit that is on its way, if there is one.
    pub(super) async fn resolve(&mut self) -> Result<(), Fault> {
        match self.resolve_within(RESOLVE_TIMEOUT).await {
            Resolution::Settled => Ok(()),
            Resolution::Unknown(error) => Err(Fault::Failed(error)),
            Resolution::Lost(fault) => Err(fault),
        }
    }

    /// Stores what is still to be stored, without anybody waiting for it.
    pub(super) async fn try_resolve(&mut self) {
        if let Some(tries) = &mut self.tries {
            tries.later();
        }
        if let Resolution::Lost(fault) = self.resolve_within(TRY_TIMEOUT).await {
            self.on_result(Err(fault));
        }
        // What cannot be done now is tried again.
        let (storage, look) = (self.owes_storage(), self.owes_a_look());
        if !self.is_in_doubt() && (storage || look) {
            let stored = match self.ensure_live().await {
                Ok(_) if storage => self.commit().await.map(drop),
                live => live.map(drop),
            };
            self.on_result(stored);
        }
    }

    async fn resolve_within(&mut self, limit: Duration) -> Resolution {
        let Some(mut attempt) = self.phase.owed_mut().and_then(|owed| owed.commit.take()) else { return Resolution::Settled };
        let (host, began) = (Arc::clone(&self.host), Instant::now());
        match attempt.drive(&host.storage, limit).await {
            Outcome::Committed(_) => {
                host.metrics.commit(CommitOutcome::Committed, began.elapsed());
                self.phase.forgive();
            }
            Outcome::Unsent(error) | Outcome::Unknown(error) => {
                if let Some(owed) = self.phase.owed_mut() {
                    owed.commit = Some(attempt);
                }
                return Resolution::Unknown(error);
            }
            Outcome::Lost(_, Fault::Superseded | Fault::Unstored(_) | Fault::Ended(_)) => {}
            Outcome::Lost(_, fault) => return Resolution::Lost(fault),
        }
        // Whatever is stored may await something, a call that has not left yet or a timer: somebody has to read it, also where this was asked for to put
        // the session to sleep.
        if let Some(owed) = self.phase.owed_mut() {
            owed.unread = true;
        }
        Resolution::Settled
    }
}
