//! Which calls of a session were let go to the world, and what came of them: the part of a broker's journal that outlives its processes.
//!
//! All calls of a session that are not safe to repeat are in one object, the page, which is only ever replaced by `If-Match` or created by
//! `If-None-Match`. A call may leave after a page that holds it as an *intent* is stored, and is answered after a page with its *outcome* is.
//! Pages of a session form one chain, so of brokers that want to make the same call one wins, and epochs along the chain never fall. A page never
//! has the bytes of an earlier one (its revision grows), so no late PUT finds its condition true again. The form of a page:
//!
//! `magic (8) ‖ compressed bytes (u32 LE) ‖ raw bytes (u32 LE) ‖ zstd(JSON) ‖ sha256 of all before (32)`.

mod decisions;
mod format;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{SessionKey, attempts::may_follow, json, segment::sha256_hex};

use decisions::Waiting;
pub use decisions::{DECISION_BYTES_MAX, DECISIONS_BYTES_MAX, DECISIONS_MAX, Decision, PARKED_MAX, Undecided, Verdict};
pub use format::{PAGE_BYTES_MAX, PageError};

/// Calls on a page at most; of those with an outcome, the lowest number goes first.
pub const CALLS_MAX: usize = 1_024;

/// Bytes of one answer, as JSON, that a page keeps.
pub const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Bytes of all answers on a page; the lowest number's goes first.
pub const ANSWERS_BYTES_MAX: usize = 512 << 10;

/// Hex digits of a fingerprint.
const FINGERPRINT_DIGITS: usize = 32;

/// The calls of one session.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallPage {
    tenant: String,
    uid: String,
    /// The name of the attempt that the first page was made for: whatever begins anew has another.
    #[serde(default)]
    chain: String,
    /// Grows with every page that is stored.
    revision: u64,
    /// The highest epoch that has asked. A lower one is over.
    epoch: u64,
    /// The number of the call that the first page was made for: earlier ones went through a broker without pages, if any.
    first: u64,
    /// Calls up to this number that are not on the page are over, or their outcome had to go.
    forgotten_through: u64,
    /// Calls below this number are over.
    #[serde(default)]
    settled_below: u64,
    calls: BTreeMap<u64, Entry>,
    /// What was decided about calls that waited for somebody. A decision, and the entry of its call, stay until that call is over.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    decisions: BTreeMap<u64, Decision>,
    /// Calls that were told to wait for somebody: they go on waiting whatever is asked later, until they are over.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    parked: BTreeMap<u64, Waiting>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    /// Tells a repeated call from another one with the same number.
    fingerprint: String,
    /// Who may make it. No two brokers, and no two attempts of one, have the same.
    attempt: String,
    /// What came of it; `None` while it is an intent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outcome: Option<Outcome>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Outcome {
    Answer(serde_json::Value),
    /// It was made, and its answer was too large or had to go.
    Unkept,
    /// It may have been made through a broker without pages.
    Unknown,
}

/// A call that somebody wants to be made.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The epoch of who asks.
    pub epoch: u64,
    /// The call's number in the session, from 1.
    pub call: u64,
    /// Calls below this number have their answers in a committed heap.
    pub settled_below: u64,
    /// See [`fingerprint`].
    pub fingerprint: &'a str,
    /// The name of this attempt, which no other has. Who asks under it has not made the call.
    pub attempt: &'a str,
    /// Whether it may have been sent before.
    pub repeated: bool,
    /// The attempt whose intent is taken over: only for a service that makes calls of one key once.
    pub take_over: Option<&'a str>,
}

/// What to do about a call, once the page that says so is stored.
#[derive(Debug, Clone, PartialEq)]
pub enum Admission {
    /// Make it, and [`CallPage::settle`] it.
    Make,
    /// It was made.
    Answered(serde_json::Value),
    /// Another attempt was let go, and has no outcome yet.
    UnderWay {
        /// Its name.
        attempt: String,
    },
    /// It is not made.
    Refused(Refusal),
}

/// Why a call is not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The session has another owner.
    #[error("the session is at epoch {highest}; the caller's is over")]
    EpochOver {
        /// The highest that has asked.
        highest: u64,
    },
    /// No owner has it.
    #[error("the caller's epoch is further ahead than any owner's")]
    EpochTooFar,
    /// The number belongs to another call.
    #[error("a call of this number was another one")]
    AnotherCall,
    /// It is over, and its answer is not there.
    #[error("the call is over, and its answer is no longer kept or was too large to keep; it is not made again")]
    Unkept,
    /// It may have been made.
    #[error("the call may have been made; what came of it is not known, and it is not made again")]
    Unknown,
    /// Too many calls without an outcome.
    #[error("{CALLS_MAX} calls of this session have no outcome yet")]
    TooMany,
}

/// What two sendings of the same call have in common, and two calls do not.
#[must_use]
pub fn fingerprint(tool: &str, args: &str) -> String {
    let mut digest = sha256_hex(format!("{}\n{tool}\n{args}", tool.len()).as_bytes());
    digest.truncate(FINGERPRINT_DIGITS);
    digest
}

impl CallPage {
    /// The page of a session that has none yet.
    #[must_use]
    pub fn new(session: &SessionKey) -> Self {
        Self { tenant: session.tenant.clone(), uid: session.uid.clone(), ..Self::default() }
    }

    /// The highest epoch that has asked.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// What tells, later, whether a page is this one or a later one of the same chain: the chain and the revision.
    #[must_use]
    pub fn anchor(&self) -> String {
        format!("{}/{}", self.chain, self.revision)
    }

    /// Whether it may be gone on from when the page that answered `anchor` is known to have been stored: what an older one does not hold may have
    /// been made. A page of another chain, which began after that was lost or where another broker keeps it, knows what it has not seen.
    ///
    /// # Errors
    /// It is older.
    pub fn believe(&self, anchor: &str) -> Result<(), PageError> {
        let Some((chain, known)) = anchor.rsplit_once('/').and_then(|(chain, known)| Some((chain, known.parse().ok()?))) else {
            return Ok(());
        };
        let found = self.revision;
        if chain == self.chain && found < known { Err(PageError::RolledBack { known, found }) } else { Ok(()) }
    }

    /// Whether the page that answered `anchor` belongs to another chain than this one.
    #[must_use]
    pub fn is_another(&self, anchor: &str) -> bool {
        anchor.rsplit_once('/').is_some_and(|(chain, _)| chain != self.chain)
    }

    /// Decides about a call. The decision stands when this page, if it has changed, is stored; not before.
    pub fn admit(&mut self, asked: &Asked<'_>) -> Admission {
        if asked.epoch < self.epoch {
            self.take_back(asked);
            return Admission::Refused(Refusal::EpochOver { highest: self.epoch });
        }
        if !may_follow(self.epoch, asked.epoch) {
            return Admission::Refused(Refusal::EpochTooFar);
        }
        self.epoch = asked.epoch;
        self.forget_below(asked.settled_below);
        if self.first == 0 {
            self.first = asked.call;
            asked.attempt.clone_into(&mut self.chain);
        }
        if let Some(entry) = self.calls.get_mut(&asked.call) {
            return entry.admit(asked);
        }
        // What waited for a decision was made by nobody: its entry would be here.
        let waited = self.decisions.contains_key(&asked.call);
        if asked.call <= self.forgotten_through && !waited {
            return Admission::Refused(Refusal::Unkept);
        }
        // What a broker without pages has let go is on none: neither when this is the first page nor for numbers before it.
        let unseen = asked.repeated && !waited && (self.revision == 0 || asked.call < self.first);
        self.make_room();
        if self.calls.len() >= CALLS_MAX {
            return Admission::Refused(Refusal::TooMany);
        }
        self.parked.remove(&asked.call);
        let outcome = unseen.then_some(Outcome::Unknown);
        let entry = Entry { fingerprint: asked.fingerprint.to_owned(), attempt: asked.attempt.to_owned(), outcome };
        self.calls.insert(asked.call, entry);
        if unseen { Admission::Refused(Refusal::Unknown) } else { Admission::Make }
    }

    /// Writes down what came of an attempt. An epoch that is over may do so: its successor waits for it.
    pub fn settle(&mut self, call: u64, attempt: &str, answer: &impl Serialize) {
        let Some(entry) = self.calls.get_mut(&call).filter(|entry| entry.attempt == attempt && entry.outcome.is_none()) else { return };
        // One that is too large is not copied to find that out.
        let kept = (json::bytes(answer) <= ANSWER_BYTES_MAX).then(|| serde_json::to_value(answer).ok()).flatten();
        entry.outcome = Some(kept.map_or(Outcome::Unkept, Outcome::Answer));
        let mut bytes = self.answers_bytes();
        for entry in self.calls.values_mut() {
            if bytes <= ANSWERS_BYTES_MAX {
                return;
            }
            let freed = entry.answer_bytes();
            if freed > 0 {
                entry.outcome = Some(Outcome::Unkept);
                bytes -= freed;
            }
        }
    }

    /// Bytes of the answers that it keeps, as JSON: nearly all that it takes.
    #[must_use]
    pub fn answers_bytes(&self) -> usize {
        self.calls.values().map(Entry::answer_bytes).sum()
    }

    /// Removes the intent of an attempt whose epoch ended before it got the word: it is not made, so its successor need not wait for an outcome.
    /// Whoever asks under an attempt's name has not made it.
    fn take_back(&mut self, asked: &Asked<'_>) {
        let own = |entry: &Entry| entry.attempt == asked.attempt && entry.outcome.is_none();
        // Without its entry, a number that counts as forgotten would not be made any more.
        if asked.call > self.forgotten_through && self.calls.get(&asked.call).is_some_and(own) {
            self.calls.remove(&asked.call);
        }
    }

    fn forget_below(&mut self, settled_below: u64) {
        if settled_below > self.forgotten_through.saturating_add(1) {
            self.calls = self.calls.split_off(&settled_below);
            self.decisions = self.decisions.split_off(&settled_below);
            self.parked = self.parked.split_off(&settled_below);
            self.forgotten_through = settled_below - 1;
        }
        self.settled_below = self.settled_below.max(settled_below);
    }

    fn make_room(&mut self) {
        while self.calls.len() >= CALLS_MAX {
            let may_go = |(call, entry): &(&u64, &Entry)| entry.outcome.is_some() && !self.decisions.contains_key(call);
            let Some(call) = self.calls.iter().find(may_go).map(|(call, _)| *call) else { return };
            // Intents below it stay on the page, so they are not what this number forgets.
            self.calls.remove(&call);
            self.forgotten_through = self.forgotten_through.max(call);
        }
    }
}

impl Entry {
    fn admit(&mut self, asked: &Asked<'_>) -> Admission {
        if self.fingerprint != asked.fingerprint {
            return Admission::Refused(Refusal::AnotherCall);
        }
        match &self.outcome {
            Some(Outcome::Answer(answer)) => Admission::Answered(answer.clone()),
            Some(Outcome::Unkept) => Admission::Refused(Refusal::Unkept),
            Some(Outcome::Unknown) => Admission::Refused(Refusal::Unknown),
            None if self.attempt == asked.attempt => Admission::Make,
            None if asked.take_over == Some(self.attempt.as_str()) => {
                asked.attempt.clone_into(&mut self.attempt);
                Admission::Make
            }
            None => Admission::UnderWay { attempt: self.attempt.clone() },
        }
    }

    fn answer_bytes(&self) -> usize {
        match &self.outcome {
            Some(Outcome::Answer(answer)) => json::bytes(answer),
            _ => 0,
        }
    }
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod tests;
