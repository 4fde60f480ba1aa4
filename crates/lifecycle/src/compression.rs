//! zstd with contexts that a thread keeps: making one costs more than compressing what a small commit has.
//!
//! What comes out depends on what goes in only, not on what a context was used for before.

use std::{cell::RefCell, io};

use zstd::bulk::{Compressor, Decompressor};

thread_local! {
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// `bytes` as one frame.
pub(crate) fn compress(bytes: &[u8], level: i32) -> io::Result<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|kept| match kept {
        Some(compressor) => {
            compressor.set_compression_level(level)?;
            compressor.compress(bytes)
        }
        None => kept.insert(Compressor::new(level)?).compress(bytes),
    })
}

/// What the frame `bytes` holds, of at most `bytes_max` bytes.
pub(crate) fn decompress(bytes: &[u8], bytes_max: usize) -> io::Result<Vec<u8>> {
    DECOMPRESSOR.with_borrow_mut(|kept| match kept {
        Some(decompressor) => decompressor.decompress(bytes, bytes_max),
        None => kept.insert(Decompressor::new()?).decompress(bytes, bytes_max),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_that_was_used_makes_the_same_bytes() {
        let text = |from: u32| (from..from + 5000).flat_map(u32::to_le_bytes).collect::<Vec<u8>>();
        let first = std::thread::spawn(move || compress(&text(7), 1).unwrap()).join().unwrap();
        for (from, level) in [(1, 3), (7, 3), (9, 1)] {
            compress(&text(from), level).unwrap();
        }
        assert_eq!(compress(&text(7), 1).unwrap(), first);
    }

    #[test]
    fn a_context_goes_on_after_what_it_refused() {
        let frame = compress(&[1; 100], 1).unwrap();
        assert!(decompress(&frame, 99).is_err());
        assert!(decompress(&frame[..5], 100).is_err());
        assert_eq!(decompress(&frame, 100).unwrap(), [1; 100]);
    }
}
