//! What this gateway knows of what namespaces with quotas have used. What of it counts, [`crate::quota`] decides.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};

use dormouse_crds::quota::KernelQuotaSpec;
use tokio::time::Instant;

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

/// A session that counts while it is made.
#[derive(Debug)]
pub(crate) struct Making {
    pub(crate) of: Option<Arc<NamespaceUse>>,
    pub(crate) name: String,
}

impl Drop for Making {
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
