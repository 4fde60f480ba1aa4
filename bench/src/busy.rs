//! What a cell gets of a machine that other processes keep busy.

use std::{
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use dormouse_engine::{Budget, CellSource, Engine, EngineOptions};
use dormouse_kernel::scheduler::Scheduler;

use crate::{
    engine::SETTINGS,
    table::{Row, Samples},
};

/// Processes that want a whole core each, of the same priority as this one.
const BUSY: usize = 2;
/// Processor time of the cell, and of the thread beside it, which the first run of each is tuned to.
const WORK: Duration = Duration::from_millis(35);
/// Cells of the row, and as many runs of the thread, in turns.
const RUNS: usize = 50;
/// Rounds of the loop whose time is taken to find out how many make [`WORK`].
const TRIAL_ROUNDS: u64 = 2_000_000;

/// The row: a cell beside busy processes, and a plain thread that needs as much processor time beside the same ones: its fair share.
pub async fn rows() -> anyhow::Result<Vec<Row>> {
    let (engine, scheduler) = (Engine::new(EngineOptions::default())?, Scheduler::new());
    let cell_rounds = rounds(timed_cell(&engine, &scheduler, TRIAL_ROUNDS).await?)?;
    let thread_rounds = rounds(timed_thread(TRIAL_ROUNDS).await?)?;
    let _busy = (0..BUSY).map(|_| Busy::start()).collect::<anyhow::Result<Vec<_>>>()?;
    let (mut cells, mut threads) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        cells.push(timed_cell(&engine, &scheduler, cell_rounds).await?);
        threads.push(timed_thread(thread_rounds).await?);
    }
    let (cells, threads) = (Samples::of(cells), Samples::of(threads));
    Ok(vec![
        Row::times("a cell of 35 ms beside two busy processes", &cells, "a thread that needs as much, beside them", &threads, "≤ 3"),
        Row::tails("the same, at p99", &cells, "a thread that needs as much, beside them", &threads, "≤ 3"),
    ])
}

/// How many rounds make [`WORK`], when [`TRIAL_ROUNDS`] took so long.
fn rounds(trial: Duration) -> anyhow::Result<u64> {
    let rounds = u128::from(TRIAL_ROUNDS) * WORK.as_nanos() / trial.as_nanos().max(1);
    u64::try_from(rounds).context("the trial took no time")
}

async fn timed_cell(engine: &Engine, scheduler: &Scheduler, rounds: u64) -> anyhow::Result<Duration> {
    let code = format!("(function(){{ let s = 0; for (let i = 0; i < {rounds}; i++) s = (s + i) | 0; return s }})()");
    let cell = CellSource { code, filename: "bench.js".to_owned(), is_async: false };
    let mut instance = engine.create(&SETTINGS)?;
    let asked = Instant::now();
    let turn = tokio::spawn(scheduler.run(async move { instance.eval(&cell, &Budget::default()).await })).await??;
    ensure!(turn.cell.is_some_and(|end| end.ok), "the cell failed");
    Ok(asked.elapsed())
}

async fn timed_thread(rounds: u64) -> anyhow::Result<Duration> {
    let asked = Instant::now();
    tokio::task::spawn_blocking(move || (0..rounds).fold(0_u64, |sum, i| std::hint::black_box(sum.wrapping_add(i)))).await?;
    Ok(asked.elapsed())
}

/// A process that does nothing, as fast as it can, until it is dropped.
struct Busy(Child);

impl Busy {
    fn start() -> anyhow::Result<Self> {
        let child = Command::new("sh").args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn().context("cannot start sh")?;
        Ok(Self(child))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
