//! What is told of a session, append-only: its journal, and its events. Both grow and roll over in the same way.
//!
//! The newest entries ride in the head, so that writing one costs no PUT of its own. When they are many they roll over into an object that is
//! never written again; the head names those objects, oldest first. Entries are numbered from 1, without gaps. What an entry says is its
//! writer's business. The form of an object:
//!
//! `magic (8) ‖ compressed bytes (u32 LE) ‖ raw bytes (u32 LE) ‖ zstd(JSON {first, entries}) ‖ sha256 of all before (32)`.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{Json, SessionKey, compression, keys::WhichLog, segment::sha256_hex};

/// Bytes of JSON that may ride in the head before they roll over.
pub const TAIL_BYTES_MAX: usize = 16 << 10;

/// Objects of a log that a head names; the oldest go first. So a session keeps at least the last `TAIL_BYTES_MAX * SEGMENTS_MAX` bytes of each log,
/// unless they take more than [`BYTES_MAX`].
pub const SEGMENTS_MAX: usize = 64;

/// Bytes of all objects of a log, compressed; of more, the oldest go first. The newest object stays, whatever its size.
pub const BYTES_MAX: u64 = 16 << 20;

/// Bytes of JSON in one object: what a single commit can bring.
pub const SEGMENT_BYTES_MAX: usize = 64 << 20;

const ZSTD_LEVEL: i32 = 3;
const MAGIC: [u8; 8] = *b"DMJRNL\0\x01";
const HEADER_BYTES: usize = MAGIC.len() + 4 + 4;
const CHECKSUM_BYTES: usize = 32;

/// An object of a log, as the head names it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogRef {
    /// Its key.
    pub key: String,
    /// Its bytes.
    pub bytes: u64,
    /// Hex sha256 of its bytes.
    pub sha256: String,
    /// Number of its first entry.
    pub first: u64,
}

/// A log of a session, as the head carries it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Log {
    /// Objects, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub segments: Vec<LogRef>,
    /// Number of the last entry; 0 for none.
    pub last: u64,
    /// The newest entries, up to `last`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tail: Vec<Json>,
}

/// Why an object of a log cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Shorter or longer than its own lengths say.
    #[error("the log's object has another length than it says")]
    Length,
    /// It is something else, or a newer format.
    #[error("not a journal's object of a known format")]
    Magic,
    /// The checksum differs.
    #[error("the checksum of the log's object does not match its bytes")]
    Checksum,
    /// Larger than [`SEGMENT_BYTES_MAX`].
    #[error("{bytes} bytes in one object of a log; at most {SEGMENT_BYTES_MAX} are allowed")]
    TooLarge {
        /// How many.
        bytes: usize,
    },
    /// zstd refused.
    #[error("the log's object cannot be (de)compressed: {0}")]
    Zstd(#[source] std::io::Error),
    /// Not what it should be inside.
    #[error("the log's object cannot be read or written: {0}")]
    Json(#[from] serde_json::Error),
    /// Its bytes are not those that the head names.
    #[error("{key} is not what the head names")]
    Mismatch {
        /// Its key.
        key: String,
    },
}

#[derive(Serialize)]
struct Body<'a> {
    first: u64,
    entries: &'a [Json],
}

/// Entries that follow each other.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub struct Entries {
    /// Number of the first.
    pub first: u64,
    /// The entries.
    pub entries: Vec<Json>,
}

impl Log {
    /// Whether nothing was ever told.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.last == 0
    }

    /// Number of the first entry that is kept; one behind the last if none is.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.segments.first().map_or_else(|| self.tail_first(), |segment| segment.first)
    }

    /// Number of the first entry that rides in the head.
    #[must_use]
    pub fn tail_first(&self) -> u64 {
        self.last.saturating_sub(self.tail.len() as u64).saturating_add(1)
    }

    /// The log with `entries` at its end, as the commit of `version` writes it; and the object to put first, if they rolled over.
    ///
    /// # Errors
    /// When the entries cannot become bytes.
    pub(crate) fn append(
        &self,
        which: WhichLog,
        session: &SessionKey,
        version: (u64, u64),
        entries: Vec<Json>,
    ) -> Result<(Self, Option<(String, Bytes)>), LogError> {
        let mut next = self.clone();
        next.last = next.last.saturating_add(entries.len() as u64);
        next.tail.extend(entries);
        // The brackets, and a comma behind every entry but the last.
        let bytes = next.tail.iter().map(|entry| entry.text().len() + 1).sum::<usize>() + 1;
        if bytes <= TAIL_BYTES_MAX {
            return Ok((next, None));
        }
        let first = next.tail_first();
        let bytes = encode(first, &std::mem::take(&mut next.tail))?;
        let sha256 = sha256_hex(&bytes);
        let key = session.log(which, version.0, version.1, &sha256);
        next.segments.push(LogRef { key: key.clone(), bytes: bytes.len() as u64, sha256, first });
        let total = |segments: &[LogRef]| segments.iter().map(|segment| segment.bytes).fold(0, u64::saturating_add);
        while next.segments.len() > SEGMENTS_MAX || next.segments.len() > 1 && total(&next.segments) > BYTES_MAX {
            next.segments.remove(0);
        }
        Ok((next, Some((key, bytes))))
    }
}

impl LogRef {
    /// The entries that `bytes`, read at its key, hold.
    ///
    /// # Errors
    /// When they do not verify.
    pub fn open(&self, bytes: &[u8]) -> Result<Entries, LogError> {
        if bytes.len() as u64 != self.bytes || sha256_hex(bytes) != self.sha256 {
            return Err(LogError::Mismatch { key: self.key.clone() });
        }
        decode(bytes)
    }
}

fn encode(first: u64, entries: &[Json]) -> Result<Bytes, LogError> {
    let raw = serde_json::to_vec(&Body { first, entries })?;
    if raw.len() > SEGMENT_BYTES_MAX {
        return Err(LogError::TooLarge { bytes: raw.len() });
    }
    let compressed = compression::compress(&raw, ZSTD_LEVEL).map_err(LogError::Zstd)?;
    let length = |bytes: usize| u32::try_from(bytes).map_err(|_| LogError::TooLarge { bytes });
    let mut out = Vec::with_capacity(HEADER_BYTES + compressed.len() + CHECKSUM_BYTES);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&length(compressed.len())?.to_le_bytes());
    out.extend_from_slice(&length(raw.len())?.to_le_bytes());
    out.extend_from_slice(&compressed);
    let checksum = Sha256::digest(&out);
    out.extend_from_slice(&checksum);
    Ok(out.into())
}

/// The entries of an object. Every length is checked before it is used, and the checksum before anything is decompressed.
///
/// # Errors
/// When the bytes are not exactly what a commit wrote.
pub fn decode(bytes: &[u8]) -> Result<Entries, LogError> {
    let (magic, rest) = bytes.split_first_chunk::<8>().ok_or(LogError::Length)?;
    if *magic != MAGIC {
        return Err(LogError::Magic);
    }
    let (compressed_bytes, rest) = rest.split_first_chunk::<4>().ok_or(LogError::Length)?;
    let (raw_bytes, rest) = rest.split_first_chunk::<4>().ok_or(LogError::Length)?;
    let (compressed, checksum) = rest.split_last_chunk::<CHECKSUM_BYTES>().ok_or(LogError::Length)?;
    let raw_bytes = u32::from_le_bytes(*raw_bytes) as usize;
    if compressed.len() != u32::from_le_bytes(*compressed_bytes) as usize {
        return Err(LogError::Length);
    }
    if raw_bytes > SEGMENT_BYTES_MAX {
        return Err(LogError::TooLarge { bytes: raw_bytes });
    }
    let body = bytes.get(..HEADER_BYTES + compressed.len()).ok_or(LogError::Length)?;
    if Sha256::digest(body).as_slice() != checksum {
        return Err(LogError::Checksum);
    }
    let raw = compression::decompress(compressed, raw_bytes).map_err(LogError::Zstd)?;
    Ok(serde_json::from_slice(&raw)?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn session() -> SessionKey {
        SessionKey { store_prefix: String::new(), tenant: "team".into(), pool: "default".into(), uid: "u".into(), name: "n".into() }
    }

    #[test]
    fn entries_ride_in_the_head_and_roll_over_at_the_limit() {
        let entry = Json::from(json!("x".repeat(1000)));
        let (mut journal, mut objects) = (Log::default(), Vec::new());
        for sequence in 1..=100 {
            let (next, put) = journal.append(WhichLog::Journal, &session(), (1, sequence), vec![entry.clone()]).unwrap();
            objects.extend(put);
            journal = next;
            assert!(serde_json::to_vec(&journal.tail).unwrap().len() <= TAIL_BYTES_MAX);
        }
        assert_eq!(journal.last, 100);
        assert_eq!(objects.len(), journal.segments.len());
        assert!((5..=8).contains(&objects.len()), "{}", objects.len());
        let mut next = 1;
        for (reference, (key, bytes)) in journal.segments.iter().zip(&objects) {
            assert_eq!(&reference.key, key);
            let Entries { first, entries } = reference.open(bytes).unwrap();
            assert_eq!((first, reference.first), (next, next));
            next += entries.len() as u64;
        }
        assert_eq!(journal.tail_first(), next, "no gap between the objects and the head");
        assert!(matches!(journal.segments[0].open(&objects[1].1), Err(LogError::Mismatch { .. })));
    }

    #[test]
    fn the_oldest_objects_go_first() {
        let big = Json::from(json!("y".repeat(TAIL_BYTES_MAX)));
        let mut journal = Log::default();
        for sequence in 1..=SEGMENTS_MAX as u64 + 3 {
            journal = journal.append(WhichLog::Journal, &session(), (1, sequence), vec![big.clone()]).unwrap().0;
        }
        assert_eq!((journal.segments.len(), journal.segments[0].first), (SEGMENTS_MAX, 4));
    }

    #[test]
    fn the_oldest_objects_go_when_they_are_large_and_the_newest_stays() {
        // What zstd makes nothing smaller of.
        let noise = |n: u64| {
            let mut hash = Sha256::digest(n.to_le_bytes());
            let mut text = String::new();
            while text.len() < 12 << 20 {
                hash = Sha256::digest(hash);
                text.extend(hash.iter().map(|byte| format!("{byte:02x}")));
            }
            Json::from(json!(text))
        };
        let mut log = Log::default();
        for sequence in 1..=4 {
            log = log.append(WhichLog::Events, &session(), (1, sequence), vec![noise(sequence)]).unwrap().0;
        }
        assert!(log.segments.iter().map(|segment| segment.bytes).sum::<u64>() <= BYTES_MAX, "{:?}", log.segments);
        assert_eq!((log.last, log.tail_first()), (4, 5));
        assert!(log.first() > 1 && log.first() <= 4, "{}", log.first());
    }

    #[test]
    fn a_size_beyond_the_limit_is_refused_before_allocating() {
        let mut bytes = encode(1, &[json!(1).into()]).unwrap().to_vec();
        bytes[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(matches!(decode(&bytes), Err(LogError::TooLarge { .. })));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_flipped_bit_a_cut_and_noise_are_refused(at in any::<prop::sample::Index>(), bit in 0..8u8, noise in proptest::collection::vec(any::<u8>(), 0..200)) {
            let bytes = encode(7, &[json!({"cell": 1}).into(), Json::null()]).unwrap();
            prop_assert_eq!(decode(&bytes).unwrap(), Entries { first: 7, entries: vec![json!({"cell": 1}).into(), Json::null()] });
            let mut flipped = bytes.to_vec();
            flipped[at.index(bytes.len())] ^= 1 << bit;
            prop_assert!(decode(&flipped).is_err());
            prop_assert!(decode(&bytes[..at.index(bytes.len())]).is_err());
            prop_assert!(decode(&noise).is_err());
        }
    }
}
