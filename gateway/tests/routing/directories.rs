//! Directories that are a folder's but for one thing.

use std::{
    collections::HashSet,
    sync::{Arc, atomic::Ordering},
};

use async_trait::async_trait;
use dormouse_crds::session::Placement;
use dormouse_gateway::{
    Directory,
    directory::{Change, DirectoryError, KernelPod, Key, NewSession, Record, SessionPatch, folder::FolderDirectory},
};
use tokio::sync::broadcast;

use crate::support::FakePod;

/// A directory that may be looked at, and must not be asked or changed.
pub(super) struct Untouched(pub(super) Arc<FolderDirectory>);

#[async_trait]
impl Directory for Untouched {
    fn get(&self, key: &Key) -> Option<Arc<Record>> {
        self.0.get(key)
    }

    async fn read(&self, _: &Key) -> Result<Arc<Record>, DirectoryError> {
        panic!("a wake in place read a session")
    }

    fn list(&self, namespace: Option<&str>) -> Vec<Arc<Record>> {
        self.0.list(namespace)
    }

    async fn create(&self, _: NewSession) -> Result<Arc<Record>, DirectoryError> {
        panic!("a wake in place made a session")
    }

    async fn patch(&self, _: &Key, _: SessionPatch) -> Result<Arc<Record>, DirectoryError> {
        panic!("a wake in place changed a session")
    }

    async fn delete(&self, _: &Key) -> Result<(), DirectoryError> {
        panic!("a wake in place deleted a session")
    }

    async fn assign(&self, _: &Record, _: Placement) -> Result<Arc<Record>, DirectoryError> {
        panic!("a wake in place placed a session")
    }

    fn pods(&self, namespace: &str, pool: &str) -> Vec<KernelPod> {
        self.0.pods(namespace, pool)
    }

    fn pod(&self, namespace: &str, placement: &Placement) -> Option<KernelPod> {
        self.0.pod(namespace, placement)
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.0.changes()
    }

    fn pending(&self) -> Vec<&'static str> {
        self.0.pending()
    }
}

/// A directory in which the session is deleted and made again once its pod has got a cell.
pub(super) struct Recreated(pub(super) Arc<FolderDirectory>, pub(super) Arc<FakePod>);

impl Recreated {
    fn now(&self, record: Arc<Record>) -> Arc<Record> {
        if self.1.evals().is_empty() { record } else { Arc::new(Record { uid: "another".to_owned(), ..Record::clone(&record) }) }
    }
}

#[async_trait]
impl Directory for Recreated {
    fn get(&self, key: &Key) -> Option<Arc<Record>> {
        self.0.get(key).map(|record| self.now(record))
    }

    async fn read(&self, key: &Key) -> Result<Arc<Record>, DirectoryError> {
        self.0.read(key).await.map(|record| self.now(record))
    }

    fn list(&self, namespace: Option<&str>) -> Vec<Arc<Record>> {
        self.0.list(namespace)
    }

    async fn create(&self, new: NewSession) -> Result<Arc<Record>, DirectoryError> {
        self.0.create(new).await
    }

    async fn patch(&self, key: &Key, patch: SessionPatch) -> Result<Arc<Record>, DirectoryError> {
        self.0.patch(key, patch).await
    }

    async fn delete(&self, key: &Key) -> Result<(), DirectoryError> {
        self.0.delete(key).await
    }

    async fn assign(&self, seen: &Record, placement: Placement) -> Result<Arc<Record>, DirectoryError> {
        self.0.assign(seen, placement).await
    }

    fn pods(&self, namespace: &str, pool: &str) -> Vec<KernelPod> {
        self.0.pods(namespace, pool)
    }

    fn pod(&self, namespace: &str, placement: &Placement) -> Option<KernelPod> {
        self.0.pod(namespace, placement)
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.0.changes()
    }

    fn pending(&self) -> Vec<&'static str> {
        self.0.pending()
    }
}

/// A pool that grows: it shows one pod for each session that holds a slot or was told to be waiting for one, as the operator's count does, and one more for
/// each pod whose memory has no room.
pub(super) struct Growing(pub(super) Arc<FolderDirectory>, pub(super) Vec<Arc<FakePod>>);

impl Growing {
    pub(super) fn shown(&self) -> usize {
        let uids = |set: fn(&FakePod) -> &std::sync::Mutex<HashSet<String>>| {
            self.1.iter().flat_map(move |pod| set(pod).lock().unwrap().iter().cloned().collect::<Vec<_>>())
        };
        let wanted: HashSet<String> = uids(|pod| &pod.held).chain(uids(|pod| &pod.waiting)).collect();
        let exhausted = self.1.iter().filter(|pod| pod.exhausted.load(Ordering::SeqCst)).count();
        (wanted.len() + exhausted).clamp(1, self.1.len())
    }
}

#[async_trait]
impl Directory for Growing {
    fn get(&self, key: &Key) -> Option<Arc<Record>> {
        self.0.get(key)
    }

    async fn read(&self, key: &Key) -> Result<Arc<Record>, DirectoryError> {
        self.0.read(key).await
    }

    fn list(&self, namespace: Option<&str>) -> Vec<Arc<Record>> {
        self.0.list(namespace)
    }

    async fn create(&self, new: NewSession) -> Result<Arc<Record>, DirectoryError> {
        self.0.create(new).await
    }

    async fn patch(&self, key: &Key, patch: SessionPatch) -> Result<Arc<Record>, DirectoryError> {
        self.0.patch(key, patch).await
    }

    async fn delete(&self, key: &Key) -> Result<(), DirectoryError> {
        self.0.delete(key).await
    }

    async fn assign(&self, seen: &Record, placement: Placement) -> Result<Arc<Record>, DirectoryError> {
        self.0.assign(seen, placement).await
    }

    fn pods(&self, namespace: &str, pool: &str) -> Vec<KernelPod> {
        let shown: Vec<&str> = self.1.iter().take(self.shown()).map(|pod| pod.name).collect();
        self.0.pods(namespace, pool).into_iter().filter(|pod| shown.contains(&pod.pod.as_str())).collect()
    }

    fn pod(&self, namespace: &str, placement: &Placement) -> Option<KernelPod> {
        self.0.pod(namespace, placement)
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.0.changes()
    }

    fn pending(&self) -> Vec<&'static str> {
        self.0.pending()
    }
}
