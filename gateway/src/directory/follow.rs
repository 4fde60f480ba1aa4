//! The operator's share of `dormouse dev`: follows the pods' reports into status and finishes deletions.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use dormouse_protocol::kernel::{Assignment, ReportLine, SessionReport};
use futures::StreamExt as _;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::{
    Change, Directory as _, Key,
    folder::{Durably, FLUSH_MS, FolderDirectory, StaticPod},
};
use crate::kernels::assignment;

/// Milliseconds before a report stream that ended is opened again, and before a deletion that failed is tried again.
const RETRY_MS: u64 = 500;

/// Starts the tasks; they end when the directory is dropped.
pub(super) fn spawn(directory: &Arc<FolderDirectory>) {
    for pod in directory.static_pods().to_vec() {
        directory.followers.spawn(follow_pod(Arc::downgrade(directory), directory.closing.clone(), pod));
    }
    tokio::spawn(flush_often(Arc::downgrade(directory)));
    tokio::spawn(watch_deletions(Arc::downgrade(directory)));
}

async fn flush_often(directory: Weak<FolderDirectory>) {
    let mut ticks = tokio::time::interval(Duration::from_millis(FLUSH_MS));
    loop {
        ticks.tick().await;
        let Some(directory) = directory.upgrade() else { return };
        if let Err(error) = directory.flush().await {
            tracing::error!(%error, "cannot write the status of sessions");
        }
    }
}

async fn watch_deletions(directory: Weak<FolderDirectory>) {
    let Some(mut changes) = directory.upgrade().map(|directory| directory.changes()) else { return };
    let mut busy = std::collections::HashSet::new();
    loop {
        let keys = match changes.recv().await {
            Ok(Change::Session(key)) => vec![key],
            Ok(Change::Pods | Change::Quotas(_)) => continue,
            Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => {
                let Some(directory) = directory.upgrade() else { return };
                directory.list(None).iter().map(|record| record.key.clone()).collect()
            }
            Err(tokio::sync::broadcast::error::RecvError::Closed) => return,
        };
        let Some(directory) = directory.upgrade() else { return };
        for key in keys {
            match directory.get(&key) {
                Some(record) if record.deleting && busy.insert(record.uid.clone()) => finish_deletion(&directory, key),
                _ => {}
            }
        }
    }
}

/// Ends when the directory does, when the pod has told that nothing follows, or with its stream once the directory is closing.
async fn follow_pod(directory: Weak<FolderDirectory>, closing: CancellationToken, pod: StaticPod) {
    let endpoint = FolderDirectory::kernel_pod(&pod);
    loop {
        let Some(operator) = directory.upgrade().map(|directory| directory.operator().clone()) else { return };
        match operator.report(&endpoint).await {
            Ok(mut lines) => {
                while let Some(line) = lines.next().await {
                    let Some(directory) = directory.upgrade() else { return };
                    match line {
                        Ok(ReportLine::Drained) => return,
                        Ok(line) => apply(&directory, &pod.boot, line).await,
                        Err(error) => {
                            tracing::debug!(%error, pod = endpoint.pod, "a report stream broke");
                            break;
                        }
                    }
                }
            }
            Err(error) => tracing::debug!(%error, pod = endpoint.pod, "a report stream cannot be opened"),
        }
        if closing.is_cancelled() {
            return;
        }
        closing.run_until_cancelled(tokio::time::sleep(Duration::from_millis(RETRY_MS))).await;
    }
}

async fn apply(directory: &FolderDirectory, boot: &str, line: ReportLine) {
    let outcome = match line {
        ReportLine::Session(report) => apply_session(directory, boot, &report).await,
        ReportLine::Forgotten { uid, epoch } => match directory.by_uid(&uid) {
            Some(record) => directory.lose(&record.key, epoch, None).await,
            None => Ok(()),
        },
        // The pods of a folder are there from the start, and what they do not tell of is settled when it is opened.
        _ => Ok(()),
    };
    if let Err(error) = outcome {
        tracing::error!(%error, "cannot write the status of a session");
    }
}

async fn apply_session(directory: &FolderDirectory, boot: &str, report: &SessionReport) -> Result<(), super::DirectoryError> {
    let key = Key::new(&report.namespace, &report.name);
    let outcome = directory
        .replace(&key, Durably::Soon, |record| {
            let current = record.uid == report.uid
                && record.status.placement.as_ref().is_some_and(|placement| placement.epoch == report.epoch && placement.boot == boot);
            // A report of an earlier placement is old news.
            if current {
                record.reported(report, Timestamp::now());
            }
            Ok(())
        })
        .await;
    match outcome {
        Ok(_) | Err(super::DirectoryError::NotFound) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Drops the session from its pod, removes what is stored of it, then the record. Goes on until done.
pub(super) fn finish_deletion(directory: &Arc<FolderDirectory>, key: Key) {
    let directory = Arc::downgrade(directory);
    tokio::spawn(async move {
        loop {
            let Some(directory) = directory.upgrade() else { return };
            let Some(record) = directory.get(&key).filter(|record| record.deleting) else { return };
            let placed = record.status.placement.as_ref();
            if let Some((pod, placement)) = placed.and_then(|placement| Some((directory.pod(&key.namespace, placement)?, placement))) {
                let assignment: Assignment = assignment(&record, placement);
                if let Err(error) = directory.operator().forget(&pod, &assignment).await {
                    tracing::warn!(session = %key, %error, "the kernel pod did not drop a deleted session");
                }
            }
            let cleaned = match directory.cleanup() {
                Some(cleanup) => cleanup.clean(&record).await,
                None => Ok(()),
            };
            match cleaned {
                Ok(()) => match directory.remove(&key).await {
                    Ok(()) => return,
                    Err(error) => tracing::warn!(session = %key, %error, "cannot remove a deleted session's file"),
                },
                Err(error) => tracing::warn!(session = %key, %error, "cannot clean a deleted session's storage"),
            }
            drop(directory);
            tokio::time::sleep(Duration::from_millis(RETRY_MS)).await;
        }
    });
}
