//! Parts of contents out of the pieces that hold them.

use std::sync::Arc;

use bytes::Bytes;
use dormouse_lifecycle::SessionKey;
use dormouse_lifecycle::blobs::{self, Blob, Extent, PIECE_BYTES};
use dormouse_protocol::{ApiError, ErrorCode};
use futures::stream::BoxStream;
use tokio::sync::MutexGuard;

use super::{Contents, Inner};
use crate::storage::Storage;

/// A part of a content that lies in one piece.
pub(crate) struct PieceSlice {
    /// The extent.
    pub extent: Extent,
    /// The piece of it.
    pub number: u32,
    /// Bytes of the piece that are in use.
    pub used: u64,
    /// Where in the piece.
    pub from: usize,
    /// How many bytes from there are in the piece and in use.
    pub bytes: usize,
}

/// Where the byte at `at` lies, and how much follows it there. `None`: behind the end.
pub(crate) fn slice_at(blob: &Blob, at: u64) -> Option<PieceSlice> {
    let mut from = at;
    for extent in &blob.extents {
        if from >= extent.bytes {
            from -= extent.bytes;
            continue;
        }
        let piece = PIECE_BYTES as u64;
        let number = u32::try_from(from / piece).ok()?;
        let used = (extent.bytes - u64::from(number) * piece).min(piece);
        let inside = from % piece;
        return Some(PieceSlice {
            extent: extent.clone(),
            number,
            used,
            from: usize::try_from(inside).ok()?,
            bytes: usize::try_from(used - inside).ok()?,
        });
    }
    None
}

/// A piece out of the store, at least `used` bytes of it.
pub(crate) async fn stored(storage: &Storage, session: &SessionKey, extent: &Extent, number: u32, used: u64) -> Result<Bytes, ApiError> {
    let key = extent.key(session, number);
    let corrupt = |why: &dyn std::fmt::Display| {
        let message = format!("a part of what the session keeps outside its heap does not verify ({key}): {why}");
        ApiError::new(ErrorCode::SnapshotCorrupt, message)
    };
    let Some(opened) = storage.look(&key).await? else { return Err(corrupt(&"it is not in the store")) };
    let opened = opened?;
    if extent.sealed && opened.sealed.is_none() {
        return Err(corrupt(&"it is not encrypted, and was"));
    }
    let bytes = opened.bytes;
    let content = blobs::decode(&extent.id, number, &bytes).map_err(|error| corrupt(&error))?;
    if (content.len() as u64) < used { Err(corrupt(&"it is too short")) } else { Ok(content) }
}

impl Contents {
    /// The first `bytes` of a content, a piece at a time as they are asked for. It fails when the content is no longer there.
    pub(crate) fn parts(self: Arc<Self>, name: String, bytes: u64) -> BoxStream<'static, Result<Bytes, ApiError>> {
        let parts = futures::stream::try_unfold((self, name, 0), move |(contents, name, at)| async move {
            if at >= bytes {
                return Ok(None);
            }
            let wanted = usize::try_from(bytes - at).unwrap_or(usize::MAX).min(PIECE_BYTES);
            let part = contents.fill(&mut contents.inner.lock().await, &name, at, wanted).await?;
            if part.is_empty() {
                let message = "what was to be sent is no longer there: it was deleted while it was sent";
                return Err(ApiError::new(ErrorCode::RefNotFound, message));
            }
            let next = at + part.len() as u64;
            Ok(Some((Bytes::from(part), (contents, name, next))))
        });
        Box::pin(parts)
    }

    pub(super) async fn fill(&self, inner: &mut MutexGuard<'_, Inner>, name: &str, at: u64, bytes: usize) -> Result<Vec<u8>, ApiError> {
        let Some(blob) = inner.table.get(name).cloned() else { return Ok(Vec::new()) };
        let mut filled = Vec::with_capacity(bytes);
        while filled.len() < bytes {
            let Some(slice) = slice_at(&blob, at.saturating_add(filled.len() as u64)) else { break };
            let wanted = slice.bytes.min(bytes - filled.len());
            let tail = inner.tails.get(name).filter(|tail| blob.extents.last() == Some(&slice.extent) && tail.number == slice.number);
            let content = match tail {
                Some(tail) => Bytes::copy_from_slice(&tail.buffer),
                None => self.piece(inner, &slice.extent, slice.number, slice.used).await?,
            };
            let part = content.get(slice.from..slice.from + wanted);
            filled.extend_from_slice(part.ok_or_else(|| ApiError::new(ErrorCode::Internal, "a piece ends before its content does"))?);
        }
        Ok(filled)
    }

    pub(super) async fn piece(
        &self,
        inner: &mut MutexGuard<'_, Inner>,
        extent: &Extent,
        number: u32,
        used: u64,
    ) -> Result<Bytes, ApiError> {
        if extent.version == inner.version {
            inner.uploads.settle().await?;
        }
        let key = extent.key(&self.session, number);
        if let Some(known) = inner.recent.get(&key) {
            return Ok(known);
        }
        let content = stored(&self.backing.storage, &self.session, extent, number, used).await?;
        inner.recent.keep(key, content.clone());
        Ok(content)
    }
}
