//! The bytes of a set of pages.
//!
//! `magic (8) ‖ pages (u32 LE) ‖ compressed bytes (u32 LE) ‖ zstd(page numbers (u32 LE each) ‖ distances (u8 each) ‖ masks (u64 LE each) ‖ lines) ‖
//! sha256 of all before (32)`. The last byte of the magic is the format. Page numbers ascend strictly, so equal sets have equal bytes. What repeats in a page at
//! its distance is taken out of it ([`crate::stride`]); of what is left, the lines that are not all zeros are there, as the page's mask says ([`crate::lines`]). A
//! segment object and a layer of a head's inline part have this same form.

use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::{PAGE_BYTES, Page, compression, lines, stride};

/// The most pages in one segment: 1 GiB of memory.
pub const SEGMENT_PAGES_MAX: usize = 262_144;

/// Level of zstd: what memory gains from higher levels is less than what they cost on the path of every commit.
const ZSTD_LEVEL: i32 = 1;

const MAGIC: [u8; 8] = *b"DMSEG\0\0\x02";
const HEADER_BYTES: usize = MAGIC.len() + 4 + 4;
const CHECKSUM_BYTES: usize = 32;
const NUMBER_BYTES: usize = 4;
const DISTANCE_BYTES: usize = 1;
const MASK_BYTES: usize = 8;

/// Why bytes are not a segment, or pages cannot become one.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// Shorter or longer than its own lengths say.
    #[error("the segment has {actual} bytes where {expected} are due")]
    Length {
        /// What its lengths say.
        expected: usize,
        /// What came.
        actual: usize,
    },
    /// It is something else, or another format.
    #[error("not a segment of a known format")]
    Magic,
    /// The checksum differs.
    #[error("the segment's checksum does not match its bytes")]
    Checksum,
    /// More than [`SEGMENT_PAGES_MAX`].
    #[error("{pages} pages in one segment; at most {SEGMENT_PAGES_MAX} are allowed")]
    TooManyPages {
        /// How many.
        pages: usize,
    },
    /// zstd refused.
    #[error("the segment's pages cannot be (de)compressed: {0}")]
    Zstd(#[source] std::io::Error),
    /// More in one head than [`crate::inline::LAYERS_MAX`].
    #[error("the head has too many layers of pages")]
    TooManyLayers,
    /// Page numbers do not ascend strictly.
    #[error("the segment's page numbers are out of order")]
    Order,
}

/// Hex sha256, as it stands in a [`crate::SegmentRef`] and in keys.
#[must_use]
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// The bytes of `pages`, which ascend strictly by number.
///
/// # Errors
/// When the pages are out of order or too many.
pub fn encode(pages: &[(u32, Page)]) -> Result<Bytes, SegmentError> {
    if pages.len() > SEGMENT_PAGES_MAX {
        return Err(SegmentError::TooManyPages { pages: pages.len() });
    }
    if !ascending(pages.iter().map(|(number, _)| *number)) {
        return Err(SegmentError::Order);
    }
    let (mut distances, mut masks, mut contents) = (Vec::with_capacity(pages.len()), Vec::with_capacity(pages.len()), Vec::new());
    for (_, page) in pages {
        let (taken, distance) = stride::take_out(page);
        distances.push(distance);
        masks.push(lines::push(&taken, &mut contents));
    }
    let mut raw = Vec::with_capacity(pages.len() * (NUMBER_BYTES + DISTANCE_BYTES + MASK_BYTES) + contents.len());
    raw.extend(pages.iter().flat_map(|(number, _)| number.to_le_bytes()));
    raw.extend_from_slice(&distances);
    raw.extend(masks.iter().flat_map(|mask| mask.to_le_bytes()));
    raw.extend_from_slice(&contents);
    let compressed = compression::compress(&raw, ZSTD_LEVEL).map_err(SegmentError::Zstd)?;
    let length = u32::try_from(compressed.len()).map_err(|_| SegmentError::TooManyPages { pages: pages.len() })?;
    let count = u32::try_from(pages.len()).map_err(|_| SegmentError::TooManyPages { pages: pages.len() })?;
    let mut out = Vec::with_capacity(HEADER_BYTES + compressed.len() + CHECKSUM_BYTES);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&count.to_le_bytes());
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&compressed);
    let checksum = Sha256::digest(&out);
    out.extend_from_slice(&checksum);
    Ok(out.into())
}

/// The pages of a segment, ascending by number. Every length is checked before it is used, and the checksum before anything is decompressed.
///
/// # Errors
/// When the bytes are not exactly what [`encode`] makes.
pub fn decode(bytes: &[u8]) -> Result<Vec<(u32, Page)>, SegmentError> {
    let short = || SegmentError::Length { expected: HEADER_BYTES + CHECKSUM_BYTES, actual: bytes.len() };
    let (magic, rest) = bytes.split_first_chunk::<8>().ok_or_else(short)?;
    if *magic != MAGIC {
        return Err(SegmentError::Magic);
    }
    let (count, rest) = rest.split_first_chunk::<4>().ok_or_else(short)?;
    let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(short)?;
    let (compressed, checksum) = rest.split_last_chunk::<CHECKSUM_BYTES>().ok_or_else(short)?;
    let count = u32::from_le_bytes(*count) as usize;
    let length = u32::from_le_bytes(*length) as usize;
    if compressed.len() != length {
        return Err(SegmentError::Length { expected: HEADER_BYTES + length + CHECKSUM_BYTES, actual: bytes.len() });
    }
    if count > SEGMENT_PAGES_MAX {
        return Err(SegmentError::TooManyPages { pages: count });
    }
    let body = bytes.get(..HEADER_BYTES + length).ok_or_else(short)?;
    if Sha256::digest(body).as_slice() != checksum {
        return Err(SegmentError::Checksum);
    }
    let bytes_max = count * (NUMBER_BYTES + DISTANCE_BYTES + MASK_BYTES + PAGE_BYTES);
    let raw = compression::decompress(compressed, bytes_max).map_err(SegmentError::Zstd)?;
    let pages = pages(&raw, count).ok_or(SegmentError::Length { expected: bytes_max, actual: raw.len() })?;
    if ascending(pages.iter().map(|(number, _)| *number)) { Ok(pages) } else { Err(SegmentError::Order) }
}

/// What is inside a segment. `None` when it is longer or shorter than its masks say.
fn pages(raw: &[u8], count: usize) -> Option<Vec<(u32, Page)>> {
    let (numbers, rest) = raw.split_at_checked(count * NUMBER_BYTES)?;
    let (distances, rest) = rest.split_at_checked(count * DISTANCE_BYTES)?;
    let (masks, mut contents) = rest.split_at_checked(count * MASK_BYTES)?;
    let mut pages = Vec::with_capacity(count);
    let masks = masks.as_chunks::<MASK_BYTES>().0;
    for ((number, distance), mask) in numbers.as_chunks::<NUMBER_BYTES>().0.iter().zip(distances).zip(masks) {
        let mut page = [0; PAGE_BYTES];
        contents = lines::pull(u64::from_le_bytes(*mask), contents, &mut page)?;
        stride::put_back(&mut page, *distance);
        pages.push((u32::from_le_bytes(*number), Arc::new(page)));
    }
    contents.is_empty().then_some(pages)
}

/// The segment at the front of `bytes`, by the length that it gives itself, and what follows. It is not verified.
pub(crate) fn split_first(bytes: &[u8]) -> Result<(&[u8], &[u8]), SegmentError> {
    let length = bytes.get(MAGIC.len() + 4..HEADER_BYTES).and_then(|length| length.first_chunk::<4>());
    let body = length.map_or(0, |length| u32::from_le_bytes(*length) as usize);
    let expected = HEADER_BYTES + body + CHECKSUM_BYTES;
    bytes.split_at_checked(expected).ok_or(SegmentError::Length { expected, actual: bytes.len() })
}

/// The checksum at the end of a segment; all of it when it is shorter than that.
pub(crate) fn checksum(segment: &[u8]) -> &[u8] {
    segment.split_last_chunk::<CHECKSUM_BYTES>().map_or(segment, |(_, checksum)| checksum)
}

/// Pages in a segment, as it says itself.
pub(crate) fn count(segment: &[u8]) -> usize {
    let count = segment.get(MAGIC.len()..).and_then(|rest| rest.first_chunk::<4>());
    count.map_or(0, |count| u32::from_le_bytes(*count) as usize)
}

fn ascending(numbers: impl Iterator<Item = u32>) -> bool {
    let mut last = None;
    for number in numbers {
        if last.is_some_and(|last| last >= number) {
            return false;
        }
        last = Some(number);
    }
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn page(fill: u8) -> Page {
        Arc::new([fill; PAGE_BYTES])
    }

    #[test]
    fn another_format_is_refused_before_anything_of_it_is_read() {
        let mut bytes = encode(&[(3, page(7))]).unwrap().to_vec();
        bytes[7] += 1;
        assert!(matches!(decode(&bytes), Err(SegmentError::Magic)));
    }

    #[test]
    fn order_is_demanded_both_ways() {
        assert!(matches!(encode(&[(2, page(1)), (1, page(2))]), Err(SegmentError::Order)));
        assert!(matches!(encode(&[(2, page(1)), (2, page(2))]), Err(SegmentError::Order)));
    }

    #[test]
    fn a_count_beyond_the_limit_is_refused_before_allocating() {
        let mut bytes = encode(&[(1, page(1))]).unwrap().to_vec();
        bytes[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(matches!(decode(&bytes), Err(SegmentError::TooManyPages { .. })));
    }

    #[test]
    fn a_bomb_stops_at_the_size_it_claims() {
        let compressed = zstd::bulk::compress(&vec![0u8; 64 << 20], 1).unwrap();
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&1u32.to_le_bytes());
        out.extend_from_slice(&u32::try_from(compressed.len()).unwrap().to_le_bytes());
        out.extend_from_slice(&compressed);
        let checksum = Sha256::digest(&out);
        out.extend_from_slice(&checksum);
        assert!(matches!(decode(&out), Err(SegmentError::Zstd(_))));
    }

    #[test]
    fn contents_that_are_not_as_their_masks_say_are_refused() {
        let stored = |raw: &[u8]| {
            let compressed = compression::compress(raw, 1).unwrap();
            let mut out = MAGIC.to_vec();
            out.extend_from_slice(&1u32.to_le_bytes());
            out.extend_from_slice(&u32::try_from(compressed.len()).unwrap().to_le_bytes());
            out.extend_from_slice(&compressed);
            out.extend_from_slice(&Sha256::digest(&out));
            decode(&out)
        };
        let mut raw = [&5u32.to_le_bytes()[..], &[stride::NONE], &0b11u64.to_le_bytes(), &[7; 128]].concat();
        assert_eq!(stored(&raw).unwrap()[0].1[..129], [&[7; 128][..], &[0]].concat());
        raw.push(0);
        assert!(matches!(stored(&raw), Err(SegmentError::Length { .. })));
        for shorter in [140, 12, 4, 0] {
            assert!(matches!(stored(&raw[..shorter]), Err(SegmentError::Length { .. })));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn pages_come_back(pages in proptest::collection::btree_map(any::<u32>(), any::<u8>(), 0..20)) {
            let pages: Vec<_> = pages.into_iter().map(|(n, fill)| (n, page(fill))).collect();
            prop_assert_eq!(decode(&encode(&pages).unwrap()).unwrap(), pages);
        }

        #[test]
        fn a_flipped_bit_is_refused(at in any::<prop::sample::Index>(), bit in 0..8u8) {
            let mut bytes = encode(&[(1, page(1)), (9, page(2))]).unwrap().to_vec();
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            prop_assert!(decode(&bytes).is_err());
        }

        #[test]
        fn a_cut_or_longer_segment_is_refused(cut in any::<prop::sample::Index>(), extra in 1..40usize) {
            let bytes = encode(&[(1, page(1)), (9, page(2))]).unwrap();
            prop_assert!(decode(&bytes[..cut.index(bytes.len())]).is_err());
            let mut longer = bytes.to_vec();
            longer.extend(std::iter::repeat_n(0, extra));
            prop_assert!(decode(&longer).is_err());
        }

        #[test]
        fn noise_is_refused(noise in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(decode(&noise).is_err());
        }
    }
}
