use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{
    Attachments, Change, Head, Owned, TopLayer,
    checkpoint::{Mark, Subject},
    commit::prepare::prepare,
    sweep,
};

const ID: &str = "0123456789abcdef";

fn session(uid: &str) -> SessionKey {
    SessionKey { store_prefix: "p/".into(), tenant: "team".into(), pool: "default".into(), uid: uid.into(), name: uid.into() }
}

fn extent(sequence: u64, id: u64, bytes: u64) -> Extent {
    Extent { version: (1, sequence), id: format!("{id:016x}"), bytes, sealed: false }
}

fn table(extents: &[Extent]) -> Table {
    extents.iter().map(|it| (it.id.clone(), Blob { extents: vec![it.clone()], text: false })).collect()
}

fn commit(owned: &Owned, blobs: Option<Table>, mark: Option<Mark>, base: Option<Arc<Head>>) -> Owned {
    let change = Change {
        full: false,
        pages: Vec::new(),
        memory_pages: 1,
        globals: json!(null).into(),
        state: json!(null).into(),
        engine_digest: String::new(),
        time: String::new(),
    };
    let prepared = prepare(owned, change, Attachments { base, mark, blobs, ..Attachments::default() }, "p".into()).unwrap();
    let head = Head::decode(&prepared.bytes).unwrap();
    assert_eq!(head, prepared.head);
    Owned { head: Some(Arc::new(head)), etag: Some("e".into()), ..owned.clone() }
}

fn fresh() -> Owned {
    Owned { session: session("u"), epoch: 1, head: None, etag: None, top_layer: TopLayer::default() }
}

fn aside(subject: Subject) -> Option<Mark> {
    Some(Mark { subject, label: None, keep: 1 })
}

#[test]
fn a_session_without_any_pays_nothing_for_them() {
    let none = commit(&fresh(), None, None, None);
    let json = serde_json::to_string(&*none.head.unwrap()).unwrap();
    assert!(!json.contains("blobs"), "{json}");
}

#[test]
fn a_key_tells_which_piece_it_is() {
    let extent = Extent { version: (3, 17), id: ID.into(), bytes: 2 * PIECE_BYTES as u64 + 1, sealed: false };
    let keys: Vec<_> = extent.keys(&session("u")).collect();
    assert_eq!((keys.len(), keys[2].as_str()), (3, "p/t/team/s/default/u/b3-17-0123456789abcdef00000002"));
    assert_eq!(parse_piece(&keys[2]), Some(((3, 17), ID, 2)));
    assert_eq!(parse_piece("p/t/team/s/u/3-17-0123456789abcdef00000002"), None);
    assert_eq!(parse_piece("p/t/team/s/u/b3-17-0123456789abcdef"), None);
    assert_eq!(Extent { bytes: 0, ..extent }.pieces(), 0);
}

#[test]
fn limits_hold_at_their_edges() {
    let full: Table = (0..BLOBS_MAX).map(|n| (n.to_string(), Blob::default())).collect();
    assert!(admit(&full, "0", 1).is_ok(), "one that is there may change");
    assert_eq!(admit(&full, "new", 1), Err(Refused::TooMany));
    assert!(admit(&Table::new(), &"n".repeat(NAME_BYTES_MAX), BLOB_BYTES_MAX).is_ok());
    assert!(matches!(admit(&Table::new(), &"n".repeat(NAME_BYTES_MAX + 1), 1), Err(Refused::Name { .. })));
    assert!(matches!(admit(&Table::new(), "", 1), Err(Refused::Name { .. })));
    assert!(matches!(admit(&Table::new(), "n", BLOB_BYTES_MAX + 1), Err(Refused::TooLarge { .. })));
    let much = table(&[extent(1, 1, TOTAL_BYTES_MAX - 10)]);
    assert!(admit(&much, "n", 10).is_ok());
    assert_eq!(admit(&much, "n", 11), Err(Refused::TooMuch { bytes: TOTAL_BYTES_MAX + 1 }));
    assert!(admit(&much, &extent(1, 1, 0).id, BLOB_BYTES_MAX).is_ok(), "what it replaces is not counted");
}

#[test]
fn what_a_checkpoint_needs_stays_until_the_checkpoint_goes() {
    let first = extent(1, 1, 5);
    let one = commit(&fresh(), Some(table(std::slice::from_ref(&first))), aside(Subject::This), None);
    let two = commit(&one, Some(Table::new()), None, None);
    let head = two.head.clone().unwrap();
    assert_eq!(head.blobs.kept, [Kept { extent: first.clone(), last: 1 }]);
    assert!(sweep::released(&one.session, one.head.as_ref().unwrap(), &head).is_empty());
    let listed: Vec<_> = first.keys(&one.session).collect();
    assert!(sweep::deletable(&listed, &head).is_empty());
    let three = commit(&two, None, aside(Subject::This), None);
    let after = three.head.clone().unwrap();
    assert!(after.blobs.is_empty(), "the checkpoint that needed it has gone");
    assert!(sweep::released(&one.session, &head, &after).contains(&listed[0]));
    assert_eq!(sweep::deletable(&listed, &after), [listed[0].as_str()]);
}

#[test]
fn what_no_checkpoint_needs_goes_with_the_commit_that_drops_it() {
    let first = extent(1, 1, 5);
    let one = commit(&fresh(), Some(table(std::slice::from_ref(&first))), None, None);
    let two = commit(&one, Some(table(&[extent(2, 2, PIECE_BYTES as u64 + 1)])), None, None);
    let head = two.head.unwrap();
    assert_eq!(sweep::released(&one.session, one.head.as_ref().unwrap(), &head), first.keys(&one.session).collect::<Vec<_>>());
    let beyond = Extent { bytes: 3 * PIECE_BYTES as u64, ..extent(2, 2, 0) }.key(&one.session, 2);
    assert_eq!(sweep::deletable(std::slice::from_ref(&beyond), &head), [beyond.as_str()], "a piece past the end is garbage");
}

#[test]
fn going_back_brings_back_the_contents_of_then() {
    let (then, now) = (extent(1, 1, 5), extent(2, 2, 6));
    let one = commit(&fresh(), Some(table(std::slice::from_ref(&then))), aside(Subject::This), None);
    let two = commit(&one, Some(table(std::slice::from_ref(&now))), None, None);
    let back = commit(&two, None, Some(Mark { subject: Subject::Before, label: None, keep: 20 }), one.head.clone());
    let head = back.head.unwrap();
    assert_eq!(head.blobs.table, table(&[then]));
    assert_eq!(head.blobs.kept, [Kept { extent: now, last: 2 }], "what is left behind is a checkpoint, and has its contents");
}

#[test]
fn a_fork_has_copies_under_keys_of_its_own() {
    let mine = Extent { bytes: PIECE_BYTES as u64 + 1, ..extent(1, 1, 0) };
    let head = commit(&fresh(), Some(table(std::slice::from_ref(&mine))), None, None).head.unwrap();
    let plan = crate::fork::fork(&session("u"), &head, &session("child"), 4).unwrap();
    let theirs = Extent { version: (4, 1), ..mine.clone() };
    let pairs: Vec<_> = mine.keys(&session("u")).zip(theirs.keys(&session("child"))).collect();
    assert_eq!((plan.copies, plan.base.blobs.table), (pairs, table(&[theirs])));
}

#[test]
fn a_lost_head_loses_nothing_that_a_checkpoint_needs() {
    let first = extent(1, 1, 5);
    let mark = Some(Mark { subject: Subject::This, label: Some("kept".into()), keep: 1 });
    let one = commit(&fresh(), Some(table(std::slice::from_ref(&first))), mark, None);
    let head = one.head.unwrap();
    let aside = &head.checkpoints[0];
    let then = Head { checkpoints: Vec::new(), label: Some("kept".into()), ..(*head).clone() };
    let objects = [(aside.key.clone(), then.encode().unwrap())];
    let mut listed: Vec<String> = first.keys(&session("u")).collect();
    listed.push(aside.key.clone());
    let found = crate::recover::recover(&session("u"), 1, None, &listed, &objects);
    assert_eq!((found.checkpoints.len(), &found.blobs.kept), (1, &vec![Kept { extent: first, last: 1 }]));
    assert!(sweep::deletable(&listed, &found).is_empty());
    let torn = crate::recover::recover(&session("u"), 1, None, &listed[1..], &objects);
    assert!(torn.checkpoints.is_empty(), "a checkpoint whose contents are gone is not offered");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_piece_comes_back_and_no_other_bytes_do(
        content in proptest::collection::vec(any::<u8>(), 0..500),
        at in any::<prop::sample::Index>(),
        bit in 0..8u8,
        noise in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let bytes = encode(ID, 7, &content).unwrap();
        prop_assert_eq!(&decode(ID, 7, &bytes).unwrap()[..], &content[..]);
        prop_assert!(matches!(decode(ID, 8, &bytes), Err(PieceError::Other)));
        prop_assert!(matches!(decode("fedcba9876543210", 7, &bytes), Err(PieceError::Other)));
        let mut flipped = bytes.to_vec();
        flipped[at.index(bytes.len())] ^= 1 << bit;
        prop_assert!(decode(ID, 7, &flipped).is_err());
        prop_assert!(decode(ID, 7, &bytes[..at.index(bytes.len())]).is_err());
        prop_assert!(decode(ID, 7, &noise).is_err());
    }
}

#[test]
fn a_piece_has_its_size_at_most() {
    assert!(encode(ID, 0, &vec![1; PIECE_BYTES]).is_ok());
    assert!(matches!(encode(ID, 0, &vec![1; PIECE_BYTES + 1]), Err(PieceError::Length { .. })));
}

#[test]
fn an_extent_that_would_make_other_keys_is_not_read() {
    let read = |id: &str, bytes: u64| serde_json::from_value::<Extent>(json!({ "version": [1, 2], "id": id, "bytes": bytes }));
    assert!(read(ID, BLOB_BYTES_MAX).is_ok());
    assert!(read(ID, BLOB_BYTES_MAX + 1).is_err());
    for bad in ["", "../../../../head", "0123456789abcde", "0123456789abcdeg"] {
        assert!(read(bad, 1).is_err(), "{bad}");
    }
}
