//! Checkpoints, time travel, forks and the journal: by seed, under crashes, takeovers, lost and late replies and garbage collection.
//!
//! Checked at every head that is written: everything it names is there. Checked at every look: each listed checkpoint opens to exactly the pages of
//! its cells, the journal has no gap and tells every acknowledged commit once, whatever was acknowledged last is what a restore finds. The
//! checkers are checked by processes that do it wrong.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use bytes::Bytes;
use dormouse_lifecycle::{
    Acquire, Annex, Change, Commit, Condition, Head, Owned, PAGE_BYTES, Page, Reply, SessionKey, Step, acquire, assemble,
    checkpoint::{self, Mark, Subject},
    commit, fork, keys, sweep,
};
use serde_json::{Value, json};

const SEEDS: u64 = 60;
const ACTIONS: usize = 500;
const OWNERS_MAX: usize = 2;
const SESSIONS_MAX: usize = 4;
const PAGES: u64 = 48;
const KEEP: u32 = 3;

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

/// What a process does wrong.
#[derive(Clone, Copy, PartialEq)]
enum Mutant {
    None,
    /// Garbage collection looks at the chain of segments only.
    CollectsCheckpoints,
    /// A fork names its parent's segments instead of copies.
    ForksByReference,
    /// A restore puts the checkpoint's own head back, lists and journal with it.
    RestoresWholeHead,
    /// The journal's object is taken for put when its reply was lost.
    DropsAside,
}

type Violation = String;

#[derive(Clone)]
struct Put {
    key: String,
    bytes: Bytes,
    condition: Condition,
}

#[derive(Default)]
struct Store {
    objects: BTreeMap<String, (Bytes, String)>,
    late: VecDeque<Put>,
    writes: u64,
    versions: BTreeMap<String, (u64, u64)>,
}

impl Store {
    fn put(&mut self, put: &Put) -> Result<Reply, Violation> {
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

    fn head(&self, session: &SessionKey) -> Option<(Head, String)> {
        self.objects.get(&session.head()).map(|(bytes, etag)| (Head::decode(bytes).unwrap(), etag.clone()))
    }

    fn bytes(&self, key: &str) -> Result<Bytes, Violation> {
        self.objects.get(key).map(|(bytes, _)| bytes.clone()).ok_or_else(|| format!("{key} is gone"))
    }

    /// The heap that `head` is.
    fn heap(&self, head: &Head) -> Result<Heap, Violation> {
        let segments: Vec<Bytes> = head.segments.iter().map(|segment| self.bytes(&segment.key)).collect::<Result<_, _>>()?;
        let pages = assemble(head, &segments).map_err(|e| e.to_string())?;
        let cells: Vec<u64> = serde_json::from_value(head.state.clone()).map_err(|e| e.to_string())?;
        if Heap::replay(&cells).pages != pages {
            return Err(format!("pages of {:?} are not those of its cells", head.version()));
        }
        Ok(Heap { cells, pages })
    }

    /// Every entry that `head` still tells, and whether the oldest are gone by design.
    fn journal(&self, head: &Head) -> Result<Vec<Value>, Violation> {
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
struct Heap {
    cells: Vec<u64>,
    pages: BTreeMap<u32, Page>,
}

impl Heap {
    fn run(&mut self, id: u64) -> BTreeSet<u32> {
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
    dirty: BTreeSet<u32>,
    pending: Option<(Commit, Step, Heap, u64)>,
    /// A fork whose copies are still to make, and the parent's state that it was planned from.
    plan: Option<(fork::Fork, Head)>,
    gone: bool,
}

struct Session {
    key: SessionKey,
    epoch: u64,
    owners: Vec<Owner>,
    /// The last commit that was acknowledged, and what it held.
    acked: Option<((u64, u64), Vec<u64>)>,
    /// Entries of acknowledged commits, in order.
    told: Vec<u64>,
    /// What it was forked from.
    origin: Option<(SessionKey, Option<String>)>,
    view: Option<(Head, Vec<String>)>,
    deleted: bool,
}

#[derive(Default, Debug)]
struct Count {
    acked: u64,
    restored: u64,
    forked: u64,
    replanned: u64,
    marked: u64,
    rolled: u64,
}

struct World {
    random: Random,
    store: Store,
    sessions: Vec<Session>,
    next: u64,
    mutant: Mutant,
    count: Count,
}

fn key(number: usize) -> SessionKey {
    SessionKey { store_prefix: "p/".into(), tenant: "team".into(), uid: format!("u{number}"), name: "n".into() }
}

impl World {
    fn new(seed: u64, mutant: Mutant) -> Self {
        let random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let mut world = Self { random, store: Store::default(), sessions: Vec::new(), next: 0, mutant, count: Count::default() };
        world.add(None);
        world
    }

    fn add(&mut self, origin: Option<(SessionKey, Option<String>)>) {
        let key = key(self.sessions.len());
        let session = Session { key, epoch: 0, owners: Vec::new(), acked: None, told: Vec::new(), origin, view: None, deleted: false };
        self.sessions.push(session);
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn act(&mut self) -> Result<(), Violation> {
        let at = self.random.below(self.sessions.len() as u64) as usize;
        if self.sessions[at].deleted {
            return Ok(());
        }
        match self.random.below(40) {
            0 | 1 => self.take_over(at),
            2 => {
                self.sessions[at].owners.pop();
                Ok(())
            }
            3 => self.store.late.pop_front().map_or(Ok(()), |put| self.store.put(&put).map(drop)),
            4 | 5 => self.collect_garbage(at),
            6 => self.look(at),
            7 if self.sessions.len() < SESSIONS_MAX => {
                let parent = self.sessions[at].key.clone();
                let listed = self.store.head(&parent).map(|(head, _)| head.checkpoints).unwrap_or_default();
                let chosen = (!listed.is_empty() && self.random.one_in(2))
                    .then(|| listed[self.random.below(listed.len() as u64) as usize].id.to_string());
                if self.store.head(&parent).is_some() {
                    self.add(Some((parent, chosen)));
                }
                Ok(())
            }
            8 if at > 0 && self.random.one_in(6) => self.delete(at),
            _ => self.step(at),
        }
    }

    /// As a process that is assigned the session reads it.
    fn restore(&self, at: usize, epoch: u64) -> Result<Option<Owner>, Violation> {
        let session = &self.sessions[at];
        let stored = self.store.head(&session.key).map(|(head, etag)| (Ok(head), etag));
        let owned = match acquire::acquire(session.key.clone(), epoch, stored) {
            Acquire::Fresh(owned) | Acquire::Restore(owned) => owned,
            Acquire::Stale { .. } => return Ok(None),
            other => return Err(format!("{other:?}")),
        };
        let heap = owned.head.as_ref().map_or(Ok(Heap::default()), |head| self.store.heap(head))?;
        if let Some((version, cells)) = &session.acked {
            let found = owned.head.as_ref().map(|head| head.version()).unwrap_or_default();
            if found < *version || (found == *version && heap.cells != *cells) {
                return Err(format!("{version:?} was acked and {found:?} is found"));
            }
        }
        Ok(Some(Owner { owned, heap, dirty: BTreeSet::new(), pending: None, plan: None, gone: false }))
    }

    fn take_over(&mut self, at: usize) -> Result<(), Violation> {
        self.sessions[at].epoch += 1;
        let owner = self.restore(at, self.sessions[at].epoch)?;
        let session = &mut self.sessions[at];
        session.owners.extend(owner);
        if session.owners.len() > OWNERS_MAX {
            session.owners.remove(0);
        }
        Ok(())
    }

    fn collect_garbage(&mut self, at: usize) -> Result<(), Violation> {
        let session = &mut self.sessions[at];
        match session.view.take() {
            Some((mut head, listed)) => {
                if self.mutant == Mutant::CollectsCheckpoints {
                    head.checkpoints.clear();
                }
                for key in sweep::deletable(&listed, &head) {
                    self.store.objects.remove(key);
                }
            }
            None => {
                let Some((head, _)) = self.store.head(&session.key) else { return Ok(()) };
                let listed = self.store.objects.keys().filter(|key| key.starts_with(&session.key.prefix())).cloned().collect();
                session.view = Some((head, listed));
            }
        }
        Ok(())
    }

    /// The parent goes, and nothing of its children with it.
    fn delete(&mut self, at: usize) -> Result<(), Violation> {
        let prefix = self.sessions[at].key.prefix();
        self.store.objects.retain(|key, _| !key.starts_with(&prefix));
        self.store.late.retain(|put| !put.key.starts_with(&prefix));
        self.sessions[at].owners.clear();
        self.sessions[at].deleted = true;
        Ok(())
    }

    /// Reads everything that the session offers.
    fn look(&mut self, at: usize) -> Result<(), Violation> {
        let session = &self.sessions[at];
        let Some((head, _)) = self.store.head(&session.key) else { return Ok(()) };
        for listed in &head.checkpoints {
            let state = listed.open(&session.key, &self.store.bytes(&listed.key)?).map_err(|e| e.to_string())?;
            self.store.heap(&state)?;
        }
        let entries: Vec<u64> = self.store.journal(&head)?.iter().map(|entry| entry["n"].as_u64().unwrap()).collect();
        let mut rest = entries.iter();
        match session.told.iter().find(|told| !rest.any(|entry| entry == *told)) {
            Some(lost) => Err(format!("entry {lost} was acked and the journal of {:?} does not tell it in its place", head.version())),
            None => Ok(()),
        }
    }

    fn step(&mut self, at: usize) -> Result<(), Violation> {
        let Some(mut owner) = self.sessions[at].owners.pop() else { return Ok(()) };
        match owner.pending.take() {
            Some((machine, step, heap, entry)) => self.advance(at, &mut owner, (machine, step, heap, entry))?,
            None if owner.owned.head.is_none() && self.sessions[at].origin.is_some() => match owner.plan.take() {
                Some((plan, state)) if self.random.one_in(8) => self.copy_fork(&mut owner, plan, &state)?,
                Some(waits) => owner.plan = Some(waits),
                None => self.begin_fork(at, &mut owner)?,
            },
            None if self.random.one_in(8) => self.begin_restore(at, &mut owner)?,
            None => self.begin_cell(&mut owner),
        }
        if !owner.gone {
            let place = self.random.below(self.sessions[at].owners.len() as u64 + 1) as usize;
            self.sessions[at].owners.insert(place, owner);
        }
        Ok(())
    }

    fn change(full: bool, pages: Vec<(u32, Page)>, heap: &Heap) -> Change {
        Change {
            full,
            pages,
            memory_pages: 4,
            globals: Value::Null,
            state: json!(heap.cells),
            engine_digest: String::new(),
            time: String::new(),
        }
    }

    fn entry(&mut self) -> (u64, Vec<Value>) {
        let number = self.number();
        let bytes = if self.random.one_in(5) { 9000 } else { 40 };
        (number, vec![json!({"n": number, "x": "x".repeat(bytes)})])
    }

    fn begin(&mut self, owner: &mut Owner, change: Change, annex: Annex, heap: Heap, entry: u64) {
        let put_id = self.number().to_string();
        let (machine, step) = Commit::begin_with(&owner.owned, change, annex, put_id);
        owner.pending = Some((machine, step, heap, entry));
    }

    fn begin_cell(&mut self, owner: &mut Owner) {
        let id = self.number();
        let changed = owner.heap.run(id);
        owner.dirty.extend(changed);
        let full = commit::wants_full_image(&owner.owned);
        let pages = owner.heap.pages.iter().filter(|(n, _)| full || owner.dirty.contains(n)).map(|(n, p)| (*n, Arc::clone(p))).collect();
        let mark = match self.random.below(6) {
            0 => Some(Some(format!("label-{}", self.random.below(3)))),
            1 | 2 => Some(None),
            _ => checkpoint::due(owner.owned.head.as_deref(), KEEP).then_some(None),
        };
        let mark = mark.map(|label| Mark { subject: Subject::This, label, keep: KEEP });
        self.count.marked += u64::from(mark.is_some());
        let (entry, journal) = self.entry();
        let heap = owner.heap.clone();
        self.begin(owner, Self::change(full, pages, &heap), Annex { mark, journal, base: None }, heap, entry);
    }

    fn begin_restore(&mut self, at: usize, owner: &mut Owner) -> Result<(), Violation> {
        let Some(head) = owner.owned.head.clone() else { return Ok(()) };
        if head.checkpoints.is_empty() {
            return Ok(());
        }
        let chosen = &head.checkpoints[self.random.below(head.checkpoints.len() as u64) as usize];
        // A zombie's list may be behind: what it names may be gone, and it finds that out by reading.
        let Ok(bytes) = self.store.bytes(&chosen.key) else { return Ok(()) };
        let state = chosen.open(&self.sessions[at].key, &bytes).map_err(|e| e.to_string())?;
        let Ok(heap) = self.store.heap(&state) else { return Ok(()) };
        if self.mutant == Mutant::RestoresWholeHead {
            let lists = Head { checkpoints: state.checkpoints.clone(), journal: state.journal.clone(), ..(*head).clone() };
            owner.owned.head = Some(Arc::new(lists));
        }
        let mark = Some(Mark { subject: Subject::Before, label: None, keep: KEEP });
        let (entry, journal) = self.entry();
        let annex = Annex { base: Some(Arc::new(state)), mark, journal };
        self.begin(owner, Self::change(false, Vec::new(), &heap), annex, heap, entry);
        self.count.restored += 1;
        Ok(())
    }

    fn begin_fork(&mut self, at: usize, owner: &mut Owner) -> Result<(), Violation> {
        let (parent, chosen) = self.sessions[at].origin.clone().unwrap();
        // The parent may have gone, and so may its checkpoint: the child can never start then.
        let Some((head, _)) = self.store.head(&parent) else { return Ok(()) };
        let state = match &chosen {
            None => head,
            Some(id) => {
                let Some(listed) = checkpoint::find(&head.checkpoints, id) else { return Ok(()) };
                listed.open(&parent, &self.store.bytes(&listed.key)?).map_err(|e| e.to_string())?
            }
        };
        let child = self.sessions[at].key.clone();
        let plan = fork::fork(&parent, &state, &child, owner.owned.epoch).map_err(|e| e.to_string())?;
        owner.plan = Some((plan, state));
        Ok(())
    }

    /// Copies what was planned some turns ago. The parent may have committed since, and what was read be gone: then it is planned anew.
    fn copy_fork(&mut self, owner: &mut Owner, mut plan: fork::Fork, state: &Head) -> Result<(), Violation> {
        for (from, to) in &plan.copies {
            let Ok(bytes) = self.store.bytes(from) else {
                self.count.replanned += 1;
                return Ok(());
            };
            self.store.put(&Put { key: to.clone(), bytes, condition: Condition::Absent })?;
        }
        if self.mutant == Mutant::ForksByReference {
            plan.base.segments.clone_from(&state.segments);
        }
        let heap = self.store.heap(&plan.base)?;
        let (entry, journal) = self.entry();
        let annex = Annex { base: Some(Arc::new(plan.base)), journal, mark: None };
        self.begin(owner, Self::change(false, Vec::new(), &heap), annex, heap, entry);
        self.count.forked += 1;
        Ok(())
    }

    fn advance(
        &mut self,
        at: usize,
        owner: &mut Owner,
        (mut machine, step, heap, entry): (Commit, Step, Heap, u64),
    ) -> Result<(), Violation> {
        let put = match &step {
            Step::PutSegment { key, bytes } => {
                self.count.rolled += u64::from(keys::parse_object(key).is_some_and(|(kind, _)| kind == keys::Kind::Journal));
                Some(Put { key: key.clone(), bytes: bytes.clone(), condition: Condition::Absent })
            }
            Step::PutHead { key, bytes, condition } => Some(Put { key: key.clone(), bytes: bytes.clone(), condition: condition.clone() }),
            Step::GetHead { .. } => None,
            other => return Err(format!("not a step to do: {other:?}")),
        };
        let aside = put.as_ref().is_some_and(|put| !keys::is_head(&put.key));
        let mut reply = match put {
            Some(put) => self.faulty_put(put)?,
            None => Reply::Head(self.store.head(&self.sessions[at].key).map(|(head, etag)| (Arc::new(head), etag))),
        };
        if self.mutant == Mutant::DropsAside && aside && reply == Reply::Unknown {
            reply = Reply::Stored { etag: String::new() };
        }
        match machine.on(reply) {
            Step::Resend => owner.pending = Some((machine, step, heap, entry)),
            Step::Committed(owned) => {
                let session = &mut self.sessions[at];
                session.acked = Some((owned.head.as_ref().unwrap().version(), heap.cells.clone()));
                session.told.push(entry);
                self.count.acked += 1;
                let before = std::mem::replace(&mut owner.owned, owned);
                if let (Some(before), Some(after)) = (before.head, &owner.owned.head) {
                    for key in sweep::released(&before, after) {
                        self.store.objects.remove(&key);
                    }
                }
                owner.heap = heap;
                owner.dirty.clear();
            }
            Step::Zombie { .. } => owner.gone = true,
            Step::Superseded { .. } => match self.restore(at, owner.owned.epoch)? {
                Some(restored) => *owner = restored,
                None => owner.gone = true,
            },
            step @ (Step::Deleted | Step::Failed(_)) => return Err(format!("{step:?} without a cause")),
            step => owner.pending = Some((machine, step, heap, entry)),
        }
        Ok(())
    }

    fn faulty_put(&mut self, put: Put) -> Result<Reply, Violation> {
        match self.random.below(14) {
            0 => {
                if self.random.one_in(2) {
                    self.store.late.push_back(put);
                }
                Ok(Reply::Unknown)
            }
            1 => self.store.put(&put).map(|_| Reply::Unknown),
            2 => Ok(Reply::Conflicted),
            _ => self.store.put(&put),
        }
    }

    /// When nothing is under way any more, one sweep leaves exactly what the heads name.
    fn settle(&mut self) -> Result<(), Violation> {
        self.store.late.clear();
        for at in 0..self.sessions.len() {
            if self.sessions[at].deleted {
                continue;
            }
            self.sessions[at].owners.clear();
            self.take_over(at)?;
            self.look(at)?;
            let Some((head, _)) = self.store.head(&self.sessions[at].key) else { continue };
            self.sessions[at].view = None;
            self.collect_garbage(at)?;
            self.collect_garbage(at)?;
            let named: BTreeSet<&str> = head.named_keys().collect();
            let prefix = self.sessions[at].key.prefix();
            let left = self.store.objects.keys().filter(|key| key.starts_with(&prefix) && !keys::is_head(key));
            let (left, newer): (Vec<_>, Vec<_>) = left.partition(|key| keys::parse_object(key).unwrap().1 <= head.version());
            if let Some(orphan) = left.iter().find(|key| !named.contains(key.as_str())) {
                return Err(format!("{orphan} is garbage"));
            }
            // What an attempt above the head left behind goes after the next commit.
            drop(newer);
            self.look(at)?;
        }
        Ok(())
    }
}

fn run(seed: u64, mutant: Mutant) -> Result<Count, Violation> {
    let mut world = World::new(seed, mutant);
    world.take_over(0)?;
    for _ in 0..ACTIONS {
        world.act()?;
    }
    world.settle()?;
    Ok(world.count)
}

#[test]
fn checkpoints_forks_and_journal_survive_every_fault() {
    let mut all = Count::default();
    for seed in 1..=SEEDS {
        let count = run(seed, Mutant::None).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        all.acked += count.acked;
        all.restored += count.restored;
        all.forked += count.forked;
        all.replanned += count.replanned;
        all.marked += count.marked;
        all.rolled += count.rolled;
    }
    // The simulation is worth something only if it gets somewhere.
    assert!(all.acked > SEEDS * 30 && all.marked > SEEDS * 20 && all.rolled > SEEDS * 5, "{all:?}");
    assert!(all.restored > SEEDS * 2 && all.forked > SEEDS / 2 && all.replanned > 0, "{all:?}");
}

#[test]
fn each_mutant_is_caught() {
    for mutant in [Mutant::CollectsCheckpoints, Mutant::ForksByReference, Mutant::RestoresWholeHead, Mutant::DropsAside] {
        assert!((1..=SEEDS).any(|seed| run(seed, mutant).is_err()), "mutant {} was not caught", mutant as u8);
    }
}
