//! The end of a session's task: what it says of the session, and to those who still wait.

use std::sync::Arc;

use dormouse_protocol::ApiError;
use tokio::sync::oneshot;

use super::actor::Actor;
use super::phase::{Owed, Phase};
use super::{Reply, gone};
use crate::dedicated::Only;

/// Why a session's task ends.
pub(super) enum Leave {
    /// Nothing of it is here any more.
    Gone(ApiError),
    /// It never was: nobody was told of it.
    Withdrawn(ApiError),
    /// The process stops; what it told last stays true.
    Drained(oneshot::Sender<()>),
    /// It was deleted.
    Forgotten(Reply<()>),
}

impl Leave {
    /// What those are told who still wait.
    fn error(&self) -> ApiError {
        match self {
            Self::Gone(error) | Self::Withdrawn(error) => error.clone(),
            Self::Forgotten(_) => gone("the session was deleted"),
            Self::Drained(_) => gone("the pod is stopping"),
        }
    }
}

impl Actor {
    /// Lets the task end, with all that is not stored.
    pub(super) fn leave_as(&mut self, leave: Leave) {
        let error = leave.error();
        let owed = self.phase.leave(leave);
        if let Some(job) = owed.and_then(|owed| owed.setback.into_job()) {
            job.answer(Err(error));
        }
    }

    /// Ends the task: whoever still waits is answered, and what is told of the session is true from then on.
    pub(super) fn depart(mut self) {
        let Phase::Leaving(leave) = std::mem::replace(&mut self.phase, Phase::Asleep(Owed::default())) else { return };
        let (uid, error) = (self.assignment.uid.clone(), leave.error());
        self.supervisor.ended(&uid, &self.handle);
        self.mailbox.close();
        // What it ends with says nothing of a later epoch: that begins anew.
        let is_only_this_epochs = matches!(leave, Leave::Gone(_) | Leave::Withdrawn(_));
        // Another gateway may have placed the session here by right, and the operator given what it needs.
        let mut goes_on = matches!(leave, Leave::Withdrawn(_)) && self.host.only.as_ref().is_some_and(Only::has_grant);
        while let Ok(message) = self.mailbox.try_recv() {
            let later = message.assignment().filter(|assignment| is_only_this_epochs && assignment.epoch > self.assignment.epoch).cloned();
            match later {
                Some(assignment) => {
                    goes_on = true;
                    Arc::clone(&self.supervisor).pass_on(&assignment, message);
                }
                None => message.refuse(error.clone()),
            }
        }
        self.end_waiting(&error);
        let forget = || {
            self.host.cache.take(&uid);
            self.host.reports.forgotten(&uid, self.assignment.epoch);
        };
        match leave {
            Leave::Drained(reply) => drop(reply.send(())),
            // Another process may have the same epoch by right: to say that it is not here would be taken for that one's word.
            Leave::Withdrawn(_) => drop(self.host.cache.take(&uid)),
            Leave::Gone(_) => forget(),
            Leave::Forgotten(reply) => {
                forget();
                let _ = reply.send(Ok(()));
            }
        }
        if let Some(only) = self.host.only.as_ref().filter(|_| !goes_on) {
            only.leave();
        }
    }
}
