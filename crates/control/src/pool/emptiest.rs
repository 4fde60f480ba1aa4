//! Which pods go when a pool gets smaller: pure.
//!
//! The ReplicaSet controller chooses: pods that are not ready first, then those of the lowest cost. So what goes is marked with a cost below that of the
//! others, and nothing else is written.

use std::collections::BTreeSet;

/// The cost of a pod that is to go first. A pod without one costs 0.
pub const GOES_FIRST: i32 = -1;

/// A pod of a pool that is there, and of which nobody has said yet that it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodLoad {
    /// Its name.
    pub name: String,
    /// Whether it is ready. Those that are not go before all others, whatever they cost.
    pub ready: bool,
    /// Its cost. One that is neither 0 nor [`GOES_FIRST`] is somebody else's, and stays.
    pub cost: i32,
    /// Sessions that hold a slot; `None`: it has not told everything.
    pub live: Option<u32>,
    /// Whether it has run the one session that it is for.
    pub spent: bool,
    /// Sessions that sleep there, and wake from its memory.
    pub asleep: u32,
}

/// How many sessions hold a slot of a pod, if that is known, and whether it has run the one session that it is for. `is_complete`: it has told everything;
/// `granted`: it was given to one session. Such a process ends when that sleeps, and tells nothing any more: what it told last counts.
#[must_use]
pub fn told(live: u32, is_complete: bool, granted: bool) -> (Option<u32>, bool) {
    let spent = granted && live == 0;
    ((spent || is_complete).then_some(live), spent)
}

/// The costs to write before a pool of `pods` is told to have `remaining`, by name: none where those that go are known by what is written already.
#[must_use]
pub fn costs(mut pods: Vec<PodLoad>, remaining: u32) -> Vec<(String, i32)> {
    let remaining = usize::try_from(remaining).unwrap_or(usize::MAX);
    let going = pods.len().saturating_sub(remaining);
    if remaining == 0 || going == 0 {
        return Vec::new();
    }
    let is_ours = |pod: &PodLoad| pod.cost == 0 || pod.cost == GOES_FIRST;
    // Of a pod that has not told everything it is not known that it is empty.
    let rank = |pod: &PodLoad| (pod.ready, if is_ours(pod) { 0 } else { pod.cost }, pod.live.unwrap_or(u32::MAX), !pod.spent, pod.asleep);
    pods.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.name.cmp(&b.name)));
    let first: BTreeSet<String> = pods.iter().take(going).map(|pod| pod.name.clone()).collect();
    let ours = pods.into_iter().filter(is_ours);
    let wanted = ours.map(|pod| (if first.contains(&pod.name) { GOES_FIRST } else { 0 }, pod));
    wanted.filter(|(cost, pod)| *cost != pod.cost).map(|(cost, pod)| (pod.name, cost)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, live: u32, asleep: u32) -> PodLoad {
        PodLoad { name: name.to_owned(), ready: true, cost: 0, live: Some(live), spent: false, asleep }
    }

    fn written(pods: &[PodLoad], remaining: u32) -> Vec<(String, i32)> {
        let mut costs = costs(pods.to_vec(), remaining);
        costs.sort();
        costs
    }

    fn first(names: &[&str]) -> Vec<(String, i32)> {
        names.iter().map(|name| ((*name).to_owned(), GOES_FIRST)).collect()
    }

    #[test]
    fn the_emptiest_go_first_and_of_these_who_keeps_the_fewest_asleep() {
        let pods = [pod("a", 7, 0), pod("b", 0, 9), pod("c", 3, 0), pod("d", 0, 2)];
        assert_eq!(written(&pods, 3), first(&["d"]));
        assert_eq!(written(&pods, 2), first(&["b", "d"]));
        assert_eq!(written(&pods, 1), first(&["b", "c", "d"]));
    }

    #[test]
    fn nothing_is_written_that_changes_nothing() {
        let pods = [pod("a", 7, 0), PodLoad { cost: GOES_FIRST, ..pod("b", 0, 0) }];
        assert_eq!(written(&pods, 1), []);
        assert_eq!(written(&pods, 0), [], "all go");
        assert_eq!(written(&pods, 2), [], "none goes");
        assert_eq!(written(&pods, 3), [], "there are fewer than there are to be");
        assert_eq!(written(&[], 1), []);
    }

    #[test]
    fn a_pod_that_was_to_go_and_has_filled_since_stays() {
        let pods = [PodLoad { cost: GOES_FIRST, ..pod("a", 7, 0) }, pod("b", 0, 0), pod("c", 8, 0)];
        assert_eq!(written(&pods, 2), [("a".to_owned(), 0), ("b".to_owned(), GOES_FIRST)]);
    }

    #[test]
    fn a_pod_that_is_not_ready_goes_before_an_empty_one_and_one_that_has_not_told_everything_last() {
        let pods = [pod("a", 0, 0), PodLoad { ready: false, ..pod("b", 9, 0) }, PodLoad { live: None, ..pod("c", 0, 0) }];
        assert_eq!(written(&pods, 2), first(&["b"]));
        assert_eq!(written(&pods, 1), first(&["a", "b"]));
    }

    #[test]
    fn of_a_pod_whose_only_session_sleeps_it_is_known_that_it_is_empty_though_its_process_has_ended() {
        assert_eq!([told(0, true, false), told(3, true, false)], [(Some(0), false), (Some(3), false)]);
        assert_eq!([told(0, false, false), told(1, false, true)], [(None, false), (None, false)]);
        assert_eq!([told(0, false, true), told(0, true, true), told(1, true, true)], [(Some(0), true), (Some(0), true), (Some(1), false)]);
        let (live, spent) = told(0, false, true);
        assert_eq!(written(&[PodLoad { live, spent, ..pod("b", 0, 0) }, pod("a", 0, 0), pod("c", 1, 0)], 2), first(&["b"]));
    }

    #[test]
    fn of_two_without_a_session_the_one_goes_that_has_had_its_own() {
        let pods = [pod("a", 0, 0), PodLoad { spent: true, ..pod("b", 0, 0) }, pod("c", 1, 0)];
        assert_eq!(written(&pods, 2), first(&["b"]));
    }

    #[test]
    fn what_somebody_else_has_written_counts_and_stays() {
        let pods = [PodLoad { cost: 100, ..pod("a", 0, 0) }, pod("b", 5, 0), PodLoad { cost: -7, ..pod("c", 9, 0) }, pod("d", 6, 0)];
        assert_eq!(written(&pods, 3), [], "who costs the least goes in any case");
        assert_eq!(written(&pods, 2), first(&["b"]));
        assert_eq!(written(&pods, 1), first(&["b", "d"]));
    }
}
