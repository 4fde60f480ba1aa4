//! Where sessions run: threads for what is short, and threads of the lowest priority for what has turned out long.
//!
//! Every session is a task of [`Lanes`]. A task begins in the quick lane. One that has used more than its share ([`meter`]) goes on in the slow
//! lane from its next yield on; the system gives a slow thread the processor only while no quick one wants it, so a neighbour's short cell
//! waits for nobody's loop. A task that does not even yield keeps its thread: [`watch`] notices, lowers that very thread and puts
//! another in its place. A lowered thread can never be raised again without privileges, so it ends with what it runs.
//!
//! Priorities count among the threads of one container; between containers the kernel shares by their weights. This module must not know what
//! its tasks are.

mod meter;
mod queue;
mod watch;

use std::{
    future::Future,
    io,
    sync::Arc,
    thread::{self, Thread},
    time::{Duration, Instant},
};

use async_task::{Runnable, ScheduleInfo, WithInfo};
use dormouse_engine::thread_priority;

use meter::Meter;
use queue::{Job, Queue};
use watch::{Seat, Watch};

/// Quick threads for each core: while one runs the first slice of a loop, the system can take the core from it for another.
const QUICK_THREADS_PER_CORE: usize = 2;

/// Threads that run sessions, priorities included. Dropping it ends them; tasks that still wait are dropped.
pub struct Lanes {
    shared: Arc<Shared>,
    watcher: Thread,
}

/// A lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lane {
    Quick,
    Slow,
}

impl Lane {
    /// How long one poll may last before its thread gets a replacement. Code that yields does so after half a millisecond.
    fn poll_max(self) -> Duration {
        match self {
            Self::Quick => Duration::from_micros(700),
            Self::Slow => Duration::from_millis(10),
        }
    }
}

/// What the threads share.
struct Shared {
    runtime: tokio::runtime::Handle,
    quick: Queue,
    slow: Queue,
    watch: Watch,
}

impl Lanes {
    /// Lanes with threads of each priority for each core. Tasks may use what the current tokio runtime offers, so it must be called inside one.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub fn start() -> io::Result<Self> {
        let shared = Arc::new(Shared {
            runtime: tokio::runtime::Handle::current(),
            quick: Queue::default(),
            slow: Queue::default(),
            watch: Watch::default(),
        });
        let watched = Arc::clone(&shared);
        let watcher = thread::Builder::new().name("lanes-watch".to_owned()).spawn(move || watch::run(&watched))?;
        let watcher = watcher.thread().clone();
        shared.watch.set_watcher(watcher.clone());
        // From here on an error ends the threads that were begun.
        let lanes = Self { shared, watcher };
        let cores = thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..cores * QUICK_THREADS_PER_CORE {
            lanes.shared.start_thread(Lane::Quick)?;
        }
        for _ in 0..cores {
            lanes.shared.start_thread(Lane::Slow)?;
        }
        Ok(lanes)
    }

    /// Runs a future in the lanes; a panic in it is the answer's. Dropping the answer drops the future. `None` when the lanes end first.
    pub fn run<F>(&self, future: F) -> impl Future<Output = Option<F::Output>> + Send + use<F>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let meter = Arc::new(Meter::default());
        let shared = Arc::clone(&self.shared);
        let schedule = move |runnable: Runnable, _: ScheduleInfo| {
            let lane = if meter.is_over(Instant::now()) { Lane::Slow } else { Lane::Quick };
            shared.queue(lane).push(Job { runnable, meter: Arc::clone(&meter) });
        };
        let (runnable, task) = async_task::Builder::new().propagate_panic(true).spawn(|()| future, WithInfo(schedule));
        runnable.schedule();
        task.fallible()
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        self.shared.quick.close();
        self.shared.slow.close();
        self.shared.watch.close();
        self.watcher.unpark();
    }
}

impl std::fmt::Debug for Lanes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lanes").finish_non_exhaustive()
    }
}

impl Shared {
    fn queue(&self, lane: Lane) -> &Queue {
        match lane {
            Lane::Quick => &self.quick,
            Lane::Slow => &self.slow,
        }
    }

    fn start_thread(self: &Arc<Self>, lane: Lane) -> io::Result<()> {
        let name = match lane {
            Lane::Quick => "lane-quick",
            Lane::Slow => "lane-slow",
        };
        let shared = Arc::clone(self);
        thread::Builder::new().name(name.to_owned()).spawn(move || serve(&shared, lane)).map(drop)
    }
}

/// A thread of a lane: runs tasks until the lanes end or another thread has taken its place.
fn serve(shared: &Shared, lane: Lane) {
    let _context = shared.runtime.enter();
    let seat = Arc::new(Seat::of_this_thread(lane));
    match lane {
        Lane::Quick => thread_priority::prompt(),
        Lane::Slow => thread_priority::lower(seat.thread()),
    };
    shared.watch.sit(&seat);
    while let Some(Job { runnable, meter }) = shared.queue(lane).pop() {
        let now = Instant::now();
        meter.begin(now);
        shared.watch.begin(&seat, now);
        runnable.run();
        meter.end(Instant::now());
        if seat.end() {
            break;
        }
    }
    shared.watch.leave(&seat);
}

#[cfg(test)]
mod tests;
