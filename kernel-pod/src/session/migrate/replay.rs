//! Cells run once more, in an instance that nobody waits for: no call leaves, and time passes at once.

use std::collections::{BTreeMap, BTreeSet};

use dormouse_engine::{Budget, CellEnd, CellSource, EngineError, EngineErrorCode, Instance, OpKind, OpResult, Turn};
use dormouse_lifecycle::segment::sha256_hex;
use dormouse_protocol::eval::EvalRequest;
use serde_json::json;

use super::super::cells::Scripts;
use super::super::journal;

/// Answers that one cell may wait for.
const DELIVERIES_MAX: usize = 10_000;

/// Globals that are compared.
pub(super) const GLOBALS_MAX: usize = 1_000;

/// What a replayed call ends with.
const NOT_MADE: &str = "calls are not made again while a session is migrated, and the journal does not keep their results";

/// A replay under way.
pub(super) struct Replay {
    pub(super) instance: Instance,
    pub(super) budget: Budget,
    pub(super) constants: BTreeSet<String>,
    /// Calls that were not made.
    pub(super) calls: u64,
    /// Timers by when they are due, in milliseconds of the replay.
    timers: BTreeMap<(u64, u64), ()>,
    now_ms: u64,
    scripts: Scripts,
}

/// What a cell came to.
pub(super) struct Outcome {
    pub(super) ok: bool,
    /// As the journal has it.
    pub(super) digest: String,
    pub(super) error: Option<String>,
}

impl Replay {
    pub(super) fn new(instance: Instance, budget: Budget) -> Self {
        let (constants, timers, scripts) = (BTreeSet::new(), BTreeMap::new(), Scripts::default());
        Self { instance, budget, constants, calls: 0, timers, now_ms: 0, scripts }
    }

    /// The timers that are left, each with the milliseconds until it is due.
    pub(super) fn timers(&self) -> impl Iterator<Item = (u64, u64)> {
        self.timers.keys().map(|(due, op)| (*op, due.saturating_sub(self.now_ms)))
    }

    /// Runs a cell to its end.
    pub(super) async fn cell(&mut self, request: &EvalRequest, filename: &str) -> Result<Outcome, EngineError> {
        let source = match self.scripts.compile(request, filename, self.constants.clone()) {
            Ok(source) => source,
            Err(error) => return Ok(Outcome { ok: false, digest: sha256_hex(b""), error: Some(error.message) }),
        };
        for declared in self.scripts.declared(filename) {
            if declared.is_constant {
                self.constants.insert(declared.name.clone())
            } else {
                self.constants.remove(&declared.name)
            };
        }
        let mut turn = self.instance.eval(&source, &self.budget).await?;
        let mut refused = self.take_operations(&mut turn);
        for _ in 0..DELIVERIES_MAX {
            let next = if let Some(op) = refused.pop() {
                Some((op, OpResult::Err { name: "NotSupported".to_owned(), message: NOT_MADE.to_owned() }))
            } else if turn.cell.is_some() {
                None
            } else {
                self.timers.pop_first().map(|((due, op), ())| {
                    self.now_ms = self.now_ms.max(due);
                    (op, OpResult::Fired)
                })
            };
            let Some((op, result)) = next else { break };
            let ended = turn.cell.take();
            turn = self.instance.deliver(op, &result, &self.budget).await?;
            turn.cell = ended.or(turn.cell);
            refused.extend(self.take_operations(&mut turn));
        }
        if turn.cell.is_none() {
            self.instance.abandon(EngineErrorCode::UncaughtException, &self.budget).await?;
            return Ok(Outcome { ok: false, digest: String::new(), error: Some("it awaits what never comes in a replay".to_owned()) });
        }
        Ok(turn.cell.map_or_else(Outcome::nothing, Outcome::of))
    }

    /// Takes in what a turn asks for. Answers the calls, which are refused.
    fn take_operations(&mut self, turn: &mut Turn) -> Vec<u64> {
        let mut refused = Vec::new();
        for op in std::mem::take(&mut turn.ops) {
            match op.kind {
                OpKind::Timer { delay_ms } => {
                    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast from float saturates")]
                    let due = self.now_ms.saturating_add(delay_ms.max(0.0).ceil() as u64);
                    self.timers.insert((due, op.id), ());
                }
                OpKind::Cancel { id } => self.timers.retain(|(_, timer), ()| *timer != id),
                OpKind::CloseBody { .. } | OpKind::Mcp { .. } => {}
                OpKind::Tool { .. } | OpKind::Fetch { .. } | OpKind::Body { .. } => {
                    self.calls += 1;
                    refused.push(op.id);
                }
            }
        }
        refused
    }
}

impl Outcome {
    fn nothing() -> Self {
        Self { ok: false, digest: String::new(), error: None }
    }

    fn of(end: CellEnd) -> Self {
        let digest = end.value.as_ref().map_or_else(|| sha256_hex(end.preview.as_bytes()), journal::digest);
        Self { ok: end.ok, digest, error: end.error.map(|error| format!("{}: {}", error.name, error.message)) }
    }
}

/// The globals that cells have made, each with its preview. The instance is spent by it: getters may run.
pub(super) async fn globals(mut instance: Instance, budget: &Budget) -> Result<BTreeMap<String, String>, EngineError> {
    let names = run(&mut instance, "Object.keys(globalThis)".to_owned(), budget).await?;
    let names: Vec<String> = names.and_then(|end| serde_json::from_value(end.value?).ok()).unwrap_or_default();
    let mut previews = BTreeMap::new();
    for name in names.into_iter().take(GLOBALS_MAX) {
        let end = run(&mut instance, format!("globalThis[{}]", json!(name)), budget).await?;
        let preview = end.map(|end| if end.ok { end.preview } else { "cannot be read".to_owned() });
        previews.insert(name, preview.unwrap_or_default());
    }
    Ok(previews)
}

/// The session's files, each with its size; none when the engine cannot tell: then only cells have written any. The instance is spent by it.
pub(super) async fn files(mut instance: Instance, budget: &Budget) -> Result<BTreeMap<String, String>, EngineError> {
    let turn = instance.serve(&json!({ "verb": "list", "path": "/", "recursive": true }), budget).await?;
    let entries = turn.answer.as_ref().and_then(|answer| answer.get("entries")?.as_array());
    let described =
        |entry: &serde_json::Value| Some((entry.get("path")?.as_str()?.to_owned(), format!("{} bytes", entry.get("size")?.as_u64()?)));
    Ok(entries.into_iter().flatten().filter_map(described).collect())
}

async fn run(instance: &mut Instance, code: String, budget: &Budget) -> Result<Option<CellEnd>, EngineError> {
    let source = CellSource { code, filename: "migrate.js".to_owned(), is_async: false };
    Ok(instance.eval(&source, budget).await?.cell)
}
