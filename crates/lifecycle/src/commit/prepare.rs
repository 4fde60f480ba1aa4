//! From a change to the bytes of a commit: the new head, and the objects that it names first.

use std::collections::VecDeque;

use bytes::Bytes;

use super::{
    change::{Attachments, Change, Owned},
    failure::Failure,
};
use crate::{
    Head, Page, SegmentRef,
    blobs::{Blobs, KEPT_MAX},
    checkpoint::{self, Mark, Subject},
    head::FORMAT,
    inline::{self, INLINE_BYTES_MAX, Pushed, TopLayer},
    keys::WhichLog,
    log::Log,
    segment,
};

pub(crate) struct Prepared {
    pub(crate) head: Head,
    /// The topmost layer of its inline part.
    pub(crate) top_layer: TopLayer,
    pub(crate) bytes: Bytes,
    /// Objects to put before the head, with their keys.
    pub(crate) puts: VecDeque<(String, Bytes)>,
}

/// The new head, its bytes, and what to put before it.
pub(crate) fn prepare(owned: &Owned, change: Change, attachments: Attachments, put_id: String) -> Result<Prepared, Failure> {
    let session = &owned.session;
    let before = owned.head.as_deref();
    let origin = attachments.base.as_deref().or(before);
    let base = origin.filter(|_| !change.full);
    let sequence = before.map_or(0, |head| head.sequence).saturating_add(1);
    let version = (owned.epoch, sequence);
    let mut puts = VecDeque::new();
    let mut segments = base.map(|head| head.segments.clone()).unwrap_or_default();
    let Pushed { bytes: mut inline, pages, mut top_layer } = encode_delta(base, change.pages, &owned.top_layer)?;
    if inline.len() > INLINE_BYTES_MAX {
        let sha256 = segment::sha256_hex(&inline);
        let key = session.segment(owned.epoch, sequence, &name_hash(&sha256, &put_id, attachments.sealed));
        segments.push(SegmentRef { key: key.clone(), bytes: inline.len() as u64, sha256, pages });
        puts.push_back((key, std::mem::take(&mut inline)));
        top_layer = TopLayer::default();
    }
    let none = Log::default();
    let (journal, rolled) = before.map_or(&none, |head| &head.journal).append(WhichLog::Journal, session, version, attachments.journal)?;
    puts.extend(rolled);
    let (events, rolled) = before.map_or(&none, |head| &head.events).append(WhichLog::Events, session, version, attachments.events)?;
    puts.extend(rolled);
    let mut head = Head {
        format: FORMAT,
        tenant: session.tenant.clone(),
        uid: session.uid.clone(),
        name: session.name.clone(),
        epoch: owned.epoch,
        sequence,
        put_id,
        engine_digest: change.engine_digest,
        time: change.time,
        memory_pages: change.memory_pages,
        globals: change.globals,
        state: change.state,
        segments,
        tombstone: false,
        checkpoints: before.map(|head| head.checkpoints.clone()).unwrap_or_default(),
        journal,
        events,
        blobs: Blobs {
            table: attachments.blobs.or_else(|| origin.map(|head| head.blobs.table.clone())).unwrap_or_default(),
            kept: Vec::new(),
        },
        label: None,
        sealed: attachments.sealed,
        inline,
    };
    if let Some(mark) = attachments.mark {
        puts.extend(put_aside(owned, &mut head, mark)?);
    }
    if let Some(before) = before {
        loop {
            let table = std::mem::take(&mut head.blobs.table);
            head.blobs = before.blobs.next(before.sequence, table, &head.checkpoint_ids());
            if head.blobs.kept.len() <= KEPT_MAX || !checkpoint::forget_oldest(&mut head.checkpoints) {
                break;
            }
        }
    }
    let bytes = head.encode()?;
    Ok(Prepared { head, top_layer, bytes, puts })
}

/// The hash that stands in the name of a segment. A name is in clear where the object is encrypted, and whoever guesses the pages could see that they
/// are right: so it is salted there, with what the encrypted head holds.
fn name_hash(sha256: &str, put_id: &str, sealed: bool) -> String {
    if sealed { segment::sha256_hex(format!("{put_id} {sha256}").as_bytes()) } else { sha256.to_owned() }
}

/// Lists a checkpoint in `head`; answers its object. `None`: the state is listed already, or none would be kept.
fn put_aside(owned: &Owned, head: &mut Head, mark: Mark) -> Result<Option<(String, Bytes)>, Failure> {
    let subject = match mark.subject {
        Subject::This => &*head,
        Subject::Before => match owned.head.as_deref() {
            Some(before) if !before.checkpoints.iter().any(|it| it.id == before.sequence) => before,
            _ => return Ok(None),
        },
    };
    if mark.label.is_none() && mark.keep == 0 {
        return Ok(None);
    }
    let (reference, bytes) = checkpoint::aside(&owned.session, subject, mark.label, head.version())?;
    let key = reference.key.clone();
    head.checkpoints = checkpoint::retain(std::mem::take(&mut head.checkpoints), reference, mark.keep);
    Ok(Some((key, bytes)))
}

/// The pages changed since the last segment: those inline in `base` with `changed` over them.
fn encode_delta(base: Option<&Head>, changed: Vec<(u32, Page)>, known: &TopLayer) -> Result<Pushed, Failure> {
    let inline = base.map(|head| head.inline.clone()).unwrap_or_default();
    if changed.is_empty() {
        return Ok(Pushed { bytes: inline, pages: 0, top_layer: known.clone() });
    }
    Ok(inline::push(&inline, changed, known)?)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::{Json, PAGE_BYTES, SessionKey};

    fn change(pages: std::ops::Range<u32>, full: bool) -> Change {
        let mut noise = 1u64;
        let mut page = || {
            Arc::new(std::array::from_fn::<u8, PAGE_BYTES, _>(|_| {
                noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (noise >> 56) as u8
            }))
        };
        Change {
            full,
            pages: pages.map(|number| (number, page())).collect(),
            memory_pages: 64,
            globals: Json::null(),
            state: Json::null(),
            engine_digest: String::new(),
            time: String::new(),
        }
    }

    fn after(owned: &Owned, change: Change, attachments: Attachments) -> (Owned, usize) {
        let prepared = prepare(owned, change, attachments, "p".into()).unwrap();
        let head = Head::decode(&prepared.bytes).unwrap();
        assert_eq!(head, prepared.head);
        (Owned { head: Some(Arc::new(head)), etag: Some("e".into()), ..owned.clone() }, prepared.puts.len())
    }

    fn fresh() -> Owned {
        let session =
            SessionKey { store_prefix: String::new(), tenant: "team".into(), pool: "default".into(), uid: "u".into(), name: "n".into() };
        Owned { session, epoch: 1, head: None, etag: None, top_layer: TopLayer::default() }
    }

    fn mark(subject: Subject) -> Option<Mark> {
        Some(Mark { subject, label: None, keep: 20 })
    }

    #[test]
    fn going_back_lies_over_the_checkpoint_and_keeps_lists_and_journal() {
        let (one, puts) = after(
            &fresh(),
            change(0..40, false),
            Attachments { mark: mark(Subject::This), journal: vec![json!(1).into()], ..Attachments::default() },
        );
        assert_eq!(puts, 2, "a segment and a checkpoint");
        let (two, puts) = after(&one, change(3..5, false), Attachments { journal: vec![json!(2).into()], ..Attachments::default() });
        assert_eq!(puts, 0, "a commit that only adds to the journal is one PUT");
        let then = one.head.clone().unwrap();
        let attachments = Attachments {
            base: Some(Arc::clone(&then)),
            mark: mark(Subject::Before),
            journal: vec![json!(3).into()],
            ..Attachments::default()
        };
        let (back, puts) = after(&two, change(0..0, false), attachments);
        let head = back.head.clone().unwrap();
        assert_eq!((head.sequence, puts), (3, 1));
        assert_eq!((&head.segments, &head.inline), (&then.segments, &then.inline));
        assert_eq!(head.checkpoints.iter().map(|it| it.id).collect::<Vec<_>>(), [1, 2], "what is left behind stays");
        assert_eq!((head.journal.last, &head.journal.tail), (3, &[1, 2, 3].map(|it| json!(it).into()).to_vec()));
        let (_, puts) =
            after(&back, change(7..8, false), Attachments { base: Some(then), mark: mark(Subject::Before), ..Attachments::default() });
        assert_eq!(puts, 1, "the state that is left is put aside");
    }

    #[test]
    fn a_state_is_put_aside_once_and_not_for_nothing() {
        let (one, _) = after(&fresh(), change(0..1, false), Attachments { mark: mark(Subject::This), ..Attachments::default() });
        let (two, puts) = after(&one, change(1..2, false), Attachments { mark: mark(Subject::Before), ..Attachments::default() });
        assert_eq!((puts, two.head.unwrap().checkpoints.len()), (0, 1));
        let none = Some(Mark { subject: Subject::This, label: None, keep: 0 });
        assert_eq!(after(&one, change(1..2, false), Attachments { mark: none, ..Attachments::default() }).1, 0);
        let (fresh_before, puts) =
            after(&fresh(), change(0..1, false), Attachments { mark: mark(Subject::Before), ..Attachments::default() });
        assert_eq!((puts, fresh_before.head.unwrap().checkpoints.len()), (0, 0));
    }

    #[test]
    fn the_name_of_an_encrypted_segment_tells_nothing_of_its_pages() {
        let named = |sealed, put_id: &str| {
            let prepared =
                prepare(&fresh(), change(0..40, false), Attachments { sealed, ..Attachments::default() }, put_id.into()).unwrap();
            (prepared.head.segments[0].key.clone(), prepared.head.segments[0].sha256.clone())
        };
        let ((clear, sha256), (salted, same)) = (named(false, "p"), named(true, "p"));
        assert!(sha256 == same && clear.contains(&sha256[..32]) && !salted.contains(&sha256[..32]));
        assert_ne!(salted, named(true, "q").0);
    }

    #[test]
    fn a_whole_image_needs_no_base() {
        let (one, _) = after(&fresh(), change(0..40, false), Attachments::default());
        let (two, _) = after(&one, change(0..2, true), Attachments { base: one.head.clone(), ..Attachments::default() });
        assert!(two.head.unwrap().segments.is_empty());
    }
}
