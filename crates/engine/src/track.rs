//! Which pages have changed: against the base image by comparison, against the last commit by hash.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_128;

use crate::{PAGE_BYTES, Page};

static ZERO: [u8; PAGE_BYTES] = [0; PAGE_BYTES];

/// Stands for a page that equals the base image.
const AS_BASE: u128 = 0;

/// The memory of an instance that has run nothing.
#[derive(Clone)]
pub(crate) struct Base(Arc<[u8]>);

impl Base {
    pub(crate) fn new(memory: &[u8]) -> Self {
        Self(memory.into())
    }

    /// Bytes of the base memory.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    fn page(&self, index: usize) -> &[u8] {
        self.0.get(index * PAGE_BYTES..(index + 1) * PAGE_BYTES).unwrap_or(&ZERO)
    }

    /// The pages that differ from the base.
    pub(crate) fn differing(&self, memory: &[u8]) -> BTreeMap<u32, Page> {
        numbered(memory).filter(|(number, bytes)| *bytes != self.page(*number as usize)).filter_map(|(n, b)| Some((n, copy(b)?))).collect()
    }
}

/// The state of every page at the last commit.
pub(crate) struct Tracker {
    committed: Vec<u128>,
    seen: Option<Vec<u128>>,
}

impl Tracker {
    /// Nothing differs from the base.
    pub(crate) fn new() -> Self {
        Self { committed: Vec::new(), seen: None }
    }

    /// What is in `memory` now is committed.
    pub(crate) fn of(base: &Base, memory: &[u8]) -> Self {
        Self { committed: numbered(memory).map(|(n, bytes)| state(base, n, bytes)).collect(), seen: None }
    }

    /// The pages that differ from the last commit.
    pub(crate) fn changed(&mut self, base: &Base, memory: &[u8]) -> Vec<(u32, Page)> {
        let mut seen = Vec::with_capacity(memory.len() / PAGE_BYTES);
        let mut pages = Vec::new();
        for (number, bytes) in numbered(memory) {
            let now = state(base, number, bytes);
            if now != self.committed.get(number as usize).copied().unwrap_or(AS_BASE) {
                pages.extend(copy(bytes).map(|page| (number, page)));
            }
            seen.push(now);
        }
        self.seen = Some(seen);
        pages
    }

    /// What [`Self::changed`] saw last is committed.
    pub(crate) fn commit(&mut self) {
        if let Some(seen) = self.seen.take() {
            self.committed = seen;
        }
    }
}

fn numbered(memory: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    (0..).zip(memory.chunks_exact(PAGE_BYTES))
}

fn state(base: &Base, number: u32, bytes: &[u8]) -> u128 {
    if bytes == base.page(number as usize) { AS_BASE } else { xxh3_128(bytes).max(1) }
}

fn copy(bytes: &[u8]) -> Option<Page> {
    Page::new(Bytes::copy_from_slice(bytes))
}

#[cfg(test)]
mod tests {
    use super::{Base, Tracker};
    use crate::PAGE_BYTES;

    #[test]
    fn a_page_that_returns_to_the_base_is_a_change() {
        let base = Base::new(&[7; 2 * PAGE_BYTES]);
        let mut memory = vec![7; 2 * PAGE_BYTES];
        let mut tracker = Tracker::new();
        memory[PAGE_BYTES] = 1;
        assert_eq!(tracker.changed(&base, &memory).iter().map(|(n, _)| *n).collect::<Vec<_>>(), [1]);
        tracker.commit();
        assert!(tracker.changed(&base, &memory).is_empty());
        memory[PAGE_BYTES] = 7;
        assert_eq!(tracker.changed(&base, &memory).iter().map(|(n, _)| *n).collect::<Vec<_>>(), [1]);
        assert!(base.differing(&memory).is_empty());
    }

    #[test]
    fn an_uncommitted_change_is_told_again() {
        let base = Base::new(&[0; PAGE_BYTES]);
        let memory = [&[0; PAGE_BYTES][..], &[3; PAGE_BYTES][..]].concat();
        let mut tracker = Tracker::new();
        assert_eq!(tracker.changed(&base, &memory).len(), 1);
        assert_eq!(tracker.changed(&base, &memory).len(), 1);
        tracker.commit();
        assert_eq!(tracker.changed(&base, &memory).len(), 0);
    }
}
