//! Contents that lie outside the heap: the guest asks for them by name, whoever owns the instance keeps them. Packages that a cell imports are
//! contents that the owner may have to fetch first.

use std::sync::Arc;

use async_trait::async_trait;

/// Keeps contents for a session. Names and bytes are opaque to the engine.
#[async_trait]
pub trait Blobs: Send + Sync {
    /// Bytes of a content, and whether it was given as text. `None`: there is none.
    async fn stat(&self, name: &str) -> Option<(u64, bool)>;

    /// Up to `bytes` of it from `at` on; fewer at its end only.
    ///
    /// # Errors
    /// What the script is told.
    async fn read(&self, name: &str, at: u64, bytes: usize) -> Result<Vec<u8>, BlobError>;

    /// Begins to write: with `append` behind what is there, else instead of it. `bytes` follow in [`Self::push`], or this answers why not.
    ///
    /// # Errors
    /// What the script is told; nothing has changed then.
    async fn open(&self, name: &str, text: bool, append: bool, bytes: u64) -> Result<(), BlobError>;

    /// Writes the next bytes.
    ///
    /// # Errors
    /// What the script is told.
    async fn push(&self, name: &str, bytes: Vec<u8>) -> Result<(), BlobError>;

    /// Removes it. False when there is none.
    async fn remove(&self, name: &str) -> bool;

    /// Gives a content a second name, instead of what had it. Answers its bytes; `None`: there is none.
    ///
    /// # Errors
    /// What the script is told; nothing has changed then.
    async fn copy(&self, name: &str, to: &str) -> Result<Option<u64>, BlobError>;

    /// The contents whose names begin so, with their bytes.
    async fn list(&self, prefix: &str) -> Vec<(String, u64)>;

    /// The package that a cell means by `specifier`, `NAME@VERSION`; when this answers, its sources are contents. `None`: the session has no such
    /// package and may not have it.
    ///
    /// # Errors
    /// What the script is told.
    async fn package(&self, _specifier: &str) -> Result<Option<String>, BlobError> {
        Ok(None)
    }
}

/// What a script is told about a content that it cannot have.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct BlobError {
    /// The error's name, which is its code too.
    pub name: String,
    /// The error's message.
    pub message: String,
}

impl BlobError {
    /// Nobody keeps contents for this instance.
    pub(crate) fn none_kept() -> Self {
        Self { name: "NotSupported".to_owned(), message: "nothing is kept outside the heap here".to_owned() }
    }
}

/// How an instance holds its keeper.
pub(crate) type Keeper = Option<Arc<dyn Blobs>>;
