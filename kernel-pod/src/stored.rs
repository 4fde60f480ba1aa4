//! What is stored of a session, read without running it: also while another pod runs it, and also when it does not verify.

use std::sync::Arc;

use dormouse_crds::session::SnapshotStatus;
use dormouse_lifecycle::acquire::{CorruptHead, acquire};
use dormouse_lifecycle::head::CheckpointRef;
use dormouse_lifecycle::log::{Entries, Log, LogRef};
use dormouse_lifecycle::{Acquire, Head, SessionKey, recover};
use dormouse_protocol::ApiError;
use dormouse_protocol::history::{Checkpoint, JournalEntry, JournalPage};
use dormouse_protocol::kernel::Anchor;

use crate::storage::Storage;

/// Entries in one answer.
const PAGE_ENTRIES_MAX: usize = 10_000;

/// Objects that are read at the same time when the head is lost.
const READS_IN_FLIGHT_MAX: usize = 16;

/// What lies at a session's head.
pub(crate) struct Stored {
    /// It, or what stands in for one that is not believed.
    pub head: Head,
    /// The ETag of what lies there, if anything does.
    pub etag: Option<String>,
    /// Its journal; of a head that was put back, the one that it has.
    pub journal: Log,
    /// Why the head is not believed.
    pub damage: Option<String>,
}

/// Reads the head of a session; for one that is not believed, what else is stored tells what can be told, up to `epoch`. `None`: nothing is there,
/// nor known to have been there.
pub(crate) async fn read(storage: &Storage, key: &SessionKey, epoch: u64, anchor: Option<Anchor>) -> Result<Option<Stored>, ApiError> {
    let found = storage.head(key, anchor).await?;
    let etag = found.as_ref().map(|(_, etag)| etag.clone());
    let old = found.as_ref().and_then(|(head, _)| head.as_ref().ok()).map(|head| head.journal.clone());
    // Whoever reads is no owner: no epoch is above its own.
    let damage = match acquire(key.clone(), u64::MAX, anchor.as_ref().map(Anchor::version), found) {
        Acquire::Fresh(_) | Acquire::Deleted | Acquire::Stale { .. } => return Ok(None),
        Acquire::Restore(owned) => {
            let head = owned.head.map(Arc::unwrap_or_clone);
            return Ok(head.map(|head| Stored { journal: head.journal.clone(), head, etag, damage: None }));
        }
        Acquire::Corrupt(error) => error,
    };
    let (listed, expected) = (storage.list(&key.prefix()).await?, storage.expects(anchor).await?);
    let (mut objects, mut closed) = (Vec::new(), None);
    for keys in recover::wanted(&listed).chunks(READS_IN_FLIGHT_MAX) {
        let found = futures::future::try_join_all(keys.iter().map(|key| storage.look(key))).await?;
        for (key, found) in keys.iter().zip(found) {
            match found {
                // Nobody vouches for it: the head that would name it is not believed.
                Some(Ok(opened)) if expected && opened.sealed.is_none() => closed = Some(format!("{key} is not encrypted")),
                Some(Ok(opened)) => objects.push(((*key).to_owned(), opened.bytes)),
                Some(Err(error)) => closed = Some(error.to_string()),
                None => {}
            }
        }
    }
    let head = recover::recover(key, epoch, anchor.as_ref().map(Anchor::version), &listed, &objects);
    let put_back = old.filter(|_| matches!(damage, CorruptHead::RolledBack { .. }));
    let damage = closed.map_or_else(|| damage.to_string(), |closed| format!("{damage}; beside it, {closed}"));
    Ok(Some(Stored { journal: put_back.unwrap_or_else(|| head.journal.clone()), head, etag, damage: Some(damage) }))
}

/// A checkpoint as clients see it.
pub(crate) fn view(checkpoint: &CheckpointRef) -> Checkpoint {
    Checkpoint {
        id: checkpoint.id.to_string(),
        label: checkpoint.label.clone(),
        sequence: checkpoint.id,
        time: checkpoint.time.clone(),
        bytes: checkpoint.snapshot_bytes,
    }
}

/// Entries of the journal behind the one numbered `after`, at most `limit`. Objects that do not verify are left out, and the answer says so.
pub(crate) async fn journal(storage: &Storage, stored: Stored, after: u64, limit: usize) -> Result<JournalPage, ApiError> {
    let Stored { journal, damage, .. } = stored;
    let limit = limit.clamp(1, PAGE_ENTRIES_MAX);
    let mut page = JournalPage { last: journal.last, damage, ..JournalPage::default() };
    let ends = journal.segments.iter().skip(1).map(|next| next.first).chain([journal.tail_first()]);
    for (segment, end) in journal.segments.iter().zip(ends) {
        if end <= after.saturating_add(1) || page.next.is_some() {
            continue;
        }
        match part(storage, segment).await? {
            Ok(entries) => take(&mut page, entries, after, limit),
            Err(reason) => page.damage = Some(reason),
        }
    }
    let tail = Entries { first: journal.tail_first(), entries: journal.tail };
    take(&mut page, tail, after, limit);
    Ok(page)
}

/// What an object of a log holds, or why that cannot be told.
pub(crate) async fn part(storage: &Storage, segment: &LogRef) -> Result<Result<Entries, String>, ApiError> {
    let found = storage.look(&segment.key).await?;
    let opened = found.ok_or_else(|| format!("{} is gone", segment.key)).and_then(|found| found.map_err(|e| e.to_string()));
    Ok(opened.and_then(|opened| segment.open(&opened.bytes).map_err(|e| e.to_string())))
}

/// What status says of a head.
pub(crate) fn snapshot(head: &Head) -> SnapshotStatus {
    SnapshotStatus {
        epoch: head.epoch,
        sequence: head.sequence,
        bytes: head.snapshot_bytes(),
        engine_digest: head.engine_digest.clone(),
        time: head.time.clone(),
        encrypted: head.sealed,
    }
}

/// Appends what is wanted of `entries`, until the page is full.
fn take(page: &mut JournalPage, entries: Entries, after: u64, limit: usize) {
    for (seq, entry) in (entries.first..).zip(entries.entries) {
        if seq <= after || page.next.is_some() {
            continue;
        }
        if page.entries.len() >= limit {
            page.next = page.entries.last().map(|last| last.seq);
            return;
        }
        match entry.read() {
            Ok(record) => page.entries.push(JournalEntry::new(seq, record)),
            Err(error) => page.damage = Some(format!("entry {seq} cannot be read: {error}")),
        }
    }
}
