//! From nothing, a copy or the store to a live instance.

use std::sync::Arc;

use bytes::Bytes;
use dormouse_engine as engine;
use dormouse_lifecycle::head::HeadError;
use dormouse_lifecycle::usage::Counts;
use dormouse_lifecycle::{Acquire, Head, Owned, SessionKey, acquire, assemble, claim};
use dormouse_protocol::eval::{Woke, WokeFrom};
use dormouse_protocol::history::JournalBody;
use dormouse_protocol::kernel::Anchor;
use dormouse_protocol::session::State;
use dormouse_protocol::{ApiError, ErrorCode};
use dormouse_service::origin::Origin;
use tokio::time::Instant;

use super::actor::Actor;
use super::bootstrap::recall_code;
use super::ops::InFlight;
use super::phase::{Cause, Live, Moved};
use super::setback::Setback;
use super::{Fault, budget, engines, gone, taken_over};
use crate::contents::Contents;
use crate::dedicated::Only;
use crate::metrics::WakeSource;
use crate::modules::Modules;
use crate::record::SessionState;
use crate::slots::Slot;
use crate::tools::Caller;

/// Times that head and segments are read: a commit may rewrite them between two reads.
const RESTORE_ATTEMPTS_MAX: u32 = 3;

/// The epoch before which there is none: nobody can have left anything.
const FIRST_EPOCH: u64 = 1;

/// Days of which a process that is gone may not have told what was used.
const MOVED_DAYS: usize = 2;

/// Bytes of segments from which on laying them is worth a thread that may block.
const BLOCKING_SEGMENTS_BYTES_MIN: usize = 256 << 10;

/// The engine's parts of a head, beside the pages.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct EngineState {
    pub(super) globals: engine::Globals,
    pub(super) host: engine::HostState,
}

impl Actor {
    /// Makes the session live, if it is not. Answers where the heap came from.
    pub(super) async fn ensure_live(&mut self) -> Result<Woke, Fault> {
        if self.phase.live().is_some_and(|live| live.owned.epoch < self.assignment.epoch) {
            self.verify_owned().await?;
        }
        if self.phase.live().is_some_and(|live| live.state.generation < self.assignment.generation) {
            self.apply_spec().await?;
        }
        if self.phase.is_live() {
            return Ok(Woke::No);
        }
        self.refuse_bad_bootstrap()?;
        let mut setback = self.phase.owed_mut().map(|owed| std::mem::take(&mut owed.setback)).unwrap_or_default();
        let woke = match self.wake(&mut setback).await {
            Ok(woke) => woke,
            Err(fault) => {
                self.phase.stop_waking();
                if let Some(owed) = self.phase.owed_mut() {
                    owed.setback = setback;
                }
                return Err(fault);
            }
        };
        if let Some(live) = self.phase.live_mut()
            && let Some(ended) = setback.bring_into(live).await
        {
            self.record_lost(ended).await?;
        }
        self.bootstrap().await?;
        Ok(woke)
    }

    /// For a session that no cell is to run in: a new one is committed, so that its head exists.
    pub(super) async fn store_new(&mut self) -> Result<(), Fault> {
        if self.phase.live().is_some_and(|live| live.owned.head.is_none()) {
            self.commit().await?;
        }
        Ok(())
    }

    async fn wake(&mut self, setback: &mut Setback) -> Result<Woke, Fault> {
        let _hold = self.host.only.as_ref().map(Only::hold);
        self.resolve().await?;
        let settings = budget::settings(&self.assignment.spec).map_err(Fault::Failed)?;
        self.ready().await?;
        let uid = self.assignment.uid.clone();
        let slot = self.supervisor.slot(&uid).await.map_err(Fault::Unavailable)?;
        // Under a later epoch than its own somebody else may have committed since.
        let copy = self.host.cache.take(&uid).filter(|copy| copy.owned.epoch == self.assignment.epoch);
        if let Some(copy) = copy {
            match Box::pin(engines::restore(&self.host, copy.owned.head.as_deref(), &copy.image, &settings)).await {
                Ok(instance) => {
                    self.host.metrics.woke(WakeSource::Cache);
                    self.host.meter.woke(&uid, &self.assignment.name);
                    self.woke_from = WokeFrom::Memory;
                    self.go_live(instance, settings, copy.owned, copy.state, slot, setback.op.take());
                    if let Some(live) = self.phase.live_mut() {
                        live.journal = copy.journal;
                        live.note(JournalBody::Woke { from: Woke::Cache });
                        live.events.put_first(copy.events);
                        live.events.push_state(State::Waking);
                    }
                    return Ok(Woke::Cache);
                }
                Err(error) => tracing::error!(uid, %error, "the pod's own copy cannot be restored; reading the store"),
            }
        }
        self.phase.begin_waking();
        self.tell();
        Box::pin(self.wake_from_storage(settings, slot, setback)).await
    }

    pub(super) fn key(&self) -> SessionKey {
        self.host.session_key(&self.assignment.uid, &self.assignment.name)
    }

    /// What is known to have been stored: by status, or by this process, which told of it and may not have been heard yet.
    pub(super) fn anchor(&self) -> Option<Anchor> {
        let reported = self.reported.as_ref().and_then(|report| report.snapshot.as_ref()).map(Anchor::from);
        Anchor::later(self.assignment.anchor, reported)
    }

    /// What the head that was read means for this process.
    pub(super) fn acquire(&self, stored: Option<(Result<Head, HeadError>, String)>) -> Acquire {
        let epoch = self.assignment.epoch;
        match acquire::acquire(self.key(), epoch, self.anchor().as_ref().map(Anchor::version), stored) {
            Acquire::Restore(owned) if owned.head.as_ref().is_some_and(|head| claim::taken(head, epoch, &self.host.boot)) => {
                Acquire::Stale { epoch }
            }
            acquired => acquired,
        }
    }

    async fn wake_from_storage(&mut self, settings: engine::Settings, slot: Slot, setback: &mut Setback) -> Result<Woke, Fault> {
        let mut missing = None;
        for _ in 0..RESTORE_ATTEMPTS_MAX {
            // Most sessions are of the current engine: an instance for one is made while the head is on its way.
            let (key, current) = (self.key(), self.host.engines.current());
            let (stored, blank) = tokio::join!(self.host.storage.head(&key, self.anchor()), async { current.blank(&settings) });
            let stored = stored.map_err(Fault::Failed)?;
            let blank = blank.map_err(|error| Fault::Unavailable(internal(&error)))?;
            let owned = match self.acquire(stored) {
                Acquire::Fresh(owned) if self.assignment.spec.source.is_some() => {
                    drop(blank);
                    return self.begin_as_fork(settings, owned, slot).await;
                }
                Acquire::Fresh(owned) => {
                    self.host.metrics.woke(WakeSource::Fresh);
                    self.go_live(blank.fresh(), settings, owned, SessionState::fresh(&self.assignment), slot, None);
                    return Ok(Woke::No);
                }
                Acquire::Restore(owned) => owned,
                other => return Err(gone_from_head(&other)),
            };
            let Some(head) = owned.head.clone() else { continue };
            let engine = engines::of(&self.host, &head).await?;
            let Some((segments, source)) = self.host.storage.segments_from(&head).await.map_err(Fault::Failed)? else {
                // A predecessor's commit may have rewritten them between the two reads. Under the same head they are lost.
                if missing == owned.etag {
                    return Err(corrupt(&"the head names a segment that is not in the store"));
                }
                missing = owned.etag;
                continue;
            };
            let mut image = self.image_of(&head, segments).await?;
            let answered = setback.apply_answered(&mut image, owned.etag.as_ref());
            let instance = if engine.digest() == blank.engine().digest() {
                blank.restore(&image).await
            } else {
                engine.restore(&image, &settings).await
            };
            let instance = instance.map_err(|error| match error {
                engine::EngineError::Create(_) => Fault::Unavailable(self.supervisor.no_memory(&self.assignment.uid)),
                error => corrupt(&error),
            })?;
            let state = match answered {
                Some(answered) => answered,
                None => SessionState::decode(&head.state).map_err(|error| corrupt(&error))?,
            };
            self.host.metrics.woke(source);
            self.host.meter.woke(&self.assignment.uid, &self.assignment.name);
            self.woke_from = if source == WakeSource::Disk { WokeFrom::Disk } else { WokeFrom::Storage };
            self.go_live(instance, settings, owned, state, slot, setback.op.take());
            if let Some(live) = self.phase.live_mut() {
                live.note(JournalBody::Woke { from: Woke::Storage });
                live.events.push_state(State::Waking);
            }
            return Ok(Woke::Storage);
        }
        let message = "another pod commits faster than this one can read; send the request again";
        Err(Fault::Unavailable(ApiError::new(ErrorCode::StorageUnavailable, message)))
    }

    /// The image that head and segments are; what is large is laid where it holds nobody up, and counts as the session's own time.
    pub(super) async fn image_of(&self, head: &Head, segments: Vec<Bytes>) -> Result<engine::Image, Fault> {
        if segments.iter().map(Bytes::len).sum::<usize>() < BLOCKING_SEGMENTS_BYTES_MIN {
            return image(head, &segments);
        }
        let head = head.clone();
        let laid = self.host.environment.threads.charged(move || image(&head, &segments)).await;
        laid.map_err(|error| Fault::Unavailable(internal(&error)))?
    }

    /// Takes an instance into use: what was under way goes on, but for the operation `lost`, whose delivery the instance before did not survive.
    pub(super) fn go_live(
        &mut self,
        mut instance: engine::Instance,
        settings: engine::Settings,
        owned: Owned,
        mut state: SessionState,
        slot: Slot,
        lost: Option<u64>,
    ) {
        let moved = lost.is_some_and(|op| state.pending.remove(&op).is_some());
        recall_code(&mut self.assignment.spec, &state.spec);
        state.generation = self.assignment.generation;
        state.spec = self.assignment.spec.clone();
        self.follow_running(&state);
        let clock = self.host.environment.clock;
        let epoch = self.assignment.epoch;
        let contents = Arc::new(Contents::new(self.host.backing(), self.key(), epoch, owned.head.as_deref()));
        let in_flight = InFlight::resume(&state, Arc::clone(&contents), clock, self.sender().as_ref());
        let first = owned.head.as_ref().map_or(epoch > FIRST_EPOCH, |head| head.epoch < epoch);
        let litter = first || self.phase.owed().is_some_and(|owed| owed.litter);
        let (journal, unstored_since, idle_since) = (Vec::new(), None, Instant::now());
        let told = owned.head.as_ref().map_or(0, |head| head.events.last);
        self.handle.control.events.resume(told);
        let events = self.handle.control.events.waiting(told, Vec::new());
        instance.set_blobs(Some(self.modules(&contents)));
        if first {
            self.host.meter.found(&self.host.storage, &self.assignment.uid, &self.assignment.name, &state.usage, MOVED_DAYS);
        }
        let heap_time = self.host.meter.live(&self.host.storage, &self.assignment.uid, &self.assignment.name, instance.heap_bytes());
        self.phase.go_live(Live {
            instance,
            settings,
            owned,
            contents,
            state,
            in_flight,
            slot,
            cause: Cause::default(),
            missed_interrupt: false,
            finishing: None,
            moved: if moved { Moved::Ran } else { Moved::No },
            answered: None,
            appends: false,
            replaces: false,
            unstored_since,
            litter,
            journal,
            events,
            uncommitted: Counts::default(),
            heap_time,
            idle_since,
            clock,
            ran: false,
            rests: false,
        });
        self.queue_runs();
        self.show_runs();
    }

    /// What an instance asks for what lies outside its heap.
    pub(super) fn modules(&self, contents: &Arc<Contents>) -> Arc<dyn engine::Blobs> {
        let allow = self.assignment.spec.modules.as_ref().map(|modules| modules.allow.clone()).unwrap_or_default();
        // It asks for as long as the instance lives, on nobody's behalf.
        let caller = self.caller().map(|caller| Caller { origin: Origin::default(), ..caller });
        Arc::new(Modules::new(Arc::clone(contents), caller, allow))
    }

    /// The same as [`Self::caller`], but nobody while the assignment is only claimed.
    pub(super) fn sender(&self) -> Option<Caller> {
        if self.claim.is_some() { None } else { self.caller() }
    }

    /// Who calls tools for this session, if its spec names a broker.
    pub(super) fn caller(&self) -> Option<Caller> {
        let broker = self.assignment.spec.tool_broker_ref.as_ref()?.name.clone();
        Some(Caller {
            tools: Arc::clone(&self.host.tools),
            broker,
            namespace: self.assignment.namespace.clone(),
            session: self.assignment.name.clone(),
            uid: self.assignment.uid.clone(),
            epoch: self.assignment.epoch,
            allow: self.assignment.spec.egress.as_ref().map(|egress| egress.allow.clone()).unwrap_or_default(),
            service_secrets: self.assignment.spec.service_secrets.clone(),
            knowledge: self.assignment.spec.knowledge.clone(),
            origin: self.origin(),
            by: self.current.as_ref().and_then(|job| job.request.by.clone()),
        })
    }

    /// Whose request the running cell is.
    pub(super) fn origin(&self) -> Origin {
        self.current.as_ref().map(|job| job.origin.clone()).unwrap_or_default()
    }

    /// After a later epoch came to a live session: is what we hold still what is stored?
    pub(super) async fn verify_owned(&mut self) -> Result<(), Fault> {
        let stored = self.host.storage.head(&self.key(), self.anchor()).await.map_err(Fault::Unavailable)?;
        let etag = stored.map(|(_, etag)| etag);
        let epoch = self.assignment.epoch;
        match self.phase.live_mut() {
            Some(live) if live.owned.etag == etag => live.owned.epoch = epoch,
            None => {}
            Some(_) => {
                tracing::info!(uid = %self.assignment.uid, "another pod has committed meanwhile; restoring");
                self.phase.take_live();
                if let Some(job) = self.current.take() {
                    job.answer(Err(Fault::Superseded.error()));
                }
            }
        }
        Ok(())
    }

    /// What is stored by now, before something of it is read or denied: another process may have gone on with the session.
    ///
    /// # Errors
    /// Another process has it, or the store cannot be read.
    pub(super) async fn catch_up(&mut self) -> Result<(), Fault> {
        self.verify_owned().await?;
        self.ensure_live().await.map(drop)
    }

    /// Brings a changed spec into force. Limits of the heap are the instance's, so a change restores the memory in a new one.
    async fn apply_spec(&mut self) -> Result<(), Fault> {
        let settings = budget::settings(&self.assignment.spec).map_err(Fault::Failed)?;
        let modules = self.phase.live().map(|live| self.modules(&live.contents));
        let Some(live) = self.phase.live_mut() else { return Ok(()) };
        recall_code(&mut self.assignment.spec, &live.state.spec);
        live.state.generation = self.assignment.generation;
        live.state.spec = self.assignment.spec.clone();
        live.moved = Moved::Ran;
        if live.settings == settings {
            live.instance.set_blobs(modules);
            return Ok(());
        }
        self.commit().await?;
        let Some(live) = self.phase.live_mut() else { return Ok(()) };
        let engine = live.instance.engine().clone();
        live.instance = engine.restore(&live.instance.image().await, &settings).await.map_err(|error| Fault::Unstored(internal(&error)))?;
        live.instance.set_blobs(modules);
        live.settings = settings;
        Ok(())
    }
}

/// The image that head and segments are.
pub(crate) fn image(head: &Head, segments: &[Bytes]) -> Result<engine::Image, Fault> {
    let pages = assemble(head, segments).map_err(|error| corrupt(&error))?;
    let EngineState { globals, host } = head.globals.read().map_err(|error| corrupt(&error))?;
    let memory_pages = head.memory_pages.saturating_mul(dormouse_lifecycle::PAGES_PER_MEMORY_PAGE);
    Ok(engine::Image { memory_pages, globals, host, pages })
}

pub(super) fn corrupt(error: &dyn std::fmt::Display) -> Fault {
    Fault::Failed(ApiError::new(ErrorCode::SnapshotCorrupt, format!("the stored session does not verify: {error}")))
}

/// Why a head that was read gives no right to go on.
pub(super) fn gone_from_head(acquired: &Acquire) -> Fault {
    match acquired {
        Acquire::Stale { epoch } => Fault::Gone(taken_over(*epoch)),
        Acquire::Deleted => Fault::Gone(gone("the session was deleted")),
        Acquire::Corrupt(error) => corrupt(error),
        Acquire::Fresh(_) | Acquire::Restore(_) => Fault::Superseded,
    }
}

pub(super) fn internal(error: &dyn std::fmt::Display) -> ApiError {
    ApiError::new(ErrorCode::Internal, format!("no instance can be made: {error}"))
}
