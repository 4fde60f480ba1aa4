//! The pages that ride in a head: layers, oldest first, each in the form of a [`segment`]. A later one's pages lie over an earlier one's.
//!
//! A commit writes the topmost layer anew, of its own pages and of those layers below that are not much larger, and takes the others along as they are. So it
//! compresses about what it changed, however much rides along; and layers are few, since each has several times the pages of the one over it.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::{
    Page,
    head::INLINE_BYTES_MAX,
    segment::{self, SegmentError},
};

/// Layers of one head.
pub const LAYERS_MAX: usize = 8;

/// A layer of at most so many times the pages that come over it is taken up into the new one.
const TAKEN_UP_RATIO: usize = 3;

/// All pages of the inline part.
///
/// # Errors
/// When a layer does not verify, or there are too many.
pub fn pages(inline: &[u8]) -> Result<BTreeMap<u32, Page>, SegmentError> {
    let mut pages = BTreeMap::new();
    for layer in layers(inline)? {
        pages.extend(segment::decode(layer)?);
    }
    Ok(pages)
}

/// The inline part with `changed` over it, and the number of pages if it is a single layer. It is one, and may be larger than [`INLINE_BYTES_MAX`], when several do not fit.
///
/// # Errors
/// When `inline` does not verify, or the pages cannot become bytes.
pub fn push(inline: &[u8], changed: Vec<(u32, Page)>) -> Result<(Bytes, u32), SegmentError> {
    let mut below = layers(inline)?;
    let mut top: BTreeMap<u32, Page> = changed.into_iter().collect();
    while let Some(layer) = below.pop_if(|layer| segment::count(layer) <= top.len() * TAKEN_UP_RATIO) {
        take_up(&mut top, layer)?;
    }
    let bytes = encode(&top)?;
    let together = below.iter().map(|layer| layer.len()).sum::<usize>() + bytes.len();
    if below.is_empty() {
        return Ok((bytes, u32::try_from(top.len()).unwrap_or(u32::MAX)));
    }
    if together <= INLINE_BYTES_MAX && below.len() < LAYERS_MAX {
        below.push(&bytes);
        return Ok((below.concat().into(), 0));
    }
    for layer in below.into_iter().rev() {
        take_up(&mut top, layer)?;
    }
    Ok((encode(&top)?, u32::try_from(top.len()).unwrap_or(u32::MAX)))
}

fn take_up(top: &mut BTreeMap<u32, Page>, layer: &[u8]) -> Result<(), SegmentError> {
    for (number, page) in segment::decode(layer)? {
        top.entry(number).or_insert(page);
    }
    Ok(())
}

fn encode(pages: &BTreeMap<u32, Page>) -> Result<Bytes, SegmentError> {
    let pages: Vec<(u32, Page)> = pages.iter().map(|(number, page)| (*number, Page::clone(page))).collect();
    segment::encode(&pages)
}

fn layers(mut inline: &[u8]) -> Result<Vec<&[u8]>, SegmentError> {
    let mut layers = Vec::new();
    while !inline.is_empty() {
        if layers.len() == LAYERS_MAX {
            return Err(SegmentError::TooManyLayers);
        }
        let (layer, rest) = segment::split_first(inline)?;
        layers.push(layer);
        inline = rest;
    }
    Ok(layers)
}

#[cfg(test)]
mod tests {
    use std::{ops::Range, sync::Arc};

    use proptest::prelude::*;

    use super::*;
    use crate::PAGE_BYTES;

    /// Pages that hardly compress.
    fn noise(numbers: Range<u32>, seed: u64) -> Vec<(u32, Page)> {
        let mut state = seed;
        let mut page = || {
            Arc::new(std::array::from_fn::<u8, PAGE_BYTES, _>(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            }))
        };
        numbers.map(|number| (number, page())).collect()
    }

    fn flat(fill: u8, numbers: Range<u32>) -> Vec<(u32, Page)> {
        numbers.map(|number| (number, Arc::new([fill; PAGE_BYTES]))).collect()
    }

    #[test]
    fn a_small_change_leaves_a_large_layer_as_it_is() {
        let (below, count) = push(&[], flat(1, 0..100)).unwrap();
        assert_eq!(count, 100);
        let (one, count) = push(&below, flat(2, 50..60)).unwrap();
        assert!(one.starts_with(&below) && count == 0);
        let (two, _) = push(&one, flat(3, 55..65)).unwrap();
        assert_eq!(layers(&two).unwrap().iter().map(|layer| segment::count(layer)).collect::<Vec<_>>(), [100, 15]);
        let pages = pages(&two).unwrap();
        assert_eq!([49, 50, 54, 55, 64, 65].map(|number| pages[&number][0]), [1, 2, 2, 3, 3, 1]);
        let (all, count) = push(&two, flat(4, 0..40)).unwrap();
        assert_eq!((layers(&all).unwrap().len(), count), (1, 100), "a large one takes up what lies below");
    }

    #[test]
    fn what_does_not_fit_in_layers_becomes_one() {
        let (below, _) = push(&[], noise(0..14, 1)).unwrap();
        assert!(below.len() < INLINE_BYTES_MAX);
        let (all, count) = push(&below, noise(20..22, 2)).unwrap();
        assert_eq!((layers(&all).unwrap().len(), count), (1, 16));
        assert!(all.len() > INLINE_BYTES_MAX, "and then is a segment of its own");
    }

    #[test]
    fn there_are_few_layers_and_more_are_refused() {
        let mut inline = Bytes::new();
        for round in 0..200u32 {
            inline = push(&inline, flat(7, round % 5..round % 5 + 1 + (round % 11) * (round % 7))).unwrap().0;
            assert!(layers(&inline).unwrap().len() <= LAYERS_MAX);
        }
        let one = segment::encode(&flat(1, 0..1)).unwrap();
        assert!(pages(&one.repeat(LAYERS_MAX)).is_ok());
        assert!(matches!(pages(&one.repeat(LAYERS_MAX + 1)), Err(SegmentError::TooManyLayers)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn layers_are_what_was_written_last(changes in proptest::collection::vec((0..60u32, 1..40u32, any::<u8>()), 1..12)) {
            let (mut inline, mut model) = (Bytes::new(), BTreeMap::new());
            for (from, len, fill) in changes {
                let change = flat(fill, from..from + len);
                model.extend(change.clone());
                inline = push(&inline, change).unwrap().0;
            }
            prop_assert_eq!(pages(&inline).unwrap(), model);
        }

        #[test]
        fn noise_behind_a_layer_is_refused(noise in proptest::collection::vec(any::<u8>(), 1..100)) {
            let mut inline = segment::encode(&flat(1, 0..2)).unwrap().to_vec();
            inline.extend(noise);
            prop_assert!(pages(&inline).is_err());
        }
    }
}
