//! Faults of the engine itself. A script's own failure is a [`crate::CellError`].

/// Why an engine or an instance could not do its work. After one from a running instance, discard the instance.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// `engine.wasm` could not be compiled or linked.
    #[error("the engine could not be loaded: {0}")]
    Load(String),
    /// An instance could not be made.
    #[error("an instance could not be created: {0}")]
    Create(String),
    /// An image does not fit this engine: its sizes, page numbers or globals are impossible.
    #[error("the image is not valid: {0}")]
    Image(String),
    /// The guest trapped. The instance is poisoned.
    #[error("the guest trapped: {0}")]
    Trap(String),
    /// The guest said something that the host does not understand. The instance is poisoned.
    #[error("the guest broke its protocol: {0}")]
    Protocol(String),
    /// The turn could not be ended within its budgets: it was inside one long builtin, where no exception ends it, or it left jobs behind that enqueue jobs without end. The instance is poisoned.
    #[error("the turn did not end within its budgets")]
    Overrun,
    /// The turn was ended inside one long builtin, because somebody asked for its end. The instance is poisoned.
    #[error("the turn was interrupted inside a builtin")]
    Interrupted,
    /// No engine of this digest is here.
    #[error("no engine of digest {digest} is in this build")]
    UnknownEngine {
        /// The digest that was asked for.
        digest: String,
    },
    /// An earlier turn ended in a fault, so this instance must not be used any more.
    #[error("the instance is poisoned by an earlier fault")]
    Poisoned,
}
