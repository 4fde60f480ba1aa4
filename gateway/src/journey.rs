//! A request on its way to a session: how often it was sent, where it has failed, and how long it may go on.

use std::time::Duration;

use dormouse_protocol::{ApiError, ErrorCode};
use tokio::time::Instant;

use crate::{kernels::KernelError, metrics::Source};

/// Times that one request is sent to a pod, the first included.
pub const ATTEMPTS_MAX: u32 = 10;
/// Pause before the second attempt, in milliseconds; each next one is twice as long.
pub const PAUSE_MS_MIN: u64 = 10;
/// Longest pause between attempts, in milliseconds.
pub const PAUSE_MS_MAX: u64 = 1_000;
/// Total time that one request may spend on finding a place, waiting for room included.
pub const PLACING_TIMEOUT: Duration = Duration::from_secs(60);
/// The same for a wake that no client waits for: it is tried again, and must not keep others from theirs.
pub const PLACING_UNASKED_TIMEOUT: Duration = Duration::from_millis(500);

/// What a request does about a session that its user has put to sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asleep {
    /// It is refused: only a change of the spec wakes the session.
    Refuse,
    /// It goes on: what is asked does not wake.
    Accept,
}

/// What is known about a request that is under way.
pub struct Journey {
    pub(crate) asleep: Asleep,
    pub(crate) source: Source,
    /// Placements of this epoch and below have failed this request.
    pub(crate) lost_epoch: u64,
    /// The process of this epoch lives and has said once that the session is not there.
    pub(crate) gone_epoch: u64,
    pub(crate) attempts: u32,
    pub(crate) placing_until: Instant,
    /// Whether places were looked for since it was last sent.
    pub(crate) looked: bool,
}

impl Journey {
    /// A request that has not been sent yet.
    #[must_use]
    pub fn new(asleep: Asleep, source: Source) -> Self {
        let patience = if source == Source::Request { PLACING_TIMEOUT } else { PLACING_UNASKED_TIMEOUT };
        Self { asleep, source, lost_epoch: 0, gone_epoch: 0, attempts: 0, placing_until: Instant::now() + patience, looked: false }
    }
}

/// Whether a pod that answers so sends the request on to another.
#[must_use]
pub fn means_elsewhere(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::SessionGone | ErrorCode::ShuttingDown | ErrorCode::CapacityExhausted)
}

/// The pause before the attempt after `attempts` that failed.
#[must_use]
pub fn pause(attempts: u32) -> Duration {
    let doubled = PAUSE_MS_MIN.saturating_mul(1 << attempts.saturating_sub(1).min(16));
    Duration::from_millis(doubled.min(PAUSE_MS_MAX))
}

/// What a client hears when the last attempt failed so.
pub(crate) fn exhausted(error: &KernelError) -> ApiError {
    match error {
        KernelError::Refused(refusal) => refusal.clone(),
        KernelError::Garbled(message) => {
            ApiError::new(ErrorCode::Internal, format!("the kernel pod's answers cannot be understood: {message}"))
        }
        KernelError::Unreachable(_) | KernelError::Lost(_) | KernelError::CutOff => ApiError::new(
            ErrorCode::SessionGone,
            format!(
                "{ATTEMPTS_MAX} attempts to reach the session's kernel pod failed: send the request again with the same idempotencyKey"
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_stay_bounded() {
        let pauses: Vec<_> = (1..=12).map(|attempt| pause(attempt).as_millis()).collect();
        assert_eq!(pauses[..4], [10, 20, 40, 80]);
        assert_eq!(pauses.last(), Some(&1_000));
    }
}
