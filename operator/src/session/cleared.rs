//! Sessions whose placement was cleared of late: what is stored of them is read again.
//!
//! A process whose pod is gone may run on where nobody reaches its node, and a gateway that is behind may send it one more cell. That cell is stored
//! under the old epoch, and a timer that it set is due though nobody told of it. So what is stored is read again, after longer than a gateway is behind.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// When it is read again: the last is the bound on how late a timer fires that was set so.
pub const READ_AFTER: [Duration; 2] = [Duration::from_secs(30), Duration::from_secs(300)];

/// Sessions by uid, and when what is stored of them is read again. Another operator begins with none: then the next request finds such a timer.
#[derive(Debug, Default)]
pub struct Cleared(Mutex<BTreeMap<String, Vec<Instant>>>);

impl Cleared {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Vec<Instant>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session's placement was cleared at `now`.
    pub fn note(&self, uid: &str, now: Instant) {
        self.lock().insert(uid.to_owned(), READ_AFTER.iter().rev().map(|after| now + *after).collect());
    }

    /// How long until it is to be read again; zero: now. `None`: not any more.
    pub fn due_in(&self, uid: &str, now: Instant) -> Option<Duration> {
        Some(self.lock().get(uid)?.last()?.saturating_duration_since(now))
    }

    /// It has been read.
    pub fn read(&self, uid: &str) {
        let mut sessions = self.lock();
        let done = sessions.get_mut(uid).is_some_and(|times| {
            times.pop();
            times.is_empty()
        });
        if done {
            sessions.remove(uid);
        }
    }

    /// It has a process again, or is gone.
    pub fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_read_twice_after_a_placement_was_cleared() {
        let (cleared, begin) = (Cleared::default(), Instant::now());
        assert_eq!(cleared.due_in("a", begin), None);
        cleared.note("a", begin);
        for after in READ_AFTER {
            assert_eq!(cleared.due_in("a", begin), Some(after));
            assert_eq!(cleared.due_in("a", begin + after), Some(Duration::ZERO));
            cleared.read("a");
        }
        assert_eq!(cleared.due_in("a", begin), None);
        cleared.note("a", begin);
        cleared.forget("a");
        assert_eq!(cleared.due_in("a", begin), None);
    }
}
