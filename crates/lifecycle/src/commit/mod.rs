//! A commit as a machine: it says what to do next and is told what came of it.
//!
//! ```text
//! begin ─► [PutSegment] ─► PutHead ─┬─ stored ────────────────────────────► Committed
//!              │  ▲            │  ▲ └─ refused, conflicted ─► GetHead ─┬──► Committed   (put id is mine)
//!              └──┘ Resend     └──┘ Resend (unknown outcome)           ├──► Deleted     (a tombstone, or the head is gone)
//!                                                                      ├──► Zombie      (a higher epoch)
//!                                                                      ├──► Superseded  (newer than what was restored, not by a higher epoch)
//!                                                                      └──► PutHead     (unchanged: the same bytes again)
//! ```
//!
//! The head is put under the condition that it still is what this process restored or last committed, and its bytes carry a put id that no
//! other attempt has. So a head that reads back with that id *is* this commit, whatever replies were lost, and a repeated or late PUT of the
//! same bytes either finds its condition broken or changes nothing.
//!
//! Only [`Step::Committed`] allows an ack and lets effects leave. After every other end nothing of this commit was acked. [`Step::Failed`] may leave
//! either the old head or this commit's in the store; committing again from the same [`Owned`] is safe then, because it ends in
//! [`Step::Superseded`] when this commit had landed after all.

mod change;
mod failure;
pub(crate) mod prepare;

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;

pub use change::{Attachments, Change, Owned};
pub use failure::{CONFLICTS_MAX, Failure, REFUSALS_MAX};
use prepare::prepare;

use crate::{Head, head::SEGMENTS_MAX, inline::TopLayer};

/// Segments after which a chain is rewritten as one: each is a GET on the path of a wake.
pub const CHAIN_SEGMENTS_MAX: usize = 8;

/// Segments up to which a chain may grow where it cannot be rewritten: what a head may name.
pub const SEGMENTS_APPENDED_MAX: usize = SEGMENTS_MAX;

/// Bytes of later segments that are always tolerated, however small the first one is.
pub const CHAIN_SLACK_BYTES: u64 = 256 << 10;

/// The condition of a PUT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// Only if nothing is there (`If-None-Match: *`).
    Absent,
    /// Only if what is there has this ETag (`If-Match`).
    Matches(String),
}

/// What to do next.
#[derive(Debug)]
pub enum Step {
    /// Put this, which is absent unless an earlier attempt of this commit has put it. `Absent` or no condition are both right. A commit may ask
    /// for several: a segment, a part of a log, a checkpoint.
    PutSegment {
        /// Its key.
        key: String,
        /// Its bytes.
        bytes: Bytes,
    },
    /// Put this under the condition.
    PutHead {
        /// Its key.
        key: String,
        /// Its bytes.
        bytes: Bytes,
        /// The condition.
        condition: Condition,
    },
    /// Read the head and tell what is there.
    GetHead {
        /// Its key.
        key: String,
    },
    /// Do the last step again, identically, after a pause.
    Resend,
    /// It is stored: ack, let effects leave, go on from here.
    Committed(Owned),
    /// A later assignment has committed: drop the instance, ack nothing.
    Zombie {
        /// Its epoch.
        epoch: u64,
    },
    /// A predecessor's late write is newer than what was restored: drop the instance, restore, run the unacked cell again.
    Superseded {
        /// What is stored.
        head: Arc<Head>,
        /// Its ETag.
        etag: String,
    },
    /// The session is deleted: drop the instance, ack nothing.
    Deleted,
    /// It cannot be done. See the module on what may be stored.
    Failed(Failure),
}

/// What came of a step.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// The PUT is done.
    Stored {
        /// The new ETag.
        etag: String,
    },
    /// The condition does not hold (412; also 404 under `If-Match`).
    Refused,
    /// Another write was under way (409).
    Conflicted,
    /// A timeout, a lost connection or a 5xx: it may have happened or not, or may still.
    Unknown,
    /// What [`Step::GetHead`] found: the head and its ETag, or nothing.
    Head(Option<(Arc<Head>, String)>),
    /// It did certainly not happen, and would not if tried again: no permission, no bucket.
    Failed(String),
    /// What [`Step::GetHead`] found does not verify.
    Damaged(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Segment,
    Head,
    /// Reading the head; `refused` tells whether the PUT before was (else it was in conflict).
    Resolve {
        refused: bool,
    },
    Done,
}

/// A commit under way. The bytes of a step are shared, so a driver may keep them for a [`Step::Resend`].
#[derive(Debug)]
pub struct Commit {
    owned: Owned,
    head: Arc<Head>,
    top_layer: TopLayer,
    head_bytes: Bytes,
    /// Objects still to put before the head.
    puts: VecDeque<(String, Bytes)>,
    stage: Stage,
    refusals: u32,
    conflicts: u32,
}

/// Whether the next [`Change`] should be the whole image: the chain of segments costs more than writing it anew. The first segment of a
/// chain is a whole image, so later ones may grow to its size: every byte is then written twice at most.
#[must_use]
pub fn wants_full_image(owned: &Owned) -> bool {
    let Some((first, later)) = owned.head.as_ref().and_then(|head| head.segments.split_first()) else { return false };
    let later_bytes = later.iter().map(|s| s.bytes).fold(0, u64::saturating_add);
    later.len() + 1 >= CHAIN_SEGMENTS_MAX || later_bytes > first.bytes.max(CHAIN_SLACK_BYTES)
}

impl Commit {
    /// Begins. `put_id` is unique to this attempt. Compresses the pages, so a large change deserves a blocking thread.
    #[must_use]
    pub fn begin(owned: &Owned, change: Change, put_id: impl Into<String>) -> (Self, Step) {
        Self::begin_with(owned, change, Attachments::default(), put_id)
    }

    /// The same with what travels beside the change.
    #[must_use]
    pub fn begin_with(owned: &Owned, change: Change, attachments: Attachments, put_id: impl Into<String>) -> (Self, Step) {
        let owned = owned.clone();
        match prepare(&owned, change, attachments, put_id.into()) {
            Ok(prepared) => {
                let head = Arc::new(prepared.head);
                let (top_layer, head_bytes, puts) = (prepared.top_layer, prepared.bytes, prepared.puts);
                let mut commit = Self { owned, head, top_layer, head_bytes, puts, stage: Stage::Segment, refusals: 0, conflicts: 0 };
                let step = commit.put_next();
                (commit, step)
            }
            Err(failure) => {
                let head = Arc::new(Head::empty(&owned.session));
                let (top_layer, head_bytes, puts) = Default::default();
                (Self { owned, head, top_layer, head_bytes, puts, stage: Stage::Done, refusals: 0, conflicts: 0 }, Step::Failed(failure))
            }
        }
    }

    /// The next step after `reply`.
    pub fn on(&mut self, reply: Reply) -> Step {
        let step = match (self.stage, reply) {
            (Stage::Done, _) => Step::Failed(Failure::Driver("the commit has ended")),
            (_, Reply::Failed(reason)) => Step::Failed(Failure::Store(reason)),
            (_, Reply::Damaged(reason)) => Step::Failed(Failure::Damaged(reason)),
            (_, Reply::Unknown) | (Stage::Segment, Reply::Conflicted) => Step::Resend,
            // A segment's key holds a hash of its bytes: what is there already is what was to be put.
            (Stage::Segment, Reply::Stored { .. } | Reply::Refused) => self.put_next(),
            (Stage::Head, Reply::Stored { etag }) => self.committed(etag),
            (Stage::Head, Reply::Refused) => self.get_head(true),
            (Stage::Head, Reply::Conflicted) => self.get_head(false),
            (Stage::Resolve { refused }, Reply::Head(found)) => self.resolve(refused, found),
            (Stage::Segment | Stage::Head, Reply::Head(_)) => Step::Failed(Failure::Driver("a head where none was asked for")),
            (Stage::Resolve { .. }, Reply::Stored { .. } | Reply::Refused | Reply::Conflicted) => {
                Step::Failed(Failure::Driver("a PUT's reply to a GET"))
            }
        };
        if !matches!(step, Step::PutSegment { .. } | Step::PutHead { .. } | Step::GetHead { .. } | Step::Resend) {
            self.stage = Stage::Done;
        }
        step
    }

    fn put_next(&mut self) -> Step {
        if let Some((key, bytes)) = self.puts.pop_front() {
            return Step::PutSegment { key, bytes };
        }
        self.stage = Stage::Head;
        self.put_head()
    }

    fn put_head(&self) -> Step {
        let condition = match &self.owned.etag {
            Some(etag) => Condition::Matches(etag.clone()),
            None => Condition::Absent,
        };
        Step::PutHead { key: self.owned.session.head(), bytes: self.head_bytes.clone(), condition }
    }

    fn get_head(&mut self, refused: bool) -> Step {
        self.stage = Stage::Resolve { refused };
        Step::GetHead { key: self.owned.session.head() }
    }

    fn put_head_again(&mut self, refused: bool) -> Step {
        let (count, max, failure) = match refused {
            true => (&mut self.refusals, REFUSALS_MAX, Failure::RefusesTrue),
            false => (&mut self.conflicts, CONFLICTS_MAX, Failure::Conflicts),
        };
        *count += 1;
        if *count > max {
            return Step::Failed(failure);
        }
        self.stage = Stage::Head;
        self.put_head()
    }

    fn committed(&self, etag: String) -> Step {
        let (session, epoch, top_layer) = (self.owned.session.clone(), self.owned.epoch, self.top_layer.clone());
        Step::Committed(Owned { session, epoch, head: Some(Arc::clone(&self.head)), etag: Some(etag), top_layer })
    }

    fn resolve(&mut self, refused: bool, found: Option<(Arc<Head>, String)>) -> Step {
        let Some((head, etag)) = found else {
            // Only a deletion removes a head. A first commit that was refused met a head that is gone by now; one in conflict may have met none.
            return if refused || self.owned.head.is_some() { Step::Deleted } else { self.put_head_again(refused) };
        };
        if !head.belongs_to(&self.owned.session) {
            return Step::Failed(Failure::Foreign { uid: head.uid.clone() });
        }
        if head.put_id == self.head.put_id {
            return self.committed(etag);
        }
        if head.tombstone {
            return Step::Deleted;
        }
        if head.epoch > self.owned.epoch {
            return Step::Zombie { epoch: head.epoch };
        }
        if self.owned.etag.as_ref() == Some(&etag) {
            return self.put_head_again(refused);
        }
        match &self.owned.head {
            Some(known) if head.version() <= known.version() => {
                Step::Failed(Failure::WentBackwards { known: known.version(), found: head.version() })
            }
            _ => Step::Superseded { head, etag },
        }
    }
}

#[cfg(test)]
mod tests;
