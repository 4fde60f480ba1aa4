//! Immutable objects on the local disk, before a store: [`DiskCache`].
//!
//! It saves reads and nothing else. This process remembers the sha256 of what it wrote and compares it on every read, so whoever can write
//! the folder can make reads slower and not wrong; what does not verify is dropped and read from the store. What an earlier process has left is
//! removed: nobody remembers what it was. A disk that is full or fails ends the keeping, not a request.

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
use sha2::Digest as _;
use tokio::sync::Semaphore;

use crate::{Condition, ETag, Object, PutError, SnapshotStore, StoreError};
use index::{Digest, Index};

/// The ETag of an object that came from the cache: the version of nothing, so no condition that names it holds.
pub const CACHED_ETAG: &str = "cached";

/// Files that are written at the same time. What comes beyond is not kept.
const WRITES_IN_FLIGHT_MAX: u32 = 4;

/// The part of the cache that one object may take.
const OBJECT_SHARE: u64 = 4;

/// Which objects never change.
pub trait Immutable: Send + Sync {
    /// The file that keeps the object at `key`: 1 to 128 of a-z, 0-9, `-` and `_`. Keys whose objects are the same bytes may share one. `None`:
    /// the object may change.
    fn name(&self, key: &str) -> Option<String>;
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
    /// A file was not what was written; it is gone.
    Mismatch,
    /// The disk failed; nothing more is kept until the process starts again.
    Failed,
}

/// Who counts what happens in the cache.
pub trait Watch: Send + Sync {
    /// It happened; the files are so many bytes now.
    fn counted(&self, event: CacheEvent, bytes: u64);
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
    /// A cache before `store`, empty at first. A folder that cannot be used is reported as
    /// [`CacheEvent::Failed`], and everything goes to the store.
    #[must_use]
    pub fn open(store: Arc<dyn SnapshotStore>, options: DiskCacheOptions, rule: Arc<dyn Immutable>, watch: Arc<dyn Watch>) -> Self {
        let index = Mutex::new(Index::new(options.bytes_max));
        let writes = Arc::new(Semaphore::new(WRITES_IN_FLIGHT_MAX as usize));
        let shared = Shared { options, rule, watch, index, writes, off: AtomicBool::new(false) };
        shared.clear();
        Self { store, shared: Arc::new(shared) }
    }

    /// Waits until what was to be kept is written.
    pub async fn settled(&self) {
        let _ = self.shared.writes.acquire_many(WRITES_IN_FLIGHT_MAX).await;
    }

    async fn look(&self, name: &str) -> Option<Bytes> {
        let (bytes, sha256) = self.shared.index().use_of(name)?;
        let (shared, name) = (Arc::clone(&self.shared), name.to_owned());
        tokio::task::spawn_blocking(move || shared.read(&name, bytes, sha256)).await.ok().flatten()
    }

    fn keep(&self, name: String, bytes: Bytes) {
        if self.shared.off.load(Ordering::Relaxed) || bytes.len() as u64 > self.shared.options.bytes_max / OBJECT_SHARE {
            return;
        }
        let Ok(turn) = Arc::clone(&self.shared.writes).try_acquire_owned() else { return };
        let shared = Arc::clone(&self.shared);
        tokio::task::spawn_blocking(move || {
            shared.write(&name, &bytes);
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
        self.watch.counted(event, bytes);
    }

    fn failed(&self, error: &std::io::Error) {
        if !self.off.swap(true, Ordering::Relaxed) {
            tracing::warn!(folder = %self.options.folder.display(), %error, "the disk cache keeps nothing more");
        }
        self.tell(CacheEvent::Failed);
    }

    fn clear(&self) {
        if let Err(error) = files::clear(&self.options.folder) {
            self.failed(&error);
        }
    }

    fn read(&self, name: &str, bytes: u64, sha256: Digest) -> Option<Bytes> {
        match files::read(&self.options.folder, name, bytes) {
            Ok(found) if digest(&found) == sha256 => Some(found.into()),
            _ => {
                self.forget(name);
                self.tell(CacheEvent::Mismatch);
                None
            }
        }
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let Some(gone) = self.index().reserve(name, bytes.len() as u64) else { return };
        for name in &gone {
            files::remove(&self.options.folder, name);
            self.tell(CacheEvent::Evicted);
        }
        let placed = files::write(&self.options.folder, name, bytes).and_then(|written| {
            let sha256 = digest(bytes);
            let mut index = self.index();
            // Between reservation and here its room may have gone to another.
            if index.written(name, sha256) {
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

fn digest(bytes: &[u8]) -> Digest {
    sha2::Sha256::digest(bytes).into()
}

#[async_trait::async_trait]
impl SnapshotStore for DiskCache {
    async fn get(&self, key: &str) -> Result<Option<Object>, StoreError> {
        let Some(name) = self.shared.rule.name(key) else { return self.store.get(key).await };
        if let Some(bytes) = self.look(&name).await {
            self.shared.tell(CacheEvent::Hit);
            return Ok(Some(Object { bytes, etag: CACHED_ETAG.to_owned() }));
        }
        let found = self.store.get(key).await?;
        if let Some(object) = &found {
            self.shared.tell(CacheEvent::Miss);
            self.keep(name, object.bytes.clone());
        }
        Ok(found)
    }

    async fn put(&self, key: &str, bytes: Bytes, condition: Condition) -> Result<ETag, PutError> {
        let etag = self.store.put(key, bytes.clone(), condition).await?;
        if let Some(name) = self.shared.rule.name(key) {
            self.keep(name, bytes);
        }
        Ok(etag)
    }

    async fn race(&self, key: &str, bodies: Vec<Bytes>, condition: Condition) -> Vec<Result<ETag, PutError>> {
        // What the store is asked by a probe says nothing to keep.
        self.store.race(key, bodies, condition).await
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
