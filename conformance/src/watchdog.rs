//! Ends the process when one step takes far too long: a builtin that never polls the interrupt handler cannot be stopped from inside.

use std::{
    io::Write as _,
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::Duration,
};

/// What the threads work on now; the watchdog ends the process when one entry stays for longer than its limit.
#[derive(Debug, Clone)]
pub struct Watchdog(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    steps: Mutex<Steps>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Steps {
    names: Vec<(u64, String)>,
    next: u64,
    over: bool,
}

/// A step that is under way; dropping it ends it.
#[derive(Debug)]
pub struct Step {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for Step {
    fn drop(&mut self) {
        let mut steps = self.shared.steps.lock().unwrap_or_else(PoisonError::into_inner);
        steps.names.retain(|(number, _)| *number != self.number);
        self.shared.changed.notify_all();
    }
}

impl Watchdog {
    /// Watches for steps that last longer than `limit`.
    #[must_use]
    pub fn new(limit: Duration) -> Self {
        let shared = Arc::new(Shared { steps: Mutex::default(), changed: Condvar::new() });
        let watched = Arc::clone(&shared);
        std::thread::spawn(move || watch(&watched, limit));
        Self(shared)
    }

    /// Begins a step of this name.
    #[must_use]
    pub fn step(&self, name: &str) -> Step {
        let mut steps = self.0.steps.lock().unwrap_or_else(PoisonError::into_inner);
        steps.next += 1;
        let number = steps.next;
        steps.names.push((number, name.to_owned()));
        Step { shared: Arc::clone(&self.0), number }
    }

    /// Watches no more.
    pub fn end(&self) {
        self.0.steps.lock().unwrap_or_else(PoisonError::into_inner).over = true;
        self.0.changed.notify_all();
    }
}

/// Every `limit` the oldest step must be another one than before.
fn watch(shared: &Shared, limit: Duration) {
    let mut seen = None;
    let mut steps = shared.steps.lock().unwrap_or_else(PoisonError::into_inner);
    while !steps.over {
        let oldest = steps.names.first().map(|(number, _)| *number);
        if oldest.is_some() && oldest == seen {
            let names: Vec<&str> = steps.names.iter().map(|(_, name)| name.as_str()).collect();
            let _ = writeln!(std::io::stderr(), "watchdog: longer than {limit:?}, one of: {}", names.join("\n"));
            #[expect(clippy::disallowed_methods, reason = "the thread that hangs cannot be ended, so the process is")]
            std::process::exit(1);
        }
        seen = oldest;
        let waited =
            shared.changed.wait_timeout_while(steps, limit, |steps| !steps.over && steps.names.first().map(|(number, _)| *number) == seen);
        steps = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}
