//! The sessions of every pool and of every pod. Kept beside a watch, so that no question about a few sessions looks at all of them.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use crate::session::Key;

/// A session, as a watch tells of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Noted<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its identity, under which it is stored.
    pub uid: &'a str,
    /// Its pool.
    pub pool: &'a str,
    /// Its ToolBroker.
    pub broker: Option<&'a str>,
    /// The uid of the pod that it is placed on.
    pub pod_uid: Option<&'a str>,
    /// Whether it has yet to start.
    pub has_to_start: bool,
    /// Whether its condition says that it is ready.
    pub is_ready: bool,
}

/// The sessions of every pool and of every pod, by uid.
#[derive(Debug, Default)]
pub struct SessionIndex {
    sessions: HashMap<Arc<str>, Place>,
    /// By namespace and pool.
    pools: HashMap<Arc<str>, HashMap<Arc<str>, PoolSessions>>,
    /// Those that are placed on a pod, by its uid.
    placed: HashMap<Arc<str>, HashSet<Arc<str>>>,
    /// While a full list is on its way: those that it has not named yet.
    unlisted: HashSet<Arc<str>>,
}

/// Where a session is to be found in the index, and its name.
#[derive(Debug)]
struct Place {
    namespace: Arc<str>,
    name: Box<str>,
    pool: Arc<str>,
    broker: Option<Arc<str>>,
    pod_uid: Option<Arc<str>>,
}

/// The sessions of one pool.
#[derive(Debug, Default)]
struct PoolSessions {
    all: HashSet<Arc<str>>,
    to_start: HashSet<Arc<str>>,
    not_ready: HashSet<Arc<str>>,
    /// How many have a ToolBroker, by its name.
    of_brokers: HashMap<Arc<str>, usize>,
}

impl PoolSessions {
    fn remove(&mut self, uid: &str, broker: Option<&str>) {
        for sessions in [&mut self.all, &mut self.to_start, &mut self.not_ready] {
            sessions.remove(uid);
        }
        let Some(broker) = broker else { return };
        if let Some(count) = self.of_brokers.get_mut(broker) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.of_brokers.remove(broker);
            }
        }
    }
}

impl SessionIndex {
    /// A session is there, or has changed. The answer is whether that changes how many its pool has, or has to start.
    pub fn note(&mut self, session: &Noted<'_>) -> bool {
        let uid = session.uid;
        let counted = self.of(session.namespace, session.pool).map(|pool| (pool.all.contains(uid), pool.to_start.contains(uid)));
        self.unlisted.remove(uid);
        self.forget(uid);
        self.put(session);
        counted != Some((true, session.has_to_start))
    }

    fn put(&mut self, session: &Noted<'_>) {
        let uid = Arc::<str>::from(session.uid);
        let namespace = shared(&self.pools, session.namespace);
        let pools = self.pools.entry(Arc::clone(&namespace)).or_default();
        let pool = shared(pools, session.pool);
        let sessions = pools.entry(Arc::clone(&pool)).or_default();
        sessions.all.insert(Arc::clone(&uid));
        if session.has_to_start {
            sessions.to_start.insert(Arc::clone(&uid));
        }
        if !session.is_ready {
            sessions.not_ready.insert(Arc::clone(&uid));
        }
        let broker = session.broker.map(|broker| shared(&sessions.of_brokers, broker));
        if let Some(broker) = &broker {
            *sessions.of_brokers.entry(Arc::clone(broker)).or_default() += 1;
        }
        let pod_uid = session.pod_uid.map(|pod| shared(&self.placed, pod));
        if let Some(pod) = &pod_uid {
            self.placed.entry(Arc::clone(pod)).or_default().insert(Arc::clone(&uid));
        }
        self.sessions.insert(uid, Place { namespace, name: session.name.into(), pool, broker, pod_uid });
    }

    /// A full list begins.
    pub fn list_begins(&mut self) {
        self.unlisted = self.sessions.keys().cloned().collect();
    }

    /// It has ended: what it did not name is gone.
    pub fn list_ended(&mut self) {
        for uid in std::mem::take(&mut self.unlisted) {
            self.forget(&uid);
        }
    }

    /// A session is gone.
    pub fn forget(&mut self, uid: &str) {
        let Some(Place { namespace, pool, broker, pod_uid, .. }) = self.sessions.remove(uid) else { return };
        if let Some((pod, placed)) = pod_uid.and_then(|pod| self.placed.get_mut(&pod).map(|placed| (pod, placed))) {
            placed.remove(uid);
            if placed.is_empty() {
                self.placed.remove(&pod);
            }
        }
        let Some(pools) = self.pools.get_mut(&namespace) else { return };
        if let Some(sessions) = pools.get_mut(&pool) {
            sessions.remove(uid, broker.as_deref());
            if sessions.all.is_empty() {
                pools.remove(&pool);
            }
        }
        if pools.is_empty() {
            self.pools.remove(&namespace);
        }
    }

    /// Sessions of a pool.
    #[must_use]
    pub fn count(&self, namespace: &str, pool: &str) -> usize {
        self.of(namespace, pool).map_or(0, |sessions| sessions.all.len())
    }

    /// Whether a namespace has any session.
    #[must_use]
    pub fn has_any(&self, namespace: &str) -> bool {
        self.pools.contains_key(namespace)
    }

    /// The sessions that are placed on a pod.
    #[must_use]
    pub fn placed_on(&self, pod_uid: &str) -> Vec<Key> {
        self.keys(self.placed.get(pod_uid))
    }

    /// The sessions of a pool that are not ready.
    #[must_use]
    pub fn not_ready(&self, namespace: &str, pool: &str) -> Vec<Key> {
        self.keys(self.of(namespace, pool).map(|sessions| &sessions.not_ready))
    }

    /// How many sessions are, or have calls, where a pool stores: its own, and those of the namespace with a ToolBroker that `keeps_calls` there.
    pub fn stored_with(&self, namespace: &str, pool: &str, keeps_calls: impl Fn(&str) -> bool) -> usize {
        let Some(pools) = self.pools.get(namespace) else { return 0 };
        let others = pools.iter().filter(|(name, _)| &***name != pool).flat_map(|(_, sessions)| &sessions.of_brokers);
        let with_calls: usize = others.filter(|(broker, _)| keeps_calls(broker)).map(|(_, count)| count).sum();
        self.count(namespace, pool) + with_calls
    }

    /// How many sessions of a pool want a slot: those that have to start, and those that were told to be waiting, each once, and only where `served`
    /// does not say that a process has it or has failed to run it.
    pub fn waiting(&self, namespace: &str, pool: &str, told: impl IntoIterator<Item = String>, served: impl Fn(&str) -> bool) -> u32 {
        let Some(sessions) = self.of(namespace, pool) else { return 0 };
        // A pod may say that anything waits: only what there is counts.
        let told = told.into_iter().filter(|uid| sessions.all.contains(uid.as_str()) && !sessions.to_start.contains(uid.as_str()));
        let waiting = sessions.to_start.iter().filter(|uid| !served(uid)).count() + told.filter(|uid| !served(uid)).count();
        u32::try_from(waiting).unwrap_or(u32::MAX)
    }

    fn of(&self, namespace: &str, pool: &str) -> Option<&PoolSessions> {
        self.pools.get(namespace)?.get(pool)
    }

    fn keys(&self, sessions: Option<&HashSet<Arc<str>>>) -> Vec<Key> {
        let places = sessions.into_iter().flatten().filter_map(|uid| self.sessions.get(uid));
        places.map(|place| Key { namespace: place.namespace.to_string(), name: place.name.to_string() }).collect()
    }
}

/// A key that a map has already, or a new one: of what many sessions have in common, one copy is kept.
fn shared<V>(map: &HashMap<Arc<str>, V>, key: &str) -> Arc<str> {
    map.get_key_value(key).map_or_else(|| Arc::from(key), |(known, _)| Arc::clone(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(uid: &str) -> Noted<'_> {
        let (namespace, pool) = ("team", "p");
        Noted { namespace, name: uid, uid, pool, broker: None, pod_uid: None, has_to_start: false, is_ready: true }
    }

    fn names(keys: Vec<Key>) -> Vec<String> {
        let mut names: Vec<String> = keys.into_iter().map(|key| format!("{}/{}", key.namespace, key.name)).collect();
        names.sort_unstable();
        names
    }

    fn is_empty(index: &SessionIndex) -> bool {
        index.sessions.is_empty() && index.pools.is_empty() && index.placed.is_empty() && index.unlisted.is_empty()
    }

    #[test]
    fn a_full_list_forgets_what_it_does_not_name_and_not_before_its_end() {
        let mut index = SessionIndex::default();
        let to_start = |uid| Noted { has_to_start: true, ..noted(uid) };
        assert!(index.note(&to_start("a")) && index.note(&to_start("b")));
        assert!(!index.note(&to_start("b")), "nothing has changed");
        index.list_begins();
        index.note(&to_start("a"));
        index.note(&to_start("c"));
        assert_eq!(index.count("team", "p"), 3);
        index.list_ended();
        assert_eq!(index.count("team", "p"), 2);
    }

    #[test]
    fn who_waits_counts_once_and_who_is_not_there_does_not() {
        let mut index = SessionIndex::default();
        for uid in ["new", "refused", "asleep", "live"] {
            index.note(&Noted { has_to_start: matches!(uid, "new" | "refused"), ..noted(uid) });
        }
        let told = ["refused", "asleep", "made-up", "live"].map(str::to_owned);
        let waiting = |index: &SessionIndex| index.waiting("team", "p", told.clone(), |uid| uid == "live");
        assert_eq!((waiting(&index), index.count("team", "p")), (3, 4));
        assert_eq!(index.waiting("team", "other", told.clone(), |_| false), 0);
        assert!(index.note(&Noted { pool: "q", has_to_start: true, ..noted("new") }));
        assert_eq!((waiting(&index), index.count("team", "q")), (2, 1), "it has moved to another pool");
        for uid in ["new", "refused", "asleep", "live"] {
            index.forget(uid);
        }
        assert!(is_empty(&index));
    }

    #[test]
    fn a_pod_has_those_that_are_placed_on_it_now_in_whatever_pool_and_namespace() {
        let mut index = SessionIndex::default();
        let on = |uid, pod_uid| Noted { pod_uid, ..noted(uid) };
        for session in [on("a", Some("one")), on("b", Some("one")), on("c", Some("two")), on("d", None)] {
            index.note(&session);
        }
        index.note(&Noted { namespace: "other", pool: "q", ..on("e", Some("one")) });
        assert_eq!(names(index.placed_on("one")), ["other/e", "team/a", "team/b"]);
        assert!(!index.note(&on("a", Some("two"))), "which changes no count");
        index.note(&on("b", None));
        index.forget("e");
        assert_eq!((names(index.placed_on("one")), names(index.placed_on("two"))), (Vec::new(), vec!["team/a".into(), "team/c".into()]));
        index.list_begins();
        index.note(&on("c", Some("two")));
        index.list_ended();
        assert_eq!(names(index.placed_on("two")), ["team/c"]);
        index.forget("c");
        assert!(is_empty(&index));
    }

    #[test]
    fn a_pool_knows_which_of_its_sessions_are_not_ready() {
        let mut index = SessionIndex::default();
        let not_ready = |uid| Noted { is_ready: false, ..noted(uid) };
        for session in [not_ready("a"), not_ready("b"), noted("c"), Noted { pool: "q", ..not_ready("d") }] {
            index.note(&session);
        }
        assert_eq!(names(index.not_ready("team", "p")), ["team/a", "team/b"]);
        assert!(!index.note(&noted("a")), "which changes no count");
        assert_eq!(names(index.not_ready("team", "p")), ["team/b"]);
        assert_eq!(names(index.not_ready("team", "q")), ["team/d"]);
        assert!(index.not_ready("other", "p").is_empty());
    }

    #[test]
    fn a_pool_stores_its_own_sessions_and_the_calls_of_others_in_its_namespace() {
        let mut index = SessionIndex::default();
        let with = |uid, pool, broker| Noted { pool, broker: Some(broker), ..noted(uid) };
        for session in [noted("a"), with("b", "p", "tools"), with("c", "q", "tools"), with("d", "q", "tools"), with("e", "q", "elsewhere")]
        {
            index.note(&session);
        }
        index.note(&Noted { namespace: "other", ..with("f", "q", "tools") });
        let stored = |index: &SessionIndex, pool| index.stored_with("team", pool, |broker| broker == "tools");
        assert_eq!((stored(&index, "p"), stored(&index, "q"), stored(&index, "none")), (4, 4, 3));
        assert_eq!(index.stored_with("nobody", "p", |_| true), 0);
        index.note(&with("c", "q", "elsewhere"));
        index.forget("d");
        assert_eq!((stored(&index, "p"), stored(&index, "none")), (2, 1));
        assert!(index.has_any("other") && !index.has_any("nobody"));
        index.forget("f");
        assert!(!index.has_any("other"));
    }
}
