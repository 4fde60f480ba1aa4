//! Contents outside the heap, as a guest that is not ours meets them: kept in memory, refused above a size.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use dormouse_engine::{BlobError, Blobs};

/// Bytes of all contents.
const BYTES_MAX: u64 = 1 << 16;

/// The contents by name, each with whether it is text.
#[derive(Debug, Default)]
pub(super) struct Shelf(Mutex<BTreeMap<String, (bool, Vec<u8>)>>);

impl Shelf {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    fn contents(&self) -> MutexGuard<'_, BTreeMap<String, (bool, Vec<u8>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of each content.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> Vec<usize> {
        self.contents().values().map(|(_, bytes)| bytes.len()).collect()
    }
}

#[async_trait]
impl Blobs for Shelf {
    async fn stat(&self, name: &str) -> Option<(u64, bool)> {
        self.contents().get(name).map(|(text, bytes)| (bytes.len() as u64, *text))
    }

    async fn read(&self, name: &str, at: u64, bytes: usize) -> Result<Vec<u8>, BlobError> {
        let skipped = usize::try_from(at).unwrap_or(usize::MAX);
        Ok(self.contents().get(name).map(|(_, content)| content.iter().skip(skipped).take(bytes).copied().collect()).unwrap_or_default())
    }

    async fn open(&self, name: &str, text: bool, append: bool, bytes: u64) -> Result<(), BlobError> {
        let mut contents = self.contents();
        let all: u64 = contents.values().map(|(_, content)| content.len() as u64).sum();
        if all.saturating_add(bytes) > BYTES_MAX {
            return Err(BlobError { name: "QuotaExceeded".to_owned(), message: format!("at most {BYTES_MAX} bytes") });
        }
        let content = contents.entry(name.to_owned()).or_default();
        content.0 = text;
        if !append {
            content.1.clear();
        }
        Ok(())
    }

    async fn push(&self, name: &str, bytes: Vec<u8>) -> Result<(), BlobError> {
        self.contents().entry(name.to_owned()).or_default().1.extend(bytes);
        Ok(())
    }

    async fn remove(&self, name: &str) -> bool {
        self.contents().remove(name).is_some()
    }

    async fn copy(&self, name: &str, to: &str) -> Result<Option<u64>, BlobError> {
        let mut contents = self.contents();
        let Some(content) = contents.get(name).cloned() else { return Ok(None) };
        let bytes = content.1.len() as u64;
        contents.insert(to.to_owned(), content);
        Ok(Some(bytes))
    }

    async fn list(&self, prefix: &str) -> Vec<(String, u64)> {
        let contents = self.contents();
        contents.iter().filter(|(name, _)| name.starts_with(prefix)).map(|(name, (_, bytes))| (name.clone(), bytes.len() as u64)).collect()
    }
}
