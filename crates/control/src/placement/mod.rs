//! Which pod runs a session.

mod loads;

use std::{cmp::Reverse, ops::Range};

use xxhash_rust::xxh3::xxh3_64;

pub use loads::{FULL_AGE_MAX, LOAD_AGE_MAX, Loads, PodNames, Search, Step};

/// Pods that are asked first for one placement. While none of them has room, twice as many are asked: so a pool of a thousand pods with room places as
/// fast as one of ten, and one that is nearly full finds the last slot.
const ASKED_FIRST: usize = 8;

/// A pod that could.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Candidate<'a> {
    pod: &'a str,
    /// Live sessions that still fit.
    free_slots: u32,
    /// It is stopping and takes nothing.
    draining: bool,
    /// It still holds a copy of the session.
    has_copy: bool,
}

/// How well a session fits a pod, where nothing else decides. The same in every process, so that concurrent gateways agree on a session; another for each
/// session, so that they do not send all to one pod.
fn rank(session: &str, pod: &str) -> u64 {
    xxh3_64(&[session.as_bytes(), b"/", pod.as_bytes()].concat())
}

/// Puts pods into the order in which they are asked for a session: the one of uid `last`, which had it, then by [`rank`].
pub fn order<P>(session: &str, last: Option<&str>, pods: &mut [P], names: impl Fn(&P) -> PodNames<'_>) {
    pods.sort_by_cached_key(|pod| {
        let (uid, name) = names(pod);
        (last != Some(uid), Reverse(rank(session, name)))
    });
}

/// The rounds in which `pods` pods, best first, are asked.
fn rounds(pods: usize) -> impl Iterator<Item = Range<usize>> {
    let mut next = 0..ASKED_FIRST.min(pods);
    std::iter::from_fn(move || {
        let round = next.clone();
        next = round.end..round.end.saturating_add(2 * round.len()).min(pods);
        (!round.is_empty()).then_some(round)
    })
}

/// The best pod for the session of this uid: one that holds a copy, then the one with the most free slots, then by [`rank`].
fn choose<'a>(session: &str, candidates: &[Candidate<'a>]) -> Option<Candidate<'a>> {
    let able = candidates.iter().copied().filter(|c| !c.draining && c.free_slots > 0);
    able.max_by_key(|c| (c.has_copy, c.free_slots, rank(session, c.pod)))
}

/// The epoch of the next placement: above the last that was given out, above that of the placement, and above `floor`, which a process has named.
fn next_epoch(last: Option<u64>, placed: Option<u64>, floor: u64) -> u64 {
    last.unwrap_or(0).max(placed.unwrap_or(0)).max(floor).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn candidate(pod: &str, free_slots: u32, draining: bool, has_copy: bool) -> Candidate<'_> {
        Candidate { pod, free_slots, draining, has_copy }
    }

    fn chosen<'a>(candidates: &[Candidate<'a>]) -> Option<&'a str> {
        choose("s", candidates).map(|c| c.pod)
    }

    #[test]
    fn a_copy_comes_before_room() {
        assert_eq!(chosen(&[candidate("a", 9, false, false), candidate("b", 1, false, true)]), Some("b"));
        assert_eq!(chosen(&[candidate("a", 1, false, false), candidate("b", 9, false, false)]), Some("b"));
    }

    #[test]
    fn full_and_draining_pods_take_nothing() {
        assert_eq!(chosen(&[candidate("a", 0, false, true), candidate("b", 9, true, true)]), None);
        assert_eq!(chosen(&[]), None);
    }

    #[test]
    fn everybody_chooses_the_same_pod_for_a_session_and_sessions_are_spread() {
        let names: Vec<String> = (0..36).map(|number| format!("pod-{number}")).collect();
        let pods: Vec<Candidate<'_>> = names.iter().map(|name| candidate(name, 1, false, false)).collect();
        let reversed: Vec<Candidate<'_>> = pods.iter().rev().copied().collect();
        let of = |session: &str, pods: &[Candidate<'_>]| choose(session, pods).unwrap().pod.to_owned();
        let used: BTreeSet<String> = (0..36).map(|number| of(&format!("session-{number}"), &pods)).collect();
        assert!(used.len() > 15, "{} of 36 pods", used.len());
        for number in 0..36 {
            let session = format!("session-{number}");
            assert_eq!(of(&session, &pods), of(&session, &reversed));
        }
    }

    #[test]
    fn every_pod_is_asked_in_the_end_and_few_at_first() {
        for pods in [0, 1, 8, 9, 1_000] {
            let all: Vec<usize> = rounds(pods).flatten().collect();
            assert_eq!(all, (0..pods).collect::<Vec<_>>());
            assert!(rounds(pods).next().map_or(0, |first| first.len()) <= ASKED_FIRST);
        }
        assert_eq!(rounds(1_000).count(), 7);
    }

    #[test]
    fn an_epoch_is_above_all_that_is_known() {
        assert_eq!(next_epoch(None, None, 0), 1);
        assert_eq!(next_epoch(Some(5), Some(3), 0), 6);
        assert_eq!(next_epoch(Some(5), Some(7), 0), 8);
        assert_eq!(next_epoch(Some(5), None, 41), 42, "a directory that was put back knows less than the store");
    }
}
