//! What pods said of their room. It is believed for a second, less what they were given since.

use std::{
    collections::{HashMap, VecDeque},
    ops::Range,
    time::{Duration, Instant},
};

use dormouse_crds::session::Placement;
use dormouse_protocol::kernel::PodInfo;

use super::{Candidate, choose, next_epoch, rounds};
use crate::session::Record;

/// How long it is believed what a pod said of itself, or that it did not answer.
pub const LOAD_AGE_MAX: Duration = Duration::from_secs(1);
/// The same before a session is told that there is no room, and of a pod that was given nothing since.
pub const FULL_AGE_MAX: Duration = Duration::from_millis(250);
/// How long a session may be on its way to the pod that it was given to: so long that pod may not count it.
const ON_THE_WAY_MAX: Duration = Duration::from_millis(500);

/// Uid and name of a pod.
pub type PodNames<'a> = (&'a str, &'a str);

/// How pods were when they were last asked, and what they were given since. A pod that is not so any more refuses, and is [forgotten](Self::forget).
#[derive(Debug, Default)]
pub struct Loads {
    /// By the pod's uid.
    seen: HashMap<String, Load>,
}

#[derive(Debug)]
struct Load {
    at: Instant,
    /// `None`: it did not answer.
    info: Option<PodInfo>,
    /// When it was given a session that it may not have counted.
    given: Vec<Instant>,
}

impl Loads {
    /// A pod that was asked at `asked` answered at `now`, or did not. Many may ask the same pod at once, and each give it a session on the strength of
    /// the answer: what others gave it since, or shortly before, is in no answer.
    pub fn answered(&mut self, uid: &str, info: Option<PodInfo>, asked: Instant, now: Instant) {
        let mut given = self.seen.remove(uid).map(|load| load.given).unwrap_or_default();
        given.retain(|at| asked.saturating_duration_since(*at) < ON_THE_WAY_MAX);
        self.seen.insert(uid.to_owned(), Load { at: now, info, given });
    }

    /// Whether what is known of the pod may be believed at `now`; before a session is refused, less is believed.
    fn knows(&self, uid: &str, now: Instant, last_try: bool) -> bool {
        self.seen.get(uid).is_some_and(|load| {
            let age = now.saturating_duration_since(load.at);
            age < LOAD_AGE_MAX && (!last_try || load.at >= now || (age < FULL_AGE_MAX && load.given.is_empty()))
        })
    }

    /// The pod is asked again before it is given anything.
    pub fn forget(&mut self, uid: &str) {
        self.seen.remove(uid);
    }

    /// Drops what is believed no more.
    pub fn forget_older(&mut self, now: Instant) {
        self.seen.retain(|_, load| now.saturating_duration_since(load.at) < LOAD_AGE_MAX);
    }

    /// Takes a slot of the best of these pods: the placement that comes next for `record`, under an epoch above `floor`.
    /// With `idle`, the slots of sessions that have nothing to do count as free.
    fn take<'a>(
        &mut self,
        record: &Record,
        pods: impl Iterator<Item = PodNames<'a>>,
        floor: u64,
        idle: bool,
        now: Instant,
    ) -> Option<Placement> {
        let last = record.status.placement.as_ref();
        let (uids, candidates): (Vec<&str>, Vec<Candidate<'a>>) = pods
            .filter_map(|(uid, pod)| {
                let load = self.seen.get(uid)?;
                let info = load.info.as_ref()?;
                let given = u32::try_from(load.given.len()).unwrap_or(u32::MAX);
                let kept = if idle { info.used.saturating_sub(info.idle) } else { info.used };
                let candidate = Candidate {
                    pod,
                    free_slots: info.slots.saturating_sub(kept.saturating_add(given)),
                    draining: info.draining,
                    // One that was short of memory may have refused this very session, for which there is more room elsewhere.
                    has_copy: !info.exhausted && last.is_some_and(|last| last.boot == info.boot),
                };
                Some((uid, candidate))
            })
            .unzip();
        let chosen = choose(&record.uid, &candidates)?;
        let uid = uids.get(candidates.iter().position(|candidate| candidate.pod == chosen.pod)?)?;
        let load = self.seen.get_mut(*uid)?;
        load.given.push(now);
        let boot = load.info.as_ref()?.boot.clone();
        let epoch = next_epoch(record.status.last_epoch, last.map(|last| last.epoch), floor);
        Some(Placement { pod: chosen.pod.to_owned(), pod_uid: (*uid).to_owned(), boot, epoch })
    }
}

/// What comes next in a [`Search`].
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// These pods, by their places in the order, are asked how they are. Then comes the next step.
    Ask(Vec<usize>),
    /// Here. Its slot is taken.
    Found(Placement),
    /// No pod has room.
    Full,
}

/// The search for the pod that runs a session: few pods first, then more, and before it is refused those again of which something was believed. Then the
/// slot of a session that has nothing to do is as good as a free one: nobody waits for a new pod while another does nothing.
#[derive(Debug)]
pub struct Search<'a> {
    record: &'a Record,
    /// In the order in which they are asked.
    pods: &'a [PodNames<'a>],
    floor: u64,
    began: Instant,
    rounds: VecDeque<Range<usize>>,
    /// Those of the first round have been asked.
    asked: bool,
    last_try: bool,
}

impl<'a> Search<'a> {
    /// For `record`, among `pods`, under an epoch above `floor`. It begins at `now`.
    #[must_use]
    pub fn new(record: &'a Record, pods: &'a [PodNames<'a>], floor: u64, now: Instant) -> Self {
        Self { record, pods, floor, began: now, rounds: rounds(pods.len()).collect(), asked: false, last_try: false }
    }

    /// What to do at `now`, by what is believed.
    pub fn step(&mut self, loads: &mut Loads, now: Instant) -> Step {
        loop {
            let Some(round) = self.rounds.front().cloned() else {
                if self.last_try {
                    return Step::Full;
                }
                (self.last_try, self.rounds) = (true, rounds(self.pods.len()).collect());
                continue;
            };
            if !self.asked {
                self.asked = true;
                let unknown = |place: &usize| self.pods.get(*place).is_some_and(|(uid, _)| !loads.knows(uid, self.began, self.last_try));
                let unknown: Vec<usize> = round.filter(unknown).collect();
                if !unknown.is_empty() {
                    return Step::Ask(unknown);
                }
                continue;
            }
            self.asked = false;
            self.rounds.pop_front();
            if let Some(placement) = loads.take(self.record, self.pods.iter().take(round.end).copied(), self.floor, self.last_try, now) {
                return Step::Found(placement);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::fixtures::record;

    const PODS: [PodNames<'static>; 2] = [("uid-a", "a"), ("uid-b", "b")];

    /// Each pod has one free slot and has said so at that time.
    fn told(at: Instant) -> Loads {
        let mut loads = Loads::default();
        for (uid, pod) in PODS {
            let info = PodInfo {
                pod: pod.to_owned(),
                namespace: "team".to_owned(),
                boot: format!("boot-{pod}"),
                slots: 1,
                used: 0,
                idle: 0,
                engine_digest: String::new(),
                draining: false,
                exhausted: false,
            };
            loads.answered(uid, Some(info), at, at);
        }
        loads
    }

    #[test]
    fn what_a_pod_was_given_since_it_was_asked_counts_as_used() {
        let now = Instant::now();
        let mut loads = told(now);
        let mut chosen: Vec<_> =
            (0..3).map(|_| loads.take(&record(), PODS.into_iter(), 0, false, now).map(|placement| placement.boot)).collect();
        assert_eq!(chosen.pop(), Some(None));
        chosen.sort();
        assert_eq!(chosen, [Some("boot-a".to_owned()), Some("boot-b".to_owned())]);
    }

    #[test]
    fn a_pod_is_asked_again_when_its_word_is_old_or_was_wrong() {
        let at = Instant::now();
        let mut loads = told(at);
        let unknown = |loads: &Loads, later: Duration, last_try| {
            PODS.into_iter().filter(|(uid, _)| !loads.knows(uid, at + later, last_try)).map(|(_, pod)| pod).collect::<Vec<_>>()
        };
        let before = LOAD_AGE_MAX - Duration::from_nanos(1);
        assert_eq!(unknown(&loads, before, false), [""; 0]);
        assert_eq!(unknown(&loads, before, true), ["a", "b"], "before a session is refused");
        loads.forget("uid-b");
        assert_eq!(unknown(&loads, before, false), ["b"]);
        assert_eq!(unknown(&loads, LOAD_AGE_MAX, false), ["a", "b"]);
        loads.forget_older(at + LOAD_AGE_MAX);
        assert!(loads.seen.is_empty());
    }

    #[test]
    fn of_many_who_ask_a_pod_at_once_one_gets_its_last_slot() {
        let asked = Instant::now();
        let mut loads = told(asked);
        let info = |loads: &Loads| loads.seen["uid-a"].info.clone();
        let take = |loads: &mut Loads, now| loads.take(&record(), [PODS[0]].into_iter(), 0, false, now).is_some();
        let now = asked + Duration::from_millis(5);
        assert!(take(&mut loads, now));
        for late in [asked, now + Duration::from_millis(1), now + ON_THE_WAY_MAX - Duration::from_nanos(1)] {
            let same = info(&loads);
            loads.answered("uid-a", same, late, late + Duration::from_millis(5));
            assert!(!take(&mut loads, late), "it has not counted yet what it was given");
        }
        let (same, later) = (info(&loads), now + ON_THE_WAY_MAX);
        loads.answered("uid-a", same, later, later);
        assert!(take(&mut loads, later), "what never came holds no slot");
    }

    #[test]
    fn where_no_slot_is_free_one_is_taken_of_a_session_that_does_nothing() {
        let now = Instant::now();
        let mut loads = told(now);
        let mut found = |used: [u32; 2], idle: [u32; 2]| {
            for (place, (uid, _)) in PODS.into_iter().enumerate() {
                let info = loads.seen[uid].info.clone().map(|info| PodInfo { used: used[place], idle: idle[place], ..info });
                loads.seen.insert(uid.to_owned(), Load { at: now, info, given: Vec::new() });
            }
            match Search::new(&record(), &PODS, 0, now).step(&mut loads, now) {
                Step::Found(placement) => Some(placement.pod),
                _ => None,
            }
        };
        assert_eq!(found([1, 1], [0, 1]).as_deref(), Some("b"));
        assert_eq!(found([0, 1], [0, 1]).as_deref(), Some("a"), "a free slot comes first");
        assert_eq!(found([1, 1], [0, 0]), None);
    }

    #[test]
    fn a_pod_that_was_short_of_memory_is_not_preferred_for_the_copy_that_it_had() {
        let now = Instant::now();
        let placement = Placement { pod: "a".to_owned(), pod_uid: "uid-a".to_owned(), boot: "boot-a".to_owned(), epoch: 1 };
        let mut record = record();
        record.status.placement = Some(placement);
        let chosen = |exhausted, used: [u32; 2]| {
            let mut loads = told(now);
            for (place, (uid, _)) in PODS.into_iter().enumerate() {
                let info = loads.seen[uid].info.clone().map(|info| PodInfo { slots: 9, used: used[place], ..info });
                let info = info.map(|info| PodInfo { exhausted: exhausted && uid == "uid-a", ..info });
                loads.answered(uid, info, now, now);
            }
            loads.take(&record, PODS.into_iter(), 0, false, now).map(|placement| placement.pod)
        };
        assert_eq!(chosen(false, [8, 1]).as_deref(), Some("a"));
        assert_eq!(chosen(true, [8, 1]).as_deref(), Some("b"), "whatever it has told that it is enough for");
        assert_eq!(chosen(true, [8, 9]).as_deref(), Some("a"), "but where there is nothing else");
    }

    #[test]
    fn who_was_given_something_is_asked_before_a_session_is_refused() {
        let at = Instant::now();
        let mut loads = told(at);
        let given = loads.take(&record(), PODS.into_iter(), 0, false, at).unwrap().pod_uid;
        let soon = at + Duration::from_millis(1);
        let unknown: Vec<_> = PODS.into_iter().map(|(uid, _)| uid).filter(|uid| !loads.knows(uid, soon, true)).collect();
        assert_eq!(unknown, [given]);
    }

    #[test]
    fn a_search_asks_more_and_more_and_once_again_before_it_gives_up() {
        let names: Vec<(String, String)> = (0..30).map(|number| (format!("uid-{number}"), format!("pod-{number}"))).collect();
        let pods: Vec<PodNames<'_>> = names.iter().map(|(uid, pod)| (uid.as_str(), pod.as_str())).collect();
        let (record, now, mut loads) = (record(), Instant::now(), Loads::default());
        let mut search = Search::new(&record, &pods, 0, now);
        let mut asked = Vec::new();
        let mut full = |loads: &mut Loads, search: &mut Search<'_>| loop {
            match search.step(loads, now) {
                Step::Ask(places) => {
                    asked.push(places.len());
                    places.iter().for_each(|place| loads.answered(pods[*place].0, None, now, now));
                }
                other => return other,
            }
        };
        assert_eq!(full(&mut loads, &mut search), Step::Full);
        assert_eq!(asked, [8, 16, 6], "what was heard in this search is not asked again");
        let later = now + FULL_AGE_MAX;
        let mut again = Search::new(&record, &pods, 0, later);
        assert_eq!(again.step(&mut loads, later), Step::Ask((0..8).collect()), "not believed before a refusal");
    }
}
