//! How one certificate authority follows another without anybody being refused: everybody trusts the next one before it signs anything, and the last one as
//! long as something that it has signed may be in use.

use std::time::Duration;

/// Where an authority stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It signs, and nobody trusts another.
    Settled,
    /// It signs, and everybody is to trust the next one, too.
    Announced,
    /// The next one signs, and everybody still trusts it.
    Switched,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Nothing yet.
    Stay,
    /// Make the next authority, and have it trusted.
    Announce,
    /// Let it sign.
    Switch,
    /// Trust the old one no more.
    Finish,
}

/// What comes next for an authority in `stage`. `held_for` is how long everybody's certificate and trust have been as the stage wants them, `None` while
/// somebody's are not; after `overlap` all processes are taken to have read theirs.
#[must_use]
pub fn step(stage: Stage, is_due: bool, held_for: Option<Duration>, overlap: Duration) -> Step {
    let held = held_for.is_some_and(|held_for| held_for >= overlap);
    match stage {
        // A step that an operator could not finish is finished first.
        Stage::Settled if is_due && held_for.is_some() => Step::Announce,
        Stage::Announced if held => Step::Switch,
        Stage::Switched if held => Step::Finish,
        Stage::Settled | Stage::Announced | Stage::Switched => Step::Stay,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OVERLAP: Duration = Duration::from_secs(300);
    const JUST_BEFORE: Duration = Duration::from_secs(299);

    #[test]
    fn an_authority_is_followed_when_it_is_due_and_everybody_has_what_it_signed() {
        assert_eq!(step(Stage::Settled, false, Some(OVERLAP), OVERLAP), Step::Stay);
        assert_eq!(step(Stage::Settled, true, None, OVERLAP), Step::Stay);
        assert_eq!(step(Stage::Settled, true, Some(Duration::ZERO), OVERLAP), Step::Announce);
    }

    #[test]
    fn nobody_signs_or_goes_before_everybody_has_had_the_time_to_know() {
        for (stage, next) in [(Stage::Announced, Step::Switch), (Stage::Switched, Step::Finish)] {
            for is_due in [false, true] {
                assert_eq!(step(stage, is_due, None, OVERLAP), Step::Stay);
                assert_eq!(step(stage, is_due, Some(JUST_BEFORE), OVERLAP), Step::Stay);
                assert_eq!(step(stage, is_due, Some(OVERLAP), OVERLAP), next);
            }
        }
    }
}
