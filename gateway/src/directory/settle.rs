//! Sessions whose process ended without a word: what is stored of them is read before anybody relies on their status.
//!
//! A placement is on disk before anything is acked under it, so every session that may have stored more than its file says has one.

use std::{sync::Arc, time::Duration};

use dormouse_protocol::kernel::StoredStatus;
use futures::{StreamExt as _, stream};

use super::{Directory as _, DirectoryError, Record, folder::FolderDirectory};
use crate::kernels::stored;

/// Sessions that are asked about at the same time.
const ASKED_IN_FLIGHT_MAX: usize = 16;
/// How soon it is asked again about those that no pod could tell of, in milliseconds.
const ASK_AGAIN_MS: u64 = 1_000;

/// Settles every session that can be; goes on with the others in the background.
pub(super) async fn all(directory: &Arc<FolderDirectory>) -> Result<(), DirectoryError> {
    if once(directory).await? == 0 {
        return Ok(());
    }
    let directory = Arc::downgrade(directory);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(ASK_AGAIN_MS)).await;
            let Some(directory) = directory.upgrade() else { return };
            match once(&directory).await {
                Ok(0) => return,
                Ok(left) => tracing::debug!(left, "sessions whose process is gone are not settled yet"),
                Err(error) => tracing::error!(%error, "cannot write the status of a session"),
            }
        }
    });
    Ok(())
}

/// Answers how many are left.
async fn once(directory: &Arc<FolderDirectory>) -> Result<usize, DirectoryError> {
    let lost = |record: &Arc<Record>| {
        let placement = record.status.placement.as_ref();
        placement.is_some_and(|placement| directory.pod(&record.key.namespace, placement).is_none())
    };
    let lost: Vec<Arc<Record>> = directory.list(None).into_iter().filter(lost).collect();
    let settled = stream::iter(lost).map(|record| one(directory, record)).buffer_unordered(ASKED_IN_FLIGHT_MAX);
    let mut settled = std::pin::pin!(settled);
    let mut left = 0;
    while let Some(settled) = settled.next().await {
        left += usize::from(!settled?);
    }
    Ok(left)
}

async fn one(directory: &Arc<FolderDirectory>, record: Arc<Record>) -> Result<bool, DirectoryError> {
    let Some(epoch) = record.status.placement.as_ref().map(|placement| placement.epoch) else { return Ok(true) };
    let Some(stored) = ask(directory, &record).await else { return Ok(false) };
    directory.lose(&record.key, epoch, Some(stored)).await?;
    Ok(true)
}

/// What one of the pods tells. Without any pod there is nobody who could ever have been placed anew, and nothing to wait for.
async fn ask(directory: &FolderDirectory, record: &Record) -> Option<StoredStatus> {
    if directory.static_pods().is_empty() {
        return Some(StoredStatus::default());
    }
    for pod in directory.static_pods() {
        match directory.operator().stored_status(&FolderDirectory::kernel_pod(pod), &stored(record)).await {
            Ok(told) => return Some(told),
            Err(error) => {
                tracing::warn!(session = %record.key, %error, "what is stored of a session whose process is gone cannot be read yet")
            }
        }
    }
    None
}
