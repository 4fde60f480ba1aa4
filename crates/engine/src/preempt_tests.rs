//! What stopping a thread promises, with code that only counts.

use std::sync::{Mutex, PoisonError, atomic::AtomicBool, mpsc};

use super::*;

/// Only one test at a time says what code is, because a function's neighbour may lie in its range.
static CODE: Mutex<()> = Mutex::new(());

/// Bytes from the beginning of a function that are taken for its code.
const BODY_BYTES: usize = 128;
const LONG: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Work {
    done: AtomicU32,
    enough: AtomicBool,
}

#[inline(never)]
fn up(work: &Work) {
    while !work.enough.load(Ordering::Relaxed) {
        work.done.fetch_add(1, Ordering::Relaxed);
    }
}

#[inline(never)]
fn down(work: &Work) {
    while !work.enough.load(Ordering::Relaxed) {
        work.done.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs `code` in a thread, `with` beside it, and then lets the thread end.
fn beside(code: fn(&Work), may_stop: bool, with: impl FnOnce(&Preemptible, &Work)) {
    let _alone = CODE.lock().unwrap_or_else(PoisonError::into_inner);
    let start = code as *const () as usize;
    let _code = may_stop.then(|| Stoppable::new(start..start + BODY_BYTES));
    let (work, (tell, told)) = (Arc::new(Work::default()), mpsc::channel());
    let its = Arc::clone(&work);
    let thread = std::thread::spawn(move || {
        let here = OnThisThread::new();
        here.running(|| {
            tell.send(Arc::clone(here.shared())).unwrap();
            code(&its);
        });
    });
    let shared = told.recv().unwrap();
    with(&shared, &work);
    work.enough.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    assert_eq!(shared.state(), State::Away);
}

fn progress(work: &Work) {
    let before = work.done.load(Ordering::Relaxed);
    while work.done.load(Ordering::Relaxed) == before {
        std::thread::yield_now();
    }
}

/// Asks until the thread is in the code that may be stopped.
fn stop(thread: &Preemptible) {
    loop {
        thread.ask();
        if thread.wait_while(State::Asked, LONG) == State::Stopped {
            return;
        }
    }
}

#[test]
fn a_thread_in_compiled_code_stops_and_goes_on_as_often_as_one_likes() {
    beside(up, true, |thread, work| {
        for _ in 0..100 {
            progress(work);
            stop(thread);
            let stopped_at = work.done.load(Ordering::Relaxed);
            assert_eq!(thread.wait_while(State::Stopped, Duration::from_millis(1)), State::Stopped);
            assert_eq!(work.done.load(Ordering::Relaxed), stopped_at);
            thread.go_on();
            assert_eq!(thread.state(), State::Running);
        }
    });
}

#[test]
fn a_thread_in_other_code_runs_on() {
    beside(down, false, |thread, work| {
        for _ in 0..100 {
            thread.ask();
            assert_eq!(thread.wait_while(State::Asked, LONG), State::Running);
            progress(work);
        }
    });
}

#[test]
fn who_waits_for_a_thread_learns_of_its_end() {
    beside(down, false, |thread, work| {
        work.enough.store(true, Ordering::Relaxed);
        assert_eq!(thread.wait_while(State::Running, LONG), State::Away);
    });
}

#[test]
fn a_place_of_code_is_free_again() {
    for _ in 0..CODES_MAX * 2 {
        let code = Stoppable::new(8..16);
        assert!(code.place.is_some() && is_code(8) && !is_code(16));
    }
    assert!(!is_code(8));
}
