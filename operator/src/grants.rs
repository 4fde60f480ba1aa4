//! What pods that run one session in their lives were given for it, as far as this process has given it.
//!
//! Which session a pod is for, its annotation says, for its whole life: a cell that broke out of its engine may say that its process is vacant, and would be
//! sent what another session is stored with. Nothing of this is kept elsewhere: who begins anew gives it again.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use dormouse_control::session::Key;
use jiff::Timestamp;

/// What a process was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// To which session, by uid.
    pub session: String,
    /// The process.
    pub boot: String,
    /// Names what everybody is to trust, as the process was told it.
    pub authority: String,
    /// When it is to be given anew.
    pub due: Timestamp,
    /// The object of the session.
    pub of: Key,
}

/// All methods may be called at any time.
#[derive(Debug, Default)]
pub struct Grants {
    /// By the pod's uid.
    given: Mutex<HashMap<String, Given>>,
    /// Since when no session is placed on a pod that was given to one, by the pod's uid.
    left: Mutex<HashMap<String, Timestamp>>,
    /// The store that a reader has probed, by its pool's uid.
    probed: Mutex<HashMap<String, String>>,
}

impl Grants {
    /// When the process `boot` of a pod is to be given anew what it was given for a session; `None`: now.
    #[must_use]
    pub fn due(&self, pod_uid: &str, (session, boot): (&str, &str), authority: &str, now: Timestamp) -> Option<Timestamp> {
        let pods = self.lock();
        let given = pods.get(pod_uid)?;
        let is_same = (given.session.as_str(), given.boot.as_str(), given.authority.as_str()) == (session, boot, authority);
        Some(given.due).filter(|due| is_same && *due > now)
    }

    /// It was given something.
    pub fn given(&self, pod_uid: &str, given: Given) {
        self.lock().insert(pod_uid.to_owned(), given);
    }

    /// Since when the session that the pod was given to has not been placed there, as far as is known; `is_placed` says whether it is now.
    pub fn left_since(&self, pod_uid: &str, is_placed: bool, now: Timestamp) -> Option<Timestamp> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if is_placed {
            left.remove(pod_uid);
            return None;
        }
        Some(*left.entry(pod_uid.to_owned()).or_insert(now))
    }

    /// The pod is gone.
    pub fn forget(&self, pod_uid: &str) {
        self.lock().remove(pod_uid);
        self.left.lock().unwrap_or_else(PoisonError::into_inner).remove(pod_uid);
    }

    /// Sessions whose processes were told to trust something else. What they were given is forgotten.
    #[must_use]
    pub fn take_others(&self, authority: &str) -> Vec<Key> {
        let mut pods = self.lock();
        let others: Vec<String> = pods.iter().filter(|(_, given)| given.authority != authority).map(|(pod, _)| pod.clone()).collect();
        others.into_iter().filter_map(|pod| pods.remove(&pod)).map(|given| given.of).collect()
    }

    /// Whether the reader of this pool is known to have probed its store, now or before; `is_ready` says whether it has now.
    pub fn is_probed(&self, pool_uid: &str, place: &str, is_ready: impl FnOnce() -> bool) -> bool {
        let mut probed = self.probed.lock().unwrap_or_else(PoisonError::into_inner);
        if probed.get(pool_uid).is_some_and(|known| known == place) {
            return true;
        }
        let is_ready = is_ready();
        if is_ready {
            probed.insert(pool_uid.to_owned(), place.to_owned());
        }
        is_ready
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Given>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn given(session: &str, boot: &str, authority: &str, due: i64) -> Given {
        let text = |text: &str| text.to_owned();
        Given { session: text(session), boot: text(boot), authority: text(authority), due: at(due), of: Key::new("team", session) }
    }

    #[test]
    fn what_was_given_is_given_anew_when_it_is_due_or_to_another_process_or_under_another_authority() {
        let grants = Grants::default();
        grants.given("p", given("s", "b", "f", 100));
        let due = |pod, session, boot, authority, now| grants.due(pod, (session, boot), authority, at(now));
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
    fn a_session_has_left_its_pod_since_it_was_first_seen_to_be_elsewhere() {
        let grants = Grants::default();
        assert_eq!(grants.left_since("p", true, at(1)), None);
        assert_eq!((grants.left_since("p", false, at(2)), grants.left_since("p", false, at(3))), (Some(at(2)), Some(at(2))));
        assert_eq!((grants.left_since("p", true, at(4)), grants.left_since("p", false, at(5))), (None, Some(at(5))));
        grants.forget("p");
        assert_eq!(grants.left_since("p", false, at(6)), Some(at(6)));
    }

    #[test]
    fn a_store_stays_probed_when_its_reader_is_gone_and_another_store_of_the_pool_is_another() {
        let grants = Grants::default();
        assert!(!grants.is_probed("u", "here", || false) && grants.is_probed("u", "here", || true));
        assert!(grants.is_probed("u", "here", || false) && !grants.is_probed("v", "here", || false));
        assert!(grants.is_probed("u", "there", || true) && !grants.is_probed("u", "here", || false));
    }
}
