//! What a child takes from its parent: copies of the segments and of what lies outside the heap under its own prefix, so that each of the two can be deleted alone.

use crate::{
    Head, SegmentRef, SessionKey,
    blobs::{Blob, Blobs, Extent},
    keys,
};

/// The sequence of a child's first commit, which is the first to name the copies.
const FIRST_SEQUENCE: u64 = 1;

/// What to do before the child's first commit.
#[derive(Debug, Clone, PartialEq)]
pub struct Fork {
    /// Copies to make, each from a key of the parent to one of the child.
    pub copies: Vec<(String, String)>,
    /// What the child's first commit goes on from: the parent's state with the copies in place of its segments.
    pub base: Head,
}

/// Why a session cannot be forked from what was read.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    /// The parent is another session than the one that was asked for.
    #[error("what is stored of the parent belongs to another session")]
    Foreign,
    /// The parent is deleted.
    #[error("the parent is deleted")]
    Deleted,
    /// A segment lies outside the parent's prefix.
    #[error("the parent names {key}, which is not its own")]
    Outside {
        /// The segment's key.
        key: String,
    },
}

/// The keys of the copies keep the hash of the names that they are copies of; see [`keys::may_lie_at`].
///
/// What `child`, which has no head yet, must do to go on from `state`, a head or a checkpoint of `parent`. The keys of the copies carry the
/// version of the child's first commit under `epoch`, so that copies of an attempt that came to nothing are garbage once another succeeds.
///
/// # Errors
/// See [`ForkError`].
pub fn fork(parent: &SessionKey, state: &Head, child: &SessionKey, epoch: u64) -> Result<Fork, ForkError> {
    if !state.belongs_to(parent) {
        return Err(ForkError::Foreign);
    }
    if state.tombstone {
        return Err(ForkError::Deleted);
    }
    let mut copies = Vec::with_capacity(state.segments.len());
    let mut segments = Vec::with_capacity(state.segments.len());
    for segment in &state.segments {
        if !segment.key.starts_with(&parent.prefix()) {
            return Err(ForkError::Outside { key: segment.key.clone() });
        }
        let hash = keys::name_hash(&segment.key).unwrap_or(&segment.sha256);
        let key = child.segment(epoch, FIRST_SEQUENCE, hash);
        copies.push((segment.key.clone(), key.clone()));
        segments.push(SegmentRef { key, ..segment.clone() });
    }
    let mut table = state.blobs.table.clone();
    for Blob { extents, .. } in table.values_mut() {
        for extent in extents {
            let own = Extent { version: (epoch, FIRST_SEQUENCE), ..extent.clone() };
            copies.extend(extent.keys(parent).zip(own.keys(child)));
            *extent = own;
        }
    }
    let blobs = Blobs { table, kept: Vec::new() };
    let base = Head { blobs, tenant: child.tenant.clone(), uid: child.uid.clone(), name: child.name.clone(), segments, ..state.clone() };
    Ok(Fork { copies, base })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(uid: &str) -> SessionKey {
        SessionKey { store_prefix: "p/".into(), tenant: "team".into(), pool: "default".into(), uid: uid.into(), name: uid.into() }
    }

    fn state() -> Head {
        let mut head = Head { tombstone: false, sequence: 7, ..Head::empty(&key("parent")) };
        head.segments = vec![SegmentRef { key: key("parent").segment(1, 3, "ab"), bytes: 9, sha256: "ab".repeat(32), pages: 2 }];
        head
    }

    #[test]
    fn every_segment_gets_a_key_of_the_child() {
        let Fork { copies, base } = fork(&key("parent"), &state(), &key("child"), 4).unwrap();
        let copy = "p/t/team/s/default/child/4-1-ab".to_owned();
        assert_eq!(copies, [("p/t/team/s/default/parent/1-3-ab".to_owned(), copy.clone())]);
        assert!(base.belongs_to(&key("child")));
        assert_eq!(base.segments, [SegmentRef { key: copy, ..state().segments[0].clone() }]);
    }

    #[test]
    fn what_is_not_the_parents_is_not_copied() {
        let outside = SegmentRef { key: "p/t/other/s/x/1-1-ab".into(), ..state().segments[0].clone() };
        let refused = |state: &Head| fork(&key("parent"), state, &key("child"), 1).unwrap_err();
        assert!(matches!(refused(&Head { segments: vec![outside], ..state() }), ForkError::Outside { .. }));
        assert!(matches!(refused(&Head { uid: "x".into(), ..state() }), ForkError::Foreign));
        assert!(matches!(refused(&Head { tombstone: true, ..state() }), ForkError::Deleted));
    }
}
