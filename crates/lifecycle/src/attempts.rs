//! What becomes of a request when an attempt to have a process carry it out has failed.
//!
//! Values in, values out: whoever sends says what it met, and asks the process whether it lives where [`Attempts::must_ask`] says so.

use std::time::Duration;

/// Times that one request is sent to a process, the first included.
pub const ATTEMPTS_MAX: u32 = 10;

/// Processes that may end with one request under way. What ends one may be chance, and is the request's own doing before long: it is not taken to
/// another and another to be carried out.
pub const PROCESSES_LOST_MAX: u32 = 2;

/// Pause before the second attempt, in milliseconds; each next one is twice as long.
pub const PAUSE_MS_MIN: u64 = 10;

/// Longest pause between attempts, in milliseconds.
pub const PAUSE_MS_MAX: u64 = 1_000;

/// How far a process may move a session's epoch by saying that a later one has taken it over. Further than a directory that was put back from
/// a backup can be behind; not so far that a process which lies uses epochs up.
pub const EPOCH_JUMP_MAX: u64 = 1 << 32;

/// Whether an epoch may come after `highest`, the highest that was seen. No owner's is further ahead, and from one that is not the session gets away
/// with two jumps: an epoch that nothing can come after would shut its owner out for good.
#[must_use]
pub fn may_follow(highest: u64, epoch: u64) -> bool {
    epoch <= highest.saturating_add(2 * EPOCH_JUMP_MAX)
}

/// Whether a request may arrive twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// Yes: it changes nothing, or changes the same thing again, or a key by which its first arrival is known travels with it.
    Freely,
    /// Yes, by such a key, and a process can record an end under it without carrying it out.
    Endable,
    /// No: once it may have arrived, nobody knows what came of it.
    IfUnseen,
}

/// What an attempt met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The process cannot be connected to: it has not seen the request.
    Unreachable,
    /// The request had left when the connection failed.
    Lost,
    /// What came back cannot be understood.
    Garbled,
    /// The session is not there.
    Gone {
        /// The epoch that has taken it over, as far as the process knows.
        epoch: Option<u64>,
    },
    /// The process takes no session: it is full, or stopping.
    NoRoom,
    /// The process has answered, with an error of its own.
    Refused,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The process's error is the answer.
    Answer,
    /// Send it again after this pause, to wherever the session is then.
    Again(Duration),
    /// Nobody knows what came of it: say so.
    Unknown,
    /// As many processes as may have ended while they had it: after this pause, another is to find out what came of it, and to end it unless that is known.
    End(Duration),
    /// The same, and none can end it, or that one ended, too: nobody knows what came of it, and it is not sent to another.
    Deadly,
    /// It was sent often enough.
    Exhausted,
}

/// The name of a session belongs to another object than at the beginning of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the session was deleted; another has its name")]
pub struct AnotherSession;

/// What is known of one request that is under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempts {
    repeat: Repeat,
    failed: u32,
    /// Attempts that met a process without room.
    roomless: u32,
    /// Processes that had the request and have ended.
    processes_lost: u32,
    /// Placements of this epoch and below have failed the request.
    lost_epoch: u64,
    /// The process of this epoch lives and has said once that the session is not there.
    gone_epoch: u64,
    /// The session that it is for.
    uid: Option<String>,
}

impl Attempts {
    /// A request that has not been sent yet.
    #[must_use]
    pub fn new(repeat: Repeat) -> Self {
        Self { repeat, failed: 0, roomless: 0, processes_lost: 0, lost_epoch: 0, gone_epoch: 0, uid: None }
    }

    /// Attempts that have failed.
    #[must_use]
    pub fn failed(&self) -> u32 {
        self.failed
    }

    /// Whether as many processes have ended as may: from then on it is not carried out.
    #[must_use]
    pub fn is_to_end(&self) -> bool {
        self.processes_lost >= PROCESSES_LOST_MAX
    }

    /// Placements up to this epoch are of no use, and the next one must be above it.
    #[must_use]
    pub fn lost_epoch(&self) -> u64 {
        self.lost_epoch
    }

    /// Holds the request to the session that it met first.
    ///
    /// # Errors
    /// `uid` is another one's: whatever was sent before, was sent to a session that is gone.
    pub fn meet(&mut self, uid: &str) -> Result<(), AnotherSession> {
        match &self.uid {
            Some(met) if met != uid => Err(AnotherSession),
            Some(_) => Ok(()),
            None => {
                self.uid = Some(uid.to_owned());
                Ok(())
            }
        }
    }

    /// Whether the process of `epoch` has to be asked if it lives before [`Self::after`] can tell what to do.
    #[must_use]
    pub fn must_ask(&self, failure: Failure, epoch: u64) -> bool {
        match failure {
            // A session that was just put to sleep is gone for whoever waited for it, and wakes where it is: a move, which costs a write, is for
            // those that say so twice, or that name their successor.
            Failure::Gone { epoch: successor } => successor.is_none() && self.gone_epoch != epoch,
            Failure::Unreachable | Failure::Lost => !self.ends(failure),
            Failure::Garbled | Failure::NoRoom | Failure::Refused => false,
        }
    }

    /// What to do after an attempt under a placement of `epoch` has failed; `lives` is the answer of the process, if it was asked.
    pub fn after(&mut self, failure: Failure, epoch: u64, lives: bool) -> Next {
        match failure {
            Failure::Refused => return Next::Answer,
            failure if self.ends(failure) => return Next::Unknown,
            _ => {}
        }
        let elsewhere = match failure {
            Failure::Gone { epoch: Some(successor) } => {
                self.lost_epoch = self.lost_epoch.max(successor.min(epoch.saturating_add(EPOCH_JUMP_MAX)));
                true
            }
            Failure::Gone { epoch: None } if lives && self.gone_epoch != epoch => {
                self.gone_epoch = epoch;
                false
            }
            Failure::Gone { epoch: None } => true,
            Failure::Unreachable | Failure::Lost => !lives,
            Failure::Garbled | Failure::NoRoom | Failure::Refused => false,
        };
        if failure == Failure::NoRoom {
            // It waits for a slot as long as its time to find a place lasts, not for a number of attempts.
            self.roomless = self.roomless.saturating_add(1);
            self.lost_epoch = self.lost_epoch.max(epoch);
            return Next::Again(pause(self.roomless));
        }
        self.failed += 1;
        if failure == Failure::Lost && !lives {
            self.processes_lost += 1;
            if self.is_to_end() {
                self.lost_epoch = self.lost_epoch.max(epoch);
                let last = self.repeat == Repeat::Endable && self.processes_lost == PROCESSES_LOST_MAX;
                return if last { Next::End(pause(self.failed)) } else { Next::Deadly };
            }
        }
        if self.failed >= ATTEMPTS_MAX {
            return Next::Exhausted;
        }
        if elsewhere {
            self.lost_epoch = self.lost_epoch.max(epoch);
        }
        Next::Again(pause(self.failed))
    }

    fn ends(&self, failure: Failure) -> bool {
        self.repeat == Repeat::IfUnseen && matches!(failure, Failure::Lost | Failure::Garbled)
    }
}

/// The pause before the attempt after `failed` that failed.
#[must_use]
pub fn pause(failed: u32) -> Duration {
    let doubled = PAUSE_MS_MIN.saturating_mul(1 << failed.saturating_sub(1).min(16));
    Duration::from_millis(doubled.min(PAUSE_MS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(next: Next) -> bool {
        matches!(next, Next::Again(_))
    }

    #[test]
    fn pauses_grow_and_stay_bounded() {
        let pauses: Vec<_> = (1..=12).map(|failed| pause(failed).as_millis()).collect();
        assert_eq!(pauses[..4], [10, 20, 40, 80]);
        assert_eq!(pauses.last(), Some(&1_000));
    }

    #[test]
    fn what_must_not_arrive_twice_is_not_sent_again_once_it_may_have_arrived() {
        let mut attempts = Attempts::new(Repeat::IfUnseen);
        assert!(again(attempts.after(Failure::Unreachable, 1, false)));
        assert!(again(attempts.after(Failure::Gone { epoch: None }, 2, true)));
        assert!(again(attempts.after(Failure::NoRoom, 2, true)));
        for failure in [Failure::Lost, Failure::Garbled] {
            assert!(!attempts.must_ask(failure, 3));
            assert_eq!(attempts.clone().after(failure, 3, true), Next::Unknown);
            assert!(again(Attempts::new(Repeat::Freely).after(failure, 3, true)));
        }
    }

    #[test]
    fn a_session_that_lives_says_twice_that_it_is_gone_before_it_moves() {
        let mut attempts = Attempts::new(Repeat::Freely);
        let gone = Failure::Gone { epoch: None };
        assert!(attempts.must_ask(gone, 4));
        assert!(again(attempts.after(gone, 4, true)));
        assert_eq!(attempts.lost_epoch(), 0);
        assert!(!attempts.must_ask(gone, 4));
        assert!(again(attempts.after(gone, 4, false)));
        assert_eq!(attempts.lost_epoch(), 4);
    }

    #[test]
    fn an_owner_that_is_named_is_believed_at_once_and_within_bounds() {
        let mut attempts = Attempts::new(Repeat::Freely);
        let named = Failure::Gone { epoch: Some(41) };
        assert!(!attempts.must_ask(named, 5));
        assert!(again(attempts.after(named, 5, false)));
        assert_eq!(attempts.lost_epoch(), 41);
        attempts.after(Failure::Gone { epoch: Some(u64::MAX) }, 42, false);
        assert_eq!(attempts.lost_epoch(), 42 + EPOCH_JUMP_MAX);
        attempts.after(Failure::Gone { epoch: Some(3) }, 2 * EPOCH_JUMP_MAX, false);
        assert_eq!(attempts.lost_epoch(), 2 * EPOCH_JUMP_MAX, "an epoch below its own says nothing of a successor");
    }

    #[test]
    fn an_epoch_that_nothing_can_follow_is_none() {
        assert!(may_follow(0, 1) && may_follow(7, 7) && may_follow(7, 7 + 2 * EPOCH_JUMP_MAX));
        assert!(!may_follow(7, 8 + 2 * EPOCH_JUMP_MAX) && !may_follow(0, u64::MAX));
        // Two jumps are enough to come after the highest that a lie can reach.
        let mut attempts = Attempts::new(Repeat::Freely);
        let mut epoch = 1;
        for _ in 0..3 {
            attempts.after(Failure::Gone { epoch: Some(1 + 2 * EPOCH_JUMP_MAX) }, epoch, false);
            epoch = attempts.lost_epoch() + 1;
        }
        assert!(epoch > 1 + 2 * EPOCH_JUMP_MAX);
    }

    #[test]
    fn a_process_that_lives_is_asked_again_and_one_that_does_not_is_left() {
        let mut attempts = Attempts::new(Repeat::Freely);
        assert!(attempts.must_ask(Failure::Lost, 1) && attempts.must_ask(Failure::Unreachable, 1));
        attempts.after(Failure::Lost, 1, true);
        assert_eq!(attempts.lost_epoch(), 0);
        attempts.after(Failure::Unreachable, 1, false);
        assert_eq!(attempts.lost_epoch(), 1);
    }

    #[test]
    fn a_request_that_ends_its_processes_is_not_sent_to_one_more() {
        let mut attempts = Attempts::new(Repeat::Freely);
        for epoch in 1..PROCESSES_LOST_MAX {
            assert!(again(attempts.after(Failure::Unreachable, u64::from(epoch), false)), "it never had it");
            assert!(again(attempts.after(Failure::Lost, u64::from(epoch), true)), "it lives");
            assert!(again(attempts.after(Failure::Lost, u64::from(epoch), false)));
        }
        assert_eq!(attempts.after(Failure::Lost, 9, false), Next::Deadly);
    }

    #[test]
    fn a_cell_that_ends_its_processes_is_ended_by_one_more() {
        let mut attempts = Attempts::new(Repeat::Endable);
        for epoch in 1..PROCESSES_LOST_MAX {
            assert!(again(attempts.after(Failure::Lost, u64::from(epoch), false)) && !attempts.is_to_end());
        }
        assert!(matches!(attempts.after(Failure::Lost, 9, false), Next::End(_)));
        assert!(attempts.is_to_end() && attempts.lost_epoch() == 9);
        assert!(again(attempts.after(Failure::NoRoom, 10, true)), "it looks for one that can");
        assert_eq!(attempts.after(Failure::Lost, 11, false), Next::Deadly);
    }

    #[test]
    fn attempts_are_bounded_and_an_error_of_the_process_ends_them() {
        let mut attempts = Attempts::new(Repeat::Freely);
        assert_eq!(attempts.after(Failure::Refused, 1, true), Next::Answer);
        for _ in 1..ATTEMPTS_MAX {
            assert!(again(attempts.after(Failure::Garbled, 1, true)));
        }
        assert_eq!(attempts.after(Failure::Garbled, 1, true), Next::Exhausted);
    }

    #[test]
    fn who_finds_no_room_goes_on_looking_elsewhere() {
        let mut attempts = Attempts::new(Repeat::Freely);
        for epoch in 1..10 * u64::from(ATTEMPTS_MAX) {
            assert!(again(attempts.after(Failure::NoRoom, epoch, true)));
            assert_eq!(attempts.lost_epoch(), epoch);
        }
        assert_eq!(attempts.failed(), 0);
    }

    #[test]
    fn a_request_is_held_to_the_session_that_it_met_first() {
        let mut attempts = Attempts::new(Repeat::Freely);
        assert_eq!((attempts.meet("one"), attempts.meet("one"), attempts.meet("two")), (Ok(()), Ok(()), Err(AnotherSession)));
    }
}
