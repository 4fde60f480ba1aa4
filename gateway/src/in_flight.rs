//! A request on its way to a session: what it may do there, and how long it may go on. What follows a failure is `lifecycle::attempts`' to say.

use std::time::Duration;

use dormouse_lifecycle::attempts::{ATTEMPTS_MAX, Attempts, Failure, PROCESSES_LOST_MAX, Repeat};
use dormouse_protocol::{ApiError, ErrorCode};
use tokio::time::Instant;

use crate::{kernels::KernelError, metrics::Source};

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
pub struct InFlight {
    pub(crate) asleep: Asleep,
    pub(crate) source: Source,
    pub(crate) attempts: Attempts,
    pub(crate) placing_until: Instant,
    /// Whether places were looked for since it was last sent.
    pub(crate) looked: bool,
    /// What the last pod said that was to run its session and could not.
    pub(crate) refusal: Option<Refusal>,
    /// Whether its session is to begin as a new one does.
    pub(crate) anew: bool,
}

/// That a pod could not take a session.
pub(crate) struct Refusal {
    /// Its name.
    pub(crate) pod: String,
    /// Why.
    pub(crate) message: String,
}

impl InFlight {
    /// A request that has not been sent yet, and may arrive twice.
    #[must_use]
    pub fn new(asleep: Asleep, source: Source) -> Self {
        Self::repeating(asleep, source, Repeat::Freely)
    }

    /// The same of one that may arrive as often as `repeat` says.
    #[must_use]
    pub fn repeating(asleep: Asleep, source: Source, repeat: Repeat) -> Self {
        let placing = if source == Source::Request { PLACING_TIMEOUT } else { PLACING_UNASKED_TIMEOUT };
        let placing_until = Instant::now() + placing;
        Self { asleep, source, attempts: Attempts::new(repeat), placing_until, looked: false, refusal: None, anew: false }
    }

    /// A client's cell under a key.
    #[must_use]
    pub fn of_cell() -> Self {
        Self::repeating(Asleep::Refuse, Source::Request, Repeat::Endable)
    }
}

/// Whether a pod that answers so sends the request on to another.
#[must_use]
pub fn means_elsewhere(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::SessionGone | ErrorCode::ShuttingDown | ErrorCode::CapacityExhausted)
}

/// What an attempt met.
pub(crate) fn failure(error: &KernelError) -> Failure {
    match error {
        KernelError::Refused(refusal) => match refusal.code {
            ErrorCode::SessionGone => Failure::Gone { epoch: named_epoch(refusal) },
            code if means_elsewhere(code) => Failure::NoRoom,
            _ => Failure::Refused,
        },
        KernelError::Unreachable(_) => Failure::Unreachable,
        KernelError::Lost(_) | KernelError::CutOff => Failure::Lost,
        KernelError::Garbled(_) => Failure::Garbled,
    }
}

/// The epoch that has taken the session over, as a pod says it.
fn named_epoch(refusal: &ApiError) -> Option<u64> {
    refusal.details.as_ref()?.get("epoch")?.as_u64()
}

/// What a client hears when the last attempt failed so.
pub(crate) fn exhausted(error: &KernelError) -> ApiError {
    match error {
        KernelError::Refused(refusal) => refusal.clone(),
        KernelError::Garbled(message) => {
            ApiError::new(ErrorCode::Internal, format!("the kernel pod's answers cannot be understood: {message}"))
        }
        KernelError::Unreachable(_) | KernelError::Lost(_) | KernelError::CutOff => {
            let message = format!(
                "{ATTEMPTS_MAX} attempts to reach the session's kernel pod failed: send the request again with the idempotencyKey in details, if there is one"
            );
            ApiError::new(ErrorCode::SessionGone, message)
        }
    }
}

/// What a client hears when nobody knows what came of its request.
pub(crate) fn unknown(error: &KernelError) -> ApiError {
    tracing::info!(%error, "nobody knows what came of a request");
    let message = "the answer of the session's kernel pod was lost: the request may have been carried out or not. Look at the session, then decide whether to send it again";
    ApiError::new(ErrorCode::OutcomeUnknown, message)
}

/// What a client hears when as many processes as may have ended with its request under way.
pub(crate) fn deadly(error: &KernelError) -> ApiError {
    tracing::warn!(%error, "a request is not sent to one more process");
    let message = format!(
        "{PROCESSES_LOST_MAX} kernel pods or more ended while they carried out this request, so it is not sent to another: it may have been carried out or not. \
         Under the same idempotencyKey a cell is never done twice; before you send its code anew, find out what ends the pods"
    );
    ApiError::new(ErrorCode::OutcomeUnknown, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_that_names_the_sessions_owner_is_understood() {
        let gone = ApiError::new(ErrorCode::SessionGone, "taken over");
        assert_eq!(failure(&KernelError::Refused(gone.clone())), Failure::Gone { epoch: None });
        let named = gone.with_details(serde_json::json!({ "epoch": 41 }));
        assert_eq!(failure(&KernelError::Refused(named)), Failure::Gone { epoch: Some(41) });
        for (code, means) in [
            (ErrorCode::ShuttingDown, Failure::NoRoom),
            (ErrorCode::CapacityExhausted, Failure::NoRoom),
            (ErrorCode::SnapshotCorrupt, Failure::Refused),
        ] {
            assert_eq!(failure(&KernelError::Refused(ApiError::new(code, "m"))), means);
        }
        assert_eq!(failure(&KernelError::CutOff), Failure::Lost);
    }
}
