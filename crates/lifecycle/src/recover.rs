//! What is left of a session whose head does not verify: checkpoints and logs are objects of their own, and tell what they are.
//!
//! Nothing here is done by itself. It lets a person read what is left, and name the state to go on from.

use std::collections::HashSet;

use bytes::Bytes;

use crate::{
    Head, SessionKey, checkpoint,
    head::CheckpointRef,
    keys::{self, Kind},
    log::{self, Log, LogRef},
    segment::sha256_hex,
};

/// How far the sequence jumps: further than a session ever went without putting anything beside its head.
pub const SEQUENCE_GAP: u64 = 1 << 20;

/// How far the numbers of a log jump, for entries that were only in the lost head.
pub const LOG_GAP: u64 = 1 << 16;

/// The keys, of all that are listed, that [`recover`] wants to see: the head's among them, for it may be an older one.
#[must_use]
pub fn wanted(listed: &[String]) -> Vec<&str> {
    let beside = |kind: Kind| !matches!(kind, Kind::Segment | Kind::Piece);
    let kind = |key: &&String| keys::is_head(key) || keys::parse_object(key).is_some_and(|(kind, _)| beside(kind));
    listed.iter().filter(kind).map(String::as_str).collect()
}

/// A head that stands in for the lost one: no pages, but every checkpoint whose objects are all listed, the logs as far as they had rolled
/// over, and a version above all that is stored up to `epoch` and above `anchor`, which is known to have been stored. `objects` are those of [`wanted`] that could be read, with their keys.
#[must_use]
pub fn recover(session: &SessionKey, epoch: u64, anchor: Option<(u64, u64)>, listed: &[String], objects: &[(String, Bytes)]) -> Head {
    let known: HashSet<&str> = listed.iter().map(String::as_str).collect();
    let stored = listed.iter().filter_map(|key| keys::parse_object(key)).map(|(_, version)| version);
    let versions = stored.chain(anchor).filter(|version| version.0 <= epoch);
    let (last_epoch, _) = versions.clone().max().unwrap_or((epoch, 0));
    let last_sequence = versions.map(|(_, sequence)| sequence).max().unwrap_or(0);
    let mut head = Head {
        epoch: last_epoch,
        sequence: last_sequence.saturating_add(SEQUENCE_GAP),
        put_id: String::new(),
        tombstone: false,
        ..Head::empty(session)
    };
    // A head that verifies and is not believed is an older one that was put back: what it was then can be gone back to like a checkpoint.
    let before = objects.iter().find(|(key, _)| *key == session.head());
    if let Some((listed, state)) = before.and_then(|(key, bytes)| listed_whole(session, &known, key, bytes)) {
        head.checkpoints.push(listed);
        head.blobs.keep_for(&state.blobs.table, state.sequence, &head.checkpoint_ids());
    }
    let mut sorted: Vec<_> = objects.iter().filter_map(|(key, bytes)| Some((keys::parse_object(key)?, key, bytes))).collect();
    sorted.sort_by_key(|((_, version), key, _)| (*version, key.as_str()));
    for ((kind, _), key, bytes) in sorted {
        match kind {
            Kind::Segment | Kind::Piece => {}
            Kind::Checkpoint => {
                let Some((listed, state)) = listed_whole(session, &known, key, bytes) else { continue };
                head.checkpoints = checkpoint::retain(std::mem::take(&mut head.checkpoints), listed, checkpoint::KEEP_MAX);
                head.blobs.keep_for(&state.blobs.table, state.sequence, &head.checkpoint_ids());
            }
            Kind::Journal => take_up(&mut head.journal, key, bytes),
            Kind::Events => take_up(&mut head.events, key, bytes),
        }
    }
    for log in [&mut head.journal, &mut head.events] {
        log.last = log.last.saturating_add(LOG_GAP);
    }
    head
}

/// Puts an object behind those of a log that were found before.
fn take_up(log: &mut Log, key: &str, bytes: &[u8]) {
    let Ok(entries) = log::decode(bytes) else { return };
    // What an attempt left behind that came to nothing overlaps with what came after it.
    log.segments.retain(|segment| segment.first < entries.first);
    log.last = entries.first.saturating_add(entries.entries.len() as u64).saturating_sub(1);
    log.segments.push(LogRef { key: key.to_owned(), bytes: bytes.len() as u64, sha256: sha256_hex(bytes), first: entries.first });
}

/// How a head lists the state that `bytes` at `key` are, and that state, if it is one of this session and all that it needs is there.
fn listed_whole(session: &SessionKey, known: &HashSet<&str>, key: &str, bytes: &[u8]) -> Option<(CheckpointRef, Head)> {
    let state = Head::decode(bytes).ok().filter(|state| state.belongs_to(session) && !state.tombstone)?;
    let listed = checkpoint::listed(&state, key.to_owned(), bytes);
    let mut pieces = state.blobs.extents().flat_map(|extent| extent.keys(session));
    let whole = listed.segments.iter().all(|key| known.contains(key.as_str())) && pieces.all(|key| known.contains(key.as_str()));
    drop(pieces);
    whole.then_some((listed, state))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::{
        Attachments, Change, Commit, Owned, PAGE_BYTES, Reply, Step, TopLayer,
        checkpoint::{Mark, Subject},
    };

    fn session() -> SessionKey {
        SessionKey { store_prefix: "p/".into(), tenant: "team".into(), pool: "default".into(), uid: "u".into(), name: "n".into() }
    }

    /// Commits without a fault; every object that was put goes to `store`.
    fn commit(owned: &Owned, attachments: Attachments, store: &mut Vec<(String, Bytes)>) -> Owned {
        let change = Change {
            full: false,
            pages: vec![(1, Arc::new([7; PAGE_BYTES]))],
            memory_pages: 1,
            globals: json!(null).into(),
            state: json!(null).into(),
            engine_digest: String::new(),
            time: String::new(),
        };
        let (mut machine, mut step) = Commit::begin_with(owned, change, attachments, "p");
        loop {
            step = match step {
                Step::PutSegment { key, bytes } => {
                    store.push((key, bytes));
                    machine.on(Reply::Stored { etag: String::new() })
                }
                Step::PutHead { .. } => machine.on(Reply::Stored { etag: "e".into() }),
                Step::Committed(owned) => return owned,
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn checkpoints_and_journal_are_found_without_the_head() {
        let mut owned = Owned { session: session(), epoch: 3, head: None, etag: None, top_layer: TopLayer::default() };
        let mut store = Vec::new();
        let entry = crate::Json::from(json!("x".repeat(9000)));
        for sequence in 1..=6 {
            let mark =
                (sequence % 2 == 0).then_some(Mark { subject: Subject::This, label: (sequence == 4).then(|| "four".into()), keep: 20 });
            owned = commit(&owned, Attachments { mark, journal: vec![entry.clone()], ..Attachments::default() }, &mut store);
        }
        let head = owned.head.unwrap();
        let known = Arc::clone(&head);
        let mut listed: Vec<String> = store.iter().map(|(key, _)| key.clone()).collect();
        listed.push(session().segment(9, 1, "ab"));
        assert_eq!(wanted(&listed).len(), store.len());
        assert!(wanted(&[session().head()]).contains(&session().head().as_str()));
        let found = recover(&session(), 3, None, &listed, &store);
        assert_eq!(found.checkpoints, known.checkpoints);
        assert_eq!(found.journal.segments, known.journal.segments);
        assert!(found.version() > known.version() && found.epoch == 3, "a later epoch's litter does not count");
        assert!(found.journal.last > known.journal.last, "numbers that only the lost head knew are not given again");
        assert!(found.segments.is_empty() && !found.tombstone);
        let known = (3, known.sequence + 2 * SEQUENCE_GAP);
        let put_back = (session().head(), Head { checkpoints: Vec::new(), ..(*head).clone() }.encode().unwrap());
        let with_head: Vec<_> = store.iter().cloned().chain([put_back]).collect();
        let ids = |found: Head| found.checkpoints.iter().map(|it| it.id).collect::<Vec<_>>();
        assert_eq!(ids(recover(&session(), 3, Some(known), &listed, &with_head)), [2, 4, 6], "a state is listed once");
        assert!(recover(&session(), 3, Some(known), &listed, &store).version() > known, "what was stored once is outranked, too");
    }

    #[test]
    fn a_checkpoint_without_its_segments_and_foreign_bytes_are_left_out() {
        let owned = Owned { session: session(), epoch: 1, head: None, etag: None, top_layer: TopLayer::default() };
        let mut store = Vec::new();
        let mark = Some(Mark { subject: Subject::This, label: None, keep: 20 });
        let head = commit(&owned, Attachments { mark, ..Attachments::default() }, &mut store).head.unwrap();
        let mut torn = (*head).clone();
        torn.segments = vec![crate::SegmentRef { key: session().segment(1, 1, "cd"), bytes: 1, sha256: String::new(), pages: 1 }];
        let torn_bytes = torn.encode().unwrap();
        store.push((session().checkpoint(1, 2, "ab"), torn_bytes));
        store.push((session().checkpoint(1, 3, "ab"), Bytes::from_static(b"noise")));
        store.push((session().log(keys::WhichLog::Journal, 1, 3, "ab"), Bytes::from_static(b"noise")));
        let listed: Vec<String> = store.iter().map(|(key, _)| key.clone()).collect();
        let found = recover(&session(), 1, None, &listed, &store);
        assert_eq!(found.checkpoints, head.checkpoints);
        assert!(found.journal.segments.is_empty());
    }
}
