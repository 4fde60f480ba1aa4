//! Drives a commit against the store.
//!
//! When the store does not answer in time after a head may have been sent, the outcome is unknown: the PUT may have landed, or may still. The
//! instance is dropped then and its client told `StorageUnavailable`: nothing was acked and nothing has left. The commit itself is kept, byte by
//! byte, and sent again until its outcome is known; before that nothing else is done with the session (`unresolved.rs`). So it lands, and holds
//! the answer under the request's idempotency key.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dormouse_lifecycle as lifecycle;
use dormouse_lifecycle::checkpoint::Mark;
use dormouse_lifecycle::commit::{Failure, SEGMENTS_APPENDED_MAX, wants_full_image};
use dormouse_lifecycle::{Attachments, Change, Commit, Head, Json, Owned, PAGES_PER_MEMORY_PAGE, Reply, Step, claim, sweep};
use dormouse_protocol::{ApiError, ErrorCode};
use dormouse_service::memory::Memory;
use tokio::time::Instant;
use tracing::Instrument as _;

use super::actor::Actor;
use super::phase::{Live, Moved};
use super::wake::EngineState;
use super::{Fault, gone, setback, taken_over};
use crate::contents::Ready;
use crate::environment::Threads;
use crate::metrics::CommitOutcome;
use crate::sealed::Outgoing;
use crate::storage::Storage;

/// How long a commit whose outcome is unknown is sent again before its client is told, whatever its size.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(30);

/// The slowest way to the store that a commit is given the time for.
const UPLOAD_BYTES_PER_SECOND_MIN: u64 = 512 << 10;

/// Wait before the first repetition.
const RESEND_FIRST: Duration = Duration::from_millis(50);

/// The longest wait between two repetitions.
const RESEND_WAIT_MAX: Duration = Duration::from_secs(2);

/// Pages from which on compressing them is worth a thread that may block.
const BLOCKING_PAGES_MIN: usize = 64;

/// How a commit ended, for whoever holds the instance.
pub(super) enum Outcome {
    Committed(Owned),
    /// Nothing that another process could read was sent.
    Unsent(ApiError),
    /// The head may be stored, or may be later.
    Unknown(ApiError),
    Lost(CommitOutcome, Fault),
}

/// A commit on its way.
pub(crate) struct Attempt {
    commit: Commit,
    step: Option<Step>,
    request: Option<Request>,
    outgoing: Outgoing,
    head_sent: bool,
    /// Bytes that were stored.
    pub(super) written: u64,
}

/// What is sent again when its outcome is unknown.
enum Request {
    Segment(String, Bytes),
    Head(String, Bytes, lifecycle::Condition),
    Read(String),
}

/// What a commit of such a heap takes of the MiB that may be copied at a time: all of them at most.
fn copies_mib(memory: &Memory, heap_bytes: u64) -> u32 {
    let all = memory.limit().map_or(u64::MAX, |limit| (limit >> 22).max(1));
    u32::try_from((2 * (heap_bytes >> 20)).min(all)).unwrap_or(u32::MAX)
}

impl Actor {
    /// Commits the instance. Answers the bytes written. After an error the instance must be dropped.
    pub(super) async fn commit(&mut self) -> Result<u64, Fault> {
        self.commit_with(None, None).await
    }

    /// The same, going on from `base` instead of the last commit, and putting aside what `mark` says.
    pub(super) async fn commit_with(&mut self, base: Option<Arc<Head>>, mark: Option<Mark>) -> Result<u64, Fault> {
        self.settle_claim_to_commit().await?;
        let announced = self.announce();
        let committed = self.commit_changes(base, mark).await;
        match (&committed, announced) {
            (Ok(_), Some(_)) => self.release(),
            (Ok(_), None) => {}
            (Err(_), announced) => self.announce_again(announced),
        }
        committed
    }

    async fn commit_changes(&mut self, base: Option<Arc<Head>>, mark: Option<Mark>) -> Result<u64, Fault> {
        let appends = self.phase.live().is_some_and(|live| live.appends) && self.may_append(base.as_deref());
        let form = if appends { Form::Appended } else { Form::Chosen };
        let step = self.origin().step("commit");
        // On the heap: a session's task, which lives as long as the session, has no room for it.
        match Box::pin(self.store_changes(base.clone(), mark.clone(), form).instrument(step)).await? {
            Stored::Done(written) => Ok(written),
            // The whole image did not get through in time; what changed may.
            Stored::TooSlow if self.may_append(base.as_deref()) => match Box::pin(self.store_changes(base, mark, Form::Appended)).await? {
                Stored::Done(written) => Ok(written),
                Stored::TooSlow => Err(Fault::Unstored(no_answer())),
            },
            Stored::TooSlow => Err(Fault::Unstored(no_answer())),
        }
    }

    /// Whether what changed can be put behind what is stored, where the whole would be written by choice.
    fn may_append(&self, base: Option<&Head>) -> bool {
        let Some(live) = self.phase.live() else { return false };
        let origin = base.or(live.owned.head.as_deref());
        origin.is_some_and(|head| head.segments.len() < SEGMENTS_APPENDED_MAX && !must_rewrite(live, head, false))
    }

    async fn store_changes(&mut self, base: Option<Arc<Head>>, mark: Option<Mark>, form: Form) -> Result<Stored, Fault> {
        let began = Instant::now();
        let epoch = self.assignment.epoch;
        let writer = self.host.storage.writer().await.map_err(Fault::Unstored)?;
        let Some(live) = self.phase.live_mut() else { return Ok(Stored::Done(0)) };
        live.owned.epoch = epoch;
        // Until the commit is known to be done: pieces may have been put that no head names.
        let litter_before = std::mem::replace(&mut live.litter, true);
        let Ready { table, bytes } = live.contents.ready(epoch).await.map_err(Fault::Unstored)?;
        if let Some(page) = self.host.tools.page(&self.assignment.uid) {
            live.state.page = Some(page);
        }
        // A heap is there once more as pages, and as a segment.
        let host = Arc::clone(&self.host);
        let copies = host.copies.acquire_many(copies_mib(&host.environment.memory, live.instance.heap_bytes())).await;
        let time = host.environment.clock.now();
        let change = change(live, base.as_deref(), writer.is_some(), form, time).await.map_err(Fault::Unstored)?;
        let was_full = change.full;
        let outgoing = Outgoing::new(writer.clone(), change.engine_digest.clone());
        let owned = live.owned.clone();
        // As it is before the commit adds to it, in case that is not sent.
        let journal = live.journal.clone();
        let events = live.events.entries().map_err(|error| Fault::Unstored(ApiError::new(ErrorCode::Internal, error.to_string())))?;
        let told = events.len();
        let attachments = Attachments { blobs: table.clone(), ..self.due_attachments(base, mark, events, writer.is_some()) };
        let put_id = claim::put_id(&host.boot, &host.environment.ids.next().to_string());
        let (commit, step) = begin(host.environment.threads, owned, change, attachments, put_id).await?;
        let mut attempt = Attempt::new(commit, step, outgoing, bytes);
        let outcome = attempt.drive(&host.storage, COMMIT_TIMEOUT).await;
        drop(copies);
        let took = began.elapsed();
        match outcome {
            Outcome::Committed(owned) => {
                self.host.metrics.commit(CommitOutcome::Committed, took);
                let Some(live) = self.phase.live_mut() else { return Ok(Stored::Done(0)) };
                live.instance.mark_committed();
                let before = std::mem::replace(&mut live.owned, owned);
                (live.litter, live.moved, live.answered, live.replaces) = (litter_before, Moved::No, None, false);
                self.handle.control.events.stored(live.events.stored(told));
                if let Some(head) = &live.owned.head {
                    self.host.storage.sweep(live.contents.committed(head).await);
                }
                let lag = live.unstored_since.take().map_or(Duration::ZERO, |since| since.elapsed());
                self.host.metrics.lag(lag);
                collect_garbage(&self.host.storage, &before, live);
                self.tell_usage();
                Ok(Stored::Done(attempt.written))
            }
            Outcome::Unsent(error) => {
                self.host.metrics.commit(CommitOutcome::Unavailable, took);
                let Some(live) = self.phase.live_mut() else { return Err(Fault::Unstored(error)) };
                live.contents.unsent(table.is_some()).await;
                live.journal = journal;
                if was_full { Ok(Stored::TooSlow) } else { Err(Fault::Unstored(error)) }
            }
            Outcome::Unknown(error) => {
                self.host.metrics.commit(CommitOutcome::Unavailable, took);
                Err(Fault::Unresolved(Box::new(attempt), error))
            }
            Outcome::Lost(outcome, fault) => {
                self.host.metrics.commit(outcome, took);
                Err(fault)
            }
        }
    }
}

/// How a change is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// As the whole where that pays.
    Chosen,
    /// As what changed.
    Appended,
}

enum Stored {
    /// The bytes written.
    Done(u64),
    /// The whole image could not be put in time. Nothing has happened.
    TooSlow,
}

/// Whether what is stored under `head` cannot be gone on from: pages are differences to an engine's base image, and those of another engine say
/// nothing; an instance that has nothing of what is stored; and the first commit that is sealed writes everything anew, so that nothing of the session stays in clear that no checkpoint needs.
fn must_rewrite(live: &Live, head: &Head, sealed: bool) -> bool {
    live.replaces || head.engine_digest != live.instance.engine().digest().to_string() || (sealed && !head.sealed)
}

/// What has changed in the instance since `base`, or else since the last commit.
async fn change(live: &mut Live, base: Option<&Head>, sealed: bool, form: Form, time: jiff::Timestamp) -> Result<Change, ApiError> {
    let engine_digest = live.instance.engine().digest().to_string();
    let rewrite = base.or(live.owned.head.as_deref()).is_some_and(|head| must_rewrite(live, head, sealed));
    let full = rewrite || (form == Form::Chosen && wants_full_image(&live.owned));
    // Asked for even when the whole image is written: the next delta is relative to it.
    let delta = live.instance.delta().await;
    let (memory_pages, globals, host) = (delta.memory_pages, delta.globals, delta.host);
    let pages = if full {
        live.instance.image().await.pages.into_iter().collect()
    } else {
        match &live.answered {
            Some(answered) => answered.with(delta.pages),
            None => delta.pages,
        }
    };
    let encode = |error: serde_json::Error| ApiError::new(ErrorCode::Internal, format!("the session's record cannot be written: {error}"));
    Ok(Change {
        full,
        pages,
        memory_pages: memory_pages.div_ceil(PAGES_PER_MEMORY_PAGE),
        globals: Json::of(&EngineState { globals, host }).map_err(encode)?,
        state: live.state.encode().map_err(encode)?,
        engine_digest,
        time: time.to_string(),
    })
}

async fn begin(threads: Threads, owned: Owned, change: Change, attachments: Attachments, put_id: String) -> Result<(Commit, Step), Fault> {
    if change.pages.len() < BLOCKING_PAGES_MIN {
        return Ok(Commit::begin_with(&owned, change, attachments, put_id));
    }
    let begun = threads.charged(move || Commit::begin_with(&owned, change, attachments, put_id)).await;
    begun.map_err(|error| Fault::Unstored(ApiError::new(ErrorCode::Internal, format!("the pages cannot be compressed: {error}"))))
}

impl Attempt {
    fn new(commit: Commit, step: Step, outgoing: Outgoing, written: u64) -> Self {
        Self { commit, step: Some(step), request: None, outgoing, head_sent: false, written }
    }

    /// Goes on until the outcome is known, for about so long at most, and longer for a body that takes longer.
    pub(super) async fn drive(&mut self, storage: &Storage, patience: Duration) -> Outcome {
        let mut deadline = Instant::now() + patience;
        let mut wait = RESEND_FIRST;
        loop {
            let step = match self.step.take() {
                Some(step) => step,
                None => Step::Resend,
            };
            let is_new = !matches!(step, Step::Resend);
            match step {
                Step::PutSegment { key, bytes } => match self.outgoing.body(&key, bytes).await {
                    Ok(bytes) => self.request = Some(Request::Segment(key, bytes)),
                    Err(error) => return Outcome::Unsent(error),
                },
                Step::PutHead { key, bytes, condition } => match self.outgoing.body(&key, bytes).await {
                    Ok(bytes) => self.request = Some(Request::Head(key, bytes, condition)),
                    Err(error) if !self.head_sent => return Outcome::Unsent(error),
                    Err(error) => return Outcome::Unknown(error),
                },
                Step::GetHead { key } => self.request = Some(Request::Read(key)),
                Step::Resend => {}
                Step::Committed(owned) => return Outcome::Committed(owned),
                Step::Zombie { epoch } => {
                    return Outcome::Lost(CommitOutcome::Zombie, Fault::Gone(taken_over(epoch)));
                }
                Step::Superseded { .. } => return Outcome::Lost(CommitOutcome::Superseded, Fault::Superseded),
                Step::Deleted => return Outcome::Lost(CommitOutcome::Zombie, Fault::Gone(gone("the session was deleted"))),
                Step::Failed(failure) => return Outcome::Lost(CommitOutcome::Unavailable, failed(&failure)),
            }
            if is_new {
                deadline = deadline.max(Instant::now() + self.time_to_send());
            }
            let reply = self.send(storage).await;
            match reply {
                // It did not happen, and would not if it were sent at once. What it says may be put right; the commit stays to be sent.
                Reply::Failed(reason) => return self.given_up(ApiError::new(ErrorCode::StorageUnavailable, reason)),
                reply => self.step = Some(self.commit.on(reply)),
            }
            if matches!(self.step, Some(Step::Resend)) {
                self.step = None;
                if Instant::now() >= deadline {
                    return self.given_up(no_answer());
                }
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(RESEND_WAIT_MAX);
            }
        }
    }

    fn given_up(&self, error: ApiError) -> Outcome {
        if self.head_sent { Outcome::Unknown(error) } else { Outcome::Unsent(error) }
    }

    /// How long the body of the request may take over the slowest way that is reckoned with.
    fn time_to_send(&self) -> Duration {
        match &self.request {
            Some(Request::Segment(_, bytes) | Request::Head(_, bytes, _)) => {
                Duration::from_secs(bytes.len() as u64 / UPLOAD_BYTES_PER_SECOND_MIN)
            }
            Some(Request::Read(_)) | None => Duration::ZERO,
        }
    }

    async fn send(&mut self, storage: &Storage) -> Reply {
        let reply = match &self.request {
            Some(Request::Segment(key, bytes)) => storage.put_segment(key, bytes.clone()).await,
            Some(Request::Head(key, bytes, condition)) => {
                self.head_sent = true;
                storage.put_head(key, bytes.clone(), condition).await
            }
            Some(Request::Read(key)) => storage.read_head(key).await,
            None => Reply::Unknown,
        };
        if let (Reply::Stored { .. }, Some(Request::Segment(_, bytes) | Request::Head(_, bytes, _))) = (&reply, &self.request) {
            self.written += bytes.len() as u64;
        }
        reply
    }
}

fn no_answer() -> ApiError {
    let message = "the object store does not answer; send the request again with its idempotency key";
    ApiError::new(ErrorCode::StorageUnavailable, message)
}

fn failed(failure: &Failure) -> Fault {
    let message = failure.to_string();
    match failure {
        Failure::Head(_) | Failure::Segment(_) | Failure::Log(_) => {
            let message = format!("{message}; the session goes on from the last commit before. Keep less in it");
            Fault::Ended(setback::too_large(&message))
        }
        Failure::Store(_) | Failure::Conflicts => Fault::Unstored(ApiError::new(ErrorCode::StorageUnavailable, message)),
        Failure::WentBackwards { .. } | Failure::RefusesTrue => Fault::Failed(ApiError::new(ErrorCode::StorageUnsafe, message)),
        Failure::Foreign { .. } | Failure::Damaged(_) => Fault::Failed(ApiError::new(ErrorCode::SnapshotCorrupt, message)),
        Failure::Driver(_) => Fault::Unstored(ApiError::new(ErrorCode::Internal, message)),
    }
}

/// Removes what the commit leaves unnamed. The first one after a restore looks for what predecessors left, too: from here on, its version
/// outranks everything that they can have put.
fn collect_garbage(storage: &Storage, before: &Owned, live: &mut Live) {
    let Some(head) = live.owned.head.clone() else { return };
    if std::mem::take(&mut live.litter) {
        return storage.sweep_after(&live.owned.session, head);
    }
    storage.sweep(before.head.as_ref().map(|before| sweep::released(&live.owned.session, before, &head)).unwrap_or_default());
}
