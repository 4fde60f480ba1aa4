//! The pages that ride in a head: layers, oldest first, each in the form of a [`segment`]. A later one's pages lie over an earlier one's.
//!
//! A commit writes the topmost layer anew, of its own pages and of those layers below that are not much larger, and takes the others along as they are. So it
//! compresses about what it changed, however much rides along; and layers are few, since each has several times the pages of the one over it.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;

use crate::{
    Page,
    segment::{self, SegmentError},
};

/// Bytes of the inline part at most: what still costs no more than a small PUT.
pub const INLINE_BYTES_MAX: usize = 64 << 10;

/// Layers of one head.
pub const LAYERS_MAX: usize = 8;

/// A layer of at most so many times the pages that come over it is taken up into the new one.
const TAKEN_UP_RATIO: usize = 3;

/// Pages of a layer that are kept at hand, 128 KiB: what small commits write over again and again. More would outweigh the session.
const TOP_PAGES_MAX: usize = 32;

/// The pages of a layer that was just written, so that the next commit, which likely takes it up, need not decode them. They are believed for those
/// very bytes only, so any value is right for any head. Clones share them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TopLayer {
    checksum: Bytes,
    pages: Arc<BTreeMap<u32, Page>>,
}

impl TopLayer {
    fn new(layer: &Bytes, pages: BTreeMap<u32, Page>) -> Self {
        if pages.len() > TOP_PAGES_MAX {
            return Self::default();
        }
        Self { checksum: Bytes::copy_from_slice(segment::checksum(layer)), pages: Arc::new(pages) }
    }

    fn pages_of(&self, layer: &[u8]) -> Option<&BTreeMap<u32, Page>> {
        let same = !self.checksum.is_empty() && self.checksum == segment::checksum(layer);
        same.then_some(&*self.pages)
    }
}

/// What [`push`] makes.
#[derive(Debug)]
pub struct Pushed {
    /// The inline part.
    pub bytes: Bytes,
    /// The number of its pages if it is a single layer, else 0.
    pub pages: u32,
    /// Its topmost layer.
    pub top_layer: TopLayer,
}

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

/// The inline part with `changed` over it; `known` may spare decoding its topmost layer. It is a single layer, and may be larger than
/// [`INLINE_BYTES_MAX`], when several do not fit.
///
/// # Errors
/// When `inline` does not verify, or the pages cannot become bytes.
pub fn push(inline: &[u8], changed: Vec<(u32, Page)>, known: &TopLayer) -> Result<Pushed, SegmentError> {
    let mut below = layers(inline)?;
    let mut top: BTreeMap<u32, Page> = changed.into_iter().collect();
    while let Some(layer) = below.pop_if(|layer| segment::count(layer) <= top.len() * TAKEN_UP_RATIO) {
        take_up(&mut top, layer, known)?;
    }
    let bytes = encode(&top)?;
    if below.is_empty() {
        return Ok(single(bytes, top));
    }
    let together = below.iter().map(|layer| layer.len()).sum::<usize>() + bytes.len();
    if together <= INLINE_BYTES_MAX && below.len() < LAYERS_MAX {
        below.push(&bytes);
        return Ok(Pushed { bytes: below.concat().into(), pages: 0, top_layer: TopLayer::new(&bytes, top) });
    }
    for layer in below.into_iter().rev() {
        take_up(&mut top, layer, known)?;
    }
    Ok(single(encode(&top)?, top))
}

fn single(bytes: Bytes, pages: BTreeMap<u32, Page>) -> Pushed {
    let count = u32::try_from(pages.len()).unwrap_or(u32::MAX);
    Pushed { top_layer: TopLayer::new(&bytes, pages), bytes, pages: count }
}

fn take_up(top: &mut BTreeMap<u32, Page>, layer: &[u8], known: &TopLayer) -> Result<(), SegmentError> {
    if let Some(pages) = known.pages_of(layer) {
        for (number, page) in pages {
            top.entry(*number).or_insert_with(|| Page::clone(page));
        }
        return Ok(());
    }
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
    use std::ops::Range;

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

    /// With no layer at hand.
    fn put(inline: &[u8], changed: Vec<(u32, Page)>) -> (Bytes, u32) {
        let pushed = push(inline, changed, &TopLayer::default()).unwrap();
        (pushed.bytes, pushed.pages)
    }

    fn flat(fill: u8, numbers: Range<u32>) -> Vec<(u32, Page)> {
        numbers.map(|number| (number, Arc::new([fill; PAGE_BYTES]))).collect()
    }

    #[test]
    fn a_small_change_leaves_a_large_layer_as_it_is() {
        let (below, count) = put(&[], flat(1, 0..100));
        assert_eq!(count, 100);
        let (one, count) = put(&below, flat(2, 50..60));
        assert!(one.starts_with(&below) && count == 0);
        let (two, _) = put(&one, flat(3, 55..65));
        assert_eq!(layers(&two).unwrap().iter().map(|layer| segment::count(layer)).collect::<Vec<_>>(), [100, 15]);
        let pages = pages(&two).unwrap();
        assert_eq!([49, 50, 54, 55, 64, 65].map(|number| pages[&number][0]), [1, 2, 2, 3, 3, 1]);
        let (all, count) = put(&two, flat(4, 0..40));
        assert_eq!((layers(&all).unwrap().len(), count), (1, 100), "a large one takes up what lies below");
    }

    #[test]
    fn a_layer_at_hand_is_not_decoded_and_no_other_is_taken_for_it() {
        let small = push(&[], flat(1, 0..4), &TopLayer::default()).unwrap();
        let mut damaged = small.bytes.to_vec();
        damaged[20] ^= 1;
        assert!(push(&damaged, flat(2, 1..3), &TopLayer::default()).is_err());
        assert_eq!(push(&damaged, flat(2, 1..3), &small.top_layer).unwrap().bytes, put(&small.bytes, flat(2, 1..3)).0);
        let other = put(&[], flat(7, 0..4)).0;
        assert_eq!(pages(&push(&other, flat(2, 1..3), &small.top_layer).unwrap().bytes).unwrap()[&0][0], 7);
    }

    #[test]
    fn a_layer_is_at_hand_up_to_its_limit() {
        let at_hand = |count| push(&[], flat(1, 0..count), &TopLayer::default()).unwrap().top_layer != TopLayer::default();
        assert!(at_hand(32) && !at_hand(33));
    }

    #[test]
    fn what_does_not_fit_in_layers_becomes_one() {
        let (below, _) = put(&[], noise(0..14, 1));
        assert!(below.len() < INLINE_BYTES_MAX);
        let (all, count) = put(&below, noise(20..22, 2));
        assert_eq!((layers(&all).unwrap().len(), count), (1, 16));
        assert!(all.len() > INLINE_BYTES_MAX, "and then is a segment of its own");
    }

    #[test]
    fn there_are_few_layers_and_more_are_refused() {
        let mut inline = Bytes::new();
        for round in 0..200u32 {
            inline = put(&inline, flat(7, round % 5..round % 5 + 1 + (round % 11) * (round % 7))).0;
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
            let (mut inline, mut top, mut model) = (Bytes::new(), TopLayer::default(), BTreeMap::new());
            for (from, len, fill) in changes {
                let change = flat(fill, from..from + len);
                model.extend(change.clone());
                let decoded = put(&inline, change.clone());
                let pushed = push(&inline, change, &top).unwrap();
                prop_assert_eq!((&pushed.bytes, pushed.pages), (&decoded.0, decoded.1), "a layer at hand changes nothing");
                (inline, top) = (pushed.bytes, pushed.top_layer);
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
