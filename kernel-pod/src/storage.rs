//! The store as sessions use it: probed before its first use, and with its errors as replies of a commit.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dormouse_lifecycle::head::HeadError;
use dormouse_lifecycle::{Condition, Head, Reply, SessionKey, sweep};
use dormouse_protocol::kernel::Anchor;
use dormouse_protocol::{ApiError, ErrorCode};
use dormouse_seal::{Opened, Seal, Writer};
use dormouse_service::Gate;
use dormouse_store::disk::CACHED_ETAG;
use dormouse_store::probe::{StoreUnsafe, conditional_writes};
use dormouse_store::{PutError, SnapshotStore, StoreError};
use futures::{StreamExt as _, TryStreamExt as _};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::metrics::WakeSource;
use crate::sealed::{self, Unopened};

/// How long a request waits for the first probe of a process that has just started.
const FIRST_PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// Wait before a failed probe is made again.
const PROBE_WAIT_FIRST: Duration = Duration::from_millis(500);

/// The longest wait between two probes.
const PROBE_WAIT_MAX: Duration = Duration::from_secs(15);

/// How long the pod's end waits for a probe that is under way.
const LAST_PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Attempts of a read.
const READ_ATTEMPTS_MAX: u32 = 5;

/// Copies of one fork that are under way at the same time.
const COPIES_IN_FLIGHT_MAX: usize = 16;

/// Wait before the first repetition of a read; doubled each time.
const READ_WAIT_FIRST: Duration = Duration::from_millis(100);

/// What the probe has said so far.
#[derive(Debug, Clone)]
enum Probe {
    /// Nothing yet.
    Running,
    /// The store keeps its promises.
    Passed,
    /// It does not, or cannot be reached.
    Failed(ApiError),
}

/// The store.
pub(crate) struct Storage {
    store: Arc<dyn SnapshotStore>,
    seal: Arc<Seal>,
    /// Closed when nobody probes any more.
    probe: watch::Receiver<Probe>,
    /// Whether there are credentials for it.
    granted: watch::Sender<bool>,
    no_more_probes: CancellationToken,
}

impl Storage {
    /// Begins to probe, among the objects of the tenant whose keys begin so. Without such a place it is not probed, and not used before
    /// [`Self::granted`]: whoever gives the credentials for it knows that it was probed. The gate does not wait for that: the session that they are for
    /// would not come.
    pub(crate) fn start(store: Arc<dyn SnapshotStore>, seal: Seal, place: Option<String>, gate: Gate) -> Self {
        if place.is_none() {
            gate.ready();
        }
        let seal = Arc::new(seal);
        let (verdict, probe) = watch::channel(Probe::Running);
        let (granted, is_granted) = watch::channel(place.is_some());
        let (no_more_probes, probed) = (CancellationToken::new(), (Arc::clone(&store), place));
        tokio::spawn(probe_until_passed(probed, Arc::clone(&seal), is_granted, (verdict, gate), no_more_probes.clone()));
        Self { store, seal, probe, granted, no_more_probes }
    }

    /// There are credentials for it from now on.
    pub(crate) fn granted(&self) {
        self.granted.send_replace(true);
    }

    /// Lets no probe begin, and waits for the end of one that is under way: cut off, it would leave objects in the store.
    pub(crate) async fn end_probing(&self) {
        self.no_more_probes.cancel();
        let mut probe = self.probe.clone();
        let ended = async { while probe.changed().await.is_ok() {} };
        // A store that does not answer keeps nobody from ending.
        let _ = tokio::time::timeout(LAST_PROBE_TIMEOUT, ended).await;
    }

    /// Whether the store has passed its probe; waits for the first one, and for credentials where they come later.
    pub(crate) async fn ready(&self) -> Result<(), ApiError> {
        let mut probe = self.probe.clone();
        let first = tokio::time::timeout(FIRST_PROBE_TIMEOUT, probe.wait_for(|probe| !matches!(probe, Probe::Running))).await;
        match first.ok().and_then(Result::ok).map(|probe| probe.clone()) {
            Some(Probe::Passed) => Ok(()),
            Some(Probe::Failed(error)) => Err(error),
            Some(Probe::Running) | None if !*self.granted.borrow() => {
                let message = "the operator has not given this pod the credentials of its session yet: is the operator running?";
                Err(ApiError::new(ErrorCode::CapacityExhausted, message))
            }
            Some(Probe::Running) | None => Err(unavailable("the object store has not answered the first probe yet")),
        }
    }

    /// Who encrypts what a commit puts, if anybody does.
    pub(crate) async fn writer(&self) -> Result<Option<Writer>, ApiError> {
        self.seal.writer().await.map_err(|error| sealed::keys_error(&error))
    }

    /// What is stored as the session's head, with its ETag. A head that is not encrypted is not believed after one that was, as `anchor` tells,
    /// unless the pool encrypts nothing new.
    pub(crate) async fn head(
        &self,
        key: &SessionKey,
        anchor: Option<Anchor>,
    ) -> Result<Option<(Result<Head, HeadError>, String)>, ApiError> {
        let key = key.head();
        let Some((bytes, etag)) = self.fetch(&key).await? else { return Ok(None) };
        let head = sealed::head(&self.seal, &key, bytes, self.expects(anchor).await?).await?;
        Ok(Some((head, etag)))
    }

    /// Whether what is stored of a session must be encrypted to be believed.
    pub(crate) async fn expects(&self, anchor: Option<Anchor>) -> Result<bool, ApiError> {
        Ok(anchor.is_some_and(|anchor| anchor.encrypted) && self.writer().await?.is_some())
    }

    /// The segments of `head` in their order. `None`: one of them is not there.
    pub(crate) async fn segments(&self, head: &Head) -> Result<Option<Vec<Bytes>>, ApiError> {
        Ok(self.segments_from(head).await?.map(|(segments, _)| segments))
    }

    /// The same, with where they came from: the disk, if there are any and all of them lay there.
    pub(crate) async fn segments_from(&self, head: &Head) -> Result<Option<(Vec<Bytes>, WakeSource)>, ApiError> {
        let keys = head.segments.iter().map(|segment| segment.key.as_str());
        let found = futures::future::try_join_all(keys.map(|key| self.read_opened(key))).await?;
        let Some(found) = found.into_iter().collect::<Option<Vec<_>>>() else { return Ok(None) };
        for (opened, _) in &found {
            if let Some(sealed) = opened.sealed.as_ref().filter(|sealed| sealed.engine != head.engine_digest) {
                let message = format!("{} was encrypted as one of engine {}", sealed.object, sealed.engine);
                return Err(ApiError::new(ErrorCode::SnapshotCorrupt, message));
            }
        }
        let on_disk = !found.is_empty() && found.iter().all(|(_, etag)| etag == CACHED_ETAG);
        let source = if on_disk { WakeSource::Disk } else { WakeSource::Storage };
        Ok(Some((found.into_iter().map(|(opened, _)| opened.bytes).collect(), source)))
    }

    /// The object at `key`, with its ETag.
    pub(crate) async fn read(&self, key: &str) -> Result<Option<(Bytes, String)>, ApiError> {
        Ok(self.read_opened(key).await?.map(|(opened, etag)| (opened.bytes, etag)))
    }

    async fn read_opened(&self, key: &str) -> Result<Option<(Opened, String)>, ApiError> {
        let Some((bytes, etag)) = self.fetch(key).await? else { return Ok(None) };
        Ok(Some((sealed::open(&self.seal, key, bytes).await?, etag)))
    }

    /// The object at `key`, or why it cannot be used. `None`: it is not there.
    pub(crate) async fn look(&self, key: &str) -> Result<Option<Result<Opened, Unopened>>, ApiError> {
        let Some((bytes, _)) = self.fetch(key).await? else { return Ok(None) };
        Ok(Some(sealed::open(&self.seal, key, bytes).await))
    }

    /// What is stored at `key`, with its ETag.
    async fn fetch(&self, key: &str) -> Result<Option<(Bytes, String)>, ApiError> {
        let mut wait = READ_WAIT_FIRST;
        let mut last = String::new();
        for _ in 0..READ_ATTEMPTS_MAX {
            match self.store.get(key).await {
                Ok(found) => return Ok(found.map(|object| (object.bytes, object.etag))),
                Err(error) if !error.is_transient() => return Err(unavailable(&error.to_string())),
                Err(error) => last = error.to_string(),
            }
            tokio::time::sleep(wait).await;
            wait *= 2;
        }
        Err(unavailable(&last))
    }

    /// Every key below `prefix`.
    pub(crate) async fn list(&self, prefix: &str) -> Result<Vec<String>, ApiError> {
        self.store.list(prefix).await.map_err(|error| unavailable(&error.to_string()))
    }

    /// Copies objects inside the store; `false` when one of them is not there.
    pub(crate) async fn copy(&self, pairs: &[(String, String)]) -> Result<bool, ApiError> {
        let copies: Vec<_> = pairs.iter().map(|(from, to)| self.store.copy(from, to)).collect();
        let copied = futures::stream::iter(copies).buffer_unordered(COPIES_IN_FLIGHT_MAX).try_collect::<Vec<bool>>().await;
        Ok(copied.map_err(|error| unavailable(&error.to_string()))?.into_iter().all(|there| there))
    }

    /// One attempt to put a segment.
    pub(crate) async fn put_segment(&self, key: &str, bytes: Bytes) -> Reply {
        self.put(key, bytes, dormouse_store::Condition::Absent).await
    }

    /// One attempt to put a head.
    pub(crate) async fn put_head(&self, key: &str, bytes: Bytes, condition: &Condition) -> Reply {
        let condition = match condition {
            Condition::Absent => dormouse_store::Condition::Absent,
            Condition::Matches(etag) => dormouse_store::Condition::Matches(etag.clone()),
        };
        self.put(key, bytes, condition).await
    }

    /// Puts an object whose key is never used again. That it is there already means that an earlier attempt came through.
    pub(crate) async fn put_once(&self, key: &str, bytes: Bytes) -> Result<(), ApiError> {
        match self.store.put(key, bytes, dormouse_store::Condition::Absent).await {
            Ok(_) | Err(PutError::Refused) => Ok(()),
            Err(error) => Err(unavailable(&error.to_string())),
        }
    }

    async fn put(&self, key: &str, bytes: Bytes, condition: dormouse_store::Condition) -> Reply {
        match self.store.put(key, bytes, condition).await {
            Ok(etag) => Reply::Stored { etag },
            Err(PutError::Refused) => Reply::Refused,
            Err(PutError::Conflicted) => Reply::Conflicted,
            // That it did not happen and may do so later is the same as not knowing.
            Err(PutError::Unknown(error)) => unknown(key, &error),
            Err(PutError::Failed(error)) if error.is_transient() => unknown(key, &error),
            Err(PutError::Failed(error)) => Reply::Failed(error.to_string()),
        }
    }

    /// One attempt to read a head.
    pub(crate) async fn read_head(&self, key: &str) -> Reply {
        match self.store.get(key).await {
            Ok(None) => Reply::Head(None),
            Ok(Some(object)) => match sealed::head(&self.seal, key, object.bytes, false).await {
                Ok(Ok(head)) => Reply::Head(Some((Arc::new(head), object.etag))),
                Ok(Err(error)) => Reply::Damaged(error.to_string()),
                Err(error) => Reply::Failed(error.to_string()),
            },
            Err(error) if error.is_transient() => unknown(key, &error),
            Err(error) => Reply::Failed(error.to_string()),
        }
    }

    /// Deletes what processes before this one left behind: of what is listed from here on, everything that no head after `head` can name.
    /// In its own time; what it misses, the next owner's sweep finds.
    pub(crate) fn sweep_after(&self, key: &SessionKey, head: Arc<Head>) {
        let (store, prefix) = (Arc::clone(&self.store), key.prefix());
        tokio::spawn(async move {
            match store.list(&prefix).await {
                Ok(listed) => delete_all(store.as_ref(), sweep::deletable(&listed, &head)).await,
                Err(error) => tracing::debug!(prefix, %error, "what predecessors left stays for now"),
            }
        });
    }

    /// Deletes keys that nothing can name any more, in its own time. What it misses, the next owner's sweep finds.
    pub(crate) fn sweep(&self, keys: Vec<String>) {
        if keys.is_empty() {
            return;
        }
        let store = Arc::clone(&self.store);
        tokio::spawn(async move { delete_all(store.as_ref(), keys.iter().map(String::as_str)).await });
    }
}

async fn delete_all(store: &dyn SnapshotStore, keys: impl IntoIterator<Item = &str>) {
    for key in keys {
        if let Err(error) = store.delete(key).await {
            tracing::debug!(key, %error, "an unnamed object stays for now");
        }
    }
}

fn unknown(key: &str, error: &StoreError) -> Reply {
    tracing::debug!(key, %error, "the store has not answered; asking again");
    Reply::Unknown
}

fn probe_error(error: &StoreUnsafe) -> ApiError {
    if error.is_proof() {
        let message = format!("{error}. Sessions would be lost in such a store: name another one in the pool's spec.storage");
        return ApiError::new(ErrorCode::StorageUnsafe, message);
    }
    unavailable(&error.to_string())
}

fn unavailable(reason: &str) -> ApiError {
    let message = format!("{reason}. Check the pool's spec.storage, its credentials and the way to the store");
    ApiError::new(ErrorCode::StorageUnavailable, message)
}

async fn probe_until_passed(
    (store, place): (Arc<dyn SnapshotStore>, Option<String>),
    seal: Arc<Seal>,
    mut granted: watch::Receiver<bool>,
    (verdict, gate): (watch::Sender<Probe>, Gate),
    no_more: CancellationToken,
) {
    let Some(Ok(_)) = no_more.run_until_cancelled(granted.wait_for(|granted| *granted)).await else { return };
    let mut wait = PROBE_WAIT_FIRST;
    while !no_more.is_cancelled() {
        let tried = match (seal.writer().await, &place) {
            (Ok(_), Some(prefix)) => conditional_writes(store.as_ref(), prefix).await.map_err(|error| probe_error(&error)),
            (Ok(_), None) => Ok(()),
            (Err(error), _) => Err(sealed::keys_error(&error)),
        };
        match tried {
            Ok(()) => {
                gate.ready();
                let _ = verdict.send(Probe::Passed);
                return;
            }
            Err(error) => {
                gate.failed(&error);
                if verdict.send(Probe::Failed(error)).is_err() {
                    return;
                }
            }
        }
        no_more.run_until_cancelled(tokio::time::sleep(wait)).await;
        wait = (wait * 2).min(PROBE_WAIT_MAX);
    }
}
