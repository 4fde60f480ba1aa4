//! The head: the one object whose replacement is a commit.
//!
//! `magic (8) ‖ compressed manifest bytes (u32 LE) ‖ manifest bytes (u32 LE) ‖ inline bytes (u32 LE) ‖ zstd(manifest, JSON) ‖ inline (layers,
//! [`inline`]) ‖ sha256 of all before (32)`. The last byte of the magic is the format.
//! The manifest names everything else: the segments, oldest first, over which the inline pages lie, the checkpoints, the logs, and what the
//! kernel pod needs to rebuild the session and its object. A process refuses a format that it does not know instead of dropping what it does not
//! know of it.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{
    Json, SessionKey,
    blobs::Blobs,
    compression,
    inline::{self, INLINE_BYTES_MAX},
    log::Log,
    segment::SegmentError,
};

/// Format of the manifest.
pub const FORMAT: u16 = 2;

/// Bytes of a manifest at most. The largest parts are the last eval's result and the journal of pending operations.
pub const MANIFEST_BYTES_MAX: usize = 16 << 20;

/// Segments that a head may name: a restore reads them all.
pub const SEGMENTS_MAX: usize = 32;

/// Level of zstd for the manifest, which is small and on the path of every commit.
const ZSTD_LEVEL: i32 = 1;

const MAGIC: [u8; 8] = *b"DMHEAD\0\x02";
const HEADER_BYTES: usize = MAGIC.len() + 4 + 4 + 4;
const CHECKSUM_BYTES: usize = 32;

/// A segment that a head names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SegmentRef {
    /// Its key in the store.
    pub key: String,
    /// Its bytes.
    pub bytes: u64,
    /// Hex sha256 of its bytes.
    pub sha256: String,
    /// Pages in it.
    pub pages: u32,
}

/// A checkpoint as the head lists it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointRef {
    /// The sequence of the commit that it is; unique in the session.
    pub id: u64,
    /// Its label; automatic ones have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// RFC 3339, from the writer's clock.
    pub time: String,
    /// Bytes of its snapshot: segments and inline pages. What it shares with others is counted in each.
    pub snapshot_bytes: u64,
    /// Key of its own object.
    pub key: String,
    /// Bytes of that object.
    pub bytes: u64,
    /// Hex sha256 of that object.
    pub sha256: String,
    /// Keys of the segments that it needs.
    pub segments: Vec<String>,
}

impl CheckpointRef {
    /// Keys of every object that it needs, its own first.
    pub fn named_keys(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.key.as_str()).chain(self.segments.iter().map(String::as_str))
    }
}

/// What a session is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Head {
    /// See [`FORMAT`].
    pub format: u16,
    /// The tenant, which is the namespace.
    pub tenant: String,
    /// The uid of the session's object.
    pub uid: String,
    /// The name of the session's object.
    pub name: String,
    /// The assignment under which this was written.
    pub epoch: u64,
    /// Commits in the session's life. (epoch, sequence) strictly grows.
    pub sequence: u64,
    /// Unique to the attempt that wrote this: how a writer knows its own work after a lost reply.
    pub put_id: String,
    /// Hex sha256 of the engine that made the memory.
    pub engine_digest: String,
    /// RFC 3339, from the writer's clock. For people; nothing decides by it.
    pub time: String,
    /// Size of linear memory in pages of WebAssembly (64 KiB).
    pub memory_pages: u32,
    /// The engine's globals, which only the engine interprets and validates.
    pub globals: Json,
    /// The kernel pod's own: pending operations, counters, the last eval, the spec to rebuild the object.
    pub state: Json,
    /// Segments, oldest first; a later one's pages lie over an earlier one's.
    pub segments: Vec<SegmentRef>,
    /// The session is deleted: nothing may be restored or committed any more.
    #[serde(default)]
    pub tombstone: bool,
    /// Earlier states that can be restored, oldest first. Empty in a checkpoint's own object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkpoints: Vec<CheckpointRef>,
    /// What happened so far. Empty in a checkpoint's own object.
    #[serde(default)]
    pub journal: Log,
    /// What those see who follow it. Empty in a checkpoint's own object.
    #[serde(default, skip_serializing_if = "Log::is_empty")]
    pub events: Log,
    /// What lies outside the heap.
    #[serde(default, skip_serializing_if = "Blobs::is_empty")]
    pub blobs: Blobs,
    /// The label of the checkpoint that these bytes are; `None` in a head and in an automatic checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Whether its writer encrypted it: bytes that say so and were not encrypted are not believed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sealed: bool,
    /// The pages changed since the last segment, in the form of [`inline`]; empty for none. Travels after the manifest, not in it.
    #[serde(skip)]
    pub inline: Bytes,
}

/// Why bytes are not a head, or a head cannot become bytes.
#[derive(Debug, thiserror::Error)]
pub enum HeadError {
    /// Shorter or longer than its own lengths say.
    #[error("the head has {actual} bytes where {expected} are due")]
    Length {
        /// What its lengths say.
        expected: usize,
        /// What came.
        actual: usize,
    },
    /// It is something else.
    #[error("not a head")]
    Magic,
    /// A newer or older manifest.
    #[error("the head has format {found}; this process knows {FORMAT}")]
    Format {
        /// What it says.
        found: u16,
    },
    /// A part is larger than allowed.
    #[error("the head's {part} has {bytes} bytes; at most {max} are allowed")]
    TooLarge {
        /// Which part.
        part: &'static str,
        /// Its bytes (or count).
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// The checksum differs.
    #[error("the head's checksum does not match its bytes")]
    Checksum,
    /// The manifest is not what it should be.
    #[error("the head's manifest cannot be read or written: {0}")]
    Manifest(#[source] serde_json::Error),
    /// zstd refused.
    #[error("the head's manifest cannot be (de)compressed: {0}")]
    Zstd(#[source] std::io::Error),
    /// It is encrypted, and does not open.
    #[error("{0}")]
    Unopened(String),
    /// It is not encrypted, and should be.
    #[error(
        "the head is not encrypted, and what was stored before it was: it is not believed. Put the encrypted one back, or restore a checkpoint"
    )]
    Unsealed,
    /// The inline pages do not verify.
    #[error("the head's inline pages: {0}")]
    Inline(#[source] SegmentError),
}

impl Head {
    /// A head that holds nothing: the tombstone of a session that has no other.
    pub(crate) fn empty(session: &SessionKey) -> Self {
        Self {
            format: FORMAT,
            tenant: session.tenant.clone(),
            uid: session.uid.clone(),
            name: session.name.clone(),
            epoch: 0,
            sequence: 0,
            put_id: "tombstone-0-0".to_owned(),
            engine_digest: String::new(),
            time: String::new(),
            memory_pages: 0,
            globals: Json::null(),
            state: Json::null(),
            segments: Vec::new(),
            tombstone: true,
            checkpoints: Vec::new(),
            journal: Log::default(),
            events: Log::default(),
            blobs: Blobs::default(),
            label: None,
            sealed: false,
            inline: Bytes::new(),
        }
    }

    /// Where this stands in the session's life; what strictly grows.
    #[must_use]
    pub fn version(&self) -> (u64, u64) {
        (self.epoch, self.sequence)
    }

    /// Whether this is a head of `session`.
    #[must_use]
    pub fn belongs_to(&self, session: &SessionKey) -> bool {
        self.tenant == session.tenant && self.uid == session.uid
    }

    /// Ids of the checkpoints that it lists.
    pub(crate) fn checkpoint_ids(&self) -> Vec<u64> {
        self.checkpoints.iter().map(|it| it.id).collect()
    }

    /// Bytes that a restore reads beyond the head.
    #[must_use]
    pub fn segment_bytes(&self) -> u64 {
        self.segments.iter().map(|s| s.bytes).fold(0, u64::saturating_add)
    }

    /// Bytes of the snapshot: segments and inline pages. The manifest is not counted.
    #[must_use]
    pub fn snapshot_bytes(&self) -> u64 {
        self.segment_bytes().saturating_add(self.inline.len() as u64)
    }

    /// Keys of every object that this head needs beside itself and the pieces of its [`Blobs`]: its segments, its checkpoints with theirs, and its
    /// logs.
    pub fn named_keys(&self) -> impl Iterator<Item = &str> {
        let segments = self.segments.iter().map(|segment| segment.key.as_str());
        let checkpoints = self.checkpoints.iter().flat_map(CheckpointRef::named_keys);
        let logs = self.journal.segments.iter().chain(&self.events.segments);
        segments.chain(checkpoints).chain(logs.map(|segment| segment.key.as_str()))
    }

    /// The bytes to store.
    ///
    /// # Errors
    /// When a part is over its limit.
    pub fn encode(&self) -> Result<Bytes, HeadError> {
        let manifest = serde_json::to_vec(self).map_err(HeadError::Manifest)?;
        let manifest_length = checked_length("manifest", manifest.len(), MANIFEST_BYTES_MAX)?;
        let inline_length = checked_length("inline part", self.inline.len(), INLINE_BYTES_MAX)?;
        checked_length("segment list", self.segments.len(), SEGMENTS_MAX)?;
        let compressed = compression::compress(&manifest, ZSTD_LEVEL).map_err(HeadError::Zstd)?;
        let compressed_length = checked_length("manifest", compressed.len(), MANIFEST_BYTES_MAX)?;
        let mut out = Vec::with_capacity(HEADER_BYTES + compressed.len() + self.inline.len() + CHECKSUM_BYTES);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&compressed_length.to_le_bytes());
        out.extend_from_slice(&manifest_length.to_le_bytes());
        out.extend_from_slice(&inline_length.to_le_bytes());
        out.extend_from_slice(&compressed);
        out.extend_from_slice(&self.inline);
        let checksum = Sha256::digest(&out);
        out.extend_from_slice(&checksum);
        Ok(out.into())
    }

    /// The head that `bytes` are. Every length is checked before use, and the checksum before anything is decompressed or parsed.
    ///
    /// # Errors
    /// When the bytes are not exactly what [`Head::encode`] makes.
    pub fn decode(bytes: &[u8]) -> Result<Self, HeadError> {
        let short = || HeadError::Length { expected: HEADER_BYTES + CHECKSUM_BYTES, actual: bytes.len() };
        let (magic, rest) = bytes.split_first_chunk::<8>().ok_or_else(short)?;
        if *magic != MAGIC {
            return Err(HeadError::Magic);
        }
        let (stored_length, rest) = split_length(rest, "manifest", MANIFEST_BYTES_MAX).ok_or_else(short)??;
        let (manifest_length, rest) = split_length(rest, "manifest", MANIFEST_BYTES_MAX).ok_or_else(short)??;
        let (inline_length, rest) = split_length(rest, "inline part", INLINE_BYTES_MAX).ok_or_else(short)??;
        let (parts, checksum) = rest.split_last_chunk::<CHECKSUM_BYTES>().ok_or_else(short)?;
        let body = HEADER_BYTES + stored_length + inline_length;
        let mismatch = || HeadError::Length { expected: body + CHECKSUM_BYTES, actual: bytes.len() };
        if parts.len() != stored_length + inline_length {
            return Err(mismatch());
        }
        if Sha256::digest(bytes.get(..body).ok_or_else(mismatch)?).as_slice() != checksum {
            return Err(HeadError::Checksum);
        }
        let (stored, inline) = parts.split_at_checked(stored_length).ok_or_else(mismatch)?;
        let manifest = compression::decompress(stored, manifest_length).map_err(HeadError::Zstd)?;
        let mut head: Self = serde_json::from_slice(&manifest).map_err(HeadError::Manifest)?;
        if head.format != FORMAT {
            return Err(HeadError::Format { found: head.format });
        }
        checked_length("segment list", head.segments.len(), SEGMENTS_MAX)?;
        head.inline = Bytes::copy_from_slice(inline);
        Ok(head)
    }

    /// The inline pages, ascending by number.
    ///
    /// # Errors
    /// When they do not verify.
    pub fn inline_pages(&self) -> Result<Vec<(u32, crate::Page)>, HeadError> {
        inline::pages(&self.inline).map(|pages| pages.into_iter().collect()).map_err(HeadError::Inline)
    }
}

/// The length at the front of `rest`, if it is there and allowed, and what follows.
fn split_length<'a>(rest: &'a [u8], part: &'static str, max: usize) -> Option<Result<(usize, &'a [u8]), HeadError>> {
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let length = u32::from_le_bytes(*length) as usize;
    Some(checked_length(part, length, max).map(|_| (length, rest)))
}

fn checked_length(part: &'static str, bytes: usize, max: usize) -> Result<u32, HeadError> {
    let too_large = HeadError::TooLarge { part, bytes, max };
    if bytes > max { Err(too_large) } else { u32::try_from(bytes).map_err(|_| too_large) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::segment;

    fn head(inline: &[(u32, crate::Page)]) -> Head {
        Head {
            format: FORMAT,
            tenant: "team".into(),
            uid: "u-1".into(),
            name: "notebook".into(),
            epoch: 3,
            sequence: 9,
            put_id: "p".into(),
            engine_digest: "e".into(),
            time: "2025-01-01T00:00:00Z".into(),
            memory_pages: 20,
            globals: serde_json::json!([1, 2]).into(),
            state: serde_json::json!({"cells": 4}).into(),
            segments: vec![SegmentRef { key: "k".into(), bytes: 5, sha256: "aa".into(), pages: 1 }],
            tombstone: false,
            checkpoints: Vec::new(),
            journal: Log::default(),
            events: Log::default(),
            blobs: Blobs::default(),
            label: None,
            sealed: false,
            inline: if inline.is_empty() { Bytes::new() } else { segment::encode(inline).unwrap() },
        }
    }

    #[test]
    fn a_head_comes_back_with_its_inline_pages() {
        let pages = vec![(1, Arc::new([7; 4096])), (4, Arc::new([8; 4096]))];
        for head in [head(&pages), head(&[])] {
            let back = Head::decode(&head.encode().unwrap()).unwrap();
            assert_eq!(back, head);
            assert_eq!(back.inline_pages().unwrap().len(), if head.inline.is_empty() { 0 } else { 2 });
        }
    }

    #[test]
    fn another_format_is_named() {
        let mut other = head(&[]);
        other.format = FORMAT + 1;
        let mut bytes = other.encode().unwrap().to_vec();
        assert!(matches!(Head::decode(&bytes), Err(HeadError::Format { found }) if found == FORMAT + 1));
        bytes[7] += 1;
        assert!(matches!(Head::decode(&bytes), Err(HeadError::Magic)), "before anything of it is read");
    }

    #[test]
    fn what_is_too_large_is_neither_written_nor_read() {
        let mut big = head(&[]);
        big.inline = vec![0; INLINE_BYTES_MAX + 1].into();
        assert!(matches!(big.encode(), Err(HeadError::TooLarge { part: "inline part", .. })));
        let mut bytes = head(&[]).encode().unwrap().to_vec();
        bytes[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(matches!(Head::decode(&bytes), Err(HeadError::TooLarge { part: "manifest", .. })));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn a_flipped_bit_is_refused(at in any::<prop::sample::Index>(), bit in 0..8u8) {
            let mut bytes = head(&[(1, Arc::new([7; 4096]))]).encode().unwrap().to_vec();
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            prop_assert!(Head::decode(&bytes).is_err());
        }

        #[test]
        fn a_cut_or_longer_head_is_refused(cut in any::<prop::sample::Index>(), extra in 1..40usize) {
            let bytes = head(&[(1, Arc::new([7; 4096]))]).encode().unwrap();
            prop_assert!(Head::decode(&bytes[..cut.index(bytes.len())]).is_err());
            let mut longer = bytes.to_vec();
            longer.extend(std::iter::repeat_n(0, extra));
            prop_assert!(Head::decode(&longer).is_err());
        }

        #[test]
        fn noise_is_refused(noise in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Head::decode(&noise).is_err());
        }
    }
}
