//! Who is asked before a session's memory grows.

use std::{fmt::Debug, sync::Arc};

use wasmtime::{ResourceLimiter, StoreLimits};

/// The memory that all instances share. Asked while code runs, so it must not block.
pub trait Growth: Debug + Send + Sync {
    /// Promises `bytes` more to an instance that has `has` bytes of what was promised. False: they cannot be had, and the script is refused them.
    fn take(&self, has: u64, bytes: u64) -> bool;
    /// An instance that had `bytes` is gone.
    fn give_back(&self, bytes: u64);
}

/// What one instance may have: its own limits, and what there is for all.
pub(crate) struct Limits {
    own: StoreLimits,
    shared: Option<Arc<dyn Growth>>,
    taken: u64,
    /// Of what the turn said.
    said: u64,
}

impl Limits {
    pub(crate) fn new(own: StoreLimits, shared: Option<Arc<dyn Growth>>) -> Self {
        Self { own, shared, taken: 0, said: 0 }
    }

    /// Bytes that were promised to its memory.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Takes room for what the guest says: it is kept in more than one form for a while.
    pub(crate) fn take_said(&mut self, bytes: u64) -> bool {
        let Some(shared) = &self.shared else { return true };
        let admitted = shared.take(self.taken + self.said, bytes);
        if admitted {
            self.said += bytes;
        }
        admitted
    }

    /// A turn begins: what the one before said is known to those who have it.
    pub(crate) fn give_back_said(&mut self) {
        if let Some(shared) = self.shared.as_ref().filter(|_| self.said > 0) {
            shared.give_back(std::mem::take(&mut self.said));
        }
    }
}

impl ResourceLimiter for Limits {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        if !self.own.memory_growing(current, desired, maximum)? {
            return Ok(false);
        }
        // What an instance begins with is the base image, of which it has what it writes.
        let more = if current == 0 { 0 } else { desired.saturating_sub(current) as u64 };
        let Some(shared) = self.shared.as_ref().filter(|_| more > 0) else { return Ok(true) };
        let admitted = shared.take(self.taken + self.said, more);
        if admitted {
            self.taken += more;
        }
        Ok(admitted)
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        self.own.table_growing(current, desired, maximum)
    }
}

impl Drop for Limits {
    fn drop(&mut self) {
        self.give_back_said();
        if let Some(shared) = self.shared.as_ref().filter(|_| self.taken > 0) {
            shared.give_back(self.taken);
        }
    }
}
