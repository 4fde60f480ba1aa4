//! Requests that were sent before: a client that heard nothing, or an older attempt that waited elsewhere.

use std::collections::VecDeque;

use dormouse_protocol::{ApiError, ErrorCode};

use super::actor::Actor;

impl Actor {
    /// Answers what has an answer already, refuses what had one that is not kept any more, and lets a retry of the running cell wait for it.
    pub(super) fn answer_known(&mut self) {
        let Some(live) = &self.live else { return };
        let (mut rest, last) = (VecDeque::new(), live.state.last.as_ref());
        for job in std::mem::take(&mut self.queue) {
            let key = job.request.idempotency_key.as_ref();
            match (&mut self.current, last) {
                (_, Some(last)) if key.is_some() && last.key.as_ref() == key => job.answer(Ok(last.result.clone())),
                (Some(current), _) if key.is_some() && current.request.idempotency_key.as_ref() == key => {
                    current.waiters.extend(job.waiters);
                }
                _ if key.is_some_and(|key| live.state.has_answered(key)) => job.answer(Err(answered())),
                _ => rest.push_back(job),
            }
        }
        self.queue = rest;
    }
}

fn answered() -> ApiError {
    let message = "this idempotency key was answered before, and only the last answer of a session is kept; nothing was run again. \
                   Use a new key for a new cell";
    ApiError::new(ErrorCode::Conflict, message)
}
