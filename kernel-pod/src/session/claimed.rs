//! A session whose assignment is only claimed so far: what has to wait for the verdict.

use dormouse_lifecycle::claim::may_commit;
use dormouse_protocol::{ApiError, ErrorCode};

use super::actor::Actor;
use super::{Fault, gone};
use crate::claim::Claim;

impl Actor {
    /// Waits until the claim is confirmed, if the assignment is one; then lets leave what was held back.
    pub(super) async fn settle_claim(&mut self) -> Result<(), Fault> {
        let Some(claim) = self.claim.clone() else { return Ok(()) };
        if !claim.confirmed().await {
            return Err(withdrawn());
        }
        self.claim = None;
        let caller = self.caller();
        if let Some(live) = self.phase.live_mut() {
            // What the state that is restored has settled is not known to be committed.
            live.in_flight.follow(&live.state, caller.as_ref(), 0);
        }
        Ok(())
    }

    /// The same before a commit that must not be made under a mere claim.
    pub(super) async fn settle_claim_to_commit(&mut self) -> Result<(), Fault> {
        if self.phase.live().is_some_and(|live| !may_commit(&live.owned)) { self.settle_claim().await } else { self.unless_withdrawn() }
    }

    /// Waits until the store may be used, for as long as the claim stands: nobody else has the pod meanwhile that runs one session in its life.
    pub(super) async fn ready(&self) -> Result<(), Fault> {
        tokio::select! {
            biased;
            () = falls(self.claim.as_ref()) => Err(withdrawn()),
            ready = self.host.storage.ready() => ready.map_err(unready),
        }
    }

    /// Fails once the claim is withdrawn: nothing more needs to be done under it.
    pub(super) fn unless_withdrawn(&self) -> Result<(), Fault> {
        if self.claim.as_ref().is_some_and(Claim::is_withdrawn) { Err(withdrawn()) } else { Ok(()) }
    }
}

/// Ends when the claim is withdrawn; never without one.
async fn falls(claim: Option<&Claim>) {
    match claim {
        Some(claim) if !claim.confirmed().await => {}
        _ => std::future::pending().await,
    }
}

fn withdrawn() -> Fault {
    Fault::Gone(gone("the gateway that claimed the session for this pod has withdrawn"))
}

/// A store that cannot be used is what the session fails by; without credentials for it there may be some elsewhere.
fn unready(error: ApiError) -> Fault {
    if error.code == ErrorCode::CapacityExhausted { Fault::Unavailable(error) } else { Fault::Failed(error) }
}
