//! A kernel process with the session: its mailbox, its restore, its commits. It drives the product's own machines.

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;
use dormouse_lifecycle::{
    Acquire, Change, Commit, Head, Json, Owned, Step, TopLayer, acquire, acquire::CorruptHead, assemble, claim, commit,
};

use crate::{
    brokers::Arriving,
    check::{Checks, Violation, must},
    heap::{Heap, Record},
    mutant::Mutant,
    outside::{Outside, Request, session},
    sweeper::Sweep,
};

/// Instances that are restored, run and commit.
pub struct Process {
    /// Which process this is; no other ever has this number.
    pub boot: u64,
    /// The newest assignment.
    pub epoch: u64,
    /// The newest version that it was told of.
    anchor: Option<(u64, u64)>,
    /// What has arrived and was not looked at.
    pub mailbox: VecDeque<(Request, u64)>,
    queue: VecDeque<(Request, u64)>,
    verify: bool,
    /// The last epoch under which it has said that the session is not here.
    pub gone: u64,
    /// The epoch that is only claimed so far, and what waits for status to have it.
    pub claim: Option<u64>,
    held: Option<Request>,
    pub phase: Phase,
}

/// What it does.
#[expect(clippy::large_enum_variant, reason = "few are simulated at a time")]
pub enum Phase {
    Asleep,
    /// The head was read; `missing` is the ETag under which a segment was not there.
    Restoring {
        owned: Owned,
        missing: Option<String>,
    },
    Live(Box<Live>),
}

/// An instance.
pub struct Live {
    pub owned: Owned,
    heap: Heap,
    dirty: BTreeSet<u32>,
    /// Whether something was committed since the restore.
    swept: bool,
    /// Calls that were sent before.
    sent: BTreeSet<u64>,
    pub running: Option<Running>,
}

/// A commit under way, and what it will ack.
pub struct Running {
    machine: Commit,
    pub step: Step,
    request: Request,
}

/// How a step ended.
pub enum End {
    Goes,
    /// The session is not here any more.
    Leaves,
}

impl Process {
    pub fn new(boot: u64, epoch: u64) -> Self {
        let (mailbox, queue) = (VecDeque::new(), VecDeque::new());
        Self { boot, epoch, anchor: None, mailbox, queue, verify: false, gone: 0, claim: None, held: None, phase: Phase::Asleep }
    }

    /// A request brings what its gateway knows to be stored.
    pub fn hears(&mut self, anchor: Option<(u64, u64)>) {
        self.anchor = self.anchor.max(anchor);
    }

    /// Whether a claim may start the session here: there is nothing of it.
    pub fn may_claim(&self, epoch: u64) -> bool {
        self.is_idle() && self.claim.is_none() && self.epoch <= epoch && matches!(self.phase, Phase::Asleep)
    }

    /// Status has this process under this epoch.
    pub fn confirm(&mut self, out: &mut Outside, epoch: u64) -> Result<(), Violation> {
        match self.claim {
            Some(claimed) if claimed == epoch => self.claim = None,
            // Status has gone past it.
            Some(claimed) if claimed < epoch => {
                self.withdraw(out, claimed);
                return Ok(());
            }
            _ => return Ok(()),
        }
        if let Some(request) = self.held.take() {
            self.ack(out, request)?;
        }
        let owner = (self.boot, self.epoch);
        if let Phase::Live(live) = &mut self.phase
            && live.running.is_none()
        {
            release(out, live, owner, 0)?;
        }
        Ok(())
    }

    /// It never will have, or whoever would say so is gone.
    pub fn withdraw(&mut self, out: &mut Outside, epoch: u64) {
        if self.claim == Some(epoch) {
            let held = self.held.take();
            held.into_iter().for_each(|request| out.answer(request, false));
            self.leave(out);
            *self = Self { anchor: self.anchor, ..Self::new(self.boot, self.epoch) };
        }
    }

    /// Whether nothing more can be done before the claim is decided.
    fn waits(&self) -> bool {
        let first = matches!(&self.phase, Phase::Live(live) if !claim::may_commit(&live.owned));
        self.claim.is_some() && (first || self.held.is_some())
    }

    /// What a crash at this point cuts off.
    pub fn step_name(&self) -> &'static str {
        match &self.phase {
            Phase::Asleep => "before the restore",
            Phase::Restoring { .. } => "between head and segments",
            Phase::Live(live) => match live.running.as_ref().map(|running| &running.step) {
                None => "before a cell",
                Some(Step::PutSegment { .. }) => "before the segment",
                Some(Step::PutHead { .. }) => "before the head",
                Some(Step::GetHead { .. }) => "before a refusal is resolved",
                Some(_) => "elsewhere",
            },
        }
    }

    /// Whether there is nothing to do.
    pub fn is_idle(&self) -> bool {
        let busy = matches!(&self.phase, Phase::Live(live) if live.running.is_some());
        self.waits() || !busy && self.mailbox.is_empty() && self.queue.is_empty()
    }

    /// One step.
    pub fn step(&mut self, out: &mut Outside) -> Result<End, Violation> {
        if self.waits() {
            return Ok(End::Goes);
        }
        if let Phase::Live(live) = &mut self.phase
            && let Some(running) = live.running.take()
        {
            return self.advance(out, running);
        }
        self.read_mail(out);
        if self.queue.is_empty() {
            return Ok(End::Goes);
        }
        match std::mem::replace(&mut self.phase, Phase::Asleep) {
            Phase::Asleep => self.read_head(out, None),
            Phase::Restoring { owned, missing } => self.read_segments(out, owned, missing.as_deref()),
            Phase::Live(live) if self.verify => self.verify_owned(out, live),
            Phase::Live(live) => self.run_next(out, live),
        }
    }

    fn read_mail(&mut self, out: &mut Outside) {
        while let Some((request, epoch)) = self.mailbox.pop_front() {
            if epoch < self.epoch {
                out.answer(request, false);
                continue;
            }
            if epoch > self.epoch {
                self.epoch = epoch;
                self.verify = true;
            }
            if !self.queue.iter().any(|(known, _)| request.key.is_some() && known.key == request.key) {
                self.queue.push_back((request, epoch));
            }
        }
    }

    fn leave(&mut self, out: &mut Outside) -> End {
        for (request, _) in self.mailbox.drain(..).chain(self.queue.drain(..)) {
            out.answer(request, false);
        }
        End::Leaves
    }

    fn read_head(&mut self, out: &mut Outside, missing: Option<String>) -> Result<End, Violation> {
        if out.store.is_silent(&mut out.random) {
            return Ok(End::Goes);
        }
        self.verify = false;
        let found = out.store.head(&mut out.random, &session().head());
        let copy = found.clone();
        let anchor = self.anchor.filter(|_| !out.is(Mutant::IgnoresAnchor));
        let owned = match acquire::acquire(session(), self.epoch, anchor, found.map(|(head, etag)| (Ok(head), etag))) {
            Acquire::Fresh(_) | Acquire::Restore(_) if out.store.went_back => {
                let found = copy.map(|(head, _)| head.version());
                return Err(Violation { checker: "a rolled back head is not believed", what: format!("{found:?} under {anchor:?}") });
            }
            Acquire::Restore(owned) if self.is_taken(out, &owned) => return Ok(self.leave(out)),
            Acquire::Fresh(owned) | Acquire::Restore(owned) => owned,
            Acquire::Stale { .. } if out.is(Mutant::AcquireIgnoresEpoch) => {
                let (head, etag) = copy.expect("a stale epoch was read");
                Owned { session: session(), epoch: self.epoch, head: Some(head.into()), etag: Some(etag), top_layer: TopLayer::default() }
            }
            Acquire::Stale { .. } | Acquire::Deleted => return Ok(self.leave(out)),
            // A deletion takes the head away, too; then nobody asks any more.
            Acquire::Corrupt(CorruptHead::RolledBack { .. } | CorruptHead::Missing { .. })
                if out.store.went_back || out.checks.is_erased() =>
            {
                return Ok(self.leave(out));
            }
            Acquire::Corrupt(error) => return Err(Violation { checker: "what is stored verifies", what: error.to_string() }),
        };
        // A restore is as new as its head: what is acked from here on by somebody else meets this process in its next commit.
        let record = owned.head.as_ref().map(|head| head.state.read::<Record>().expect("what the model wrote"));
        out.checks.holds(&record.unwrap_or_default().cells)?;
        self.phase = Phase::Restoring { owned, missing };
        Ok(End::Goes)
    }

    fn is_taken(&self, out: &Outside, owned: &Owned) -> bool {
        let taken = owned.head.as_ref().is_some_and(|head| claim::taken(head, self.epoch, &self.boot.to_string()));
        taken && !out.is(Mutant::SharesAnEpoch)
    }

    fn read_segments(&mut self, out: &mut Outside, owned: Owned, missing: Option<&str>) -> Result<End, Violation> {
        let heap = match &owned.head {
            None => Heap::default(),
            Some(head) => {
                let found: Option<Vec<Bytes>> =
                    head.segments.iter().map(|s| out.store.objects.get(&s.key).map(|(bytes, _)| bytes.clone())).collect();
                let Some(segments) = found else {
                    // A commit or the deletion may have come between. The same head twice is damage.
                    let again = owned.etag.as_deref() == missing;
                    must(!again, "what a head names is there", || format!("{:?} lacks a segment", head.version()))?;
                    return self.read_head(out, owned.etag.clone());
                };
                self.apply(out, head, &segments)?
            }
        };
        Checks::is_restored(&mut out.cells, &heap)?;
        let (dirty, sent) = (BTreeSet::new(), BTreeSet::new());
        let mut live = Box::new(Live { owned, heap, dirty, swept: false, sent, running: None });
        // An earlier owner may have sent them.
        live.sent.extend(live.heap.record.pending.iter().map(|(call, _)| *call));
        if self.claim.is_none() || out.is(Mutant::EffectsUnconfirmed) {
            release(out, &mut live, (self.boot, self.epoch), 0)?;
        }
        self.phase = Phase::Live(live);
        Ok(End::Goes)
    }

    fn apply(&self, out: &Outside, head: &Head, segments: &[Bytes]) -> Result<Heap, Violation> {
        let mut head = head.clone();
        if out.is(Mutant::RestoreIgnoresInline) {
            head.inline = Bytes::new();
        }
        let wrong = |what: String| Violation { checker: "what is stored verifies", what };
        let pages = assemble(&head, segments).map_err(|error| wrong(error.to_string()))?;
        let mut record: Record = head.state.read().map_err(|error| wrong(error.to_string()))?;
        if out.is(Mutant::ForgetsAnswers) {
            record.keys.clear();
        }
        Ok(Heap { record, pages })
    }

    fn verify_owned(&mut self, out: &mut Outside, live: Box<Live>) -> Result<End, Violation> {
        if out.store.is_silent(&mut out.random) {
            self.phase = Phase::Live(live);
            return Ok(End::Goes);
        }
        self.verify = false;
        let stored = out.store.head(&mut out.random, &session().head());
        if stored.map(|(_, etag)| etag) == live.owned.etag {
            self.phase = Phase::Live(live);
        }
        Ok(End::Goes)
    }

    fn run_next(&mut self, out: &mut Outside, mut live: Box<Live>) -> Result<End, Violation> {
        let Some((request, _)) = self.queue.pop_front() else { return Ok(End::Goes) };
        let known = request.key.is_some_and(|key| live.heap.record.keys.contains(&key));
        let known = known && !(out.is(Mutant::RemembersOneAnswer) && live.heap.record.keys.last() != request.key.as_ref());
        if known {
            self.phase = Phase::Live(live);
            self.ack_or_hold(out, request)?;
            return Ok(End::Goes);
        }
        live.heap.record.pending.retain(|(call, _)| !out.brokers.has_ended(*call));
        let changed = live.heap.run(&mut out.cells, request.cell, request.key);
        live.dirty.extend(changed);
        if out.is(Mutant::AcksBeforeCommit) {
            out.answer(request, true);
        }
        if out.is(Mutant::EffectsBeforeCommit) && self.claim.is_none() {
            release(out, &mut live, (self.boot, self.epoch), 0)?;
        }
        self.begin(out, &mut live, request);
        self.phase = Phase::Live(live);
        Ok(End::Goes)
    }

    fn begin(&self, out: &mut Outside, live: &mut Live, request: Request) {
        live.owned.epoch = self.epoch;
        let full = commit::wants_full_image(&live.owned);
        let mut pages: Vec<_> =
            live.heap.pages.iter().filter(|(n, _)| full || live.dirty.contains(n)).map(|(n, p)| (*n, p.clone())).collect();
        if full && out.is(Mutant::CompactionDropsPage) {
            pages.pop();
        }
        let change = Change {
            full,
            pages,
            memory_pages: 2,
            globals: Json::null(),
            state: Json::of(&live.heap.record).expect("a record is JSON"),
            engine_digest: String::new(),
            time: String::new(),
        };
        let put_id = if out.is(Mutant::ReusesPutIds) {
            format!("{}-{}", self.epoch, live.owned.head.as_ref().map_or(0, |head| head.sequence))
        } else {
            claim::put_id(&self.boot.to_string(), &out.put_id())
        };
        if full && out.is(Mutant::SweepsBeforeCommit) {
            let named = live.owned.head.iter().flat_map(|head| &head.segments);
            named.for_each(|s| drop(out.store.objects.remove(&s.key)));
        }
        let (machine, step) = Commit::begin(&live.owned, change, put_id);
        live.running = Some(Running { machine, step, request });
    }

    fn advance(&mut self, out: &mut Outside, running: Running) -> Result<End, Violation> {
        let Running { mut machine, step, request } = running;
        let (next, unknown) = crate::driver::perform(out, self.boot, &mut machine, &step)?;
        let Phase::Live(live) = &mut self.phase else { return Ok(End::Goes) };
        match next {
            Step::Resend if unknown && out.store.faults && out.random.one_in(3) => {
                // Given up: the instance goes, for nobody knows what the store holds.
                out.answer(request, false);
                if !out.is(Mutant::KeepsInstanceAfterTimeout) {
                    self.phase = Phase::Asleep;
                }
            }
            Step::Resend if out.is(Mutant::ResendsUnderNewPutId) => {
                let mut live = std::mem::replace(&mut self.phase, Phase::Asleep);
                if let Phase::Live(live) = &mut live {
                    self.begin(out, live, request);
                }
                self.phase = live;
            }
            Step::Resend => live.running = Some(Running { machine, step, request }),
            Step::Committed(owned) => self.committed(out, owned, request)?,
            Step::Zombie { epoch } => {
                must(epoch > live.owned.epoch, "a zombie has a successor", || epoch.to_string())?;
                if out.is(Mutant::AcksAsZombie) {
                    out.answer(request, true);
                }
                out.answer(request, false);
                return Ok(self.leave(out));
            }
            Step::Superseded { head, etag } if out.is(Mutant::RebasesOverSupersession) => {
                let mut live = std::mem::replace(&mut self.phase, Phase::Asleep);
                if let Phase::Live(live) = &mut live {
                    live.owned = Owned { head: Some(head), etag: Some(etag), ..live.owned.clone() };
                    self.begin(out, live, request);
                }
                self.phase = live;
            }
            Step::Superseded { .. } => {
                self.queue.push_front((request, self.epoch));
                self.phase = Phase::Asleep;
            }
            Step::Deleted => {
                out.answer(request, false);
                return Ok(self.leave(out));
            }
            // A first commit that arrives after the end leaves a head that is older than what its own writer knows. It is litter.
            Step::Failed(_) if out.checks.is_erased() => return Ok(self.leave(out)),
            Step::Failed(failure) => {
                return Err(Violation { checker: "a commit does not fail without a cause", what: failure.to_string() });
            }
            step => live.running = Some(Running { machine, step, request }),
        }
        Ok(End::Goes)
    }

    fn committed(&mut self, out: &mut Outside, owned: Owned, request: Request) -> Result<(), Violation> {
        let Phase::Live(live) = &mut self.phase else { return Ok(()) };
        let head = owned.head.clone().expect("a commit has a head");
        out.reported = out.reported.max(Some(head.version()));
        out.checks.is_committed(&head)?;
        out.checks.holds(&live.heap.record.cells)?;
        let dropped = live.owned.head.iter().flat_map(|before| &before.segments).any(|s| !head.segments.contains(s));
        live.owned = owned;
        live.dirty.clear();
        // The first commit after a restore sweeps what predecessors left; a compaction sweeps what it replaced.
        if dropped || !live.swept {
            live.swept = true;
            out.sweeps.push(Sweep::new((*head).clone()));
        }
        self.ack_or_hold(out, request)?;
        let owner = (self.boot, self.epoch);
        if let Phase::Live(live) = &mut self.phase
            && self.claim.is_none()
        {
            let record = &live.heap.record;
            let settled_below = record.pending.iter().map(|(call, _)| *call).min().unwrap_or(record.calls + 1);
            release(out, live, owner, settled_below)?;
        }
        Ok(())
    }

    fn ack_or_hold(&mut self, out: &mut Outside, request: Request) -> Result<(), Violation> {
        if self.claim.is_some() && !out.is(Mutant::AcksUnconfirmed) {
            self.held = Some(request);
            return Ok(());
        }
        self.ack(out, request)
    }

    fn ack(&self, out: &mut Outside, request: Request) -> Result<(), Violation> {
        out.checks.leaves(self.boot, self.epoch)?;
        out.answer(request, true);
        Ok(())
    }
}

/// Sends every call that waits for its answer.
fn release(out: &mut Outside, live: &mut Live, (boot, epoch): (u64, u64), settled_below: u64) -> Result<(), Violation> {
    for &(call, cell) in &live.heap.record.pending {
        out.checks.leaves(boot, epoch)?;
        let repeated = !live.sent.insert(call);
        out.brokers.arriving.push(Arriving { epoch, call, cell, settled_below, repeated });
    }
    Ok(())
}
