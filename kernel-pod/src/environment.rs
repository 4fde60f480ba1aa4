//! What a pod takes from its machine and a simulation gives it instead.

use dormouse_service::{Clock, Ids};
use tokio::task::JoinError;

/// The clock, the threads and the names of a pod.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// What time it is.
    pub clock: Clock,
    /// Where work runs.
    pub threads: Threads,
    /// Where its boot, its commits and its objects have their names from.
    pub ids: Ids,
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
