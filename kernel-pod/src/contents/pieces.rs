//! Pieces on their way to the store, and those that came from it last.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dormouse_lifecycle::blobs::{self, Extent, ID_DIGITS};
use dormouse_lifecycle::{Reply, SessionKey};
use dormouse_protocol::{ApiError, ErrorCode};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::environment::Threads;
use crate::sealed::Outgoing;
use crate::storage::Storage;

/// Pieces of one session that are on their way at the same time. Whoever writes faster than the store takes waits.
const UPLOADS_MAX: usize = 4;

/// How long a piece whose outcome is unknown is sent again.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Wait before the first repetition.
const RESEND_FIRST: Duration = Duration::from_millis(50);

/// The longest wait between two repetitions.
const RESEND_WAIT_MAX: Duration = Duration::from_secs(2);

/// Pieces that a session remembers while its cell runs: slices that follow each other read one once.
const RECENT_PIECES_MAX: usize = 2;

/// A new name for an extent.
pub(super) fn id() -> String {
    let mut id = uuid::Uuid::new_v4().simple().to_string();
    id.truncate(ID_DIGITS);
    id
}

/// Where pieces go, and where the work of writing them is done.
#[derive(Clone)]
pub(crate) struct Backing {
    /// The store.
    pub storage: Arc<Storage>,
    /// For what takes long.
    pub threads: Threads,
}

/// Pieces on their way.
#[derive(Default)]
pub(super) struct Uploads {
    under_way: JoinSet<Result<u64, ApiError>>,
    bytes: u64,
    /// Why not all of them are in the store: nothing may be committed then.
    failed: Option<ApiError>,
}

impl Uploads {
    /// Sends a piece off, once there is room for it.
    pub(super) async fn put(&mut self, backing: &Backing, session: &SessionKey, extent: &Extent, number: u32, content: Bytes) {
        while self.under_way.len() >= UPLOADS_MAX {
            self.join().await;
        }
        let (backing, key, extent) = (backing.clone(), extent.key(session, number), extent.clone());
        self.under_way.spawn(async move { upload(&backing, &key, extent, number, content).await });
    }

    /// Waits until all are in the store.
    pub(super) async fn settle(&mut self) -> Result<(), ApiError> {
        while !self.under_way.is_empty() {
            self.join().await;
        }
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// The same; answers the bytes that were put since the last time.
    pub(super) async fn finish(&mut self) -> Result<u64, ApiError> {
        self.settle().await?;
        Ok(std::mem::take(&mut self.bytes))
    }

    async fn join(&mut self) {
        match self.under_way.join_next().await {
            Some(Ok(Ok(bytes))) => self.bytes += bytes,
            Some(Ok(Err(error))) => self.failed = Some(error),
            Some(Err(error)) => self.failed = Some(ApiError::new(ErrorCode::Internal, format!("a piece was not put: {error}"))),
            None => {}
        }
    }
}

async fn upload(backing: &Backing, key: &str, Extent { id, sealed, .. }: Extent, number: u32, content: Bytes) -> Result<u64, ApiError> {
    let encoded = backing.threads.blocking(move || blobs::encode(&id, number, &content)).await;
    let internal = |error: &dyn std::fmt::Display| ApiError::new(ErrorCode::Internal, format!("a piece cannot be written: {error}"));
    let bytes = encoded.map_err(|error| internal(&error))?.map_err(|error| internal(&error))?;
    if !sealed {
        return put_piece(&backing.storage, key, bytes).await;
    }
    let writer = backing.storage.writer().await?.ok_or_else(|| internal(&"its encryption key is gone"))?;
    // A piece is not of an engine: what it holds outlives one.
    let bytes = Outgoing::new(Some(writer), String::new()).body(key, bytes).await?;
    put_piece(&backing.storage, key, bytes).await
}

/// Puts an object whose key nobody else writes.
async fn put_piece(storage: &Storage, key: &str, bytes: Bytes) -> Result<u64, ApiError> {
    let deadline = Instant::now() + UPLOAD_TIMEOUT;
    let mut wait = RESEND_FIRST;
    loop {
        match storage.put_segment(key, bytes.clone()).await {
            // The key is this process's own: what is there is what was to be put.
            Reply::Stored { .. } | Reply::Refused => return Ok(bytes.len() as u64),
            Reply::Failed(reason) | Reply::Damaged(reason) => return Err(ApiError::new(ErrorCode::StorageUnavailable, reason)),
            Reply::Unknown | Reply::Conflicted if Instant::now() < deadline => {
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(RESEND_WAIT_MAX);
            }
            Reply::Unknown | Reply::Conflicted | Reply::Head(_) => {
                let message = "the object store does not answer; send the request again with its idempotency key";
                return Err(ApiError::new(ErrorCode::StorageUnavailable, message));
            }
        }
    }
}

/// The last pieces that were read.
#[derive(Default)]
pub(super) struct Recent(VecDeque<(String, Bytes)>);

impl Recent {
    pub(super) fn get(&self, key: &str) -> Option<Bytes> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, content)| content.clone())
    }

    pub(super) fn keep(&mut self, key: String, content: Bytes) {
        if self.0.len() == RECENT_PIECES_MAX {
            self.0.pop_front();
        }
        self.0.push_back((key, content));
    }
}
