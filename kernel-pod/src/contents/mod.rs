//! What a live session keeps outside its heap: the contents that its head names, and what was written since.
//!
//! Pieces leave for the store while a cell still writes; the next commit waits for them and names them. Reads go to the store piece by piece.
//! It must not know when a session commits ([`crate::session`]), nor what a content is for.

mod pieces;
mod read;
mod receive;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::BytesMut;
use dormouse_engine::{BlobError, Blobs};
use dormouse_lifecycle::blobs::{self, Blob, Extent, ID_DIGITS, PIECE_BYTES, Table};
use dormouse_lifecycle::{Head, SessionKey};
use dormouse_protocol::{ApiError, ErrorCode};
use tokio::sync::{Mutex, MutexGuard};

pub(crate) use pieces::Backing;
use pieces::{Recent, Uploads};
pub(crate) use read::{slice_at, stored};
pub(crate) use receive::{Receiving, UPLOAD_PREFIX};

/// Contents whose last piece may wait for more in memory. Beyond them one is put as it is, and read again when more comes.
const TAILS_MAX: usize = 4;

/// The contents of a live session.
pub(crate) struct Contents {
    backing: Backing,
    session: SessionKey,
    /// Shared by those who bring contents from outside.
    busy: Arc<()>,
    inner: Mutex<Inner>,
}

struct Inner {
    table: Table,
    /// (epoch, sequence) of the commit that will name what is written now.
    version: (u64, u64),
    /// Whether the table is another than the last commit's.
    changed: bool,
    tails: BTreeMap<String, Tail>,
    uploads: Uploads,
    /// Written for this version, and not to be named.
    unnamed: Vec<Extent>,
    /// The same of the version before, whose commit is under way.
    doomed: Vec<Extent>,
    recent: Recent,
}

/// The end of a content that is not in the store yet: what comes after the last whole piece of its last extent.
struct Tail {
    number: u32,
    buffer: BytesMut,
}

/// What a commit has to say about contents.
pub(crate) struct Ready {
    /// The table, if it has changed.
    pub table: Option<Table>,
    /// Bytes that were put for it.
    pub bytes: u64,
}

impl Contents {
    /// Those of a session whose head is `head`.
    pub(crate) fn new(backing: Backing, session: SessionKey, epoch: u64, head: Option<&Head>) -> Self {
        let mut table = head.map(|head| head.blobs.table.clone()).unwrap_or_default();
        let named = table.len();
        table.retain(|name, _| !name.starts_with(UPLOAD_PREFIX));
        let inner = Inner {
            changed: table.len() < named,
            table,
            version: (epoch, head.map_or(0, |head| head.sequence).saturating_add(1)),
            tails: BTreeMap::new(),
            uploads: Uploads::default(),
            unnamed: Vec::new(),
            doomed: Vec::new(),
            recent: Recent::default(),
        };
        Self { backing, session, busy: Arc::default(), inner: Mutex::new(inner) }
    }

    /// Those of a session that is made anew, beside the one whose head is `head`.
    pub(crate) fn empty(backing: Backing, session: SessionKey, epoch: u64, head: Option<&Head>) -> Self {
        let mut made = Self::new(backing, session, epoch, head);
        let inner = made.inner.get_mut();
        inner.table.clear();
        inner.changed = true;
        made
    }

    /// Removes what was written for the next commit; there will be none.
    pub(crate) async fn discard(&self) {
        let mut inner = self.inner.lock().await;
        let names: Vec<String> = inner.table.keys().cloned().collect();
        for name in names {
            inner.take(&name);
        }
        // Whether they have arrived or not: what is on its way is waited for.
        let _ = inner.uploads.settle().await;
        let unnamed = std::mem::take(&mut inner.unnamed);
        self.backing.storage.sweep(blobs::unused(&self.session, &unnamed, [&inner.table]));
    }

    /// Takes over the contents of `other` whose names begin so, instead of its own.
    pub(crate) async fn carry(&self, other: &Self, prefix: &str) {
        let mut inner = self.inner.lock().await;
        let own: Vec<String> = inner.table.keys().filter(|name| name.starts_with(prefix)).cloned().collect();
        for name in own {
            inner.take(&name);
        }
        let other = other.inner.lock().await;
        let carried = other.table.iter().filter(|(name, _)| name.starts_with(prefix));
        inner.table.extend(carried.map(|(name, blob)| (name.clone(), blob.clone())));
    }

    /// Goes on from `table`, which the base of the next commit has.
    pub(crate) async fn go_on_from(&self, table: &Table) {
        let mut inner = self.inner.lock().await;
        inner.table.clone_from(table);
        inner.changed = true;
    }

    /// Puts what is still to be put; what a commit under `epoch` then names is in the store.
    pub(crate) async fn ready(&self, epoch: u64) -> Result<Ready, ApiError> {
        let mut inner = self.inner.lock().await;
        let names: Vec<String> = inner.tails.keys().cloned().collect();
        for name in names {
            self.put_tail(&mut inner, &name).await;
        }
        let bytes = inner.uploads.finish().await?;
        // What comes or goes from here on, while the commit is under way, is for the one after it, and so is its version: a sweep after this commit
        // would take it for garbage otherwise.
        let table = std::mem::take(&mut inner.changed).then(|| inner.table.clone());
        inner.version = (epoch, inner.version.1.saturating_add(1));
        let unnamed = std::mem::take(&mut inner.unnamed);
        inner.doomed.extend(unnamed);
        Ok(Ready { table, bytes })
    }

    /// The commit that was ready for was not sent: what is new is for the next one.
    pub(crate) async fn unsent(&self, changed: bool) {
        self.inner.lock().await.changed |= changed;
    }

    /// What the session has, if that differs from what the last commit names.
    pub(crate) async fn changed_table(&self) -> Option<Table> {
        let inner = self.inner.lock().await;
        inner.changed.then(|| inner.table.clone())
    }

    /// Puts what is still to be put, and waits until all of it is stored.
    pub(crate) async fn settle(&self) -> Result<(), ApiError> {
        let mut inner = self.inner.lock().await;
        if !inner.changed {
            return Ok(());
        }
        let names: Vec<String> = inner.tails.keys().cloned().collect();
        for name in names {
            self.put_tail(&mut inner, &name).await;
        }
        inner.uploads.settle().await
    }

    /// A commit has named what was ready for it. Answers keys that no head will name.
    pub(crate) async fn committed(&self, head: &Head) -> Vec<String> {
        let mut inner = self.inner.lock().await;
        inner.version = (head.epoch, head.sequence.saturating_add(1));
        inner.recent = Recent::default();
        let doomed = std::mem::take(&mut inner.doomed);
        // What has been written since has other extents: they are of a later version.
        blobs::unused(&self.session, &doomed, [&head.blobs.table])
    }

    /// Whether something may lie in the store that no head names.
    pub(crate) fn may_have_left_pieces(&self) -> bool {
        self.inner.try_lock().map_or(true, |inner| inner.changed || !inner.unnamed.is_empty() || !inner.doomed.is_empty())
    }

    /// Whether somebody brings a content from outside.
    pub(crate) fn is_busy(&self) -> bool {
        Arc::strong_count(&self.busy) > 1
    }

    /// The content of this name.
    pub(crate) async fn find(&self, name: &str) -> Option<Blob> {
        self.inner.lock().await.table.get(name).cloned()
    }

    /// Gives a content another name. Answers its bytes; `None` when there is none.
    pub(crate) async fn rename(&self, from: &str, to: &str) -> Option<u64> {
        let mut inner = self.inner.lock().await;
        let blob = inner.table.remove(from)?;
        let tail = inner.tails.remove(from);
        let bytes = blob.bytes();
        inner.take(to);
        inner.table.insert(to.to_owned(), blob);
        inner.tails.extend(tail.map(|tail| (to.to_owned(), tail)));
        inner.changed = true;
        Some(bytes)
    }

    /// Digits that nothing else of the session has.
    pub(crate) fn digits(&self, count: usize) -> String {
        self.backing.ids.digits(count)
    }

    /// Does what takes long where it holds up no other session.
    pub(crate) async fn beside<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiError> {
        let failed = |error| ApiError::new(ErrorCode::Internal, format!("work on a content was lost: {error}"));
        self.backing.threads.blocking(work).await.map_err(failed)
    }

    /// Keeps a content as a whole, in the place of what had its name.
    pub(crate) async fn keep(&self, name: &str, text: bool, bytes: &[u8]) -> Result<(), ApiError> {
        let mut inner = self.inner.lock().await;
        self.open_locked(&mut inner, name, text, false, bytes.len() as u64).await.map_err(api_error)?;
        for chunk in bytes.chunks(PIECE_BYTES) {
            self.push_locked(&mut inner, name, chunk).await.map_err(api_error)?;
        }
        Ok(())
    }

    /// A content as a whole. `None` when there is none.
    pub(crate) async fn whole(&self, name: &str) -> Result<Option<Vec<u8>>, ApiError> {
        let mut inner = self.inner.lock().await;
        let Some(bytes) = inner.table.get(name).map(Blob::bytes) else { return Ok(None) };
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.fill(&mut inner, name, 0, bytes).await.map(Some)
    }

    async fn put_tail(&self, inner: &mut MutexGuard<'_, Inner>, name: &str) {
        let Some(tail) = inner.tails.remove(name).filter(|tail| !tail.buffer.is_empty()) else { return };
        let Some(extent) = inner.table.get(name).and_then(|blob| blob.extents.last()).cloned() else { return };
        inner.uploads.put(&self.backing, &self.session, &extent, tail.number, tail.buffer.freeze()).await;
    }

    /// Begins a content, or goes on with it, for `bytes` more.
    async fn open_locked(
        &self,
        inner: &mut MutexGuard<'_, Inner>,
        name: &str,
        text: bool,
        append: bool,
        bytes: u64,
    ) -> Result<(), BlobError> {
        let known = inner.table.get(name).filter(|_| append).map(|blob| (blob.bytes(), blob.text));
        let before = known.map_or(0, |(bytes, _)| bytes);
        blobs::admit(&inner.table, name, before.saturating_add(bytes)).map_err(|refused| blob_error(&limited(&refused)))?;
        if known.is_none() {
            inner.take(name);
        }
        self.reopen(inner, name).await?;
        inner.changed = true;
        if let Some(blob) = inner.table.get_mut(name) {
            blob.text = text && known.is_none_or(|(_, text)| text);
        }
        Ok(())
    }

    /// Adds `bytes` to a content that is there.
    async fn push_locked(&self, guard: &mut MutexGuard<'_, Inner>, name: &str, bytes: &[u8]) -> Result<(), BlobError> {
        let gone = || blob_error(&ApiError::new(ErrorCode::Internal, format!("{name} is not open")));
        if !guard.table.contains_key(name) {
            return Err(gone());
        }
        // Whoever wrote another content meanwhile may have had this one's last piece put.
        self.reopen(guard, name).await?;
        let inner = &mut **guard;
        let extent = inner.table.get_mut(name).and_then(|blob| blob.extents.last_mut()).ok_or_else(gone)?;
        let tail = inner.tails.get_mut(name).ok_or_else(gone)?;
        extent.bytes += bytes.len() as u64;
        tail.buffer.extend_from_slice(bytes);
        inner.changed = true;
        while tail.buffer.len() >= PIECE_BYTES {
            let content = tail.buffer.split_to(PIECE_BYTES).freeze();
            inner.uploads.put(&self.backing, &self.session, extent, tail.number, content).await;
            tail.number += 1;
        }
        Ok(())
    }

    /// Begins a content that comes from outside with nothing.
    async fn begin(&self, name: &str, text: bool) -> Result<(), BlobError> {
        let mut inner = self.inner.lock().await;
        self.open_locked(&mut inner, name, text, false, 0).await
    }

    /// Adds to a content that comes from outside. `None`: the session goes on from another state, which does not have it.
    async fn append(&self, name: &str, bytes: &[u8]) -> Option<Result<(), BlobError>> {
        let mut inner = self.inner.lock().await;
        let so_far = inner.table.get(name)?.bytes();
        if let Err(refused) = blobs::admit(&inner.table, name, so_far.saturating_add(bytes.len() as u64)) {
            return Some(Err(blob_error(&limited(&refused))));
        }
        Some(self.push_locked(&mut inner, name, bytes).await)
    }

    /// Makes a last extent of this version, to write behind: what the last piece holds is taken into it.
    async fn reopen(&self, inner: &mut MutexGuard<'_, Inner>, name: &str) -> Result<(), BlobError> {
        if inner.tails.contains_key(name) {
            return Ok(());
        }
        while inner.tails.len() >= TAILS_MAX {
            let Some(first) = inner.tails.keys().next().cloned() else { break };
            self.put_tail(inner, &first).await;
        }
        let last = inner.table.get(name).and_then(|blob| blob.extents.last()).cloned();
        let mut buffer = BytesMut::new();
        if let Some(last) = last {
            let rest = last.bytes % PIECE_BYTES as u64;
            if rest > 0 {
                let content = self.piece(inner, &last, last.pieces() - 1, rest).await.map_err(|error| blob_error(&error))?;
                buffer.extend_from_slice(content.get(..usize::try_from(rest).unwrap_or(0)).unwrap_or_default());
            }
            let version = inner.version;
            if let Some(blob) = inner.table.get_mut(name) {
                blob.extents.pop();
                if last.bytes > rest {
                    blob.extents.push(Extent { bytes: last.bytes - rest, ..last.clone() });
                }
            }
            if last.version == version {
                inner.unnamed.push(last);
            }
        }
        let sealed = self.backing.storage.writer().await.map_err(|error| blob_error(&error))?.is_some();
        let id = self.backing.ids.digits(ID_DIGITS);
        let extent = Extent { version: inner.version, id, bytes: buffer.len() as u64, sealed };
        inner.table.entry(name.to_owned()).or_default().extents.push(extent);
        inner.tails.insert(name.to_owned(), Tail { number: 0, buffer });
        Ok(())
    }
}

impl Inner {
    /// Takes a content out. False when there is none.
    fn take(&mut self, name: &str) -> bool {
        self.tails.remove(name);
        let Some(blob) = self.table.remove(name) else { return false };
        let version = self.version;
        self.unnamed.extend(blob.extents.into_iter().filter(|extent| extent.version == version));
        self.changed = true;
        true
    }
}

#[async_trait]
impl Blobs for Contents {
    async fn stat(&self, name: &str) -> Option<(u64, bool)> {
        self.inner.lock().await.table.get(name).map(|blob| (blob.bytes(), blob.text))
    }

    async fn read(&self, name: &str, at: u64, bytes: usize) -> Result<Vec<u8>, BlobError> {
        let mut inner = self.inner.lock().await;
        self.fill(&mut inner, name, at, bytes).await.map_err(|error| blob_error(&error))
    }

    async fn open(&self, name: &str, text: bool, append: bool, bytes: u64) -> Result<(), BlobError> {
        let mut inner = self.inner.lock().await;
        self.open_locked(&mut inner, name, text, append, bytes).await
    }

    async fn push(&self, name: &str, bytes: Vec<u8>) -> Result<(), BlobError> {
        let mut inner = self.inner.lock().await;
        self.push_locked(&mut inner, name, &bytes).await
    }

    async fn remove(&self, name: &str) -> bool {
        self.inner.lock().await.take(name)
    }

    async fn copy(&self, name: &str, to: &str) -> Result<Option<u64>, BlobError> {
        let mut inner = self.inner.lock().await;
        self.put_tail(&mut inner, name).await;
        let Some(blob) = inner.table.get(name).cloned() else { return Ok(None) };
        let bytes = blob.bytes();
        blobs::admit(&inner.table, to, bytes).map_err(|refused| blob_error(&limited(&refused)))?;
        if name != to {
            inner.take(to);
            inner.table.insert(to.to_owned(), blob);
            inner.changed = true;
        }
        Ok(Some(bytes))
    }

    async fn list(&self, prefix: &str) -> Vec<(String, u64)> {
        let inner = self.inner.lock().await;
        let found = inner.table.range(prefix.to_owned()..).take_while(|(name, _)| name.starts_with(prefix));
        found.map(|(name, blob)| (name.clone(), blob.bytes())).collect()
    }
}

fn blob_error(error: &ApiError) -> BlobError {
    BlobError { name: error.code.to_string(), message: error.message.clone() }
}

/// What a script would be told, for others.
fn api_error(error: BlobError) -> ApiError {
    let codes = [ErrorCode::QuotaExceeded, ErrorCode::SizeAdmissionError, ErrorCode::StorageUnavailable, ErrorCode::SnapshotCorrupt];
    let code = codes.into_iter().find(|code| code.to_string() == error.name).unwrap_or(ErrorCode::Internal);
    ApiError::new(code, error.message)
}

/// Why a limit says no, for whoever wanted to write.
pub(crate) fn limited(refused: &blobs::Refused) -> ApiError {
    let code = match refused {
        blobs::Refused::Name { .. } => ErrorCode::InvalidRequest,
        blobs::Refused::TooLarge { .. } => ErrorCode::SizeAdmissionError,
        blobs::Refused::TooMuch { .. } | blobs::Refused::TooMany => ErrorCode::QuotaExceeded,
    };
    ApiError::new(code, refused.to_string())
}
