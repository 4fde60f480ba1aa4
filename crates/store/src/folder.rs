//! A store in a folder, for one process at a time.
//!
//! Objects are [`Files`]: after a crash an object is either the old or the new one, whole, and it is the new one once that was said. A lock on the
//! folder keeps other processes out; inside this process a lock by key makes checking a condition and writing one act. An ETag is the hash of the
//! bytes.

use std::{
    fs::{File, OpenOptions, TryLockError},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use dormouse_durable::{ChangeError, Disk, Files, NameLocks, System, make_folders};
use sha2::{Digest, Sha256};

use crate::{Condition, ETag, OBJECT_BYTES_MAX, Object, PutError, SnapshotStore, StoreError};

/// The file whose lock is the folder's.
const LOCK_FILE: &str = ".lock";
/// Objects.
const OBJECTS: &str = "objects/";

/// Objects in a folder.
#[derive(Debug, Clone)]
pub struct Folder {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    files: Files,
    /// Held for as long as the store is.
    _lock: File,
    keys: NameLocks<Mutex<()>>,
}

impl Folder {
    /// Opens the store at `path`, making the folder if there is none, and forgets writes that a crash cut off.
    ///
    /// # Errors
    /// When another process has it, or the file system refuses.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::open_on(System::shared(), path)
    }

    /// The same on any disk.
    ///
    /// # Errors
    /// Those of [`Folder::open`].
    pub fn open_on(disk: Arc<dyn Disk>, path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = path.as_ref();
        make_folders(disk.as_ref(), path).map_err(io("create", path))?;
        let lock_path = path.join(LOCK_FILE);
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&lock_path).map_err(io("open", &lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StoreError::FolderInUse { path: path.to_owned() }),
            Err(TryLockError::Error(error)) => return Err(io("lock", &lock_path)(error)),
        }
        let files = Files::open(disk, path).map_err(io("open", path))?;
        let inner = Inner { path: path.to_owned(), files, _lock: lock, keys: NameLocks::default() };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Makes every object a file of its own, which it need not be before: before the process ends, so that the next one has nothing to do.
    ///
    /// # Errors
    /// The file system's: nothing is lost.
    pub async fn flush(&self) -> Result<(), StoreError> {
        self.blocking(std::convert::identity, |inner| inner.files.flush().map_err(io("write", &inner.path))).await
    }

    /// Runs file work where it may block.
    async fn blocking<T: Send + 'static, E: Send + 'static>(
        &self,
        interrupted: impl FnOnce(StoreError) -> E,
        work: impl FnOnce(&Inner) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        let inner = Arc::clone(&self.inner);
        let path = inner.path.clone();
        match tokio::task::spawn_blocking(move || work(&inner)).await {
            Ok(result) => result,
            Err(error) => Err(interrupted(io("use", &path)(std::io::Error::other(error)))),
        }
    }
}

#[async_trait::async_trait]
impl SnapshotStore for Folder {
    async fn get(&self, key: &str) -> Result<Option<Object>, StoreError> {
        let name = name(key)?;
        self.blocking(std::convert::identity, move |inner| inner.read(&name)).await
    }

    async fn get_within(&self, key: &str, bytes_max: u64) -> Result<Option<Object>, StoreError> {
        let (name, key) = (name(key)?, key.to_owned());
        let within = move |inner: &Inner| match inner.files.bytes(&name) {
            Ok(Some(bytes)) if bytes > bytes_max => Err(StoreError::TooLarge { key, bytes, bytes_max }),
            // What is not there is for the reading to say.
            _ => inner.read(&name),
        };
        self.blocking(std::convert::identity, within).await
    }

    async fn put(&self, key: &str, bytes: Bytes, condition: Condition) -> Result<ETag, PutError> {
        let name = name(key)?;
        if bytes.len() as u64 > OBJECT_BYTES_MAX {
            return Err(PutError::Failed(StoreError::TooLarge {
                key: key.to_owned(),
                bytes: bytes.len() as u64,
                bytes_max: OBJECT_BYTES_MAX,
            }));
        }
        self.blocking(PutError::Unknown, move |inner| inner.put(&name, bytes, &condition)).await
    }

    async fn copy(&self, from: &str, to: &str) -> Result<bool, StoreError> {
        let (from, to) = (name(from)?, name(to)?);
        let copied = move |inner: &Inner| {
            let _key = inner.lock(&to);
            inner.files.copy(&from, &to).map_err(|error| io("write", &inner.path.join(&to))(of_change(error)))
        };
        self.blocking(std::convert::identity, copied).await
    }

    async fn delete(&self, key: &str) -> Result<(), StoreError> {
        let name = name(key)?;
        let deleted = move |inner: &Inner| {
            let _key = inner.lock(&name);
            inner.files.remove(&name).map_err(|error| io("delete", &inner.path.join(&name))(of_change(error)))
        };
        self.blocking(std::convert::identity, deleted).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        // A part of a name is none that leaves the folder.
        if let Some((folder, _)) = prefix.rsplit_once('/') {
            name(folder)?;
        }
        let prefix = format!("{OBJECTS}{prefix}");
        let listed = move |inner: &Inner| {
            let names = inner.files.names(&prefix).map_err(io("list", &inner.path))?;
            Ok(names.iter().filter_map(|name| name.strip_prefix(OBJECTS)).map(str::to_owned).collect())
        };
        self.blocking(std::convert::identity, listed).await
    }
}

/// The name of the file that holds the object.
fn name(key: &str) -> Result<String, StoreError> {
    let part_is_fine = |part: &str| {
        !part.is_empty() && !part.starts_with('.') && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
    };
    if key.split('/').all(part_is_fine) { Ok(format!("{OBJECTS}{key}")) } else { Err(StoreError::BadKey { key: key.to_owned() }) }
}

impl Inner {
    fn lock(&self, name: &str) -> MutexGuard<'_, ()> {
        self.keys.of(name).lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, name: &str) -> Result<Option<Object>, StoreError> {
        let bytes = self.files.read(name).map_err(io("read", &self.path.join(name)))?;
        Ok(bytes.map(|bytes| Object { etag: etag(&bytes), bytes }))
    }

    fn put(&self, name: &str, bytes: Bytes, condition: &Condition) -> Result<ETag, PutError> {
        let _key = self.lock(name);
        let holds = match condition {
            Condition::None => true,
            Condition::Absent => self.files.bytes(name).map_err(io("read", &self.path.join(name)))?.is_none(),
            Condition::Matches(etag) => self.read(name)?.is_some_and(|object| object.etag == *etag),
        };
        if !holds {
            return Err(PutError::Refused);
        }
        let etag = etag(&bytes);
        let failed = |source| io("write", &self.path.join(name))(source);
        self.files.replace(name, bytes).map_err(|error| match error {
            ChangeError::Refused(source) => PutError::Failed(failed(source)),
            ChangeError::Unknown(source) => PutError::Unknown(failed(source)),
        })?;
        Ok(etag)
    }
}

fn of_change(error: ChangeError) -> std::io::Error {
    match error {
        ChangeError::Refused(source) | ChangeError::Unknown(source) => source,
    }
}

fn io(operation: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::Io { operation, path, source }
}

fn etag(bytes: &[u8]) -> ETag {
    hex::encode(Sha256::digest(bytes))
}
