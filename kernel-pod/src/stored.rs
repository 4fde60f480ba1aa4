//! What is stored of a session, read without running it: also while another pod runs it, and also when it does not verify.

use dormouse_lifecycle::checkpoint::CheckpointRef;
use dormouse_lifecycle::journal::Entries;
use dormouse_lifecycle::{Head, SessionKey, recover};
use dormouse_protocol::history::{Checkpoint, CheckpointList, JournalEntry, JournalPage};
use dormouse_protocol::kernel::{JournalCall, StoredCall};
use dormouse_protocol::{ApiError, ErrorCode};

use crate::pod::Pod;
use crate::storage::Storage;

/// Entries in one answer.
const PAGE_ENTRIES_MAX: usize = 10_000;

/// Objects that are read at the same time when the head is lost.
const READS_IN_FLIGHT_MAX: usize = 16;

/// What lies at a session's head.
pub(crate) struct Stored {
    /// It, or what stands in for one that does not verify.
    pub head: Head,
    /// The ETag of what lies there.
    pub etag: String,
    /// Why the head does not verify.
    pub damage: Option<String>,
}

/// Reads the head of a session; for one that does not verify, what else is stored tells what can be told, up to `epoch`. `None`: nothing is there.
pub(crate) async fn read(storage: &Storage, key: &SessionKey, epoch: u64) -> Result<Option<Stored>, ApiError> {
    let Some((decoded, etag)) = storage.head(key).await? else { return Ok(None) };
    let damage = match decoded {
        Ok(head) if head.belongs_to(key) => return Ok((!head.tombstone).then_some(Stored { head, etag, damage: None })),
        Ok(head) => format!("the head at this key belongs to session {} of {}", head.uid, head.tenant),
        Err(error) => error.to_string(),
    };
    let listed = storage.list(&key.prefix()).await?;
    let mut objects = Vec::new();
    for keys in recover::wanted(&listed).chunks(READS_IN_FLIGHT_MAX) {
        let found = futures::future::try_join_all(keys.iter().map(|key| storage.read(key))).await?;
        objects.extend(keys.iter().zip(found).filter_map(|(key, found)| Some(((*key).to_owned(), found?.0))));
    }
    let head = recover::recover(key, epoch, &listed, &objects);
    Ok(Some(Stored { head, etag, damage: Some(damage) }))
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

impl Pod {
    /// The checkpoints of a session.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn stored_checkpoints(&self, call: &StoredCall) -> Result<CheckpointList, ApiError> {
        let (_, Some(stored)) = self.stored(call).await? else { return Ok(CheckpointList::default()) };
        Ok(CheckpointList { items: stored.head.checkpoints.iter().map(view).collect(), damage: stored.damage })
    }

    /// Entries of a session's journal. Objects that do not verify are left out, and the answer says so.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn stored_journal(&self, call: &JournalCall) -> Result<JournalPage, ApiError> {
        let (_, Some(Stored { head, damage, .. })) = self.stored(&call.session).await? else { return Ok(JournalPage::default()) };
        let limit = call.limit.clamp(1, PAGE_ENTRIES_MAX);
        let mut page = JournalPage { damage, ..JournalPage::default() };
        let ends = head.journal.segments.iter().skip(1).map(|next| next.first).chain([head.journal.tail_first()]);
        for (segment, end) in head.journal.segments.iter().zip(ends) {
            if end <= call.after.saturating_add(1) || page.next.is_some() {
                continue;
            }
            let bytes = self.shared().storage.read(&segment.key).await?;
            match bytes
                .ok_or_else(|| format!("{} is gone", segment.key))
                .and_then(|(bytes, _)| segment.open(&bytes).map_err(|e| e.to_string()))
            {
                Ok(entries) => take(&mut page, entries, call.after, limit),
                Err(reason) => page.damage = Some(reason),
            }
        }
        let tail = Entries { first: head.journal.tail_first(), entries: head.journal.tail };
        take(&mut page, tail, call.after, limit);
        Ok(page)
    }

    /// What is stored of a session of this namespace, and where.
    pub(crate) async fn stored(&self, call: &StoredCall) -> Result<(SessionKey, Option<Stored>), ApiError> {
        let config = &self.shared().config;
        if call.namespace != config.namespace {
            let message = format!("this pod reads sessions of namespace {} only", config.namespace);
            return Err(ApiError::new(ErrorCode::Forbidden, message));
        }
        let key = SessionKey {
            store_prefix: config.store_prefix.clone(),
            tenant: call.namespace.clone(),
            uid: call.uid.clone(),
            name: call.name.clone(),
        };
        self.shared().storage_ready().await?;
        let stored = read(&self.shared().storage, &key, u64::MAX).await?;
        Ok((key, stored))
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
        match serde_json::from_value(entry) {
            Ok(record) => page.entries.push(JournalEntry::new(seq, record)),
            Err(error) => page.damage = Some(format!("entry {seq} cannot be read: {error}")),
        }
    }
}
