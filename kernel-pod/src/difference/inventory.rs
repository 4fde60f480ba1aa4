//! What a state of a session has, asked of a throw-away instance of it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use dormouse_engine::{Blobs, Budget, CellSource, Determinism, Engine, EngineError, EngineErrorCode, Image, Instance, Settings};
use dormouse_protocol::{ApiError, ErrorCode};
use serde::Deserialize;
use serde_json::json;

/// The script that looks. It must be the same for both states, or their digests mean nothing.
const SCRIPT: &str = include_str!("inventory.js");

/// Heap beyond the session's own limit, for what looking takes.
const EXTRA_HEAP_BYTES: u64 = 128 << 20;

/// How long the script may run in one state.
const LOOK_TIMEOUT: Duration = Duration::from_secs(20);

/// Bytes that the script may answer.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// Globals, and files, that are looked at.
pub(super) const NAMES_MAX: usize = 10_000;

/// Values that are looked at below one global, and below all of them.
pub(super) const NODES_OF_ONE_MAX: u64 = 1_000_000;
const NODES_MAX: u64 = 4_000_000;

/// Characters of a preview.
const PREVIEW_CHARS_MAX: usize = 400;

/// What is seeded, so that a look at the same state is the same.
const SEEDED: Determinism = Determinism { seed: 0, epoch_ms: 0.0 };

/// A global.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Global {
    /// Of everything that can be reached from its value.
    pub sha256: String,
    /// Whether that was all.
    pub complete: bool,
}

impl Global {
    /// One that is as every new session has it, whichever engine that is.
    pub(super) fn of_new_session() -> Self {
        Self { sha256: String::new(), complete: true }
    }
}

/// A file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct File {
    /// Its size.
    pub bytes: u64,
    /// Of its content.
    pub sha256: String,
}

/// What a state has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Inventory {
    /// Globals by name.
    pub globals: BTreeMap<String, Global>,
    /// Of a new session: the same once everything has been asked for.
    #[serde(default)]
    pub settled: BTreeMap<String, Global>,
    /// Files by path.
    pub files: BTreeMap<String, File>,
    /// There is more than was looked at.
    pub partial: bool,
}

/// An instance that nobody keeps: seeded, so that it draws nothing, and with nobody to carry out what it asks for.
pub(super) struct ThrowAway(Instance);

/// A state of a session.
pub(super) struct Looked {
    /// Itself.
    pub instance: ThrowAway,
    /// What it has.
    pub has: Inventory,
}

impl Looked {
    /// Lays `image` out and looks at it; `contents` are what it has outside its heap.
    pub(super) async fn at(
        engine: &Engine,
        new: &Inventory,
        image: &Image,
        heap_bytes: u64,
        contents: Arc<dyn Blobs>,
    ) -> Result<Self, ApiError> {
        let mut instance = engine.restore(image, &settings(heap_bytes)).await.map_err(|error| internal(&error))?;
        instance.set_blobs(Some(contents));
        let base: Vec<&String> = new.globals.keys().collect();
        let mut has = ask::<Inventory>(&mut instance, &json!(base), &[]).await?;
        let is_new = |name: &String, global: &Global| new.globals.get(name) == Some(global) || new.settled.get(name) == Some(global);
        for (name, global) in &mut has.globals {
            if is_new(name, global) {
                *global = Global::of_new_session();
            }
        }
        Ok(Self { instance: ThrowAway(instance), has })
    }
}

/// What a new session of this engine has.
pub(super) async fn of_new(engine: &Engine) -> Result<Inventory, ApiError> {
    let mut instance = engine.create(&settings(0)).map_err(|error| internal(&error))?;
    ask(&mut instance, &serde_json::Value::Null, &[]).await.map_err(|error| match error.code {
        ErrorCode::UncaughtException => {
            let message =
                "the session's engine is from before modules, and its states cannot be compared: fork both checkpoints and look there";
            ApiError::new(ErrorCode::NotSupported, message)
        }
        _ => error,
    })
}

fn settings(heap_bytes: u64) -> Settings {
    Settings { heap_bytes: heap_bytes.saturating_add(EXTRA_HEAP_BYTES), determinism: Some(SEEDED) }
}

fn internal(error: &EngineError) -> ApiError {
    ApiError::new(ErrorCode::Internal, format!("a state cannot be restored: {error}"))
}

impl ThrowAway {
    /// How these globals read.
    pub(super) async fn show(&mut self, names: &[&String]) -> Result<HashMap<String, String>, ApiError> {
        #[derive(Deserialize)]
        struct Answer {
            shown: HashMap<String, String>,
        }
        if names.is_empty() {
            return Ok(HashMap::new());
        }
        Ok(ask::<Answer>(&mut self.0, &serde_json::Value::Null, names).await?.shown)
    }
}

/// Runs the script: for an inventory beside what a new session has (`base`), or to show globals.
async fn ask<T: for<'de> Deserialize<'de>>(instance: &mut Instance, base: &serde_json::Value, show: &[&String]) -> Result<T, ApiError> {
    let mut ask = json!({
        "nodesMax": NODES_MAX, "nodesOfOneMax": NODES_OF_ONE_MAX, "namesMax": NAMES_MAX, "previewChars": PREVIEW_CHARS_MAX,
    });
    if let Some(ask) = ask.as_object_mut() {
        if !base.is_null() {
            ask.insert("base".to_owned(), base.clone());
        }
        if !show.is_empty() {
            ask.insert("show".to_owned(), json!(show));
        }
    }
    let cell = CellSource { code: format!("{}({ask})", SCRIPT.trim_end()), filename: "inventory.js".to_owned(), is_async: false };
    let budget = Budget { wall: LOOK_TIMEOUT, output_bytes: ANSWER_BYTES_MAX, ..Budget::default() };
    let turn = instance.eval(&cell, &budget).await.map_err(|error| too_much(&error.to_string()))?;
    let end = turn.cell.ok_or_else(|| unreadable("the look at it did not end"))?;
    match (end.value, end.error) {
        (Some(value), None) => serde_json::from_value(value).map_err(|error| unreadable(&error.to_string())),
        (_, Some(error)) => Err(match error.code {
            EngineErrorCode::UncaughtException | EngineErrorCode::SyntaxError => unreadable(&format!("{}: {}", error.name, error.message)),
            code => too_much(code.as_str()),
        }),
        (None, None) => Err(unreadable("the look at it answered nothing")),
    }
}

fn too_much(what: &str) -> ApiError {
    let message = format!(
        "the session is too large to be compared within {} s ({what}): fork both checkpoints and look at them there",
        LOOK_TIMEOUT.as_secs()
    );
    ApiError::new(ErrorCode::SizeAdmissionError, message)
}

fn unreadable(why: &str) -> ApiError {
    let message = format!(
        "the session's own globals do not let it be looked at ({why}): has it replaced Reflect, Map or require? Fork both checkpoints and look at them there"
    );
    ApiError::new(ErrorCode::UncaughtException, message)
}
