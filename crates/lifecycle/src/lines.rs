//! A page as those of its lines that are not all zeros, and a mask that says which they are.
//!
//! Most of what a commit has to write is differences: pages of zeros with a few changed words. What is not there need not be compressed.

use crate::PAGE_BYTES;

/// Bytes of a line: one of the processor's. A page has as many as a mask has bits.
const LINE_BYTES: usize = PAGE_BYTES / u64::BITS as usize;

/// Appends the lines of `page` that are not all zeros, in their order. Answers the mask: bit n is line n.
pub(crate) fn push(page: &[u8; PAGE_BYTES], out: &mut Vec<u8>) -> u64 {
    let mut mask = 0;
    for (number, line) in page.as_chunks::<LINE_BYTES>().0.iter().enumerate() {
        if *line != [0; LINE_BYTES] {
            mask |= 1 << number;
            out.extend_from_slice(line);
        }
    }
    mask
}

/// Writes the lines of `mask`, which `from` begins with, to a page of zeros. Answers what follows them; `None` when `from` is too short.
pub(crate) fn pull<'a>(mut mask: u64, from: &'a [u8], page: &mut [u8; PAGE_BYTES]) -> Option<&'a [u8]> {
    let (lines, rest) = from.split_at_checked(mask.count_ones() as usize * LINE_BYTES)?;
    let (to, _) = page.as_chunks_mut::<LINE_BYTES>();
    for line in lines.as_chunks::<LINE_BYTES>().0 {
        *to.get_mut(mask.trailing_zeros() as usize)? = *line;
        mask &= mask - 1;
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_page_comes_back(bytes in proptest::collection::btree_map(0..PAGE_BYTES, 1..=255u8, 0..70)) {
            let mut page = [0; PAGE_BYTES];
            bytes.iter().for_each(|(at, byte)| page[*at] = *byte);
            let mut out = Vec::new();
            let mask = push(&page, &mut out);
            let lines: std::collections::BTreeSet<usize> = bytes.keys().map(|at| at / LINE_BYTES).collect();
            prop_assert_eq!(lines.iter().fold(0u64, |mask, line| mask | 1 << line), mask);
            prop_assert_eq!(out.len(), lines.len() * LINE_BYTES);
            let mut again = [0; PAGE_BYTES];
            prop_assert_eq!(pull(mask, &out, &mut again), Some(&[][..]));
            prop_assert_eq!(again, page);
            if let Some(shorter) = out.len().checked_sub(1) {
                prop_assert_eq!(pull(mask, &out[..shorter], &mut [0; PAGE_BYTES]), None);
            }
        }
    }
}
