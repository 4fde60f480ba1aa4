//! Unpacked packages by the integrity of their tarballs, the least recently used of which go first.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use super::tarball::Unpacked;

/// Bytes of sources that are kept.
const CACHE_BYTES_MAX: usize = 128 << 20;

/// The cache.
#[derive(Debug)]
pub(super) struct Cache {
    entries: HashMap<String, (u64, Arc<Unpacked>)>,
    /// Integrities by when they were used last.
    used: BTreeMap<u64, String>,
    clock: u64,
    bytes: usize,
    bytes_max: usize,
}

impl Default for Cache {
    fn default() -> Self {
        Self { entries: HashMap::new(), used: BTreeMap::new(), clock: 0, bytes: 0, bytes_max: CACHE_BYTES_MAX }
    }
}

impl Cache {
    pub(super) fn find(&mut self, integrity: &str) -> Option<Arc<Unpacked>> {
        let (at, found) = self.entries.get_mut(integrity)?;
        self.clock += 1;
        self.used.remove(at);
        self.used.insert(self.clock, integrity.to_owned());
        *at = self.clock;
        Some(Arc::clone(found))
    }

    pub(super) fn keep(&mut self, integrity: &str, unpacked: &Arc<Unpacked>) {
        if self.find(integrity).is_some() || unpacked.bytes > self.bytes_max {
            return;
        }
        self.clock += 1;
        self.bytes += unpacked.bytes;
        self.used.insert(self.clock, integrity.to_owned());
        self.entries.insert(integrity.to_owned(), (self.clock, Arc::clone(unpacked)));
        while self.bytes > self.bytes_max {
            let Some((_, oldest)) = self.used.pop_first() else { return };
            self.bytes -= self.entries.remove(&oldest).map_or(0, |(_, gone)| gone.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let mut cache = Cache { bytes_max: 20, ..Cache::default() };
        let of = |bytes| Arc::new(Unpacked { bytes, ..Unpacked::default() });
        cache.keep("a", &of(10));
        cache.keep("b", &of(10));
        assert!(cache.find("a").is_some());
        cache.keep("c", &of(1));
        assert!(cache.find("b").is_none() && cache.find("a").is_some() && cache.find("c").is_some());
        cache.keep("d", &of(21));
        assert!(cache.find("d").is_none() && cache.find("a").is_some(), "what is larger than all of it is not kept");
        assert_eq!(cache.bytes, 11);
    }
}
