//! Runs, for whoever asks the pod: from the session's own process as they are, else from the store as they were last committed.

use std::sync::Arc;
use std::time::Duration;

use dormouse_protocol::broker::ToolAnswer;
use dormouse_protocol::kernel::{AnswerCall, CancelRunCall, DecidedCall, EvalCall, RunsCall};
use dormouse_protocol::run::{Run, RunList, WAIT_SECONDS_MAX};
use dormouse_protocol::{ApiError, ErrorCode};

use super::Pod;
use super::claimed::key_fits;
use crate::record::SessionState;
use crate::session::Message;
use crate::session::runs::{RunViews, views};

impl Pod {
    /// Accepts a cell as a run; answers once that is committed.
    ///
    /// # Errors
    /// The session is not here, cannot be stored, or has no room for it.
    pub async fn accept_run(&self, call: EvalCall) -> Result<Run, ApiError> {
        key_fits(&call.eval)?;
        self.shared.room(&call.assignment.uid).await?;
        let assignment = call.assignment.clone();
        self.ask(&assignment, |reply| Message::AcceptRun(Box::new(call), reply)).await
    }

    /// Lets a session ask again for a call that waits, because somebody has decided.
    ///
    /// # Errors
    /// The session is not here, or cannot be woken.
    pub async fn decided(&self, call: DecidedCall) -> Result<(), ApiError> {
        let assignment = call.assignment.clone();
        self.ask(&assignment, |reply| Message::Decided(Box::new(call), reply)).await
    }

    /// Delivers what a client has answered to a call that waits for one; returns when that is stored.
    ///
    /// # Errors
    /// `Conflict`: no such call waits. The session is not here, or cannot be woken or stored.
    pub async fn answer(&self, call: AnswerCall) -> Result<(), ApiError> {
        if matches!(call.answer, ToolAnswer::Parked { .. }) {
            return Err(ApiError::new(ErrorCode::InvalidRequest, "a client's answer is a value or an error"));
        }
        self.shared.room(&call.assignment.uid).await?;
        let assignment = call.assignment.clone();
        self.ask(&assignment, |reply| Message::Answer(Box::new(call), reply)).await
    }

    /// Ends a run with `Interrupted`; answers once that is committed. One that has ended stays as it is.
    ///
    /// # Errors
    /// The session is not here or cannot be stored; `RunNotFound`.
    pub async fn cancel_run(&self, call: CancelRunCall) -> Result<Run, ApiError> {
        let assignment = call.assignment.clone();
        self.admit(&assignment)?;
        let handle = self.start(&assignment);
        let _cancelling = handle.control.cancel(&call.run);
        self.ask(&assignment, |reply| Message::CancelRun(Box::new(call), reply)).await
    }

    /// The runs of a session, newest first. Of one that runs here, `call.wait_ms` is how long its end is waited for.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn runs(&self, call: &RunsCall) -> Result<RunList, ApiError> {
        let (mut own, mut control) = (None, None);
        if let Some(handle) = self.shared.registry.get(&call.session.uid) {
            let mut seen = handle.control.runs.subscribe();
            control = Some(Arc::clone(&handle.control));
            drop(handle);
            let wait = Duration::from_millis(call.wait_ms.min(WAIT_SECONDS_MAX * 1000));
            let ended = |views: &Option<Arc<RunViews>>| match (views, &call.run) {
                (Some(views), Some(id)) => views.runs.iter().all(|run| run.id != *id || run.state.is_end()),
                _ => true,
            };
            // The end of the time, and of the session's task, are no errors: the caller sees the run as it is.
            let _ = tokio::time::timeout(wait, seen.wait_for(ended)).await;
            own.clone_from(&seen.borrow());
        }
        let (_, stored) = self.stored(&call.session).await?;
        // Another process may have the session by now, and this one not know it.
        let version = stored.as_ref().map_or((0, 0), |stored| stored.head.version());
        if let Some(views) = own.filter(|views| views.version >= version) {
            let now = self.host().environment.clock.now().to_string();
            let alive = |run: &Run| match run.state.is_end() {
                true => run.clone(),
                false => {
                    let progress = control.as_ref().and_then(|control| control.progress_of(&run.id));
                    Run { heartbeat_at: Some(now.clone()), progress, ..run.clone() }
                }
            };
            return Ok(RunList { items: wanted(call, views.runs.iter()).map(alive).collect(), continue_token: None });
        }
        let Some(stored) = stored else { return Ok(RunList::default()) };
        let Ok(record) = SessionState::decode(&stored.head.state) else { return Ok(RunList::default()) };
        let views = views(&record, record.awaits_tool() || record.awaits_approval(), |_| true);
        Ok(RunList { items: wanted(call, views.iter()).cloned().collect(), continue_token: None })
    }
}

fn wanted<'a>(call: &'a RunsCall, runs: impl Iterator<Item = &'a Run>) -> impl Iterator<Item = &'a Run> {
    runs.filter(|run| call.run.as_ref().is_none_or(|id| run.id == *id))
}
