//! What pods that run one session in their lives were given: as far as this process has given it, and as the pods' annotations say, which decide.
//!
//! A container is given to one session and to no other after it: a cell that broke out of its engine may say that its process is vacant, and would be sent
//! what another session is stored with. Which container it is, the kubelet says. Nothing of this is kept elsewhere: who begins anew gives it again.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use dormouse_control::session::Key;
use jiff::{SignedDuration, Timestamp};

use crate::pods::Container;

/// How long it is believed of a container that was given to another session that it has been followed by one of which the kubelet has not told yet.
const FOLLOWED_BELIEVED: SignedDuration = SignedDuration::from_secs(10);
/// By how much the clock of a node may be behind or ahead.
const CLOCKS_DIFFER_MAX: SignedDuration = SignedDuration::from_secs(5);

/// What is to be done about a process that a session was placed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// This is to be noted as the pod's annotation, before anything is given.
    Note(String),
    /// It stands there already.
    Give,
    /// The container was given to another session, or to another process, but may have ended since.
    Refuse,
    /// It was, and lives: its process said that it is vacant, which it is not.
    Retire,
}

/// What that is decided by.
#[derive(Debug, Clone, Copy)]
pub struct Observed<'a> {
    /// The session, by uid.
    pub session: &'a str,
    /// The pod's annotation.
    pub annotation: Option<&'a str>,
    /// The container in which its process runs, by the id that the kubelet says.
    pub container: &'a str,
    /// Whether it is known that another process was given something there. A container has one process.
    pub of_another: bool,
    /// Since when this process has been refused.
    pub refused_since: Option<Timestamp>,
    /// Now.
    pub now: Timestamp,
}

impl Observed<'_> {
    /// Decides it.
    #[must_use]
    pub fn step(&self) -> Step {
        let container = self.container;
        let given = self.annotation.and_then(|given| given.split_once(' '));
        match given.filter(|(given, _)| *given == container) {
            None => Step::Note(format!("{container} {}", self.session)),
            Some((_, session)) if session == self.session && !self.of_another => Step::Give,
            Some(_) => {
                let is_over = |since: Timestamp| self.now.duration_since(since) >= FOLLOWED_BELIEVED;
                if self.refused_since.is_some_and(is_over) { Step::Retire } else { Step::Refuse }
            }
        }
    }
}

/// What a process was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// To which session, by uid.
    pub session: String,
    /// The process.
    pub boot: String,
    /// Names what everybody is to trust, as the process was told it.
    pub authority: String,
    /// In which container it was taken to be.
    pub container: String,
    /// When.
    pub at: Timestamp,
    /// When it is to be given anew.
    pub due: Timestamp,
    /// The object of the session.
    pub of: Key,
}

impl Given {
    /// Whether the pod's container is noted as this session's, or began too late to be the one whose process was given it. The kubelet may have told of the
    /// one before when it was given: then it is noted for this one, too, or the process could be placed another session.
    fn is_noted(&self, container: Option<Container<'_>>) -> bool {
        container.is_none_or(|container| {
            let is_later = |started: Timestamp| started.duration_since(self.at) > CLOCKS_DIFFER_MAX;
            container.id == self.container || container.started.is_some_and(is_later)
        })
    }
}

/// A process that is not given the session that was placed on it.
#[derive(Debug)]
struct Refused {
    boot: String,
    since: Timestamp,
    /// Whether it was told to end.
    retired: bool,
}

/// What is remembered of a pod. Both may be of one process: one that says that its session has left it is placed another.
#[derive(Debug, Default)]
struct Remembered {
    given: Option<Given>,
    refused: Option<Refused>,
}

/// By the pod's uid. All methods may be called at any time.
#[derive(Debug, Default)]
pub struct Grants(Mutex<HashMap<String, Remembered>>);

impl Grants {
    /// When the process `boot` of a pod, which runs in `container`, is to be given anew what it was given for a session; `None`: now.
    #[must_use]
    pub fn due(
        &self,
        pod_uid: &str,
        (session, boot): (&str, &str),
        container: Option<Container<'_>>,
        authority: &str,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let pods = self.lock();
        let given = pods.get(pod_uid)?.given.as_ref()?;
        let is_same = (given.session.as_str(), given.boot.as_str(), given.authority.as_str()) == (session, boot, authority);
        Some(given.due).filter(|due| is_same && given.is_noted(container) && *due > now)
    }

    /// Whether another process than `boot` is known to have been given something in this container of the pod.
    #[must_use]
    pub fn is_of_another(&self, pod_uid: &str, container: &str, boot: &str) -> bool {
        let pods = self.lock();
        let given = pods.get(pod_uid).and_then(|remembered| remembered.given.as_ref());
        given.is_some_and(|given| given.container == container && given.boot != boot)
    }

    /// It was given something.
    pub fn given(&self, pod_uid: &str, given: Given) {
        self.lock().entry(pod_uid.to_owned()).or_default().given = Some(given);
    }

    /// Since when the process `boot` has been refused.
    #[must_use]
    pub fn refused_since(&self, pod_uid: &str, boot: &str) -> Option<Timestamp> {
        self.lock().get(pod_uid)?.refused.as_ref().filter(|refused| refused.boot == boot).map(|refused| refused.since)
    }

    /// It is refused.
    pub fn refuse(&self, pod_uid: &str, boot: &str, now: Timestamp) {
        let mut pods = self.lock();
        let refused = &mut pods.entry(pod_uid.to_owned()).or_default().refused;
        if refused.as_ref().is_none_or(|refused| refused.boot != boot) {
            *refused = Some(Refused { boot: boot.to_owned(), since: now, retired: false });
        }
    }

    /// It was told to end. Whether that is the first time.
    pub fn retire(&self, pod_uid: &str, boot: &str) -> bool {
        let mut pods = self.lock();
        let refused = pods.get_mut(pod_uid).and_then(|remembered| remembered.refused.as_mut());
        refused.filter(|refused| refused.boot == boot).is_some_and(|refused| !std::mem::replace(&mut refused.retired, true))
    }

    /// The pod is gone.
    pub fn forget(&self, pod_uid: &str) {
        self.lock().remove(pod_uid);
    }

    /// Sessions whose processes were told to trust something else. What they were given is forgotten.
    #[must_use]
    pub fn take_others(&self, authority: &str) -> Vec<Key> {
        let mut pods = self.lock();
        let others = pods.values_mut().filter_map(|remembered| remembered.given.take_if(|given| given.authority != authority));
        others.map(|given| given.of).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Remembered>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_container_is_given_to_one_session_and_one_that_follows_it_to_another() {
        let observed = |annotation, refused_since| {
            let of_another = false;
            Observed { session: "s-1", annotation, container: "c://1", of_another, refused_since, now: at(100) }
        };
        let note = || Step::Note("c://1 s-1".to_owned());
        for (annotation, refused_since, expected) in [
            (None, None, note()),
            (Some("c://1 s-1"), None, Step::Give),
            (Some("c://0 s-1"), None, note()),
            (Some("c://0 s-2"), None, note()),
            (Some("c://0 s-2"), Some(at(1)), note()),
            (Some("c://1 s-2"), None, Step::Refuse),
            (Some("c://1 s-2"), Some(at(91)), Step::Refuse),
            (Some("c://1 s-2"), Some(at(90)), Step::Retire),
            (Some("c://1 s-1"), Some(at(1)), Step::Give),
            (Some("c://1 "), None, Step::Refuse),
            (Some("nonsense"), None, note()),
        ] {
            assert_eq!(observed(annotation, refused_since).step(), expected, "{annotation:?} {refused_since:?}");
        }
        let of_another = |annotation| Observed { of_another: true, ..observed(annotation, None) }.step();
        assert_eq!(of_another(Some("c://1 s-1")), Step::Refuse, "the kubelet has not told yet of the container that follows");
        assert_eq!(of_another(Some("c://0 s-1")), note());
    }

    fn given(session: &str, boot: &str, authority: &str, due: i64) -> Given {
        let [session, boot, authority, container] = [session, boot, authority, "c://1"].map(str::to_owned);
        Given { of: Key::new("team", session.as_str()), session, boot, authority, container, at: at(50), due: at(due) }
    }

    #[test]
    fn what_was_given_is_given_anew_when_it_is_due_or_to_another_process_or_under_another_authority() {
        let grants = Grants::default();
        grants.given("p", given("s", "b", "f", 100));
        let due = |pod, session, boot, authority, now| grants.due(pod, (session, boot), None, authority, at(now));
        assert_eq!(due("p", "s", "b", "f", 99), Some(at(100)));
        for (pod, session, boot, authority, now) in
            [("p", "s", "b", "f", 100), ("q", "s", "b", "f", 1), ("p", "t", "b", "f", 1), ("p", "s", "c", "f", 1), ("p", "s", "b", "g", 1)]
        {
            assert_eq!(due(pod, session, boot, authority, now), None, "{pod} {session} {boot} {authority} {now}");
        }
        assert_eq!(grants.take_others("f"), []);
        assert_eq!(grants.take_others("g"), [Key::new("team", "s")]);
        assert_eq!(grants.take_others("g"), [], "each is told of once");
        assert_eq!(due("p", "s", "b", "f", 1), None);
        grants.given("p", given("s", "b", "f", 100));
        grants.forget("p");
        assert!(grants.lock().is_empty());
    }

    #[test]
    fn a_container_that_the_kubelet_tells_of_late_is_noted_if_its_process_may_be_the_one_that_was_given_something() {
        let grants = Grants::default();
        grants.given("p", given("s", "b", "f", 100));
        let due = |id, started| grants.due("p", ("s", "b"), Some(Container { id, started }), "f", at(60));
        assert_eq!(due("c://1", None), Some(at(100)));
        assert!(grants.is_of_another("p", "c://1", "c") && !grants.is_of_another("p", "c://1", "b"));
        assert!(!grants.is_of_another("p", "c://2", "c") && !grants.is_of_another("q", "c://1", "c"));
        for (started, is_noted) in [(None, false), (Some(at(49)), false), (Some(at(55)), false), (Some(at(56)), true)] {
            assert_eq!(due("c://2", started).is_some(), is_noted, "{started:?}");
        }
    }

    #[test]
    fn a_process_that_is_refused_is_so_from_the_first_time_on_and_told_to_end_once() {
        let grants = Grants::default();
        assert_eq!(grants.refused_since("p", "b"), None);
        assert!(!grants.retire("p", "b"));
        grants.refuse("p", "b", at(1));
        grants.refuse("p", "b", at(2));
        assert_eq!((grants.refused_since("p", "b"), grants.refused_since("p", "c")), (Some(at(1)), None));
        assert!(grants.retire("p", "b") && !grants.retire("p", "b"));
        grants.given("p", given("s", "b", "f", 100));
        assert_eq!(grants.refused_since("p", "b"), Some(at(1)), "whoever had it before has it still");
        grants.refuse("p", "c", at(3));
        assert_eq!((grants.refused_since("p", "c"), grants.refused_since("p", "b")), (Some(at(3)), None), "one process a pod");
    }
}
