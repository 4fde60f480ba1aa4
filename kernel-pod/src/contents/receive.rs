//! A content that comes from outside, chunk by chunk, while the session goes on. Commits may name what has come so far, so nothing of it can be
//! taken for garbage; a session that is restored drops what was never finished.

use std::sync::Arc;

use bytes::Bytes;
use dormouse_engine::Blobs as _;
use dormouse_protocol::{ApiError, ErrorCode};

use super::{Contents, pieces};

/// What the names of contents that are still to come begin with.
pub(crate) const UPLOAD_PREFIX: &str = "upload:";

/// A content on its way in. Dropping it removes what has come, unless a file has taken it over.
pub(crate) struct Receiving {
    contents: Arc<Contents>,
    name: String,
    /// The session does not go to sleep while somebody has it.
    _busy: Arc<()>,
}

impl Receiving {
    /// Begins with nothing.
    pub(crate) async fn begin(contents: Arc<Contents>) -> Result<Self, ApiError> {
        let name = format!("{UPLOAD_PREFIX}{}", pieces::id());
        let receiving = Self { _busy: Arc::clone(&contents.busy), contents, name };
        receiving.write(false, Bytes::new()).await?;
        Ok(receiving)
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Takes the next bytes.
    pub(crate) async fn push(&self, bytes: Bytes) -> Result<(), ApiError> {
        self.write(true, bytes).await
    }

    async fn write(&self, append: bool, bytes: Bytes) -> Result<(), ApiError> {
        let failed = |error: dormouse_engine::BlobError| {
            let codes =
                [ErrorCode::QuotaExceeded, ErrorCode::SizeAdmissionError, ErrorCode::StorageUnavailable, ErrorCode::SnapshotCorrupt];
            let code = codes.into_iter().find(|code| code.to_string() == error.name).unwrap_or(ErrorCode::Internal);
            ApiError::new(code, error.message)
        };
        self.contents.open(&self.name, false, append, bytes.len() as u64).await.map_err(failed)?;
        self.contents.push(&self.name, bytes.into()).await.map_err(failed)
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        let (contents, name) = (Arc::clone(&self.contents), std::mem::take(&mut self.name));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { contents.remove(&name).await });
        }
    }
}
