//! Status: one truth with compare-and-swap, and what each gateway has seen of it so far.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak},
    time::Duration,
};

use async_trait::async_trait;
use dormouse_crds::session::Placement;
use dormouse_gateway::directory::{
    Change, Directory, DirectoryError, KernelPod, Key, NewSession, Record, SessionPatch,
    cached::{REVISION_AGAIN, REVISION_POLL, SessionCache},
    merge_patch,
};
use tokio::{
    sync::{broadcast, mpsc},
    time::{Instant, sleep, sleep_until, timeout},
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
    Gone(Arc<Record>),
    /// With the revision of that.
    Pods(Vec<KernelPod>, u64),
}

#[derive(Default)]
struct Truth {
    records: BTreeMap<Key, Record>,
    pods: Vec<KernelPod>,
    version: u64,
    made: u64,
    watchers: Vec<Watcher>,
}

/// Who hears of what comes after a version.
struct Watcher {
    after: u64,
    tell: mpsc::UnboundedSender<News>,
}

/// Versions between a backup and what comes then: what everybody else writes into a cluster meanwhile.
const WRITES_OF_OTHERS: u64 = 1_000_000;

/// The truth. Clones are the same.
#[derive(Clone, Default)]
pub struct Status(Arc<Mutex<Truth>>);

/// What was in it at some time.
pub struct Backup(BTreeMap<Key, Record>, u64);

impl Backup {
    /// Whether the same sessions are there now, and the same of them are being deleted.
    pub fn has_the_sessions_of(&self, status: &Status) -> bool {
        let of = |records: &BTreeMap<Key, Record>| records.values().map(|it| (it.uid.clone(), it.deleting)).collect::<Vec<_>>();
        of(&self.0) == of(&status.lock().records)
    }
}

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
            object_uid: format!("00000000-0000-4000-8000-{:012}", truth.made),
            uid: format!("00000000-0000-4000-8000-{:012}", truth.made),
            resource_version: truth.version.to_string(),
            generation: 1,
            labels: new.labels,
            created_at: String::new(),
            spec: new.spec,
            status: Default::default(),
            finalizer: true,
            deleting: false,
            left_out: false,
        };
        truth.records.insert(new.key, record.clone());
        let record = Arc::new(record);
        truth.tell(&News::Record(Arc::clone(&record)));
        Ok(record)
    }

    pub fn remove(&self, key: &Key) {
        let mut truth = self.lock();
        if let Some(record) = truth.records.remove(key) {
            truth.version += 1;
            truth.tell(&News::Gone(Arc::new(record)));
        }
    }

    pub fn set_pods(&self, change: impl FnOnce(&mut Vec<KernelPod>)) {
        let mut truth = self.lock();
        change(&mut truth.pods);
        truth.version += 1;
        let pods = truth.pods.clone();
        let version = truth.version;
        truth.tell(&News::Pods(pods, version));
    }

    pub fn pods(&self) -> Vec<KernelPod> {
        self.lock().pods.clone()
    }

    pub fn backup(&self) -> Backup {
        let mut truth = self.lock();
        let backup = Backup(truth.records.clone(), truth.version);
        truth.version += WRITES_OF_OTHERS;
        backup
    }

    /// Puts everything back as it was, versions included: a restore of etcd. Watches from versions that are gone hear nothing any more. Pods are there
    /// whatever status says of them.
    pub fn restore(&self, backup: &Backup) {
        let mut truth = self.lock();
        (truth.records, truth.version) = (backup.0.clone(), backup.1);
    }

    fn version(&self) -> u64 {
        self.lock().version
    }

    /// A full list, and news from then on.
    fn watch(&self) -> (Vec<Record>, Vec<KernelPod>, mpsc::UnboundedReceiver<News>) {
        let (sender, news) = mpsc::unbounded_channel();
        let mut truth = self.lock();
        let after = truth.version;
        truth.watchers.push(Watcher { after, tell: sender });
        (truth.records.values().cloned().collect(), truth.pods.clone(), news)
    }
}

impl Truth {
    fn tell(&mut self, news: &News) {
        let version = self.version;
        self.watchers.retain_mut(|watcher| {
            let hears = version > watcher.after;
            watcher.after = watcher.after.max(version);
            !hears || watcher.tell.send(news.clone()).is_ok()
        });
    }
}

/// Status as one gateway sees it: the rules are the gateway's own, the API server is not.
pub struct Seen {
    node: Node,
    truth: Status,
    chaos: Chaos,
    sessions: SessionCache,
    pods: RwLock<Vec<KernelPod>>,
    /// Until when news are held back.
    held: Mutex<Option<Instant>>,
}

impl Seen {
    /// What a gateway that begins now sees.
    pub fn new(node: &Node, truth: &Status, chaos: &Chaos) -> Arc<Self> {
        let seen = Arc::new(Self {
            node: node.clone(),
            truth: truth.clone(),
            chaos: chaos.clone(),
            sessions: SessionCache::default(),
            pods: RwLock::default(),
            held: Mutex::new(None),
        });
        let news = seen.list();
        tokio::spawn(watch(Arc::downgrade(&seen), news));
        tokio::spawn(compare_revisions(Arc::downgrade(&seen)));
        seen
    }

    /// Lets it see nothing new for so long.
    pub fn hold_back(&self, time: Duration) {
        *self.held.lock().unwrap() = Some(Instant::now() + time);
    }

    /// Begins the watch anew.
    fn list(&self) -> mpsc::UnboundedReceiver<News> {
        let mut known = self.sessions.known();
        let (records, pods, news) = self.truth.watch();
        for record in records {
            self.sessions.list(record, &mut known);
        }
        *self.pods.write().unwrap_or_else(PoisonError::into_inner) = pods;
        self.sessions.listed(known);
        news
    }

    fn apply(&self, news: News) {
        match news {
            News::Record(record) => drop(self.sessions.note(Record::clone(&record))),
            News::Gone(record) => self.sessions.forget(&record.key, Some(&record.object_uid)),
            News::Pods(pods, version) => {
                self.sessions.saw(version.into());
                *self.pods.write().unwrap_or_else(PoisonError::into_inner) = pods;
                self.sessions.notify(Change::Pods);
            }
        }
    }

    /// Asks about `key`, and takes the answer for what it is.
    async fn ask_record(
        &self,
        verb: &'static str,
        key: &Key,
        ask: impl FnOnce(&Status) -> Result<Arc<Record>, DirectoryError>,
    ) -> Result<Arc<Record>, DirectoryError> {
        let sent = self.sessions.sending(key);
        match self.ask(verb, key, ask).await {
            Ok(record) => Ok(self.sessions.answered(Record::clone(&record), &sent)),
            Err(error) => {
                if matches!(error, DirectoryError::NotFound) {
                    self.sessions.forget(key, None);
                }
                Err(error)
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
        self.sessions.get(key)
    }

    async fn read(&self, key: &Key) -> Result<Arc<Record>, DirectoryError> {
        let read = self.ask_record("read", key, |truth| truth.get(key).map(Arc::new).ok_or(DirectoryError::NotFound)).await;
        match read {
            Err(DirectoryError::Conflict) => Err(DirectoryError::unavailable("try again")),
            read => read,
        }
    }

    fn list(&self, namespace: Option<&str>) -> Vec<Arc<Record>> {
        self.sessions.all(namespace)
    }

    async fn create(&self, new: NewSession) -> Result<Arc<Record>, DirectoryError> {
        let key = new.key.clone();
        self.ask_record("create", &key, |truth| truth.create(new)).await
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
        self.ask_record("patch", key, |truth| truth.change(key, change)).await
    }

    async fn delete(&self, key: &Key) -> Result<(), DirectoryError> {
        let change = |record: &mut Record| {
            record.deleting = true;
            Ok(())
        };
        self.ask_record("delete", key, |truth| truth.change(key, change)).await.map(drop)
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
        self.ask_record("assign", &seen.key, |truth| truth.change(&seen.key, change)).await
    }

    fn pods(&self, _namespace: &str, _pool: &str) -> Vec<KernelPod> {
        self.pods.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn pod(&self, _namespace: &str, placement: &Placement) -> Option<KernelPod> {
        self.pods("", "").into_iter().find(|pod| pod.pod == placement.pod && pod.uid == placement.pod_uid)
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.sessions.changes()
    }

    fn pending(&self) -> Vec<&'static str> {
        Vec::new()
    }
}

/// Hears what is new, and begins anew when the cache says that status went back.
async fn watch(seen: Weak<Seen>, mut news: mpsc::UnboundedReceiver<News>) {
    let Some(mut rollbacks) = seen.upgrade().map(|seen| seen.sessions.rollbacks()) else { return };
    loop {
        let next = tokio::select! {
            biased;
            _ = rollbacks.changed() => None,
            Some(next) = news.recv() => Some(next),
        };
        let Some(this) = seen.upgrade() else { return };
        let act = Act { from: this.node.name().to_owned(), to: "status".into(), verb: "watch", name: String::new(), bytes: 0 };
        let wait = match this.chaos.decide(&act) {
            Fate::Arrives { before, .. } | Fate::ReplyLost { before } => before,
            // A watch that breaks is made again, and nothing is left out.
            _ => 1_000,
        };
        sleep(Duration::from_millis(wait)).await;
        let held = *this.held.lock().unwrap();
        if let Some(until) = held {
            sleep_until(until).await;
        }
        if this.node.is_dead() {
            return;
        }
        match next {
            Some(next) => this.apply(next),
            None => news = this.list(),
        }
    }
}

/// Compares the version of status with what was seen, as a gateway does that nobody uses.
async fn compare_revisions(seen: Weak<Seen>) {
    let Some(mut lists) = seen.upgrade().map(|this| this.sessions.lists()) else { return };
    lists.mark_changed();
    let mut pause = REVISION_POLL;
    loop {
        let _ = timeout(pause, lists.changed()).await;
        let Some(this) = seen.upgrade().filter(|this| !this.node.is_dead()) else { return };
        let known = this.sessions.revision();
        pause = REVISION_AGAIN;
        if let Ok(found) = this.ask("revision", &Key::new("", ""), |truth| Ok(truth.version())).await {
            this.sessions.compare_revision(known, u128::from(found));
            pause = REVISION_POLL;
        }
    }
}
