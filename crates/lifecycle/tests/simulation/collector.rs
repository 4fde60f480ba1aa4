//! What is stored of sessions that are gone: who looks for it, and another cluster in the same store. A request at a time.

use std::collections::HashSet;

use dormouse_lifecycle::{
    Condition, Reply,
    clusters::{Clusters, Verdict},
    keys,
    orphans::{Listed, Orphan},
};

use crate::{
    archive::{Archive, is_marked},
    check::{Violation, must},
    mutant::Mutant,
    outside::{Existence, OTHER_UID, Outside, another, session},
    random::Random,
    store::Put,
    sweeper::Eraser,
};

/// What tells the second source of chance from the first.
const ASIDE: u64 = 1 << 40;

/// Requests within which a sweep must end once faults have stopped.
const QUIET_STEPS_MAX: usize = 200;

/// The cluster of the one session of a run.
const OURS: &str = "ours";
/// Another, which is never asked anything.
const THEIRS: &str = "theirs";

fn key() -> String {
    let session = session();
    keys::clusters(&session.store_prefix, &session.tenant)
}

fn read(out: &Outside) -> (Option<Clusters>, Condition) {
    match out.store.objects.get(&key()) {
        Some((bytes, etag)) => (Some(Clusters::decode(bytes).expect("only whole objects are stored")), Condition::Matches(etag.clone())),
        None => (None, Condition::Absent),
    }
}

fn put(out: &mut Outside, clusters: &Clusters, condition: Condition) -> Result<Reply, Violation> {
    let bytes = clusters.encode().expect("it is small");
    out.store.send(&mut out.random, &mut out.checks, Put { key: key(), bytes, condition: Some(condition), boot: 0 })
}

fn listed(out: &Outside) -> Listed {
    let keys: Vec<String> =
        out.store.objects.keys().filter(|key| !out.is(Mutant::SparesCalls) || !key.ends_with(keys::CALLS)).cloned().collect();
    Listed::of(&session().store_prefix, &keys)
}

/// The uids that our API server knows.
fn known(out: &Outside) -> HashSet<String> {
    let known = match out.exists {
        Existence::NotYet | Existence::Archived | Existence::Gone => false,
        Existence::Deleting => !out.is(Mutant::TakesDeletingForGone),
        Existence::Live => !out.archived,
    };
    known.then(|| session().uid).into_iter().collect()
}

/// Our processes write the name before anything else: at the start of a run, in a store that may have a stranger's session already.
pub fn join(out: &mut Outside) {
    let empty = listed(out).is_empty() || out.is(Mutant::AccountsUnseen);
    let clusters = Clusters::join(None, OURS, empty).expect("nothing is there");
    out.store.objects.insert(key(), (clusters.encode().expect("it is small"), "joined".to_owned()));
}

/// Whether no other cluster has written its name.
pub fn are_alone(out: &Outside) -> bool {
    read(out).0.is_some_and(|clusters| clusters.clusters.len() == 1)
}

/// A sweep for what belongs to no session.
#[derive(Default)]
pub enum Collector {
    #[default]
    Lists,
    Asks(Listed),
    /// The order that is wrong.
    ListsLate(HashSet<String>),
    Judges(Vec<Orphan>),
    /// What it judged before it listed.
    ListsJudged(Verdict),
    AsksJudged(Verdict, Listed),
    Accounts(Clusters, Condition),
    /// What is left, and the next of them.
    Looks(Vec<Orphan>, Orphan),
    Erases(Vec<Orphan>, Eraser),
    Done,
}

impl Collector {
    /// One request. A failed one ends the sweep.
    pub fn step(self, out: &mut Outside) -> Result<Self, Violation> {
        if out.store.is_silent(&mut out.random) {
            return Ok(Self::Done);
        }
        Ok(match self {
            Self::Lists if out.is(Mutant::AsksBeforeListing) => Self::ListsLate(known(out)),
            Self::Lists if out.is(Mutant::JudgesBeforeListing) => Self::ListsJudged(Clusters::judge(read(out).0.as_ref(), OURS, false)),
            Self::Lists => Self::Asks(listed(out)),
            Self::Asks(listed) => Self::Judges(unknown(out, &listed, &known(out))),
            Self::ListsLate(known) => Self::Judges(unknown(out, &listed(out), &known)),
            Self::ListsJudged(verdict) => Self::AsksJudged(verdict, listed(out)),
            Self::AsksJudged(verdict, listed) => act(verdict, Condition::Absent, unknown(out, &listed, &known(out))),
            Self::Judges(orphans) => {
                let (stored, condition) = read(out);
                let verdict = match Clusters::judge(stored.as_ref(), OURS, orphans.is_empty()) {
                    Verdict::Leave(_) if out.is(Mutant::IgnoresOtherClusters) => Verdict::Collect,
                    verdict => verdict,
                };
                act(verdict, condition, orphans)
            }
            Self::Accounts(clusters, condition) => {
                put(out, &clusters, condition)?;
                Self::Done
            }
            Self::Looks(orphans, orphan) => {
                // In the meantime it may have been archived.
                if is_marked(out) && orphan.uid == session().uid && !out.is(Mutant::ForgetsTheMark) {
                    next(orphans)
                } else {
                    out.checks.orphan_goes(&orphan.uid, out.exists)?;
                    out.collected += orphan.objects;
                    Self::Erases(orphans, Eraser::default())
                }
            }
            Self::Erases(orphans, mut eraser) => {
                eraser.step(out)?;
                if matches!(eraser, Eraser::Done) { next(orphans) } else { Self::Erases(orphans, eraser) }
            }
            Self::Done => Self::Done,
        })
    }

    /// Whether it has ended.
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done)
    }
}

fn unknown(out: &Outside, listed: &Listed, known: &HashSet<String>) -> Vec<Orphan> {
    let mut orphans: Vec<Orphan> = listed.unknown(known).into_iter().flat_map(|(_, orphans)| orphans).collect();
    if out.is(Mutant::SparesHeads) {
        orphans.retain(|orphan| orphan.uid == OTHER_UID || !out.store.objects.contains_key(&session().head()));
    }
    orphans
}

fn act(verdict: Verdict, condition: Condition, orphans: Vec<Orphan>) -> Collector {
    match verdict {
        Verdict::Account(clusters) => Collector::Accounts(clusters, condition),
        Verdict::Collect => next(orphans),
        Verdict::Nothing | Verdict::Leave(_) => Collector::Done,
    }
}

/// Goes on to the next session.
fn next(mut orphans: Vec<Orphan>) -> Collector {
    match orphans.pop() {
        Some(orphan) => Collector::Looks(orphans, orphan),
        None => Collector::Done,
    }
}

/// Another cluster that comes to use the store: its name, then a session of which our API server never hears.
#[derive(Default)]
pub enum Neighbour {
    #[default]
    Reads,
    Joins(Clusters, Condition),
    Stores,
    Done,
}

impl Neighbour {
    /// One request.
    pub fn step(&mut self, out: &mut Outside) -> Result<(), Violation> {
        if out.store.is_silent(&mut out.random) {
            return Ok(());
        }
        *self = match std::mem::take(self) {
            Self::Reads => {
                let (stored, condition) = read(out);
                match Clusters::join(stored.as_ref(), THEIRS, false) {
                    Some(joined) => Self::Joins(joined, condition),
                    None => Self::Stores,
                }
            }
            Self::Joins(joined, condition) => {
                put(out, &joined, condition)?;
                Self::Reads
            }
            Self::Stores => {
                stores(out);
                Self::Done
            }
            Self::Done => Self::Done,
        };
        Ok(())
    }
}

/// The other cluster's session is stored, by a process that has written its name, or is of a version that writes none.
pub fn stores(out: &mut Outside) {
    out.store.objects.insert(another().head(), (bytes::Bytes::from_static(b"theirs"), "theirs".to_owned()));
}

/// Who collects and the other cluster, beside everybody else.
pub struct Beside {
    collector: Collector,
    neighbour: Neighbour,
    archive: Archive,
    /// Chance of their own, so that all else goes as it goes without them.
    pub random: Random,
}

impl Beside {
    /// In every third run there is another cluster; in some of those without a deletion the session is archived.
    pub fn new(seed: u64) -> Self {
        let neighbour = if seed % 3 == 2 { Neighbour::default() } else { Neighbour::Done };
        let archive = if seed % 7 == 2 && !seed.is_multiple_of(4) { Archive::Marks } else { Archive::Done };
        Self { collector: Collector::Done, neighbour, archive, random: Random::new(seed.wrapping_add(ASIDE)) }
    }

    /// What they do while the others do one thing: nothing, most of the time.
    pub fn step(&mut self, out: &mut Outside) -> Result<(), Violation> {
        std::mem::swap(&mut out.random, &mut self.random);
        let outcome = match out.random.below(48) {
            0..=3 => self.collects(out),
            4 => self.neighbour.step(out),
            5 => {
                self.archive.step(out);
                Ok(())
            }
            _ => Ok(()),
        };
        std::mem::swap(&mut out.random, &mut self.random);
        outcome
    }

    /// A request of a sweep, or the begin of the next one.
    fn collects(&mut self, out: &mut Outside) -> Result<(), Violation> {
        if self.collector.is_done() && out.random.one_in(4) {
            self.collector = Collector::default();
        }
        self.collector = std::mem::take(&mut self.collector).step(out)?;
        Ok(())
    }

    /// Faults have stopped: the sweep that is under way, then one more.
    pub fn collects_once(&mut self, out: &mut Outside) -> Result<(), Violation> {
        for sweep in [std::mem::replace(&mut self.collector, Collector::Done), Collector::default()] {
            let mut sweep = sweep;
            for _ in 0..QUIET_STEPS_MAX {
                sweep = sweep.step(out)?;
            }
            must(sweep.is_done(), "everything comes to rest when faults stop", || "a sweep is not done".to_owned())?;
        }
        Ok(())
    }
}
