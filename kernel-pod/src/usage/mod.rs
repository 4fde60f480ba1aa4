//! What the pod's sessions use: told on sheets in the bucket, every few minutes and when the pod stops.
//!
//! What cells used is in the sessions' records and committed with them; here it is only passed on. What a live heap takes is counted here, and lost with
//! a process that does not come to its end. It must not know how sessions run.

mod stored;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use dormouse_lifecycle::keys;
use dormouse_lifecycle::usage::{Counts, Sheet, Usage};
use dormouse_protocol::kernel::LiveUsage;
use dormouse_service::Clock;
use tokio::time::Instant;

use crate::metrics::Metrics;
use crate::storage::Storage;

pub(crate) use stored::StoredSheets;

/// How long what is used waits for its sheet.
const FLUSH_INTERVAL: Duration = Duration::from_secs(300);

/// Sheets that wait to be stored. Where the store takes none for longer, later ones grow instead.
const UNSENT_MAX: usize = 64;

/// Counts what the sessions of a pod use. Clones count together.
#[derive(Clone)]
pub(crate) struct Meter {
    shared: Arc<Shared>,
}

struct Shared {
    boot: String,
    store_prefix: String,
    namespace: String,
    clock: Clock,
    metrics: Metrics,
    inner: Mutex<Inner>,
    /// Whoever stores sheets holds it.
    storing: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Inner {
    /// What waits for a sheet, by day.
    open: BTreeMap<String, Sheet>,
    /// Sheets on their way, each with its day and number.
    unsent: BTreeMap<u64, (String, Sheet)>,
    /// The number of the next sheet.
    number: u64,
    /// Heaps that are live, by uid.
    heaps: BTreeMap<String, Heap>,
    /// Whether somebody will store what is open.
    awaited: bool,
}

struct Heap {
    name: String,
    bytes: u64,
    /// Up to when it is counted.
    counted: Instant,
}

/// The time of a live heap: it is counted until this is dropped.
pub(crate) struct HeapTime {
    meter: Meter,
    uid: String,
}

impl HeapTime {
    /// The heap has so many bytes from now on.
    pub(crate) fn is(&self, bytes: u64) {
        let shared = &self.meter.shared;
        let mut inner = shared.lock();
        inner.count(&self.uid, &shared.day());
        if let Some(heap) = inner.heaps.get_mut(&self.uid) {
            heap.bytes = bytes;
        }
    }
}

impl Drop for HeapTime {
    fn drop(&mut self) {
        let shared = &self.meter.shared;
        let mut inner = shared.lock();
        inner.count(&self.uid, &shared.day());
        inner.heaps.remove(&self.uid);
    }
}

impl Inner {
    /// Counts a heap's time up to now.
    fn count(&mut self, uid: &str, day: &str) {
        let Some(heap) = self.heaps.get_mut(uid) else { return };
        let now = Instant::now();
        let milliseconds = now.saturating_duration_since(heap.counted).as_millis();
        let byte_seconds = u64::try_from(u128::from(heap.bytes) * milliseconds / 1000).unwrap_or(u64::MAX);
        if byte_seconds == 0 {
            return;
        }
        heap.counted = now;
        let seen = self.open.entry(day.to_owned()).or_default().of(uid, &heap.name);
        seen.heap_byte_seconds = seen.heap_byte_seconds.saturating_add(byte_seconds);
    }

    fn count_all(&mut self, day: &str) {
        let uids: Vec<String> = self.heaps.keys().cloned().collect();
        for uid in uids {
            self.count(&uid, day);
        }
    }

    /// Gives what is open its numbers.
    fn close(&mut self) {
        if self.unsent.len() >= UNSENT_MAX {
            return;
        }
        for (day, sheet) in std::mem::take(&mut self.open) {
            self.number += 1;
            self.unsent.insert(self.number, (day, sheet));
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn day(&self) -> String {
        day(self.clock.now())
    }
}

/// A time's day, in UTC.
pub(crate) fn day(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%d").to_string()
}

impl Meter {
    /// Of this process.
    pub(crate) fn new(boot: String, store_prefix: String, namespace: String, clock: Clock, metrics: Metrics) -> Self {
        let inner = Mutex::default();
        Self { shared: Arc::new(Shared { boot, store_prefix, namespace, clock, metrics, inner, storing: tokio::sync::Mutex::default() }) }
    }

    /// A session that slept was woken.
    pub(crate) fn woke(&self, uid: &str, name: &str) {
        self.shared.metrics.used_wake();
        let day = self.shared.day();
        self.shared.lock().open.entry(day).or_default().of(uid, name).wakes += 1;
    }

    /// A session is live from now on.
    pub(crate) fn live(&self, storage: &Arc<Storage>, uid: &str, name: &str, bytes: u64) -> HeapTime {
        let heap = Heap { name: name.to_owned(), bytes, counted: Instant::now() };
        self.shared.lock().heaps.insert(uid.to_owned(), heap);
        self.await_flush(storage);
        HeapTime { meter: self.clone(), uid: uid.to_owned() }
    }

    /// A commit of a session is stored: what its cells have used by then, of which `new` is what came with this commit.
    pub(crate) fn committed(&self, storage: &Arc<Storage>, uid: &str, name: &str, usage: &Usage, stored_bytes: u64, new: &Counts) {
        self.shared.metrics.used(new);
        let day = self.shared.day();
        let mut inner = self.shared.lock();
        // Of earlier days a commit before this one has told all.
        if let Some((day, keys)) = usage.days().last() {
            inner.open.entry(day.to_owned()).or_default().committed(uid, name, keys);
        }
        let seen = inner.open.entry(day).or_default().of(uid, name);
        seen.stored_bytes = seen.stored_bytes.max(stored_bytes);
        drop(inner);
        self.await_flush(storage);
    }

    /// A session was found as a process left it that may not have told all of the last so many days.
    pub(crate) fn found(&self, storage: &Arc<Storage>, uid: &str, name: &str, usage: &Usage, days_max: usize) {
        if usage.is_empty() {
            return;
        }
        let mut inner = self.shared.lock();
        for (day, keys) in usage.days().rev().take(days_max) {
            inner.open.entry(day.to_owned()).or_default().committed(uid, name, keys);
        }
        drop(inner);
        self.await_flush(storage);
    }

    /// What is not known to be stored, of these days.
    pub(crate) fn unstored(&self, days: &[String]) -> LiveUsage<Sheet> {
        let mut inner = self.shared.lock();
        inner.count_all(&self.shared.day());
        let mut told: BTreeMap<String, Sheet> = BTreeMap::new();
        let number = inner.unsent.keys().next().copied().unwrap_or(inner.number + 1);
        for (day, sheet) in inner.unsent.values().map(|(day, sheet)| (day, sheet)).chain(&inner.open) {
            if days.contains(day) {
                told.entry(day.clone()).or_default().merge(sheet);
            }
        }
        LiveUsage { boot: self.shared.boot.clone(), number, days: told, heap_bytes: inner.heaps.values().map(|heap| heap.bytes).sum() }
    }

    /// Has what is open stored in a while, unless somebody does so already.
    fn await_flush(&self, storage: &Arc<Storage>) {
        if std::mem::replace(&mut self.shared.lock().awaited, true) {
            return;
        }
        let (shared, storage) = (Arc::downgrade(&self.shared), Arc::downgrade(storage));
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(FLUSH_INTERVAL).await;
                let (Some(shared), Some(storage)) = (shared.upgrade(), storage.upgrade()) else { return };
                let meter = Self { shared };
                meter.flush(&storage).await;
                let mut inner = meter.shared.lock();
                if inner.heaps.is_empty() && inner.open.is_empty() && inner.unsent.is_empty() {
                    inner.awaited = false;
                    return;
                }
            }
        });
    }

    /// Stores what is not stored. What the store does not take stays for the next time.
    pub(crate) async fn flush(&self, storage: &Storage) {
        let _storing = self.shared.storing.lock().await;
        {
            let mut inner = self.shared.lock();
            inner.count_all(&self.shared.day());
            inner.close();
        }
        loop {
            let next =
                self.shared.lock().unsent.first_key_value().map(|(number, (day, sheet))| (*number, day.clone(), serde_json::to_vec(sheet)));
            let Some((number, day, Ok(body))) = next else { return };
            let key = keys::usage(&self.shared.store_prefix, &self.shared.namespace, &day, &self.shared.boot, number);
            if let Err(error) = storage.put_once(&key, Bytes::from(body)).await {
                tracing::warn!(%error, key, "what was used cannot be stored now; it is tried again");
                return;
            }
            self.shared.lock().unsent.remove(&number);
        }
    }
}
