//! Sessions of which a process that is gone may have stored more than it told: somebody has to read that.
//!
//! While nobody could, and for a while after: a process whose pod is gone may run on where nobody reaches its node, and a gateway that is behind may
//! send it one more cell. That cell is stored under the old epoch, and a timer that it set is due though nobody told of it. So what is stored is read
//! again, after longer than a gateway is behind. Kernel pods read it: as long as there is such a session, its pool has one.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// When it is read again after the placement was cleared: the last is the bound on how late a timer fires that was set so.
pub const READ_AFTER: [Duration; 2] = [Duration::from_secs(30), Duration::from_secs(300)];

/// Namespace and name of a pool.
type PoolKey = (String, String);

/// Sessions by uid, and when what is stored of them is read. Another operator begins with those whose placement is still there.
#[derive(Debug, Default)]
pub struct Unread(Mutex<Sessions>);

#[derive(Debug, Default)]
struct Sessions {
    /// When each is to be read, the next last.
    due: BTreeMap<String, (PoolKey, Vec<Instant>)>,
    /// How many of each pool.
    pools: HashMap<PoolKey, usize>,
}

impl Sessions {
    fn set(&mut self, uid: &str, pool: PoolKey, due: Vec<Instant>) {
        self.remove(uid);
        *self.pools.entry(pool.clone()).or_default() += 1;
        self.due.insert(uid.to_owned(), (pool, due));
    }

    fn remove(&mut self, uid: &str) {
        let Some((pool, _)) = self.due.remove(uid) else { return };
        if let Some(count) = self.pools.get_mut(&pool) {
            *count -= 1;
            if *count == 0 {
                self.pools.remove(&pool);
            }
        }
    }
}

impl Unread {
    fn lock(&self) -> MutexGuard<'_, Sessions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session's process is gone, and nobody could tell at `now` what it has stored.
    pub fn silent(&self, uid: &str, pool: PoolKey, now: Instant) {
        self.lock().set(uid, pool, vec![now]);
    }

    /// The session's placement was cleared at `now`.
    pub fn cleared(&self, uid: &str, pool: PoolKey, now: Instant) {
        self.lock().set(uid, pool, READ_AFTER.iter().rev().map(|after| now + *after).collect());
    }

    /// How long until it is to be read again; zero: now. `None`: not any more.
    pub fn due_in(&self, uid: &str, now: Instant) -> Option<Duration> {
        Some(self.lock().due.get(uid)?.1.last()?.saturating_duration_since(now))
    }

    /// It has been read.
    pub fn read(&self, uid: &str) {
        let mut sessions = self.lock();
        let done = sessions.due.get_mut(uid).is_some_and(|(_, times)| {
            times.pop();
            times.is_empty()
        });
        if done {
            sessions.remove(uid);
        }
    }

    /// It has a process again, or had told everything, or is gone.
    pub fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    /// Whether a session of the pool is to be read, now or later.
    #[must_use]
    pub fn any_of(&self, namespace: &str, pool: &str) -> bool {
        self.lock().pools.contains_key(&(namespace.to_owned(), pool.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool() -> PoolKey {
        ("team".to_owned(), "p".to_owned())
    }

    #[test]
    fn what_is_stored_is_read_twice_after_a_placement_was_cleared() {
        let (unread, begin) = (Unread::default(), Instant::now());
        assert_eq!(unread.due_in("a", begin), None);
        unread.cleared("a", pool(), begin);
        for after in READ_AFTER {
            assert_eq!(unread.due_in("a", begin), Some(after));
            assert_eq!(unread.due_in("a", begin + after), Some(Duration::ZERO));
            unread.read("a");
        }
        assert_eq!(unread.due_in("a", begin), None);
        unread.cleared("a", pool(), begin);
        unread.forget("a");
        assert_eq!(unread.due_in("a", begin), None);
    }

    #[test]
    fn a_pool_has_unread_sessions_until_the_last_of_them_is_read() {
        let (unread, begin) = (Unread::default(), Instant::now());
        let any = || unread.any_of("team", "p");
        assert!(!any());
        unread.silent("a", pool(), begin);
        unread.silent("a", pool(), begin);
        unread.cleared("b", pool(), begin);
        assert!(any() && !unread.any_of("team", "q") && !unread.any_of("other", "p"));
        unread.read("a");
        assert!(any());
        unread.read("b");
        assert!(any(), "it is read once more");
        unread.read("b");
        assert!(!any());
    }
}
