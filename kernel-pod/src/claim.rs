//! An assignment that is only claimed so far: its gateway writes it into status while the session is restored here and its cell runs.
//!
//! Until it is [confirmed](Claim::confirm), nothing is answered, no call leaves and nobody is told of the session. A claim that is
//! [withdrawn](Claim::withdraw) never was: its instance is dropped. Which of the two comes first stands.

use std::sync::Arc;

use tokio::sync::watch;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Open,
    Confirmed,
    Withdrawn,
}

/// A claim. Clones are the same claim. One that everybody has dropped without a word stays open for nobody.
#[derive(Debug, Clone)]
pub struct Claim {
    verdict: Arc<watch::Sender<Verdict>>,
}

impl Default for Claim {
    fn default() -> Self {
        Self { verdict: Arc::new(watch::Sender::new(Verdict::Open)) }
    }
}

impl Claim {
    /// Status has the assignment.
    pub fn confirm(&self) {
        self.decide(Verdict::Confirmed);
    }

    /// Status does not have it, or whoever would say so is gone.
    pub fn withdraw(&self) {
        self.decide(Verdict::Withdrawn);
    }

    fn decide(&self, verdict: Verdict) {
        self.verdict.send_if_modified(|now| {
            let open = *now == Verdict::Open;
            if open {
                *now = verdict;
            }
            open
        });
    }

    /// Waits for the verdict; whether it is confirmed.
    pub async fn confirmed(&self) -> bool {
        let mut verdict = self.verdict.subscribe();
        // The sender is `self`'s: it cannot be gone.
        verdict.wait_for(|verdict| *verdict != Verdict::Open).await.is_ok_and(|verdict| *verdict == Verdict::Confirmed)
    }

    /// Whether it was confirmed.
    #[must_use]
    pub fn is_confirmed(&self) -> bool {
        *self.verdict.borrow() == Verdict::Confirmed
    }

    /// Whether it was withdrawn.
    #[must_use]
    pub fn is_withdrawn(&self) -> bool {
        *self.verdict.borrow() == Verdict::Withdrawn
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn the_first_word_stands() {
        let (one, two) = (Claim::default(), Claim::default());
        assert_eq!(one.confirmed().now_or_never(), None);
        one.confirm();
        one.withdraw();
        two.withdraw();
        two.confirm();
        assert_eq!((one.confirmed().now_or_never(), two.confirmed().now_or_never()), (Some(true), Some(false)));
        assert!(two.is_withdrawn() && !one.is_withdrawn());
    }
}
