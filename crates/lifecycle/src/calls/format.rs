//! The bytes of a page.

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::CallPage;
use crate::{SessionKey, compression};

/// Bytes of a page's JSON at most: every call, every answer, and room for escapes.
pub const PAGE_BYTES_MAX: usize = 4 << 20;

const ZSTD_LEVEL: i32 = 1;
const MAGIC: [u8; 8] = *b"DMCALL\0\x01";
const HEADER_BYTES: usize = MAGIC.len() + 4 + 4;
const CHECKSUM_BYTES: usize = 32;

/// Why bytes are not a page, or a page cannot become bytes.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// Shorter or longer than its own lengths say.
    #[error("the page of calls has another length than it says")]
    Length,
    /// It is something else, or a newer format.
    #[error("not a page of calls of a known format")]
    Magic,
    /// The checksum differs.
    #[error("the checksum of the page of calls does not match its bytes")]
    Checksum,
    /// Larger than [`PAGE_BYTES_MAX`].
    #[error("{bytes} bytes in one page of calls; at most {PAGE_BYTES_MAX} are allowed")]
    TooLarge {
        /// How many.
        bytes: usize,
    },
    /// zstd refused.
    #[error("the page of calls cannot be (de)compressed: {0}")]
    Zstd(#[source] std::io::Error),
    /// Not what it should be inside.
    #[error("the page of calls cannot be read or written: {0}")]
    Json(#[from] serde_json::Error),
    /// It is older than what is known to have been stored.
    #[error("the page of calls was rolled back from revision {known} to {found}")]
    RolledBack {
        /// The revision that is known.
        known: u64,
        /// The one that is there.
        found: u64,
    },
    /// It is of another session.
    #[error("the page of calls belongs to session {uid} of {tenant}")]
    Foreign {
        /// Its tenant.
        tenant: String,
        /// Its uid.
        uid: String,
    },
}

impl CallPage {
    /// The bytes to store in place of the page that this one was decoded from. Everything of the journal of calls that is stored passes here.
    ///
    /// # Errors
    /// The page is too large.
    pub fn encode(&mut self) -> Result<Bytes, PageError> {
        self.revision += 1;
        let raw = serde_json::to_vec(self)?;
        let raw_length = length(raw.len())?;
        let compressed = compression::compress(&raw, ZSTD_LEVEL).map_err(PageError::Zstd)?;
        let mut out = Vec::with_capacity(HEADER_BYTES + compressed.len() + CHECKSUM_BYTES);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&length(compressed.len())?.to_le_bytes());
        out.extend_from_slice(&raw_length.to_le_bytes());
        out.extend_from_slice(&compressed);
        let checksum = Sha256::digest(&out);
        out.extend_from_slice(&checksum);
        Ok(out.into())
    }

    /// Reads what is stored as the page of `session`. Everything of the journal of calls that comes back passes here.
    ///
    /// # Errors
    /// Why the bytes are not believed.
    pub fn decode(bytes: &[u8], session: &SessionKey) -> Result<Self, PageError> {
        let (body, checksum) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or(PageError::Length)?;
        let (header, compressed) = body.split_first_chunk::<HEADER_BYTES>().ok_or(PageError::Length)?;
        if !header.starts_with(&MAGIC) {
            return Err(PageError::Magic);
        }
        let number = |at: usize| {
            let bytes = header.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).ok_or(PageError::Length)?;
            usize::try_from(u32::from_le_bytes(bytes)).map_err(|_| PageError::Length)
        };
        if compressed.len() != number(MAGIC.len())? {
            return Err(PageError::Length);
        }
        if Sha256::digest(body).as_slice() != checksum {
            return Err(PageError::Checksum);
        }
        let raw_length = number(MAGIC.len() + 4)?;
        length(raw_length)?;
        let raw = compression::decompress(compressed, raw_length).map_err(PageError::Zstd)?;
        let page: Self = serde_json::from_slice(&raw)?;
        if page.tenant != session.tenant || page.uid != session.uid {
            return Err(PageError::Foreign { tenant: page.tenant, uid: page.uid });
        }
        Ok(page)
    }
}

fn length(bytes: usize) -> Result<u32, PageError> {
    let fits = u32::try_from(bytes).ok().filter(|_| bytes <= PAGE_BYTES_MAX);
    fits.ok_or(PageError::TooLarge { bytes })
}
