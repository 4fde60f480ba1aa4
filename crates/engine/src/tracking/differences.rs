//! Which pages have changed: against the base image by comparison, against the last commit by hash.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use xxhash_rust::xxh3::xxh3_128;

use crate::{PAGE_BYTES, Page};

/// A page of zeros.
pub(crate) static ZERO: [u8; PAGE_BYTES] = [0; PAGE_BYTES];

/// Stands for a page that equals the base image.
const AS_BASE: u128 = 0;

/// The memory of an instance that has run nothing.
#[derive(Clone)]
pub(crate) struct Base {
    pages: Arc<[[u8; PAGE_BYTES]]>,
    /// How many pages of zeros it begins with.
    zeros: usize,
}

impl Base {
    pub(crate) fn new(memory: &[u8]) -> Self {
        let pages: Arc<[[u8; PAGE_BYTES]]> = memory.as_chunks().0.into();
        let zeros = pages.iter().take_while(|page| **page == ZERO).count();
        Self { pages, zeros }
    }

    /// Pages of the base memory.
    pub(crate) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Whether it has zeros up to the end of this page.
    pub(crate) fn begins_with_zeros(&self, number: usize) -> bool {
        number < self.zeros
    }

    fn page(&self, number: usize) -> &[u8; PAGE_BYTES] {
        self.pages.get(number).unwrap_or(&ZERO)
    }

    /// The difference of a page to the base; `None` when there is none.
    fn difference(&self, number: usize, page: &[u8; PAGE_BYTES]) -> Option<Page> {
        let base = self.page(number);
        (page != base).then(|| exclusive_or(page, base))
    }

    /// Writes the page that has this difference to the base.
    pub(crate) fn apply(&self, number: usize, difference: &[u8; PAGE_BYTES], to: &mut [u8; PAGE_BYTES]) {
        // Only written to, never read: a page that was not touched yet takes one fault then, not two.
        for ((to, base), difference) in to.iter_mut().zip(self.page(number)).zip(difference) {
            *to = base ^ difference;
        }
    }

    /// The differences of `pages` of `memory` that are not as the base.
    pub(crate) fn differing(&self, memory: &[u8], pages: &[usize]) -> BTreeMap<u32, Page> {
        let (memory, _) = memory.as_chunks();
        let difference = |number: &usize| Some((u32::try_from(*number).ok()?, self.difference(*number, memory.get(*number)?)?));
        pages.iter().filter_map(difference).collect()
    }

    /// The page that differs from the base by this.
    pub(crate) fn content(&self, number: u32, difference: &[u8; PAGE_BYTES]) -> Page {
        exclusive_or(difference, self.page(number as usize))
    }
}

fn exclusive_or(page: &[u8; PAGE_BYTES], base: &[u8; PAGE_BYTES]) -> Page {
    // Where it will be: a page on the stack would be copied there.
    let mut difference = Arc::new(ZERO);
    for ((to, page), base) in Arc::make_mut(&mut difference).iter_mut().zip(page).zip(base) {
        *to = page ^ base;
    }
    difference
}

/// What has been found of the pages that were looked at so far.
#[derive(Default)]
pub(crate) struct Look {
    changed: Vec<(u32, Page)>,
    /// What they are now.
    seen: Vec<(u32, u128)>,
}

/// The state at the last commit of every page that was not as the base then.
pub(crate) struct Tracker {
    committed: HashMap<u32, u128>,
    seen: Option<Vec<(u32, u128)>>,
}

impl Tracker {
    /// Nothing differs from the base.
    pub(crate) fn new() -> Self {
        Self { committed: HashMap::new(), seen: None }
    }

    /// Pages that differed from the base at the last commit.
    pub(crate) fn committed_pages(&self) -> usize {
        self.committed.len()
    }

    /// Whether a page differed from the base at the last commit.
    pub(crate) fn differed(&self, number: usize) -> bool {
        u32::try_from(number).is_ok_and(|number| self.committed.contains_key(&number))
    }

    /// Finds the differences to the base of those `pages` that are not as at the last commit.
    pub(crate) fn look(&self, look: &mut Look, base: &Base, memory: &[u8], pages: &[usize]) {
        let (memory, _) = memory.as_chunks();
        for &number in pages {
            let (Some(page), Ok(key)) = (memory.get(number), u32::try_from(number)) else { continue };
            // The base is read for pages that have changed only: most of those that a session has are as they were.
            let now = match self.committed.get(&key) {
                Some(before) => match hash(page) {
                    now if now == *before => continue,
                    _ if page == base.page(number) => AS_BASE,
                    now => now,
                },
                None if page == base.page(number) => continue,
                None => hash(page),
            };
            look.changed.push((key, exclusive_or(page, base.page(number))));
            look.seen.push((key, now));
        }
    }

    /// The look is over: what it has found, in the order of the pages.
    pub(crate) fn looked(&mut self, look: Look) -> Vec<(u32, Page)> {
        self.seen = Some(look.seen);
        look.changed
    }

    /// Those `pages` that are as the base, and were at the last commit.
    pub(crate) fn unused(&self, base: &Base, memory: &[u8], pages: impl Iterator<Item = usize>) -> Vec<usize> {
        let (memory, _) = memory.as_chunks();
        pages.filter(|number| !self.differed(*number) && memory.get(*number).is_some_and(|page| page == base.page(*number))).collect()
    }

    /// What the last look saw is committed.
    pub(crate) fn commit(&mut self) {
        for (number, now) in self.seen.take().unwrap_or_default() {
            self.note(number, now);
        }
    }

    /// A page is committed as it is.
    pub(crate) fn restored(&mut self, base: &Base, number: u32, page: &[u8; PAGE_BYTES]) {
        self.note(number, state(base, number as usize, page));
    }

    fn note(&mut self, number: u32, now: u128) {
        if now == AS_BASE {
            self.committed.remove(&number);
        } else {
            self.committed.insert(number, now);
        }
    }
}

fn state(base: &Base, number: usize, page: &[u8; PAGE_BYTES]) -> u128 {
    if page == base.page(number) { AS_BASE } else { hash(page) }
}

fn hash(page: &[u8; PAGE_BYTES]) -> u128 {
    xxh3_128(page).max(1)
}

#[cfg(test)]
mod tests {
    use super::{Base, Look, Tracker};
    use crate::PAGE_BYTES;

    fn numbers(tracker: &mut Tracker, base: &Base, memory: &[u8]) -> Vec<u32> {
        let (all, mut look) = ((0..memory.len() / PAGE_BYTES).collect::<Vec<_>>(), Look::default());
        tracker.look(&mut look, base, memory, &all);
        tracker.looked(look).iter().map(|(number, _)| *number).collect()
    }

    #[test]
    fn a_page_that_returns_to_the_base_is_a_change() {
        let base = Base::new(&[7; 2 * PAGE_BYTES]);
        let mut memory = vec![7; 2 * PAGE_BYTES];
        let mut tracker = Tracker::new();
        memory[PAGE_BYTES] = 1;
        assert_eq!(numbers(&mut tracker, &base, &memory), [1]);
        tracker.commit();
        assert!(numbers(&mut tracker, &base, &memory).is_empty());
        memory[PAGE_BYTES] = 7;
        assert_eq!(numbers(&mut tracker, &base, &memory), [1]);
        assert!(base.differing(&memory, &[0, 1]).is_empty());
    }

    #[test]
    fn an_uncommitted_change_is_told_again() {
        let base = Base::new(&[0; PAGE_BYTES]);
        let memory = [&[0; PAGE_BYTES][..], &[3; PAGE_BYTES][..]].concat();
        let mut tracker = Tracker::new();
        assert_eq!(numbers(&mut tracker, &base, &memory), [1]);
        assert_eq!(numbers(&mut tracker, &base, &memory), [1]);
        tracker.commit();
        assert!(numbers(&mut tracker, &base, &memory).is_empty());
    }

    #[test]
    fn a_difference_laid_over_the_base_is_the_page() {
        let base = Base::new(&[5; PAGE_BYTES]);
        let mut memory = [5; 2 * PAGE_BYTES];
        memory[3] = 9;
        memory[PAGE_BYTES + 1] = 2;
        let mut again = [0xff; 2 * PAGE_BYTES];
        for (number, page) in base.differing(&memory, &[0, 1]) {
            base.apply(number as usize, &page, &mut again.as_chunks_mut().0[number as usize]);
        }
        assert_eq!(again, memory);
    }
}
