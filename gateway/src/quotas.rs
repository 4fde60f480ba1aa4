//! What this gateway knows of what namespaces with quotas have used. What of it counts, [`crate::quota`] decides.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};

use dormouse_crds::quota::KernelQuotaSpec;
use tokio::time::Instant;

use crate::directory::{Directory, Key};

pub(crate) const MS_PER_SECOND: i64 = 1_000;

/// What is known of namespaces with quotas. Clones share it.
#[derive(Clone, Default)]
pub struct Quotas(Arc<Mutex<HashMap<String, Arc<NamespaceUse>>>>);

/// What is known of one.
#[derive(Debug, Default)]
pub(crate) struct NamespaceUse {
    /// Cells that began in a second of the clock: which second, and how many.
    pub(crate) cells: Mutex<(i64, u64)>,
    /// Names of sessions that are being made: the directory may not have them yet.
    pub(crate) making: Mutex<HashSet<String>>,
    /// Whoever measures holds it.
    pub(crate) measured: tokio::sync::Mutex<Option<Measured>>,
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
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(namespace.to_owned()).or_default())
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
        if cells.0 != second {
            *cells = (second, 0);
        }
        let begun = wanted.min(limit.saturating_sub(cells.1));
        cells.1 += begun;
        begun
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
}
