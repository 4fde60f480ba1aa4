//! test262, in our engine and in native QuickJS-NG of the same version: the difference is what our engine costs a script.
//!
//! A test runs as a script, not as a cell: the suite is about the language, and a cell may redeclare.

mod case;
mod host;
mod modules;
mod native;
mod ours;
mod table;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::Context as _;

pub use case::{Case, Mode};
pub use table::markdown;

use modules::Program;

use crate::watchdog::Watchdog;

/// Longest that one test may keep a thread.
const STEP_SECONDS_MAX: u64 = 300;
/// Stack of a thread that runs native QuickJS, in bytes.
const STACK_BYTES: usize = 16 << 20;
/// The folders of the suite that are run. Of `intl402` only Temporal (native QuickJS has no `Intl`), and not `staging` (not of the suite proper).
const FOLDERS: [&str; 4] = ["built-ins", "language", "annexB", "intl402/Temporal"];

/// Features that QuickJS-NG says it does not implement (`test262.conf` of the version that is used). Their tests are counted, not run; but for Temporal,
/// which sessions have beside the engine.
const ABSENT_FEATURES: [&str; 9] = [
    "Atomics.waitAsync",
    "await-dictionary",
    "canonical-tz",
    "decorators",
    "import-defer",
    "legacy-regexp",
    "ShadowRealm",
    "source-phase-imports",
    "tail-call-optimization",
];

/// How one engine did one test.
pub type Outcome = Result<(), String>;

/// One test in one mode, in both engines.
#[derive(Debug, Clone)]
pub struct Ran {
    /// Path below `test/`.
    pub path: String,
    /// Strict or not.
    pub mode: Mode,
    /// Our engine.
    pub ours: Outcome,
    /// Native QuickJS-NG.
    pub native: Outcome,
}

/// A suite: `test/` and `harness/` below a folder.
#[derive(Debug)]
pub struct Suite {
    root: PathBuf,
    cases: Vec<Case>,
    /// Tests that are not run, by reason.
    pub skipped: BTreeMap<&'static str, usize>,
    harness: Harness,
}

impl Suite {
    /// Reads all tests whose path below `test/` begins with `only`.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn read(root: &Path, only: &str) -> anyhow::Result<Self> {
        let mut suite = Self { root: root.to_owned(), cases: Vec::new(), skipped: BTreeMap::new(), harness: Harness::new(root) };
        for folder in FOLDERS {
            suite.read_folder(&root.join("test").join(folder), only)?;
        }
        suite.cases.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(suite)
    }

    fn read_folder(&mut self, folder: &Path, only: &str) -> anyhow::Result<()> {
        if !folder.is_dir() {
            return Ok(());
        }
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                self.read_folder(&path, only)?;
                continue;
            }
            let name = path.strip_prefix(self.root.join("test"))?.to_string_lossy().into_owned();
            if !name.starts_with(only) || !name.ends_with(".js") || name.contains("_FIXTURE") {
                continue;
            }
            let Ok(text) = fs::read_to_string(&path) else {
                *self.skipped.entry("not UTF-8").or_default() += 1;
                continue;
            };
            let case = Case::parse(&name, text).with_context(|| name.clone())?;
            match case.skip(&ABSENT_FEATURES) {
                Some(reason) => *self.skipped.entry(reason).or_default() += 1,
                None => self.cases.push(case),
            }
        }
        Ok(())
    }

    /// Runs everything on `threads` threads.
    ///
    /// # Errors
    /// When an engine or a file of the harness is not there.
    pub fn run(&self, threads: usize) -> anyhow::Result<Vec<Ran>> {
        crate::session::engine()?;
        let watchdog = Watchdog::new(Duration::from_secs(STEP_SECONDS_MAX));
        let waiting: Mutex<VecDeque<&Case>> = Mutex::new(self.cases.iter().collect());
        let take = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let work = || -> anyhow::Result<Vec<Ran>> {
            let runtime = tokio::runtime::Builder::new_current_thread().build()?;
            let mut results = Vec::new();
            while let Some(case) = take() {
                let _step = watchdog.step(&case.path);
                let folder = self.root.join("test").join(&case.path);
                for mode in case.modes() {
                    let harness = self.harness.of(case)?;
                    let program = Program::of(case, mode, &folder)?;
                    let ours = runtime.block_on(ours::run(case, &harness, &program))?;
                    let native = native::run(case, &harness, &program)?;
                    results.push(Ran { path: case.path.clone(), mode, ours, native });
                }
            }
            Ok(results)
        };
        let results = std::thread::scope(|scope| {
            let spawn = |_| std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work);
            let workers: Vec<_> = (0..threads).map(spawn).collect::<std::io::Result<_>>()?;
            let mut all = Vec::new();
            for worker in workers {
                all.extend(worker.join().ok().context("a thread panicked")??);
            }
            all.sort_by(|a, b| (&a.path, a.mode).cmp(&(&b.path, b.mode)));
            anyhow::Ok(all)
        });
        watchdog.end();
        results
    }
}

/// The scripts that run before a test.
#[derive(Debug)]
struct Harness {
    folder: PathBuf,
    made: Mutex<HashMap<String, Arc<str>>>,
}

impl Harness {
    fn new(root: &Path) -> Self {
        Self { folder: root.join("harness"), made: Mutex::default() }
    }

    /// Everything that `case` asks for, as one script.
    fn of(&self, case: &Case) -> anyhow::Result<Arc<str>> {
        let files = case.harness();
        let key = files.join(" ");
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(script) = made.get(&key) {
            return Ok(Arc::clone(script));
        }
        let mut script = String::from(host::SCRIPT);
        for file in files {
            script.push_str(&fs::read_to_string(self.folder.join(&file)).with_context(|| format!("harness/{file}"))?);
            script.push_str("\n;\n");
        }
        let script: Arc<str> = script.into();
        made.insert(key, Arc::clone(&script));
        Ok(script)
    }
}
