//! A session's page of calls in memory: what waits to change it, and how long it is kept.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use dormouse_lifecycle::{
    SessionKey,
    calls::{Admission, Asked, CallPage, Decision, Refusal, Undecided},
};
use dormouse_protocol::{ApiError, broker::ToolAnswer};
use dormouse_store::ETag;
use tokio::sync::oneshot;

use super::lock;

/// One session.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) session: SessionKey,
    pub(super) queue: Mutex<Vec<Queued>>,
    /// The page as it was last seen, with its ETag; `None`: to be read.
    pub(super) page: tokio::sync::Mutex<Option<(CallPage, Option<ETag>)>>,
    /// Bytes of answers on it.
    pub(super) bytes: AtomicUsize,
    /// The anchor of the page that was seen or stored last.
    pub(super) seen: Mutex<Option<String>>,
    /// Attempts that never got the word, and whose intent may be stored all the same.
    pub(super) unsent: Mutex<BTreeMap<u64, String>>,
}

#[derive(Debug)]
pub(super) struct Queued {
    pub(super) change: Change,
    pub(super) told: oneshot::Sender<Result<Said, ApiError>>,
}

/// What a page knows of a call that waits or has waited.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Standing {
    /// What was decided about it.
    pub(crate) decision: Option<Decision>,
    /// The epoch in which it was made, while it waits.
    pub(crate) made_in: Option<u64>,
}

impl Standing {
    fn of(page: &CallPage, call: u64) -> Self {
        Self { decision: page.decision(call).cloned(), made_in: page.made_in(call) }
    }
}

/// What a page says to a change.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Said {
    Admission(Admission),
    /// What stands decided about a call.
    Standing(Standing),
    Undecided(Undecided),
    /// Whether a call waits.
    Parked(bool),
    Unparked(Refusal),
}

#[derive(Debug, Clone)]
pub(super) enum Change {
    Admit(Box<Wanted>),
    Settle { call: u64, attempt: String, answer: Arc<ToolAnswer> },
    Look { call: u64 },
    Decide { call: u64, decision: Box<Decision> },
    Park { call: u64, epoch: u64, fingerprint: String, attempt: String },
    LookParked { call: u64, fingerprint: String },
}

#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) epoch: u64,
    pub(super) call: u64,
    pub(super) settled_below: u64,
    pub(super) page: Option<String>,
    pub(super) repeated: bool,
    pub(super) fingerprint: String,
    pub(super) attempt: String,
    pub(super) take_over: Option<String>,
}

impl Change {
    /// The page that whoever wants this knows of.
    pub(super) fn known_page(&self) -> Option<&str> {
        match self {
            Self::Admit(wanted) => wanted.page.as_deref(),
            Self::Settle { .. } | Self::Look { .. } | Self::Decide { .. } | Self::Park { .. } | Self::LookParked { .. } => None,
        }
    }

    pub(super) fn apply(&self, page: &mut CallPage) -> Said {
        match self {
            Self::Admit(wanted) => Said::Admission(page.admit(&Asked {
                epoch: wanted.epoch,
                call: wanted.call,
                settled_below: wanted.settled_below,
                fingerprint: &wanted.fingerprint,
                attempt: &wanted.attempt,
                repeated: wanted.repeated,
                take_over: wanted.take_over.as_deref(),
            })),
            Self::Settle { call, attempt, answer } => {
                page.settle(*call, attempt, answer.as_ref());
                Said::Standing(Standing::default())
            }
            Self::Look { call } => Said::Standing(Standing::of(page, *call)),
            Self::Decide { call, decision } => match page.decide(*call, decision) {
                Ok(standing) => Said::Standing(Standing { decision: Some(standing), made_in: page.made_in(*call) }),
                Err(refused) => Said::Undecided(refused),
            },
            Self::Park { call, epoch, fingerprint, attempt } => match page.park(*call, *epoch, fingerprint, attempt) {
                Ok(()) => Said::Standing(Standing::of(page, *call)),
                Err(refused) => Said::Unparked(refused),
            },
            Self::LookParked { call, fingerprint } => Said::Parked(page.is_parked(*call, fingerprint)),
        }
    }
}

impl Slot {
    pub(super) fn new(session: SessionKey) -> Self {
        Self {
            session,
            queue: Mutex::default(),
            page: tokio::sync::Mutex::new(None),
            bytes: AtomicUsize::new(0),
            seen: Mutex::default(),
            unsent: Mutex::default(),
        }
    }

    /// Keeps the name of an attempt that did not get the word, so that the next sending of the call knows its own intent.
    pub(super) fn note_unsent(&self, change: Change) {
        let mut unsent = lock(&self.unsent);
        if let Change::Admit(wanted) = change
            && wanted.take_over.is_none()
            && unsent.len() < dormouse_lifecycle::calls::CALLS_MAX
        {
            unsent.insert(wanted.call, wanted.attempt);
        }
    }
}

/// Lets the largest pages go, until those that stay have so many bytes at most or are in use.
pub(super) fn let_go(slots: &BTreeMap<String, Arc<Slot>>, bytes_max: usize) {
    let of = |slot: &Slot| slot.bytes.load(Ordering::Relaxed);
    let mut bytes: usize = slots.values().map(|slot| of(slot)).sum();
    if bytes <= bytes_max {
        return;
    }
    let mut largest: Vec<&Arc<Slot>> = slots.values().collect();
    largest.sort_by_key(|slot| std::cmp::Reverse(of(slot)));
    for slot in largest {
        if bytes <= bytes_max {
            return;
        }
        if let Ok(mut page) = slot.page.try_lock() {
            *page = None;
            bytes = bytes.saturating_sub(slot.bytes.swap(0, Ordering::Relaxed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_pages_that_are_not_in_use_go() {
        let session = |uid: &str| SessionKey {
            store_prefix: String::new(),
            tenant: "t".into(),
            pool: "default".into(),
            uid: uid.into(),
            name: String::new(),
        };
        let of = |(uid, bytes): (&str, usize)| {
            let slot = Slot::new(session(uid));
            *slot.page.try_lock().unwrap() = Some((CallPage::new(&slot.session), None));
            slot.bytes.store(bytes, Ordering::Relaxed);
            (uid.to_owned(), Arc::new(slot))
        };
        let slots: BTreeMap<String, Arc<Slot>> = [("small", 10), ("used", 90), ("large", 80), ("larger", 85)].map(of).into();
        let kept = |uid: &str| slots[uid].page.try_lock().is_ok_and(|page| page.is_some());
        let_go(&slots, 265);
        assert!(["small", "used", "large", "larger"].into_iter().all(kept), "they fit");
        let used = slots["used"].page.try_lock().unwrap();
        let_go(&slots, 264);
        assert_eq!((kept("larger"), kept("large"), kept("small")), (false, true, true));
        let_go(&slots, 100);
        assert_eq!((kept("large"), kept("small")), (false, true));
        drop(used);
        assert!(kept("used"));
    }
}
