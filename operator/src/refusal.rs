//! Why a pool, or what it names, cannot be used.

use dormouse_control::reason::PoolReason;

/// Why a pool cannot be built. It becomes the condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The condition's reason.
    pub reason: PoolReason,
    /// What is wrong and what to write.
    pub message: String,
}
