//! Where sessions run: threads for what is short, and threads of the lowest priority for what has turned out long.
//!
//! Every session is a task of [`Lanes`]. A task begins in the trial lane, whose threads weigh a tenth of a quick one's; who has used little for a while is
//! [quick](Lane::Quick). One that has used more than its share ([`meter`]) goes on in the slow lane from its next yield on; the system gives a slow
//! thread the processor only while no other one wants it, so a neighbour's short cell waits for nobody's loop. A task that does not even yield keeps
//! its thread: [`watch`] notices, lowers that very thread, stops it in the middle of its code and puts another in its place. The [held] thread then
//! waits its turn in the slow lane like any task, so that no more slow threads want the processor at a time than there are cores: the system keeps a
//! prompt thread waiting for a tick now and then when more do. A lowered thread can never be raised again without privileges, so it ends with what it runs.
//!
//! What counts is a session's code: the host's own work for it is [spared].
//!
//! Priorities count among the threads of one container; between containers the kernel shares by their weights. This module must not know what
//! its tasks are.

mod held;
mod meter;
mod queue;
mod spared;
mod watch;

use std::{
    future::Future,
    io,
    sync::Arc,
    thread::{self, Thread},
    time::{Duration, Instant},
};

use async_task::{Runnable, ScheduleInfo, WithInfo};
use dormouse_engine::{cpu_clock::CpuTimer, metronome::Metronome, preempt::OnThisThread, thread_priority};
use futures::future::Either;

use meter::Meter;
use queue::{Job, Queue};
pub use spared::sparing;
use watch::{Seat, Watch};

/// Quick threads for each core: while one runs the first slice of a loop, the system can take the core from it for another.
const QUICK_THREADS_PER_CORE: usize = 2;

/// Threads that run sessions, priorities included. Dropping it ends them; tasks that still wait are dropped.
pub struct Lanes {
    /// `None`: tasks run where they are awaited.
    threads: Option<Threads>,
}

struct Threads {
    shared: Arc<Shared>,
    watcher: Thread,
}

/// How much nicer the threads of the trial lane are: a tenth of a quick thread's weight.
const TRIAL_NICER: u8 = 10;

/// A lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lane {
    Quick,
    Trial,
    Slow,
}

impl Lane {
    /// Processor time that one poll may use before its thread gets a replacement. Code that yields does so after half a millisecond.
    fn poll_max(self) -> Duration {
        match self {
            Self::Quick | Self::Trial => Duration::from_micros(700),
            Self::Slow => held::SLICE,
        }
    }
}

/// What the threads share.
struct Shared {
    runtime: tokio::runtime::Handle,
    quick: Queue,
    trial: Queue,
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
            trial: Queue::default(),
            slow: Queue::default(),
            watch: Watch::default(),
        });
        let watched = Arc::clone(&shared);
        let watcher = thread::Builder::new().name("lanes-watch".to_owned()).spawn(move || watch::run(&watched))?;
        let watcher = watcher.thread().clone();
        shared.watch.set_watcher(watcher.clone());
        // From here on an error ends the threads that were begun.
        let threads = Threads { shared, watcher };
        let cores = thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..cores * QUICK_THREADS_PER_CORE {
            threads.shared.start_thread(Lane::Quick)?;
        }
        for _ in 0..cores {
            threads.shared.start_thread(Lane::Trial)?;
            threads.shared.start_thread(Lane::Slow)?;
        }
        Ok(Self { threads: Some(threads) })
    }

    /// No threads: every task runs where it is awaited, so a run on one thread is the same every time.
    #[must_use]
    pub fn inline() -> Self {
        Self { threads: None }
    }

    /// Runs a future in the lanes; a panic in it is the answer's. Dropping the answer drops the future. `None` when the lanes end first.
    pub fn run<F>(&self, future: F) -> impl Future<Output = Option<F::Output>> + Send + use<F>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let Some(threads) = &self.threads else { return Either::Left(async move { Some(future.await) }) };
        let meter = Arc::new(Meter::new(Instant::now()));
        let shared = Arc::clone(&threads.shared);
        let schedule = move |runnable: Runnable, _: ScheduleInfo| {
            shared.queue(meter.lane(Instant::now())).push(Job::Task(runnable, Arc::clone(&meter)));
        };
        let (runnable, task) = async_task::Builder::new().propagate_panic(true).spawn(|()| future, WithInfo(schedule));
        runnable.schedule();
        Either::Right(task.fallible())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.quick.close();
        self.shared.trial.close();
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
            Lane::Trial => &self.trial,
            Lane::Slow => &self.slow,
        }
    }

    fn start_thread(self: &Arc<Self>, lane: Lane) -> io::Result<()> {
        let name = match lane {
            Lane::Quick => "lane-quick",
            Lane::Trial => "lane-trial",
            Lane::Slow => "lane-slow",
        };
        let shared = Arc::clone(self);
        thread::Builder::new().name(name.to_owned()).spawn(move || serve(&shared, lane)).map(drop)
    }
}

/// A thread of a lane: runs tasks until the lanes end or another thread has taken its place.
fn serve(shared: &Shared, lane: Lane) {
    let _context = shared.runtime.enter();
    let here = OnThisThread::new();
    let seat = Arc::new(Seat::new(Arc::clone(here.shared()), lane));
    match lane {
        Lane::Quick => thread_priority::prompt(0),
        Lane::Trial => thread_priority::prompt(TRIAL_NICER),
        Lane::Slow => thread_priority::lower(here.shared().thread()),
    };
    let metronome = if lane == Lane::Quick { None } else { Metronome::of(here.shared().thread()) };
    let beats = |on: bool| metronome.iter().for_each(|metronome| metronome.set(on));
    shared.watch.sit(&seat);
    while let Some(job) = shared.queue(lane).pop() {
        match job {
            Job::Task(task, meter) => {
                let (now, ran) = (Instant::now(), CpuTimer::of(here.shared().thread()));
                meter.begin(now, ran);
                shared.watch.begin(&seat, now, ran);
                beats(true);
                here.running(|| spared::counting(&meter, &seat, || task.run()));
                beats(false);
                meter.end(Instant::now());
                if seat.end() {
                    break;
                }
            }
            Job::Held(thread) => {
                if let Some(thread) = thread.run() {
                    shared.slow.push(Job::Held(thread));
                }
            }
        }
    }
    shared.watch.leave(&seat);
}

#[cfg(test)]
mod tests;
