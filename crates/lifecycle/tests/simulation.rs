//! Owners, crashes, lost and late replies, garbage collection: by seed, against a model of the store.
//!
//! Checked at every head that is written and at every restore: a head's version strictly grows, an epoch has one writer, a restore holds
//! everything that was acknowledged before it and exactly the pages that belong to that. The checkers are checked by stores that lie.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use bytes::Bytes;
use dormouse_lifecycle::{
    Acquire, Change, Commit, Condition, Head, Owned, PAGE_BYTES, Page, Reply, SessionKey, Step, acquire, assemble, commit, keys, sweep,
};

const SEEDS: u64 = 80;
const ACTIONS: usize = 400;
const OWNERS_MAX: usize = 3;
const PAGES: u64 = 48;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
    fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 16) % n
    }
    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// How a store lies.
#[derive(Clone, Copy, PartialEq)]
enum Lie {
    None,
    IgnoresConditions,
    AcksWithoutStoring,
}

#[derive(Clone, Debug)]
struct Put {
    key: String,
    bytes: Bytes,
    condition: Option<Condition>,
}

struct Store {
    objects: BTreeMap<String, (Bytes, String)>,
    /// PUTs whose reply was lost and that may still take place.
    late: VecDeque<Put>,
    writes: u64,
    lie: Lie,
    version: (u64, u64),
    put_ids: BTreeMap<(u64, u64), String>,
}

type Violation = String;

impl Store {
    fn put(&mut self, put: &Put) -> Result<Reply, Violation> {
        let now = self.objects.get(&put.key).map(|(_, etag)| etag);
        let holds = match &put.condition {
            None => true,
            Some(Condition::Absent) => now.is_none(),
            Some(Condition::Matches(etag)) => now == Some(etag),
        };
        if !holds && self.lie != Lie::IgnoresConditions {
            return Ok(Reply::Refused);
        }
        self.writes += 1;
        let etag = self.writes.to_string();
        if self.lie == Lie::AcksWithoutStoring && self.writes.is_multiple_of(7) {
            return Ok(Reply::Stored { etag });
        }
        if keys::is_head(&put.key) {
            self.check_head(&put.bytes)?;
        }
        self.objects.insert(put.key.clone(), (put.bytes.clone(), etag.clone()));
        Ok(Reply::Stored { etag })
    }

    fn check_head(&mut self, bytes: &[u8]) -> Result<(), Violation> {
        let head = Head::decode(bytes).map_err(|e| e.to_string())?;
        if head.version() <= self.version {
            return Err(format!("version went from {:?} to {:?}", self.version, head.version()));
        }
        self.version = head.version();
        self.put_ids.insert(head.version(), head.put_id.clone());
        for segment in &head.segments {
            if !self.objects.contains_key(&segment.key) {
                return Err(format!("{} is named and not there", segment.key));
            }
        }
        Ok(())
    }

    fn head(&self, key: &str) -> Option<(Head, String)> {
        self.objects.get(key).map(|(bytes, etag)| (Head::decode(bytes).unwrap(), etag.clone()))
    }
}

/// The session as the process that runs it knows it: the cells that have run, and the pages that follow from them.
#[derive(Clone, Default, PartialEq)]
struct Heap {
    cells: Vec<u64>,
    pages: BTreeMap<u32, Page>,
}

impl Heap {
    /// Runs cell `id`: changes some pages, as a function of the id only.
    fn run(&mut self, id: u64) -> BTreeSet<u32> {
        self.cells.push(id);
        let mut random = Random(id.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let most = if random.one_in(6) { 30 } else { 4 };
        let count = 1 + random.below(most);
        let numbers: BTreeSet<u32> = (0..count).map(|_| random.below(PAGES) as u32).collect();
        for number in &numbers {
            let page: Page = Arc::new(std::array::from_fn::<u8, PAGE_BYTES, _>(|_| random.next() as u8));
            self.pages.insert(*number, page);
        }
        numbers
    }

    fn replay(cells: &[u64]) -> Self {
        let mut heap = Self::default();
        for id in cells {
            heap.run(*id);
        }
        heap
    }
}

struct Owner {
    owned: Owned,
    heap: Heap,
    /// Pages changed since the last commit.
    dirty: BTreeSet<u32>,
    /// A commit under way: the machine, its step, and the cells it will ack.
    pending: Option<(Commit, Step)>,
    gone: bool,
}

struct World {
    random: Random,
    store: Store,
    owners: Vec<Owner>,
    epoch: u64,
    next_cell: u64,
    next_put: u64,
    acked: Vec<u64>,
    garbage_view: Option<(Head, Vec<String>)>,
}

fn session() -> SessionKey {
    SessionKey { store_prefix: "p/".into(), tenant: "team".into(), uid: "u".into(), name: "n".into() }
}

impl World {
    fn new(seed: u64, lie: Lie) -> Self {
        let store = Store { objects: BTreeMap::new(), late: VecDeque::new(), writes: 0, lie, version: (0, 0), put_ids: BTreeMap::new() };
        Self {
            random: Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            store,
            owners: Vec::new(),
            epoch: 0,
            next_cell: 0,
            next_put: 0,
            acked: Vec::new(),
            garbage_view: None,
        }
    }

    /// Reads the store as a process does that is assigned `epoch`, and checks what it finds.
    fn restore(&self, epoch: u64) -> Result<Option<Owner>, Violation> {
        let stored = self.store.head(&session().head()).map(|(head, etag)| (Ok(head), etag));
        let owned = match acquire::acquire(session(), epoch, stored) {
            Acquire::Fresh(owned) | Acquire::Restore(owned) => owned,
            Acquire::Stale { .. } => return Ok(None),
            other => return Err(format!("{other:?}")),
        };
        let heap = match &owned.head {
            None => Heap::default(),
            Some(head) => {
                let segments: Vec<Bytes> = head
                    .segments
                    .iter()
                    .map(|s| self.store.objects.get(&s.key).map(|(b, _)| b.clone()).ok_or_else(|| format!("{} is gone", s.key)))
                    .collect::<Result<_, _>>()?;
                let pages = assemble(head, &segments).map_err(|e| e.to_string())?;
                let cells: Vec<u64> = serde_json::from_value(head.state.clone()).map_err(|e| e.to_string())?;
                if Heap::replay(&cells).pages != pages {
                    return Err(format!("pages of {:?} are not those of its cells", head.version()));
                }
                Heap { cells, pages }
            }
        };
        match self.acked.iter().find(|id| !heap.cells.contains(id)) {
            Some(lost) => Err(format!("cell {lost} was acked and is not in {:?}", owned.head.as_ref().map(|h| h.version()))),
            None => Ok(Some(Owner { owned, heap, dirty: BTreeSet::new(), pending: None, gone: false })),
        }
    }

    fn act(&mut self) -> Result<(), Violation> {
        match self.random.below(24) {
            0 => self.take_over()?,
            1 => {
                // A crash.
                if !self.owners.is_empty() {
                    let at = self.random.below(self.owners.len() as u64) as usize;
                    self.owners.remove(at);
                }
            }
            2 => self.late_put()?,
            3 => self.collect_garbage(),
            _ => self.step_owner()?,
        }
        Ok(())
    }

    fn take_over(&mut self) -> Result<(), Violation> {
        self.epoch += 1;
        if let Some(owner) = self.restore(self.epoch)? {
            self.owners.push(owner);
        }
        if self.owners.len() > OWNERS_MAX {
            self.owners.remove(0);
        }
        Ok(())
    }

    fn late_put(&mut self) -> Result<(), Violation> {
        match self.store.late.pop_front() {
            Some(put) => self.store.put(&put).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Reads the head, lists, and deletes at some later turn.
    fn collect_garbage(&mut self) {
        match self.garbage_view.take() {
            Some((head, listed)) => {
                for key in sweep::deletable(&listed, &head) {
                    self.store.objects.remove(key);
                }
            }
            None => {
                let Some((head, _)) = self.store.head(&session().head()) else { return };
                self.garbage_view = Some((head, self.store.objects.keys().cloned().collect()));
            }
        }
    }

    fn step_owner(&mut self) -> Result<(), Violation> {
        if self.owners.is_empty() {
            return Ok(());
        }
        let at = self.random.below(self.owners.len() as u64) as usize;
        let mut owner = self.owners.swap_remove(at);
        match owner.pending.take() {
            None => self.eval(&mut owner),
            Some((machine, step)) => self.advance(&mut owner, machine, step)?,
        }
        if !owner.gone {
            self.owners.push(owner);
        }
        Ok(())
    }

    fn eval(&mut self, owner: &mut Owner) {
        self.next_cell += 1;
        let changed = owner.heap.run(self.next_cell);
        owner.dirty.extend(changed);
        let full = commit::wants_full_image(&owner.owned);
        let pages = owner.heap.pages.iter().filter(|(n, _)| full || owner.dirty.contains(n)).map(|(n, p)| (*n, Arc::clone(p))).collect();
        let change = Change {
            full,
            pages,
            memory_pages: 4,
            globals: serde_json::Value::Null,
            state: serde_json::to_value(&owner.heap.cells).unwrap(),
            engine_digest: String::new(),
            time: String::new(),
        };
        self.next_put += 1;
        owner.pending = Some(Commit::begin(&owner.owned, change, self.next_put.to_string()));
    }

    /// Does `step`, with faults, and asks for the next.
    fn advance(&mut self, owner: &mut Owner, mut machine: Commit, step: Step) -> Result<(), Violation> {
        let put = match &step {
            Step::PutSegment { key, bytes } => Some(Put { key: key.clone(), bytes: bytes.clone(), condition: Some(Condition::Absent) }),
            Step::PutHead { key, bytes, condition } => {
                Some(Put { key: key.clone(), bytes: bytes.clone(), condition: Some(condition.clone()) })
            }
            Step::GetHead { .. } => None,
            other => return Err(format!("not a step to do: {other:?}")),
        };
        let reply = match put {
            Some(put) => self.faulty_put(put)?,
            None if self.random.one_in(8) => Reply::Unknown,
            None => Reply::Head(self.store.head(&session().head()).map(|(head, etag)| (Arc::new(head), etag))),
        };
        match machine.on(reply) {
            Step::Resend => owner.pending = Some((machine, step)),
            Step::Committed(owned) => {
                let head = owned.head.clone().unwrap();
                if self.store.put_ids.get(&head.version()) != Some(&head.put_id) {
                    return Err(format!("{:?} was committed and not stored", head.version()));
                }
                self.acked.push(*owner.heap.cells.last().unwrap());
                owner.owned = owned;
                owner.dirty.clear();
            }
            Step::Zombie { epoch } => {
                assert!(epoch > owner.owned.epoch);
                owner.gone = true;
            }
            Step::Superseded { .. } => match self.restore(owner.owned.epoch)? {
                Some(restored) => *owner = restored,
                None => owner.gone = true,
            },
            step @ (Step::Deleted | Step::Failed(_)) => return Err(format!("{step:?} without a cause")),
            step => owner.pending = Some((machine, step)),
        }
        Ok(())
    }

    fn faulty_put(&mut self, put: Put) -> Result<Reply, Violation> {
        match self.random.below(12) {
            // Lost on the way there; it may still arrive.
            0 => {
                if self.random.one_in(2) {
                    self.store.late.push_back(put);
                }
                Ok(Reply::Unknown)
            }
            // Lost on the way back.
            1 => self.store.put(&put).map(|_| Reply::Unknown),
            2 => Ok(Reply::Conflicted),
            _ => self.store.put(&put),
        }
    }
}

fn run(seed: u64, lie: Lie) -> Result<(usize, bool), Violation> {
    let mut world = World::new(seed, lie);
    world.take_over()?;
    for _ in 0..ACTIONS {
        world.act()?;
    }
    // Whatever is left, a last owner finds everything that was ever acked.
    world.take_over()?;
    let compacted = world.store.head(&session().head()).is_some_and(|(head, _)| !head.segments.is_empty());
    Ok((world.acked.len(), compacted))
}

#[test]
fn acknowledged_cells_survive_every_fault() {
    let (mut acked, mut with_segments) = (0, 0);
    for seed in 1..=SEEDS {
        let (cells, segments) = run(seed, Lie::None).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        acked += cells;
        with_segments += usize::from(segments);
    }
    // The simulation is worth something only if it gets somewhere.
    assert!(acked as u64 > SEEDS * 20, "only {acked} cells were acked");
    assert!(with_segments as u64 > SEEDS / 4, "only {with_segments} runs had segments");
}

#[test]
fn a_store_that_ignores_conditions_is_caught() {
    assert!((1..=SEEDS).any(|seed| run(seed, Lie::IgnoresConditions).is_err()));
}

#[test]
fn a_store_that_acknowledges_what_it_does_not_store_is_caught() {
    assert!((1..=SEEDS).any(|seed| run(seed, Lie::AcksWithoutStoring).is_err()));
}
