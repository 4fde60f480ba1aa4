//! Directories that are a folder's but for one thing.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use dormouse_crds::session::Placement;
use dormouse_gateway::{
    Directory,
    directory::{Change, DirectoryError, KernelPod, Key, NewSession, Record, Role, SessionPatch, folder::FolderDirectory},
};
use tokio::sync::broadcast;

use crate::support::FakePod;

/// In what a directory differs from a folder's.
pub(super) trait Difference: Send + Sync + 'static {
    /// A session that was looked up.
    fn record(&self, record: Arc<Record>) -> Arc<Record> {
        record
    }

    /// Pods of a pool.
    fn pods(&self, pods: Vec<KernelPod>) -> Vec<KernelPod> {
        pods
    }

    /// One of these pods.
    fn pod(&self, pod: KernelPod) -> KernelPod {
        pod
    }

    /// It is asked or changed, and not only looked at: somebody `did` so with a session.
    fn is_used(&self, _did: &str) {}
}

/// A folder's directory, with a difference.
pub(super) struct Different<D>(pub(super) Arc<FolderDirectory>, pub(super) D);

#[async_trait]
impl<D: Difference> Directory for Different<D> {
    fn get(&self, key: &Key) -> Option<Arc<Record>> {
        self.0.get(key).map(|record| self.1.record(record))
    }

    async fn read(&self, key: &Key) -> Result<Arc<Record>, DirectoryError> {
        self.1.is_used("read");
        self.0.read(key).await.map(|record| self.1.record(record))
    }

    fn list(&self, namespace: Option<&str>) -> Vec<Arc<Record>> {
        self.0.list(namespace)
    }

    async fn create(&self, new: NewSession) -> Result<Arc<Record>, DirectoryError> {
        self.1.is_used("made");
        self.0.create(new).await
    }

    async fn patch(&self, key: &Key, patch: SessionPatch) -> Result<Arc<Record>, DirectoryError> {
        self.1.is_used("changed");
        self.0.patch(key, patch).await
    }

    async fn delete(&self, key: &Key) -> Result<(), DirectoryError> {
        self.1.is_used("deleted");
        self.0.delete(key).await
    }

    async fn assign(&self, seen: &Record, placement: Placement) -> Result<Arc<Record>, DirectoryError> {
        self.1.is_used("placed");
        self.0.assign(seen, placement).await
    }

    fn pods(&self, namespace: &str, pool: &str) -> Vec<KernelPod> {
        self.1.pods(self.0.pods(namespace, pool)).into_iter().map(|pod| self.1.pod(pod)).collect()
    }

    fn pod(&self, namespace: &str, placement: &Placement) -> Option<KernelPod> {
        self.0.pod(namespace, placement).map(|pod| self.1.pod(pod))
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.0.changes()
    }

    fn pending(&self) -> Vec<&'static str> {
        self.0.pending()
    }
}

/// It may be looked at, and must not be asked or changed.
pub(super) struct Untouched;

impl Difference for Untouched {
    fn is_used(&self, did: &str) {
        panic!("a wake in place {did} a session");
    }
}

/// The session is deleted and made again once this pod has got a cell.
pub(super) struct Recreated(pub(super) Arc<FakePod>);

impl Difference for Recreated {
    fn record(&self, record: Arc<Record>) -> Arc<Record> {
        if self.0.evals().is_empty() { record } else { Arc::new(Record { uid: "another".to_owned(), ..Record::clone(&record) }) }
    }
}

/// A pool that grows: it shows one pod for each session that holds a slot or was told to be waiting for one, as the operator's count does, and one more for
/// each pod whose memory has no room.
pub(super) struct Growing(pub(super) Vec<Arc<FakePod>>);

impl Growing {
    pub(super) fn shown(&self) -> usize {
        let uids = |set: fn(&FakePod) -> &std::sync::Mutex<HashSet<String>>| {
            self.0.iter().flat_map(move |pod| set(pod).lock().unwrap().iter().cloned().collect::<Vec<_>>())
        };
        let wanted: HashSet<String> = uids(|pod| &pod.held).chain(uids(|pod| &pod.waiting)).collect();
        let exhausted = self.0.iter().filter(|pod| pod.exhausted.load(Ordering::SeqCst)).count();
        (wanted.len() + exhausted).clamp(1, self.0.len())
    }
}

impl Difference for Growing {
    fn pods(&self, pods: Vec<KernelPod>) -> Vec<KernelPod> {
        let shown: Vec<&str> = self.0.iter().take(self.shown()).map(|pod| pod.name).collect();
        pods.into_iter().filter(|pod| shown.contains(&pod.pod.as_str())).collect()
    }
}

/// The name of the pod that reads in a [`Dedicated`] pool.
pub(super) const READER: &str = "reader";

/// A pool whose pods run one session each, but for the one that reads what is stored.
#[derive(Default)]
pub(super) struct Dedicated {
    /// By pod, the session that it was given to, by uid.
    given: Mutex<HashMap<String, String>>,
    /// Whether the reader has yet to be ready.
    pub(super) unread: AtomicBool,
}

impl Dedicated {
    /// A pod is given to this session.
    pub(super) fn give(&self, pod: &FakePod, uid: &str) {
        self.given.lock().unwrap().insert(pod.name.to_owned(), uid.to_owned());
    }

    /// Another pod takes the place of this one.
    pub(super) fn replace(&self, pod: &FakePod) {
        self.given.lock().unwrap().remove(pod.name);
    }
}

impl Difference for Dedicated {
    fn pod(&self, pod: KernelPod) -> KernelPod {
        let given_to = self.given.lock().unwrap().get(&pod.pod).cloned();
        if pod.pod == READER {
            KernelPod { role: Role::Reader, ready: !self.unread.load(Ordering::SeqCst), ..pod }
        } else {
            KernelPod { role: Role::Session, given_to, ..pod }
        }
    }
}
