//! Arbitrary bytes as numbers and pieces. At the end there are zeros.

use sha2::{Digest as _, Sha256};

/// What is left of the input.
#[derive(Debug)]
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn piece(&mut self, length: usize) -> &'a [u8] {
        let (piece, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        piece
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        for (to, from) in array.iter_mut().zip(self.piece(N)) {
            *to = *from;
        }
        array
    }

    pub(super) fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.array())
    }

    pub(super) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    pub(super) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    pub(super) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// A piece with its length before it.
    pub(super) fn counted(&mut self) -> &'a [u8] {
        let length = usize::from(self.u16());
        self.piece(length)
    }
}

/// The bytes as they are, and with the checksum that stored objects end in: without it no fuzzer gets past it.
pub(super) fn forms(data: &[u8]) -> [Vec<u8>; 2] {
    let mut sealed = data.to_vec();
    sealed.extend_from_slice(&Sha256::digest(data));
    [data.to_vec(), sealed]
}

/// A stored object without its checksum: the input whose second form it is.
pub(super) fn unsealed(object: &[u8]) -> Vec<u8> {
    object.get(..object.len().saturating_sub(Sha256::output_size())).unwrap_or_default().to_vec()
}
