//! Finds threads whose task neither ends nor yields, and puts others in their place.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, Thread},
    time::{Duration, Instant},
};

use dormouse_engine::{
    cpu_clock::CpuTimer,
    metronome::Metronome,
    preempt::{Preemptible, State},
    thread_priority,
};

use super::{Lane, Shared, held::Held, queue::Job};

/// How often the threads are looked at while one of them runs something; and whenever one is due to be replaced.
const TICK: Duration = Duration::from_micros(500);

/// Between two looks.
const LOOK_MIN: Duration = Duration::from_micros(50);

/// Ticks without work after which the watcher sleeps until there is some: waking it costs a system call.
const IDLE_TICKS_MAX: u32 = 4;

/// Threads of all kinds. When so many are held by tasks that do not yield, the next one keeps a thread of its lane.
pub(super) const THREADS_MAX: usize = 256;

/// A thread of a lane, as the watcher sees it.
pub(super) struct Seat {
    thread: Arc<Preemptible>,
    lane: Lane,
    poll: Mutex<Poll>,
}

#[derive(Default)]
struct Poll {
    /// When it began, and what it has used since.
    since: Option<(Instant, CpuTimer)>,
    /// What of it does not count.
    spared: Duration,
    replaced: bool,
    /// It was stopped and goes on with the slow lane.
    held: bool,
    /// Of a quick thread that was lowered.
    metronome: Option<Metronome>,
    /// The system has given no thread in its place, and that was said.
    refused: bool,
}

impl Seat {
    pub(super) fn new(thread: Arc<Preemptible>, lane: Lane) -> Self {
        Self { thread, lane, poll: Mutex::default() }
    }

    #[cfg(test)]
    pub(super) fn thread(&self) -> &Preemptible {
        &self.thread
    }

    #[cfg(test)]
    pub(super) fn is_replaced(&self) -> bool {
        self.lock().replaced
    }

    #[cfg(test)]
    pub(super) fn is_held(&self) -> bool {
        self.lock().held
    }

    fn lock(&self) -> MutexGuard<'_, Poll> {
        self.poll.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The poll under way may use so much more.
    pub(super) fn grant(&self, time: Duration) {
        self.lock().spared += time;
    }

    /// What it has not used of that.
    pub(super) fn give_back(&self, time: Duration) {
        let mut poll = self.lock();
        poll.spared = poll.spared.saturating_sub(time);
    }

    /// The poll is over. True when another thread has come in this one's place.
    pub(super) fn end(&self) -> bool {
        let mut poll = self.lock();
        poll.since = None;
        poll.replaced
    }
}

/// All seats, and where the watcher waits.
#[derive(Default)]
pub(super) struct Watch {
    seats: Mutex<Vec<Arc<Seat>>>,
    watcher: OnceLock<Thread>,
    asleep: AtomicBool,
    closed: AtomicBool,
}

impl Watch {
    pub(super) fn seats(&self) -> MutexGuard<'_, Vec<Arc<Seat>>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_watcher(&self, watcher: Thread) {
        let _ = self.watcher.set(watcher);
    }

    pub(super) fn sit(&self, seat: &Arc<Seat>) {
        self.seats().push(Arc::clone(seat));
    }

    pub(super) fn leave(&self, seat: &Arc<Seat>) {
        self.seats().retain(|other| !Arc::ptr_eq(other, seat));
    }

    /// A poll begins on the thread of `seat`.
    pub(super) fn begin(&self, seat: &Seat, now: Instant, ran: CpuTimer) {
        let mut poll = seat.lock();
        (poll.since, poll.spared) = (Some((now, ran)), Duration::ZERO);
        drop(poll);
        // The watcher says that it sleeps before it looks at the seats a last time, so either it sees this poll or this sees that it sleeps.
        if self.asleep.load(Ordering::SeqCst)
            && let Some(watcher) = self.watcher.get()
        {
            self.asleep.store(false, Ordering::SeqCst);
            watcher.unpark();
        }
    }

    /// Ends the watcher, once it is unparked.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }
}

/// The watcher's thread.
pub(super) fn run(shared: &Arc<Shared>) {
    thread_priority::prompt(0);
    let watch = &shared.watch;
    let mut idle_ticks = 0;
    while !watch.closed.load(Ordering::SeqCst) {
        let due = look(shared, Instant::now());
        idle_ticks = if due.is_some() { 0 } else { idle_ticks + 1 };
        if idle_ticks < IDLE_TICKS_MAX {
            thread::park_timeout(due.unwrap_or(TICK).min(TICK));
            continue;
        }
        watch.asleep.store(true, Ordering::SeqCst);
        if look(shared, Instant::now()).is_none() && !watch.closed.load(Ordering::SeqCst) {
            thread::park();
        }
        watch.asleep.store(false, Ordering::SeqCst);
        idle_ticks = 0;
    }
}

/// Replaces threads whose poll has used too much, and has those stopped. Answers when to look again, if any thread is in a poll.
pub(super) fn look(shared: &Arc<Shared>, now: Instant) -> Option<Duration> {
    let seats = shared.watch.seats().clone();
    let mut due = None;
    let mut threads = seats.len();
    for seat in seats {
        // Held until all is done: the thread cannot end meanwhile, so its number is its own.
        let mut poll = seat.lock();
        let Some((since, ran)) = poll.since.filter(|_| !poll.held) else { continue };
        let next = if poll.replaced {
            stop(shared, &seat, &mut poll);
            TICK
        } else {
            // It has used no more than the time that has passed; what it has used costs a system call.
            let most = seat.lane.poll_max() + poll.spared;
            let left = |used: Duration| most.saturating_sub(used);
            let left = Some(left(now.saturating_duration_since(since))).filter(|left| !left.is_zero()).unwrap_or_else(|| left(ran.ran()));
            if !left.is_zero() {
                left.max(LOOK_MIN)
            } else if threads < THREADS_MAX && replace(shared, &seat, &mut poll) {
                threads += 1;
                LOOK_MIN
            } else {
                // Of one that cannot be replaced, or could not be just now, the next look is soon enough.
                TICK
            }
        };
        due = Some(due.map_or(next, |due: Duration| due.min(next)));
    }
    due
}

/// Puts another thread in the place of one whose task does not yield.
fn replace(shared: &Arc<Shared>, seat: &Seat, poll: &mut Poll) -> bool {
    match shared.start_thread(seat.lane) {
        Ok(()) => {
            poll.replaced = true;
            if seat.lane != Lane::Slow {
                thread_priority::lower(seat.thread.thread());
            }
            if seat.lane == Lane::Quick {
                poll.metronome = Metronome::of(seat.thread.thread());
                poll.metronome.iter().for_each(|metronome| metronome.set(true));
            }
            seat.thread.ask();
        }
        Err(error) if !std::mem::replace(&mut poll.refused, true) => {
            tracing::warn!(%error, "no thread in place of one that is held by a task that does not yield");
        }
        Err(_) => {}
    }
    poll.replaced
}

/// Makes a thread wait for its turn in the slow lane once it has stopped, and asks it again when it could not stop.
fn stop(shared: &Shared, seat: &Seat, poll: &mut Poll) {
    match seat.thread.state() {
        State::Stopped => {
            poll.held = true;
            shared.slow.push(Job::Held(Held::new(Arc::clone(&seat.thread))));
        }
        State::Running => seat.thread.ask(),
        State::Asked | State::Away => {}
    }
}
