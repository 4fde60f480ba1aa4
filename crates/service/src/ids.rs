//! Names that nobody else has given.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use uuid::Uuid;

/// Gives out names. Clones give out different ones.
#[derive(Debug, Clone, Default)]
pub struct Ids {
    /// `None`: the system's randomness.
    counted: Option<Arc<AtomicU64>>,
}

impl Ids {
    /// From the system's randomness.
    #[must_use]
    pub fn random() -> Self {
        Self::default()
    }

    /// The same ones each time for the same seed: a run that is to be repeated. Another seed gives others, as far as 64 bits tell.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self { counted: Some(Arc::new(AtomicU64::new(mixed(seed)))) }
    }

    /// A new one.
    #[must_use]
    pub fn next(&self) -> Uuid {
        let Some(counted) = &self.counted else { return Uuid::new_v4() };
        let number = counted.fetch_add(1, Ordering::SeqCst);
        uuid::Builder::from_random_bytes(Uuid::from_u64_pair(mixed(number), mixed(!number)).into_bytes()).into_uuid()
    }

    /// A new one in hexadecimal digits, cut to so many: at most 32.
    #[must_use]
    pub fn digits(&self, digits: usize) -> String {
        let mut id = self.next().simple().to_string();
        id.truncate(digits);
        id
    }
}

/// The finalizer of splitmix64 (Steele, Lea, Flood 2014): every number becomes another one.
fn mixed(number: u64) -> u64 {
    let z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_seed_gives_the_same_names_again_and_no_name_twice() {
        let names = |seed| {
            let ids = Ids::seeded(seed);
            (0..1_000).map(|_| ids.clone().digits(16)).collect::<Vec<_>>()
        };
        assert_eq!(names(7), names(7));
        let all: BTreeSet<String> = names(7).into_iter().chain(names(8)).collect();
        assert_eq!(all.len(), 2_000);
        assert_eq!(Ids::random().digits(32).len(), 32);
    }
}
