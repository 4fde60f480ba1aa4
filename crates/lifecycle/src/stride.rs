//! What repeats in a page at a fixed distance, taken out of it before it is compressed.
//!
//! A heap is made of records of a few sizes, side by side: from one to the next, pointers and counters grow by the same step and the rest stays as it
//! is. So a page is taken for words of 32 bits (LE), and each word becomes its difference (wrapping) to the word one record before. A general compressor, which
//! knows repeated bytes only, then finds zeros where it saw numbers that never came twice. The distance is a page's own: the one that leaves the
//! fewest words, or [`NONE`].

use crate::PAGE_BYTES;

/// The page as it is.
pub const NONE: u8 = 0;

/// Distances that are tried, in words: a value is 2, the blocks of the guest's allocator for strings, properties and objects are 6, 8 and 12, and 24 is
/// for two kinds of 12 that take turns.
const DISTANCES: [u8; 5] = [2, 6, 8, 12, 24];

/// Words of a page that differ from the base image, from which on distances are tried: fewer compress well as they are.
const WORDS_MIN: u32 = 32;

const WORD_BYTES: usize = 4;
const WORDS: usize = PAGE_BYTES / WORD_BYTES;

type Words = [u32; WORDS];

fn words(page: &[u8; PAGE_BYTES]) -> Words {
    let (words, _) = page.as_chunks::<WORD_BYTES>();
    let mut out = [0; WORDS];
    for (to, from) in out.iter_mut().zip(words) {
        *to = u32::from_le_bytes(*from);
    }
    out
}

/// Words that are left of a page when this distance is taken out of it.
fn left(words: &Words, distance: u8) -> u32 {
    let (first, rest) = words.split_at(usize::from(distance));
    count(first) + rest.iter().zip(words).map(|(word, before)| u32::from(word != before)).sum::<u32>()
}

/// Words that are not 0.
fn count(words: &[u32]) -> u32 {
    words.iter().map(|word| u32::from(*word != 0)).sum()
}

/// The page with what repeats taken out, and the distance.
#[must_use]
pub fn take_out(page: &[u8; PAGE_BYTES]) -> ([u8; PAGE_BYTES], u8) {
    let words = words(page);
    let mut best = (count(&words), NONE);
    if best.0 >= WORDS_MIN {
        for distance in DISTANCES {
            best = best.min((left(&words, distance), distance));
        }
    }
    let (_, distance) = best;
    if distance == NONE {
        return (*page, NONE);
    }
    let mut taken = *page;
    let (_, after) = taken.split_at_mut(usize::from(distance) * WORD_BYTES);
    for ((to, word), before) in after.as_chunks_mut().0.iter_mut().zip(words.iter().skip(usize::from(distance))).zip(&words) {
        *to = word.wrapping_sub(*before).to_le_bytes();
    }
    (taken, distance)
}

/// Makes the page again of what [`take_out`] left of it. Any distance is right for some page, so none is refused.
pub fn put_back(page: &mut [u8; PAGE_BYTES], distance: u8) {
    if distance == NONE {
        return;
    }
    let mut words = words(page);
    let mut done = 0;
    // Records after the first, each from the one before it.
    while let Some((before, after)) = words.get_mut(done..).and_then(|rest| rest.split_at_mut_checked(usize::from(distance))) {
        for (word, before) in after.iter_mut().zip(before) {
            *word = word.wrapping_add(*before);
        }
        done += usize::from(distance);
    }
    for (to, word) in page.as_chunks_mut::<WORD_BYTES>().0.iter_mut().zip(words) {
        *to = word.to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Records of `bytes` each: an address that grows by their size, a counter, and what is the same in all.
    fn records(bytes: usize) -> [u8; PAGE_BYTES] {
        let mut page = [0; PAGE_BYTES];
        for (number, record) in page.chunks_exact_mut(bytes).enumerate() {
            record[..4].copy_from_slice(&u32::try_from(0x0031_4000 + number * bytes).unwrap().to_le_bytes());
            record[4..8].copy_from_slice(&u32::try_from(7 + number).unwrap().to_le_bytes());
            record[8..].fill(0xa5);
        }
        page
    }

    #[test]
    fn records_of_the_guest_become_their_step() {
        for bytes in [24, 32, 48, 96] {
            let page = records(bytes);
            let (mut taken, distance) = take_out(&page);
            assert_eq!(usize::from(distance) * WORD_BYTES, bytes);
            let whole = taken
                .chunks_exact(bytes)
                .skip(1)
                .filter(|record| record[0] == u8::try_from(bytes).unwrap() && record[8..] == [0; 88][..bytes - 8]);
            assert_eq!(whole.count(), PAGE_BYTES / bytes - 1);
            put_back(&mut taken, distance);
            assert_eq!(taken, page);
        }
    }

    #[test]
    fn a_page_with_few_words_stays_as_it_is() {
        let mut page = [0; PAGE_BYTES];
        page[..(WORDS_MIN as usize - 1) * WORD_BYTES].fill(1);
        assert_eq!(take_out(&page).1, NONE);
        page[..WORDS_MIN as usize * WORD_BYTES].fill(1);
        assert_ne!(take_out(&page).1, NONE);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_page_comes_back(page in proptest::collection::vec(0..4u8, PAGE_BYTES)) {
            let page: [u8; PAGE_BYTES] = page.try_into().unwrap();
            let (mut taken, distance) = take_out(&page);
            put_back(&mut taken, distance);
            prop_assert_eq!(taken, page);
        }

        #[test]
        fn any_distance_is_read(page in proptest::collection::vec(any::<u8>(), PAGE_BYTES), distance in any::<u8>()) {
            let page: [u8; PAGE_BYTES] = page.try_into().unwrap();
            let mut back = page;
            put_back(&mut back, distance);
            let (back, taken, distance) = (words(&back), words(&page), usize::from(distance));
            for at in 0..WORDS {
                let before = if distance > 0 && at >= distance { back[at - distance] } else { 0 };
                prop_assert_eq!(back[at], taken[at].wrapping_add(before));
            }
        }
    }
}
