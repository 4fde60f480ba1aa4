//! A pod that runs one session in its life.

use std::sync::OnceLock;

use dormouse_protocol::{ApiError, ErrorCode};
use tokio_util::sync::CancellationToken;

/// The one session.
#[derive(Debug, Default)]
pub(crate) struct Only {
    uid: OnceLock<String>,
    slept: CancellationToken,
}

impl Only {
    /// Takes a session if it is the first, or the same again.
    pub(crate) fn admit(&self, uid: &str) -> Result<(), ApiError> {
        if self.uid.get_or_init(|| uid.to_owned()) == uid {
            return Ok(());
        }
        Err(ApiError::new(ErrorCode::CapacityExhausted, "this kernel pod runs one session in its life, and that is another one: try again"))
    }

    /// Whether it has one.
    pub(crate) fn is_taken(&self) -> bool {
        self.uid.get().is_some()
    }

    /// It sleeps, and leaves.
    pub(crate) fn sleeps(&self) {
        self.slept.cancel();
    }

    /// Ends when it has gone to sleep.
    pub(crate) async fn slept(&self) {
        self.slept.cancelled().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_session_is_the_only_one() {
        let only = Only::default();
        assert!(!only.is_taken());
        assert!(only.admit("a").is_ok() && only.admit("a").is_ok() && only.is_taken());
        assert_eq!(only.admit("b").unwrap_err().code, ErrorCode::CapacityExhausted);
    }
}
