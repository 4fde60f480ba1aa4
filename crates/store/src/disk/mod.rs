//! Immutable objects on the local disk, before a store: [`DiskCache`].
//!
//! It saves reads and nothing else. Every byte of it is checked on every read, by what the caller's key says of the content, so whoever can
//! write the folder can make reads slower and not wrong; what does not verify is dropped and read from the store. A disk that is full or
//! fails ends the keeping, not a request.

mod files;
mod index;

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use tokio::sync::Semaphore;

use crate::{Condition, ETag, Object, PutError, SnapshotStore, StoreError};
use index::Index;

/// The ETag of an object that came from the cache: the version of nothing, so no condition that names it holds.
pub const CACHED_ETAG: &str = "cached";

/// Files that are written at the same time. What comes beyond is not kept.
const WRITES_IN_FLIGHT_MAX: u32 = 4;

/// The part of the cache that one object may take.
const OBJECT_SHARE: u64 = 4;

/// Which objects never change, and how their content is checked.
pub trait Immutable: Send + Sync {
    /// The file that keeps the object at `key`: 1 to 128 of a-z, 0-9, `-` and `_`. Keys whose objects are the same bytes may share one. `None`:
    /// the object may change.
    fn name(&self, key: &str) -> Option<String>;

    /// Whether the object at `key` is these bytes, whoever wrote them. Asked on every read and before every write.
    fn verifies(&self, key: &str, bytes: &[u8]) -> bool;
}

/// What happens in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheEvent {
    /// A read was answered from the disk.
    Hit,
    /// A read went to the store.
    Miss,
    /// An object was written to the disk.
    Kept,
    /// A file had to go for another.
    Evicted,
    /// A file, or what was to become one, was not what its key says; it is gone.
    Mismatch,
    /// The disk failed; nothing more is kept until the process starts again.
    Failed,
}

/// Who counts what happens in the cache.
pub trait Watch: Send + Sync {
    /// It happened; the files are so many bytes now.
    fn told(&self, event: CacheEvent, bytes: u64);
}

/// Where, and how much.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskCacheOptions {
    /// The folder, which is the cache's alone: what is found in it and is no part of the cache is removed.
    pub folder: PathBuf,
    /// Bytes of all files.
    pub bytes_max: u64,
}

/// A store with a cache on disk before it.
pub struct DiskCache {
    store: Arc<dyn SnapshotStore>,
    shared: Arc<Shared>,
}

struct Shared {
    options: DiskCacheOptions,
    rule: Arc<dyn Immutable>,
    watch: Arc<dyn Watch>,
    /// Held while a file appears under its name or goes, so that index and folder say the same.
    index: Mutex<Index>,
    writes: Arc<Semaphore>,
    /// The disk failed.
    off: AtomicBool,
}

impl std::fmt::Debug for DiskCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DiskCache").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

impl DiskCache {
    /// A cache before `store`, with what an earlier process left in the folder. A folder that cannot be used is reported as
    /// [`CacheEvent::Failed`], and everything goes to the store.
    #[must_use]
    pub fn open(store: Arc<dyn SnapshotStore>, options: DiskCacheOptions, rule: Arc<dyn Immutable>, watch: Arc<dyn Watch>) -> Self {
        let index = Mutex::new(Index::new(options.bytes_max));
        let writes = Arc::new(Semaphore::new(WRITES_IN_FLIGHT_MAX as usize));
        let shared = Shared { options, rule, watch, index, writes, off: AtomicBool::new(false) };
        shared.scan();
        Self { store, shared: Arc::new(shared) }
    }

    /// Waits until what was to be kept is written.
    pub async fn settled(&self) {
        let _ = self.shared.writes.acquire_many(WRITES_IN_FLIGHT_MAX).await;
    }

    async fn look(&self, key: &str, name: &str) -> Option<Bytes> {
        let bytes = self.shared.index().use_of(name)?;
        let (shared, key, name) = (Arc::clone(&self.shared), key.to_owned(), name.to_owned());
        tokio::task::spawn_blocking(move || shared.read(&key, &name, bytes)).await.ok().flatten()
    }

    fn keep(&self, key: &str, name: String, bytes: Bytes) {
        if self.shared.off.load(Ordering::Relaxed) || bytes.len() as u64 > self.shared.options.bytes_max / OBJECT_SHARE {
            return;
        }
        let Ok(turn) = Arc::clone(&self.shared.writes).try_acquire_owned() else { return };
        let (shared, key) = (Arc::clone(&self.shared), key.to_owned());
        tokio::task::spawn_blocking(move || {
            shared.write(&key, &name, &bytes);
            drop(turn);
        });
    }
}

impl Shared {
    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, event: CacheEvent) {
        let bytes = self.index().bytes();
        self.watch.told(event, bytes);
    }

    fn failed(&self, error: &std::io::Error) {
        if !self.off.swap(true, Ordering::Relaxed) {
            tracing::warn!(folder = %self.options.folder.display(), %error, "the disk cache keeps nothing more");
        }
        self.tell(CacheEvent::Failed);
    }

    fn scan(&self) {
        match files::scan(&self.options.folder) {
            Ok(found) => {
                let mut index = self.index();
                for (name, bytes) in found {
                    for gone in index.reserve(&name, bytes).unwrap_or_else(|| vec![name.clone()]) {
                        files::remove(&self.options.folder, &gone);
                    }
                    index.written(&name);
                }
            }
            Err(error) => self.failed(&error),
        }
    }

    fn read(&self, key: &str, name: &str, bytes: u64) -> Option<Bytes> {
        match files::read(&self.options.folder, name, bytes) {
            Ok(found) if self.rule.verifies(key, &found) => Some(found.into()),
            _ => {
                self.forget(name);
                self.tell(CacheEvent::Mismatch);
                None
            }
        }
    }

    fn write(&self, key: &str, name: &str, bytes: &[u8]) {
        if !self.rule.verifies(key, bytes) {
            return self.tell(CacheEvent::Mismatch);
        }
        let Some(gone) = self.index().reserve(name, bytes.len() as u64) else { return };
        for name in &gone {
            files::remove(&self.options.folder, name);
            self.tell(CacheEvent::Evicted);
        }
        let placed = files::write(&self.options.folder, name, bytes).and_then(|written| {
            let mut index = self.index();
            // Between reservation and here its room may have gone to another.
            if index.written(name) {
                return written.place();
            }
            written.discard();
            Ok(())
        });
        match placed {
            Ok(()) => self.tell(CacheEvent::Kept),
            Err(error) => {
                self.forget(name);
                self.failed(&error);
            }
        }
    }

    fn forget(&self, name: &str) {
        let mut index = self.index();
        if index.remove(name) {
            files::remove(&self.options.folder, name);
        }
    }
}

#[async_trait::async_trait]
impl SnapshotStore for DiskCache {
    async fn get(&self, key: &str) -> Result<Option<Object>, StoreError> {
        let Some(name) = self.shared.rule.name(key) else { return self.store.get(key).await };
        if let Some(bytes) = self.look(key, &name).await {
            self.shared.tell(CacheEvent::Hit);
            return Ok(Some(Object { bytes, etag: CACHED_ETAG.to_owned() }));
        }
        let found = self.store.get(key).await?;
        if let Some(object) = &found {
            self.shared.tell(CacheEvent::Miss);
            self.keep(key, name, object.bytes.clone());
        }
        Ok(found)
    }

    async fn put(&self, key: &str, bytes: Bytes, condition: Condition) -> Result<ETag, PutError> {
        let etag = self.store.put(key, bytes.clone(), condition).await?;
        if let Some(name) = self.shared.rule.name(key) {
            self.keep(key, name, bytes);
        }
        Ok(etag)
    }

    async fn copy(&self, from: &str, to: &str) -> Result<bool, StoreError> {
        self.store.copy(from, to).await
    }

    async fn delete(&self, key: &str) -> Result<(), StoreError> {
        if let Some(name) = self.shared.rule.name(key) {
            self.shared.forget(&name);
        }
        self.store.delete(key).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        self.store.list(prefix).await
    }
}
