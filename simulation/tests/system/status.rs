//! Status: one truth with compare-and-swap, and what each gateway has seen of it so far.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::Duration,
};

use async_trait::async_trait;
use dormouse_crds::session::Placement;
use dormouse_gateway::directory::{Change, Directory, DirectoryError, KernelPod, Key, NewSession, Record, SessionPatch, merge_patch};
use tokio::{
    sync::{broadcast, mpsc},
    time::{Instant, sleep, sleep_until},
};

use crate::{
    chaos::{Act, Chaos, Fate},
    mutant::Mutant,
    node::Node,
};

/// How long a gateway waits for the API server.
const API_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone)]
enum News {
    Record(Arc<Record>),
    Gone(Key),
    Pods(Vec<KernelPod>),
}

#[derive(Default)]
struct Truth {
    records: BTreeMap<Key, Record>,
    pods: Vec<KernelPod>,
    version: u64,
    made: u64,
    watchers: Vec<mpsc::UnboundedSender<News>>,
}

/// The truth. Clones are the same.
#[derive(Clone, Default)]
pub struct Status(Arc<Mutex<Truth>>);

/// What was in it at some time.
pub struct Backup(BTreeMap<Key, Record>, u64);

impl Status {
    fn lock(&self) -> MutexGuard<'_, Truth> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn get(&self, key: &Key) -> Option<Record> {
        self.lock().records.get(key).cloned()
    }

    pub fn keys(&self) -> Vec<Key> {
        self.lock().records.keys().cloned().collect()
    }

    /// Replaces a record by what `change` makes of it.
    pub fn change<T>(
        &self,
        key: &Key,
        change: impl FnOnce(&mut Record) -> Result<T, DirectoryError>,
    ) -> Result<Arc<Record>, DirectoryError> {
        let mut truth = self.lock();
        let old = truth.records.get(key).cloned().ok_or(DirectoryError::NotFound)?;
        let mut new = old.clone();
        change(&mut new)?;
        if new == old {
            return Ok(Arc::new(old));
        }
        truth.version += 1;
        new.resource_version = truth.version.to_string();
        truth.records.insert(key.clone(), new.clone());
        let new = Arc::new(new);
        truth.tell(&News::Record(Arc::clone(&new)));
        Ok(new)
    }

    fn create(&self, new: NewSession) -> Result<Arc<Record>, DirectoryError> {
        let mut truth = self.lock();
        if truth.records.contains_key(&new.key) {
            return Err(DirectoryError::AlreadyExists);
        }
        truth.version += 1;
        truth.made += 1;
        let record = Record {
            key: new.key.clone(),
            uid: format!("00000000-0000-4000-8000-{:012}", truth.made),
            resource_version: truth.version.to_string(),
            generation: 1,
            labels: new.labels,
            spec: new.spec,
            status: Default::default(),
            finalizer: true,
            deleting: false,
        };
        truth.records.insert(new.key, record.clone());
        let record = Arc::new(record);
        truth.tell(&News::Record(Arc::clone(&record)));
        Ok(record)
    }

    pub fn remove(&self, key: &Key) {
        let mut truth = self.lock();
        truth.records.remove(key);
        truth.tell(&News::Gone(key.clone()));
    }

    pub fn set_pods(&self, change: impl FnOnce(&mut Vec<KernelPod>)) {
        let mut truth = self.lock();
        change(&mut truth.pods);
        let pods = truth.pods.clone();
        truth.tell(&News::Pods(pods));
    }

    pub fn pods(&self) -> Vec<KernelPod> {
        self.lock().pods.clone()
    }

    pub fn backup(&self) -> Backup {
        let truth = self.lock();
        Backup(truth.records.clone(), truth.version)
    }

    /// Puts everything back as it was, versions included: a restore of etcd.
    pub fn restore(&self, backup: &Backup) {
        let mut truth = self.lock();
        (truth.records, truth.version) = (backup.0.clone(), backup.1);
        let records: Vec<Record> = truth.records.values().cloned().collect();
        for record in records {
            truth.tell(&News::Record(Arc::new(record)));
        }
    }
}

impl Truth {
    fn tell(&mut self, news: &News) {
        self.watchers.retain(|watcher| watcher.send(news.clone()).is_ok());
    }
}

/// Status as one gateway sees it.
pub struct Seen {
    node: Node,
    truth: Status,
    chaos: Chaos,
    cache: RwLock<Cache>,
    changes: broadcast::Sender<Change>,
    /// Until when news are held back.
    held: Mutex<Option<Instant>>,
}

#[derive(Default)]
struct Cache {
    records: BTreeMap<Key, Arc<Record>>,
    pods: Vec<KernelPod>,
}

impl Seen {
    /// What a gateway that begins now sees.
    pub fn new(node: &Node, truth: &Status, chaos: &Chaos) -> Arc<Self> {
        let (sender, mut news) = mpsc::unbounded_channel();
        let cache = {
            let mut truth = truth.lock();
            truth.watchers.push(sender);
            let records = truth.records.iter().map(|(key, record)| (key.clone(), Arc::new(record.clone()))).collect();
            Cache { records, pods: truth.pods.clone() }
        };
        let seen = Arc::new(Self {
            node: node.clone(),
            truth: truth.clone(),
            chaos: chaos.clone(),
            cache: RwLock::new(cache),
            changes: broadcast::Sender::new(4096),
            held: Mutex::new(None),
        });
        let (watching, watcher) = (Arc::downgrade(&seen), node.clone());
        tokio::spawn(async move {
            while let Some(it) = news.recv().await {
                let Some(seen) = watching.upgrade() else { return };
                let act = Act { from: watcher.name().to_owned(), to: "status".into(), verb: "watch", name: String::new(), bytes: 0 };
                let wait = match seen.chaos.decide(&act) {
                    Fate::Arrives { before, .. } | Fate::ReplyLost { before } => before,
                    // A watch that breaks is made again, and nothing is left out.
                    _ => 1_000,
                };
                sleep(Duration::from_millis(wait)).await;
                let held = *seen.held.lock().unwrap();
                if let Some(until) = held {
                    sleep_until(until).await;
                }
                if watcher.is_dead() {
                    return;
                }
                seen.apply(it);
            }
        });
        seen
    }

    /// Lets it see nothing new for so long.
    pub fn hold_back(&self, time: Duration) {
        *self.held.lock().unwrap() = Some(Instant::now() + time);
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Cache> {
        self.cache.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_cache(&self) -> std::sync::RwLockReadGuard<'_, Cache> {
        self.cache.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn apply(&self, news: News) {
        let change = match news {
            News::Record(record) => {
                let key = record.key.clone();
                self.noted(record);
                Change::Session(key)
            }
            News::Gone(key) => {
                self.write().records.remove(&key);
                Change::Session(key)
            }
            News::Pods(pods) => {
                self.write().pods = pods;
                Change::Pods
            }
        };
        let _ = self.changes.send(change);
    }

    /// Takes a record unless the cache has a later state of the same object.
    fn noted(&self, record: Arc<Record>) -> Arc<Record> {
        let version = |record: &Record| record.resource_version.parse::<u64>().unwrap_or(u64::MAX);
        let mut cache = self.write();
        match cache.records.get(&record.key) {
            Some(have) if have.uid == record.uid && version(&record) < version(have) => Arc::clone(have),
            _ => {
                cache.records.insert(record.key.clone(), Arc::clone(&record));
                record
            }
        }
    }

    async fn ask<T>(
        &self,
        verb: &'static str,
        key: &Key,
        ask: impl FnOnce(&Status) -> Result<T, DirectoryError>,
    ) -> Result<T, DirectoryError> {
        self.node.lives().await;
        let act = Act { from: self.node.name().to_owned(), to: "status".to_owned(), verb, name: key.to_string(), bytes: 0 };
        let unavailable = || DirectoryError::unavailable("no answer");
        let answer = match self.chaos.decide(&act) {
            Fate::Arrives { before, after } => {
                sleep(Duration::from_millis(before)).await;
                self.node.lives().await;
                let answer = ask(&self.truth);
                sleep(Duration::from_millis(after)).await;
                answer
            }
            Fate::ReplyLost { before } => {
                sleep(Duration::from_millis(before)).await;
                self.node.lives().await;
                let _ = ask(&self.truth);
                sleep(API_TIMEOUT).await;
                Err(unavailable())
            }
            Fate::RequestLost | Fate::ArrivesLate { .. } => {
                sleep(API_TIMEOUT).await;
                Err(unavailable())
            }
            Fate::Busy | Fate::Refused => Err(unavailable()),
            Fate::Conflict => Err(DirectoryError::Conflict),
        };
        self.node.lives().await;
        answer
    }
}

#[async_trait]
impl Directory for Seen {
    fn get(&self, key: &Key) -> Option<Arc<Record>> {
        self.read_cache().records.get(key).cloned()
    }

    async fn read(&self, key: &Key) -> Result<Arc<Record>, DirectoryError> {
        let read = self.ask("read", key, |truth| truth.get(key).map(Arc::new).ok_or(DirectoryError::NotFound)).await;
        match read {
            Ok(record) => Ok(self.noted(record)),
            Err(DirectoryError::Conflict) => Err(DirectoryError::unavailable("try again")),
            Err(error) => Err(error),
        }
    }

    fn list(&self, namespace: Option<&str>) -> Vec<Arc<Record>> {
        let cache = self.read_cache();
        cache.records.values().filter(|record| namespace.is_none_or(|wanted| record.key.namespace == wanted)).cloned().collect()
    }

    async fn create(&self, new: NewSession) -> Result<Arc<Record>, DirectoryError> {
        let key = new.key.clone();
        self.ask("create", &key, |truth| truth.create(new)).await.map(|record| self.noted(record))
    }

    async fn patch(&self, key: &Key, patch: SessionPatch) -> Result<Arc<Record>, DirectoryError> {
        let change = |record: &mut Record| {
            if let Some(patch) = &patch.spec {
                let mut spec = serde_json::to_value(&record.spec).map_err(DirectoryError::unavailable)?;
                merge_patch(&mut spec, patch);
                record.spec = serde_json::from_value(spec).map_err(|error| DirectoryError::Invalid(error.to_string()))?;
                record.generation += 1;
            }
            Ok(())
        };
        self.ask("patch", key, |truth| truth.change(key, change)).await.map(|record| self.noted(record))
    }

    async fn delete(&self, key: &Key) -> Result<(), DirectoryError> {
        let change = |record: &mut Record| {
            record.deleting = true;
            Ok(())
        };
        self.ask("delete", key, |truth| truth.change(key, change)).await.map(drop)
    }

    async fn assign(&self, seen: &Record, placement: Placement) -> Result<Arc<Record>, DirectoryError> {
        let change = |record: &mut Record| {
            if record.uid != seen.uid || record.deleting {
                return Err(DirectoryError::NotFound);
            }
            if record.resource_version != seen.resource_version && !self.chaos.is(Mutant::StatusWithoutCas) {
                return Err(DirectoryError::Conflict);
            }
            let mut placement = placement;
            if self.chaos.is(Mutant::EpochsRepeat) {
                placement.epoch = placement.epoch.saturating_sub(1).max(1);
            }
            record.status.last_epoch = Some(placement.epoch);
            record.status.placement = Some(placement);
            Ok(())
        };
        self.ask("assign", &seen.key, |truth| truth.change(&seen.key, change)).await.map(|record| self.noted(record))
    }

    fn pods(&self, _namespace: &str, _pool: &str) -> Vec<KernelPod> {
        self.read_cache().pods.clone()
    }

    fn pod(&self, _namespace: &str, placement: &Placement) -> Option<KernelPod> {
        self.read_cache().pods.iter().find(|pod| pod.pod == placement.pod && pod.uid == placement.pod_uid).cloned()
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    fn pending(&self) -> Vec<&'static str> {
        Vec::new()
    }
}
