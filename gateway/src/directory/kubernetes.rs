//! Sessions as API objects: a watch keeps a cache of all of them and of the kernel pods; writes go to the API server.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use async_trait::async_trait;
use dormouse_control::{archive::PageCall, condition::rfc3339, pool::demand::wake_is_to_be_requested};
use dormouse_crds::{
    labels::STORAGE_FINALIZER,
    quota::{KernelQuotaSpec, KernelQuotaStatus},
    session::{KernelSession, KernelSessionSpec, KernelSessionStatus, Placement},
};
use dormouse_watch::WatchScope;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use super::{
    ArchivedPage, Change, Directory, DirectoryError, KernelPod, Key, NewSession, Quota, Record, Seen, SessionPatch,
    archive::ArchiveClient,
    cached::{Sent, SessionCache},
    quotas::{self, Quotas},
    specs::Specs,
    watches::{watch_pods, watch_revision, watch_sessions},
};

/// Field manager of everything that the gateway writes.
pub const FIELD_MANAGER: &str = "dormouse-gateway";

/// How long the API server may take to answer a request.
pub const API_TIMEOUT: Duration = Duration::from_secs(15);

/// The kernel pods, as a watch tells of them.
#[derive(Default)]
pub(super) struct Pods {
    pub(super) pods: BTreeMap<Key, KernelPod>,
    pub(super) synced: bool,
}

#[derive(Default)]
pub(super) struct Shared {
    pub(super) sessions: SessionCache,
    pods: RwLock<Pods>,
    pub(super) quotas: Quotas,
    pub(super) specs: Specs,
}

/// Sessions of a cluster's namespaces.
pub struct KubernetesDirectory {
    client: Client,
    pub(super) scope: WatchScope,
    pub(super) shared: Arc<Shared>,
    pub(super) archive: Option<ArchiveClient>,
}

impl KubernetesDirectory {
    /// Starts to watch what `scope` names; see [`Directory::pending`] for when the caches are full. Ends with `shutdown`.
    #[must_use]
    pub fn start(client: Client, scope: WatchScope, shutdown: &CancellationToken) -> Arc<Self> {
        Self::start_with(client, scope, None, shutdown)
    }

    /// The same where sessions may be in an archive.
    #[must_use]
    pub fn start_with(client: Client, scope: WatchScope, archive: Option<ArchiveClient>, shutdown: &CancellationToken) -> Arc<Self> {
        let shared = Arc::<Shared>::default();
        let sessions = watch_sessions(scope.apis(&client), Arc::clone(&shared));
        tokio::spawn(shutdown.clone().run_until_cancelled_owned(sessions));
        let pods = watch_pods(scope.apis(&client), Arc::clone(&shared));
        tokio::spawn(shutdown.clone().run_until_cancelled_owned(pods));
        let quotas = quotas::watch(scope.apis(&client), Arc::clone(&shared));
        tokio::spawn(shutdown.clone().run_until_cancelled_owned(quotas));
        let revisions = watch_revision(scope.apis(&client), Arc::clone(&shared));
        tokio::spawn(shutdown.clone().run_until_cancelled_owned(revisions));
        Arc::new(Self { client, scope, shared, archive })
    }

    /// Changes each time that the API server was found to have gone back: watches begin anew then.
    #[must_use]
    pub fn rollbacks(&self) -> tokio::sync::watch::Receiver<u64> {
        self.shared.sessions.rollbacks()
    }

    pub(super) fn api(&self, key: &Key) -> Result<Api<KernelSession>, DirectoryError> {
        if self.scope.contains(&key.namespace) {
            return Ok(Api::namespaced(self.client.clone(), &key.namespace));
        }
        let message = format!("namespace `{}` is not among the watchNamespaces of this installation: ask whoever runs it", key.namespace);
        Err(DirectoryError::Denied(message))
    }

    /// Takes what the API server answered to a request into the cache.
    pub(super) fn noted(&self, object: KernelSession, sent: &Sent) -> Result<Arc<Record>, DirectoryError> {
        let record =
            record(object).ok_or_else(|| DirectoryError::unavailable("the API server answered with an object without a name or uid"))?;
        Ok(self.shared.sessions.answered(self.shared.specs.keep(record), sent))
    }

    /// The session's object, as it is now.
    async fn live(&self, key: &Key) -> Result<Arc<Record>, DirectoryError> {
        let (api, sent) = (self.api(key)?, self.shared.sessions.sending(key));
        let object = self.answer(key, api.get(&key.name)).await?;
        self.noted(object, &sent)
    }

    /// Waits for an answer about `key`; an object that is gone leaves the cache.
    pub(super) async fn answer<T>(&self, key: &Key, request: impl Future<Output = kube::Result<T>> + Send) -> Result<T, DirectoryError> {
        let answered = tokio::time::timeout(API_TIMEOUT, request).await.map_err(DirectoryError::unavailable)?;
        let answer = answered.map_err(failure);
        if matches!(answer, Err(DirectoryError::NotFound)) {
            self.shared.sessions.forget(key, None);
        }
        answer
    }
}

impl Shared {
    fn read_pods(&self) -> std::sync::RwLockReadGuard<'_, Pods> {
        self.pods.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn change_pods(&self, change: impl FnOnce(&mut Pods)) {
        change(&mut self.pods.write().unwrap_or_else(PoisonError::into_inner));
        self.sessions.notify(Change::Pods);
    }
}

pub(super) fn record(object: KernelSession) -> Option<Record> {
    // Until the operator says which session it is, it is none that may be placed.
    let (uid, is_returning) = (object.stored_uid(), object.returning().is_some());
    let meta = object.metadata;
    Some(Record {
        key: Key::new(meta.namespace?, meta.name?),
        object_uid: meta.uid?,
        uid,
        resource_version: meta.resource_version.unwrap_or_default(),
        generation: meta.generation.unwrap_or(1),
        labels: meta.labels.unwrap_or_default(),
        created_at: meta.creation_timestamp.map(|time| time.0.to_string()).unwrap_or_default(),
        spec: object.spec,
        status: object.status.unwrap_or_default(),
        finalizer: !is_returning && meta.finalizers.is_some_and(|all| all.iter().any(|finalizer| finalizer == STORAGE_FINALIZER)),
        deleting: meta.deletion_timestamp.is_some(),
        left_out: false,
    })
}

pub(super) fn failure(error: kube::Error) -> DirectoryError {
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
        self.shared.sessions.get(key)
    }

    async fn read(&self, key: &Key) -> Result<Arc<Record>, DirectoryError> {
        let seen = self.live(key).await;
        if !matches!(seen, Err(DirectoryError::NotFound)) {
            return seen;
        }
        match self.find_archived(key).await? {
            Some(archived) => self.bring_back(archived).await,
            None => seen,
        }
    }

    async fn look(&self, key: &Key) -> Result<Seen, DirectoryError> {
        let seen = self.live(key).await;
        if matches!(seen, Err(DirectoryError::NotFound))
            && let Some(archived) = self.find_archived(key).await?
        {
            return Ok(Seen { record: Arc::new(archived.record()), archived: true });
        }
        Ok(Seen { record: seen?, archived: false })
    }

    async fn whole(&self, record: &Arc<Record>) -> Result<Arc<Record>, DirectoryError> {
        if !record.left_out {
            return Ok(Arc::clone(record));
        }
        let (spec, generation) = match self.shared.specs.get(record) {
            Some(spec) => (KernelSessionSpec::clone(&spec), record.generation),
            None => {
                let (api, sent) = (self.api(&record.key)?, self.shared.sessions.sending(&record.key));
                let object = self.answer(&record.key, api.get(&record.key.name)).await?;
                let read = (object.spec.clone(), object.metadata.generation.unwrap_or(1));
                if self.noted(object, &sent)?.object_uid != record.object_uid {
                    return Err(DirectoryError::NotFound);
                }
                read
            }
        };
        // All else is as it was seen: what is written next is compared with that.
        Ok(Arc::new(Record { spec, generation, left_out: false, ..Record::clone(record) }))
    }

    async fn archived(&self, namespace: &str, after: Option<String>, limit: usize) -> Result<ArchivedPage, DirectoryError> {
        match self.archive.as_ref().filter(|_| self.scope.contains(namespace)) {
            Some(archive) => archive.page(&PageCall { namespace: namespace.to_owned(), after, limit }).await,
            None => Ok(ArchivedPage::default()),
        }
    }

    fn has_archive(&self) -> bool {
        self.archive.is_some()
    }

    fn list(&self, namespace: Option<&str>) -> Vec<Arc<Record>> {
        self.shared.sessions.all(namespace)
    }

    async fn create(&self, new: NewSession) -> Result<Arc<Record>, DirectoryError> {
        // An operator that does not answer keeps nobody from making sessions: one that is in the archive under this name is hidden then.
        if matches!(self.find_archived(&new.key).await, Ok(Some(_))) {
            return Err(DirectoryError::AlreadyExists);
        }
        let mut object = KernelSession::new(&new.key.name, new.spec);
        object.metadata = ObjectMeta {
            namespace: Some(new.key.namespace.clone()),
            labels: (!new.labels.is_empty()).then_some(new.labels),
            finalizers: Some(vec![STORAGE_FINALIZER.to_owned()]),
            ..object.metadata
        };
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        let (api, sent) = (self.api(&new.key)?, self.shared.sessions.sending(&new.key));
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
        let (api, sent) = (self.api(key)?, self.shared.sessions.sending(key));
        let mut answer = self.answer(key, api.patch(&key.name, &params, &patch)).await;
        if matches!(answer, Err(DirectoryError::NotFound)) && self.archive.is_some() {
            self.read(key).await?;
            answer = self.answer(key, api.patch(&key.name, &params, &patch)).await;
        }
        self.noted(answer?, &sent)
    }

    async fn delete(&self, key: &Key) -> Result<(), DirectoryError> {
        let (api, params, sent) = (self.api(key)?, DeleteParams::default(), self.shared.sessions.sending(key));
        let mut gone = self.answer(key, api.delete(&key.name, &params)).await;
        if matches!(gone, Err(DirectoryError::NotFound)) && self.archive.is_some() {
            // Back it goes the way of every session: what it has stored is erased before its object is gone.
            self.read(key).await?;
            gone = self.answer(key, api.delete(&key.name, &params)).await;
        }
        match gone?.left() {
            Some(object) => self.noted(object, &sent).map(drop),
            None => {
                self.shared.sessions.forget(key, None);
                Ok(())
            }
        }
    }

    async fn assign(&self, seen: &Record, placement: Placement) -> Result<Arc<Record>, DirectoryError> {
        let status =
            KernelSessionStatus { last_epoch: Some(placement.epoch), placement: Some(placement), ..KernelSessionStatus::default() };
        let mut patch = serde_json::json!({
            "metadata": { "resourceVersion": seen.resource_version, "uid": seen.object_uid },
            "status": status,
        });
        // Who has a place waits for none; kept, it would have its pool make a pod each time the status changes.
        if seen.status.wake_requested_time.is_some() {
            patch["status"]["wakeRequestedTime"] = serde_json::Value::Null;
        }
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let (api, patch, sent) = (self.api(&seen.key)?, Patch::Merge(patch), self.shared.sessions.sending(&seen.key));
        match self.answer(&seen.key, api.patch_status(&seen.key.name, &params, &patch)).await {
            // It may have left for the archive: whoever looks again brings it back.
            Err(DirectoryError::NotFound) if self.archive.is_some() => Err(DirectoryError::Conflict),
            answer => self.noted(answer?, &sent),
        }
    }

    async fn request_wake(&self, seen: &Record) -> Result<(), DirectoryError> {
        let now = Timestamp::now();
        if !wake_is_to_be_requested(&seen.status, now) {
            return Ok(());
        }
        let status = KernelSessionStatus { wake_requested_time: Some(rfc3339(now)), ..KernelSessionStatus::default() };
        let patch = Patch::Merge(serde_json::json!({ "metadata": { "uid": seen.object_uid }, "status": status }));
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let (api, sent) = (self.api(&seen.key)?, self.shared.sessions.sending(&seen.key));
        let object = self.answer(&seen.key, api.patch_status(&seen.key.name, &params, &patch)).await?;
        self.noted(object, &sent).map(drop)
    }

    async fn config(&self, namespace: &str, name: &str, key: &str) -> Result<Option<String>, DirectoryError> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let found = tokio::time::timeout(API_TIMEOUT, api.get_opt(name)).await.map_err(DirectoryError::unavailable)?.map_err(failure)?;
        Ok(found.and_then(|map| map.data?.remove(key)))
    }

    fn limits(&self, namespace: &str) -> KernelQuotaSpec {
        self.shared.quotas.limits(namespace)
    }

    fn quotas(&self, namespace: Option<&str>) -> Vec<Arc<Quota>> {
        self.shared.quotas.of(namespace)
    }

    async fn write_quota(&self, seen: &Quota, status: KernelQuotaStatus) -> Result<(), DirectoryError> {
        quotas::write(&self.client, seen, &status).await
    }

    fn pools(&self, namespace: &str) -> BTreeSet<String> {
        let named: BTreeSet<String> = self.list(Some(namespace)).iter().map(|record| record.spec.pool.clone()).collect();
        let cache = self.shared.read_pods();
        let of_namespace = cache.pods.range(Key::new(namespace, "")..).take_while(|(key, _)| key.namespace == namespace);
        of_namespace.map(|(_, pod)| pod.pool.clone()).chain(named).collect()
    }

    fn pods(&self, namespace: &str, pool: &str) -> Vec<KernelPod> {
        let cache = self.shared.read_pods();
        let from = Key::new(namespace, "");
        let of_namespace = cache.pods.range(from..).take_while(|(key, _)| key.namespace == namespace);
        of_namespace.filter(|(_, pod)| pod.pool == pool).map(|(_, pod)| pod.clone()).collect()
    }

    fn pod(&self, namespace: &str, placement: &Placement) -> Option<KernelPod> {
        let cache = self.shared.read_pods();
        let pod = cache.pods.get(&Key::new(namespace, &placement.pod))?;
        (pod.uid == placement.pod_uid).then(|| pod.clone())
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.shared.sessions.changes()
    }

    fn pending(&self) -> Vec<&'static str> {
        let mut pending = Vec::new();
        if !self.shared.sessions.is_synced() {
            pending.push("the list of KernelSessions has not arrived");
        }
        if !self.shared.read_pods().synced {
            pending.push("the list of kernel pods has not arrived");
        }
        // Without it nothing would be limited.
        if !self.shared.quotas.is_synced() {
            pending.push("the list of KernelQuotas has not arrived");
        }
        pending
    }
}

#[cfg(test)]
#[path = "kubernetes_tests.rs"]
mod tests;
