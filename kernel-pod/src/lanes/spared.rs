//! Work of the host's own in the polls of a task. It is short and comes to its end, unlike a session's code, so up to [`SPARED_MAX`] of it at a time
//! is not held against the task.
//!
//! A commit takes longer than a small cell, and three times as long when the caches have become others' since the last one; so does a restore. Counted,
//! they put a session on trial that runs a small cell now and then.

use std::{
    cell::RefCell,
    future::{Future, poll_fn},
    sync::Arc,
    time::Duration,
};

use dormouse_engine::{cpu_clock::CpuTimer, thread_priority::ThreadId};

use super::{meter::Meter, watch::Seat};

/// Processor time: twice what committing a small cell takes on a slow machine. Large commits are compressed elsewhere.
pub(super) const SPARED_MAX: Duration = Duration::from_millis(2);

thread_local! {
    /// Whom the poll counts for that runs on this thread.
    static POLL: RefCell<Option<(Arc<Meter>, Arc<Seat>)>> = const { RefCell::new(None) };
}

/// Runs a poll that counts for `meter` and `seat`.
pub(super) fn counting<T>(meter: &Arc<Meter>, seat: &Arc<Seat>, poll: impl FnOnce() -> T) -> T {
    POLL.set(Some((Arc::clone(meter), Arc::clone(seat))));
    let polled = poll();
    POLL.set(None);
    polled
}

/// Does work of the host's own. Outside of the lanes it is just done. The work is on the heap, so that a session's task, which lives as long as the
/// session, has no room for it.
pub fn sparing<F: Future>(work: F) -> impl Future<Output = F::Output> {
    let mut work = Box::pin(work);
    poll_fn(move |context| spared(|| work.as_mut().poll(context)))
}

fn spared<T>(work: impl FnOnce() -> T) -> T {
    // Taken, so that work inside this is not spared twice.
    let Some((meter, seat)) = POLL.take() else { return work() };
    let ran = CpuTimer::of(ThreadId::current());
    // Before it is known how much it is, so that the thread keeps its place meanwhile.
    seat.grant(SPARED_MAX);
    let done = work();
    let used = ran.ran().min(SPARED_MAX);
    seat.give_back(SPARED_MAX - used);
    meter.spare(used);
    POLL.set(Some((meter, seat)));
    done
}
