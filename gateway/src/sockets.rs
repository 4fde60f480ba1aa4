//! How many sockets a gateway has at once.

use std::sync::Arc;

use dormouse_protocol::{ApiError, ErrorCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Sockets at once.
pub(crate) const SOCKETS_MAX: usize = 16_384;

/// Room for sockets. Clones share it.
#[derive(Clone)]
pub(crate) struct Sockets(Arc<Semaphore>);

impl Default for Sockets {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(SOCKETS_MAX)))
    }
}

impl Sockets {
    /// Room for one more, for as long as the answer lives.
    pub(crate) fn enter(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        Arc::clone(&self.0).try_acquire_owned().map_err(|_| {
            let message = format!("this gateway has {SOCKETS_MAX} sockets already: try again later");
            ApiError::new(ErrorCode::CapacityExhausted, message)
        })
    }

    /// Returns when there is none any more.
    pub(crate) async fn left(&self) {
        let all = u32::try_from(SOCKETS_MAX).unwrap_or(u32::MAX);
        // Nobody closes the semaphore.
        let _ = self.0.acquire_many(all).await;
    }
}
