//! Why a commit cannot be done.

use crate::{head::HeadError, log::LogError, segment::SegmentError};

/// Refusals of a condition that holds, as the head that was read shows, before the store is called broken.
pub const REFUSALS_MAX: u32 = 5;

/// Times that another write was under way at the head, and had not changed it, before the commit is given up for now.
pub const CONFLICTS_MAX: u32 = 5;

/// Why a commit cannot be done.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The new head cannot be made.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// The new segment cannot be made.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// A log's new object cannot be made.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The store said so.
    #[error("the object store refused: {0}")]
    Store(String),
    /// The stored head does not verify. It is left as it is.
    #[error("the stored head does not verify: {0}")]
    Damaged(String),
    /// The stored head is older than what this process knows was stored.
    #[error("the object store went back from epoch {} sequence {} to epoch {} sequence {}", .known.0, .known.1, .found.0, .found.1)]
    WentBackwards {
        /// What was stored.
        known: (u64, u64),
        /// What is there now.
        found: (u64, u64),
    },
    /// The store refuses a condition that holds.
    #[error("the object store refused a conditional write {REFUSALS_MAX} times though its condition holds")]
    RefusesTrue,
    /// The store was not done with other writes of the head. What it keeps of conditions is not in doubt.
    #[error("the object store reported {CONFLICTS_MAX} times that another write of the head was under way, and it had changed nothing")]
    Conflicts,
    /// Another session's head lies at this session's key.
    #[error("the head at this session's key belongs to session {uid}")]
    Foreign {
        /// The session that it names.
        uid: String,
    },
    /// The driver told a reply that does not fit the step.
    #[error("a reply that does not fit the step: {0}")]
    Driver(&'static str),
}
