//! What a head that was read means for the process that a session is assigned to.

use std::sync::Arc;

use crate::{Head, Owned, SessionKey, head::HeadError};

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
}

/// Decides on `stored`: what the store has at the session's head key (`None` if nothing), with its ETag.
///
/// A head of the same epoch is this assignment's own: it was committed before the instance was discarded.
#[must_use]
pub fn acquire(session: SessionKey, epoch: u64, stored: Option<(Result<Head, HeadError>, String)>) -> Acquire {
    let (head, etag) = match stored {
        None => return Acquire::Fresh(Owned { session, epoch, head: None, etag: None }),
        Some((Err(error), _)) => return Acquire::Corrupt(error.into()),
        Some((Ok(head), etag)) => (head, etag),
    };
    if !head.belongs_to(&session) {
        return Acquire::Corrupt(CorruptHead::Foreign { tenant: head.tenant, uid: head.uid });
    }
    if head.tombstone {
        return Acquire::Deleted;
    }
    if head.epoch > epoch {
        return Acquire::Stale { epoch: head.epoch };
    }
    Acquire::Restore(Owned { session, epoch, head: Some(Arc::new(head)), etag: Some(etag) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> SessionKey {
        SessionKey { store_prefix: String::new(), tenant: "team".into(), uid: "u-1".into(), name: "n".into() }
    }

    fn stored(epoch: u64, change: impl FnOnce(&mut Head)) -> Option<(Result<Head, HeadError>, String)> {
        let mut head = crate::sweep::empty(&session());
        head.tombstone = false;
        head.epoch = epoch;
        change(&mut head);
        Some((Ok(head), "etag".into()))
    }

    #[test]
    fn each_kind_of_head_has_its_answer() {
        assert!(matches!(acquire(session(), 1, None), Acquire::Fresh(owned) if owned.etag.is_none() && owned.epoch == 1));
        assert!(matches!(acquire(session(), 5, stored(4, |_| ())), Acquire::Restore(owned) if owned.epoch == 5));
        assert!(matches!(acquire(session(), 5, stored(5, |_| ())), Acquire::Restore(_)));
        assert!(matches!(acquire(session(), 5, stored(6, |_| ())), Acquire::Stale { epoch: 6 }));
        assert!(matches!(acquire(session(), 5, stored(4, |h| h.tombstone = true)), Acquire::Deleted));
        assert!(matches!(acquire(session(), 5, stored(4, |h| h.uid = "other".into())), Acquire::Corrupt(CorruptHead::Foreign { .. })));
        let broken = Some((Head::decode(b"noise"), "etag".to_owned()));
        assert!(matches!(acquire(session(), 5, broken), Acquire::Corrupt(CorruptHead::Bytes(_))));
    }
}
