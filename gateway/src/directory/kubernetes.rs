//! Sessions as API objects: a watch keeps a cache of all of them and of the kernel pods; writes go to the API server.
//!
//! What a write returns enters the cache at once, so that whoever wrote sees it without waiting for the watch.
//!
//! An etcd that was put back from a backup has fewer revisions than were seen, and a watch from a revision that it has not reached hears nothing. So
//! an answer to a request that was sent *after* a later state was seen tells of that: what it says is believed, and both watches begin anew. Where
//! nobody asks for anything, the revision is asked for every [`REVISION_POLL`].

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use async_trait::async_trait;
use dormouse_crds::{
    labels::{COMPONENT, STORAGE_FINALIZER},
    session::{KernelSession, KernelSessionStatus, Placement},
};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams},
    core::error_boundary::DeserializeGuard,
    runtime::{WatchStreamExt as _, watcher},
};
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

use super::{
    CHANGES_BACKLOG_MAX, Change, Directory, DirectoryError, KernelPod, Key, NewSession, Record, SessionPatch,
    pods::{self, PoolPod},
};

/// Field manager of everything that the gateway writes.
pub const FIELD_MANAGER: &str = "dormouse-gateway";

/// How long the API server may take to answer a request.
pub const API_TIMEOUT: Duration = Duration::from_secs(15);

/// Objects that a list asks for at once: they are in memory whole, however large somebody made them.
const LIST_PAGE_OBJECTS: u32 = 100;

/// How often the revision of the API server is compared with what was seen: the bound on how long a gateway that nobody uses goes on with what an
/// etcd that was put back does not have.
pub const REVISION_POLL: Duration = Duration::from_secs(30);

/// The state of a cache that a watch fills.
#[derive(Default)]
struct Cache {
    sessions: BTreeMap<Key, Arc<Record>>,
    pods: BTreeMap<Key, PoolPod>,
    sessions_synced: bool,
    pods_synced: bool,
    /// The highest revision that was seen.
    revision: u128,
    /// The API server has gone back, and its full list has not arrived since.
    went_back: bool,
}

struct Shared {
    cache: RwLock<Cache>,
    changes: broadcast::Sender<Change>,
    /// How often the API server was found to have gone back: each time, the watches begin anew.
    rollbacks: watch::Sender<u64>,
}

/// What was known when a request was sent.
#[derive(Debug, Clone, Copy)]
struct Sent {
    revision: u128,
}

/// Sessions of every namespace of a cluster.
pub struct KubernetesDirectory {
    client: Client,
    shared: Arc<Shared>,
}

impl KubernetesDirectory {
    /// Starts to watch; see [`Directory::pending`] for when the caches are full. Ends with `shutdown`.
    #[must_use]
    pub fn start(client: Client, shutdown: &CancellationToken) -> Arc<Self> {
        let shared = Arc::new(Shared::new());
        let sessions = watch_sessions(Api::all(client.clone()), Arc::clone(&shared));
        tokio::spawn(shutdown.clone().run_until_cancelled_owned(sessions));
        let pods = watch_pods(Api::all(client.clone()), Arc::clone(&shared));
        tokio::spawn(shutdown.clone().run_until_cancelled_owned(pods));
        let revisions = watch_revision(Api::all(client.clone()), Arc::clone(&shared));
        tokio::spawn(shutdown.clone().run_until_cancelled_owned(revisions));
        Arc::new(Self { client, shared })
    }

    fn api(&self, key: &Key) -> Api<KernelSession> {
        Api::namespaced(self.client.clone(), &key.namespace)
    }

    /// Takes what the API server answered to a request into the cache.
    fn noted(&self, object: KernelSession, sent: &Sent) -> Result<Arc<Record>, DirectoryError> {
        let record =
            record(object).ok_or_else(|| DirectoryError::unavailable("the API server answered with an object without a name or uid"))?;
        Ok(self.shared.answered(record, sent))
    }

    /// Waits for an answer about `key`; an object that is gone leaves the cache.
    async fn answer<T>(&self, key: &Key, request: impl Future<Output = kube::Result<T>> + Send) -> Result<T, DirectoryError> {
        let answered = tokio::time::timeout(API_TIMEOUT, request).await.map_err(DirectoryError::unavailable)?;
        let answer = answered.map_err(failure);
        if matches!(answer, Err(DirectoryError::NotFound)) {
            self.shared.forget(key, None);
        }
        answer
    }
}

impl Shared {
    fn new() -> Self {
        Self { cache: RwLock::default(), changes: broadcast::Sender::new(CHANGES_BACKLOG_MAX), rollbacks: watch::Sender::new(0) }
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Cache> {
        self.cache.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Cache> {
        self.cache.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify(&self, change: Change) {
        // Nobody listening is not a failure.
        let _ = self.changes.send(change);
    }

    /// Takes `record`, of which a watch tells, unless the cache has a later state of the same object. Returns what the cache has now.
    fn note(&self, record: Record) -> Arc<Record> {
        self.take(record, |have, new| version(&new.resource_version) < version(&have.resource_version))
    }

    /// What is known at this moment, before a request is sent.
    fn sending(&self, key: &Key) -> Sent {
        Sent { revision: self.read().sessions.get(key).map_or(0, |have| version(&have.resource_version)) }
    }

    /// Takes `record`, the answer to a request. One that is older than what was known when that was sent is the truth nevertheless: the API server has
    /// gone back. One that is older only than what came meanwhile is not.
    fn answered(&self, record: Record, sent: &Sent) -> Arc<Record> {
        let same = self.read().sessions.get(&record.key).is_some_and(|have| have.uid == record.uid);
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
        if let Some(have) = cache.sessions.get(&key)
            && (**have == record || (have.uid == record.uid && older(have, &record)))
        {
            return Arc::clone(have);
        }
        let record = Arc::new(record);
        cache.revision = cache.revision.max(version(&record.resource_version));
        cache.sessions.insert(key.clone(), Arc::clone(&record));
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

    /// Compares the revision of a list, which was asked for when `seen` was the highest, with that.
    fn compare_revision(&self, seen: u128, found: u128) {
        if found < seen {
            tracing::warn!(seen, found, "the API server has gone back: everything is read anew");
            self.went_back();
        } else {
            let mut cache = self.write();
            cache.revision = cache.revision.max(found);
        }
    }

    fn forget(&self, key: &Key, uid: Option<&str>) {
        let mut cache = self.write();
        let same = cache.sessions.get(key).is_some_and(|have| uid.is_none_or(|uid| have.uid == uid));
        if same {
            cache.sessions.remove(key);
            drop(cache);
            self.notify(Change::Session(key.clone()));
        }
    }

    /// Every session that the cache has, as a full list begins.
    fn known(&self) -> HashMap<Key, Arc<Record>> {
        self.read().sessions.iter().map(|(key, record)| (key.clone(), Arc::clone(record))).collect()
    }

    /// Takes `record` of a full list. One that was known when the list began, and has not changed since, is what the list says, whatever its version: the
    /// list was made after that was seen.
    fn list(&self, record: Record, known: &mut HashMap<Key, Arc<Record>>) {
        let before = known.get(&record.key).filter(|before| before.uid == record.uid).cloned();
        if before.is_some() {
            known.remove(&record.key);
        }
        let unchanged = |have: &Record| before.is_some_and(|before| before.resource_version == have.resource_version);
        self.take(record, |have, new| version(&new.resource_version) < version(&have.resource_version) && !unchanged(have));
    }

    /// After a full list: `gone` was there before the list was made and is not in it.
    fn listed(&self, gone: HashMap<Key, Arc<Record>>) {
        {
            let mut cache = self.write();
            (cache.sessions_synced, cache.went_back) = (true, false);
        }
        for (key, record) in gone {
            self.forget(&key, Some(&record.uid));
        }
        self.notify(Change::Pods);
    }

    fn change_pods(&self, change: impl FnOnce(&mut Cache)) {
        change(&mut self.write());
        self.notify(Change::Pods);
    }
}

/// The order of an object's states: resource versions of one kind of object are decimal numbers that grow.
fn version(resource_version: &str) -> u128 {
    resource_version.parse().unwrap_or(u128::MAX)
}

/// Ends when the API server has gone back: its watches hear nothing more.
async fn went_back(rollbacks: &mut watch::Receiver<u64>) {
    if rollbacks.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

async fn watch_sessions(api: Api<DeserializeGuard<KernelSession>>, shared: Arc<Shared>) {
    let mut rollbacks = shared.rollbacks.subscribe();
    loop {
        tokio::select! {
            () = follow_sessions(api.clone(), &shared) => return,
            () = went_back(&mut rollbacks) => {}
        }
    }
}

async fn follow_sessions(api: Api<DeserializeGuard<KernelSession>>, shared: &Shared) {
    let mut events = std::pin::pin!(watcher(api, watcher::Config::default().page_size(LIST_PAGE_OBJECTS)).default_backoff());
    let mut unlisted = HashMap::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Init) => unlisted = shared.known(),
            Ok(watcher::Event::InitApply(object)) => {
                if let Some(record) = readable(object) {
                    shared.list(record, &mut unlisted);
                }
            }
            Ok(watcher::Event::InitDone) => shared.listed(std::mem::take(&mut unlisted)),
            Ok(watcher::Event::Apply(object)) => drop(readable(object).map(|record| shared.note(record))),
            Ok(watcher::Event::Delete(object)) => {
                let key = Key::new(object.namespace().unwrap_or_default(), object.name_any());
                shared.forget(&key, object.uid().as_deref());
            }
            Err(error) => tracing::warn!(error = %crate::problem::chain(&error), "the watch of sessions failed; it goes on"),
        }
    }
}

async fn watch_pods(api: Api<Pod>, shared: Arc<Shared>) {
    let mut rollbacks = shared.rollbacks.subscribe();
    loop {
        tokio::select! {
            () = follow_pods(api.clone(), &shared) => return,
            () = went_back(&mut rollbacks) => {}
        }
    }
}

async fn follow_pods(api: Api<Pod>, shared: &Shared) {
    let config = watcher::Config::default().labels(&format!("{COMPONENT}=kernel"));
    let mut events = std::pin::pin!(watcher(api, config).default_backoff());
    let mut listed: BTreeMap<Key, PoolPod> = BTreeMap::new();
    let key = |pod: &Pod| Key::new(pod.namespace().unwrap_or_default(), pod.name_any());
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Init) => listed.clear(),
            Ok(watcher::Event::InitApply(pod)) => listed.extend(pods::read(&pod).map(|read| (key(&pod), read))),
            Ok(watcher::Event::InitDone) => {
                let listed = std::mem::take(&mut listed);
                shared.change_pods(|cache| (cache.pods, cache.pods_synced) = (listed, true));
            }
            Ok(watcher::Event::Apply(pod)) => shared.change_pods(|cache| match pods::read(&pod) {
                Some(read) => drop(cache.pods.insert(key(&pod), read)),
                None => drop(cache.pods.remove(&key(&pod))),
            }),
            Ok(watcher::Event::Delete(pod)) => shared.change_pods(|cache| drop(cache.pods.remove(&key(&pod)))),
            Err(error) => tracing::warn!(error = %crate::problem::chain(&error), "the watch of kernel pods failed; it goes on"),
        }
    }
}

/// A list of one object tells the revision, as etcd has it now.
async fn watch_revision(api: Api<KernelSession>, shared: Arc<Shared>) {
    let params = ListParams::default().limit(1);
    loop {
        tokio::time::sleep(REVISION_POLL).await;
        let seen = shared.read().revision;
        match tokio::time::timeout(API_TIMEOUT, api.list_metadata(&params)).await {
            Ok(Ok(list)) => {
                let found = list.metadata.resource_version.as_deref().map_or(u128::MAX, version);
                if found != u128::MAX {
                    shared.compare_revision(seen, found);
                }
            }
            Ok(Err(error)) => tracing::debug!(%error, "the revision of the API server is not known"),
            Err(_) => tracing::debug!("the API server does not tell its revision in time"),
        }
    }
}

/// One object that cannot be read must not hide the others.
fn readable(object: DeserializeGuard<KernelSession>) -> Option<Record> {
    match object.0 {
        Ok(object) => record(object),
        Err(error) => {
            let key = Key::new(error.metadata.namespace.unwrap_or_default(), error.metadata.name.unwrap_or_default());
            tracing::error!(session = %key, error = %error.error, "a KernelSession cannot be read; it is left out");
            None
        }
    }
}

fn record(object: KernelSession) -> Option<Record> {
    let meta = object.metadata;
    Some(Record {
        key: Key::new(meta.namespace?, meta.name?),
        uid: meta.uid?,
        resource_version: meta.resource_version.unwrap_or_default(),
        generation: meta.generation.unwrap_or(1),
        labels: meta.labels.unwrap_or_default(),
        spec: object.spec,
        status: object.status.unwrap_or_default(),
        finalizer: meta.finalizers.is_some_and(|finalizers| finalizers.iter().any(|finalizer| finalizer == STORAGE_FINALIZER)),
        deleting: meta.deletion_timestamp.is_some(),
    })
}

fn failure(error: kube::Error) -> DirectoryError {
    let kube::Error::Api(status) = &error else { return DirectoryError::unavailable(error) };
    let kind = status.details.as_ref().map_or("", |details| details.kind.as_str());
    match (status.code, status.reason.as_str()) {
        (404, _) if kind == "namespaces" => DirectoryError::NamespaceNotFound,
        (404, _) => DirectoryError::NotFound,
        (409, "AlreadyExists") => DirectoryError::AlreadyExists,
        (409, _) => DirectoryError::Conflict,
        (400 | 422, _) => DirectoryError::Invalid(status.message.clone()),
        (403, _) => forbidden(&status.message),
        _ => DirectoryError::unavailable(error),
    }
}

/// Who refuses is said in the text only: the authorizer that this process may not (`… is forbidden: User "…" cannot …`), the quota that it is used up
/// (`… is forbidden: exceeded quota: …`), and everybody else in words of their own.
fn forbidden(message: &str) -> DirectoryError {
    let reason = message.split_once(" is forbidden: ").map_or(message, |(_, reason)| reason);
    let message = message.to_owned();
    if reason.starts_with("User \"") {
        DirectoryError::Unprivileged(message)
    } else if ["exceeded quota:", "failed quota:", "insufficient quota"].iter().any(|quota| reason.starts_with(quota)) {
        DirectoryError::Quota(message)
    } else {
        DirectoryError::Denied(message)
    }
}

#[async_trait]
impl Directory for KubernetesDirectory {
    fn get(&self, key: &Key) -> Option<Arc<Record>> {
        self.shared.read().sessions.get(key).cloned()
    }

    async fn read(&self, key: &Key) -> Result<Arc<Record>, DirectoryError> {
        let (api, sent) = (self.api(key), self.shared.sending(key));
        let object = self.answer(key, api.get(&key.name)).await?;
        self.noted(object, &sent)
    }

    fn list(&self, namespace: Option<&str>) -> Vec<Arc<Record>> {
        let cache = self.shared.read();
        match namespace {
            None => cache.sessions.values().cloned().collect(),
            Some(namespace) => {
                let from = Key::new(namespace, "");
                cache
                    .sessions
                    .range(from..)
                    .take_while(|(key, _)| key.namespace == namespace)
                    .map(|(_, record)| Arc::clone(record))
                    .collect()
            }
        }
    }

    async fn create(&self, new: NewSession) -> Result<Arc<Record>, DirectoryError> {
        let mut object = KernelSession::new(&new.key.name, new.spec);
        object.metadata = ObjectMeta {
            namespace: Some(new.key.namespace.clone()),
            labels: (!new.labels.is_empty()).then_some(new.labels),
            finalizers: Some(vec![STORAGE_FINALIZER.to_owned()]),
            ..object.metadata
        };
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        let (api, sent) = (self.api(&new.key), self.shared.sending(&new.key));
        let object = self.answer(&new.key, api.create(&params, &object)).await?;
        self.noted(object, &sent)
    }

    async fn patch(&self, key: &Key, patch: SessionPatch) -> Result<Arc<Record>, DirectoryError> {
        let mut body = serde_json::Map::new();
        if let Some(spec) = patch.spec {
            body.insert("spec".to_owned(), spec);
        }
        if let Some(labels) = patch.labels {
            body.insert("metadata".to_owned(), serde_json::json!({ "labels": labels }));
        }
        let patch = Patch::Merge(serde_json::Value::Object(body));
        let params = PatchParams { field_validation: Some(kube::api::ValidationDirective::Strict), ..PatchParams::default() };
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..params };
        let (api, sent) = (self.api(key), self.shared.sending(key));
        let object = self.answer(key, api.patch(&key.name, &params, &patch)).await?;
        self.noted(object, &sent)
    }

    async fn delete(&self, key: &Key) -> Result<(), DirectoryError> {
        let (api, params, sent) = (self.api(key), DeleteParams::default(), self.shared.sending(key));
        let gone = self.answer(key, api.delete(&key.name, &params)).await?;
        match gone.left() {
            Some(object) => self.noted(object, &sent).map(drop),
            None => {
                self.shared.forget(key, None);
                Ok(())
            }
        }
    }

    async fn assign(&self, seen: &Record, placement: Placement) -> Result<Arc<Record>, DirectoryError> {
        let status =
            KernelSessionStatus { last_epoch: Some(placement.epoch), placement: Some(placement), ..KernelSessionStatus::default() };
        let patch = serde_json::json!({
            "metadata": { "resourceVersion": seen.resource_version, "uid": seen.uid },
            "status": status,
        });
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let (api, patch, sent) = (self.api(&seen.key), Patch::Merge(patch), self.shared.sending(&seen.key));
        let object = self.answer(&seen.key, api.patch_status(&seen.key.name, &params, &patch)).await?;
        self.noted(object, &sent)
    }

    fn pods(&self, namespace: &str, pool: &str) -> Vec<KernelPod> {
        let cache = self.shared.read();
        let from = Key::new(namespace, "");
        let of_namespace = cache.pods.range(from..).take_while(|(key, _)| key.namespace == namespace);
        of_namespace.filter(|(_, pod)| pod.pool == pool).map(|(_, pod)| pod.pod.clone()).collect()
    }

    fn pod(&self, namespace: &str, placement: &Placement) -> Option<KernelPod> {
        let cache = self.shared.read();
        let pod = cache.pods.get(&Key::new(namespace, &placement.pod))?;
        (pod.pod.uid == placement.pod_uid).then(|| pod.pod.clone())
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.shared.changes.subscribe()
    }

    fn pending(&self) -> Vec<&'static str> {
        let cache = self.shared.read();
        let mut pending = Vec::new();
        if !cache.sessions_synced {
            pending.push("the list of KernelSessions has not arrived");
        }
        if !cache.pods_synced {
            pending.push("the list of kernel pods has not arrived");
        }
        pending
    }
}

#[cfg(test)]
#[path = "kubernetes_tests.rs"]
mod tests;
