//! Which sessions a pool has to have slots for, beyond those that hold one.

use std::collections::{HashMap, HashSet};

use dormouse_crds::session::{KernelSessionSpec, KernelSessionStatus, OperatingMode};
use jiff::{SignedDuration, Timestamp};

/// Whether a session has yet to store anything and is to run: somebody starts it, and until then nobody reports of it.
#[must_use]
pub fn has_to_start(spec: &KernelSessionSpec, status: Option<&KernelSessionStatus>, deleting: bool) -> bool {
    let stored = status.is_some_and(|status| status.snapshot.is_some());
    !deleting && !stored && spec.operating_mode != OperatingMode::Hibernated
}

/// How long it is believed that somebody waits for a session whose pool had no pod. A pod may take that long to start.
pub const WAKE_BELIEVED: SignedDuration = SignedDuration::from_secs(180);
/// How often it is written while somebody waits. Clocks that differ by less than what lies between this and [`WAKE_BELIEVED`] do no harm.
pub const WAKE_REQUESTED_EVERY: SignedDuration = SignedDuration::from_secs(30);

/// How much longer it is believed that somebody waits for the session, because its status says so.
#[must_use]
pub fn wake_believed(status: &KernelSessionStatus, now: Timestamp) -> Option<SignedDuration> {
    let since = now.duration_since(status.wake_requested_time.as_deref()?.parse().ok()?);
    let left = WAKE_BELIEVED.checked_sub(since)?;
    (left.is_positive() && since > -WAKE_BELIEVED).then(|| left.min(WAKE_BELIEVED))
}

/// Whether the status has to say again that somebody waits for the session.
#[must_use]
pub fn wake_is_to_be_requested(status: &KernelSessionStatus, now: Timestamp) -> bool {
    let said = status.wake_requested_time.as_deref().and_then(|time| time.parse::<Timestamp>().ok());
    said.is_none_or(|said| now.duration_since(said).abs() >= WAKE_REQUESTED_EVERY)
}

/// The sessions of every pool, by uid, and which of them have to start. Kept beside a watch, so that no count looks at every session.
#[derive(Debug, Default)]
pub struct SessionIndex {
    /// By namespace and pool.
    pools: HashMap<(String, String), PoolSessions>,
    /// Where each session is counted.
    pool_of: HashMap<String, (String, String)>,
    /// While a full list is on its way: those that it has not named yet.
    unlisted: HashSet<String>,
}

/// The sessions of one pool.
#[derive(Debug, Default)]
pub struct PoolSessions {
    all: HashSet<String>,
    to_start: HashSet<String>,
}

impl SessionIndex {
    /// A session is there, or has changed. The answer is whether that changes any count.
    pub fn note(&mut self, namespace: &str, pool: &str, uid: &str, has_to_start: bool) -> bool {
        self.unlisted.remove(uid);
        let key = (namespace.to_owned(), pool.to_owned());
        if self.pool_of.get(uid).is_some_and(|before| *before != key) {
            self.forget(uid);
        }
        let sessions = self.pools.entry(key.clone()).or_default();
        let new = sessions.all.insert(uid.to_owned());
        if new {
            self.pool_of.insert(uid.to_owned(), key);
        }
        let changed = if has_to_start { sessions.to_start.insert(uid.to_owned()) } else { sessions.to_start.remove(uid) };
        new || changed
    }

    /// A full list begins.
    pub fn list_begins(&mut self) {
        self.unlisted = self.pool_of.keys().cloned().collect();
    }

    /// It has ended: what it did not name is gone.
    pub fn list_ended(&mut self) {
        for uid in std::mem::take(&mut self.unlisted) {
            self.forget(&uid);
        }
    }

    /// A session is gone.
    pub fn forget(&mut self, uid: &str) {
        let Some(key) = self.pool_of.remove(uid) else { return };
        let Some(sessions) = self.pools.get_mut(&key) else { return };
        sessions.all.remove(uid);
        sessions.to_start.remove(uid);
        if sessions.all.is_empty() {
            self.pools.remove(&key);
        }
    }

    /// Sessions of a pool.
    #[must_use]
    pub fn count(&self, namespace: &str, pool: &str) -> u32 {
        self.of(namespace, pool).map_or(0, |sessions| u32::try_from(sessions.all.len()).unwrap_or(u32::MAX))
    }

    /// Whether a namespace has any session.
    #[must_use]
    pub fn has_any(&self, namespace: &str) -> bool {
        self.pools.keys().any(|(of, _)| of == namespace)
    }

    /// How many sessions of a pool want a slot: those that have to start, and those that were told to be waiting, each once, and only where `served` does
    /// not say that a process has it or has failed to run it.
    pub fn waiting(&self, namespace: &str, pool: &str, told: impl IntoIterator<Item = String>, served: impl Fn(&str) -> bool) -> u32 {
        let Some(sessions) = self.of(namespace, pool) else { return 0 };
        // A pod may say that anything waits: only what there is counts.
        let told = told.into_iter().filter(|uid| sessions.all.contains(uid) && !sessions.to_start.contains(uid));
        let all = sessions.to_start.iter().cloned().chain(told);
        u32::try_from(all.filter(|uid| !served(uid)).count()).unwrap_or(u32::MAX)
    }

    fn of(&self, namespace: &str, pool: &str) -> Option<&PoolSessions> {
        self.pools.get(&(namespace.to_owned(), pool.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use dormouse_crds::session::{Placement, SnapshotStatus};

    use super::*;

    #[test]
    fn a_session_has_to_start_until_something_of_it_is_stored_placed_or_not() {
        let spec = KernelSessionSpec::default();
        let placement = Placement { pod: "p".to_owned(), pod_uid: "pu".to_owned(), boot: "b".to_owned(), epoch: 1 };
        let mut status = KernelSessionStatus { placement: Some(placement), ..KernelSessionStatus::default() };
        assert!(has_to_start(&spec, None, false));
        assert!(has_to_start(&spec, Some(&status), false), "the pod that it was placed on may have refused it");
        assert!(!has_to_start(&spec, Some(&status), true));
        let asleep = KernelSessionSpec { operating_mode: OperatingMode::Hibernated, ..spec.clone() };
        assert!(!has_to_start(&asleep, Some(&status), false));
        let (engine_digest, time) = (String::new(), String::new());
        status.snapshot = Some(SnapshotStatus { epoch: 1, sequence: 1, bytes: 1, engine_digest, time, encrypted: false });
        assert!(!has_to_start(&spec, Some(&status), false));
    }

    #[test]
    fn a_request_for_a_pod_is_believed_for_a_while_whichever_clock_is_ahead() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let said = |seconds: i64| KernelSessionStatus {
            wake_requested_time: Some((now - SignedDuration::from_secs(seconds)).to_string()),
            ..KernelSessionStatus::default()
        };
        let believed = |seconds| wake_believed(&said(seconds), now).map(|left| left.as_secs());
        assert_eq!([0, 179, 180, 9_000].map(believed), [Some(180), Some(1), None, None]);
        assert_eq!([-60, -179, -180].map(believed), [Some(180), Some(180), None], "of a gateway whose clock is ahead");
        assert_eq!(wake_believed(&KernelSessionStatus::default(), now), None);
        let again = [29, 30, -29, -30].map(|seconds| wake_is_to_be_requested(&said(seconds), now));
        assert_eq!((again, wake_is_to_be_requested(&KernelSessionStatus::default(), now)), ([false, true, false, true], true));
    }

    #[test]
    fn a_full_list_forgets_what_it_does_not_name_and_not_before_its_end() {
        let mut index = SessionIndex::default();
        assert!(index.note("team", "p", "a", true) && index.note("team", "p", "b", true));
        assert!(!index.note("team", "p", "b", true), "nothing has changed");
        index.list_begins();
        index.note("team", "p", "a", true);
        index.note("team", "p", "c", true);
        assert_eq!(index.count("team", "p"), 3);
        index.list_ended();
        assert_eq!(index.count("team", "p"), 2);
    }

    #[test]
    fn who_waits_counts_once_and_who_is_not_there_does_not() {
        let mut index = SessionIndex::default();
        for uid in ["new", "refused", "asleep", "live"] {
            index.note("team", "p", uid, matches!(uid, "new" | "refused"));
        }
        let told = ["refused", "asleep", "made-up", "live"].map(str::to_owned);
        let waiting = |index: &SessionIndex| index.waiting("team", "p", told.clone(), |uid| uid == "live");
        assert_eq!((waiting(&index), index.count("team", "p")), (3, 4));
        assert_eq!(index.waiting("team", "other", told.clone(), |_| false), 0);
        index.note("team", "q", "new", true);
        assert_eq!((waiting(&index), index.count("team", "q")), (2, 1), "it has moved to another pool");
        for uid in ["new", "refused", "asleep", "live"] {
            index.forget(uid);
        }
        assert!(index.pools.is_empty() && index.pool_of.is_empty());
    }
}
