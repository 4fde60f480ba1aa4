//! From a change to the bytes of a commit: the new head, and the objects that it names first.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use bytes::Bytes;

use crate::{
    Change, Head, Owned, Page, SegmentRef,
    checkpoint::{self, Mark, Subject},
    commit::Failure,
    head::{FORMAT, INLINE_BYTES_MAX},
    segment,
};

/// What a commit carries beside its change.
#[derive(Debug, Clone, Default)]
pub struct Annex {
    /// The change lies over the pages of this head, not of the one that is replaced: the session goes on from another state. Its segments
    /// must be in the store, under keys of the session that commits.
    pub base: Option<Arc<Head>>,
    /// What to put aside.
    pub mark: Option<Mark>,
    /// Entries at the end of the journal.
    pub journal: Vec<serde_json::Value>,
}

pub(crate) struct Prepared {
    pub(crate) head: Head,
    pub(crate) bytes: Bytes,
    /// Objects to put before the head, with their keys.
    pub(crate) puts: VecDeque<(String, Bytes)>,
}

/// The new head, its bytes, and what to put before it.
pub(crate) fn prepare(owned: &Owned, change: Change, annex: Annex, put_id: String) -> Result<Prepared, Failure> {
    let session = &owned.session;
    let before = owned.head.as_deref();
    let base = annex.base.as_deref().or(before).filter(|_| !change.full);
    let sequence = before.map_or(0, |head| head.sequence).saturating_add(1);
    let version = (owned.epoch, sequence);
    let mut puts = VecDeque::new();
    let mut segments = base.map(|head| head.segments.clone()).unwrap_or_default();
    let (mut inline, pages) = encode_delta(base, change.pages)?;
    if inline.len() > INLINE_BYTES_MAX {
        let sha256 = segment::sha256_hex(&inline);
        let key = session.segment(owned.epoch, sequence, &sha256);
        segments.push(SegmentRef { key: key.clone(), bytes: inline.len() as u64, sha256, pages });
        puts.push_back((key, std::mem::take(&mut inline)));
    }
    let journal = before.map(|head| head.journal.clone()).unwrap_or_default();
    let (journal, rolled) = journal.append(session, version, annex.journal)?;
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
        label: None,
        inline,
    };
    if let Some(mark) = annex.mark {
        puts.extend(put_aside(owned, &mut head, mark)?);
    }
    let bytes = head.encode()?;
    Ok(Prepared { head, bytes, puts })
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

/// The bytes and the number of all pages changed since the last segment: those inline in `base`, with `changed` over them.
fn encode_delta(base: Option<&Head>, changed: Vec<(u32, Page)>) -> Result<(Bytes, u32), Failure> {
    if changed.is_empty() {
        return Ok((base.map(|head| head.inline.clone()).unwrap_or_default(), 0));
    }
    let known = base.map(Head::inline_pages).transpose()?.unwrap_or_default();
    let pages = if known.is_empty() {
        changed
    } else {
        let mut union: BTreeMap<u32, Page> = known.into_iter().collect();
        union.extend(changed);
        union.into_iter().collect()
    };
    let bytes = segment::encode(&pages)?;
    Ok((bytes, u32::try_from(pages.len()).unwrap_or(u32::MAX)))
}
