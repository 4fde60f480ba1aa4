//! One at a time per key: of many requests that find a session asleep, one places it and the others wait and look again.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::OwnedMutexGuard;

type Locks<K> = Arc<Mutex<HashMap<K, Arc<tokio::sync::Mutex<()>>>>>;

/// Locks by key. A key that nobody holds or waits for takes no memory.
pub struct SingleFlight<K: Eq + Hash + Clone> {
    locks: Locks<K>,
}

/// Holds a key until dropped.
pub struct Flight<K: Eq + Hash + Clone> {
    locks: Locks<K>,
    key: K,
    guard: Option<OwnedMutexGuard<()>>,
}

impl<K: Eq + Hash + Clone> Default for SingleFlight<K> {
    fn default() -> Self {
        Self { locks: Locks::default() }
    }
}

impl<K: Eq + Hash + Clone> SingleFlight<K> {
    /// Waits until nobody else holds `key`.
    pub async fn enter(&self, key: K) -> Flight<K> {
        let lock = {
            let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(locks.entry(key.clone()).or_default())
        };
        // From here on a dropped future drops its handle, and the next flight to end removes the entry.
        let flight = Flight { locks: Arc::clone(&self.locks), key, guard: None };
        let guard = lock.lock_owned().await;
        let mut flight = flight;
        flight.guard = Some(guard);
        flight
    }
}

impl<K: Eq + Hash + Clone> Drop for Flight<K> {
    fn drop(&mut self) {
        drop(self.guard.take());
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        // Handles are only taken under `locks`, so a count of one means that only the map has it.
        if locks.get(&self.key).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            locks.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn one_at_a_time_per_key_and_nothing_is_left_behind() {
        let flights = Arc::new(SingleFlight::default());
        let inside = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<_> = (0..32)
            .map(|task| {
                let (flights, inside) = (Arc::clone(&flights), Arc::clone(&inside));
                tokio::spawn(async move {
                    let _flight = flights.enter(task % 2).await;
                    assert!(inside.fetch_add(1, Ordering::SeqCst) < 2);
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert!(flights.locks.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_waiter_that_gives_up_leaves_nothing_behind() {
        let flights = SingleFlight::default();
        let held = flights.enter("a").await;
        let waiting = flights.enter("a");
        assert!(futures::FutureExt::now_or_never(waiting).is_none());
        drop(held);
        assert!(flights.locks.lock().unwrap().is_empty());
    }
}
