//! Every reply at every stage.

use super::*;
use crate::{
    Json, PAGE_BYTES, Page, SessionKey,
    blobs::{Blob, Extent, ID_DIGITS, KEPT_MAX, Kept, Table},
    head::CheckpointRef,
};

fn session() -> SessionKey {
    SessionKey { store_prefix: String::new(), tenant: "team".into(), pool: "default".into(), uid: "u-1".into(), name: "n".into() }
}

fn fresh(epoch: u64) -> Owned {
    Owned { session: session(), epoch, head: None, etag: None, top_layer: TopLayer::default() }
}

/// A page that does not compress.
fn noise(seed: u32) -> Page {
    let mut state = u64::from(seed) | 1 << 40;
    Arc::new(std::array::from_fn::<u8, PAGE_BYTES, _>(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    }))
}

fn change(pages: impl IntoIterator<Item = u32>) -> Change {
    Change {
        full: false,
        pages: pages.into_iter().map(|n| (n, noise(n))).collect(),
        memory_pages: 64,
        globals: Json::null(),
        state: serde_json::json!({}).into(),
        engine_digest: "e".into(),
        time: String::new(),
    }
}

/// Commits without a fault; the segment's key if there was one.
fn commit(owned: &Owned, change: Change, put_id: &str) -> (Owned, Option<String>) {
    let (mut commit, mut step) = Commit::begin(owned, change, put_id);
    let mut segment = None;
    loop {
        step = match step {
            Step::PutSegment { key, .. } => {
                segment = Some(key);
                commit.on(Reply::Stored { etag: "s".into() })
            }
            Step::PutHead { .. } => commit.on(Reply::Stored { etag: format!("etag-{put_id}") }),
            Step::Committed(owned) => return (owned, segment),
            other => panic!("{other:?}"),
        }
    }
}

/// A commit that waits for what the head read says.
fn resolving(owned: &Owned) -> Commit {
    let (mut commit, step) = Commit::begin(owned, change([1]), "mine");
    assert!(matches!(step, Step::PutHead { .. }));
    assert!(matches!(commit.on(Reply::Refused), Step::GetHead { .. }));
    commit
}

fn found(owned: &Owned, change: impl FnOnce(&mut Head)) -> Reply {
    let mut head = owned.head.as_deref().unwrap().clone();
    change(&mut head);
    Reply::Head(Some((Arc::new(head), "another".into())))
}

#[test]
fn the_first_commit_demands_absence_and_the_next_its_etag() {
    let (_, step) = Commit::begin(&fresh(1), change([1]), "a");
    assert!(matches!(step, Step::PutHead { condition: Condition::Absent, .. }));
    let (owned, segment) = commit(&fresh(1), change([1]), "a");
    assert_eq!((segment, owned.head.as_ref().unwrap().version()), (None, (1, 1)));
    let (_, step) = Commit::begin(&owned, change([2]), "b");
    assert!(matches!(step, Step::PutHead { condition: Condition::Matches(etag), .. } if etag == "etag-a"));
}

#[test]
fn small_changes_gather_in_the_head_and_large_ones_become_a_segment() {
    let (owned, _) = commit(&fresh(1), change(0..5), "a");
    let (owned, segment) = commit(&owned, change(3..10), "b");
    assert_eq!(segment, None);
    assert_eq!(owned.head.as_ref().unwrap().inline_pages().unwrap().len(), 10);
    let (owned, segment) = commit(&owned, change(10..20), "c");
    let head = owned.head.as_ref().unwrap();
    assert_eq!((head.segments.len(), head.segments[0].pages, head.inline.len()), (1, 20, 0));
    assert_eq!(segment.as_ref(), Some(&head.segments[0].key));
    let (owned, _) = commit(&owned, change([]), "d");
    assert_eq!(owned.head.as_ref().unwrap().segments.len(), 1);
}

#[test]
fn a_costly_chain_asks_for_the_whole_image_and_shrinks_to_one_segment() {
    let mut owned = fresh(1);
    let mut commits = 0;
    while !wants_full_image(&owned) {
        commits += 1;
        assert!(commits <= CHAIN_SEGMENTS_MAX, "the chain never asked");
        owned = commit(&owned, change(0..40), &format!("{commits}")).0;
    }
    let (owned, segment) = commit(&owned, Change { full: true, ..change(0..40) }, "full");
    assert!(segment.is_some() && owned.head.as_ref().unwrap().segments.len() == 1 && !wants_full_image(&owned));
    let (owned, _) = commit(&owned, Change { full: true, ..change(0..3) }, "small");
    assert!(owned.head.as_ref().unwrap().segments.is_empty());
}

#[test]
fn an_unknown_outcome_is_resent_until_it_is_known() {
    let (mut commit, _) = Commit::begin(&fresh(1), change(0..40), "a");
    assert!(matches!(commit.on(Reply::Unknown), Step::Resend));
    assert!(matches!(commit.on(Reply::Conflicted), Step::Resend));
    assert!(matches!(commit.on(Reply::Refused), Step::PutHead { .. }));
    assert!(matches!(commit.on(Reply::Unknown), Step::Resend));
    assert!(matches!(commit.on(Reply::Refused), Step::GetHead { .. }));
    assert!(matches!(commit.on(Reply::Unknown), Step::Resend));
    let mine = Arc::clone(&commit.head);
    let step = commit.on(Reply::Head(Some((mine, "landed".into()))));
    assert!(matches!(step, Step::Committed(owned) if owned.etag.as_deref() == Some("landed")));
    assert!(matches!(commit.on(Reply::Unknown), Step::Failed(Failure::Driver(_))));
}

#[test]
fn a_higher_epoch_makes_a_zombie_and_a_late_write_supersedes() {
    let (before, _) = commit(&fresh(3), change([1]), "a");
    let owned = Owned { epoch: 5, ..before };
    assert!(matches!(resolving(&owned).on(found(&owned, |h| h.epoch = 6)), Step::Zombie { epoch: 6 }));
    let late = |h: &mut Head| (h.sequence, h.put_id) = (2, "late".into());
    assert!(matches!(resolving(&owned).on(found(&owned, late)), Step::Superseded { head, .. } if head.sequence == 2));
    assert!(matches!(resolving(&fresh(5)).on(found(&owned, late)), Step::Superseded { .. }));
}

#[test]
fn a_tombstone_or_a_vanished_head_is_a_deletion() {
    let (owned, _) = commit(&fresh(3), change([1]), "a");
    assert!(matches!(resolving(&owned).on(found(&owned, |h| (h.tombstone, h.put_id) = (true, "t".into()))), Step::Deleted));
    assert!(matches!(resolving(&owned).on(Reply::Head(None)), Step::Deleted));
    assert!(matches!(resolving(&fresh(3)).on(Reply::Head(None)), Step::Deleted));
}

#[test]
fn a_conflict_reads_again_and_retries_the_same_bytes() {
    let (mut commit, step) = Commit::begin(&fresh(1), change([1]), "a");
    let Step::PutHead { bytes: first, .. } = step else { panic!("{step:?}") };
    assert!(matches!(commit.on(Reply::Conflicted), Step::GetHead { .. }));
    assert!(matches!(commit.on(Reply::Head(None)), Step::PutHead { bytes, .. } if bytes == first));
}

#[test]
fn a_store_that_goes_back_or_refuses_what_holds_is_reported() {
    let (first, _) = commit(&fresh(1), change([1]), "a");
    let (second, _) = commit(&first, change([1]), "b");
    let older = |h: &mut Head| (h.sequence, h.put_id) = (1, "a".into());
    assert!(matches!(resolving(&second).on(found(&second, older)), Step::Failed(Failure::WentBackwards { known: (1, 2), found: (1, 1) })));
    let (mut commit, mut step) = Commit::begin(&first, change([1]), "c");
    let unchanged = (first.head.clone().unwrap(), first.etag.clone().unwrap());
    let mut puts = 0;
    while !matches!(step, Step::Failed(Failure::RefusesTrue)) {
        assert!(matches!(step, Step::PutHead { .. }), "{step:?}");
        puts += 1;
        assert!(matches!(commit.on(Reply::Refused), Step::GetHead { .. }));
        step = commit.on(Reply::Head(Some(unchanged.clone())));
    }
    assert_eq!(puts, REFUSALS_MAX + 1);
}

#[test]
fn a_store_that_is_busy_with_other_writes_is_not_called_unsafe() {
    let (first, _) = commit(&fresh(1), change([1]), "a");
    let (mut commit, mut step) = Commit::begin(&first, change([1]), "c");
    let unchanged = (first.head.clone().unwrap(), first.etag.clone().unwrap());
    let mut puts = 0;
    while !matches!(step, Step::Failed(Failure::Conflicts)) {
        assert!(matches!(step, Step::PutHead { .. }), "{step:?}");
        puts += 1;
        assert!(matches!(commit.on(Reply::Conflicted), Step::GetHead { .. }));
        step = commit.on(Reply::Head(Some(unchanged.clone())));
    }
    assert_eq!(puts, CONFLICTS_MAX + 1);
}

#[test]
fn a_definite_failure_ends_it() {
    let (mut commit, _) = Commit::begin(&fresh(1), change([1]), "a");
    assert!(matches!(commit.on(Reply::Failed("AccessDenied".into())), Step::Failed(Failure::Store(reason)) if reason == "AccessDenied"));
}

#[test]
fn an_automatic_checkpoint_gives_way_to_the_piece_that_would_be_one_too_many() {
    let extent =
        |n: usize, sequence| Extent { version: (1, sequence), id: format!("{n:0width$x}", width = ID_DIGITS), bytes: 1, sealed: false };
    for (held, left) in [(KEPT_MAX - 1, vec![1, 2]), (KEPT_MAX, vec![2])] {
        let mut head = Head::empty(&session());
        (head.epoch, head.sequence, head.tombstone) = (1, 2, false);
        head.checkpoints = [1, 2].map(|id| CheckpointRef { id, ..CheckpointRef::default() }).into();
        head.blobs.kept = (1..=held).map(|n| Kept { extent: extent(n, 1), last: 1 }).collect();
        head.blobs.table.insert("ctx:one".into(), Blob { extents: vec![extent(0, 2)], text: false });
        let owned = Owned { head: Some(Arc::new(head)), etag: Some("before".into()), ..fresh(1) };
        let attachments = Attachments { blobs: Some(Table::new()), ..Attachments::default() };
        let (_, step) = Commit::begin_with(&owned, change([1]), attachments, "put");
        let Step::PutHead { bytes, .. } = step else { panic!("{step:?}") };
        let next = Head::decode(&bytes).unwrap();
        assert_eq!(next.checkpoints.iter().map(|it| it.id).collect::<Vec<_>>(), left, "{held} held before");
        assert!(next.blobs.kept.len() <= KEPT_MAX);
    }
}
