//! A session moved to the current engine, on demand: its recorded cells run once more in a new instance, and what came of it is compared with what was.
//!
//! Heaps cannot be carried from one engine to another. What the replay does not make again is named, and the state before stays as a checkpoint.

mod plan;
mod replay;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dormouse_engine::{EngineError, Instance, Settings};
use dormouse_protocol::eval::EvalRequest;
use dormouse_protocol::history::{JournalBody, JournalEntry, Migration, NotCarried};
use dormouse_protocol::{ApiError, ErrorCode};

use tokio_util::sync::CancellationToken;

use super::actor::Actor;
use super::phase::Moved;
use super::{Fault, Reply, budget, gone};
use crate::contents::Contents;
use crate::modules::{Modules, PACKAGE_PREFIX};
use crate::record::Pending;
use crate::stored;
use plan::{Plan, plan};
use replay::{Replay, files, globals};

/// Entries of the journal that are read at once.
const JOURNAL_PAGE: usize = 10_000;

/// Hex digits of an engine's digest in the label of the checkpoint before it was left.
const LABEL_DIGITS: usize = 12;

/// How long replay and comparison may take: the session answers nothing else meanwhile.
const MIGRATION_TIMEOUT: Duration = Duration::from_secs(300);

/// Characters of a preview in the report.
const PREVIEW_CHARS_MAX: usize = 200;

/// A replay at its end.
struct Replayed {
    replay: Replay,
    contents: Arc<Contents>,
    settings: Settings,
}

impl Actor {
    /// Answers a request to migrate.
    pub(super) async fn answer_migrate(&mut self, dry_run: bool, reply: Reply<Migration>) {
        let (control, cut) = (Arc::clone(&self.handle.control), CancellationToken::new());
        control.set_abortable(Some(cut.clone()));
        let result = self.migrate(dry_run, &cut).await;
        control.set_abortable(None);
        let answer = self.settle_answer(result);
        let _ = reply.send(answer);
    }

    /// Moves the session to the current engine, unless `cut` is cancelled; with `dry_run`, only tells what would come of it.
    async fn migrate(&mut self, dry_run: bool, cut: &CancellationToken) -> Result<Migration, Fault> {
        self.ensure_live().await?;
        let live = self.phase.live().ok_or_else(|| Fault::Refused(no_instance()))?;
        let (from, to) = (live.instance.engine().digest().to_string(), self.host.engines.current().digest().to_string());
        if live.state.running.is_some() {
            let message = "a cell of the session awaits something: wait for it, or interrupt it";
            return Err(Fault::Refused(ApiError::new(ErrorCode::SessionBusy, message)));
        }
        let mut report = Migration { from: from.clone(), to: to.clone(), dry_run, ..Migration::default() };
        if from == to {
            return Ok(report);
        }
        if live.is_dirty() || live.owned.head.is_none() {
            self.commit().await?;
        }
        let entries = self.whole_journal().await.map_err(Fault::Refused)?;
        if !dry_run {
            let label = format!("engine-{}", from.get(..LABEL_DIGITS).unwrap_or_default());
            self.make_checkpoint(label.clone(), None).await?;
            report.checkpoint = Some(label);
        }
        let plan = plan(&entries);
        report.notes.clone_from(&plan.notes);
        let contents = self.replays_contents().await.map_err(Fault::Refused)?;
        let replayed = match self.replay_and_compare(plan, &contents, &mut report, cut).await {
            Ok(replayed) => replayed,
            Err(error) => {
                contents.discard().await;
                return Err(Fault::Refused(error));
            }
        };
        if dry_run {
            replayed.contents.discard().await;
            return Ok(report);
        }
        self.take_over(replayed).await;
        self.note_migration(from, to);
        self.commit().await?;
        report.migrated = true;
        Ok(report)
    }

    fn note_migration(&mut self, from: String, to: String) {
        if let Some(live) = self.phase.live_mut() {
            live.note(JournalBody::Migrated { from, to });
        }
    }

    async fn whole_journal(&self) -> Result<Vec<JournalEntry>, ApiError> {
        let storage = &self.host.storage;
        let mut entries: Vec<JournalEntry> = Vec::new();
        loop {
            let after = entries.last().map_or(0, |last| last.seq);
            let Some(stored) = stored::read(storage, &self.key(), u64::MAX, self.anchor()).await? else { return Ok(entries) };
            let page = stored::journal(storage, stored, after, JOURNAL_PAGE).await?;
            if let Some(damage) = page.damage {
                return Err(ApiError::new(ErrorCode::SnapshotCorrupt, format!("the journal cannot be read as a whole: {damage}")));
            }
            let more = page.next.is_some();
            entries.extend(page.entries);
            if !more {
                return Ok(entries);
            }
        }
    }

    /// What the replay's instance has outside its heap.
    async fn replays_contents(&self) -> Result<Arc<Contents>, ApiError> {
        let Some(live) = self.phase.live() else { return Err(no_instance()) };
        let head = live.owned.head.as_deref();
        let contents = Arc::new(Contents::empty(self.host.backing(), self.key(), self.assignment.epoch, head));
        // Its cells find the packages that they found, and no others.
        contents.carry(&live.contents, PACKAGE_PREFIX).await;
        Ok(contents)
    }

    /// Replays and compares, unless somebody interrupts that or it takes too long. The session itself is as it was until it has ended.
    async fn replay_and_compare(
        &mut self,
        plan: Plan,
        contents: &Arc<Contents>,
        report: &mut Migration,
        cut: &CancellationToken,
    ) -> Result<Replayed, ApiError> {
        let work = async {
            let mut replayed = self.replay(plan, contents, report).await?;
            self.compare(&mut replayed, report).await?;
            Ok(replayed)
        };
        tokio::select! {
            biased;
            replayed = tokio::time::timeout(MIGRATION_TIMEOUT, work) => replayed.unwrap_or_else(|_| Err(took_too_long())),
            () = cut.cancelled() => Err(ApiError::new(ErrorCode::Interrupted, "the migration was interrupted; the session goes on under its engine")),
        }
    }

    /// Runs the cells of the plan in a new instance.
    async fn replay(&self, plan: Plan, contents: &Arc<Contents>, report: &mut Migration) -> Result<Replayed, ApiError> {
        let settings = budget::settings(&self.assignment.spec)?;
        let mut instance = self.host.engines.current().create(&settings).map_err(|error| spent(0, &error))?;
        instance.set_blobs(Some(Arc::new(Modules::closed(Arc::clone(contents)))));
        let mut replay = Replay::new(instance, budget::budget(&self.assignment.spec, None));
        if let Some(bootstrap) = self.assignment.spec.bootstrap.as_ref().filter(|bootstrap| !bootstrap.code.trim().is_empty()) {
            let request = EvalRequest { code: bootstrap.code.clone(), ..EvalRequest::default() };
            let outcome = replay.cell(&request, "bootstrap.ts").await.map_err(|error| spent(0, &error))?;
            report.cells.extend(outcome.error.map(|reason| NotCarried { name: "bootstrap".to_owned(), reason }));
        }
        for recorded in plan.cells {
            let name = format!("cell {}", recorded.cell);
            if recorded.is_cut {
                let reason = "its source is longer than the journal keeps".to_owned();
                report.cells.push(NotCarried { name, reason });
                continue;
            }
            let filename = recorded.filename.clone().unwrap_or_else(|| format!("cell-{}.ts", recorded.cell));
            let request = EvalRequest { code: recorded.source, language: recorded.language, ..EvalRequest::default() };
            let outcome = replay.cell(&request, &filename).await.map_err(|error| spent(recorded.cell, &error))?;
            report.replayed += 1;
            let reason = match recorded.came_to {
                Some((true, _)) if !outcome.ok => Some(outcome.error.unwrap_or_else(|| "it failed".to_owned())),
                Some((false, _)) if outcome.ok => Some("it failed then and does not now".to_owned()),
                Some((true, digest)) if digest != outcome.digest => Some("it came to another result".to_owned()),
                _ => None,
            };
            report.cells.extend(reason.map(|reason| NotCarried { name, reason }));
        }
        report.calls = replay.calls;
        Ok(Replayed { replay, contents: Arc::clone(contents), settings })
    }

    /// Says which globals and contexts are missing or other ones. A context is carried as it is.
    async fn compare(&mut self, replayed: &mut Replayed, report: &mut Migration) -> Result<(), ApiError> {
        let Some(live) = self.phase.live_mut() else { return Err(no_instance()) };
        let budget = replayed.replay.budget;
        let before = copy(&mut live.instance, &replayed.settings).await?;
        let before = globals(before, &budget).await.map_err(|error| spent(0, &error))?;
        let after = copy(&mut replayed.replay.instance, &replayed.settings).await?;
        let after = globals(after, &budget).await.map_err(|error| spent(0, &error))?;
        report.globals = differences(&before, &after);
        if before.len() == replay::GLOBALS_MAX {
            report.notes.push(format!("more than {} globals: the others were not compared", replay::GLOBALS_MAX));
        }
        let before = files(copy(&mut live.instance, &replayed.settings).await?, &budget).await.map_err(|error| spent(0, &error))?;
        let after =
            files(copy(&mut replayed.replay.instance, &replayed.settings).await?, &budget).await.map_err(|error| spent(0, &error))?;
        report.files = differences(&before, &after);
        let timers = replayed.replay.timers().count();
        let waiting = live.state.pending.values().filter(|pending| matches!(pending, Pending::Timer { .. })).count();
        if timers != waiting {
            report.notes.push(format!("{waiting} timers were waiting, {timers} are after the replay"));
        }
        Ok(())
    }

    /// Puts the replayed instance in the place of the one that was.
    async fn take_over(&mut self, replayed: Replayed) {
        let modules = self.modules(&replayed.contents);
        let Some(live) = self.phase.live_mut() else { return };
        let Replayed { replay, contents, settings } = replayed;
        contents.carry(&live.contents, CONTEXT_PREFIX).await;
        let now = live.clock.now_ms();
        live.state.pending = replay
            .timers()
            .map(|(op, wait_ms)| (op, Pending::Timer { due_ms: now.saturating_add(i64::try_from(wait_ms).unwrap_or(i64::MAX)) }))
            .collect();
        live.state.constants = replay.constants;
        live.instance = replay.instance;
        live.instance.set_blobs(Some(modules));
        live.contents = contents;
        live.settings = settings;
        live.moved = Moved::Ran;
        live.in_flight = super::ops::InFlight::resume(&live.state, Arc::clone(&live.contents), live.clock, None);
    }
}

/// What the names of contexts begin with.
const CONTEXT_PREFIX: &str = "ctx:";

/// An instance of the same engine and memory, to look at: what it does leads nowhere.
async fn copy(instance: &mut Instance, settings: &Settings) -> Result<Instance, ApiError> {
    instance.engine().clone().restore(&instance.image().await, settings).await.map_err(|error| spent(0, &error))
}

fn differences(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<NotCarried> {
    let cut = |text: &str| text.chars().take(PREVIEW_CHARS_MAX).collect::<String>();
    let other = |(name, was): (&String, &String)| match after.get(name) {
        None => Some(NotCarried { name: name.clone(), reason: format!("it is missing; it was {}", cut(was)) }),
        Some(is) if is != was => Some(NotCarried { name: name.clone(), reason: format!("it was {} and is {}", cut(was), cut(is)) }),
        Some(_) => None,
    };
    before.iter().filter_map(other).collect()
}

fn no_instance() -> ApiError {
    gone("the session has no instance")
}

fn took_too_long() -> ApiError {
    let seconds = MIGRATION_TIMEOUT.as_secs();
    let message = format!("its cells could not be replayed within {seconds} s; the session goes on under its engine");
    ApiError::new(ErrorCode::TimeoutError, message)
}

fn spent(cell: u64, error: &EngineError) -> ApiError {
    let message =
        format!("the session cannot be migrated: cell {cell} ended its instance in the replay: {error}. It goes on under its engine");
    ApiError::new(ErrorCode::Conflict, message)
}
