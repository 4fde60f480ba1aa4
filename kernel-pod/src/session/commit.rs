//! Drives a commit against the store.
//!
//! When the store does not answer within [`COMMIT_TIMEOUT`], the outcome is unknown: the PUT may have landed, or may still. The instance is
//! dropped then and its client told `StorageUnavailable`: nothing was acked and nothing has left. The next request reads the store and goes on
//! from whatever is there. If the commit had landed, it holds the answer under the request's idempotency key, so a retry gets that; if it
//! lands later still, the next commit meets it as `Superseded`, restores it and runs its own cell again.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dormouse_lifecycle as lifecycle;
use dormouse_lifecycle::checkpoint::Mark;
use dormouse_lifecycle::commit::{Failure, wants_full_image};
use dormouse_lifecycle::{Annex, Change, Commit, Head, Json, Owned, PAGES_PER_MEMORY_PAGE, Reply, Step, claim, sweep};
use dormouse_protocol::{ApiError, ErrorCode};
use tokio::time::Instant;

use super::actor::Actor;
use super::wake::EngineState;
use super::{Fault, gone};
use crate::contents::Ready;
use crate::environment::Threads;
use crate::lanes::sparing;
use crate::metrics::CommitOutcome;
use crate::sealed::Outgoing;
use crate::storage::Storage;

/// How long a commit whose outcome is unknown is sent again.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(30);

/// Wait before the first repetition.
const RESEND_FIRST: Duration = Duration::from_millis(50);

/// The longest wait between two repetitions.
const RESEND_WAIT_MAX: Duration = Duration::from_secs(2);

/// Pages from which on compressing them is worth a thread that may block.
const BLOCKING_PAGES_MIN: usize = 64;

/// How a commit ended, for whoever holds the instance.
enum Outcome {
    Committed(Owned),
    Lost(CommitOutcome, Fault),
}

impl Actor {
    /// Commits the instance. Answers the bytes written. After an error the instance must be dropped.
    pub(super) async fn commit(&mut self) -> Result<u64, Fault> {
        self.commit_with(None, None).await
    }

    /// The same, going on from `base` instead of the last commit, and putting aside what `mark` says.
    pub(super) async fn commit_with(&mut self, base: Option<Arc<Head>>, mark: Option<Mark>) -> Result<u64, Fault> {
        self.settle_claim_to_commit().await?;
        sparing(self.store_changes(base, mark)).await
    }

    async fn store_changes(&mut self, base: Option<Arc<Head>>, mark: Option<Mark>) -> Result<u64, Fault> {
        let began = Instant::now();
        let event_seq = self.handle.control.events.seq();
        let epoch = self.assignment.epoch;
        let writer = self.pod.storage.writer().await.map_err(Fault::Unavailable)?;
        let Some(live) = &mut self.live else { return Ok(0) };
        live.owned.epoch = epoch;
        // Until the commit is known to be done: pieces may have been put that no head names.
        let lost_before = std::mem::replace(&mut self.lost_commit, true);
        let Ready { table, bytes } = live.contents.ready(epoch).await.map_err(Fault::Unavailable)?;
        live.state.event_seq = event_seq;
        let time = self.pod.environment.clock.now();
        let change = change(live, base.as_deref(), writer.is_some(), time).map_err(Fault::Unavailable)?;
        let outgoing = Outgoing::new(writer.clone(), change.engine_digest.clone());
        let (owned, pod) = (live.owned.clone(), Arc::clone(&self.pod));
        let annex = Annex { blobs: table, ..self.due_annex(base, mark, writer.is_some()) };
        let put_id = claim::put_id(pod.boot(), &uuid::Uuid::new_v4().to_string());
        let (commit, step) = begin(pod.environment.threads, owned, change, annex, put_id).await?;
        let mut written = bytes;
        let outcome = drive(&pod.storage, commit, step, outgoing, &mut written).await;
        let took = began.elapsed();
        match outcome {
            Outcome::Committed(owned) => {
                self.pod.metrics.commit(CommitOutcome::Committed, took);
                let Some(live) = &mut self.live else { return Ok(0) };
                self.lost_commit = lost_before;
                live.instance.mark_committed();
                let before = std::mem::replace(&mut live.owned, owned);
                live.dirty = false;
                if let Some(head) = &live.owned.head {
                    self.pod.storage.sweep(live.contents.committed(head).await);
                }
                let lag = live.unstored_since.take().map_or(Duration::ZERO, |since| since.elapsed());
                self.pod.metrics.lag(lag);
                collect_garbage(&self.pod.storage, &before, live);
                Ok(written)
            }
            Outcome::Lost(outcome, fault) => {
                self.pod.metrics.commit(outcome, took);
                Err(fault)
            }
        }
    }
}

/// What has changed in the instance since `base`, or else since the last commit. The first commit that is `sealed` writes everything anew, so
/// that nothing of the session stays in clear that no checkpoint needs.
fn change(live: &mut super::actor::Live, base: Option<&Head>, sealed: bool, time: jiff::Timestamp) -> Result<Change, ApiError> {
    let engine_digest = live.instance.engine().digest().to_string();
    // Pages are differences to an engine's base image: those of another engine say nothing.
    let another = |head: &Head| super::wake::holds_contents(head) || head.engine_digest != engine_digest;
    let anew = |base: &Head| another(base) || (sealed && !base.sealed);
    let full = wants_full_image(&live.owned) || base.or(live.owned.head.as_deref()).is_some_and(anew);
    // Asked for even when the whole image is written: the next delta is relative to it.
    let delta = live.instance.delta();
    let (memory_pages, globals, host) = (delta.memory_pages, delta.globals, delta.host);
    let pages = if full { live.instance.image().pages.into_iter().collect() } else { delta.pages };
    let encode = |error: serde_json::Error| ApiError::new(ErrorCode::Internal, format!("the session's record cannot be written: {error}"));
    Ok(Change {
        full,
        pages,
        memory_pages: memory_pages.div_ceil(PAGES_PER_MEMORY_PAGE),
        globals: Json::of(&EngineState { globals, host, differences: true }).map_err(encode)?,
        state: live.state.encode().map_err(encode)?,
        engine_digest,
        time: time.to_string(),
    })
}

async fn begin(threads: Threads, owned: Owned, change: Change, annex: Annex, put_id: String) -> Result<(Commit, Step), Fault> {
    if change.pages.len() < BLOCKING_PAGES_MIN {
        return Ok(Commit::begin_with(&owned, change, annex, put_id));
    }
    let begun = threads.blocking(move || Commit::begin_with(&owned, change, annex, put_id)).await;
    begun.map_err(|error| Fault::Poisoned(format!("compressing the pages: {error}")))
}

/// What is sent again when its outcome is unknown.
enum Request {
    Segment(String, Bytes),
    Head(String, Bytes, lifecycle::Condition),
    Read(String),
}

async fn drive(storage: &Storage, mut commit: Commit, mut step: Step, mut outgoing: Outgoing, written: &mut u64) -> Outcome {
    let deadline = Instant::now() + COMMIT_TIMEOUT;
    let mut wait = RESEND_FIRST;
    let mut request = None;
    loop {
        match step {
            Step::PutSegment { key, bytes } => match outgoing.body(&key, bytes).await {
                Ok(bytes) => request = Some(Request::Segment(key, bytes)),
                Err(error) => return Outcome::Lost(CommitOutcome::Unavailable, Fault::Unavailable(error)),
            },
            Step::PutHead { key, bytes, condition } => match outgoing.body(&key, bytes).await {
                Ok(bytes) => request = Some(Request::Head(key, bytes, condition)),
                Err(error) => return Outcome::Lost(CommitOutcome::Unavailable, Fault::Unavailable(error)),
            },
            Step::GetHead { key } => request = Some(Request::Read(key)),
            Step::Resend => {
                if Instant::now() >= deadline {
                    let message = "the object store does not answer; send the request again with its idempotency key";
                    let error = ApiError::new(ErrorCode::StorageUnavailable, message);
                    return Outcome::Lost(CommitOutcome::Unavailable, Fault::Unavailable(error));
                }
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(RESEND_WAIT_MAX);
            }
            Step::Committed(owned) => return Outcome::Committed(owned),
            Step::Zombie { epoch } => {
                let fault = Fault::Gone(gone(format!("epoch {epoch} has taken the session over")));
                return Outcome::Lost(CommitOutcome::Zombie, fault);
            }
            Step::Superseded { .. } => return Outcome::Lost(CommitOutcome::Superseded, Fault::Superseded),
            Step::Deleted => return Outcome::Lost(CommitOutcome::Zombie, Fault::Gone(gone("the session was deleted"))),
            Step::Failed(failure) => return Outcome::Lost(CommitOutcome::Unavailable, failed(&failure)),
        }
        let reply = match &request {
            Some(Request::Segment(key, bytes)) => storage.put_segment(key, bytes.clone()).await,
            Some(Request::Head(key, bytes, condition)) => storage.put_head(key, bytes.clone(), condition).await,
            Some(Request::Read(key)) => storage.read_head(key).await,
            None => Reply::Failed("a repetition of nothing".to_owned()),
        };
        if let (Reply::Stored { .. }, Some(Request::Segment(_, bytes) | Request::Head(_, bytes, _))) = (&reply, &request) {
            *written += bytes.len() as u64;
        }
        step = commit.on(reply);
    }
}

fn failed(failure: &Failure) -> Fault {
    let message = failure.to_string();
    match failure {
        Failure::Head(_) | Failure::Segment(_) | Failure::Journal(_) => {
            let message = format!("{message}; the session goes on from before this cell. Keep less in it");
            Fault::Unavailable(ApiError::new(ErrorCode::SizeAdmissionError, message))
        }
        Failure::Store(_) => Fault::Unavailable(ApiError::new(ErrorCode::StorageUnavailable, message)),
        Failure::WentBackwards { .. } | Failure::RefusesTrue => Fault::Failed(ApiError::new(ErrorCode::StorageUnsafe, message)),
        Failure::Foreign { .. } | Failure::Damaged(_) => Fault::Failed(ApiError::new(ErrorCode::SnapshotCorrupt, message)),
        Failure::Driver(_) => Fault::Poisoned(message),
    }
}

/// Removes what the commit leaves unnamed. The first one after a restore looks for what predecessors left, too: from here on, its version
/// outranks everything that they can have put.
fn collect_garbage(storage: &Storage, before: &Owned, live: &mut super::actor::Live) {
    let Some(head) = live.owned.head.clone() else { return };
    if std::mem::take(&mut live.litter) {
        return storage.sweep_after(&live.owned.session, head);
    }
    storage.sweep(before.head.as_ref().map(|before| sweep::released(&live.owned.session, before, &head)).unwrap_or_default());
}
