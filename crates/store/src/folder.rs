//! A store in a folder, for one process at a time.
//!
//! Objects are files. A write goes to a new file, which is synced, renamed over the old one, and made durable by syncing the folder: after a
//! crash an object is either the old or the new one, whole. A lock on the folder keeps other processes out; inside this process a lock by
//! key makes checking a condition and writing one act. An ETag is the hash of the bytes.

use std::{
    fs::{File, OpenOptions, TryLockError},
    hash::{DefaultHasher, Hash, Hasher},
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use dormouse_durable::{Disk, System, make_folders};
use sha2::{Digest, Sha256};

use crate::{Condition, ETag, OBJECT_BYTES_MAX, Object, PutError, SnapshotStore, StoreError};

/// Locks that keys share.
const KEY_LOCKS: usize = 64;
/// The file whose lock is the folder's.
const LOCK_FILE: &str = ".lock";
/// Files being written.
const TEMPORARY: &str = ".tmp";
/// Objects.
const OBJECTS: &str = "objects";

/// Objects in a folder.
#[derive(Debug, Clone)]
pub struct Folder {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    disk: Arc<dyn Disk>,
    objects: PathBuf,
    temporary: PathBuf,
    /// Held for as long as the store is.
    _lock: File,
    next: AtomicU64,
    keys: [Mutex<()>; KEY_LOCKS],
    /// Writers share it; who removes empty folders has it alone.
    layout: RwLock<()>,
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
        let (objects, temporary) = (path.join(OBJECTS), path.join(TEMPORARY));
        make_folders(disk.as_ref(), &objects).map_err(io("create", &objects))?;
        let lock_path = path.join(LOCK_FILE);
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&lock_path).map_err(io("open", &lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StoreError::FolderInUse { path: path.to_owned() }),
            Err(TryLockError::Error(error)) => return Err(io("lock", &lock_path)(error)),
        }
        match std::fs::remove_dir_all(&temporary) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(io("clear", &temporary)(error)),
            _ => make_folders(disk.as_ref(), &temporary).map_err(io("create", &temporary))?,
        }
        let inner = Inner {
            disk,
            objects,
            temporary,
            _lock: lock,
            next: AtomicU64::new(0),
            keys: std::array::from_fn(|_| Mutex::new(())),
            layout: RwLock::new(()),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Runs file work where it may block.
    async fn blocking<T: Send + 'static, E: Send + 'static>(
        &self,
        interrupted: impl FnOnce(StoreError) -> E,
        work: impl FnOnce(&Inner) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        let inner = Arc::clone(&self.inner);
        let path = inner.objects.clone();
        match tokio::task::spawn_blocking(move || work(&inner)).await {
            Ok(result) => result,
            Err(error) => Err(interrupted(io("use", &path)(std::io::Error::other(error)))),
        }
    }
}

#[async_trait::async_trait]
impl SnapshotStore for Folder {
    async fn get(&self, key: &str) -> Result<Option<Object>, StoreError> {
        let path = self.inner.path(key)?;
        self.blocking(std::convert::identity, move |_| read(&path)).await
    }

    async fn get_within(&self, key: &str, bytes_max: u64) -> Result<Option<Object>, StoreError> {
        let (path, key) = (self.inner.path(key)?, key.to_owned());
        let within = move |_: &Inner| match std::fs::metadata(&path) {
            Ok(there) if there.len() > bytes_max => Err(StoreError::TooLarge { key, bytes: there.len(), bytes_max }),
            // What is not there is for the reading to say.
            _ => read(&path),
        };
        self.blocking(std::convert::identity, within).await
    }

    async fn put(&self, key: &str, bytes: Bytes, condition: Condition) -> Result<ETag, PutError> {
        let path = self.inner.path(key)?;
        if bytes.len() as u64 > OBJECT_BYTES_MAX {
            return Err(PutError::Failed(StoreError::TooLarge {
                key: key.to_owned(),
                bytes: bytes.len() as u64,
                bytes_max: OBJECT_BYTES_MAX,
            }));
        }
        self.blocking(PutError::Unknown, move |inner| inner.put(&path, &bytes, &condition)).await
    }

    async fn copy(&self, from: &str, to: &str) -> Result<bool, StoreError> {
        let (from, to) = (self.inner.path(from)?, self.inner.path(to)?);
        self.blocking(std::convert::identity, move |inner| inner.copy(&from, &to)).await
    }

    async fn delete(&self, key: &str) -> Result<(), StoreError> {
        let path = self.inner.path(key)?;
        self.blocking(std::convert::identity, move |inner| inner.delete(&path)).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let prefix = prefix.to_owned();
        self.blocking(std::convert::identity, move |inner| inner.list(&prefix)).await
    }
}

impl Inner {
    fn path(&self, key: &str) -> Result<PathBuf, StoreError> {
        let part_is_fine = |part: &str| {
            !part.is_empty() && !part.starts_with('.') && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        };
        if key.split('/').all(part_is_fine) { Ok(self.objects.join(key)) } else { Err(StoreError::BadKey { key: key.to_owned() }) }
    }

    fn key_lock(&self, path: &Path) -> &Mutex<()> {
        let mut hasher = DefaultHasher::new();
        path.hash(&mut hasher);
        let [first, ..] = &self.keys;
        self.keys.get((hasher.finish() % KEY_LOCKS as u64) as usize).unwrap_or(first)
    }

    fn put(&self, path: &Path, bytes: &[u8], condition: &Condition) -> Result<ETag, PutError> {
        let _layout = self.layout.read().unwrap_or_else(PoisonError::into_inner);
        let _key = self.key_lock(path).lock().unwrap_or_else(PoisonError::into_inner);
        let holds = match condition {
            Condition::None => true,
            Condition::Absent => !path.exists(),
            Condition::Matches(etag) => read(path)?.is_some_and(|object| object.etag == *etag),
        };
        if !holds {
            return Err(PutError::Refused);
        }
        let folder = path.parent().unwrap_or(&self.objects);
        self.make_folders(folder)?;
        let temporary = self.temporary.join(self.next.fetch_add(1, Ordering::Relaxed).to_string());
        let written = self.write_synced(&temporary, bytes).and_then(|()| self.rename(&temporary, path));
        if let Err(error) = written {
            // A full disk must not be kept full by what did not fit.
            let _ = self.disk.remove_file(&temporary);
            return Err(error.into());
        }
        // From here on the write is visible, though a crash may still undo it.
        self.sync_folder(folder).map_err(PutError::Unknown)?;
        Ok(etag(bytes))
    }

    /// Gives the file a second name where the file system can: a file is only ever replaced whole, so neither name sees the other's changes.
    fn copy(&self, from: &Path, to: &Path) -> Result<bool, StoreError> {
        let _layout = self.layout.read().unwrap_or_else(PoisonError::into_inner);
        let _key = self.key_lock(to).lock().unwrap_or_else(PoisonError::into_inner);
        let folder = to.parent().unwrap_or(&self.objects);
        self.make_folders(folder)?;
        let temporary = self.temporary.join(self.next.fetch_add(1, Ordering::Relaxed).to_string());
        match self.disk.link(from, &temporary) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(_) => match read(from)? {
                Some(object) => self.write_synced(&temporary, &object.bytes)?,
                None => return Ok(false),
            },
        }
        self.rename(&temporary, to)?;
        // Renaming one name of a file to another of the same file leaves both.
        match self.disk.remove_file(&temporary) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(io("clear", &temporary)(error)),
            _ => self.sync_folder(folder)?,
        }
        Ok(true)
    }

    fn delete(&self, path: &Path) -> Result<(), StoreError> {
        let _layout = self.layout.write().unwrap_or_else(PoisonError::into_inner);
        match self.disk.remove_file(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            other => other.map_err(io("delete", path))?,
        }
        let mut folder = path.parent();
        while let Some(at) = folder.filter(|at| *at != self.objects && at.starts_with(&self.objects)) {
            if self.disk.remove_folder(at).is_err() {
                break;
            }
            folder = at.parent();
        }
        self.sync_folder(folder.unwrap_or(&self.objects))
    }

    fn make_folders(&self, path: &Path) -> Result<(), StoreError> {
        make_folders(self.disk.as_ref(), path).map_err(io("create", path))
    }

    fn write_synced(&self, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
        self.disk.write_synced(path, bytes).map_err(io("write", path))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), StoreError> {
        self.disk.rename(from, to).map_err(io("rename to", to))
    }

    fn sync_folder(&self, path: &Path) -> Result<(), StoreError> {
        self.disk.sync_folder(path).map_err(io("sync", path))
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        // The part of the prefix up to its last slash is a folder: no need to walk the others.
        let start = match prefix.rsplit_once('/') {
            Some((folder, _)) if !folder.is_empty() => self.path(folder)?,
            _ => self.objects.clone(),
        };
        let mut keys = Vec::new();
        let mut folders = vec![start];
        while let Some(folder) = folders.pop() {
            let entries = match std::fs::read_dir(&folder) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                other => other.map_err(io("list", &folder))?,
            };
            for entry in entries {
                let entry = entry.map_err(io("list", &folder))?;
                let path = entry.path();
                if entry.file_type().map_err(io("list", &path))?.is_dir() {
                    folders.push(path);
                } else if let Some(key) = path.strip_prefix(&self.objects).ok().and_then(Path::to_str)
                    && key.starts_with(prefix)
                {
                    keys.push(key.to_owned());
                }
            }
        }
        Ok(keys)
    }
}

fn io(operation: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::Io { operation, path, source }
}

fn etag(bytes: &[u8]) -> ETag {
    hex::encode(Sha256::digest(bytes))
}

fn read(path: &Path) -> Result<Option<Object>, StoreError> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(Object { etag: etag(&bytes), bytes: bytes.into() })),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io("read", path)(error)),
    }
}
