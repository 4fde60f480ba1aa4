//! The invariants, each a checker with a name.

use std::collections::{BTreeMap, BTreeSet};

use dormouse_lifecycle::{Head, segment};

use crate::{
    archive::mark_key,
    heap::{Cells, Heap, Record},
    outside::{Existence, session},
    store::{Objects, Put},
};

/// An invariant that does not hold.
#[derive(Debug, Clone)]
pub struct Violation {
    /// The checker.
    pub checker: &'static str,
    /// What it saw.
    pub what: String,
}

/// Fails as `checker` unless `holds`.
pub fn must(holds: bool, checker: &'static str, what: impl FnOnce() -> String) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation { checker, what: what() }) }
}

/// What has been seen so far.
#[derive(Default)]
pub struct Checks {
    version: Option<(u64, u64)>,
    writers: BTreeMap<u64, u64>,
    put_ids: BTreeMap<(u64, u64), String>,
    hashes: BTreeMap<String, String>,
    /// Segments that no head names any more, and that none may name again.
    dropped: BTreeSet<String>,
    named: BTreeSet<String>,
    stored_cells: BTreeSet<u64>,
    acked: BTreeSet<u64>,
    /// Processes with the epochs that status had for them.
    assigned: BTreeSet<(u64, u64)>,
    effects: BTreeMap<u64, u64>,
    let_go_epoch: u64,
    tombstone: bool,
    /// The session's last object was removed by its deletion.
    erased: bool,
    litter: bool,
    /// The page of calls went with the session.
    calls_gone: bool,
}

impl Checks {
    /// Cells that were acked.
    pub fn acked(&self) -> usize {
        self.acked.len()
    }

    /// Calls that had an effect.
    pub fn effects(&self) -> usize {
        self.effects.len()
    }

    /// A head is about to be stored.
    pub fn head_is_put(&mut self, put: &Put, objects: &Objects) -> Result<(), Violation> {
        let head = Head::decode(&put.bytes).map_err(|e| Violation { checker: "what is stored verifies", what: e.to_string() })?;
        if self.erased {
            // Of a deletion that begins again from its start, or of one who removes what follows.
            if head.tombstone {
                return Ok(());
            }
            // Only a first commit that was cut off before its session was deleted gets here. It is litter: its uid is never used again.
            let litter = put.is_first() || self.litter;
            self.litter = true;
            return must(litter, "deletion is final", || format!("{:?} after the end", head.version()));
        }
        must(!self.tombstone, "deletion is final", || format!("{:?} over a tombstone", head.version()))?;
        must(Some(head.version()) > self.version, "versions strictly grow", || format!("{:?} after {:?}", head.version(), self.version))?;
        self.version = Some(head.version());
        self.put_ids.insert(head.version(), head.put_id.clone());
        if head.tombstone {
            self.tombstone = true;
            return Ok(());
        }
        let writer = *self.writers.entry(head.epoch).or_insert(put.boot);
        must(writer == put.boot, "one writer per epoch", || format!("epoch {} is written by {writer} and {}", head.epoch, put.boot))?;
        self.names(&head, objects)?;
        let record: Record = head.state.read().expect("what the model wrote");
        self.stored_cells.extend(record.cells);
        Ok(())
    }

    fn names(&mut self, head: &Head, objects: &Objects) -> Result<(), Violation> {
        let now: BTreeSet<String> = head.segments.iter().map(|s| s.key.clone()).collect();
        for named in &head.segments {
            let stored = objects.get(&named.key);
            must(stored.is_some(), "what a head names is there", || format!("{} of {:?}", named.key, head.version()))?;
            let hash = self.hashes.get(&named.key);
            must(hash == Some(&named.sha256), "what a head names verifies", || named.key.clone())?;
            must(!self.dropped.contains(&named.key), "no key is used again", || named.key.clone())?;
        }
        self.dropped.extend(self.named.difference(&now).cloned());
        self.named = now;
        Ok(())
    }

    /// A segment is about to be stored.
    pub fn segment_is_put(&mut self, put: &Put) -> Result<(), Violation> {
        let hash = segment::sha256_hex(&put.bytes);
        let before = self.hashes.entry(put.key.clone()).or_insert_with(|| hash.clone());
        must(*before == hash, "no key is used again", || format!("{} has other bytes", put.key))
    }

    /// A key is about to be deleted by garbage collection.
    pub fn garbage_goes(&self, key: &str) -> Result<(), Violation> {
        must(!self.named.contains(key) || self.tombstone, "no live key is deleted", || key.to_owned())
    }

    /// Everything of a session is about to be removed because nobody knows it.
    pub fn orphan_goes(&self, uid: &str, exists: Existence) -> Result<(), Violation> {
        let ours = uid == session().uid;
        must(ours, "no other cluster's session is erased", || uid.to_owned())?;
        must(exists == Existence::Gone, "only a session that is gone is erased as such", || format!("it is {exists:?}"))
    }

    /// Faults have stopped, and what belongs to no session was looked for once.
    pub fn nothing_is_left(&self, objects: &Objects) -> Result<(), Violation> {
        let session = session();
        let left = objects.keys().find(|key| key.starts_with(&session.prefix()) || **key == session.calls());
        must(left.is_none(), "nothing of a deleted session is left", || format!("{left:?}"))
    }

    /// The session's deletion has removed its last object.
    pub fn deletion_is_done(&mut self) {
        self.erased = true;
    }

    /// Whether it has.
    pub fn is_erased(&self) -> bool {
        self.erased
    }

    /// A driver was told that its commit is stored.
    pub fn is_committed(&self, head: &Head) -> Result<(), Violation> {
        let stored = self.put_ids.get(&head.version());
        must(self.erased || stored == Some(&head.put_id), "committed means stored", || format!("{:?}", head.version()))
    }

    /// Status has this process under this epoch.
    pub fn assign(&mut self, boot: u64, epoch: u64) {
        self.assigned.insert((boot, epoch));
    }

    /// Something leaves a process that runs the session under this epoch.
    pub fn leaves(&self, boot: u64, epoch: u64) -> Result<(), Violation> {
        must(self.assigned.contains(&(boot, epoch)), "nothing leaves before status has the assignment", || format!("{boot} under {epoch}"))
    }

    /// A result leaves.
    pub fn ack(&mut self, cell: u64) {
        self.acked.insert(cell);
    }

    /// A session was laid back.
    pub fn is_restored(cells: &mut Cells, heap: &Heap) -> Result<(), Violation> {
        let ran = &heap.record.cells;
        must(Heap::replay(cells, ran) == heap.pages, "a restore has the pages of its cells", || format!("after {ran:?}"))
    }

    /// `ran` are the cells of a session that goes on.
    pub fn holds(&self, ran: &[u64]) -> Result<(), Violation> {
        if self.erased {
            return Ok(());
        }
        let unique: BTreeSet<u64> = ran.iter().copied().collect();
        must(unique.len() == ran.len(), "no cell runs twice", || format!("{ran:?}"))?;
        let lost = self.acked.difference(&unique).next();
        must(lost.is_none(), "what was acked is in every later restore", || format!("{lost:?} is not in {ran:?}"))?;
        let lost = self.effects.values().find(|cell| !unique.contains(cell));
        must(lost.is_none(), "what had an effect is in every later restore", || format!("{lost:?} is not in {ran:?}"))
    }

    /// A broker has the word to make a call.
    pub fn is_let_go(&mut self, epoch: u64, call: u64) -> Result<(), Violation> {
        if self.erased || self.calls_gone {
            return Ok(());
        }
        must(epoch >= self.let_go_epoch, "a stale epoch has no effect", || format!("call {call} under {epoch}"))?;
        self.let_go_epoch = epoch;
        Ok(())
    }

    /// A broker makes a call.
    pub fn effect(&mut self, call: u64, cell: u64) -> Result<(), Violation> {
        if self.erased || self.calls_gone {
            return Ok(());
        }
        must(self.stored_cells.contains(&cell), "effects follow commits", || format!("call {call} of cell {cell}"))?;
        must(!self.effects.contains_key(&call), "a call has one effect", || format!("call {call}"))?;
        self.effects.insert(call, cell);
        Ok(())
    }

    /// The session's deletion has removed what its brokers knew.
    pub fn calls_are_gone(&mut self) {
        self.calls_gone = true;
    }

    /// Whether something was stored after the end.
    pub fn left_litter(&self) -> bool {
        self.litter
    }

    /// The broker answers a call from its journal.
    pub fn repeated(&self, call: u64, cell: u64) -> Result<(), Violation> {
        must(self.erased || self.calls_gone || self.effects.get(&call) == Some(&cell), "a call's number means one call", || {
            format!("call {call} of cell {cell}, before of {:?}", self.effects.get(&call))
        })
    }

    /// A page of calls has another call under this number.
    pub fn number_is_reused(&self, call: u64, cell: u64) -> Result<(), Violation> {
        must(self.erased || self.calls_gone, "a call's number means one call", || format!("call {call} of cell {cell}"))
    }

    /// Faults have stopped, and one sweep has run.
    pub fn nothing_is_left_over(&self, objects: &Objects) -> Result<(), Violation> {
        let prefix = session().prefix();
        let unnamed = |key: &&String| !dormouse_lifecycle::keys::is_head(key) && **key != mark_key() && !self.named.contains(*key);
        let orphan = objects.keys().find(|key| key.starts_with(&prefix) && unnamed(key));
        must(orphan.is_none(), "garbage goes to zero", || format!("{orphan:?}"))
    }
}
