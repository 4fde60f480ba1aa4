//! Objects as a store gives them back: a tenant can write its own prefix.

use std::sync::Arc;

use dormouse_lifecycle::{
    Acquire, Attachments, Change, Commit, Head, PAGE_BYTES, Page, Reply, SegmentRef, SessionKey, Step, acquire, assemble, checkpoint,
    commit, fork, log, recover, segment, sweep,
};
use serde_json::json;

use super::bytes::{Bytes, forms, unsealed};

/// Replies that a commit is told before the driver gives up.
const REPLIES_MAX: usize = 16;

fn key(uid: &str) -> SessionKey {
    SessionKey {
        store_prefix: "p/".to_owned(),
        tenant: "team".to_owned(),
        pool: "default".into(),
        uid: uid.to_owned(),
        name: uid.to_owned(),
    }
}

/// A head's bytes; or a manifest's JSON, then after a zero its inline part and what the store answers.
pub(super) fn head(data: &[u8]) {
    for bytes in forms(data) {
        if let Ok(head) = Head::decode(&bytes) {
            use_head(&head, data);
        }
    }
    let (manifest, rest) = data.split_at(data.iter().position(|byte| *byte == 0).unwrap_or(data.len()));
    let mut rest = Bytes(rest.get(1..).unwrap_or_default());
    if let Ok(mut head) = serde_json::from_slice::<Head>(manifest) {
        head.inline = bytes_of(rest.counted());
        use_head(&head, rest.0);
        let Ok(bytes) = head.encode() else { return };
        if let Ok(again) = Head::decode(&bytes) {
            assert_eq!(again, head, "a head that was written reads back as another one");
        }
    }
}

/// Everything that is done with a head that was read.
fn use_head(head: &Head, rest: &[u8]) {
    let session = key("a");
    let _ = (head.inline_pages(), head.snapshot_bytes(), head.named_keys().count(), commit_after(head, rest));
    let _ = (sweep::tombstone(head), fork::fork(&session, head, &key("child"), 1), head.journal.tail_first());
    let listed: Vec<String> = head.named_keys().map(str::to_owned).chain([session.head(), session.segment(1, 1, "ab")]).collect();
    assert!(
        sweep::deletable(&listed, head).iter().all(|key| !head.named_keys().any(|named| named == *key)),
        "what a head names must not be deleted"
    );
    let _ = (checkpoint::due(Some(head), 3), checkpoint::admit(Some(head), "label"), checkpoint::find(&head.checkpoints, "1"));
    for reference in &head.checkpoints {
        let _ = reference.open(&session, rest);
    }
    for reference in head.journal.segments.iter().chain(&head.events.segments) {
        let _ = reference.open(rest);
    }
    // The segments that the head names are not there: then with as many empty ones, and with none named.
    let empty: Vec<&[u8]> = head.segments.iter().map(|_| rest).collect();
    let _ = (assemble(head, &empty), assemble(&Head { segments: Vec::new(), ..head.clone() }, &[] as &[&[u8]]));
}

/// A commit over what was read, with a store that answers what `rest` says.
fn commit_after(head: &Head, rest: &[u8]) -> Option<()> {
    let mut rest = Bytes(rest);
    let session = SessionKey { tenant: head.tenant.clone(), uid: head.uid.clone(), ..key("a") };
    let Acquire::Restore(owned) = acquire::acquire(session, rest.u64(), None, Some((Ok(head.clone()), "1".to_owned()))) else {
        return None;
    };
    let change = Change {
        full: commit::wants_full_image(&owned),
        pages: vec![(rest.u32(), Page::new([rest.u8(); PAGE_BYTES]))],
        memory_pages: head.memory_pages,
        globals: head.globals.clone(),
        state: head.state.clone(),
        engine_digest: head.engine_digest.clone(),
        time: head.time.clone(),
    };
    let (mut commit, mut step) =
        Commit::begin_with(&owned, change, Attachments { journal: vec![json!(rest.u8()).into()], ..Attachments::default() }, "put");
    for _ in 0..REPLIES_MAX {
        let found = || Some((Arc::new(head.clone()), "2".to_owned()));
        let reply = match rest.u8() % 8 {
            0 | 1 => Reply::Stored { etag: "2".to_owned() },
            2 => Reply::Refused,
            3 => Reply::Conflicted,
            4 => Reply::Unknown,
            5 => Reply::Head(found()),
            6 => Reply::Head(None),
            _ => Reply::Damaged(String::new()),
        };
        match step {
            Step::Committed(now) => {
                let after = now.head?;
                assert!(after.version() > head.version(), "a commit does not go forward");
                return Some(());
            }
            Step::PutSegment { .. } | Step::PutHead { .. } | Step::GetHead { .. } | Step::Resend => step = commit.on(reply),
            _ => return None,
        }
    }
    None
}

/// A segment's bytes.
pub(super) fn segment(data: &[u8]) {
    for bytes in forms(data) {
        let Ok(pages) = segment::decode(&bytes) else { continue };
        let again = segment::encode(&pages).ok().and_then(|bytes| segment::decode(&bytes).ok());
        assert_eq!(again.as_ref(), Some(&pages), "pages that were read cannot be written");
        let named = SegmentRef { key: "k".to_owned(), bytes: bytes.len() as u64, sha256: segment::sha256_hex(&bytes), pages: 1 };
        let Ok(mut head) = serde_json::from_value::<Head>(manifest()) else { return };
        head.segments = vec![named];
        let _ = assemble(&head, &[bytes]);
    }
}

/// The bytes of a part of the journal.
pub(super) fn journal(data: &[u8]) {
    for bytes in forms(data) {
        let _ = log::decode(&bytes);
    }
}

/// What is listed and what can be read of a session whose head is lost: an epoch, then keys and bytes.
pub(super) fn recover(data: &[u8]) {
    let mut data = Bytes(data);
    let epoch = data.u64();
    let (mut listed, mut objects) = (Vec::new(), Vec::new());
    while !data.is_empty() {
        let key = String::from_utf8_lossy(data.counted()).into_owned();
        let [raw, sealed] = forms(data.counted());
        objects.push((key.clone(), bytes_of(if data.u8() & 1 == 0 { &raw } else { &sealed })));
        listed.push(key);
    }
    let _ = recover::wanted(&listed);
    let head = recover::recover(&key("a"), epoch, None, &listed, &objects);
    use_head(&head, &[]);
}

fn bytes_of(bytes: &[u8]) -> bytes::Bytes {
    bytes::Bytes::copy_from_slice(bytes)
}

fn manifest() -> serde_json::Value {
    json!({
        "format": dormouse_lifecycle::head::FORMAT, "tenant": "team", "uid": "a", "name": "a", "epoch": 3, "sequence": 7, "putId": "p", "engineDigest": "e",
        "time": "t", "memoryPages": 4, "globals": {}, "state": {},
        "segments": [{ "key": "p/t/team/s/default/a/3-7-ab", "bytes": 9, "sha256": "ab", "pages": 1 }],
        "checkpoints": [{ "id": 5, "key": "p/t/team/s/default/a/c3-5-cd", "bytes": 3, "sha256": "cd", "snapshotBytes": 3, "time": "t", "segments": [] }],
        "journal": { "segments": [{ "key": "p/t/team/s/default/a/j3-6-ef", "bytes": 3, "sha256": "ef", "first": 1 }], "tail": [{ "n": 1 }], "last": 9 },
    })
}

pub(super) fn head_seeds() -> anyhow::Result<Vec<Vec<u8>>> {
    let json = serde_json::to_vec(&manifest())?;
    let object = serde_json::from_value::<Head>(manifest())?.encode()?;
    let answered = [json.as_slice(), &[0, 0, 0], &[9; 8], &[1, 0, 0, 0, 7, 0, 0, 4, 2, 5]].concat();
    Ok(vec![json, answered, unsealed(&object)])
}

pub(super) fn segment_seeds() -> anyhow::Result<Vec<Vec<u8>>> {
    let pages: Vec<(u32, Page)> = (0..3u8).map(|n| (u32::from(n) * 7, Page::new([n; PAGE_BYTES]))).collect();
    Ok(vec![unsealed(&segment::encode(&pages)?), unsealed(&segment::encode(&[])?)])
}

pub(super) fn journal_seeds() -> Vec<Vec<u8>> {
    // An object of the journal, as a commit rolls it over: found by letting one roll over.
    let Ok(mut head) = serde_json::from_value::<Head>(manifest()) else { return Vec::new() };
    head.journal.tail =
        (0..4000).map(|n| json!({ "n": n, "text": "an entry of some length, so that the journal rolls over soon" }).into()).collect();
    let session = key("a");
    let Acquire::Restore(owned) = acquire::acquire(session, 3, None, Some((Ok(head), "1".to_owned()))) else { return Vec::new() };
    let change = Change {
        full: false,
        pages: Vec::new(),
        memory_pages: 4,
        globals: json!({}).into(),
        state: json!({}).into(),
        engine_digest: String::new(),
        time: String::new(),
    };
    match Commit::begin_with(&owned, change, Attachments { journal: vec![json!(1).into()], ..Attachments::default() }, "put") {
        (_, Step::PutSegment { bytes, .. }) => vec![unsealed(&bytes)],
        _ => Vec::new(),
    }
}

pub(super) fn recover_seeds() -> Vec<Vec<u8>> {
    let mut seed = 9u64.to_le_bytes().to_vec();
    for key in ["p/t/team/s/default/a/3-7-ab", "p/t/team/s/default/a/c3-5-cd", "p/t/team/s/default/a/j3-6-ef", "p/t/team/s/default/a/head"]
    {
        seed.extend_from_slice(&u16::try_from(key.len()).unwrap_or(0).to_le_bytes());
        seed.extend_from_slice(key.as_bytes());
        seed.extend_from_slice(&[2, 0, b'{', b'}', 1]);
    }
    vec![seed]
}
