//! The spec's code in a new session. It runs as a cell does, so a session is never deaf meanwhile; cells and what needs the session's state wait
//! for its end.

use std::time::Duration;

use dormouse_protocol::eval::EvalRequest;
use dormouse_protocol::{ApiError, ErrorCode};
use tokio::time::Instant;

use super::Fault;
use super::actor::Actor;
use super::phase::{Failure, Until};
use super::run::BOOTSTRAP_CELL;

/// How long it may take with all that it awaits. Its running code has the budget of a cell beside that.
const BOOTSTRAP_TIMEOUT: Duration = Duration::from_secs(120);

impl Actor {
    /// Whether the code has not come to its end yet.
    pub(super) fn is_bootstrapping(&self) -> bool {
        self.phase.live().is_some_and(|live| !live.state.bootstrapped)
    }

    /// Fails where the code of this very spec has ended in a way that would come again.
    pub(super) fn refuse_bad_bootstrap(&self) -> Result<(), Fault> {
        match self.phase.failure() {
            Some(Failure { error, until: Until::Respec }) => Err(Fault::BadBootstrap(error.clone())),
            _ => Ok(()),
        }
    }

    /// Begins the code, unless it has run or runs.
    pub(super) async fn bootstrap(&mut self) -> Result<(), Fault> {
        let code = self.assignment.spec.bootstrap.as_ref().map(|bootstrap| bootstrap.code.clone());
        let Some(live) = self.phase.live_mut() else { return Ok(()) };
        if live.state.bootstrapped {
            return Ok(());
        }
        let Some(code) = code.filter(|code| !code.trim().is_empty()) else {
            live.state.running = None;
            live.state.bootstrapped = true;
            return Ok(());
        };
        // Of another spec's code nothing goes on.
        if live.state.running.as_ref().is_some_and(|running| running.request.code != code) {
            live.state.running = None;
            live.state.pending.clear();
        }
        if live.state.running.is_none() {
            self.begin(EvalRequest { code, ..EvalRequest::default() }, BOOTSTRAP_CELL).await?;
        }
        Ok(())
    }

    /// When it has taken as long as it may.
    pub(super) fn bootstrap_deadline(&self) -> Option<Instant> {
        let live = self.phase.live().filter(|live| !live.state.bootstrapped)?;
        let began_ms = live.state.running.as_ref()?.started_ms;
        let passed_ms = u64::try_from(live.clock.now_ms().saturating_sub(began_ms)).unwrap_or(0);
        Some(Instant::now() + BOOTSTRAP_TIMEOUT.saturating_sub(Duration::from_millis(passed_ms)))
    }

    /// Ends it, because it has taken too long.
    pub(super) fn end_bootstrap(&mut self) {
        let seconds = BOOTSTRAP_TIMEOUT.as_secs();
        let message =
            format!("spec.bootstrap.code did not come to its end within {seconds} s, with what it awaits: do less in it, or in cells");
        self.on_result(Err(Fault::BadBootstrap(ApiError::new(ErrorCode::TimeoutError, message))));
    }
}
