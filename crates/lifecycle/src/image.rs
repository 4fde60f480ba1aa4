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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{PAGE_BYTES, SegmentRef, SessionKey};

    fn pages(numbers: &[u32], fill: u8) -> bytes::Bytes {
        let pages: Vec<(u32, Page)> = numbers.iter().map(|n| (*n, Arc::new([fill; PAGE_BYTES]))).collect();
        segment::encode(&pages).unwrap()
    }

    fn head(segments: &[bytes::Bytes], inline: bytes::Bytes) -> Head {
        let session =
            SessionKey { store_prefix: String::new(), tenant: "team".into(), pool: "default".into(), uid: "u".into(), name: "n".into() };
        let named =
            |bytes: &bytes::Bytes| SegmentRef { key: "k".into(), bytes: bytes.len() as u64, sha256: segment::sha256_hex(bytes), pages: 1 };
        Head { tombstone: false, memory_pages: 1, segments: segments.iter().map(named).collect(), inline, ..Head::empty(&session) }
    }

    #[test]
    fn later_pages_lie_over_earlier_ones() {
        let segments = [pages(&[1, 2, 3], 1), pages(&[2, 3], 2)];
        let image = assemble(&head(&segments, pages(&[3], 3)), &segments).unwrap();
        assert_eq!(image.iter().map(|(n, page)| (*n, page[0])).collect::<Vec<_>>(), [(1, 1), (2, 2), (3, 3)]);
    }

    #[test]
    fn what_the_head_does_not_name_is_refused() {
        let (one, other) = (pages(&[1], 1), pages(&[1], 2));
        let named = head(std::slice::from_ref(&one), bytes::Bytes::new());
        assert!(matches!(assemble(&named, &[other]), Err(ImageError::Mismatch { .. })));
        assert!(matches!(assemble::<bytes::Bytes>(&named, &[]), Err(ImageError::Segments { expected: 1, actual: 0 })));
    }

    #[test]
    fn a_page_outside_the_memory_is_refused() {
        assert!(assemble::<bytes::Bytes>(&head(&[], pages(&[15], 1)), &[]).is_ok());
        assert!(matches!(assemble::<bytes::Bytes>(&head(&[], pages(&[16], 1)), &[]), Err(ImageError::OutOfMemory { page: 16, .. })));
    }
}
