//! How long threads have run.

use std::time::Duration;

use rustix::{
    thread::gettid,
    time::{ClockId, clock_gettime},
};

use crate::thread_priority::ThreadId;

/// Measures how long a thread has run: the clock goes while the thread waits for the processor, or the machine for its host, and this does not.
#[derive(Debug, Clone, Copy)]
pub struct CpuTimer {
    thread: ThreadId,
    began: Duration,
}

impl CpuTimer {
    /// Begins to measure a thread of this process.
    #[must_use]
    pub fn of(thread: ThreadId) -> Self {
        Self { thread, began: of_thread(thread.number()).unwrap_or_default() }
    }

    /// How long the thread has run since then; nothing when it has ended. A system call, for any thread.
    #[must_use]
    pub fn ran(&self) -> Duration {
        of_thread(self.thread.number()).unwrap_or_default().saturating_sub(self.began)
    }
}

/// The number of the calling thread.
pub(crate) fn this_thread() -> i32 {
    thread_local! {
        static NUMBER: i32 = gettid().as_raw_nonzero().get();
    }
    NUMBER.with(|number| *number)
}

/// Processor time of the calling thread.
pub(crate) fn now() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Processor time of a thread of this process; `None` when it has ended.
pub(crate) fn of_thread(number: i32) -> Option<Duration> {
    // Linux numbers a thread's clock so: the thread's number, inverted, above three bits that say "of a thread" and "as the scheduler counts".
    const OF_THREAD: i32 = 0b100;
    const SCHEDULED: i32 = 0b010;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the struct that outlives it and touches no other memory of ours.
    #[expect(unsafe_code, reason = "no safe crate reads another thread's clock")]
    let read = unsafe { libc::clock_gettime((!number << 3) | OF_THREAD | SCHEDULED, &raw mut time) } == 0;
    read.then(|| Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spin(time: Duration) {
        let until = now() + time;
        while now() < until {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn a_timer_counts_what_the_thread_runs_and_not_what_it_waits() {
        let (timer, long) = (CpuTimer::of(ThreadId::current()), Duration::from_millis(20));
        std::thread::spawn(move || spin(long)).join().unwrap();
        assert!(timer.ran() < long, "it has waited for as long");
        spin(long);
        assert!(timer.ran() >= long);
    }

    #[test]
    fn a_threads_clock_is_the_same_from_outside_and_ends_with_it() {
        let (tell, told) = std::sync::mpsc::channel();
        let (done, may_end) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            spin(Duration::from_millis(5));
            tell.send((this_thread(), now())).unwrap();
            may_end.recv().unwrap();
        });
        let (number, ran) = told.recv().unwrap();
        assert!(of_thread(number).unwrap() >= ran);
        done.send(()).unwrap();
        other.join().unwrap();
        assert_ne!(number, this_thread());
    }
}
