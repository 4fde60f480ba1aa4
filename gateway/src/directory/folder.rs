//! Sessions as JSON files in a folder, for `dormouse dev`: one process is gateway and operator, and its kernel pods are known from the start.
//!
//! `<root>/<namespace>/<name>.json` holds a [`Record`]. What a user or a placement writes is on disk, and survives a failure of power, before it is
//! answered. What pods report is written within [`FLUSH_MS`]. Losing that loses nothing: whoever opens the folder finds each session that had a
//! process, and has what is stored of it read before its placement is cleared. The folder has one process; whoever opens it sees to that.

use std::{
    collections::{BTreeMap, HashSet},
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use dormouse_crds::{quota::KernelQuotaSpec, session::Placement};
use dormouse_durable::{Disk, Files, NameLocks};
use dormouse_protocol::kernel::StoredStatus;
use jiff::Timestamp;
use tokio::sync::broadcast;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    CHANGES_BACKLOG_MAX, Change, Directory, DirectoryError, KernelPod, Key, NewSession, Record, Role, SessionPatch,
    files::{check_file_name, load, name_of_file, save},
    follow, merge_patch, settle,
};
use crate::kernels::Kernels;

/// Milliseconds after which reported status is on disk: a file that is written and synced for each session that has run meanwhile.
pub const FLUSH_MS: u64 = 10_000;

/// A kernel pod that is there as long as this process is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaticPod {
    /// Pod name.
    pub pod: String,
    /// The namespace in its certificate. It serves every namespace.
    pub namespace: String,
    /// Where its mTLS server listens.
    pub address: std::net::SocketAddr,
    /// Random name of its process.
    pub boot: String,
}

/// What is left to do for a session that goes: in a cluster the operator's work.
#[async_trait]
pub trait Cleanup: Send + Sync + 'static {
    /// Removes everything that is stored of the session. Repeated until it succeeds.
    async fn clean(&self, record: &Record) -> anyhow::Result<()>;
}

/// Sessions in a folder.
pub struct FolderDirectory {
    files: Files,
    pods: Vec<StaticPod>,
    records: RwLock<BTreeMap<Key, Arc<Record>>>,
    /// Files that hold no session that can be read.
    unread: usize,
    /// Held while a record is replaced, so that a compare-and-swap is one.
    writing: NameLocks<tokio::sync::Mutex<()>>,
    dirty: Mutex<HashSet<Key>>,
    version: AtomicU64,
    changes: broadcast::Sender<Change>,
    /// Talks to the pods as the operator.
    operator: Kernels,
    cleanup: Option<Arc<dyn Cleanup>>,
    config_maps: RwLock<ConfigMaps>,
    limits: RwLock<KernelQuotaSpec>,
    /// Cancelled when no pod is expected to begin again.
    pub(super) closing: CancellationToken,
    /// Those that follow the pods' reports.
    pub(super) followers: TaskTracker,
}

/// Texts by the name of their ConfigMap and the key in it.
pub type ConfigMaps = BTreeMap<String, BTreeMap<String, String>>;

impl FolderDirectory {
    /// Opens `root` on `disk`, made when absent, and follows the reports of `pods` until the last handle is dropped. Placements on processes that are not
    /// among `pods` are cleared once one of those has told what is stored; of sessions that none can tell of, that is tried again. `operator` must prove to be the operator: pods report to, and forget sessions for, nobody else.
    /// Must be called inside a Tokio runtime.
    pub async fn open(
        disk: Arc<dyn Disk>,
        root: impl Into<PathBuf>,
        pods: Vec<StaticPod>,
        operator: Kernels,
        cleanup: Option<Arc<dyn Cleanup>>,
    ) -> anyhow::Result<Arc<Self>> {
        let root = root.into();
        let (files, records, unread) = tokio::task::spawn_blocking(move || {
            let files = Files::open(disk, &root)?;
            let (records, unread) = load(&files)?;
            anyhow::Ok((files, records, unread))
        })
        .await??;
        let version = records.values().filter_map(|record| record.resource_version.parse::<u64>().ok()).max().unwrap_or(0);
        let directory = Arc::new(Self {
            files,
            pods,
            unread,
            records: RwLock::new(records.into_iter().map(|(key, record)| (key, Arc::new(record))).collect()),
            writing: NameLocks::default(),
            dirty: Mutex::default(),
            version: AtomicU64::new(version),
            changes: broadcast::Sender::new(CHANGES_BACKLOG_MAX),
            operator,
            cleanup,
            config_maps: RwLock::default(),
            limits: RwLock::default(),
            closing: CancellationToken::new(),
            followers: TaskTracker::new(),
        });
        settle::all(&directory).await?;
        for record in directory.list(None).into_iter().filter(|record| record.deleting) {
            follow::finish_deletion(&directory, record.key.clone());
        }
        follow::spawn(&directory);
        Ok(directory)
    }

    /// Has these ConfigMaps from now on, in every namespace.
    pub fn set_config_maps(&self, config_maps: ConfigMaps) {
        *self.config_maps.write().unwrap_or_else(PoisonError::into_inner) = config_maps;
    }

    /// Allows so much from now on, in every namespace.
    pub fn set_limits(&self, limits: KernelQuotaSpec) {
        *self.limits.write().unwrap_or_else(PoisonError::into_inner) = limits;
    }

    /// Files of sessions that could not be read: what is stored of those is of sessions that this directory does not know.
    #[must_use]
    pub fn unread(&self) -> usize {
        self.unread
    }

    pub(super) fn static_pods(&self) -> &[StaticPod] {
        &self.pods
    }

    pub(super) fn operator(&self) -> &Kernels {
        &self.operator
    }

    pub(super) fn cleanup(&self) -> Option<&Arc<dyn Cleanup>> {
        self.cleanup.as_ref()
    }

    pub(super) fn by_uid(&self, uid: &str) -> Option<Arc<Record>> {
        self.records.read().unwrap_or_else(PoisonError::into_inner).values().find(|record| record.uid == uid).cloned()
    }

    /// Clears the placement of a session whose process is gone, if it is still the one of `epoch`; `stored` is what was read since.
    pub(super) async fn lose(&self, key: &Key, epoch: u64, stored: Option<StoredStatus>) -> Result<(), DirectoryError> {
        let outcome = self
            .replace(key, Durably::Yes, |record| {
                if record.status.placement.as_ref().is_some_and(|placement| placement.epoch == epoch) {
                    record.lost(stored.as_ref(), Timestamp::now());
                }
                Ok(())
            })
            .await;
        match outcome {
            Ok(_) | Err(DirectoryError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Removes a record for good.
    pub(super) async fn remove(&self, key: &Key) -> Result<(), DirectoryError> {
        let _writing = self.writing.of(key).lock().await;
        let (files, name) = (self.files.clone(), name_of_file(key));
        blocking(move || files.remove(&name).map_err(DirectoryError::unavailable)).await?;
        self.records.write().unwrap_or_else(PoisonError::into_inner).remove(key);
        self.notify(key);
        Ok(())
    }

    /// Replaces a record by what `change` makes of it; nothing happens when it changes nothing.
    pub(super) async fn replace(
        &self,
        key: &Key,
        durably: Durably,
        change: impl FnOnce(&mut Record) -> Result<(), DirectoryError>,
    ) -> Result<Arc<Record>, DirectoryError> {
        let _writing = self.writing.of(key).lock().await;
        let old = self.get(key).ok_or(DirectoryError::NotFound)?;
        let mut new = Record::clone(&old);
        change(&mut new)?;
        if new == *old {
            return Ok(old);
        }
        new.resource_version = self.next_version();
        self.put(new, durably).await
    }

    /// Hears what the pods tell to the end, and writes it: before the process ends. Every pod must have ended or be about to.
    pub async fn close(&self) -> Result<(), DirectoryError> {
        self.closing.cancel();
        self.followers.close();
        self.followers.wait().await;
        self.flush().await?;
        let files = self.files.clone();
        blocking(move || files.flush().map_err(DirectoryError::unavailable)).await
    }

    /// Writes what pods reported since the last time.
    pub(super) async fn flush(&self) -> Result<(), DirectoryError> {
        let dirty = std::mem::take(&mut *self.dirty.lock().unwrap_or_else(PoisonError::into_inner));
        for key in dirty {
            let _writing = self.writing.of(&key).lock().await;
            if let Some(record) = self.get(&key) {
                let files = self.files.clone();
                blocking(move || save(&files, &record)).await?;
            }
        }
        Ok(())
    }

    async fn put(&self, record: Record, durably: Durably) -> Result<Arc<Record>, DirectoryError> {
        let record = Arc::new(record);
        let key = record.key.clone();
        match durably {
            Durably::Yes => {
                let (files, record) = (self.files.clone(), Arc::clone(&record));
                blocking(move || save(&files, &record)).await?;
            }
            Durably::Soon => {
                self.dirty.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone());
            }
        }
        self.records.write().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), Arc::clone(&record));
        self.notify(&key);
        Ok(record)
    }

    fn notify(&self, key: &Key) {
        // Nobody listening is not a failure.
        let _ = self.changes.send(Change::Session(key.clone()));
    }

    fn next_version(&self) -> String {
        (self.version.fetch_add(1, Ordering::Relaxed) + 1).to_string()
    }

    pub(super) fn kernel_pod(pod: &StaticPod) -> KernelPod {
        KernelPod {
            pod: pod.pod.clone(),
            uid: pod.boot.clone(),
            namespace: pod.namespace.clone(),
            pool: POOL.to_owned(),
            address: pod.address,
            ready: true,
            role: Role::Both,
            given_to: None,
        }
    }
}

/// The pool of every pod, whichever a session names: there are no others.
pub const POOL: &str = "default";

/// When a change must be on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Durably {
    /// Before it is answered.
    Yes,
    /// Within [`FLUSH_MS`].
    Soon,
}

#[async_trait]
impl Directory for FolderDirectory {
    fn get(&self, key: &Key) -> Option<Arc<Record>> {
        self.records.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    async fn read(&self, key: &Key) -> Result<Arc<Record>, DirectoryError> {
        self.get(key).ok_or(DirectoryError::NotFound)
    }

    fn list(&self, namespace: Option<&str>) -> Vec<Arc<Record>> {
        let records = self.records.read().unwrap_or_else(PoisonError::into_inner);
        records.values().filter(|record| namespace.is_none_or(|wanted| record.key.namespace == wanted)).cloned().collect()
    }

    async fn create(&self, new: NewSession) -> Result<Arc<Record>, DirectoryError> {
        check_file_name(&new.key.namespace)?;
        check_file_name(&new.key.name)?;
        let _writing = self.writing.of(&new.key).lock().await;
        if self.get(&new.key).is_some() {
            return Err(DirectoryError::AlreadyExists);
        }
        let record = Record {
            key: new.key,
            object_uid: String::new(),
            uid: uuid::Uuid::new_v4().to_string(),
            resource_version: self.next_version(),
            generation: 1,
            labels: new.labels,
            created_at: jiff::Timestamp::now().to_string(),
            spec: new.spec,
            status: Default::default(),
            finalizer: true,
            deleting: false,
            left_out: false,
        };
        self.put(record, Durably::Yes).await
    }

    async fn patch(&self, key: &Key, patch: SessionPatch) -> Result<Arc<Record>, DirectoryError> {
        self.replace(key, Durably::Yes, |record| {
            if record.deleting {
                return Err(DirectoryError::NotFound);
            }
            for (label, value) in patch.labels.into_iter().flatten() {
                match value {
                    Some(value) => record.labels.insert(label, value),
                    None => record.labels.remove(&label),
                };
            }
            if let Some(patch) = patch.spec {
                let mut spec = serde_json::to_value(&record.spec).map_err(DirectoryError::unavailable)?;
                merge_patch(&mut spec, &patch);
                let spec = serde_path_to_error::deserialize(spec).map_err(|error| DirectoryError::Invalid(format!("spec.{error}")))?;
                if record.spec != spec {
                    record.spec = spec;
                    record.generation += 1;
                }
            }
            Ok(())
        })
        .await
    }

    async fn delete(&self, key: &Key) -> Result<(), DirectoryError> {
        let record = self
            .replace(key, Durably::Yes, |record| {
                record.deleting = true;
                Ok(())
            })
            .await?;
        let _ = self.changes.send(Change::Session(record.key.clone()));
        Ok(())
    }

    async fn assign(&self, seen: &Record, placement: Placement) -> Result<Arc<Record>, DirectoryError> {
        self.replace(&seen.key, Durably::Yes, |record| {
            if record.uid != seen.uid || record.deleting {
                return Err(DirectoryError::NotFound);
            }
            if record.resource_version != seen.resource_version {
                return Err(DirectoryError::Conflict);
            }
            record.status.last_epoch = Some(placement.epoch);
            record.status.placement = Some(placement);
            Ok(())
        })
        .await
    }

    async fn config(&self, _namespace: &str, name: &str, key: &str) -> Result<Option<String>, DirectoryError> {
        let config_maps = self.config_maps.read().unwrap_or_else(PoisonError::into_inner);
        Ok(config_maps.get(name).and_then(|map| map.get(key)).cloned())
    }

    fn limits(&self, _namespace: &str) -> KernelQuotaSpec {
        *self.limits.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn pool_of(&self, _record: &Record) -> String {
        POOL.to_owned()
    }

    fn pods(&self, _namespace: &str, _pool: &str) -> Vec<KernelPod> {
        self.pods.iter().map(Self::kernel_pod).collect()
    }

    fn pod(&self, _namespace: &str, placement: &Placement) -> Option<KernelPod> {
        self.pods.iter().find(|pod| pod.pod == placement.pod && pod.boot == placement.boot).map(Self::kernel_pod)
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    fn pending(&self) -> Vec<&'static str> {
        Vec::new()
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, DirectoryError> + Send + 'static) -> Result<T, DirectoryError> {
    tokio::task::spawn_blocking(work).await.map_err(DirectoryError::unavailable)?
}
