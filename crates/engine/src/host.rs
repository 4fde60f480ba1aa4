//! The host's side of the boundary.
use std::sync::{Arc, atomic::AtomicBool};
use serde::{Deserialize, Serialize};

/// The host's part of a session's state. Travels with every image.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostState {
    /// Ticks in the session's life: the clock of a deterministic session.
    pub ticks: u64,
    /// Blocks drawn from the entropy stream of a deterministic session.
    pub entropy_blocks: u64,
    /// When the last cell began, in milliseconds of the session's clock.
    pub cell_began_ms: f64,
}

/// Interrupts a running cell from another task. Cloning shares it.
#[derive(Debug, Clone, Default)]
pub struct InterruptHandle(pub(crate) Arc<AtomicBool>);

impl InterruptHandle {
    /// Ends the cell that runs now, or else the next turn, with `Interrupted`.
    pub fn interrupt(&self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}
