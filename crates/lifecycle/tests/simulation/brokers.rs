//! Two replicas of a broker with a journal in the store: they crash, their PUTs are lost, and calls reach either. Pages are the product's.

use std::collections::{BTreeMap, BTreeSet};

use dormouse_lifecycle::{
    Condition, Reply,
    calls::{Admission, Asked, CallPage, Refusal},
};

use crate::{
    check::Violation,
    mutant::Mutant,
    outside::{Outside, session},
    store::Put,
};

/// Looks at an attempt of another broker before its outcome counts as unknown.
const LOOKS_MAX: u32 = 4;

/// A call on its way to some replica.
#[derive(Clone, Copy, Debug)]
pub struct Arriving {
    pub epoch: u64,
    pub call: u64,
    /// The cell that made it: what tells calls apart.
    pub cell: u64,
    pub settled_below: u64,
    pub repeated: bool,
}

/// See the module.
#[derive(Default)]
pub struct Brokers {
    pub arriving: Vec<Arriving>,
    replicas: [Replica; 2],
    /// Calls whose end was told to the session.
    heard: BTreeSet<u64>,
    boots: u64,
    attempts: u64,
    /// What replicas did.
    pub came: Came,
}

/// What replicas did.
#[derive(Default, Debug, Clone, Copy)]
pub struct Came {
    pub crashes: u64,
    /// Answers that another replica or process had written down.
    pub from_page: u64,
    /// Calls that were refused: what came of them is unknown, or no longer kept.
    pub unknown: u64,
    pub stale: u64,
}

impl Came {
    pub fn add(&mut self, other: Self) {
        self.crashes += other.crashes;
        self.from_page += other.from_page;
        self.unknown += other.unknown;
        self.stale += other.stale;
    }
}

#[derive(Default)]
struct Replica {
    boot: u64,
    page: Option<(CallPage, Option<String>)>,
    working: Vec<Work>,
    /// Calls that it has finished.
    done: BTreeMap<u64, u64>,
    /// Attempts without the word, whose intent may be stored all the same.
    unsent: BTreeMap<u64, String>,
}

struct Work {
    asked: Arriving,
    attempt: String,
    /// The attempt of another broker that was met.
    other: Option<String>,
    looks: u32,
    phase: Phase,
}

#[derive(PartialEq)]
enum Phase {
    Asks,
    Makes,
    Settles,
}

/// How a step on a page ended.
enum Turn {
    Stands(Admission),
    Again,
}

impl Brokers {
    /// Whether the session has heard of the end of a call.
    pub fn has_ended(&self, call: u64) -> bool {
        self.heard.contains(&call)
    }

    /// Whether nothing is under way.
    pub fn are_idle(&self) -> bool {
        self.arriving.is_empty() && self.replicas.iter().all(|replica| replica.working.is_empty())
    }

    fn name(&mut self, boot: u64, reuses: bool) -> String {
        self.attempts += 1;
        if reuses { "broker".to_owned() } else { format!("{boot}-{}", self.attempts) }
    }
}

/// One step of some replica.
pub fn step(out: &mut Outside) -> Result<(), Violation> {
    let at = out.random.below(2);
    if out.store.faults && out.random.one_in(30) {
        out.brokers.came.crashes += 1;
        out.brokers.boots += 1;
        out.brokers.replicas[at] = Replica { boot: out.brokers.boots, ..Replica::default() };
        return Ok(());
    }
    let mut replica = std::mem::take(&mut out.brokers.replicas[at]);
    let result = replica.step(out);
    out.brokers.replicas[at] = replica;
    result
}

impl Replica {
    fn step(&mut self, out: &mut Outside) -> Result<(), Violation> {
        let arrivals = out.brokers.arriving.len();
        if arrivals > 0 && (self.working.is_empty() || out.random.one_in(2)) {
            let asked = out.brokers.arriving.swap_remove(out.random.below(arrivals));
            return self.take(out, asked);
        }
        if self.working.is_empty() {
            return Ok(());
        }
        let work = self.working.swap_remove(out.random.below(self.working.len()));
        if let Some(work) = self.work(out, work)? {
            self.working.push(work);
        }
        Ok(())
    }

    fn take(&mut self, out: &mut Outside, asked: Arriving) -> Result<(), Violation> {
        if out.is(Mutant::CallsNotJournaled) {
            out.brokers.heard.insert(asked.call);
            return out.checks.effect(asked.call, asked.cell);
        }
        if let Some(cell) = self.done.get(&asked.call) {
            out.brokers.heard.insert(asked.call);
            return out.checks.repeated(asked.call, *cell);
        }
        // A call that is under way here is joined.
        if self.working.iter().all(|work| work.asked.call != asked.call) {
            let named = self.unsent.get(&asked.call).cloned();
            let reuses = out.is(Mutant::ReusesAttempts);
            let attempt = named.unwrap_or_else(|| out.brokers.name(self.boot, reuses));
            self.working.push(Work { asked, attempt, other: None, looks: 0, phase: Phase::Asks });
        }
        Ok(())
    }

    /// Answers what is left to do of it.
    fn work(&mut self, out: &mut Outside, mut work: Work) -> Result<Option<Work>, Violation> {
        let Arriving { call, cell, .. } = work.asked;
        match work.phase {
            Phase::Asks => return self.ask(out, work),
            Phase::Makes => {
                out.checks.effect(call, cell)?;
                work.phase = Phase::Settles;
                return Ok(Some(work));
            }
            Phase::Settles => {
                let attempt = work.attempt.clone();
                let stored = self.turn(out, |page| {
                    page.settle(call, &attempt, &cell);
                    Admission::Make
                })?;
                // The answer goes out in any case; a store that does not take it is not waited for for ever.
                let given_up = out.store.faults && out.random.one_in(4);
                if matches!(stored, Turn::Again) && !given_up {
                    return Ok(Some(work));
                }
            }
        }
        self.done.insert(call, cell);
        out.brokers.heard.insert(call);
        Ok(None)
    }

    fn ask(&mut self, out: &mut Outside, mut work: Work) -> Result<Option<Work>, Violation> {
        let (asked, attempt) = (work.asked, work.attempt.clone());
        let (takes_over, unfenced) = (out.is(Mutant::TakesOverIntents), out.is(Mutant::EffectsUnfenced));
        let take_over = work.other.as_deref().filter(|_| takes_over);
        let turn = self.turn(out, |page| {
            page.admit(&Asked {
                epoch: if unfenced { asked.epoch.max(page.epoch()) } else { asked.epoch },
                call: asked.call,
                settled_below: asked.settled_below,
                fingerprint: &asked.cell.to_string(),
                attempt: &attempt,
                repeated: asked.repeated,
                take_over,
            })
        })?;
        match turn {
            Turn::Again if out.store.faults && out.random.one_in(6) => {
                // Refused for now: who asked asks again.
                self.unsent.insert(asked.call, work.attempt);
                return Ok(None);
            }
            Turn::Again => return Ok(Some(work)),
            Turn::Stands(Admission::Make) => {
                self.unsent.remove(&asked.call);
                out.checks.is_let_go(asked.epoch, asked.call)?;
                work.phase = Phase::Makes;
                return Ok(Some(work));
            }
            Turn::Stands(Admission::Answered(answer)) => {
                let cell = answer.as_u64().unwrap_or_default();
                out.checks.repeated(asked.call, cell)?;
                out.brokers.came.from_page += 1;
                self.done.insert(asked.call, cell);
            }
            Turn::Stands(Admission::UnderWay { attempt }) => {
                work.looks += 1;
                if work.looks < LOOKS_MAX && !attempt.starts_with(&format!("{}-", self.boot)) {
                    self.page = None;
                    work.other = Some(attempt);
                    return Ok(Some(work));
                }
                out.brokers.came.unknown += 1;
            }
            Turn::Stands(Admission::Refused(Refusal::EpochOver { .. })) => {
                // Its process hears that it is no owner any more, and the session nothing.
                out.brokers.came.stale += 1;
                return Ok(None);
            }
            Turn::Stands(Admission::Refused(refusal)) => {
                if refusal == Refusal::AnotherCall {
                    out.checks.number_is_reused(asked.call, asked.cell)?;
                }
                out.brokers.came.unknown += 1;
            }
        }
        out.brokers.heard.insert(asked.call);
        Ok(None)
    }

    /// One request: reads the page if it is not at hand, else puts it as it is decided.
    fn turn(&mut self, out: &mut Outside, decide: impl FnOnce(&mut CallPage) -> Admission) -> Result<Turn, Violation> {
        let key = session().calls();
        let in_memory = out.is(Mutant::AnswersFromMemory);
        let fresh = self.page.is_none();
        if fresh && !in_memory && out.store.is_silent(&mut out.random) {
            return Ok(Turn::Again);
        }
        let (page, etag) = self.page.take().unwrap_or_else(|| match out.store.objects.get(&key).filter(|_| !in_memory) {
            Some((bytes, etag)) => (CallPage::decode(bytes, &session()).expect("only whole pages are stored"), Some(etag.clone())),
            None => (CallPage::new(&session()), None),
        });
        let mut next = page.clone();
        let decided = decide(&mut next);
        if next == page {
            let old = !fresh && decided == Admission::Make && !out.is(Mutant::BelievesOldPages);
            self.page = (!old).then_some((page, etag));
            return Ok(if old { Turn::Again } else { Turn::Stands(decided) });
        }
        if in_memory {
            self.page = Some((next, None));
            return Ok(Turn::Stands(decided));
        }
        if fresh {
            // The reading was the request of this step.
            self.page = Some((page, etag));
            return Ok(Turn::Again);
        }
        let bytes = next.encode().expect("a page is small");
        let condition = etag.map_or(Condition::Absent, Condition::Matches);
        let condition = (!out.is(Mutant::PutsPagesUnconditionally)).then_some(condition);
        match out.store.send(&mut out.random, &mut out.checks, Put { key, bytes, condition, boot: 0 })? {
            Reply::Stored { etag } => self.page = Some((next, Some(etag))),
            // It will be stored.
            _ if out.is(Mutant::SendsBeforeIntent) => {}
            _ => return Ok(Turn::Again),
        }
        Ok(Turn::Stands(decided))
    }
}
