//! Chance by a seed: the same in each run.

use std::time::Duration;

/// xorshift64*.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// Of the seed 0 nothing but zeros would come: it is taken for 1.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed.max(1))
    }

    /// A number below `n`; 0 when there is none.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16) % n.max(1)
    }

    /// A time below `max`, in microseconds.
    pub fn duration(&mut self, max: Duration) -> Duration {
        Duration::from_micros(self.below(u64::try_from(max.as_micros()).unwrap_or(u64::MAX)))
    }
}
