//! Who holds an instance: at most `slots` sessions at once.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

/// Sessions that are freed before the allocator is asked to give back what they have left, some 35 KB each.
const FREED_SESSIONS_MAX: u32 = 256;

/// The slots of a pod.
#[derive(Debug)]
pub(crate) struct Slots {
    max: u32,
    freed: AtomicU32,
    held: Mutex<BTreeMap<String, Holder>>,
}

#[derive(Debug, Clone, Copy)]
struct Holder {
    /// When its last request ended; absent while it has something to do.
    idle_since: Option<Instant>,
    /// Bytes that its memory had grown by then.
    grown: u64,
}

/// The right to hold one instance; given back when dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Arc<Slots>,
    uid: String,
}

impl Slots {
    /// `max` slots, all free.
    pub(crate) fn new(max: u32) -> Self {
        Self { max, freed: AtomicU32::new(0), held: Mutex::new(BTreeMap::new()) }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Holder>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many there are.
    pub(crate) fn max(&self) -> u32 {
        self.max
    }

    /// How many are held.
    pub(crate) fn used(&self) -> u32 {
        u32::try_from(self.lock().len()).unwrap_or(u32::MAX)
    }

    /// How many are held by sessions that have had nothing to do for so long.
    pub(crate) fn idle_for(&self, age: Duration) -> u32 {
        let held = self.lock();
        let idle = held.values().filter(|holder| holder.idle_since.is_some_and(|since| since.elapsed() >= age));
        u32::try_from(idle.count()).unwrap_or(u32::MAX)
    }

    /// A slot for the session, or the holders that have nothing to do, longest idle first.
    pub(crate) fn take(self: &Arc<Self>, uid: &str) -> Result<Slot, Vec<String>> {
        let mut held = self.lock();
        if held.len() < self.max as usize {
            held.insert(uid.to_owned(), Holder { idle_since: None, grown: 0 });
            return Ok(Slot { slots: Arc::clone(self), uid: uid.to_owned() });
        }
        Err(longest_idle(&held))
    }

    /// Whether the session holds a slot, and its memory had grown by no more than so many bytes when it was last looked at.
    pub(crate) fn has_grown_at_most(&self, uid: &str, bytes: u64) -> bool {
        self.lock().get(uid).is_some_and(|holder| holder.grown <= bytes)
    }

    /// The holders that have nothing to do and whose memory has grown by so many bytes at least: who would give back most first, and of those that would
    /// give back as much, who has been idle longest.
    pub(crate) fn largest_idle(&self, least: u64) -> Vec<String> {
        let held = self.lock();
        let large = held.iter().filter(|(_, holder)| holder.grown >= least);
        let mut idle: Vec<_> = large.filter_map(|(uid, holder)| Some((Reverse(holder.grown), holder.idle_since?, uid.clone()))).collect();
        idle.sort();
        idle.into_iter().map(|(.., uid)| uid).collect()
    }
}

fn longest_idle(held: &BTreeMap<String, Holder>) -> Vec<String> {
    let mut idle: Vec<(Instant, String)> = held.iter().filter_map(|(uid, holder)| Some((holder.idle_since?, uid.clone()))).collect();
    idle.sort();
    idle.into_iter().map(|(_, uid)| uid).collect()
}

impl Slot {
    /// The session has something to do, or has had nothing to do since `idle_since`; its memory has grown by so many bytes.
    pub(crate) fn set_idle(&self, idle_since: Option<Instant>, grown: u64) {
        if let Some(holder) = self.slots.lock().get_mut(&self.uid) {
            *holder = Holder { idle_since, grown };
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.lock().remove(&self.uid);
        let freed = self.slots.freed.fetch_add(1, Ordering::Relaxed) + 1;
        if freed.is_multiple_of(FREED_SESSIONS_MAX)
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn_blocking(dormouse_engine::give_back_freed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_pod_offers_its_idle_holders_longest_idle_first() {
        let slots = Arc::new(Slots::new(3));
        let a = slots.take("a").unwrap();
        let b = slots.take("b").unwrap();
        let _busy = slots.take("busy").unwrap();
        b.set_idle(Some(Instant::now()), 0);
        a.set_idle(Some(Instant::now() + Duration::from_secs(1)), 1);
        assert_eq!(slots.take("d").unwrap_err(), vec!["b".to_owned(), "a".to_owned()]);
        assert_eq!(slots.largest_idle(0), vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(slots.largest_idle(1), vec!["a".to_owned()]);
        assert!(slots.has_grown_at_most("a", 1) && !slots.has_grown_at_most("a", 0) && !slots.has_grown_at_most("d", 1));
        assert_eq!((slots.used(), slots.idle_for(Duration::ZERO), slots.idle_for(Duration::from_secs(60))), (3, 2, 0));
        drop(b);
        assert!(slots.take("d").is_ok());
    }
}
