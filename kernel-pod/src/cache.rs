//! The pod's own copies of sleeping sessions: what makes a wake in place need no storage read.
//!
//! Equal pages of different copies are one page: a session's children, and sessions that did the same, cost what they changed.

use std::collections::hash_map::Entry as Slot;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use dormouse_engine::{Image, PAGE_BYTES, Page};
use dormouse_lifecycle::{Json, Owned};
use dormouse_protocol::event::EventBody;

use crate::record::SessionState;

/// What an entry costs beyond its pages, in bytes.
const ENTRY_OVERHEAD_BYTES: u64 = 4096;

/// A sleeping session: exactly what its head in the store says.
#[derive(Debug)]
pub(crate) struct Copy {
    /// Its memory.
    pub image: Image,
    /// The head that it is the memory of.
    pub owned: Owned,
    /// The record beside the memory.
    pub state: SessionState,
    /// Entries of the journal for the next commit.
    pub journal: Vec<Json>,
    /// Events for the next commit.
    pub events: Vec<EventBody>,
}

/// All copies, at most a number of bytes; the least recently used go first.
#[derive(Debug)]
pub(crate) struct Cache {
    bytes_max: u64,
    hasher: RandomState,
    inner: Mutex<Inner>,
}

/// What came of keeping a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Copies that had to go, this one among them if it is larger than the cache.
    pub evicted: u64,
    /// Bytes of all copies.
    pub bytes: u64,
}

#[derive(Debug, Default)]
struct Inner {
    copies: HashMap<String, Entry>,
    /// Uids by the time they came in; the map is the order of eviction.
    order: BTreeMap<u64, String>,
    pages: Pages,
    clock: u64,
}

#[derive(Debug)]
struct Entry {
    clock: u64,
    /// Of its pages, in their order.
    hashes: Vec<u64>,
    copy: Box<Copy>,
}

/// The pages of all copies, equal ones once.
#[derive(Debug, Default)]
struct Pages {
    /// By hash: each page with that hash, and how often it is used.
    known: HashMap<u64, Vec<(Page, u32)>>,
    /// How many there are.
    count: u64,
}

impl Cache {
    /// A cache of `bytes_max` bytes.
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { bytes_max, hasher: RandomState::new(), inner: Mutex::default() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a copy, at the cost of the oldest ones. One that is larger than the whole cache is not kept.
    pub(crate) fn put(&self, uid: &str, copy: Copy) -> Kept {
        let hashes: Vec<u64> = copy.image.pages.values().map(|page| self.hasher.hash_one(page.as_slice())).collect();
        let mut inner = self.lock();
        inner.remove(uid);
        inner.insert(uid, hashes, Box::new(copy));
        let mut evicted = 0;
        while inner.bytes() > self.bytes_max {
            let Some(oldest) = inner.order.values().next().cloned() else { break };
            inner.remove(&oldest);
            evicted += 1;
        }
        Kept { evicted, bytes: inner.bytes() }
    }

    /// Lets go of the least recently used half: the store has them all. The answer is whether there were any.
    pub(crate) fn halve(&self) -> bool {
        let mut inner = self.lock();
        let had_copies = !inner.copies.is_empty();
        let goal = inner.bytes() / 2;
        while inner.bytes() > goal {
            let Some(oldest) = inner.order.values().next().cloned() else { break };
            inner.remove(&oldest);
        }
        had_copies
    }

    /// Takes a copy out.
    pub(crate) fn take(&self, uid: &str) -> Option<Box<Copy>> {
        self.lock().remove(uid)
    }

    #[cfg(test)]
    fn bytes(&self) -> u64 {
        self.lock().bytes()
    }
}

impl Inner {
    fn bytes(&self) -> u64 {
        self.pages.count * PAGE_BYTES as u64 + self.copies.len() as u64 * ENTRY_OVERHEAD_BYTES
    }

    fn insert(&mut self, uid: &str, hashes: Vec<u64>, mut copy: Box<Copy>) {
        for (page, hash) in copy.image.pages.values_mut().zip(&hashes) {
            self.pages.share(*hash, page);
        }
        self.clock += 1;
        self.order.insert(self.clock, uid.to_owned());
        self.copies.insert(uid.to_owned(), Entry { clock: self.clock, hashes, copy });
    }

    fn remove(&mut self, uid: &str) -> Option<Box<Copy>> {
        let Entry { clock, hashes, copy } = self.copies.remove(uid)?;
        self.order.remove(&clock);
        for (page, hash) in copy.image.pages.values().zip(hashes) {
            self.pages.release(hash, page);
        }
        Some(copy)
    }
}

impl Pages {
    /// Makes `page` the one that is known with these bytes, or known.
    fn share(&mut self, hash: u64, page: &mut Page) {
        let same = self.known.entry(hash).or_default();
        if let Some((known, uses)) = same.iter_mut().find(|(known, _)| known == page) {
            *page = Arc::clone(known);
            *uses += 1;
        } else {
            same.push((Arc::clone(page), 1));
            self.count += 1;
        }
    }

    fn release(&mut self, hash: u64, page: &Page) {
        let Slot::Occupied(mut same) = self.known.entry(hash) else { return };
        let Some(at) = same.get().iter().position(|(known, _)| Arc::ptr_eq(known, page)) else { return };
        if let Some((_, uses)) = same.get_mut().get_mut(at) {
            *uses -= 1;
            if *uses > 0 {
                return;
            }
        }
        same.get_mut().swap_remove(at);
        self.count -= 1;
        if same.get().is_empty() {
            same.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use dormouse_engine::HostState;
    use dormouse_lifecycle::{SessionKey, TopLayer};

    use super::*;

    fn copy(pages: &[u8]) -> Copy {
        let page = |(number, fill): (u32, &u8)| (number, Arc::new([*fill; PAGE_BYTES]));
        let image =
            Image { memory_pages: 16, globals: BTreeMap::new(), host: HostState::default(), pages: (0..).zip(pages).map(page).collect() };
        let session =
            SessionKey { store_prefix: String::new(), tenant: "t".into(), pool: "default".into(), uid: "u".into(), name: "n".into() };
        let assignment = dormouse_protocol::kernel::Assignment {
            namespace: "t".into(),
            name: "n".into(),
            uid: "u".into(),
            epoch: 1,
            boot: String::new(),
            generation: 1,
            spec: dormouse_crds::session::KernelSessionSpec::default(),
            source_uid: None,
            anchor: None,
            source_anchor: None,
        };
        Copy {
            image,
            owned: Owned { session, epoch: 1, head: None, etag: None, top_layer: TopLayer::default() },
            state: SessionState::fresh(&assignment),
            journal: Vec::new(),
            events: Vec::new(),
        }
    }

    const PAGE: u64 = PAGE_BYTES as u64;

    #[test]
    fn the_oldest_copy_goes_when_one_more_byte_is_needed() {
        let two = 2 * (ENTRY_OVERHEAD_BYTES + 2 * PAGE);
        let cache = Cache::new(two);
        assert_eq!(cache.put("a", copy(&[1, 2])), Kept { evicted: 0, bytes: two / 2 });
        assert_eq!(cache.put("b", copy(&[3, 4])), Kept { evicted: 0, bytes: two }, "exactly as many bytes as fit");
        let a = cache.take("a").unwrap();
        assert_eq!(cache.put("a", *a), Kept { evicted: 0, bytes: two }, "`a` was used, and came back");
        assert_eq!(cache.put("c", copy(&[5])), Kept { evicted: 1, bytes: two - PAGE });
        assert!(cache.take("b").is_none() && cache.take("a").is_some() && cache.take("c").is_some());
        assert_eq!(cache.bytes(), 0);
        let larger = Cache::new(two / 2 - 1);
        assert_eq!(larger.put("a", copy(&[1, 2])), Kept { evicted: 1, bytes: 0 });
        assert!(larger.take("a").is_none());
    }

    #[test]
    fn equal_pages_are_one_page() {
        let cache = Cache::new(1 << 20);
        cache.put("parent", copy(&[1, 2, 3]));
        for (child, own) in [("a", 11), ("b", 12), ("c", 13)] {
            cache.put(child, copy(&[1, 2, 3, own]));
        }
        assert_eq!(cache.bytes(), 6 * PAGE + 4 * ENTRY_OVERHEAD_BYTES, "three of the parent's, and one of each child's own");
        let [a, b] = ["a", "b"].map(|child| cache.take(child).unwrap());
        assert!(Arc::ptr_eq(&a.image.pages[&1], &b.image.pages[&1]) && a.image.pages[&3] != b.image.pages[&3]);
        assert_eq!(cache.bytes(), 4 * PAGE + 2 * ENTRY_OVERHEAD_BYTES);
        cache.take("parent");
        let c = cache.take("c").unwrap();
        assert_eq!((cache.bytes(), c.image.pages.values().map(|page| page[0]).collect::<Vec<_>>()), (0, vec![1, 2, 3, 13]));
        assert!(cache.lock().pages.known.is_empty());
    }
}
