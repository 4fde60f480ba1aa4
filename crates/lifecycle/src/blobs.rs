//! What a session keeps outside its heap: named contents in pieces, each piece an object of its own.
//!
//! A piece is `magic (8) ‖ id (16 hex digits) ‖ number (u32 LE) ‖ content bytes (u32 LE) ‖ zstd(content) ‖ sha256 of all before (32)`. It tells
//! which piece of what it is, and nothing of the session: a fork copies it as it is. The head names contents by their [`Extent`]s, so that a
//! content of any size costs the head some tens of bytes, and a session without any costs it none.
//!
//! A piece is put before the head that is to name it first, under a key with that head's version, as a segment is. What the present state does
//! not hold any more stays as long as a checkpoint may need it: [`Kept`] says for how long it was there.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{SessionKey, compression};

/// Bytes of content in one piece: what a read of any part of it costs.
pub const PIECE_BYTES: usize = 1 << 20;

/// Bytes of one content at most.
pub const BLOB_BYTES_MAX: u64 = 1 << 30;

/// Bytes of all contents of a session at most. What only checkpoints hold is not counted.
pub const TOTAL_BYTES_MAX: u64 = 4 << 30;

/// Contents of a session at most: each rides in every head.
pub const BLOBS_MAX: usize = 4096;

/// Extents at most that a head keeps for checkpoints: about 4 MiB of its manifest. Of more, the oldest automatic checkpoints go.
pub const KEPT_MAX: usize = 1 << 15;

/// Bytes of a name.
pub const NAME_BYTES_MAX: usize = 1024;

/// Hex digits of an [`Extent::id`].
pub const ID_DIGITS: usize = 16;

/// Hex digits of a piece's number in its key.
const NUMBER_DIGITS: usize = 8;

/// Level of zstd.
const ZSTD_LEVEL: i32 = 1;

const MAGIC: [u8; 8] = *b"DMPIECE\x01";
const HEADER_BYTES: usize = MAGIC.len() + ID_DIGITS + 4 + 4;
const CHECKSUM_BYTES: usize = 32;

/// The contents of a session, by name.
pub type Table = BTreeMap<String, Blob>;

/// What the head says of them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Blobs {
    /// Those that the session has.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub table: Table,
    /// What it had and a checkpoint may need.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<Kept>,
}

/// One content.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Blob {
    /// Its parts, in order.
    pub extents: Vec<Extent>,
    /// Whether it was given as text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub text: bool,
}

/// Consecutive bytes of a content that were written together: pieces of [`PIECE_BYTES`], and a shorter one at the end.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", try_from = "StoredExtent")]
pub struct Extent {
    /// (epoch, sequence) of the commit that named it first.
    pub version: (u64, u64),
    /// [`ID_DIGITS`] hex digits, unique in the session.
    pub id: String,
    /// Its bytes. The last piece may hold more than are in use.
    pub bytes: u64,
    /// Whether its pieces were encrypted: one that is not is not believed then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sealed: bool,
}

/// An extent as it was read: its id becomes part of keys, and its bytes a number of pieces, so neither is believed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredExtent {
    version: (u64, u64),
    id: String,
    bytes: u64,
    #[serde(default)]
    sealed: bool,
}

impl TryFrom<StoredExtent> for Extent {
    type Error = &'static str;

    fn try_from(StoredExtent { version, id, bytes, sealed }: StoredExtent) -> Result<Self, Self::Error> {
        if id.len() != ID_DIGITS || !id.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err("the id of an extent is none");
        }
        if bytes > BLOB_BYTES_MAX {
            return Err("an extent is larger than a content may be");
        }
        Ok(Self { version, id, bytes, sealed })
    }
}

/// An extent that was in the table of every commit between the one of its version and `last`, and perhaps not of all of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Kept {
    /// It.
    pub extent: Extent,
    /// Sequence of the last commit that named it.
    pub last: u64,
}

/// Why a content is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Not a name.
    #[error("a name has 1 to {NAME_BYTES_MAX} bytes, not {bytes}")]
    Name {
        /// Its bytes.
        bytes: usize,
    },
    /// Larger than one may be.
    #[error("it would have {bytes} bytes; at most {BLOB_BYTES_MAX} are allowed")]
    TooLarge {
        /// Its bytes.
        bytes: u64,
    },
    /// Together with the others too large.
    #[error("the session would keep {bytes} bytes outside its heap; at most {TOTAL_BYTES_MAX} are allowed: delete what is not needed")]
    TooMuch {
        /// Bytes of all.
        bytes: u64,
    },
    /// Too many.
    #[error("the session keeps {BLOBS_MAX} contents outside its heap, which is the most: delete what is not needed")]
    TooMany,
}

/// Why bytes are not a piece.
#[derive(Debug, thiserror::Error)]
pub enum PieceError {
    /// Shorter or longer than its own lengths say.
    #[error("the piece has {bytes} bytes, which is not what it says")]
    Length {
        /// Its bytes.
        bytes: usize,
    },
    /// It is something else, or a newer format.
    #[error("not a piece of a known format")]
    Magic,
    /// The checksum differs.
    #[error("the piece's checksum does not match its bytes")]
    Checksum,
    /// It is another piece.
    #[error("it is another piece than the one that was asked for")]
    Other,
    /// zstd refused.
    #[error("the piece cannot be (de)compressed: {0}")]
    Zstd(#[source] std::io::Error),
}

impl Blob {
    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.extents.iter().map(|extent| extent.bytes).fold(0, u64::saturating_add)
    }
}

impl Extent {
    /// How many pieces it has.
    #[must_use]
    pub fn pieces(&self) -> u32 {
        u32::try_from(self.bytes.div_ceil(PIECE_BYTES as u64)).unwrap_or(u32::MAX)
    }

    /// Keys of its pieces.
    pub fn keys<'a>(&'a self, session: &'a SessionKey) -> impl Iterator<Item = String> + 'a {
        (0..self.pieces()).map(|number| self.key(session, number))
    }

    /// Key of one piece.
    #[must_use]
    pub fn key(&self, session: &SessionKey, number: u32) -> String {
        session.piece(self.version.0, self.version.1, &format!("{}{number:0NUMBER_DIGITS$x}", self.id))
    }
}

/// The id and number of the piece at `key`, beside its version.
#[must_use]
pub fn parse_piece(key: &str) -> Option<((u64, u64), &str, u32)> {
    let (crate::keys::Kind::Piece, version) = crate::keys::parse_object(key)? else { return None };
    let (id, number) = key.rsplit('-').next()?.split_at_checked(ID_DIGITS)?;
    (number.len() == NUMBER_DIGITS).then_some((version, id, u32::from_str_radix(number, 16).ok()?))
}

/// Whether `name` may have `bytes` beside the other contents of `table`.
///
/// # Errors
/// When a limit says no.
pub fn admit(table: &Table, name: &str, bytes: u64) -> Result<(), Refused> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(Refused::Name { bytes: name.len() });
    }
    if bytes > BLOB_BYTES_MAX {
        return Err(Refused::TooLarge { bytes });
    }
    if !table.contains_key(name) && table.len() >= BLOBS_MAX {
        return Err(Refused::TooMany);
    }
    let others = table.iter().filter(|(other, _)| *other != name).map(|(_, blob)| blob.bytes());
    let all = others.fold(bytes, u64::saturating_add);
    if all > TOTAL_BYTES_MAX { Err(Refused::TooMuch { bytes: all }) } else { Ok(()) }
}

impl Blobs {
    /// Whether there is nothing to say.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty() && self.kept.is_empty()
    }

    /// Every extent that must stay in the store.
    pub fn extents(&self) -> impl Iterator<Item = &Extent> {
        self.table.values().flat_map(|blob| &blob.extents).chain(self.kept.iter().map(|kept| &kept.extent))
    }

    /// Bytes of the contents that the session has.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.table.values().map(Blob::bytes).fold(0, u64::saturating_add)
    }

    /// What the commit after `self`, of sequence `last`, says when the session has `table` then and checkpoints of these ids.
    #[must_use]
    pub(crate) fn next(&self, last: u64, table: Table, checkpoints: &[u64]) -> Self {
        if self.is_empty() && table.is_empty() {
            return Self::default();
        }
        let present: std::collections::HashSet<(&(u64, u64), &str)> =
            table.values().flat_map(|blob| &blob.extents).map(|extent| (&extent.version, extent.id.as_str())).collect();
        let left = self.table.values().flat_map(|blob| &blob.extents).map(|extent| Kept { extent: extent.clone(), last });
        let all = self.kept.iter().cloned().chain(left).filter(|it| !present.contains(&(&it.extent.version, it.extent.id.as_str())));
        Self { kept: needed(all, checkpoints), table }
    }

    /// What would be kept if the present contents belonged to the past, and `checkpoints` were the ids of all that is listed besides.
    #[must_use]
    pub(crate) fn kept_for(&self, checkpoints: &[u64]) -> usize {
        let present = self.table.values().map(|blob| blob.extents.len()).sum::<usize>();
        needed(self.kept.iter().cloned(), checkpoints).len().saturating_add(present)
    }

    /// For a head that stands in for a lost one: what checkpoint `id`, whose table this is, needs. `checkpoints` are the ids of all.
    pub(crate) fn keep_for(&mut self, table: &Table, id: u64, checkpoints: &[u64]) {
        let found = table.values().flat_map(|blob| &blob.extents).map(|extent| Kept { extent: extent.clone(), last: id });
        self.kept = needed(std::mem::take(&mut self.kept).into_iter().chain(found), checkpoints);
    }
}

/// Those of `all` that a checkpoint of one of these ids may need, each once.
fn needed(all: impl Iterator<Item = Kept>, checkpoints: &[u64]) -> Vec<Kept> {
    let mut longest: BTreeMap<((u64, u64), String), Kept> = BTreeMap::new();
    for kept in all {
        let span = kept.extent.version.1..=kept.last;
        if !checkpoints.iter().any(|id| span.contains(id)) {
            continue;
        }
        let entry = longest.entry((kept.extent.version, kept.extent.id.clone())).or_insert_with(|| kept.clone());
        entry.last = entry.last.max(kept.last);
        entry.extent.bytes = entry.extent.bytes.max(kept.extent.bytes);
    }
    longest.into_values().collect()
}

/// The bytes of a piece; `content` has at most [`PIECE_BYTES`].
///
/// # Errors
/// When it is larger, or zstd refuses.
pub fn encode(id: &str, number: u32, content: &[u8]) -> Result<Bytes, PieceError> {
    let length = || PieceError::Length { bytes: content.len() };
    if content.len() > PIECE_BYTES || id.len() != ID_DIGITS {
        return Err(length());
    }
    let compressed = compression::compress(content, ZSTD_LEVEL).map_err(PieceError::Zstd)?;
    let mut out = Vec::with_capacity(HEADER_BYTES + compressed.len() + CHECKSUM_BYTES);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(&u32::try_from(content.len()).map_err(|_| length())?.to_le_bytes());
    out.extend_from_slice(&compressed);
    let checksum = Sha256::digest(&out);
    out.extend_from_slice(&checksum);
    Ok(out.into())
}

/// The content of piece `number` of `id`. Lengths are checked before they are used, and the checksum before anything is decompressed.
///
/// # Errors
/// When the bytes are not exactly what [`encode`] made of that piece.
pub fn decode(id: &str, number: u32, bytes: &[u8]) -> Result<Bytes, PieceError> {
    let length = || PieceError::Length { bytes: bytes.len() };
    let (body, checksum) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or_else(length)?;
    let (magic, rest) = body.split_first_chunk::<8>().ok_or_else(length)?;
    if *magic != MAGIC {
        return Err(PieceError::Magic);
    }
    let (found_id, rest) = rest.split_first_chunk::<ID_DIGITS>().ok_or_else(length)?;
    let (found_number, rest) = rest.split_first_chunk::<4>().ok_or_else(length)?;
    let (content_bytes, compressed) = rest.split_first_chunk::<4>().ok_or_else(length)?;
    let content_bytes = u32::from_le_bytes(*content_bytes) as usize;
    if content_bytes > PIECE_BYTES {
        return Err(length());
    }
    if Sha256::digest(body).as_slice() != checksum {
        return Err(PieceError::Checksum);
    }
    if found_id.as_slice() != id.as_bytes() || u32::from_le_bytes(*found_number) != number {
        return Err(PieceError::Other);
    }
    let content = compression::decompress(compressed, content_bytes).map_err(PieceError::Zstd)?;
    if content.len() == content_bytes { Ok(content.into()) } else { Err(length()) }
}

/// Keys of the pieces of `extents` that none of `tables` uses. An extent that was cut short goes on under its id with fewer pieces.
#[must_use]
pub fn unused<'a>(session: &SessionKey, extents: &[Extent], tables: impl IntoIterator<Item = &'a Table>) -> Vec<String> {
    let mut in_use: BTreeMap<((u64, u64), &str), u32> = BTreeMap::new();
    for extent in tables.into_iter().flat_map(|table| table.values()).flat_map(|blob| &blob.extents) {
        let pieces = in_use.entry((extent.version, extent.id.as_str())).or_default();
        *pieces = extent.pieces().max(*pieces);
    }
    let from = |extent: &Extent| in_use.get(&(extent.version, extent.id.as_str())).copied().unwrap_or(0);
    extents.iter().flat_map(|extent| (from(extent)..extent.pieces()).map(|number| extent.key(session, number))).collect()
}

#[cfg(test)]
#[path = "blobs_tests.rs"]
mod tests;
