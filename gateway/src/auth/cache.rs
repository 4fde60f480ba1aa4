//! A bounded cache whose entries end.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Values by key, each for a time.
pub(super) struct TtlCache<K, V> {
    entries: Mutex<HashMap<K, (Instant, V)>>,
    entries_max: usize,
}

impl<K: Eq + Hash, V: Clone> TtlCache<K, V> {
    pub(super) fn new(entries_max: usize) -> Self {
        Self { entries: Mutex::default(), entries_max }
    }

    pub(super) fn get(&self, key: &K) -> Option<V> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.get(key).filter(|(until, _)| Instant::now() < *until).map(|(_, value)| value.clone())
    }

    pub(super) fn remove(&self, key: &K) {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    /// As if so much time had passed.
    pub(super) fn age(&self, by: Duration) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|_, (until, _)| {
            until.checked_sub(by).is_some_and(|sooner| {
                *until = sooner;
                true
            })
        });
    }

    /// Makes room by dropping what has ended, then everything: a full cache of live entries is rare, and asking again is cheap.
    pub(super) fn put(&self, key: K, value: V, ttl: Duration) {
        let now = Instant::now();
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= self.entries_max && !entries.contains_key(&key) {
            entries.retain(|_, (until, _)| now < *until);
            if entries.len() >= self.entries_max {
                entries.clear();
            }
        }
        entries.insert(key, (now + ttl, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_end_and_are_bounded() {
        let cache = TtlCache::new(2);
        cache.put("ended", 0, Duration::ZERO);
        assert_eq!(cache.get(&"ended"), None);
        cache.put("a", 1, Duration::from_secs(60));
        cache.put("b", 2, Duration::from_secs(60));
        assert_eq!((cache.get(&"a"), cache.get(&"b")), (Some(1), Some(2)));
        cache.age(Duration::from_secs(1));
        assert_eq!((cache.get(&"a"), cache.get(&"b")), (Some(1), Some(2)));
        cache.put("c", 3, Duration::from_secs(60));
        assert_eq!((cache.get(&"a"), cache.get(&"c")), (None, Some(3)));
        assert!(cache.entries.lock().unwrap().len() <= 2);
        cache.age(Duration::from_secs(60));
        assert_eq!(cache.get(&"c"), None);
    }
}
