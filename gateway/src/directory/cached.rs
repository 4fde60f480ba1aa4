//! Sessions as a watch and the answers to requests tell of them.
//!
//! What a write returns enters at once, so that whoever wrote sees it without waiting for the watch.
//!
//! An etcd that was put back from a backup has fewer revisions than were seen, and a watch from a revision that it has not reached hears nothing. So
//! an answer to a request that was sent *after* a later state was seen tells of that: what it says is believed, and the watches begin anew. Where
//! nobody asks for anything, the revision is asked for every [`REVISION_POLL`], and behind each full list: its watch begins at a revision that none of
//! its objects need have.
//!
//! What a full list, an answer and a watch are is the caller's matter: nothing here knows an API server.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use tokio::sync::{broadcast, watch};

use super::{CHANGES_BACKLOG_MAX, Change, Key, Record};

/// How often the revision of the API server is compared with what was seen: the bound on how long a gateway that nobody uses goes on with what an
/// etcd that was put back does not have.
pub const REVISION_POLL: Duration = Duration::from_secs(30);
/// How soon it is asked for again when it was not told.
pub const REVISION_AGAIN: Duration = Duration::from_secs(2);

#[derive(Default)]
struct Cache {
    records: BTreeMap<Key, Arc<Record>>,
    synced: bool,
    /// The highest revision that was seen.
    revision: u128,
    /// The API server has gone back, and its full list has not arrived since.
    went_back: bool,
}

/// The sessions, and who is told of changes.
pub struct SessionCache {
    cache: RwLock<Cache>,
    changes: broadcast::Sender<Change>,
    /// How often the API server was found to have gone back: each time, the watches begin anew.
    rollbacks: watch::Sender<u64>,
    /// How many full lists have come.
    lists: watch::Sender<u64>,
}

/// What was known when a request was sent.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    revision: u128,
}

impl Default for SessionCache {
    fn default() -> Self {
        Self {
            cache: RwLock::default(),
            changes: broadcast::Sender::new(CHANGES_BACKLOG_MAX),
            rollbacks: watch::Sender::new(0),
            lists: watch::Sender::new(0),
        }
    }
}

impl SessionCache {
    fn read(&self) -> std::sync::RwLockReadGuard<'_, Cache> {
        self.cache.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Cache> {
        self.cache.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// A session, as far as it is known.
    pub fn get(&self, key: &Key) -> Option<Arc<Record>> {
        self.read().records.get(key).cloned()
    }

    /// The sessions of a namespace, or of all, by name.
    pub fn all(&self, namespace: Option<&str>) -> Vec<Arc<Record>> {
        let cache = self.read();
        let Some(namespace) = namespace else { return cache.records.values().cloned().collect() };
        let of_namespace = cache.records.range(Key::new(namespace, "")..).take_while(|(key, _)| key.namespace == namespace);
        of_namespace.map(|(_, record)| Arc::clone(record)).collect()
    }

    /// Whether a full list has come.
    pub fn is_synced(&self) -> bool {
        self.read().synced
    }

    /// The highest revision that was seen.
    pub fn revision(&self) -> u128 {
        self.read().revision
    }

    /// Tells of everything that changes from now on.
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    /// Tells of a change that the cache does not have itself.
    pub fn notify(&self, change: Change) {
        // Nobody listening is not a failure.
        let _ = self.changes.send(change);
    }

    /// Changes each time that the watches must begin anew.
    pub fn rollbacks(&self) -> watch::Receiver<u64> {
        self.rollbacks.subscribe()
    }

    /// Changes each time that a full list has come, whose watch begins now.
    pub fn lists(&self) -> watch::Receiver<u64> {
        self.lists.subscribe()
    }

    /// A full list has come of what the cache does not have itself.
    pub fn saw_list(&self) {
        self.lists.send_modify(|times| *times += 1);
    }

    /// Takes `record`, of which a watch tells, unless the cache has a later state of the same object. Returns what the cache has now.
    pub fn note(&self, record: Record) -> Arc<Record> {
        self.take(record, |have, new| version(&new.resource_version) < version(&have.resource_version))
    }

    /// What is known at this moment, before a request is sent.
    pub fn sending(&self, key: &Key) -> Sent {
        Sent { revision: self.read().records.get(key).map_or(0, |have| version(&have.resource_version)) }
    }

    /// Takes `record`, the answer to a request. One that is older than what was known when that was sent is the truth nevertheless: the API server has
    /// gone back. One that is older only than what came meanwhile is not.
    pub fn answered(&self, record: Record, sent: &Sent) -> Arc<Record> {
        let same = self.read().records.get(&record.key).is_some_and(|have| have.object_uid == record.object_uid);
        if same && version(&record.resource_version) < sent.revision {
            tracing::warn!(session = %record.key, "the API server has gone back: everything is read anew");
            let taken = self.take(record, |_, _| false);
            self.went_back();
            return taken;
        }
        self.note(record)
    }

    /// Takes `record` unless `older` says that the cache has a later state of the same object.
    fn take(&self, record: Record, older: impl FnOnce(&Record, &Record) -> bool) -> Arc<Record> {
        let key = record.key.clone();
        let mut cache = self.write();
        if let Some(have) = cache.records.get(&key)
            && (**have == record || (have.object_uid == record.object_uid && older(have, &record)))
        {
            return Arc::clone(have);
        }
        let record = Arc::new(record);
        cache.revision = cache.revision.max(version(&record.resource_version));
        cache.records.insert(key.clone(), Arc::clone(&record));
        drop(cache);
        self.notify(Change::Session(key));
        record
    }

    /// Has both watches begin anew, once until a full list has come. What was seen until now says nothing of what comes.
    fn went_back(&self) {
        let mut cache = self.write();
        cache.revision = 0;
        if !std::mem::replace(&mut cache.went_back, true) {
            self.rollbacks.send_modify(|times| *times += 1);
        }
    }

    /// Takes down the revision of something that a watch told of, and that is not in the cache: a session that is gone, a pod.
    pub fn saw(&self, revision: u128) {
        let mut cache = self.write();
        cache.revision = cache.revision.max(revision);
    }

    /// Compares the revision of a list, which was asked for when `seen` was the highest, with that.
    pub fn compare_revision(&self, seen: u128, found: u128) {
        if found < seen {
            tracing::warn!(seen, found, "the API server has gone back: everything is read anew");
            self.went_back();
        } else {
            self.saw(found);
        }
    }

    /// An object is gone: the one of this uid, if one is named.
    pub fn forget(&self, key: &Key, uid: Option<&str>) {
        let mut cache = self.write();
        let same = cache.records.get(key).is_some_and(|have| uid.is_none_or(|uid| have.object_uid == uid));
        if same {
            cache.records.remove(key);
            drop(cache);
            self.notify(Change::Session(key.clone()));
        }
    }

    /// Every session that the cache has, as a full list begins.
    pub fn known(&self) -> BTreeMap<Key, Arc<Record>> {
        self.read().records.iter().map(|(key, record)| (key.clone(), Arc::clone(record))).collect()
    }

    /// Takes `record` of a full list. One that was known when the list began, and has not changed since, is what the list says, whatever its version: the
    /// list was made after that was seen.
    pub fn list(&self, record: Record, known: &mut BTreeMap<Key, Arc<Record>>) {
        let before = known.get(&record.key).filter(|before| before.object_uid == record.object_uid).cloned();
        if before.is_some() {
            known.remove(&record.key);
        }
        let unchanged = |have: &Record| before.is_some_and(|before| before.resource_version == have.resource_version);
        self.take(record, |have, new| version(&new.resource_version) < version(&have.resource_version) && !unchanged(have));
    }

    /// After a full list: `gone` was there before the list was made and is not in it.
    pub fn listed(&self, gone: BTreeMap<Key, Arc<Record>>) {
        {
            let mut cache = self.write();
            (cache.synced, cache.went_back) = (true, false);
        }
        for (key, record) in gone {
            self.forget(&key, Some(&record.object_uid));
        }
        self.saw_list();
        self.notify(Change::Pods);
    }
}

/// The order of an object's states: resource versions of one kind of object are decimal numbers that grow.
pub fn version(resource_version: &str) -> u128 {
    resource_version.parse().unwrap_or(u128::MAX)
}

#[cfg(test)]
#[path = "cached_tests.rs"]
mod tests;
