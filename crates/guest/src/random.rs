//! `Math.random`: xoshiro256++ (Blackman and Vigna), its state in linear memory, its seed from the host; and the host's entropy as keys are drawn
//! from it.

use crate::{boundary, single::Single};

static STATE: Single<[u64; 4]> = Single::new([1, 2, 3, 4]);

/// Takes a new seed from the host.
pub fn reseed() {
    let mut bytes = [0; 32];
    boundary::entropy(&mut bytes);
    let mut words = [0u64; 4];
    for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(chunk.try_into().unwrap_or([1; 8]));
    }
    words[0] |= 1; // the all-zero state is a fixed point
    *STATE.get() = words;
}

/// A number in [0, 1).
pub fn next() -> f64 {
    let s = STATE.get();
    let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
    let t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = s[3].rotate_left(45);
    (result >> 11) as f64 / (1u64 << 53) as f64
}

/// The host's entropy.
pub struct Entropy;

impl rand_core::CryptoRng for Entropy {}

impl rand_core::RngCore for Entropy {
    fn next_u32(&mut self) -> u32 {
        rand_core::impls::next_u32_via_fill(self)
    }

    fn next_u64(&mut self) -> u64 {
        rand_core::impls::next_u64_via_fill(self)
    }

    fn fill_bytes(&mut self, dest: &mut [u8]) {
        for chunk in dest.chunks_mut(ENTROPY_BYTES_MAX) {
            boundary::entropy(chunk);
        }
    }

    fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), rand_core::Error> {
        self.fill_bytes(dest);
        Ok(())
    }
}

/// Bytes that are asked of the host at once.
const ENTROPY_BYTES_MAX: usize = 65_536;
