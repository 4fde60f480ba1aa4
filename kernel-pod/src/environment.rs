//! What a pod takes from its machine and a simulation gives it instead.

use dormouse_service::Clock;
use tokio::task::JoinError;

/// The clock and the threads of a pod.
#[derive(Debug, Clone, Copy, Default)]
pub struct Environment {
    /// What time it is.
    pub clock: Clock,
    /// Where work runs.
    pub threads: Threads,
}

/// Where the work of a pod runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Threads {
    /// Sessions take turns ([`crate::scheduler`]), work that takes long where it may block.
    #[default]
    Own,
    /// Everything where it is awaited.
    Inline,
}

impl Threads {
    /// Does work that takes long.
    ///
    /// # Errors
    /// It has panicked, or the runtime ends.
    pub(crate) async fn blocking<T: Send + 'static>(self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, JoinError> {
        match self {
            Self::Own => tokio::task::spawn_blocking(work).await,
            Self::Inline => Ok(work()),
        }
    }
}
