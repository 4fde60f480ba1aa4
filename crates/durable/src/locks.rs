//! Locks for very many names.

use std::hash::{DefaultHasher, Hash, Hasher as _};

/// Locks that names share.
const LOCKS: usize = 64;

/// A lock for each name, of which some have the same one: whoever holds one asks for no other.
#[derive(Debug)]
pub struct NameLocks<L>([L; LOCKS]);

impl<L: Default> Default for NameLocks<L> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| L::default()))
    }
}

impl<L> NameLocks<L> {
    /// The lock of a name.
    pub fn of(&self, name: impl Hash) -> &L {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        let [first, ..] = &self.0;
        self.0.get((hasher.finish() % LOCKS as u64) as usize).unwrap_or(first)
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, sync::Mutex};

    use super::*;

    #[test]
    fn a_name_has_one_lock_and_most_have_another() {
        let locks = NameLocks::<Mutex<()>>::default();
        let held = locks.of("a").lock().unwrap();
        assert!(locks.of("a").try_lock().is_err());
        drop(held);
        let used: HashSet<_> = (0..LOCKS).map(|name| std::ptr::from_ref(locks.of(name))).collect();
        assert!(used.len() > LOCKS / 2, "{}", used.len());
    }
}
