//! What is ready to run, first come first served.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, Thread},
};

use async_task::Runnable;

use super::{held::Held, meter::Meter};

/// What a thread of a lane takes from its queue.
pub(super) enum Job {
    /// A task that is ready.
    Task(Runnable, Arc<Meter>),
    /// A thread that was stopped in the middle of a poll.
    Held(Held),
}

/// What is ready in one lane, each task and thread once: no more than there are sessions.
#[derive(Default)]
pub(super) struct Queue(Mutex<Ready>);

#[derive(Default)]
struct Ready {
    jobs: VecDeque<Job>,
    /// Threads that wait for one, each once. The last is the first to go on: what it needs is in the caches.
    parked: Vec<Thread>,
    closed: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Ready> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a job last. A closed queue drops it, and with it the future.
    pub(super) fn push(&self, job: Job) {
        let mut ready = self.lock();
        if ready.closed {
            // Not under the lock: what the future drops may wake others.
            drop(ready);
            return drop(job);
        }
        ready.jobs.push_back(job);
        let parked = ready.parked.pop();
        drop(ready);
        parked.iter().for_each(Thread::unpark);
    }

    /// The first job; waits for one. `None` when the queue is closed.
    pub(super) fn pop(&self) -> Option<Job> {
        let mut ready = self.lock();
        loop {
            if ready.closed {
                return None;
            }
            if let Some(job) = ready.jobs.pop_front() {
                return Some(job);
            }
            let this = thread::current();
            ready.parked.push(this.clone());
            drop(ready);
            thread::park();
            ready = self.lock();
            // Nobody has woken it when it is still there.
            ready.parked.retain(|parked| parked.id() != this.id());
        }
    }

    /// Lets every thread go and drops what waits.
    pub(super) fn close(&self) {
        let mut ready = self.lock();
        ready.closed = true;
        let (jobs, parked) = (std::mem::take(&mut ready.jobs), std::mem::take(&mut ready.parked));
        drop(ready);
        parked.iter().for_each(Thread::unpark);
        drop(jobs);
    }
}
