//! Who runs next: sessions are tasks of the executor that does the I/O, and give way to each other.
//!
//! Code runs for a slice at a time ([`dormouse_engine::slice`]). Between two slices whatever is ready runs, requests and timers first of all. A session
//! that has used little of late ([`account`]) runs whenever it has something to do. One that has used more needs one of as many permits as there are
//! cores ([`permits`]); of those who wait for one, the session that has been served least is next. Thus a neighbour's short cell waits for the rest of a
//! slice, and long cells share what is left in equal parts, each waiting for no more than a slice of every other.
//!
//! All that a session's task does counts as its: its code, compiling, encoding, hashing. This module starts no threads, knows no priorities of the
//! operating system, and must not know what its tasks are.

mod account;
mod permits;

use std::{
    cell::Cell,
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use dormouse_engine::slice;

use account::Account;
use permits::{Permit, Permits};

thread_local! {
    /// What work elsewhere took for the task that is being polled.
    static CHARGED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Has the task that calls this pay for work that was done for it on another thread.
pub fn charge(took: Duration) {
    CHARGED.set(CHARGED.get().saturating_add(took));
}

/// Has sessions take turns. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Scheduler(Option<Arc<Permits>>);

/// Why a task stands still.
enum Pause<T> {
    /// It has come to its end.
    Done(T),
    /// Its code has used a slice.
    Slice,
    /// It has used much, and has no permit.
    NoPermit,
}

impl Scheduler {
    /// A scheduler for as many cores as this process may use.
    #[must_use]
    pub fn new() -> Self {
        Self::with_permits(std::thread::available_parallelism().map_or(1, usize::from))
    }

    fn with_permits(permits: usize) -> Self {
        Self(Some(Arc::new(Permits::new(permits))))
    }

    /// No turns: every task runs on until it waits for something else than time to run, so a run on one thread is the same every time.
    #[must_use]
    pub fn inline() -> Self {
        Self(None)
    }

    /// The future, taking turns with all others of this scheduler. To be spawned on a tokio runtime.
    pub fn run<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        let permits = self.0.clone();
        async move {
            let mut future = pin!(future);
            let Some(permits) = permits else { return poll_fn(|context| unsliced(|| future.as_mut().poll(context))).await };
            let mut account = Account::new(Instant::now());
            let mut permit: Option<Permit> = None;
            loop {
                let pause = poll_fn(|context| {
                    let began = Instant::now();
                    if permit.is_none() && account.used_much(began) {
                        permit = Permits::try_take(&permits, account.served_mut());
                        if permit.is_none() {
                            return Poll::Ready(Pause::NoPermit);
                        }
                    }
                    let (polled, sliced) = slice::observe(|| future.as_mut().poll(context));
                    account.charge(began, Instant::now() + CHARGED.take());
                    match polled {
                        Poll::Ready(done) => Poll::Ready(Pause::Done(done)),
                        Poll::Pending if sliced => Poll::Ready(Pause::Slice),
                        Poll::Pending => {
                            permit = None;
                            Poll::Pending
                        }
                    }
                })
                .await;
                match pause {
                    Pause::Done(done) => return done,
                    // Everything that is ready runs, and the runtime looks for I/O and timers, before this goes on. Then it is seen who goes on.
                    Pause::Slice => {
                        tokio::task::yield_now().await;
                        permit = permit.filter(|_| !permits.should_give_way(account.served()));
                    }
                    Pause::NoPermit => permit = Some(Permits::take(&permits, account.served_mut()).await),
                }
            }
        }
    }
}

/// Polls on over the ends of slices.
fn unsliced<T>(mut poll: impl FnMut() -> Poll<T>) -> Poll<T> {
    loop {
        let (polled, sliced) = slice::observe(&mut poll);
        if !sliced {
            return polled;
        }
    }
}

impl Default for Scheduler {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests;
