//! The store, the heap that a session is, and chance.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use bytes::Bytes;
use dormouse_lifecycle::{Condition, Head, Json, PAGE_BYTES, Page, Reply, SessionKey, assemble, keys};

/// Numbers of pages.
const PAGES: u64 = 48;

pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
    pub fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 16) % n
    }
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

pub type Violation = String;

#[derive(Clone)]
pub struct Put {
    pub key: String,
    pub bytes: Bytes,
    pub condition: Condition,
}

#[derive(Default)]
pub struct Store {
    pub objects: BTreeMap<String, (Bytes, String)>,
    pub late: VecDeque<Put>,
    pub writes: u64,
    pub versions: BTreeMap<String, (u64, u64)>,
}

impl Store {
    pub fn put(&mut self, put: &Put) -> Result<Reply, Violation> {
        let now = self.objects.get(&put.key).map(|(_, etag)| etag);
        let holds = match &put.condition {
            Condition::Absent => now.is_none(),
            Condition::Matches(etag) => now == Some(etag),
        };
        if !holds {
            return Ok(Reply::Refused);
        }
        if keys::is_head(&put.key) {
            let head = Head::decode(&put.bytes).map_err(|e| e.to_string())?;
            let known = self.versions.entry(put.key.clone()).or_default();
            if head.version() <= *known {
                return Err(format!("version went from {known:?} to {:?}", head.version()));
            }
            *known = head.version();
            if let Some(missing) = head.named_keys().find(|key| !self.objects.contains_key(*key)) {
                return Err(format!("{missing} is named by {:?} and not there", head.version()));
            }
        }
        self.writes += 1;
        let etag = self.writes.to_string();
        self.objects.insert(put.key.clone(), (put.bytes.clone(), etag.clone()));
        Ok(Reply::Stored { etag })
    }

    pub fn head(&self, session: &SessionKey) -> Option<(Head, String)> {
        self.objects.get(&session.head()).map(|(bytes, etag)| (Head::decode(bytes).unwrap(), etag.clone()))
    }

    pub fn bytes(&self, key: &str) -> Result<Bytes, Violation> {
        self.objects.get(key).map(|(bytes, _)| bytes.clone()).ok_or_else(|| format!("{key} is gone"))
    }

    /// The heap that `head` is.
    pub fn heap(&self, head: &Head) -> Result<Heap, Violation> {
        let segments: Vec<Bytes> = head.segments.iter().map(|segment| self.bytes(&segment.key)).collect::<Result<_, _>>()?;
        let pages = assemble(head, &segments).map_err(|e| e.to_string())?;
        let cells: Vec<u64> = head.state.read().map_err(|e| e.to_string())?;
        if Heap::replay(&cells).pages != pages {
            return Err(format!("pages of {:?} are not those of its cells", head.version()));
        }
        Ok(Heap { cells, pages })
    }

    /// Every entry that `head` still tells, and whether the oldest are gone by design.
    pub fn journal(&self, head: &Head) -> Result<Vec<Json>, Violation> {
        let mut all = Vec::new();
        let mut next = head.journal.segments.first().map_or(head.journal.tail_first(), |first| first.first);
        for segment in &head.journal.segments {
            let read = segment.open(&self.bytes(&segment.key)?).map_err(|e| e.to_string())?;
            if read.first != next {
                return Err(format!("the journal jumps from {next} to {}", read.first));
            }
            next += read.entries.len() as u64;
            all.extend(read.entries);
        }
        if head.journal.tail_first() != next {
            return Err(format!("the journal's tail begins at {} and not at {next}", head.journal.tail_first()));
        }
        all.extend(head.journal.tail.clone());
        Ok(all)
    }
}

#[derive(Clone, Default, PartialEq)]
pub struct Heap {
    pub cells: Vec<u64>,
    pub pages: BTreeMap<u32, Page>,
}

impl Heap {
    pub fn run(&mut self, id: u64) -> BTreeSet<u32> {
        self.cells.push(id);
        let mut random = Random(id.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let most = if random.one_in(6) { 30 } else { 4 };
        let count = 1 + random.below(most);
        let numbers: BTreeSet<u32> = (0..count).map(|_| random.below(PAGES) as u32).collect();
        for number in &numbers {
            self.pages.insert(*number, Arc::new(std::array::from_fn::<u8, PAGE_BYTES, _>(|_| random.next() as u8)));
        }
        numbers
    }

    pub fn replay(cells: &[u64]) -> Self {
        let mut heap = Self::default();
        for id in cells {
            heap.run(*id);
        }
        heap
    }
}
