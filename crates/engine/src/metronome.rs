//! Has a thread of low priority ask again and again whether another one wants its processor.
//!
//! Linux decides who runs when a thread wakes, and then not before the next tick, some milliseconds later. Its fair scheduler (EEVDF) lets a waking thread
//! wait when it has had a trace more than its share, be it a microsecond beside a thread of the idle policy: then that one runs on until the tick.
//! So a timer sends the thread a signal every [`BEAT`] while it is at work, and the handler yields.

use std::{mem::MaybeUninit, ptr, time::Duration};

use crate::{preempt, thread_priority::ThreadId};

/// How long a thread of low priority may keep a processor from others because the system does not look.
const BEAT: Duration = Duration::from_micros(200);

/// A timer that has one thread yield. Ends when it is dropped.
#[derive(Debug)]
pub struct Metronome(Timer);

#[derive(Debug)]
struct Timer(libc::timer_t);

// SAFETY: a timer's id is a number to the system, whatever its type says; any thread of the process may set or delete it.
#[expect(unsafe_code, reason = "libc types the id as a pointer")]
unsafe impl Send for Timer {}
// SAFETY: as above; nothing is read through it.
#[expect(unsafe_code, reason = "libc types the id as a pointer")]
unsafe impl Sync for Timer {}

impl Metronome {
    /// A metronome of a thread of this process, at rest. `None` when the system has no timers left; the thread is then as rude as the system lets it.
    #[must_use]
    pub fn of(thread: ThreadId) -> Option<Self> {
        preempt::install();
        // SAFETY: an all-zero `sigevent` is valid, and the fields that matter are set after it. The call reads it and writes the id, both of which outlive it.
        // The signal has a handler, which `preempt::install` has put there.
        #[expect(unsafe_code, reason = "no safe crate makes a timer for a thread")]
        let timer = unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = preempt::SIGNAL;
            event.sigev_notify_thread_id = thread.number();
            let mut timer = MaybeUninit::uninit();
            (libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, timer.as_mut_ptr()) == 0).then(|| timer.assume_init())
        };
        timer.map(|timer| Self(Timer(timer)))
    }

    /// Starts or stops it: it costs the thread some microseconds a beat, and must not wake one that waits.
    pub fn set(&self, beats: bool) {
        let beat = libc::timespec { tv_sec: 0, tv_nsec: if beats { i64::from(BEAT.subsec_nanos()) } else { 0 } };
        let times = libc::itimerspec { it_interval: beat, it_value: beat };
        // SAFETY: the call reads a struct that outlives it; the timer is there until `self` is dropped.
        #[expect(unsafe_code, reason = "no safe crate sets a timer for a thread")]
        unsafe {
            libc::timer_settime(self.0.0, 0, &raw const times, ptr::null_mut());
        }
    }
}

impl Drop for Metronome {
    fn drop(&mut self) {
        // SAFETY: the timer is ours and is not used again.
        #[expect(unsafe_code, reason = "no safe crate deletes a timer")]
        unsafe {
            libc::timer_delete(self.0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::preempt::YIELDED;

    #[test]
    fn a_thread_yields_at_every_beat_and_only_while_it_beats() {
        let metronome = Metronome::of(ThreadId::current()).unwrap();
        let until = |beats: u32| {
            let began = Instant::now();
            while YIELDED.get() < beats && began.elapsed() < Duration::from_secs(60) {
                std::hint::spin_loop();
            }
            YIELDED.get()
        };
        assert_eq!(YIELDED.get(), 0);
        metronome.set(true);
        assert!(until(3) >= 3);
        metronome.set(false);
        let counted = YIELDED.get();
        // Longer than some beats by the thread's own clock, which counts while it runs only.
        let ran = crate::cpu_clock::now() + BEAT * 10;
        while crate::cpu_clock::now() < ran {
            std::hint::spin_loop();
        }
        assert_eq!(YIELDED.get(), counted);
        drop(metronome);
        assert_eq!(YIELDED.get(), counted);
    }

    #[test]
    fn another_threads_beats_are_its_own() {
        let (tell, told) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || {
            tell.send(ThreadId::current()).unwrap();
            let began = Instant::now();
            while YIELDED.get() < 3 && began.elapsed() < Duration::from_secs(60) {
                std::hint::spin_loop();
            }
            YIELDED.get()
        });
        let metronome = Metronome::of(told.recv().unwrap()).unwrap();
        metronome.set(true);
        assert!(other.join().unwrap() >= 3);
        assert_eq!(YIELDED.get(), 0);
    }
}
