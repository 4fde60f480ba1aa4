//! Stops a thread in the middle of compiled code, and lets it go on later.
//!
//! Code that does not poll cannot be asked to wait, so the thread is: a signal arrives, and its handler waits until the thread may go on. That is safe
//! where the thread holds nothing that another one may want, and compiled code of `engine.wasm` holds no lock. Anywhere else, in host code, the
//! allocator or the kernel, the handler returns at once, and whoever asked asks again later. Go's runtime preempts goroutines in the same way and
//! with the same signal, which nobody else uses and which does nothing where it is not expected (golang/proposal, 24543-non-cooperative-preemption).

use std::{
    cell::Cell,
    ops::Range,
    ptr,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::thread::futex;

use crate::{fence::program_counter, thread_priority::ThreadId};

/// The signal.
pub(crate) const SIGNAL: libc::c_int = libc::SIGURG;

/// Compiled engines that one process can hold so that their code can be stopped. Code of more is never stopped, only lowered.
const CODES_MAX: usize = 64;

/// Where compiled code lies, as first and last address but one; `0..0` is a free place. Read by the handler, so without a lock.
static CODES: [Code; CODES_MAX] = [const { Code { start: AtomicUsize::new(0), end: AtomicUsize::new(0) } }; CODES_MAX];

struct Code {
    start: AtomicUsize,
    end: AtomicUsize,
}

thread_local! {
    /// What others know of this thread, null when nobody may stop it. Without a destructor, so that the handler may read it.
    static HERE: Cell<*const Preemptible> = const { Cell::new(ptr::null()) };
}

#[cfg(test)]
thread_local! {
    /// How often the handler has had this thread yield.
    pub(crate) static YIELDED: Cell<u32> = const { Cell::new(0) };
}

/// Compiled code that may be stopped, until this is dropped. No thread may be in it then.
#[derive(Debug)]
pub(crate) struct Stoppable {
    code: Range<usize>,
    /// Its number in [`CODES`].
    place: Option<usize>,
}

impl Stoppable {
    pub(crate) fn new(code: Range<usize>) -> Self {
        let free = |place: &Code| place.start.compare_exchange(0, code.start, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        let place = CODES.iter().position(free);
        // Until the end is there the range is empty.
        if let Some(taken) = place.and_then(|place| CODES.get(place)) {
            taken.end.store(code.end, Ordering::SeqCst);
        }
        Self { code, place }
    }

    /// Where it lies.
    pub(crate) fn code(&self) -> Range<usize> {
        self.code.clone()
    }
}

impl Drop for Stoppable {
    fn drop(&mut self) {
        if let Some(place) = self.place.and_then(|place| CODES.get(place)) {
            place.end.store(0, Ordering::SeqCst);
            place.start.store(0, Ordering::SeqCst);
        }
    }
}

fn is_code(address: usize) -> bool {
    CODES.iter().any(|code| (code.start.load(Ordering::SeqCst)..code.end.load(Ordering::SeqCst)).contains(&address))
}

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Nothing that may be stopped.
    Away,
    /// It runs.
    Running,
    /// It was asked to stop, and the signal is under way.
    Asked,
    /// It has stopped and waits.
    Stopped,
}

impl State {
    fn of(word: u32) -> Self {
        [Self::Running, Self::Asked, Self::Stopped].into_iter().find(|state| state.word() == word).unwrap_or(Self::Away)
    }

    fn word(self) -> u32 {
        match self {
            Self::Away => 0,
            Self::Running => 1,
            Self::Asked => 2,
            Self::Stopped => 3,
        }
    }
}

/// A thread that others may stop while it is in compiled code.
#[derive(Debug)]
pub struct Preemptible {
    thread: ThreadId,
    /// A [`State`], and the futex of all who wait for another one.
    word: AtomicU32,
    /// How many others wait.
    waiting: AtomicU32,
}

/// The calling thread's own side of a [`Preemptible`]. Ends with the thread.
#[derive(Debug)]
pub struct OnThisThread {
    shared: Arc<Preemptible>,
    /// Not `Send`: it is the thread's.
    _thread: std::marker::PhantomData<*const ()>,
}

impl OnThisThread {
    /// The calling thread may be stopped whenever it is [`Self::running`]. One of these a thread.
    #[must_use]
    pub fn new() -> Self {
        install();
        let away = AtomicU32::new(State::Away.word());
        let shared = Arc::new(Preemptible { thread: ThreadId::current(), word: away, waiting: AtomicU32::new(0) });
        HERE.set(Arc::as_ptr(&shared));
        Self { shared, _thread: std::marker::PhantomData }
    }

    /// The side of the others.
    #[must_use]
    pub fn shared(&self) -> &Arc<Preemptible> {
        &self.shared
    }

    /// The thread may be stopped while `work` runs.
    pub fn running<T>(&self, work: impl FnOnce() -> T) -> T {
        // Nobody waits for a thread to begin.
        self.shared.word.store(State::Running.word(), Ordering::SeqCst);
        let done = work();
        self.shared.word.store(State::Away.word(), Ordering::SeqCst);
        self.shared.tell();
        done
    }
}

impl Default for OnThisThread {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for OnThisThread {
    fn drop(&mut self) {
        // A signal that is still under way finds nothing.
        HERE.set(ptr::null());
    }
}

impl Preemptible {
    /// The thread.
    #[must_use]
    pub fn thread(&self) -> ThreadId {
        self.thread
    }

    /// What the thread does.
    #[must_use]
    pub fn state(&self) -> State {
        State::of(self.word.load(Ordering::SeqCst))
    }

    /// Asks a thread that runs to stop. It stops soon, or, where it must not, runs on: then ask again.
    pub fn ask(&self) {
        if self.change(State::Running, State::Asked) {
            // SAFETY: sends a signal that has a handler (`OnThisThread::new` has installed it) to a thread of this process, or to none.
            #[expect(unsafe_code, reason = "no safe crate sends a signal to a thread")]
            unsafe {
                libc::syscall(libc::SYS_tgkill, libc::getpid(), self.thread.number(), SIGNAL)
            };
        }
    }

    /// Lets a stopped thread go on, and takes back what was asked of one that has not stopped yet.
    pub fn go_on(&self) {
        if self.change(State::Stopped, State::Running) {
            self.wake();
        } else {
            self.change(State::Asked, State::Running);
        }
    }

    /// Waits until the thread does something else than `state`, at most for `time`. Answers what it does then.
    pub fn wait_while(&self, state: State, time: Duration) -> State {
        let until = Instant::now() + time;
        self.waiting.fetch_add(1, Ordering::SeqCst);
        loop {
            let now = self.state();
            let left = until.saturating_duration_since(Instant::now());
            if now != state || left.is_zero() {
                self.waiting.fetch_sub(1, Ordering::SeqCst);
                return now;
            }
            let left = futex::Timespec { tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: left.subsec_nanos().into() };
            // Woken, timed out, interrupted or too late: looked at again in any case.
            let _ = futex::wait(&self.word, futex::Flags::PRIVATE, state.word(), Some(&left));
        }
    }

    fn change(&self, from: State, to: State) -> bool {
        self.word.compare_exchange(from.word(), to.word(), Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Wakes those who wait for another state, if there are any.
    fn tell(&self) {
        // They count themselves before they look at the state a last time, which was changed before this.
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.wake();
        }
    }

    fn wake(&self) {
        let _ = futex::wake(&self.word, futex::Flags::PRIVATE, i32::MAX.unsigned_abs());
    }

    /// The thread's part, in its handler, at `program_counter` of what it was doing. Async-signal-safe: atomics and futex calls.
    fn on_signal(&self, program_counter: usize) {
        if !is_code(program_counter) {
            self.change(State::Asked, State::Running);
            return self.tell();
        }
        if self.change(State::Asked, State::Stopped) {
            self.tell();
            while self.state() == State::Stopped {
                let _ = futex::wait(&self.word, futex::Flags::PRIVATE, State::Stopped.word(), None);
            }
        }
    }
}

/// Has the process answer the signal.
pub(crate) fn install() {
    static INSTALLED: LazyLock<()> = LazyLock::new(|| {
        // SAFETY: an all-zero `sigaction` is valid: no flags, nothing blocked. The handler is async-signal-safe: it reads the thread's own pointer, uses atomics,
        // makes futex calls and yields; it neither allocates nor locks, and leaves `errno` alone, as rustix makes its system calls without libc. On the alternate
        // stack, which every thread of this process that runs compiled code has from wasmtime, because a session's own stack may be nearly full. System
        // calls that it interrupts are made again.
        #[expect(unsafe_code, reason = "a signal handler is how a thread is stopped")]
        let refused = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
            libc::sigaction(SIGNAL, &raw const action, ptr::null_mut())
        } != 0;
        if refused {
            tracing::error!("threads cannot be stopped: the system takes no handler");
        }
    });
    LazyLock::force(&INSTALLED);
}

extern "C" fn on_signal(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: not null, it is what this thread's `OnThisThread` shares, which sets it to null before it lets go of it. The kernel hands a handler with
    // SA_SIGINFO a `ucontext_t`.
    #[expect(unsafe_code, reason = "the thread's own state, and what the kernel says of where it was")]
    let (here, context) = unsafe { (HERE.get().as_ref(), context.cast::<libc::ucontext_t>().as_ref()) };
    if let (Some(here), Some(context)) = (here, context) {
        here.on_signal(program_counter(context));
    }
    // Whoever sends it wants the processor to be given to others first; see `metronome`.
    rustix::thread::sched_yield();
    #[cfg(test)]
    YIELDED.set(YIELDED.get() + 1);
}

#[cfg(test)]
#[path = "preempt_tests.rs"]
mod tests;
