//! The pod's cache on disk, between its memory and the store.
//!
//! Objects beside the head never change, and a copy keeps the hash in the name of what it is a copy of, so a file is named by that: a child's copy
//! of its parent's segment is the parent's file. Heads always come from the store. What is encrypted is encrypted here, too.

use std::sync::Arc;

use dormouse_lifecycle::keys::{self, Kind};
use dormouse_store::disk::{CacheEvent, Immutable, Watch};
use dormouse_store::{DiskCache, DiskCacheOptions, SnapshotStore};
use prometheus::{IntCounterVec, IntGauge, Opts};

/// What is kept: everything that never changes. A copy keeps the hash in its name, and its bytes.
struct ByHash;

impl Immutable for ByHash {
    fn name(&self, key: &str) -> Option<String> {
        let (kind, _) = keys::parse_object(key)?;
        let kind = match kind {
            Kind::Segment => 's',
            Kind::Checkpoint => 'c',
            Kind::Journal => 'j',
            Kind::Events => 'e',
            Kind::Piece => 'b',
        };
        Some(format!("{kind}{}", keys::name_hash(key)?))
    }
}

/// What `/metrics` tells about the cache.
#[derive(Debug, Clone)]
pub struct DiskCacheMetrics {
    events: IntCounterVec,
    bytes: IntGauge,
}

impl DiskCacheMetrics {
    /// The metrics, in no registry yet.
    ///
    /// # Errors
    /// Never in practice: a metric's name is bad.
    pub fn new() -> Result<Self, prometheus::Error> {
        let opts = |name: &str, help: &str| Opts::new(name, help).namespace("dormouse");
        let events = IntCounterVec::new(opts("kernel_disk_cache_events_total", "What happened in the cache on disk."), &["event"])?;
        let bytes = IntGauge::with_opts(opts("kernel_disk_cache_bytes", "Bytes of the files in the cache on disk."))?;
        Ok(Self { events, bytes })
    }

    /// Shows them in the registry of the process.
    ///
    /// # Errors
    /// A metric's name is taken.
    pub fn register(&self, metrics: &dormouse_service::Metrics) -> Result<(), prometheus::Error> {
        metrics.registry().register(Box::new(self.events.clone()))?;
        metrics.registry().register(Box::new(self.bytes.clone()))
    }
}

impl Watch for DiskCacheMetrics {
    fn counted(&self, event: CacheEvent, bytes: u64) {
        let label = match event {
            CacheEvent::Hit => "hit",
            CacheEvent::Miss => "miss",
            CacheEvent::Kept => "kept",
            CacheEvent::Evicted => "evicted",
            CacheEvent::Mismatch => "mismatch",
            CacheEvent::Failed => "failed",
        };
        self.events.with_label_values(&[label]).inc();
        self.bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }
}

/// `store` with a cache on disk before it. Looks through the folder, so it may block.
#[must_use]
pub fn cached(store: Arc<dyn SnapshotStore>, options: DiskCacheOptions, metrics: DiskCacheMetrics) -> DiskCache {
    DiskCache::open(store, options, Arc::new(ByHash), Arc::new(metrics))
}
