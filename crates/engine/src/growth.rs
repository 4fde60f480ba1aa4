//! Who is asked before a session's memory grows.

use std::{fmt::Debug, sync::Arc};

use wasmtime::{ResourceLimiter, StoreLimits};

/// The memory that all instances share. Asked while code runs, so it must not block.
pub trait Growth: Debug + Send + Sync {
    /// Promises an instance `bytes` more. False: they cannot be had, and the script is refused them.
    fn take(&self, bytes: u64) -> bool;
    /// An instance that had `bytes` is gone.
    fn give_back(&self, bytes: u64);
}

/// What one instance may have: its own limits, and what there is for all.
pub(crate) struct Limits {
    own: StoreLimits,
    shared: Option<Arc<dyn Growth>>,
    taken: u64,
}

impl Limits {
    pub(crate) fn new(own: StoreLimits, shared: Option<Arc<dyn Growth>>) -> Self {
        Self { own, shared, taken: 0 }
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
        let admitted = shared.take(more);
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
        if let Some(shared) = self.shared.as_ref().filter(|_| self.taken > 0) {
            shared.give_back(self.taken);
        }
    }
}
