//! Calls that wait for somebody, and what was decided about them.

use serde::{Deserialize, Serialize};

use super::{CALLS_MAX, CallPage, Refusal};

/// A call that was told to wait.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Waiting {
    fingerprint: String,
    /// The epoch in which it was made. The session asks again in later ones.
    epoch: u64,
}

/// What was decided about a call that waited for somebody.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// Tells one from another.
    pub id: String,
    /// The epoch in which the call was made that it is about.
    pub epoch: u64,
    /// Which.
    pub verdict: Verdict,
    /// Who decided; empty for time.
    pub by: String,
}

/// See [`Decision`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// The call with these tool and arguments is made.
    Approved {
        /// The digest of what was seen.
        digest: String,
        /// The arguments instead, if they were changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<serde_json::Value>,
    },
    /// It is not made.
    Denied {
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Nobody decided in time.
    Expired,
}

/// Decisions on a page at most.
pub const DECISIONS_MAX: usize = 256;

/// Calls that wait for somebody, on a page at most.
pub const PARKED_MAX: usize = CALLS_MAX;

/// Bytes of one decision, as JSON.
pub const DECISION_BYTES_MAX: usize = 64 << 10;

/// Bytes of all decisions on a page.
pub const DECISIONS_BYTES_MAX: usize = 512 << 10;

/// Why a decision is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Undecided {
    /// It is too large.
    #[error("a decision has {DECISION_BYTES_MAX} bytes at most, with the changed arguments")]
    TooLarge,
    /// There are too many that nobody has used.
    #[error("{DECISIONS_MAX} decisions, or {DECISIONS_BYTES_MAX} bytes of them, wait for this session to take them")]
    TooMany,
    /// The call is over.
    #[error("the call is over")]
    Over,
    /// It is about a call that was made in another epoch.
    #[error("the call that waits was made in epoch {made_in}")]
    AnotherEpoch {
        /// The epoch of the call that waits.
        made_in: u64,
    },
}

impl CallPage {
    /// What was decided about a call.
    #[must_use]
    pub fn decision(&self, call: u64) -> Option<&Decision> {
        self.decisions.get(&call)
    }

    /// Writes down what was decided about a call, unless something was; answers what stands. It stands when this page is stored; not before.
    ///
    /// # Errors
    /// There is no room for it, the call is over, or the one that waits was made in another epoch.
    pub fn decide(&mut self, call: u64, decision: &Decision) -> Result<Decision, Undecided> {
        if let Some(standing) = self.decisions.get(&call) {
            return Ok(standing.clone());
        }
        if call < self.settled_below || self.calls.contains_key(&call) {
            return Err(Undecided::Over);
        }
        if let Some(made_in) = self.made_in(call).filter(|made_in| *made_in != decision.epoch) {
            return Err(Undecided::AnotherEpoch { made_in });
        }
        let size = |decision: &Decision| serde_json::to_vec(decision).map_or(usize::MAX, |json| json.len());
        if size(decision) > DECISION_BYTES_MAX {
            return Err(Undecided::TooLarge);
        }
        let all: usize = self.decisions.values().map(size).sum();
        if self.decisions.len() >= DECISIONS_MAX || all + size(decision) > DECISIONS_BYTES_MAX {
            return Err(Undecided::TooMany);
        }
        if self.first == 0 {
            self.first = call;
            decision.id.clone_into(&mut self.chain);
        }
        self.decisions.insert(call, decision.clone());
        Ok(decision.clone())
    }

    /// The epoch in which a call was made that waits for somebody.
    #[must_use]
    pub fn made_in(&self, call: u64) -> Option<u64> {
        self.parked.get(&call).map(|waiting| waiting.epoch)
    }

    /// Writes down that a call of this epoch waits for somebody. It does when this page is stored; not before.
    ///
    /// # Errors
    /// Too many do.
    pub fn park(&mut self, call: u64, epoch: u64, fingerprint: &str, attempt: &str) -> Result<(), Refusal> {
        if self.parked.contains_key(&call) || self.calls.contains_key(&call) || call < self.settled_below {
            return Ok(());
        }
        if self.parked.len() >= PARKED_MAX {
            return Err(Refusal::TooMany);
        }
        if self.first == 0 {
            self.first = call;
            attempt.clone_into(&mut self.chain);
        }
        self.parked.insert(call, Waiting { fingerprint: fingerprint.to_owned(), epoch });
        Ok(())
    }

    /// Whether this very call was told to wait, and has not been made.
    #[must_use]
    pub fn is_parked(&self, call: u64, fingerprint: &str) -> bool {
        self.parked.get(&call).is_some_and(|waiting| waiting.fingerprint == fingerprint)
    }
}
