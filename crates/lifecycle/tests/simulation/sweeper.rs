//! Garbage collection and deletion, a request at a time, so that anything can happen between two.

use dormouse_lifecycle::{Condition, Head, Reply, keys, sweep};

use crate::{
    check::Violation,
    mutant::Mutant,
    outside::{Outside, session},
    store::Put,
};

/// A sweep: the head that was read, then what was listed, then one deletion after the other.
pub struct Sweep {
    head: Head,
    doomed: Option<Vec<String>>,
}

impl Sweep {
    pub fn new(head: Head) -> Self {
        Self { head, doomed: None }
    }

    /// A sweep that a process begins by reading the head.
    pub fn read(out: &mut Outside) -> Option<Self> {
        let (head, _) = out.store.head(&mut out.random, &session().head())?;
        Some(Self::new(head))
    }

    /// One request. False when there is nothing left to do, or it was given up.
    pub fn step(&mut self, out: &mut Outside) -> Result<bool, Violation> {
        if out.store.is_silent(&mut out.random) {
            return Ok(!out.random.one_in(2));
        }
        let Some(doomed) = &mut self.doomed else {
            let listed: Vec<String> = out.store.objects.keys().filter(|key| key.starts_with(&session().prefix())).cloned().collect();
            out.swept.0 += 1;
            self.doomed = Some(doom(out.mutant, &listed, &self.head));
            return Ok(true);
        };
        let Some(key) = doomed.pop() else { return Ok(false) };
        out.checks.garbage_goes(&key)?;
        out.swept.1 += 1;
        out.store.objects.remove(&key);
        Ok(true)
    }
}

/// (epoch, sequence) of a key, for those who read it wrongly.
fn version(key: &str) -> Option<(u64, u64)> {
    let mut parts = key.rsplit('/').next()?.splitn(3, '-');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn doom(mutant: Option<Mutant>, listed: &[String], head: &Head) -> Vec<String> {
    let named = |key: &str| head.segments.iter().any(|s| s.key == key);
    let wrong = |rule: &dyn Fn((u64, u64), &str) -> bool| {
        listed.iter().filter(|key| version(key).is_some_and(|version| rule(version, key))).cloned().collect()
    };
    match mutant {
        Some(Mutant::GcIgnoresVersion) => wrong(&|_, key| !named(key)),
        Some(Mutant::GcComparesEpochOnly) => wrong(&|version, key| version.0 <= head.epoch && !named(key)),
        Some(Mutant::GcSparesOlderEpochs) => wrong(&|version, key| version.0 == head.epoch && version.1 <= head.sequence && !named(key)),
        Some(Mutant::GcIgnoresNames) => wrong(&|version, _| version <= head.version()),
        _ => sweep::deletable(listed, head).into_iter().map(ToOwned::to_owned).collect(),
    }
}

/// The deletion of the session, and its like for what is left of it later.
#[derive(Default)]
pub enum Eraser {
    #[default]
    Reads,
    Buries(Option<Box<(Head, String)>>),
    Lists,
    Deletes(Vec<String>),
    Done,
}

impl Eraser {
    /// What a crash at this point cuts off.
    pub fn step_name(&self) -> &'static str {
        match self {
            Self::Reads => "deletion reads",
            Self::Buries(_) => "deletion buries",
            Self::Lists => "deletion lists",
            Self::Deletes(_) => "deletion deletes",
            Self::Done => "deletion is done",
        }
    }

    /// One request.
    pub fn step(&mut self, out: &mut Outside) -> Result<(), Violation> {
        if out.store.is_silent(&mut out.random) {
            *self = Self::Reads;
            return Ok(());
        }
        *self = match std::mem::take(self) {
            Self::Reads => match out.store.head(&mut out.random, &session().head()) {
                _ if out.is(Mutant::DeletesWithoutTombstone) => Self::Lists,
                Some((head, _)) if head.tombstone => Self::Lists,
                found => Self::Buries(found.map(Box::new)),
            },
            Self::Buries(found) => put_tombstone(out, found.map(|found| *found))?,
            Self::Lists => Self::Deletes(order(out)),
            Self::Deletes(mut keys) => match keys.pop() {
                Some(key) => {
                    if key == session().calls() {
                        out.checks.calls_are_gone();
                    }
                    out.store.objects.remove(&key);
                    Self::Deletes(keys)
                }
                None => {
                    out.checks.deletion_is_done();
                    Self::Done
                }
            },
            Self::Done => Self::Done,
        };
        // The removal of the last object ends a deletion; nothing comes between.
        if matches!(self, Self::Deletes(keys) if keys.is_empty()) {
            out.checks.deletion_is_done();
            *self = Self::Done;
        }
        Ok(())
    }
}

fn put_tombstone(out: &mut Outside, found: Option<(Head, String)>) -> Result<Eraser, Violation> {
    let (bytes, condition) = match found {
        Some((head, etag)) => (sweep::tombstone(&head), Condition::Matches(etag)),
        None => (sweep::tombstone_of(&session()), Condition::Absent),
    };
    let bytes = bytes.expect("a tombstone is small");
    let put = Put { key: session().head(), bytes, condition: Some(condition), boot: 0 };
    match out.store.send(&mut out.random, &mut out.checks, put)? {
        Reply::Stored { .. } => Ok(Eraser::Lists),
        _ => Ok(Eraser::Reads),
    }
}

/// What is deleted last comes first.
fn order(out: &Outside) -> Vec<String> {
    let ours = |key: &&String| key.starts_with(&session().prefix()) || **key == session().calls();
    let (head, mut others): (Vec<String>, Vec<String>) = out.store.objects.keys().filter(ours).cloned().partition(|key| keys::is_head(key));
    if out.is(Mutant::TombstoneRemovedFirst) {
        others.extend(head);
        others
    } else {
        head.into_iter().chain(others).collect()
    }
}
