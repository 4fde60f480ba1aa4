//! Requests that were sent before: a client that heard nothing, or an older attempt that waited elsewhere.

use std::collections::VecDeque;

use super::actor::Actor;
use super::ended;

impl Actor {
    /// Answers what has an answer already, refuses what had one that is not kept any more, and lets a retry of the running cell wait for it.
    pub(super) fn answer_known(&mut self) {
        let Some(live) = self.phase.live() else { return };
        let mut rest = VecDeque::new();
        for job in std::mem::take(&mut self.queue) {
            let Some(key) = job.request.idempotency_key.clone() else {
                rest.push_back(job);
                continue;
            };
            if let Some(current) = self.current.as_mut().filter(|current| current.request.idempotency_key.as_ref() == Some(&key)) {
                current.waiters.extend(job.waiters);
            } else if let Some(known) = live.state.ends.find(&key) {
                job.answer(ended::answer(&known, &key));
            } else {
                rest.push_back(job);
            }
        }
        self.queue = rest;
    }
}
