//! What the system is told of threads: which of them are to run at once when they have something to do, and which only while nobody else has.

use rustix::{
    process::{getpriority_process, setpriority_process},
    thread::{Pid, gettid},
};

/// The most that niceness can be.
const NICEST: i32 = 19;

/// Bytes of the first version of the kernel's struct, which is all that is used.
const SCHED_ATTR_BYTES: u32 = 48;

/// A thread of this process, by the kernel's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadId(Pid);

impl ThreadId {
    /// The calling thread.
    #[must_use]
    pub fn current() -> Self {
        Self(gettid())
    }

    pub(crate) fn number(self) -> i32 {
        self.0.as_raw_nonzero().get()
    }
}

/// Gives a thread that has not ended the system's idle policy: it runs while no other thread of its group wants the processor, and one that does
/// gets it at once. Without privileges there is no way back. False when the system refuses the policy; the niceness is raised in any case.
pub fn lower(thread: ThreadId) -> bool {
    let param = libc::sched_param { sched_priority: 0 };
    // By number and not through libc: not every C library has more than a stub.
    // SAFETY: the call reads the struct that outlives it and touches no other memory of ours.
    #[expect(unsafe_code, reason = "no safe crate sets a thread's policy by its number")]
    let refused = unsafe { libc::syscall(libc::SYS_sched_setscheduler, thread.number(), libc::SCHED_IDLE, &raw const param) } != 0;
    // The policy alone takes effect when the thread sleeps or at the next tick, some milliseconds later; a change of niceness makes the kernel choose anew
    // at once.
    if let Err(error) = setpriority_process(Some(thread.0), NICEST) {
        tracing::warn!(%error, "a thread's priority cannot be lowered");
    }
    !refused
}

/// What a prompt thread asks to run at a time, in nanoseconds: the least that the system grants.
const PROMPT_SLICE_NS: u64 = 100_000;

/// Asks for short slices for the calling thread: its share stays as it is, but a thread that wakes gets the processor from one that has had such a
/// slice, and not only after some milliseconds. It becomes nicer by `nicer` than it was. False where the system does not know of short slices (before Linux
/// 6.12 it ignores them).
pub fn prompt(nicer: u8) -> bool {
    let Ok(nice) = getpriority_process(None) else { return false };
    let attributes = libc::sched_attr {
        size: SCHED_ATTR_BYTES,
        sched_policy: u32::try_from(libc::SCHED_OTHER).unwrap_or_default(),
        sched_flags: 0,
        sched_nice: (nice + i32::from(nicer)).min(NICEST),
        sched_priority: 0,
        sched_runtime: PROMPT_SLICE_NS,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the call reads the struct that outlives it, which is of the size that its first field says, and touches no other memory of ours.
    #[expect(unsafe_code, reason = "no safe crate sets a thread's slice")]
    let refused = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) } != 0;
    !refused
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Niceness and policy of the calling thread: fields 19 and 41 of its `stat`.
    fn standing() -> (i32, i32) {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        (fields[16].parse().unwrap(), fields[38].parse().unwrap())
    }

    #[test]
    fn a_thread_that_another_one_lowers_is_lowered_and_no_other() {
        let (told, thread) = std::sync::mpsc::channel();
        let (done, lowered) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || {
            told.send(ThreadId::current()).unwrap();
            lowered.recv().unwrap();
            standing()
        });
        let before = standing();
        assert!(lower(thread.recv().unwrap()));
        done.send(()).unwrap();
        assert_eq!(other.join().unwrap(), (NICEST, libc::SCHED_IDLE));
        assert_eq!(standing(), before);
    }

    #[test]
    fn a_prompt_thread_keeps_its_niceness_or_adds_to_it() {
        let before = standing();
        prompt(0);
        assert_eq!(standing(), before);
        prompt(3);
        assert_eq!(standing(), ((before.0 + 3).min(NICEST), before.1));
    }
}
