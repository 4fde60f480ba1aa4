//! Which sessions a pool has to have slots for, beyond those that hold one.

use dormouse_crds::session::{KernelSessionSpec, KernelSessionStatus, OperatingMode};
use jiff::{SignedDuration, Timestamp};

/// Whether a session has yet to store anything and is to run: somebody starts it, and until then nobody reports of it.
#[must_use]
pub fn has_to_start(spec: &KernelSessionSpec, status: Option<&KernelSessionStatus>, deleting: bool) -> bool {
    let stored = status.is_some_and(|status| status.snapshot.is_some());
    !deleting && !stored && spec.operating_mode != OperatingMode::Hibernated
}

/// How long it is believed that somebody waits for a session whose pool had no pod. A pod may take that long to start.
pub const WAKE_BELIEVED: SignedDuration = SignedDuration::from_secs(180);
/// How often it is written while somebody waits. Clocks that differ by less than what lies between this and [`WAKE_BELIEVED`] do no harm.
pub const WAKE_REQUESTED_EVERY: SignedDuration = SignedDuration::from_secs(30);

/// How much longer it is believed that somebody waits for the session, because its status says so.
#[must_use]
pub fn wake_believed(status: &KernelSessionStatus, now: Timestamp) -> Option<SignedDuration> {
    let since = now.duration_since(status.wake_requested_time.as_deref()?.parse().ok()?);
    let left = WAKE_BELIEVED.checked_sub(since)?;
    (left.is_positive() && since > -WAKE_BELIEVED).then(|| left.min(WAKE_BELIEVED))
}

/// Whether the status has to say again that somebody waits for the session.
#[must_use]
pub fn wake_is_to_be_requested(status: &KernelSessionStatus, now: Timestamp) -> bool {
    let said = status.wake_requested_time.as_deref().and_then(|time| time.parse::<Timestamp>().ok());
    said.is_none_or(|said| now.duration_since(said).abs() >= WAKE_REQUESTED_EVERY)
}

#[cfg(test)]
mod tests {
    use dormouse_crds::session::{Placement, SnapshotStatus};

    use super::*;

    #[test]
    fn a_session_has_to_start_until_something_of_it_is_stored_placed_or_not() {
        let spec = KernelSessionSpec::default();
        let placement = Placement { pod: "p".to_owned(), pod_uid: "pu".to_owned(), boot: "b".to_owned(), epoch: 1 };
        let mut status = KernelSessionStatus { placement: Some(placement), ..KernelSessionStatus::default() };
        assert!(has_to_start(&spec, None, false));
        assert!(has_to_start(&spec, Some(&status), false), "the pod that it was placed on may have refused it");
        assert!(!has_to_start(&spec, Some(&status), true));
        let asleep = KernelSessionSpec { operating_mode: OperatingMode::Hibernated, ..spec.clone() };
        assert!(!has_to_start(&asleep, Some(&status), false));
        let (engine_digest, time) = (String::new(), String::new());
        status.snapshot = Some(SnapshotStatus { epoch: 1, sequence: 1, bytes: 1, engine_digest, time, encrypted: false });
        assert!(!has_to_start(&spec, Some(&status), false));
    }

    #[test]
    fn a_request_for_a_pod_is_believed_for_a_while_whichever_clock_is_ahead() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let said = |seconds: i64| KernelSessionStatus {
            wake_requested_time: Some((now - SignedDuration::from_secs(seconds)).to_string()),
            ..KernelSessionStatus::default()
        };
        let believed = |seconds| wake_believed(&said(seconds), now).map(|left| left.as_secs());
        assert_eq!([0, 179, 180, 9_000].map(believed), [Some(180), Some(1), None, None]);
        assert_eq!([-60, -179, -180].map(believed), [Some(180), Some(180), None], "of a gateway whose clock is ahead");
        assert_eq!(wake_believed(&KernelSessionStatus::default(), now), None);
        let again = [29, 30, -29, -30].map(|seconds| wake_is_to_be_requested(&said(seconds), now));
        assert_eq!((again, wake_is_to_be_requested(&KernelSessionStatus::default(), now)), ([false, true, false, true], true));
    }
}
