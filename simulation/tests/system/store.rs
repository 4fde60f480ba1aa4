//! An object store in virtual time. Requests and replies are lost, late and refused as [`Chaos`] says; what arrives is atomic.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use dormouse_store::{Condition, ETag, Object, PutError, SnapshotStore, StoreError};
use tokio::{sync::oneshot, time::sleep};

use crate::{
    chaos::{Act, Chaos, Fate},
    mutant::Mutant,
    node::Node,
};

/// What a client of the store waits for an answer.
const READ_TIMEOUT: Duration = Duration::from_secs(15);

/// What lies in the store.
#[derive(Debug, Default, Clone)]
pub struct Objects {
    objects: BTreeMap<String, Object>,
    writes: u64,
    /// What each object was before its last PUT.
    before: BTreeMap<String, Object>,
}

impl Objects {
    fn put(&mut self, key: &str, bytes: Bytes, condition: &Condition) -> Result<ETag, PutError> {
        let now = self.objects.get(key).map(|object| &object.etag);
        let holds = match condition {
            Condition::None => true,
            Condition::Absent => now.is_none(),
            Condition::Matches(etag) => now == Some(etag),
        };
        if !holds {
            return Err(PutError::Refused);
        }
        self.writes += 1;
        let etag = format!("\"{}\"", self.writes);
        if let Some(before) = self.objects.insert(key.to_owned(), Object { bytes, etag: etag.clone() }) {
            self.before.insert(key.to_owned(), before);
        }
        Ok(etag)
    }

    fn copy(&mut self, from: &str, to: &str) -> bool {
        let Some(bytes) = self.objects.get(from).map(|object| object.bytes.clone()) else { return false };
        self.put(to, bytes, &Condition::None).is_ok()
    }
}

/// The store itself. Clones are the same.
#[derive(Clone, Default)]
pub struct Disk(Arc<Mutex<Objects>>);

impl Disk {
    fn lock(&self) -> MutexGuard<'_, Objects> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn get(&self, key: &str) -> Option<Bytes> {
        self.lock().objects.get(key).map(|object| object.bytes.clone())
    }

    pub fn keys(&self, prefix: &str) -> Vec<String> {
        self.lock().objects.keys().filter(|key| key.starts_with(prefix)).cloned().collect()
    }

    pub fn snapshot(&self) -> Objects {
        self.lock().clone()
    }

    /// Puts back everything below `prefix` as it was.
    pub fn roll_back(&self, to: &Objects, prefix: &str) {
        let mut now = self.lock();
        now.objects.retain(|key, _| !key.starts_with(prefix));
        let then = to.objects.iter().filter(|(key, _)| key.starts_with(prefix));
        now.objects.extend(then.map(|(key, object)| (key.clone(), object.clone())));
    }
}

/// The store as one process reaches it.
#[derive(Clone)]
pub struct Reached {
    pub node: Node,
    pub disk: Disk,
    pub chaos: Chaos,
}

enum Came<T> {
    Done(T),
    Unknown,
    Busy,
    Conflict,
    Refused,
}

impl Reached {
    async fn act<T: Send + 'static>(
        &self,
        verb: &'static str,
        key: &str,
        bytes: usize,
        apply: impl FnOnce(&mut Objects) -> T + Send + 'static,
    ) -> Came<T> {
        self.node.lives().await;
        let act = Act { from: self.node.name().to_owned(), to: "store".to_owned(), verb, name: key.to_owned(), bytes };
        let fate = self.chaos.decide(&act);
        let came = match fate {
            Fate::Arrives { before, after } => {
                let answer = self.arrives(before, apply);
                match answer.await {
                    Ok(done) => {
                        sleep(Duration::from_millis(after)).await;
                        Came::Done(done)
                    }
                    Err(_) => Came::Unknown,
                }
            }
            Fate::ReplyLost { before } => {
                let _ = self.arrives(before, apply).await;
                sleep(Duration::from_millis(before * 50)).await;
                Came::Unknown
            }
            Fate::ArrivesLate { after } => {
                drop(self.arrives(after + 500, apply));
                sleep(Duration::from_millis(500)).await;
                Came::Unknown
            }
            Fate::RequestLost => {
                sleep(READ_TIMEOUT).await;
                Came::Unknown
            }
            Fate::Busy => Came::Busy,
            Fate::Conflict => Came::Conflict,
            Fate::Refused => Came::Refused,
        };
        if !matches!(fate, Fate::Arrives { .. }) {
            sleep(Duration::from_millis(1)).await;
        }
        self.node.lives().await;
        came
    }

    /// What has left a process arrives although that process dies, or gives it up, meanwhile; what has not yet left does not.
    fn arrives<T: Send + 'static>(&self, before: u64, apply: impl FnOnce(&mut Objects) -> T + Send + 'static) -> oneshot::Receiver<T> {
        let (tell, told) = oneshot::channel();
        let (disk, node) = (self.disk.clone(), self.node.clone());
        tokio::spawn(async move {
            sleep(Duration::from_millis(before / 2)).await;
            if node.is_dead() {
                return;
            }
            sleep(Duration::from_millis(before - before / 2)).await;
            let done = apply(&mut disk.lock());
            let _ = tell.send(done);
        });
        told
    }
}

fn unavailable(operation: &'static str) -> StoreError {
    StoreError::Unavailable { operation, endpoint: "simulated".to_owned(), reason: "no answer".to_owned() }
}

fn denied(operation: &'static str) -> StoreError {
    StoreError::Denied { operation, bucket: "simulated".to_owned(), endpoint: "simulated".to_owned() }
}

fn read<T>(operation: &'static str, came: Came<T>) -> Result<T, StoreError> {
    match came {
        Came::Done(done) => Ok(done),
        Came::Unknown | Came::Busy | Came::Conflict => Err(unavailable(operation)),
        Came::Refused => Err(denied(operation)),
    }
}

#[async_trait::async_trait]
impl SnapshotStore for Reached {
    async fn get(&self, key: &str) -> Result<Option<Object>, StoreError> {
        let at = key.to_owned();
        if key.ends_with("/head")
            && self.chaos.is(Mutant::ReadsStale)
            && let Some(stale) = self.disk.lock().before.get(key).cloned()
        {
            return Ok(Some(stale));
        }
        read("read", self.act("get", key, 0, move |store| store.objects.get(&at).cloned()).await)
    }

    async fn put(&self, key: &str, bytes: Bytes, condition: Condition) -> Result<ETag, PutError> {
        let (at, length) = (key.to_owned(), bytes.len());
        let real = !key.contains("/probe/");
        let condition = if real && self.chaos.is(Mutant::IgnoresConditions) { Condition::None } else { condition };
        if real && key.ends_with("/head") && self.chaos.is(Mutant::AcksWithoutStoring) && length % 7 == 0 {
            return Ok("\"never\"".to_owned());
        }
        match self.act("put", key, length, move |store| store.put(&at, bytes, &condition)).await {
            Came::Done(done) => done,
            Came::Unknown => Err(PutError::Unknown(unavailable("write"))),
            Came::Busy => Err(PutError::Failed(unavailable("write"))),
            Came::Conflict => Err(PutError::Conflicted),
            Came::Refused => Err(PutError::Failed(denied("write"))),
        }
    }

    async fn copy(&self, from: &str, to: &str) -> Result<bool, StoreError> {
        let (from, into) = (from.to_owned(), to.to_owned());
        read("copy", self.act("copy", to, 0, move |store| store.copy(&from, &into)).await)
    }

    async fn delete(&self, key: &str) -> Result<(), StoreError> {
        if self.chaos.is(Mutant::KeepsWhatIsDeleted) && !key.contains("/probe/") {
            return Ok(());
        }
        let at = key.to_owned();
        read("delete", self.act("delete", key, 0, move |store| drop(store.objects.remove(&at))).await)
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        if self.chaos.is(Mutant::ListsNothing) && !prefix.contains("probe") {
            return Ok(Vec::new());
        }
        let at = prefix.to_owned();
        let list = move |store: &mut Objects| store.objects.keys().filter(|key| key.starts_with(&at)).cloned().collect();
        read("list", self.act("list", prefix, 0, list).await)
    }
}
