//! State of a module that has one thread.

use std::cell::UnsafeCell;

/// A mutable static. The module has one thread, and no export is entered while another runs.
pub struct Single<T>(UnsafeCell<T>);

// SAFETY: wasm32-unknown-unknown without atomics has one thread.
unsafe impl<T> Sync for Single<T> {}

impl<T> Single<T> {
    pub const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// The value. Callers keep the reference only for one statement or one export.
    #[allow(clippy::mut_from_ref, reason = "one thread, and references do not outlive their statement")]
    pub fn get(&self) -> &mut T {
        // SAFETY: one thread; see above.
        unsafe { &mut *self.0.get() }
    }
}
