//! What a session is in a process's memory: the cells that have run, and the pages that follow from them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, LazyLock},
};

use dormouse_lifecycle::{PAGE_BYTES, Page};
use serde::{Deserialize, Serialize};

use crate::random::Random;

/// Pages that cells write to.
pub const PAGES: usize = 32;

/// Pages that a large cell writes: more, compressed, than fit into a head.
const LARGE_CELL_PAGES: usize = 18;

/// Idempotency keys that a session remembers, as the kernel pod does.
pub const KEYS_REMEMBERED_MAX: usize = 32;

/// Bytes that do not compress.
static NOISE: LazyLock<Vec<[u8; PAGE_BYTES]>> = LazyLock::new(|| {
    let mut random = Random::new(7);
    let mut page = || {
        let mut page = [0; PAGE_BYTES];
        page.as_chunks_mut::<8>().0.iter_mut().for_each(|chunk| *chunk = random.next().to_le_bytes());
        page
    };
    (0..PAGES).map(|_| page()).collect()
});

/// What each cell writes, which is a function of the cell's number.
#[derive(Default)]
pub struct Cells {
    seed: u64,
    known: HashMap<u64, Vec<(u32, Page)>>,
}

impl Cells {
    pub fn new(seed: u64) -> Self {
        Self { seed, known: HashMap::new() }
    }

    pub fn writes(&mut self, cell: u64) -> &[(u32, Page)] {
        // In some runs every other cell is a large one, so that chains of segments grow and are compacted.
        let (seed, heavy) = (self.seed, self.seed % 8 == 1);
        self.known.entry(cell).or_insert_with(|| {
            let mut random = Random::new(seed.wrapping_mul(1 << 20).wrapping_add(cell));
            let large = random.one_in(if heavy { 2 } else { 20 });
            let count = if large { LARGE_CELL_PAGES } else { 1 + random.below(3) };
            let start = random.below(PAGES);
            (0..count)
                .map(|at| {
                    let number = (start + at) % PAGES;
                    let mut page = if large { NOISE[number] } else { [cell as u8; PAGE_BYTES] };
                    page[..8].copy_from_slice(&random.next().to_le_bytes());
                    (number as u32, Arc::new(page))
                })
                .collect()
        })
    }
}

/// The part of a session that rides in the head's manifest.
#[derive(Clone, Default, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Every cell that has run, in order.
    pub cells: Vec<u64>,
    /// Keys of the last cells that were run for a request that had one.
    pub keys: Vec<u64>,
    /// Tool calls made so far.
    pub calls: u64,
    /// Calls whose answer is not in the heap yet, with the cell that made them.
    pub pending: Vec<(u64, u64)>,
}

/// Cells and pages.
#[derive(Clone, Default)]
pub struct Heap {
    pub record: Record,
    pub pages: BTreeMap<u32, Page>,
}

impl Heap {
    /// Runs a cell. Answers the numbers of the pages that it changed.
    pub fn run(&mut self, cells: &mut Cells, cell: u64, key: Option<u64>) -> BTreeSet<u32> {
        self.record.cells.push(cell);
        self.record.keys.extend(key);
        let forgotten = self.record.keys.len().saturating_sub(KEYS_REMEMBERED_MAX);
        self.record.keys.drain(..forgotten);
        if cell.is_multiple_of(3) {
            self.record.calls += 1;
            self.record.pending.push((self.record.calls, cell));
        }
        let written = cells.writes(cell);
        self.pages.extend(written.iter().map(|(n, p)| (*n, Arc::clone(p))));
        written.iter().map(|(n, _)| *n).collect()
    }

    /// The pages that these cells leave.
    pub fn replay(cells: &mut Cells, ran: &[u64]) -> BTreeMap<u32, Page> {
        let mut pages = BTreeMap::new();
        for cell in ran {
            pages.extend(cells.writes(*cell).iter().map(|(n, p)| (*n, Arc::clone(p))));
        }
        pages
    }
}
