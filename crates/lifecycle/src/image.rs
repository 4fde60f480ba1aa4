//! The pages of a session out of its head and segments.

use std::collections::BTreeMap;

use crate::{
    Head, PAGES_PER_MEMORY_PAGE, Page,
    head::HeadError,
    segment::{self, SegmentError},
};

/// Why stored bytes do not make a session.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// Another number of segments than the head names.
    #[error("the head names {expected} segments, {actual} were given")]
    Segments {
        /// What the head names.
        expected: usize,
        /// What came.
        actual: usize,
    },
    /// A segment's bytes are not those that the head names.
    #[error("segment {key} is not what the head names")]
    Mismatch {
        /// The segment's key.
        key: String,
    },
    /// A segment does not decode.
    #[error("segment {key}: {source}")]
    Segment {
        /// The segment's key.
        key: String,
        /// Why.
        source: SegmentError,
    },
    /// The inline part does not decode.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// A page lies outside the memory.
    #[error("page {page} lies outside a memory of {memory_pages} pages of 64 KiB")]
    OutOfMemory {
        /// Its number.
        page: u32,
        /// The memory's size.
        memory_pages: u32,
    },
}

/// The pages of `head` over `segments`, which are the bytes of `head.segments` in that order.
///
/// # Errors
/// When anything does not verify. A tenant can write its own prefix, so a page outside the memory is refused here and not left to the engine.
pub fn assemble<B: AsRef<[u8]>>(head: &Head, segments: &[B]) -> Result<BTreeMap<u32, Page>, ImageError> {
    if head.segments.len() != segments.len() {
        return Err(ImageError::Segments { expected: head.segments.len(), actual: segments.len() });
    }
    let mut pages = BTreeMap::new();
    for (named, bytes) in head.segments.iter().zip(segments) {
        let bytes = bytes.as_ref();
        if bytes.len() as u64 != named.bytes || segment::sha256_hex(bytes) != named.sha256 {
            return Err(ImageError::Mismatch { key: named.key.clone() });
        }
        let decoded = segment::decode(bytes).map_err(|source| ImageError::Segment { key: named.key.clone(), source })?;
        pages.extend(decoded);
    }
    pages.extend(head.inline_pages()?);
    match pages.last_key_value() {
        Some((&page, _)) if u64::from(page) >= u64::from(head.memory_pages) * u64::from(PAGES_PER_MEMORY_PAGE) => {
            Err(ImageError::OutOfMemory { page, memory_pages: head.memory_pages })
        }
        _ => Ok(pages),
    }
}
