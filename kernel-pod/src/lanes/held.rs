//! A thread that was stopped in the middle of a poll, because its task does not yield.

use std::{sync::Arc, time::Duration};

use dormouse_engine::preempt::{Preemptible, State};

/// How long a held thread runs at a time: what others in the slow lane wait for it.
pub(super) const SLICE: Duration = Duration::from_millis(2);

/// When a thread that could not be stopped, because it was in code of the host, is asked again.
const AGAIN: Duration = Duration::from_micros(200);

/// A stopped thread. Dropping it lets the thread run on.
#[derive(Debug)]
pub(super) struct Held(Arc<Preemptible>);

impl Held {
    /// Of a thread that has stopped.
    pub(super) fn new(thread: Arc<Preemptible>) -> Self {
        Self(thread)
    }

    /// Lets the thread run for a slice while the calling one waits, so that one of the two runs at a time. `None` when its poll has ended.
    pub(super) fn run(self) -> Option<Self> {
        self.0.go_on();
        let mut state = self.0.wait_while(State::Running, SLICE);
        loop {
            state = match state {
                State::Away => return None,
                State::Stopped => return Some(self),
                State::Asked => self.0.wait_while(State::Asked, SLICE),
                State::Running => {
                    self.0.ask();
                    match self.0.wait_while(State::Asked, SLICE) {
                        State::Running => self.0.wait_while(State::Running, AGAIN),
                        state => state,
                    }
                }
            };
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.go_on();
    }
}
