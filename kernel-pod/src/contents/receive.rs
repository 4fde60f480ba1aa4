//! A content that comes from outside, chunk by chunk, while the session goes on. Commits may name what has come so far, so nothing of it can be
//! taken for garbage; a session that is restored drops what was never finished.

use std::sync::Arc;

use bytes::Bytes;
use dormouse_engine::Blobs as _;
use dormouse_lifecycle::blobs::ID_DIGITS;
use dormouse_protocol::{ApiError, ErrorCode};

use super::{Contents, api_error};

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
    /// Begins with nothing; `text` when it is to be read as that.
    pub(crate) async fn begin(contents: Arc<Contents>, text: bool) -> Result<Self, ApiError> {
        let name = format!("{UPLOAD_PREFIX}{}", contents.backing.ids.digits(ID_DIGITS));
        let receiving = Self { _busy: Arc::clone(&contents.busy), contents, name };
        receiving.contents.begin(&receiving.name, text).await.map_err(api_error)?;
        Ok(receiving)
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Takes the next bytes.
    pub(crate) async fn push(&self, bytes: Bytes) -> Result<(), ApiError> {
        match self.contents.append(&self.name, &bytes).await {
            Some(written) => written.map_err(api_error),
            None => Err(ApiError::new(ErrorCode::SessionBusy, "the session was restored while the content came in: send it again")),
        }
    }
}

impl std::fmt::Debug for Receiving {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receiving").field("name", &self.name).finish_non_exhaustive()
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
