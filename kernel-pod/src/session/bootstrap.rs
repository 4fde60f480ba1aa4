//! The spec's code in a new session. It runs as a cell does, so a session is never deaf meanwhile; cells and what needs the session's state wait
//! for its end.

use std::time::Duration;

use dormouse_crds::session::KernelSessionSpec;
use dormouse_protocol::eval::EvalRequest;
use dormouse_protocol::{ApiError, ErrorCode};
use tokio::time::Instant;

use super::Fault;
use super::actor::Actor;
use super::phase::{Failure, Moved, Until};
use super::run::BOOTSTRAP_CELL;

/// How long it may take with all that it awaits. Its running code has the budget of a cell beside that.
const BOOTSTRAP_TIMEOUT: Duration = Duration::from_secs(120);

/// Times that the code of one spec is begun. It is noted in storage before, so it is known although the process ends with it.
const BOOTSTRAP_BEGUN_MAX: u32 = 5;

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
        if code.as_deref() == Some("") && self.assignment.spec.bootstrap.as_ref().is_some_and(|it| it.config_map_ref.is_some()) {
            let message = "the code of spec.bootstrap.configMapRef did not come with the request: send it again";
            return Err(Fault::Failed(ApiError::new(ErrorCode::Conflict, message).again()));
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
            self.count_bootstrap().await?;
            self.begin(EvalRequest { code, ..EvalRequest::default() }, BOOTSTRAP_CELL).await?;
        }
        Ok(())
    }

    /// Stores that the code is about to begin once more; refuses where that was often enough.
    async fn count_bootstrap(&mut self) -> Result<(), Fault> {
        let generation = self.assignment.generation;
        let Some(live) = self.phase.live_mut() else { return Ok(()) };
        let begun = live.state.bootstrap_begun.filter(|(of, _)| *of == generation).map_or(0, |(_, begun)| begun);
        if begun >= BOOTSTRAP_BEGUN_MAX {
            let message = format!(
                "spec.bootstrap.code was begun {begun} times and never came to its end, which may have ended the processes that ran it: change it"
            );
            return Err(Fault::BadBootstrap(ApiError::new(ErrorCode::Internal, message)));
        }
        live.state.bootstrap_begun = Some((generation, begun + 1));
        live.moved = Moved::Ran;
        self.commit().await?;
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

/// Takes the code of a ConfigMap from the spec in the record, where an assignment comes without it: it was read at the first start.
pub(super) fn recall_code(wanted: &mut KernelSessionSpec, known: &KernelSessionSpec) {
    if let (Some(wanted), Some(known)) = (&mut wanted.bootstrap, &known.bootstrap)
        && wanted.code.is_empty()
        && wanted.config_map_ref.is_some()
        && wanted.config_map_ref == known.config_map_ref
    {
        wanted.code.clone_from(&known.code);
    }
}
