//! The words that conditions give as their reason: closed sets, one for each condition of each kind.

use dormouse_protocol::{ErrorCode, session::State};

/// Reasons of a pool's `Ready` condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolReason {
    /// At least one pod is ready.
    PodsReady,
    /// No session is awake and no pod is kept: the next request makes one.
    ScaledToZero,
    /// Pods are starting, or cannot start.
    PodsNotReady,
    /// The spec cannot be built.
    InvalidSpec,
    /// Neither the pool nor the operator names an object store.
    StorageNotConfigured,
    /// There are no credentials for the store, or the store refuses them.
    StorageCredentialsInvalid,
    /// The store cannot be reached, or has no such bucket.
    StorageUnavailable,
    /// The store does not keep conditional writes atomic.
    StorageUnsafe,
    /// There are no encryption keys where the spec says, or they are none.
    EncryptionKeysInvalid,
    /// It is being deleted, and stays as long as sessions are stored where it says.
    SessionsRemain,
}

impl PoolReason {
    const ALL: [Self; 10] = [
        Self::PodsReady,
        Self::ScaledToZero,
        Self::PodsNotReady,
        Self::InvalidSpec,
        Self::StorageNotConfigured,
        Self::StorageCredentialsInvalid,
        Self::StorageUnavailable,
        Self::StorageUnsafe,
        Self::EncryptionKeysInvalid,
        Self::SessionsRemain,
    ];

    /// The reason of this name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.to_string() == text)
    }

    /// Whether somebody must do something: a session repeats it in its own condition.
    #[must_use]
    pub fn is_trouble(self) -> bool {
        !matches!(self, Self::PodsReady | Self::ScaledToZero | Self::PodsNotReady | Self::SessionsRemain)
    }
}

/// Reasons of a broker's `Ready` condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokerReason {
    /// The pods of the current spec are available.
    Available,
    /// `replicas` is 0.
    ScaledToZero,
    /// Pods of the current spec are starting, or cannot start.
    PodsNotReady,
    /// A Secret, or a key in one, is not there.
    SecretNotFound,
    /// The spec cannot be built.
    InvalidSpec,
}

/// Reasons of a broker's `JournalStored` condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JournalReason {
    /// It is in the pool's storage.
    PoolStorage,
    /// There is no such pool.
    PoolNotFound,
    /// The pool has no storage.
    StorageNotConfigured,
    /// The pool's credentials are not there yet.
    CredentialsNotReady,
}

/// Reasons of a session's `Ready` condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionReason {
    /// What it is doing; never `Failed`.
    State(State),
    /// It cannot run, with this error.
    Failed(ErrorCode),
    /// Its pool cannot run it, or its store keeps it from being deleted.
    Pool(PoolReason),
    /// It is being deleted, and its pool is gone without which nobody knows where it is stored.
    PoolNotFound,
    /// Its pod is not ready and tells nothing: nobody knows what it is doing, as when its node is lost. The condition is `Unknown`.
    PodUnreachable,
}

impl SessionReason {
    /// The state that a condition with this reason tells of. `ready`: whether its status is `True`.
    #[must_use]
    pub fn state(reason: &str, ready: bool) -> State {
        const TOLD: [State; 6] =
            [State::Running, State::Idle, State::WaitingForTool, State::WaitingForApproval, State::Hibernated, State::Waking];
        let told = TOLD.into_iter().find(|state| state.to_string() == reason);
        // The next request wakes it, wherever that is.
        let unreachable = (reason == Self::PodUnreachable.to_string()).then_some(State::Waking);
        told.or(unreachable).unwrap_or(if ready { State::Waking } else { State::Failed })
    }
}

/// Reasons of a session's `Hibernated` condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HibernatedReason {
    /// It holds no slot, and its last commit is in storage.
    Hibernated,
    /// It is live, on its way there, or nothing of it is stored yet.
    Awake,
    /// It has a process, which has not told of it yet: the condition is `Unknown`.
    NotReported,
}

/// Reasons of a quota's `Exceeded` condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExceededReason {
    /// Of a limit nothing is left.
    LimitReached,
    /// Of every limit something is left.
    WithinLimits,
}

macro_rules! named_as_written {
    ($($reason:ty),*) => {
        $(impl std::fmt::Display for $reason {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(self, f)
            }
        })*
    };
}
named_as_written!(PoolReason, BrokerReason, JournalReason, HibernatedReason, ExceededReason);

impl std::fmt::Display for SessionReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::State(state) => state.fmt(f),
            Self::Failed(code) => code.fmt(f),
            Self::Pool(reason) => reason.fmt(f),
            Self::PoolNotFound => f.write_str("PoolNotFound"),
            Self::PodUnreachable => f.write_str("PodUnreachable"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_of_a_pool_reads_back() {
        for reason in PoolReason::ALL {
            assert_eq!(PoolReason::parse(&reason.to_string()), Some(reason));
        }
        assert_eq!(PoolReason::parse("Whatever"), None);
    }

    #[test]
    fn a_reason_that_is_no_state_is_a_failure_while_the_session_is_not_ready() {
        assert_eq!(SessionReason::state(&SessionReason::State(State::WaitingForTool).to_string(), true), State::WaitingForTool);
        assert_eq!(SessionReason::state(&SessionReason::Failed(ErrorCode::SnapshotCorrupt).to_string(), false), State::Failed);
        assert_eq!(SessionReason::state(&SessionReason::Pool(PoolReason::StorageUnsafe).to_string(), false), State::Failed);
        assert_eq!(SessionReason::state("NewerThanThisProcess", true), State::Waking);
        assert_eq!(SessionReason::state(&SessionReason::PodUnreachable.to_string(), false), State::Waking);
    }
}
