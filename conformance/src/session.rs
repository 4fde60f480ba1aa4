//! A session as the tests drive it: cells are compiled, timers fire in virtual time.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
    time::Duration,
};

use anyhow::Context as _;
use dormouse_cells::{Language, Options, Script};
use dormouse_engine::{Budget, CellEnd, CellSource, Engine, EngineOptions, Image, Instance, OpKind, OpResult, Settings, Turn};

/// Heap of a session unless a test says otherwise, in bytes.
pub const HEAP_BYTES: u64 = 64 << 20;
/// Timers that one run delivers before it gives up on ever being idle.
pub const DELIVERIES_MAX: usize = 20_000;
/// The name of every cell.
const FILENAME: &str = "cell.ts";

static ENGINE: LazyLock<Result<Engine, Arc<dormouse_engine::EngineError>>> = LazyLock::new(|| {
    let other = std::env::var_os(OTHER_ENGINE).and_then(|path| std::fs::read(path).ok());
    other.map_or_else(|| Engine::new(EngineOptions::for_user()), |wasm| Engine::of_module(&wasm)).map_err(Arc::new)
});

/// The variable that names another `engine.wasm` than the one that is built in.
const OTHER_ENGINE: &str = "DORMOUSE_ENGINE";

/// The engine of this process: compiling it takes seconds, where this user's cache does not have it.
///
/// # Errors
/// When it cannot be compiled.
pub fn engine() -> anyhow::Result<&'static Engine> {
    ENGINE.as_ref().map_err(|error| anyhow::Error::new(Arc::clone(error)))
}

/// Settings of a session with real time and entropy.
#[must_use]
pub fn settings() -> Settings {
    Settings { heap_bytes: HEAP_BYTES, determinism: None }
}

/// Compiles a cell of JavaScript.
///
/// # Errors
/// When the source is no cell; the message names line and column.
pub fn compile(source: &str) -> anyhow::Result<Script> {
    compile_as(source, Language::Javascript)
}

fn compile_as(source: &str, language: Language) -> anyhow::Result<Script> {
    let options = Options { language, filename: FILENAME.to_owned(), ..Options::default() };
    dormouse_cells::compile(source, &options).map_err(|error| anyhow::anyhow!("{}:{}: {}", error.line, error.column, error.message))
}

/// What a program has said until it was idle.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Transcript {
    /// What Node writes to its standard output: the lines of `log`, `info` and `debug`.
    pub stdout: String,
    /// What Node writes to its standard error.
    pub stderr: String,
    /// How the cell ended; `None` when it never did.
    pub end: Option<CellEnd>,
}

impl Transcript {
    fn take(&mut self, turn: Turn) {
        for line in turn.console {
            let stream = if matches!(line.level.as_str(), "log" | "info" | "debug") { &mut self.stdout } else { &mut self.stderr };
            stream.push_str(&line.text);
            stream.push('\n');
        }
        self.end = turn.cell.or(self.end.take());
    }
}

/// One instance, its timers and their clock.
#[derive(Debug)]
pub struct Session {
    /// The running heap.
    pub instance: Instance,
    /// What each turn may use.
    pub budget: Budget,
    settings: Settings,
    /// Timers by due time in microseconds of virtual time, and number.
    timers: BTreeMap<(u64, u64), ()>,
    now_us: u64,
}

impl Session {
    /// A fresh session.
    ///
    /// # Errors
    /// When the engine has none to give.
    pub fn new(settings: Settings) -> anyhow::Result<Self> {
        let budget = Budget { wall: Duration::from_secs(20), ..Budget::default() };
        Ok(Self { instance: engine()?.create(&settings)?, budget, settings, timers: BTreeMap::new(), now_us: 0 })
    }

    /// The session as another process would find it: only the image, the timers and the clock travel.
    ///
    /// # Errors
    /// When the image is refused.
    pub async fn restored(mut self) -> anyhow::Result<Self> {
        let image = self.instance.image().await;
        self.go_back_to(&image).await?;
        Ok(self)
    }

    /// The session goes on from `image`.
    ///
    /// # Errors
    /// When the image is refused.
    pub async fn go_back_to(&mut self, image: &Image) -> anyhow::Result<()> {
        self.instance = engine()?.restore(image, &self.settings).await?;
        Ok(())
    }

    /// Compiles and runs a cell for one turn.
    ///
    /// # Errors
    /// When the source is no cell, or the engine fails.
    pub async fn begin(&mut self, source: &str) -> anyhow::Result<Turn> {
        self.begin_as(source, Language::Javascript).await
    }

    async fn begin_as(&mut self, source: &str, language: Language) -> anyhow::Result<Turn> {
        let script = compile_as(source, language).context("the cell does not compile")?;
        self.eval(&CellSource { code: script.code, filename: script.filename, is_async: script.is_async }).await
    }

    /// Runs a compiled cell for one turn.
    ///
    /// # Errors
    /// When the engine fails.
    pub async fn eval(&mut self, cell: &CellSource) -> anyhow::Result<Turn> {
        let turn = self.instance.eval(cell, &self.budget).await?;
        self.note(&turn);
        Ok(turn)
    }

    /// Runs a cell and every timer after it, until nothing waits.
    ///
    /// # Errors
    /// When the source is no cell, or the engine fails.
    pub async fn run(&mut self, source: &str) -> anyhow::Result<Transcript> {
        self.run_as(source, Language::Javascript).await
    }

    /// The same of a cell in this language.
    ///
    /// # Errors
    /// When the source is no cell, or the engine fails.
    pub async fn run_as(&mut self, source: &str, language: Language) -> anyhow::Result<Transcript> {
        let mut transcript = Transcript::default();
        let turn = self.begin_as(source, language).await?;
        transcript.take(turn);
        for _ in 0..DELIVERIES_MAX {
            let Some(turn) = self.fire().await? else { break };
            transcript.take(turn);
        }
        Ok(transcript)
    }

    /// Delivers the timer that is due next, if one waits.
    ///
    /// # Errors
    /// When the engine fails.
    pub async fn fire(&mut self) -> anyhow::Result<Option<Turn>> {
        let Some(((due_us, op), ())) = self.timers.pop_first() else { return Ok(None) };
        self.now_us = self.now_us.max(due_us);
        let turn = self.instance.deliver(op, &OpResult::Fired, &self.budget).await?;
        self.note(&turn);
        Ok(Some(turn))
    }

    /// Timers that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.timers.len()
    }

    fn note(&mut self, turn: &Turn) {
        for op in &turn.ops {
            match &op.kind {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates; delays are not negative")]
                OpKind::Timer { delay_ms } => {
                    self.timers.insert((self.now_us.saturating_add((delay_ms * 1000.0) as u64), op.id), ());
                }
                OpKind::Cancel { id } => self.timers.retain(|(_, timer), ()| timer != id),
                // Nothing answers: a program that calls a tool never ends.
                _ => {}
            }
        }
    }
}
