//! Sheets as they are stored: read for a sum, and few of them made of many.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use dormouse_lifecycle::keys;
use dormouse_lifecycle::usage::{Sheet, sum};
use dormouse_protocol::kernel::StoredUsage;
use dormouse_protocol::{ApiError, ErrorCode};
use futures::{StreamExt as _, TryStreamExt as _};

use crate::storage::Storage;

/// Sheets that are read at the same time.
const READS_IN_FLIGHT_MAX: usize = 16;

/// Sheets of a day that stay apart once it is over.
const SHEETS_APART_MAX: usize = 8;

/// The stored sheets of a namespace.
pub(crate) struct StoredSheets<'a> {
    pub(crate) storage: &'a Storage,
    pub(crate) store_prefix: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) boot: &'a str,
}

/// Sums that this process has stored: their names are used once.
static SUMS: AtomicU64 = AtomicU64::new(0);

impl StoredSheets<'_> {
    /// Those of these days. Of a day before `settled`, which nobody writes about any more, many become one.
    pub(crate) async fn read(&self, days: &[String], settled: &str) -> Result<StoredUsage<Sheet>, ApiError> {
        let mut read = BTreeMap::new();
        for day in days {
            let mut sheets = self.day(day).await?;
            if day.as_str() < settled && sheets.len() > SHEETS_APART_MAX {
                sheets = self.gather(day, sheets).await?;
            }
            read.insert(day.clone(), sheets);
        }
        Ok(StoredUsage { days: read })
    }

    async fn day(&self, day: &str) -> Result<BTreeMap<String, Sheet>, ApiError> {
        let prefix = keys::usage_prefix(self.store_prefix, self.namespace, day);
        let listed = self.storage.list(&prefix).await?;
        let below = prefix.as_str();
        let reads = listed.into_iter().map(|key| async move {
            // Another reader may have gathered it since.
            let Some((bytes, _)) = self.storage.read(&key).await? else { return Ok::<_, ApiError>(None) };
            let name = key.strip_prefix(below).unwrap_or(&key).trim_end_matches(".json").to_owned();
            let damaged = |error| ApiError::new(ErrorCode::SnapshotCorrupt, format!("{key} cannot be read: {error}. Remove it to go on"));
            Ok(Some((name, serde_json::from_slice::<Sheet>(&bytes).map_err(damaged)?)))
        });
        let reads: Vec<_> = reads.collect();
        let read: Vec<Option<_>> = futures::stream::iter(reads).buffer_unordered(READS_IN_FLIGHT_MAX).try_collect().await?;
        Ok(read.into_iter().flatten().collect())
    }

    /// Stores the sum of a day's sheets, then removes them: whoever reads both in between knows by the sum that they count no more.
    async fn gather(&self, day: &str, sheets: BTreeMap<String, Sheet>) -> Result<BTreeMap<String, Sheet>, ApiError> {
        let covers: BTreeSet<String> = sheets.keys().cloned().collect();
        let whole = Sheet { covers: covers.clone(), ..sum(&sheets) };
        let process = format!("{}.sum", self.boot);
        let number = SUMS.fetch_add(1, Ordering::Relaxed);
        let key = keys::usage(self.store_prefix, self.namespace, day, &process, number);
        let body = serde_json::to_vec(&whole).map_err(|error| ApiError::new(ErrorCode::Internal, error.to_string()))?;
        self.storage.put_once(&key, Bytes::from(body)).await?;
        let prefix = keys::usage_prefix(self.store_prefix, self.namespace, day);
        self.storage.sweep(covers.into_iter().map(|name| format!("{prefix}{name}.json")).collect());
        Ok(BTreeMap::from([(format!("{process}-{number:08}"), whole)]))
    }
}
