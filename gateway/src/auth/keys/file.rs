//! Keys in a file, for `dormouse dev`: there is one process, so what it has in memory is the truth.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use dormouse_durable::{System, replace};

use super::{KeyRecord, KeyStore, KeyStoreError};

/// Keys in a file.
pub struct KeyFile {
    path: PathBuf,
    keys: Mutex<Vec<Arc<KeyRecord>>>,
}

impl KeyFile {
    /// The keys in the file at `path`; none when there is no file.
    ///
    /// # Errors
    /// It is there and cannot be read, or holds something else.
    pub fn open(path: &Path) -> Result<Self, KeyStoreError> {
        let keys = match std::fs::read(path) {
            Ok(bytes) => serde_json::from_slice::<Vec<KeyRecord>>(&bytes).map_err(unavailable)?.into_iter().map(Arc::new).collect(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(unavailable(error)),
        };
        Ok(Self { path: path.to_owned(), keys: Mutex::new(keys) })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<KeyRecord>>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the keys on disk, then in memory. They are few, and seldom change.
    fn replace(&self, keys: &mut Vec<Arc<KeyRecord>>, with: Vec<Arc<KeyRecord>>) -> Result<(), KeyStoreError> {
        let plain: Vec<&KeyRecord> = with.iter().map(|record| &**record).collect();
        let bytes = serde_json::to_vec_pretty(&plain).map_err(unavailable)?;
        replace(&System, &self.path, &bytes).map_err(unavailable)?;
        *keys = with;
        Ok(())
    }
}

fn unavailable(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> KeyStoreError {
    KeyStoreError::Unavailable(error.into())
}

#[async_trait]
impl KeyStore for KeyFile {
    async fn find(&self, digest: &str) -> Result<Option<Arc<KeyRecord>>, KeyStoreError> {
        Ok(self.lock().iter().find(|record| record.digest == digest).cloned())
    }

    async fn list(&self, namespace: &str) -> Result<Vec<Arc<KeyRecord>>, KeyStoreError> {
        Ok(self.lock().iter().filter(|record| record.about.namespace == namespace).cloned().collect())
    }

    async fn create(&self, record: KeyRecord) -> Result<(), KeyStoreError> {
        let mut keys = self.lock();
        if keys.iter().any(|key| key.about.namespace == record.about.namespace && key.about.name == record.about.name) {
            return Err(KeyStoreError::Exists);
        }
        let with = keys.iter().cloned().chain([Arc::new(record)]).collect();
        self.replace(&mut keys, with)
    }

    async fn delete(&self, namespace: &str, name: &str) -> Result<bool, KeyStoreError> {
        let mut keys = self.lock();
        let with: Vec<_> = keys.iter().filter(|key| key.about.namespace != namespace || key.about.name != name).cloned().collect();
        let was = with.len() < keys.len();
        if was {
            self.replace(&mut keys, with)?;
        }
        Ok(was)
    }
}
