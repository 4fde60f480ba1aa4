//! What deletion and garbage collection may remove.
//!
//! Deletion: put the tombstone over the head (`If-Match`, or `If-None-Match` when there is none), then delete every other key of the prefix,
//! then the tombstone. A writer that is still at work meets the tombstone in its next commit.
//!
//! Garbage collection needs no clock: with a head read first and the keys listed after, an object that the head does not name and whose
//! (epoch, sequence) is not above the head's can never be named again, because a head's version strictly grows, a commit's objects carry
//! the version of the head that is to name them first, and a head names nothing that the one before did not name or its own commit put.
//! A checkpoint keeps its own object and every segment that it lists; what it needs of contents outside the heap is kept by the head.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::{
    Head, Json, SessionKey,
    blobs::{self, Blobs},
    head::HeadError,
    keys,
};

/// The tombstone to put over `head`. The same head gives the same bytes, so putting it again is harmless.
///
/// # Errors
/// Never for a head that was decoded; see [`Head::encode`].
pub fn tombstone(head: &Head) -> Result<Bytes, HeadError> {
    let sequence = head.sequence.saturating_add(1);
    Head {
        sequence,
        put_id: format!("tombstone-{}-{sequence}", head.epoch),
        memory_pages: 0,
        globals: Json::null(),
        state: Json::null(),
        segments: Vec::new(),
        inline: Bytes::new(),
        checkpoints: Vec::new(),
        journal: crate::log::Log::default(),
        events: crate::log::Log::default(),
        blobs: Blobs::default(),
        tombstone: true,
        sealed: false,
        ..head.clone()
    }
    .encode()
}

/// The tombstone of a session that has no head, or whose head does not decode: it keeps a first commit from landing behind the deletion.
///
/// # Errors
/// See [`Head::encode`].
pub fn tombstone_of(session: &SessionKey) -> Result<Bytes, HeadError> {
    Head::empty(session).encode()
}

/// Of `keys`, listed after `head` was read, those that may go. Never the head itself, never a name that is none of ours.
#[must_use]
pub fn deletable<'a>(keys: &'a [String], head: &Head) -> Vec<&'a str> {
    let named: BTreeSet<&str> = head.named_keys().collect();
    let pieces = pieces(&head.blobs);
    keys.iter()
        .map(String::as_str)
        .filter(|key| match keys::parse_object(key) {
            Some(_) if head.tombstone => true,
            Some((_, version)) => version <= head.version() && !named.contains(key) && !is_named_piece(&pieces, key),
            None => false,
        })
        .collect()
}

/// Keys that `before` names and `after`, the commit of `session` that follows it, does not: nothing can name them again.
#[must_use]
pub fn released(session: &SessionKey, before: &Head, after: &Head) -> Vec<String> {
    let kept: BTreeSet<&str> = after.named_keys().collect();
    let gone: BTreeSet<&str> = before.named_keys().filter(|key| !kept.contains(key)).collect();
    gone.into_iter().map(str::to_owned).chain(released_pieces(session, &before.blobs, &after.blobs)).collect()
}

fn released_pieces(session: &SessionKey, before: &Blobs, after: &Blobs) -> BTreeSet<String> {
    if before.is_empty() || before == after {
        return BTreeSet::new();
    }
    let kept = pieces(after);
    let gone = before.extents().flat_map(|extent| {
        let from = kept.get(&(extent.version, extent.id.as_str())).copied().unwrap_or(0);
        (from..extent.pieces()).map(|number| extent.key(session, number))
    });
    gone.collect()
}

/// Extents with the number of pieces that are in use.
type Pieces<'a> = BTreeMap<((u64, u64), &'a str), u32>;

fn pieces(blobs: &Blobs) -> Pieces<'_> {
    let mut pieces = Pieces::new();
    for extent in blobs.extents() {
        let in_use = pieces.entry((extent.version, extent.id.as_str())).or_default();
        *in_use = extent.pieces().max(*in_use);
    }
    pieces
}

fn is_named_piece(pieces: &Pieces<'_>, key: &str) -> bool {
    let Some((version, id, number)) = blobs::parse_piece(key) else { return false };
    pieces.get(&(version, id)).is_some_and(|in_use| number < *in_use)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SegmentRef, head::CheckpointRef, keys::WhichLog};

    fn session() -> SessionKey {
        SessionKey { store_prefix: "p/".into(), tenant: "team".into(), pool: "default".into(), uid: "u-1".into(), name: "n".into() }
    }

    #[test]
    fn only_what_no_head_can_name_any_more_goes() {
        let key = |epoch, sequence| session().segment(epoch, sequence, "ab");
        let mut head = Head::empty(&session());
        (head.epoch, head.sequence, head.tombstone) = (2, 10, false);
        head.segments = vec![SegmentRef { key: key(1, 4), bytes: 1, sha256: String::new(), pages: 1 }];
        let listed = vec![
            key(1, 4),
            key(1, 5),
            key(1, 99),
            key(2, 10),
            key(2, 11),
            key(3, 1),
            session().head(),
            "p/t/team/s/default/u-1/odd".into(),
        ];
        assert_eq!(deletable(&listed, &head), vec![key(1, 5), key(1, 99), key(2, 10)]);
        head.tombstone = true;
        assert_eq!(deletable(&listed, &head).len(), 6);
    }

    #[test]
    fn checkpoints_and_journal_keep_their_objects() {
        let (session, mut head) = (session(), Head::empty(&session()));
        (head.epoch, head.sequence, head.tombstone) = (2, 10, false);
        let (segment, aside, lost) = (session.segment(1, 4, "ab"), session.checkpoint(1, 5, "ab"), session.checkpoint(1, 6, "ab"));
        let (told, untold) = (session.log(WhichLog::Journal, 2, 7, "ab"), session.log(WhichLog::Events, 2, 8, "ab"));
        head.checkpoints = vec![CheckpointRef { key: aside.clone(), segments: vec![segment.clone()], ..Default::default() }];
        head.journal.segments = vec![crate::log::LogRef { key: told.clone(), ..Default::default() }];
        let listed = vec![segment.clone(), aside.clone(), lost.clone(), told.clone(), untold.clone(), session.checkpoint(2, 11, "ab")];
        assert_eq!(deletable(&listed, &head), vec![lost.as_str(), untold.as_str()]);
        let mut after = head.clone();
        after.checkpoints.clear();
        let mut gone = released(&session, &head, &after);
        gone.sort();
        assert_eq!(gone, [segment, aside]);
        assert!(released(&session, &after, &head).is_empty());
    }

    #[test]
    fn a_tombstone_outranks_its_head_and_holds_nothing() {
        let mut head = Head::empty(&session());
        (head.epoch, head.sequence, head.tombstone) = (2, 10, false);
        head.state = serde_json::json!({"secret": 1}).into();
        let bytes = tombstone(&head).unwrap();
        assert_eq!(bytes, tombstone(&head).unwrap());
        let dead = Head::decode(&bytes).unwrap();
        assert!(dead.tombstone && dead.version() > head.version() && dead.state == Json::null());
        assert!(Head::decode(&tombstone_of(&session()).unwrap()).unwrap().tombstone);
    }
}
