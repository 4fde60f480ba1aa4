//! What a pod is asked that runs one session in its life, and its end.

use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use dormouse_protocol::kernel::Grant;
use dormouse_protocol::{ApiError, ErrorCode};
use tokio::time::Instant;

use super::{Pod, Shared};
use crate::dedicated::Only;
use crate::session::gone;

/// How long a pod that was given what its session needs waits for it: when it does not come, or cannot begin, the pod ends, since it is good for no other.
const UNUSED_MAX: Duration = Duration::from_secs(60);

/// Pause between two looks for that.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

impl Pod {
    /// Takes what the operator gives it for its session, which is this one from then on; the same session's again in place of what it has.
    ///
    /// # Errors
    /// `SessionGone`: another process is meant, or this one is stopping. `CapacityExhausted`: it has another session. `InvalidRequest`: it is no pod
    /// that runs one session in its life, or what is given cannot be used.
    pub fn grant(&self, grant: &Grant) -> Result<(), ApiError> {
        let only = self.only(&grant.boot)?;
        let host = self.host();
        if self.shared.draining.load(Ordering::SeqCst) {
            return Err(gone("the pod is stopping"));
        }
        if only.grant(grant)? {
            tracing::info!(uid = grant.uid, "the credentials of the pod's session are here");
            host.storage.granted();
            host.reports.pod(self.info());
        }
        Ok(())
    }

    /// The one session of this process.
    fn only(&self, boot: &str) -> Result<&Only, ApiError> {
        let host = self.host();
        let no_such = || ApiError::new(ErrorCode::InvalidRequest, "this pod is not one that runs a single session in its life");
        let only = host.only.as_ref().ok_or_else(no_such)?;
        if boot != host.boot { Err(gone("this is another process than the one that is meant")) } else { Ok(only) }
    }

    /// Ends the pod when nobody uses it who could.
    pub(super) fn end_unused(&self) {
        if self.host().only.is_some() {
            tokio::spawn(end_unused(Weak::clone(&self.shared.me)));
        }
    }
}

impl Shared {
    /// Whether the session has a slot, is about to have one, or is not stored.
    fn is_needed(&self, only: &Only) -> bool {
        only.is_held() || self.host.slots.used() > 0
    }
}

/// It must not keep the pod alive.
async fn end_unused(shared: Weak<Shared>) {
    let mut used = Instant::now();
    loop {
        tokio::time::sleep(LOOK_INTERVAL).await;
        let Some(shared) = shared.upgrade() else { return };
        let Some(only) = &shared.host.only else { return };
        if !only.is_taken() || shared.is_needed(only) {
            used = Instant::now();
        } else if !only.has_grant() {
            only.leave();
            shared.host.reports.pod(shared.info());
        } else if used.elapsed() >= UNUSED_MAX {
            tracing::info!("nobody runs the session that the pod was given to");
            return only.end();
        }
    }
}
