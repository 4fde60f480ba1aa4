//! Which of several equal processes is the first to do something for a session that nobody asked for.
//!
//! Every one of them could do it, and only one can: a compare-and-swap decides. So that not all try at once, they stand in an order that is another one for
//! each session (rendezvous hashing: Thaler and Ravishankar, 1998), and each gives those before it some time. Nothing rests on all knowing the same of each
//! other: whoever is not there any more costs that time, and who is not known of tries too early.

use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64;

/// How long one process gives each of those before it.
pub const HEAD_START: Duration = Duration::from_secs(3);
/// How many of those before it a process waits for: with more of them it is enough if one of the first lives.
pub const HEAD_STARTS_MAX: u32 = 5;

/// How long `me` waits until it does something for the session of this uid, where `all` are there.
#[must_use]
pub fn wait<'a>(session: &str, me: &str, all: impl IntoIterator<Item = &'a str>) -> Duration {
    let mine = rank(session, me);
    let before = all.into_iter().filter(|other| rank(session, other) > mine).count();
    HEAD_START * u32::try_from(before).unwrap_or(HEAD_STARTS_MAX).min(HEAD_STARTS_MAX)
}

/// The one that does not wait, of `all`.
#[must_use]
pub fn first<'a>(session: &str, all: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    all.into_iter().max_by_key(|process| rank(session, process))
}

fn rank<'a>(session: &str, process: &'a str) -> (u64, &'a str) {
    (xxh3_64(&[session.as_bytes(), b"/", process.as_bytes()].concat()), process)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first<'a>(session: &str, all: &[&'a str]) -> &'a str {
        let firsts: Vec<&str> = all.iter().copied().filter(|me| wait(session, me, all.iter().copied()).is_zero()).collect();
        assert_eq!(firsts.len(), 1, "one is the first, whoever asks");
        assert_eq!(super::first(session, all.iter().copied()), Some(firsts[0]));
        firsts[0]
    }

    #[test]
    fn each_session_has_one_process_before_all_others_and_all_processes_have_their_share() {
        let all = ["a", "b", "c"];
        let sessions: Vec<String> = (0..3_000).map(|number| format!("session-{number}")).collect();
        for one in all {
            let share = sessions.iter().filter(|session| first(session, &all) == one).count();
            assert!((900..1_100).contains(&share), "{one}: {share}");
        }
        // Only what one that is gone had goes to others.
        for session in &sessions {
            let before = first(session, &all);
            assert!(before == "c" || first(session, &["a", "b"]) == before);
        }
    }

    #[test]
    fn those_behind_give_each_before_them_a_head_start_up_to_a_bound() {
        let names: Vec<String> = (0..20).map(|number| format!("gateway-{number}")).collect();
        let all = || names.iter().map(String::as_str);
        let mut waits: Vec<Duration> = all().map(|me| wait("s", me, all())).collect();
        waits.sort();
        let expected: Vec<Duration> = (0..20).map(|others| HEAD_START * others.min(HEAD_STARTS_MAX)).collect();
        assert_eq!(waits, expected);
    }

    #[test]
    fn one_that_knows_of_nobody_or_is_not_known_of_waits_as_if_it_were() {
        assert_eq!(wait("s", "a", []), Duration::ZERO);
        let with = wait("s", "a", ["a", "b", "c"]);
        assert_eq!(wait("s", "a", ["b", "c"]), with);
    }
}
