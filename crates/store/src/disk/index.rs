//! What lies in the folder, in the order in which it was last used. Pure.

use std::collections::{BTreeMap, HashMap};

/// Files by name, at most a number of bytes; the least recently used go first.
#[derive(Debug)]
pub(super) struct Index {
    bytes_max: u64,
    bytes: u64,
    clock: u64,
    files: HashMap<String, Entry>,
    order: BTreeMap<u64, String>,
}

#[derive(Debug)]
struct Entry {
    bytes: u64,
    used: u64,
    /// Of its content, once it has been written to its end.
    sha256: Option<Digest>,
}

/// A sha256.
pub(super) type Digest = [u8; 32];

impl Index {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self { bytes_max, bytes: 0, clock: 0, files: HashMap::new(), order: BTreeMap::new() }
    }

    /// Bytes of all files, those being written among them.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Sets room aside for a file that is about to be written. Answers what has to go for it; `None` when it is there, or does not fit.
    pub(super) fn reserve(&mut self, name: &str, bytes: u64) -> Option<Vec<String>> {
        if bytes > self.bytes_max || self.files.contains_key(name) {
            return None;
        }
        let mut gone = Vec::new();
        while self.bytes + bytes > self.bytes_max {
            let (_, oldest) = self.order.pop_first()?;
            if let Some(entry) = self.files.remove(&oldest) {
                self.bytes -= entry.bytes;
            }
            gone.push(oldest);
        }
        self.bytes += bytes;
        let used = self.tick(name);
        self.files.insert(name.to_owned(), Entry { bytes, used, sha256: None });
        Some(gone)
    }

    /// The file is there now. `false`: something else has taken its room meanwhile.
    pub(super) fn written(&mut self, name: &str, sha256: Digest) -> bool {
        self.files.get_mut(name).map(|entry| entry.sha256 = Some(sha256)).is_some()
    }

    /// Bytes and digest of a file that is there; it is the last used one now.
    pub(super) fn use_of(&mut self, name: &str) -> Option<(u64, Digest)> {
        let (before, sha256) = self.files.get(name).and_then(|entry| Some((entry.used, entry.sha256?)))?;
        self.order.remove(&before);
        let used = self.tick(name);
        let entry = self.files.get_mut(name)?;
        entry.used = used;
        Some((entry.bytes, sha256))
    }

    /// Forgets a file. `false` when it is not known.
    pub(super) fn remove(&mut self, name: &str) -> bool {
        let Some(entry) = self.files.remove(name) else { return false };
        self.order.remove(&entry.used);
        self.bytes -= entry.bytes;
        true
    }

    fn tick(&mut self, name: &str) -> u64 {
        self.clock += 1;
        self.order.insert(self.clock, name.to_owned());
        self.clock
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(index: &mut Index, name: &str, bytes: u64) -> Option<Vec<String>> {
        let gone = index.reserve(name, bytes)?;
        assert!(index.written(name, [7; 32]));
        Some(gone)
    }

    #[test]
    fn the_least_recently_used_goes_at_the_edge_and_not_before() {
        let mut index = Index::new(100);
        assert_eq!(put(&mut index, "a", 40), Some(vec![]));
        assert_eq!(put(&mut index, "b", 60), Some(vec![]), "exactly as many bytes as fit");
        assert_eq!(index.use_of("a"), Some((40, [7; 32])));
        assert_eq!(put(&mut index, "c", 1), Some(vec!["b".to_owned()]), "one more byte, and `a` was used since");
        assert_eq!((index.bytes(), index.use_of("b")), (41, None));
        assert_eq!(put(&mut index, "d", 101), None, "larger than everything");
        assert_eq!(put(&mut index, "e", 100), Some(vec!["a".to_owned(), "c".to_owned()]));
        assert_eq!(put(&mut index, "e", 100), None, "it is there");
        assert!(index.remove("e") && !index.remove("e"));
        assert_eq!(index.bytes(), 0);
    }

    #[test]
    fn what_is_being_written_counts_and_is_not_read() {
        let mut index = Index::new(100);
        index.reserve("a", 60).unwrap();
        assert_eq!((index.bytes(), index.use_of("a")), (60, None));
        assert_eq!(index.reserve("b", 60), Some(vec!["a".to_owned()]));
        assert!(!index.written("a", [7; 32]), "its room is gone");
        assert!(index.written("b", [7; 32]));
        assert_eq!(index.use_of("b"), Some((60, [7; 32])));
    }
}
