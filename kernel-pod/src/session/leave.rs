//! The end of a session's task: what it says of the session, and to those who still wait.

use std::sync::Arc;

use dormouse_protocol::ApiError;
use tokio::sync::oneshot;

use super::actor::Actor;
use super::{Message, Reply, gone};

/// Why a session's task ends.
pub(super) enum Leave {
    /// Nothing of it is here any more.
    Gone(ApiError),
    /// It never was: nobody was told of it.
    Withdrawn(ApiError),
    /// The process stops; what it told last stays true.
    Drained(Option<oneshot::Sender<()>>),
    /// It was deleted.
    Forgotten(Reply<()>),
}

impl Actor {
    /// Ends the task: whoever still waits is answered, and what is told of the session is true from then on.
    pub(super) fn leave(mut self) {
        let uid = self.assignment.uid.clone();
        let error = match &self.leaving {
            Some(Leave::Gone(error) | Leave::Withdrawn(error)) => error.clone(),
            Some(Leave::Forgotten(_)) => gone("the session was deleted"),
            Some(Leave::Drained(_)) | None => gone("the pod is stopping"),
        };
        self.live = None;
        self.supervisor.ended(&uid, &self.handle);
        self.mailbox.close();
        while let Ok(message) = self.mailbox.try_recv() {
            self.turn_away(message, &error);
        }
        self.end_waiting(&error);
        match self.leaving.take() {
            Some(Leave::Drained(reply)) => drop(reply.map(|reply| reply.send(()))),
            // Another process may have the same epoch by right: to say that it is not here would be taken for that one's word.
            Some(Leave::Withdrawn(_)) => drop(self.host.cache.take(&uid)),
            Some(Leave::Forgotten(reply)) => {
                self.host.cache.take(&uid);
                self.host.reports.forgotten(&uid, self.assignment.epoch);
                let _ = reply.send(Ok(()));
            }
            Some(Leave::Gone(_)) | None => {
                self.host.cache.take(&uid);
                self.host.reports.forgotten(&uid, self.assignment.epoch);
            }
        }
    }

    /// Answers a message that came too late for this task. What it ends with says nothing of a later epoch: that begins anew.
    fn turn_away(&self, message: Message, error: &ApiError) {
        let stays = matches!(self.leaving, Some(Leave::Gone(_) | Leave::Withdrawn(_)));
        let later = message.assignment().filter(|assignment| stays && assignment.epoch > self.assignment.epoch).cloned();
        match later {
            Some(assignment) => Arc::clone(&self.supervisor).pass_on(&assignment, message),
            None => message.refuse(error.clone()),
        }
    }
}
