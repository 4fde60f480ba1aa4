//! What this gateway knows of what namespaces with quotas have used. What of it counts, [`crate::quota`] decides.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};

use dormouse_crds::quota::KernelQuotaSpec;
use tokio::time::Instant;

const MS_PER_SECOND: i64 = 1_000;

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
    /// Counts a cell that begins now. `false`: as many as are allowed have begun in this second of the clock.
    pub(crate) fn begin_cell(&self, limit: u64, now_ms: i64) -> bool {
        let second = now_ms.div_euclid(MS_PER_SECOND);
        let mut cells = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        if cells.0 != second {
            *cells = (second, 0);
        }
        let may = cells.1 < limit;
        cells.1 += u64::from(may);
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_of_the_clock_has_as_many_cells_as_are_allowed() {
        let known = NamespaceUse::default();
        let begun = |now_ms| (0..9).filter(|_| known.begin_cell(5, now_ms)).count();
        assert_eq!((begun(1_000), begun(1_999), begun(2_000)), (5, 0, 5));
        assert_eq!((0..9).filter(|_| known.begin_cell(7, 2_001)).count(), 2, "the limit was raised");
        assert!(!known.begin_cell(0, 9_000));
    }
}
