//! One hostile script: its end, its cost, and whether the session lives on.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use anyhow::Context as _;
use dormouse_engine::{Budget, CellSource, EngineError, EngineErrorCode, Settings, Turn};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

use super::Script;
use crate::{
    session::{Session, compile},
    watchdog::Watchdog,
};

/// What a turn may take, in wall time.
pub const WALL: Duration = Duration::from_millis(25);
/// Processor time after which a script has defeated its budget: compile, all turns, previews, collections.
pub const CPU_MAX: Duration = Duration::from_secs(2);
/// Longest that one script may keep a thread at all; beyond it nothing but the end of the process helps.
const STEP_SECONDS_MAX: u64 = 300;
/// Timers that are delivered after a script.
const DELIVERIES: usize = 8;
const HEAP_BYTES: u64 = 16 << 20;
const OUTPUT_BYTES_MAX: u64 = 64 << 10;
const PENDING_OPERATIONS_MAX: u32 = 64;
/// Timers that may wait for each call that may.
const TIMERS_FOR_ONE: u32 = 16;

/// The outcome of a cell that has not ended.
const WAITS: &str = "waits";

/// What became of a script.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// The script.
    pub script: Script,
    /// `value`, `waits`, `refused` by the compiler, `Overrun` when it was ended inside a builtin, `lost` with its instance, or the code of its error.
    pub outcome: String,
    /// Processor time that it took.
    pub cpu: Duration,
    /// What is wrong.
    pub faults: Vec<String>,
}

/// Runs all scripts on `threads` threads, with so much wall time for a turn.
///
/// # Errors
/// When the engine cannot be made.
pub fn run_all(scripts: &[Script], threads: usize, wall: Duration) -> anyhow::Result<Vec<Verdict>> {
    crate::session::engine()?;
    let watchdog = Watchdog::new(Duration::from_secs(STEP_SECONDS_MAX));
    let waiting: Mutex<VecDeque<&Script>> = Mutex::new(scripts.iter().collect());
    let take = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let work = || -> anyhow::Result<Vec<Verdict>> {
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let mut verdicts = Vec::new();
        while let Some(script) = take() {
            let _step = watchdog.step(&format!("{}: {}", script.name, script.source));
            verdicts.push(runtime.block_on(run(script, wall))?);
        }
        Ok(verdicts)
    };
    let verdicts = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut all = Vec::new();
        for worker in workers {
            all.extend(worker.join().ok().context("a thread panicked")??);
        }
        anyhow::Ok(all)
    });
    watchdog.end();
    verdicts
}

/// Runs one script in a session of its own, with so much wall time for a turn.
///
/// # Errors
/// When a session cannot be made.
pub async fn run(script: &Script, wall: Duration) -> anyhow::Result<Verdict> {
    let mut session = Session::new(Settings { heap_bytes: HEAP_BYTES, determinism: None })?;
    session.budget = Budget { wall, ticks: 0, output_bytes: OUTPUT_BYTES_MAX, pending_operations: PENDING_OPERATIONS_MAX };
    let image = session.instance.image().await;
    let began = thread_cpu();
    let mut verdict = Verdict { script: script.clone(), outcome: String::new(), cpu: Duration::ZERO, faults: Vec::new() };
    match attack(&mut session, &script.source, &mut verdict).await {
        Ok(()) => {}
        Err(error) => {
            // To be over its time inside a builtin, or with jobs without end, is the one good reason to lose an instance.
            let overran = matches!(error.downcast_ref(), Some(EngineError::Overrun));
            // A timer that is over its time changes nothing of how its cell has ended, wherever the timer is at that moment.
            if !overran || ["", WAITS].contains(&verdict.outcome.as_str()) {
                verdict.outcome = if overran { "Overrun" } else { "lost" }.to_owned();
            }
            if !overran || thread_cpu().saturating_sub(began) < wall {
                verdict.faults.push(format!("the instance is lost: {error:#}"));
            }
            session.go_back_to(&image).await?;
        }
    }
    if !script.ends.is_empty() && !script.ends.contains(&verdict.outcome) {
        verdict.faults.push(format!("ends as {}, not as {}", verdict.outcome, script.ends.join(" or ")));
    }
    verdict.cpu = thread_cpu().saturating_sub(began);
    if verdict.cpu > CPU_MAX {
        verdict.faults.push(format!("took {:?} of processor time", verdict.cpu));
    }
    if let Err(error) = answers(&mut session).await {
        verdict.faults.push(format!("the session does not answer: {error:#}"));
    }
    Ok(verdict)
}

/// The script and some of its timers. An error is a lost instance.
async fn attack(session: &mut Session, source: &str, Verdict { outcome, faults, .. }: &mut Verdict) -> anyhow::Result<()> {
    let Ok(script) = compile(source) else {
        "refused".clone_into(outcome);
        return Ok(());
    };
    let cell = CellSource { code: script.code, filename: script.filename, is_async: script.is_async };
    let turn = session.eval(&cell).await?;
    *outcome = judge(&turn, faults);
    for _ in 0..DELIVERIES {
        let Some(turn) = session.fire().await? else { break };
        if turn.cell.is_some() {
            *outcome = judge(&turn, faults);
        }
    }
    if outcome == WAITS {
        session.instance.abandon(EngineErrorCode::Interrupted, &session.budget).await?;
    }
    Ok(())
}

/// How a turn ended, and that it kept its budgets of output and operations.
fn judge(turn: &Turn, faults: &mut Vec<String>) -> String {
    let lines = turn.console.iter().map(|line| line.text.len());
    let displays = turn.display.iter().map(|display| display.data.len());
    let output = lines.chain(displays).sum::<usize>() as u64;
    // The line that says that a callback was stopped is the host's own.
    if output > OUTPUT_BYTES_MAX + 1024 {
        faults.push(format!("{output} bytes of output"));
    }
    let issued = turn.ops.iter().filter(|op| !matches!(op.kind, dormouse_engine::OpKind::Cancel { .. })).count();
    let cancelled = turn.ops.len() - issued;
    if issued > (PENDING_OPERATIONS_MAX * (TIMERS_FOR_ONE + 1)) as usize + cancelled + 1 {
        faults.push(format!("{issued} operations at once"));
    }
    match &turn.cell {
        None => WAITS.to_owned(),
        Some(end) => match &end.error {
            None => "value".to_owned(),
            Some(error) => error.code.as_str().to_owned(),
        },
    }
}

async fn answers(session: &mut Session) -> anyhow::Result<()> {
    // What the script has done to the prelude must not matter; what it left waiting may run first.
    session.budget.wall = Duration::from_secs(5);
    let cell = CellSource { code: "1+1".to_owned(), filename: "after.js".to_owned(), is_async: false };
    let turn = session.eval(&cell).await?;
    let end = turn.cell.context("it never ends")?;
    anyhow::ensure!(end.value == Some(json!(2)), "1+1 gives {:?} {:?}", end.value, end.error);
    Ok(())
}

/// Processor time of this thread: what others do on the machine does not count.
fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}
