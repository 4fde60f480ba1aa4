//! A store with conditional writes, the way to it, and how both fail.

use std::collections::BTreeMap;

use bytes::Bytes;
use dormouse_lifecycle::{Condition, Head, Reply};

use crate::{
    check::{Checks, Violation},
    mutant::Lie,
    outside::session,
    random::Random,
};

/// Keys with bytes and ETag.
pub type Objects = BTreeMap<String, (Bytes, String)>;

/// A PUT under way.
#[derive(Clone, Debug)]
pub struct Put {
    pub key: String,
    pub bytes: Bytes,
    pub condition: Option<Condition>,
    /// The process that sends it.
    pub boot: u64,
}

impl Put {
    /// Whether it creates.
    pub fn is_first(&self) -> bool {
        self.condition == Some(Condition::Absent)
    }
}

/// The store.
pub struct Store {
    pub objects: Objects,
    /// PUTs whose sender has given up, and which may still take place.
    late: Vec<Put>,
    writes: u64,
    lie: Option<Lie>,
    before: Option<(Bytes, String)>,
    /// Whether requests fail.
    pub faults: bool,
    /// Whether somebody has put an older head back, or taken it away.
    pub went_back: bool,
}

impl Store {
    pub fn new(lie: Option<Lie>) -> Self {
        Self { objects: Objects::new(), late: Vec::new(), writes: 0, lie, before: None, faults: true, went_back: false }
    }

    /// A PUT as its sender sees it.
    pub fn send(&mut self, random: &mut Random, checks: &mut Checks, put: Put) -> Result<Reply, Violation> {
        if !self.faults {
            return self.take(checks, &put, true);
        }
        match random.below(14) {
            // Lost on the way there, or a 503; it may still arrive, and more than once.
            0 => {
                if random.one_in(2) {
                    self.late.push(put);
                }
                Ok(Reply::Unknown)
            }
            // Lost on the way back.
            1 => self.take(checks, &put, true).map(|_| Reply::Unknown),
            2 => Ok(Reply::Conflicted),
            // Delivered twice by the network, the second time late.
            3 if random.one_in(4) => {
                self.late.push(put.clone());
                self.take(checks, &put, true)
            }
            4 if self.lie == Some(Lie::ChecksThenWrites) && self.holds(&put) => {
                self.late.push(Put { condition: None, ..put });
                Ok(Reply::Stored { etag: format!("promised-{}", self.writes) })
            }
            _ => self.take(checks, &put, true),
        }
    }

    /// One of the late PUTs takes place.
    pub fn deliver_late(&mut self, random: &mut Random, checks: &mut Checks) -> Result<bool, Violation> {
        if self.late.is_empty() {
            return Ok(false);
        }
        let put = self.late.swap_remove(random.below(self.late.len()));
        self.take(checks, &put, false)?;
        Ok(true)
    }

    /// The head becomes the one before it, or nothing.
    pub fn go_back(&mut self, key: &str, lose: bool) {
        self.went_back = true;
        match self.before.take().filter(|_| !lose) {
            Some(before) => drop(self.objects.insert(key.to_owned(), before)),
            None => drop(self.objects.remove(key)),
        }
    }

    fn holds(&self, put: &Put) -> bool {
        let now = self.objects.get(&put.key).map(|(_, etag)| etag);
        match &put.condition {
            None => true,
            Some(Condition::Absent) => now.is_none(),
            Some(Condition::Matches(etag)) => now == Some(etag),
        }
    }

    fn take(&mut self, checks: &mut Checks, put: &Put, prompt: bool) -> Result<Reply, Violation> {
        if !self.holds(put) && self.lie != Some(Lie::IgnoresConditions) {
            return Ok(Reply::Refused);
        }
        self.writes += 1;
        let etag = self.writes.to_string();
        if self.lie == Some(Lie::AcksWithoutStoring) && prompt && self.writes.is_multiple_of(7) {
            return Ok(Reply::Stored { etag });
        }
        if put.key == session().head() {
            checks.head_is_put(put, &self.objects)?;
            self.before = self.objects.get(&put.key).cloned();
        } else if put.key.starts_with(&session().prefix()) {
            checks.segment_is_put(put)?;
        }
        self.objects.insert(put.key.clone(), (put.bytes.clone(), etag.clone()));
        Ok(Reply::Stored { etag })
    }

    /// The head with its ETag.
    pub fn head(&self, random: &mut Random, key: &str) -> Option<(Head, String)> {
        let stale = self.lie == Some(Lie::ReadsStale) && random.one_in(4);
        let found = if stale { self.before.as_ref() } else { self.objects.get(key) };
        found.map(|(bytes, etag)| (Head::decode(bytes).expect("only whole heads are stored"), etag.clone()))
    }

    /// Whether a request that only reads, lists or deletes gets no answer.
    pub fn is_silent(&self, random: &mut Random) -> bool {
        self.faults && random.one_in(10)
    }
}
