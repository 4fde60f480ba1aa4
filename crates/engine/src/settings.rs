//! What is said of an instance when it is made.

/// What an instance is made with. Not part of its state: a restore gives it anew.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Limit of the JavaScript heap in bytes.
    pub heap_bytes: u64,
    /// Seeded time and entropy; `None` for the real ones.
    pub determinism: Option<Determinism>,
}

/// The seed of a deterministic session.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Determinism {
    /// Seed of every random value.
    pub seed: u64,
    /// The clock's first reading in milliseconds since 1970; it advances 1 ms a tick.
    pub epoch_ms: f64,
}
