//! What a head that was read means for the process that a session is assigned to.
//!
//! A head that verifies may still be an old one that somebody put back, and one that is gone looks like a session that was never stored. Only
//! who remembers can tell: the caller may know a version that was stored once, an *anchor*. It may lag, so it is a lower bound: what is below it
//! is not believed, what is above it need not be the newest.

use std::sync::Arc;

use crate::{Head, Owned, SessionKey, TopLayer, head::HeadError};

/// What to do under an assignment.
#[derive(Debug)]
pub enum Acquire {
    /// Nothing is stored: begin with an empty session.
    Fresh(Owned),
    /// Lay this back and go on. The `head` of the [`Owned`] is always there.
    Restore(Owned),
    /// A later assignment has committed: this one is over.
    Stale {
        /// The epoch that has.
        epoch: u64,
    },
    /// The session is deleted.
    Deleted,
    /// What is stored cannot be believed; never overwritten by itself.
    Corrupt(CorruptHead),
}

/// Why a stored head cannot be believed.
#[derive(Debug, thiserror::Error)]
pub enum CorruptHead {
    /// It does not verify.
    #[error(transparent)]
    Bytes(#[from] HeadError),
    /// It verifies, but is another session's.
    #[error("the head at this key belongs to session {uid} of {tenant}")]
    Foreign {
        /// The tenant that it names.
        tenant: String,
        /// The session that it names.
        uid: String,
    },
    /// It verifies, and is older than what is known to have been stored.
    #[error(
        "the store was rolled back: its head is of epoch {} sequence {}, and epoch {} sequence {} was stored. Put the newer objects back, or \
         restore a checkpoint",
        .found.0, .found.1, .known.0, .known.1
    )]
    RolledBack {
        /// What was stored.
        known: (u64, u64),
        /// What is there now.
        found: (u64, u64),
    },
    /// Nothing is there, and something is known to have been stored.
    #[error("the head is gone: epoch {} sequence {} was stored. Put it back, or restore a checkpoint", .known.0, .known.1)]
    Missing {
        /// What was stored.
        known: (u64, u64),
    },
}

/// Decides on `stored`: what the store has at the session's head key (`None` if nothing), with its ETag.
///
/// A head of the same epoch is this assignment's own: it was committed before the instance was discarded. `anchor` is an (epoch, sequence) that
/// is known to have been stored, if one is.
#[must_use]
pub fn acquire(session: SessionKey, epoch: u64, anchor: Option<(u64, u64)>, stored: Option<(Result<Head, HeadError>, String)>) -> Acquire {
    let (head, etag) = match (stored, anchor) {
        (None, Some(known)) => return Acquire::Corrupt(CorruptHead::Missing { known }),
        (None, None) => return Acquire::Fresh(Owned { session, epoch, head: None, etag: None, top_layer: TopLayer::default() }),
        (Some((Err(error), _)), _) => return Acquire::Corrupt(error.into()),
        (Some((Ok(head), etag)), _) => (head, etag),
    };
    if !head.belongs_to(&session) {
        return Acquire::Corrupt(CorruptHead::Foreign { tenant: head.tenant, uid: head.uid });
    }
    if head.tombstone {
        return Acquire::Deleted;
    }
    if let Some(known) = anchor.filter(|known| head.version() < *known) {
        return Acquire::Corrupt(CorruptHead::RolledBack { known, found: head.version() });
    }
    if head.epoch > epoch {
        return Acquire::Stale { epoch: head.epoch };
    }
    Acquire::Restore(Owned { session, epoch, head: Some(Arc::new(head)), etag: Some(etag), top_layer: TopLayer::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> SessionKey {
        SessionKey { store_prefix: String::new(), tenant: "team".into(), pool: "default".into(), uid: "u-1".into(), name: "n".into() }
    }

    fn stored(epoch: u64, change: impl FnOnce(&mut Head)) -> Option<(Result<Head, HeadError>, String)> {
        let mut head = Head::empty(&session());
        head.tombstone = false;
        head.epoch = epoch;
        change(&mut head);
        Some((Ok(head), "etag".into()))
    }

    #[test]
    fn each_kind_of_head_has_its_answer() {
        assert!(matches!(acquire(session(), 1, None, None), Acquire::Fresh(owned) if owned.etag.is_none() && owned.epoch == 1));
        assert!(matches!(acquire(session(), 5, None, stored(4, |_| ())), Acquire::Restore(owned) if owned.epoch == 5));
        assert!(matches!(acquire(session(), 5, None, stored(5, |_| ())), Acquire::Restore(_)));
        assert!(matches!(acquire(session(), 5, None, stored(6, |_| ())), Acquire::Stale { epoch: 6 }));
        assert!(matches!(acquire(session(), 5, None, stored(4, |h| h.tombstone = true)), Acquire::Deleted));
        assert!(matches!(
            acquire(session(), 5, None, stored(4, |h| h.uid = "other".into())),
            Acquire::Corrupt(CorruptHead::Foreign { .. })
        ));
        let broken = Some((Head::decode(b"noise"), "etag".to_owned()));
        assert!(matches!(acquire(session(), 5, None, broken), Acquire::Corrupt(CorruptHead::Bytes(_))));
    }

    #[test]
    fn what_is_below_the_anchor_is_not_believed() {
        let at = |epoch, sequence| stored(epoch, |head| head.sequence = sequence);
        let anchored = |known, stored| acquire(session(), 5, Some(known), stored);
        for (epoch, sequence) in [(4, 9), (4, 10), (5, 1)] {
            assert!(matches!(anchored((4, 9), at(epoch, sequence)), Acquire::Restore(_)), "{epoch} {sequence}");
        }
        for (epoch, sequence) in [(4, 8), (3, 99), (0, 0)] {
            let found = (epoch, sequence);
            let refused = anchored((4, 9), at(epoch, sequence));
            assert!(
                matches!(refused, Acquire::Corrupt(CorruptHead::RolledBack { known: (4, 9), found: it }) if it == found),
                "{refused:?}"
            );
        }
        assert!(matches!(anchored((4, 9), None), Acquire::Corrupt(CorruptHead::Missing { known: (4, 9) })));
        let dead = stored(1, |head| head.tombstone = true);
        assert!(matches!(anchored((4, 9), dead), Acquire::Deleted), "a deletion that knew no head is one");
    }
}
