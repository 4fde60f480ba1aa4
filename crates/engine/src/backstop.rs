//! Ends turns that are over their time and do not poll, such as those inside one long builtin.
//!
//! One thread looks at the turns under way every [`TICK`]. A turn is registered before its code runs and taken out before anyone else may
//! touch or free its memory; the latter happens under the turn's lock, under which the thread condemns. The list has a lock of its own, which is
//! held for a moment only: condemning waits for the address space, and no other session's turn is to wait with it.

use std::{
    collections::HashMap,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicI32, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{EngineError, cpu_clock, fence::Fence};

/// How often the turns under way are looked at.
const TICK: Duration = Duration::from_millis(10);

/// What a turn may take beyond its wall-clock budget before it is condemned: half as much again, and at least this. Code that polls ends by itself long
/// before.
const GRACE_MIN: Duration = Duration::from_millis(250);

/// When the turn of one instance is over its time: the clock says so, and its thread has run for as long. A thread that waits for the processor, as one
/// of the lowest priority does on a busy machine, is not over its time.
#[derive(Default)]
pub(crate) struct Deadline {
    at: AtomicU64,
    thread: AtomicI32,
    /// The thread's processor time at which it is over.
    cpu_at: AtomicU64,
}

/// No code runs.
const NEVER: u64 = 0;

impl Deadline {
    /// Code runs from now on, on this thread, which has run for `cpu` so far, and may run for `left` of a budget of `wall`.
    pub(crate) fn set(&self, left: Duration, wall: Duration, cpu: Duration) {
        let most = left.saturating_add((wall / 2).max(GRACE_MIN));
        self.cpu_at.store(nanos(cpu.saturating_add(most)), Ordering::SeqCst);
        self.thread.store(cpu_clock::this_thread(), Ordering::SeqCst);
        // Last: who reads the same value before and after the others has read those that belong to it.
        self.at.store(nanos(since_start().saturating_add(most)), Ordering::SeqCst);
    }

    /// No code runs.
    pub(crate) fn clear(&self) {
        self.at.store(NEVER, Ordering::SeqCst);
    }

    fn is_over(&self, now: Duration) -> bool {
        let at = self.at.load(Ordering::SeqCst);
        if at == NEVER || nanos(now) <= at {
            return false;
        }
        let (thread, cpu_at) = (self.thread.load(Ordering::SeqCst), self.cpu_at.load(Ordering::SeqCst));
        cpu_clock::of_thread(thread).is_none_or(|ran| nanos(ran) > cpu_at) && self.at.load(Ordering::SeqCst) == at
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn since_start() -> Duration {
    static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    START.elapsed()
}

/// The turns under way.
#[derive(Default)]
pub(crate) struct Backstop {
    turns: Mutex<Turns>,
    more: Condvar,
}

#[derive(Default)]
struct Turns {
    running: HashMap<u64, Arc<Running>>,
    next: u64,
    /// The thread waits until there is a turn.
    parked: bool,
}

/// What is condemned when it is over its time.
struct Running {
    deadline: Arc<Deadline>,
    /// Absent once the turn has ended.
    fence: Mutex<Option<Arc<Fence>>>,
}

impl Running {
    fn fence(&self) -> MutexGuard<'_, Option<Arc<Fence>>> {
        self.fence.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A turn under way. Dropping it ends the backstop's interest in it.
pub(crate) struct Watched {
    backstop: Arc<Backstop>,
    turn: u64,
    running: Arc<Running>,
}

impl Backstop {
    /// A backstop with its thread, which ends with the last reference.
    pub(crate) fn start() -> Result<Arc<Self>, EngineError> {
        let backstop = Arc::new(Self::default());
        let weak = Arc::downgrade(&backstop);
        let thread = std::thread::Builder::new().name("engine-backstop".to_owned());
        thread.spawn(move || watch(&weak)).map_err(|error| EngineError::Load(format!("no thread for the backstop: {error}")))?;
        Ok(backstop)
    }

    fn lock(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches a turn until the answer is dropped. The memory of `fence` must live as long.
    pub(crate) fn watch(self: &Arc<Self>, fence: &Arc<Fence>, deadline: &Arc<Deadline>) -> Watched {
        let running = Arc::new(Running { deadline: Arc::clone(deadline), fence: Mutex::new(Some(Arc::clone(fence))) });
        let mut turns = self.lock();
        let turn = turns.next;
        turns.next += 1;
        turns.running.insert(turn, Arc::clone(&running));
        if std::mem::take(&mut turns.parked) {
            self.more.notify_one();
        }
        Watched { backstop: Arc::clone(self), turn, running }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.running.fence().take();
        self.backstop.lock().running.remove(&self.turn);
    }
}

fn watch(backstop: &Weak<Backstop>) {
    // The reference is given up for a moment each time, so that the last engine's end is noticed.
    while let Some(backstop) = backstop.upgrade() {
        let now = since_start();
        let over: Vec<_> = backstop.lock().running.values().filter(|turn| turn.deadline.is_over(now)).cloned().collect();
        for turn in over {
            // Held until it is done: whoever frees the memory waits for it.
            if let Some(fence) = turn.fence().as_ref() {
                fence.condemn();
            }
        }
        let mut turns = backstop.lock();
        turns.parked = turns.running.is_empty();
        // Parked, it still looks now and then whether anyone is left.
        let wait = if turns.parked { TICK * 100 } else { TICK };
        drop(backstop.more.wait_timeout(turns, wait));
    }
}
