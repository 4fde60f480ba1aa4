//! Which calls of a session were let go to the world, and what came of them: the part of a broker's journal that outlives its processes.
//!
//! All calls of a session that are not safe to repeat are in one object, the page, which is only ever replaced by `If-Match` or created by
//! `If-None-Match`. A call may leave after a page that holds it as an *intent* is stored, and is answered after a page with its *outcome* is.
//! Pages of a session form one chain, so of brokers that want to make the same call one wins, and epochs along the chain never fall. A page never
//! has the bytes of an earlier one (its revision grows), so no late PUT finds its condition true again. The form of a page:
//!
//! `magic (8) ‖ compressed bytes (u32 LE) ‖ raw bytes (u32 LE) ‖ zstd(JSON) ‖ sha256 of all before (32)`.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{SessionKey, attempts::may_follow, compression, json, segment::sha256_hex};

/// Calls on a page at most; of those with an outcome, the lowest number goes first.
pub const CALLS_MAX: usize = 1_024;

/// Bytes of one answer, as JSON, that a page keeps.
pub const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Bytes of all answers on a page; the lowest number's goes first.
pub const ANSWERS_BYTES_MAX: usize = 512 << 10;

/// Bytes of a page's JSON at most: every call, every answer, and room for escapes.
pub const PAGE_BYTES_MAX: usize = 4 << 20;

/// Hex digits of a fingerprint.
const FINGERPRINT_DIGITS: usize = 32;

const ZSTD_LEVEL: i32 = 1;
const MAGIC: [u8; 8] = *b"DMCALL\0\x01";
const HEADER_BYTES: usize = MAGIC.len() + 4 + 4;
const CHECKSUM_BYTES: usize = 32;

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

/// A call that was told to wait.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Waiting {
    fingerprint: String,
    /// The epoch in which it was made. The session asks again in later ones.
    epoch: u64,
}

/// What was decided about a call that waited for somebody.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// Tells one from another.
    pub id: String,
    /// The epoch in which the call was made that it is about.
    pub epoch: u64,
    /// Which.
    pub verdict: Verdict,
    /// Who decided; empty for time.
    pub by: String,
}

/// See [`Decision`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// The call with these tool and arguments is made.
    Approved {
        /// The digest of what was seen.
        digest: String,
        /// The arguments instead, if they were changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<serde_json::Value>,
    },
    /// It is not made.
    Denied {
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Nobody decided in time.
    Expired,
}

/// Decisions on a page at most.
pub const DECISIONS_MAX: usize = 256;

/// Calls that wait for somebody, on a page at most.
pub const PARKED_MAX: usize = CALLS_MAX;

/// Bytes of one decision, as JSON.
pub const DECISION_BYTES_MAX: usize = 64 << 10;

/// Bytes of all decisions on a page.
pub const DECISIONS_BYTES_MAX: usize = 512 << 10;

/// Why a decision is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Undecided {
    /// It is too large.
    #[error("a decision has {DECISION_BYTES_MAX} bytes at most, with the changed arguments")]
    TooLarge,
    /// There are too many that nobody has used.
    #[error("{DECISIONS_MAX} decisions, or {DECISIONS_BYTES_MAX} bytes of them, wait for this session to take them")]
    TooMany,
    /// The call is over.
    #[error("the call is over")]
    Over,
    /// It is about a call that was made in another epoch.
    #[error("the call that waits was made in epoch {made_in}")]
    AnotherEpoch {
        /// The epoch of the call that waits.
        made_in: u64,
    },
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

/// Why bytes are not a page, or a page cannot become bytes.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// Shorter or longer than its own lengths say.
    #[error("the page of calls has another length than it says")]
    Length,
    /// It is something else, or a newer format.
    #[error("not a page of calls of a known format")]
    Magic,
    /// The checksum differs.
    #[error("the checksum of the page of calls does not match its bytes")]
    Checksum,
    /// Larger than [`PAGE_BYTES_MAX`].
    #[error("{bytes} bytes in one page of calls; at most {PAGE_BYTES_MAX} are allowed")]
    TooLarge {
        /// How many.
        bytes: usize,
    },
    /// zstd refused.
    #[error("the page of calls cannot be (de)compressed: {0}")]
    Zstd(#[source] std::io::Error),
    /// Not what it should be inside.
    #[error("the page of calls cannot be read or written: {0}")]
    Json(#[from] serde_json::Error),
    /// It is older than what is known to have been stored.
    #[error("the page of calls was rolled back from revision {known} to {found}")]
    RolledBack {
        /// The revision that is known.
        known: u64,
        /// The one that is there.
        found: u64,
    },
    /// It is of another session.
    #[error("the page of calls belongs to session {uid} of {tenant}")]
    Foreign {
        /// Its tenant.
        tenant: String,
        /// Its uid.
        uid: String,
    },
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

    /// What was decided about a call.
    #[must_use]
    pub fn decision(&self, call: u64) -> Option<&Decision> {
        self.decisions.get(&call)
    }

    /// Writes down what was decided about a call, unless something was; answers what stands. It stands when this page is stored; not before.
    ///
    /// # Errors
    /// There is no room for it, the call is over, or the one that waits was made in another epoch.
    pub fn decide(&mut self, call: u64, decision: &Decision) -> Result<Decision, Undecided> {
        if let Some(standing) = self.decisions.get(&call) {
            return Ok(standing.clone());
        }
        if call < self.settled_below || self.calls.contains_key(&call) {
            return Err(Undecided::Over);
        }
        if let Some(made_in) = self.made_in(call).filter(|made_in| *made_in != decision.epoch) {
            return Err(Undecided::AnotherEpoch { made_in });
        }
        let size = |decision: &Decision| serde_json::to_vec(decision).map_or(usize::MAX, |json| json.len());
        if size(decision) > DECISION_BYTES_MAX {
            return Err(Undecided::TooLarge);
        }
        let all: usize = self.decisions.values().map(size).sum();
        if self.decisions.len() >= DECISIONS_MAX || all + size(decision) > DECISIONS_BYTES_MAX {
            return Err(Undecided::TooMany);
        }
        if self.first == 0 {
            self.first = call;
            decision.id.clone_into(&mut self.chain);
        }
        self.decisions.insert(call, decision.clone());
        Ok(decision.clone())
    }

    /// The epoch in which a call was made that waits for somebody.
    #[must_use]
    pub fn made_in(&self, call: u64) -> Option<u64> {
        self.parked.get(&call).map(|waiting| waiting.epoch)
    }

    /// Writes down that a call of this epoch waits for somebody. It does when this page is stored; not before.
    ///
    /// # Errors
    /// Too many do.
    pub fn park(&mut self, call: u64, epoch: u64, fingerprint: &str, attempt: &str) -> Result<(), Refusal> {
        if self.parked.contains_key(&call) || self.calls.contains_key(&call) || call < self.settled_below {
            return Ok(());
        }
        if self.parked.len() >= PARKED_MAX {
            return Err(Refusal::TooMany);
        }
        if self.first == 0 {
            self.first = call;
            attempt.clone_into(&mut self.chain);
        }
        self.parked.insert(call, Waiting { fingerprint: fingerprint.to_owned(), epoch });
        Ok(())
    }

    /// Whether this very call was told to wait, and has not been made.
    #[must_use]
    pub fn is_parked(&self, call: u64, fingerprint: &str) -> bool {
        self.parked.get(&call).is_some_and(|waiting| waiting.fingerprint == fingerprint)
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

    /// The bytes to store in place of the page that this one was decoded from. Everything of the journal of calls that is stored passes here.
    ///
    /// # Errors
    /// The page is too large.
    pub fn encode(&mut self) -> Result<Bytes, PageError> {
        self.revision += 1;
        let raw = serde_json::to_vec(self)?;
        let raw_length = length(raw.len())?;
        let compressed = compression::compress(&raw, ZSTD_LEVEL).map_err(PageError::Zstd)?;
        let mut out = Vec::with_capacity(HEADER_BYTES + compressed.len() + CHECKSUM_BYTES);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&length(compressed.len())?.to_le_bytes());
        out.extend_from_slice(&raw_length.to_le_bytes());
        out.extend_from_slice(&compressed);
        let checksum = Sha256::digest(&out);
        out.extend_from_slice(&checksum);
        Ok(out.into())
    }

    /// Reads what is stored as the page of `session`. Everything of the journal of calls that comes back passes here.
    ///
    /// # Errors
    /// Why the bytes are not believed.
    pub fn decode(bytes: &[u8], session: &SessionKey) -> Result<Self, PageError> {
        let (body, checksum) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or(PageError::Length)?;
        let (header, compressed) = body.split_first_chunk::<HEADER_BYTES>().ok_or(PageError::Length)?;
        if !header.starts_with(&MAGIC) {
            return Err(PageError::Magic);
        }
        let number = |at: usize| {
            let bytes = header.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).ok_or(PageError::Length)?;
            usize::try_from(u32::from_le_bytes(bytes)).map_err(|_| PageError::Length)
        };
        if compressed.len() != number(MAGIC.len())? {
            return Err(PageError::Length);
        }
        if Sha256::digest(body).as_slice() != checksum {
            return Err(PageError::Checksum);
        }
        let raw_length = number(MAGIC.len() + 4)?;
        length(raw_length)?;
        let raw = compression::decompress(compressed, raw_length).map_err(PageError::Zstd)?;
        let page: Self = serde_json::from_slice(&raw)?;
        if page.tenant != session.tenant || page.uid != session.uid {
            return Err(PageError::Foreign { tenant: page.tenant, uid: page.uid });
        }
        Ok(page)
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

fn length(bytes: usize) -> Result<u32, PageError> {
    let fits = u32::try_from(bytes).ok().filter(|_| bytes <= PAGE_BYTES_MAX);
    fits.ok_or(PageError::TooLarge { bytes })
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod tests;
