//! Checkpoints on request, time travel, and beginning as what another session was.

use std::sync::Arc;

use dormouse_engine as engine;
use dormouse_lifecycle::blobs::Table;
use dormouse_lifecycle::checkpoint::{self, CheckpointError, Mark, Subject};
use dormouse_lifecycle::fork::fork;
use dormouse_lifecycle::usage::Usage;
use dormouse_lifecycle::{Acquire, Attachments, Head, Json, Owned, SessionKey, TopLayer};
use dormouse_protocol::eval::Woke;
use dormouse_protocol::history::{Checkpoint, JournalBody};
use dormouse_protocol::{ApiError, ErrorCode};
use dormouse_service::Clock;

use super::actor::Actor;
use super::phase::Live;
use super::wake::{corrupt, gone_from_head};
use super::{Fault, engines, gone};
use crate::record::SessionState;
use crate::slots::Slot;
use crate::storage::Storage;
use crate::stored;

/// Times that a parent's state is read: it may commit meanwhile, and what it named may be gone with that.
const FORK_ATTEMPTS_MAX: u32 = 5;

/// What waiting cells are told when their session goes back.
const RESTORED: &str = "the session was restored to a checkpoint while this cell waited; nothing of the cell is left";

/// A session as the store has it, taken in hand to go on from another state.
pub(super) struct InHand {
    pub(super) owned: Owned,
    /// Its record, if it can be read.
    pub(super) state: Option<SessionState>,
    /// Entries of the journal that only a head has which is not believed.
    pub(super) tail: Vec<Json>,
}

/// What a session goes on as.
pub(super) struct Successor<'a> {
    pub(super) instance: engine::Instance,
    pub(super) settings: engine::Settings,
    pub(super) state: SessionState,
    /// What lies outside the heap.
    pub(super) contents: &'a Table,
    /// What the journal says of it.
    pub(super) entry: JournalBody,
    /// What waiting cells are told.
    pub(super) why: &'static str,
}

impl Actor {
    /// Puts the session's present state aside under `label`, unless the request that `operation` names has done so.
    pub(super) async fn make_checkpoint(&mut self, label: String, operation: Option<String>) -> Result<Checkpoint, Fault> {
        self.ensure_live().await?;
        let Some(live) = self.phase.live_mut() else { return Err(no_instance()) };
        if let Some(sequence) = live.state.operations.find(operation.as_deref()) {
            let made = live.owned.head.as_deref().and_then(|head| head.checkpoints.iter().find(|it| it.id == sequence));
            return made.map(stored::view).ok_or_else(|| Fault::Refused(replaced(sequence)));
        }
        checkpoint::admit(live.owned.head.as_deref(), &label).map_err(|error| Fault::Refused(refused(&error)))?;
        let sequence = next_sequence(&live.owned);
        live.state.operations.note(operation, sequence);
        let mark = Mark { subject: Subject::This, label: Some(label.clone()), keep: self.assignment.spec.checkpoints.keep };
        self.commit_with(None, Some(mark)).await?;
        let head = self.phase.live().and_then(|live| live.owned.head.as_deref());
        let made = head.and_then(|head| checkpoint::find(&head.checkpoints, &label)).map(stored::view);
        made.ok_or_else(|| Fault::Refused(ApiError::new(ErrorCode::Internal, "the checkpoint was made and is not listed")))
    }

    /// Goes back to a checkpoint. The request that `operation` names is carried out once.
    pub(super) async fn restore_checkpoint(&mut self, wanted: &str, operation: Option<String>) -> Result<(), Fault> {
        let Some(held) = self.take_for(operation.as_deref()).await? else { return Ok(()) };
        let restored = self.open_checkpoint(&held.owned, wanted).await;
        let (base, instance, then, settings) = restored.map_err(|fault| Fault::Refused(fault.error()))?;
        let had_state = held.state.is_some();
        let successor = Successor {
            instance,
            settings,
            state: then.rewound().numbered_after(held.state.as_ref()),
            contents: &base.blobs.table,
            entry: JournalBody::Restored { checkpoint: base.sequence.to_string() },
            why: RESTORED,
        };
        self.replace(held, successor, operation).await?;
        // What is left behind stays a checkpoint, so that going back can be undone; unless there is nothing that could be gone back to.
        let keep = self.assignment.spec.checkpoints.keep;
        let mark = had_state.then_some(Mark { subject: Subject::Before, label: None, keep });
        self.commit_with(Some(Arc::new(base)), mark).await.map(drop)
    }

    /// Takes the session in hand to go on from another state. `None`: `operation` was carried out before, and the session is live.
    pub(super) async fn take_for(&mut self, operation: Option<&str>) -> Result<Option<InHand>, Fault> {
        self.set_answers_aside().await?;
        let held = self.take_in_hand().await.map_err(|fault| match fault {
            Fault::Gone(error) => Fault::Gone(error),
            fault => Fault::Refused(fault.error()),
        })?;
        if held.state.as_ref().is_some_and(|now| now.operations.find(operation).is_some()) {
            self.ensure_live().await?;
            return Ok(None);
        }
        Ok(Some(held))
    }

    /// Puts another state in the place of what the session was. The next commit stores it.
    pub(super) async fn replace(&mut self, held: InHand, successor: Successor<'_>, operation: Option<String>) -> Result<(), Fault> {
        let InHand { mut owned, tail, .. } = held;
        let Successor { instance, settings, mut state, contents, entry, why } = successor;
        let slot = match self.phase.take_live() {
            Some(live) => live.slot,
            None => self.supervisor.slot(&self.assignment.uid).await.map_err(Fault::Refused)?,
        };
        unlist_put_back(&mut owned);
        let (slept, waiting) = self.host.cache.take(&self.assignment.uid).map(|copy| (copy.journal, copy.events)).unwrap_or_default();
        self.end_waiting(&ApiError::new(ErrorCode::Interrupted, why));
        self.host.tools.forget_page(&self.assignment.uid);
        state.runs.cancel_open(&self.host.environment.clock.now().to_string());
        state.operations.note(operation, next_sequence(&owned));
        state.last_active = now_active(self.host.environment.clock);
        self.go_live(instance, settings, owned, state, slot, None);
        if let Some(live) = self.phase.live_mut() {
            live.contents.go_on_from(contents).await;
            live.journal = tail.into_iter().chain(slept).collect();
            live.events.put_first(waiting);
            live.note(entry);
        }
        Ok(())
    }

    /// Stores what was answered ahead of its commit, so that it is set aside with the rest.
    async fn set_answers_aside(&mut self) -> Result<(), Fault> {
        if self.phase.live().is_some_and(|live| live.owned.epoch < self.assignment.epoch) {
            self.verify_owned().await?;
        }
        if !self.phase.is_live() {
            self.resolve().await?;
            if !self.owes_storage() {
                return Ok(());
            }
            if let Err(fault) = self.ensure_live().await {
                // What cannot go on cannot be set aside either.
                if let Fault::Gone(error) = fault {
                    return Err(Fault::Gone(error));
                }
                self.on_result(Err(fault));
                return Ok(());
            }
        }
        if self.phase.live().is_some_and(Live::is_dirty) {
            self.commit().await?;
        }
        Ok(())
    }

    /// What this process may replace, whether it is live, asleep or damaged.
    async fn take_in_hand(&mut self) -> Result<InHand, Fault> {
        if let Some(live) = self.phase.live() {
            return Ok(InHand { owned: live.owned.clone(), state: Some(live.state.clone()), tail: Vec::new() });
        }
        let epoch = self.assignment.epoch;
        self.host.storage.ready().await.map_err(Fault::Unavailable)?;
        let (anchor, mut tail) = (self.anchor(), Vec::new());
        let stored = self.host.storage.head(&self.key(), anchor).await.map_err(Fault::Unavailable)?;
        let owned = match self.acquire(stored) {
            Acquire::Fresh(owned) | Acquire::Restore(owned) => owned,
            Acquire::Corrupt(_) => {
                let found = stored::read(&self.host.storage, &self.key(), epoch, anchor).await.map_err(Fault::Unavailable)?;
                let etag = found.as_ref().and_then(|found| found.etag.clone());
                let head = found.map(|found| {
                    tail = found.journal.tail;
                    Arc::new(found.head)
                });
                Owned { session: self.key(), epoch, head, etag, top_layer: TopLayer::default() }
            }
            other => return Err(gone_from_head(&other)),
        };
        let state = owned.head.as_ref().and_then(|head| SessionState::decode(&head.state).ok());
        Ok(InHand { owned, state, tail })
    }

    /// The checkpoint as an instance that could go on, with its head and record.
    async fn open_checkpoint(
        &mut self,
        owned: &Owned,
        wanted: &str,
    ) -> Result<(Head, engine::Instance, SessionState, engine::Settings), Fault> {
        let settings = super::budget::settings(&self.assignment.spec).map_err(Fault::Failed)?;
        let base = checkpoint(&self.host.storage, &self.key(), owned.head.as_deref(), wanted).await?;
        let Some(base) = base else { return Err(Fault::Failed(lost(wanted))) };
        let engine = engines::of(&self.host, &base).await?;
        let segments = self.host.storage.segments(&base).await.map_err(Fault::Unavailable)?;
        let segments = segments.ok_or_else(|| Fault::Failed(lost(wanted)))?;
        let instance = engine.restore(&self.image_of(&base, segments).await?, &settings).await.map_err(|error| corrupt(&error))?;
        let state = SessionState::decode(&base.state).map_err(|error| corrupt(&error))?;
        Ok((base, instance, state, settings))
    }

    /// Makes a new session what its parent is: copies the parent's segments, restores them in an instance, and commits that.
    pub(super) async fn begin_as_fork(&mut self, settings: engine::Settings, owned: Owned, slot: Slot) -> Result<Woke, Fault> {
        // Copies are made for good, too.
        self.settle_claim().await?;
        let failed = |code, message: String| Fault::Failed(ApiError::new(code, message));
        let (name, wanted) = match &self.assignment.spec.source {
            Some(source) => (source.session.clone(), source.checkpoint.clone()),
            None => return Err(failed(ErrorCode::Internal, "the session has no source".to_owned())),
        };
        let Some(uid) = self.assignment.source_uid.clone() else {
            let message = format!(
                "spec.source.session names `{name}`, which does not exist in this session's pool: make this session again with another source"
            );
            return Err(failed(ErrorCode::SessionNotFound, message));
        };
        let parent = self.host.session_key(&uid, &name);
        let encrypts = self.host.storage.writer().await.map_err(Fault::Unavailable)?.is_some();
        let mut read_before = None;
        for _ in 0..FORK_ATTEMPTS_MAX {
            let stored =
                stored::read(&self.host.storage, &parent, u64::MAX, self.assignment.source_anchor).await.map_err(Fault::Unavailable)?;
            let Some(stored) = stored else {
                let message = format!("session `{}` has stored nothing that could be forked: run a cell in it, or wake it", parent.name);
                return Err(failed(ErrorCode::Conflict, message));
            };
            if read_before.is_some() && read_before == stored.etag {
                // Nobody has committed since the last attempt: what the parent names is not gone for a later state, it is lost.
                return Err(failed(
                    ErrorCode::SnapshotCorrupt,
                    format!("session `{}` names an object that is not in the store", parent.name),
                ));
            }
            read_before.clone_from(&stored.etag);
            let state = match (&wanted, stored.damage) {
                (None, Some(damage)) => {
                    let message = format!("session `{}` does not verify: {damage}. Fork one of its checkpoints", parent.name);
                    return Err(failed(ErrorCode::SnapshotCorrupt, message));
                }
                (None, None) => stored.head,
                (Some(wanted), _) => match checkpoint(&self.host.storage, &parent, Some(&stored.head), wanted).await? {
                    Some(state) => state,
                    None => continue,
                },
            };
            let engine = engines::of(&self.host, &state).await?;
            let plan = fork(&parent, &state, &self.key(), self.assignment.epoch).map_err(|error| corrupt(&error))?;
            // The parent may have committed since it was read, and its old segments gone with that.
            if !self.host.storage.copy(&plan.copies).await.map_err(Fault::Unavailable)? {
                continue;
            }
            let Some((segments, source)) = self.host.storage.segments_from(&plan.base).await.map_err(Fault::Unavailable)? else { continue };
            let instance = engine.restore(&self.image_of(&plan.base, segments).await?, &settings).await.map_err(|error| corrupt(&error))?;
            let inherited = SessionState::decode(&state.state).map_err(|error| corrupt(&error))?;
            let last_active = now_active(self.host.environment.clock);
            let record = SessionState { name: self.assignment.name.clone(), last_active, usage: Usage::default(), ..inherited.rewound() };
            self.go_live(instance, settings, owned, record, slot, None);
            if let Some(live) = self.phase.live_mut() {
                // What the first commit writes anew leaves copies behind.
                live.litter |= encrypts && !plan.base.sealed;
                live.contents.go_on_from(&plan.base.blobs.table).await;
                let parent = dormouse_protocol::session::session_id(&parent.uid);
                live.note(JournalBody::Forked { parent, sequence: state.sequence });
            }
            self.commit_with(Some(Arc::new(plan.base)), None).await?;
            self.host.metrics.woke(source);
            return Ok(Woke::Storage);
        }
        let message = format!(
            "session `{}` commits faster than it can be copied: send the request again, or fork one of its checkpoints",
            parent.name
        );
        Err(Fault::Unavailable(ApiError::new(ErrorCode::SessionBusy, message)))
    }

    /// What goes with the next commit without anybody asking.
    pub(super) fn due_attachments(&mut self, base: Option<Arc<Head>>, mark: Option<Mark>, events: Vec<Json>, sealed: bool) -> Attachments {
        let keep = self.assignment.spec.checkpoints.keep;
        let Some(live) = self.phase.live_mut() else { return Attachments::default() };
        let head = live.owned.head.clone();
        let due = checkpoint::due(head.as_deref(), keep) && live.state.running.is_none();
        let mark = mark.or_else(|| due.then_some(Mark { subject: Subject::This, label: None, keep }));
        if let Some(Mark { subject: Subject::This, label, .. }) = &mark {
            let id = head.as_ref().map_or(0, |head| head.sequence).saturating_add(1).to_string();
            live.note(JournalBody::Checkpoint { id, label: label.clone() });
        }
        Attachments { base, mark, journal: std::mem::take(&mut live.journal), events, blobs: None, sealed }
    }
}

/// The head that the checkpoint `wanted` of `session` is. `None`: it is listed, and its object is not there.
pub(crate) async fn checkpoint(storage: &Storage, session: &SessionKey, head: Option<&Head>, wanted: &str) -> Result<Option<Head>, Fault> {
    let listed = head.and_then(|head| checkpoint::find(&head.checkpoints, wanted)).ok_or_else(|| {
        let message = format!("session `{}` has no checkpoint `{wanted}`: GET its checkpoints for those that it has", session.name);
        Fault::Failed(ApiError::new(ErrorCode::InvalidRequest, message))
    })?;
    let Some((bytes, _)) = storage.read(&listed.key).await.map_err(Fault::Unavailable)? else { return Ok(None) };
    listed.open(session, &bytes).map(Some).map_err(|error| corrupt(&error))
}

/// A head that was put back is replaced now, so what it was cannot be listed under its key any more.
fn unlist_put_back(owned: &mut Owned) {
    let own = owned.session.head();
    if let Some(head) = owned.head.as_mut().filter(|head| head.checkpoints.iter().any(|it| it.key == own)) {
        Arc::make_mut(head).checkpoints.retain(|it| it.key != own);
    }
}

/// The present, as the end of a request: who goes on from an earlier state uses the session now.
pub(super) fn now_active(clock: Clock) -> Option<String> {
    Some(clock.now().to_string())
}

/// The sequence of the commit that comes next.
fn next_sequence(owned: &Owned) -> u64 {
    owned.head.as_ref().map_or(0, |head| head.sequence).saturating_add(1)
}

fn no_instance() -> Fault {
    Fault::Refused(gone("the session has no instance"))
}

fn replaced(sequence: u64) -> ApiError {
    let message = format!("the checkpoint was made as {sequence}, and is no longer kept: its label was given to a later one");
    ApiError::new(ErrorCode::Conflict, message).with_detail("checkpoint", sequence.to_string())
}

fn refused(error: &CheckpointError) -> ApiError {
    let code = if matches!(error, CheckpointError::TooMany | CheckpointError::TooMuchKept) {
        ErrorCode::QuotaExceeded
    } else {
        ErrorCode::InvalidRequest
    };
    ApiError::new(code, error.to_string())
}

fn lost(wanted: &str) -> ApiError {
    let message = format!("checkpoint `{wanted}` names an object that is not in the store: restore another one");
    ApiError::new(ErrorCode::SnapshotCorrupt, message)
}
