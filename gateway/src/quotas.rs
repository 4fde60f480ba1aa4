//! What this gateway knows of what namespaces with quotas have used. What of it counts, [`crate::quota`] decides.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};

use dormouse_control::quota::{CELLS_SECONDS, Told};
use dormouse_crds::quota::KernelQuotaSpec;
use tokio::time::Instant;

use crate::directory::{Directory, Key};

pub(crate) const MS_PER_SECOND: i64 = 1_000;

/// What is known of namespaces with quotas. Clones share it.
#[derive(Clone, Default)]
pub struct Quotas {
    known: Arc<Mutex<HashMap<String, Arc<NamespaceUse>>>>,
    /// Namespaces whose quotas may have to say something else.
    touched: Arc<Mutex<BTreeSet<String>>>,
}

/// What is known of one.
#[derive(Debug, Default)]
pub(crate) struct NamespaceUse {
    /// Cells that began, by second of the clock, of the last [`CELLS_SECONDS`].
    cells: Mutex<BTreeMap<i64, u64>>,
    /// Names of sessions that are being made: the directory may not have them yet.
    making: Mutex<HashSet<String>>,
    /// Whoever measures holds it.
    pub(crate) known: tokio::sync::Mutex<Known>,
}

/// What was measured.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) measured: Option<Measured>,
    /// What of it the processes told.
    pub(crate) told: Told,
}

/// What was used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    /// When it was begun to look: all that had ended by then is in it.
    pub(crate) since: Instant,
    pub(crate) used: KernelQuotaSpec,
}

/// A session that counts while this is kept.
#[derive(Debug)]
pub(crate) struct Held {
    of: Option<Arc<NamespaceUse>>,
    name: String,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(of) = &self.of {
            of.making.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.name);
        }
    }
}

impl Quotas {
    pub(crate) fn of(&self, namespace: &str) -> Arc<NamespaceUse> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(namespace.to_owned()).or_default())
    }

    /// Has it looked at soon what the status of the namespace's quotas is to say.
    pub(crate) fn touch(&self, namespace: &str) {
        let mut touched = self.touched.lock().unwrap_or_else(PoisonError::into_inner);
        if !touched.contains(namespace) {
            touched.insert(namespace.to_owned());
        }
    }

    /// The namespaces that are to be looked at.
    pub(crate) fn take_touched(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.touched.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts a session that is made now. It counts while the answer is kept: until the directory has it, or it is not made.
    ///
    /// # Errors
    /// So many there are, and no more are allowed.
    pub(crate) fn make(&self, directory: &dyn Directory, key: &Key, limit: u64) -> Result<Held, u64> {
        let known = self.of(&key.namespace);
        let mut making = known.making.lock().unwrap_or_else(PoisonError::into_inner);
        let is_counted = |name: &&String| {
            let there = directory.get(&Key::new(key.namespace.clone(), name.as_str()));
            there.is_some_and(|record| !record.deleting)
        };
        let unseen = making.iter().filter(|name| !is_counted(name)).count() as u64;
        let used = sessions(directory, &key.namespace).saturating_add(unseen);
        if used >= limit {
            return Err(used);
        }
        // Of two that are made under one name one is refused by the directory.
        let of = making.insert(key.name.clone()).then(|| Arc::clone(&known));
        Ok(Held { of, name: key.name.clone() })
    }
}

/// How many sessions a namespace has, without those that are being deleted.
pub(crate) fn sessions(directory: &dyn Directory, namespace: &str) -> u64 {
    directory.list(Some(namespace)).iter().filter(|record| !record.deleting).count() as u64
}

impl NamespaceUse {
    /// Counts cells that begin now, and answers how many of them: together no more than are allowed in this second of the clock.
    pub(crate) fn begin_cells(&self, wanted: u64, limit: u64, now_ms: i64) -> u64 {
        let second = now_ms.div_euclid(MS_PER_SECOND);
        let mut cells = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        cells.retain(|of, _| second - *of < CELLS_SECONDS);
        let of_second = cells.entry(second).or_default();
        let begun = wanted.min(limit.saturating_sub(*of_second));
        *of_second += begun;
        begun
    }

    /// The most cells that began in one second of the last [`CELLS_SECONDS`].
    pub(crate) fn most_cells(&self, now_ms: i64) -> u64 {
        let second = now_ms.div_euclid(MS_PER_SECOND);
        let cells = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        cells.iter().filter(|(of, _)| second - **of < CELLS_SECONDS).map(|(_, begun)| *begun).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_of_the_clock_has_as_many_cells_as_are_allowed() {
        let known = NamespaceUse::default();
        let begun = |now_ms| (0..9).map(|_| known.begin_cells(1, 5, now_ms)).sum::<u64>();
        assert_eq!((begun(1_000), begun(1_999), begun(2_000)), (5, 0, 5));
        assert_eq!(known.begin_cells(9, 7, 2_001), 2, "the limit was raised");
        assert_eq!(known.begin_cells(1, 0, 9_000), 0);
    }

    #[test]
    fn of_the_last_minute_the_second_with_most_cells_is_known() {
        let known = NamespaceUse::default();
        for (cells, now_ms) in [(3, 1_000), (9, 1_500), (2, 30_000)] {
            known.begin_cells(cells, 10, now_ms);
        }
        let most = [1_000, 60_999, 61_000, 89_999, 90_000].map(|now_ms| known.most_cells(now_ms));
        assert_eq!(most, [10, 10, 2, 2, 0]);
    }
}
