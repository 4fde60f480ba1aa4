//! Sessions, the processes that run them, and what is checked.

use std::{collections::BTreeSet, sync::Arc};

use dormouse_lifecycle::{
    Acquire, Attachments, Change, Commit, Condition, Head, Json, Owned, Page, Reply, SessionKey, Step, acquire,
    checkpoint::{self, Mark, Subject},
    commit, fork, keys, sweep,
};
use serde_json::{Value, json};

use crate::store::{Heap, Put, Random, Store, Violation};

const OWNERS_MAX: usize = 2;
const SESSIONS_MAX: usize = 4;
const KEEP: u32 = 3;

/// What a process does wrong.
#[derive(Clone, Copy, PartialEq)]
pub enum Mutant {
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
pub struct Count {
    pub acked: u64,
    pub restored: u64,
    pub forked: u64,
    pub replanned: u64,
    pub marked: u64,
    pub rolled: u64,
}

pub struct World {
    random: Random,
    store: Store,
    sessions: Vec<Session>,
    next: u64,
    mutant: Mutant,
    pub count: Count,
}

fn key(number: usize) -> SessionKey {
    SessionKey { store_prefix: "p/".into(), tenant: "team".into(), pool: "default".into(), uid: format!("u{number}"), name: "n".into() }
}

impl World {
    pub fn new(seed: u64, mutant: Mutant) -> Self {
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

    pub fn act(&mut self) -> Result<(), Violation> {
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
        let owned = match acquire::acquire(session.key.clone(), epoch, None, stored) {
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

    pub fn take_over(&mut self, at: usize) -> Result<(), Violation> {
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
        let entries: Vec<u64> =
            self.store.journal(&head)?.iter().map(|entry| entry.read::<Value>().unwrap()["n"].as_u64().unwrap()).collect();
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
            globals: Json::null(),
            state: json!(heap.cells).into(),
            engine_digest: String::new(),
            time: String::new(),
        }
    }

    fn entry(&mut self) -> (u64, Vec<Json>) {
        let number = self.number();
        let bytes = if self.random.one_in(5) { 9000 } else { 40 };
        (number, vec![json!({"n": number, "x": "x".repeat(bytes)}).into()])
    }

    fn begin(&mut self, owner: &mut Owner, change: Change, attachments: Attachments, heap: Heap, entry: u64) {
        let put_id = self.number().to_string();
        let (machine, step) = Commit::begin_with(&owner.owned, change, attachments, put_id);
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
        self.begin(owner, Self::change(full, pages, &heap), Attachments { mark, journal, ..Attachments::default() }, heap, entry);
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
        let attachments = Attachments { base: Some(Arc::new(state)), mark, journal, ..Attachments::default() };
        self.begin(owner, Self::change(false, Vec::new(), &heap), attachments, heap, entry);
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
        let attachments = Attachments { base: Some(Arc::new(plan.base)), journal, ..Attachments::default() };
        self.begin(owner, Self::change(false, Vec::new(), &heap), attachments, heap, entry);
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
                    for key in sweep::released(&session.key, &before, after) {
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
    pub fn settle(&mut self) -> Result<(), Violation> {
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
