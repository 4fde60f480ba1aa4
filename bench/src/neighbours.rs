//! What a session feels of hostile ones in the same process.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use dormouse_conformance::hostile::{self, Script};
use dormouse_engine::{Budget, CellSource, Engine, EngineOptions};
use tokio::task::JoinSet;

use crate::{
    engine::SETTINGS,
    table::{Row, Samples},
};

/// Families whose scripts run until their wall budget ends them.
const FAMILIES: [&str; 4] = ["finally/", "loops/", "recursion/", "regex/"];
/// Hostile sessions at once.
const ATTACKERS: usize = 2;
const EVALS: usize = 300;
/// Between two evals of the neighbour: a busy client, and the same one in both halves.
const PAUSE: Duration = Duration::from_millis(2);

/// The row: a neighbour beside hostile scripts, and alone.
pub async fn rows() -> anyhow::Result<Vec<Row>> {
    let engine = Engine::new(EngineOptions::default())?;
    let mut scripts = hostile::scripts()?;
    scripts.retain(|script| FAMILIES.iter().any(|family| script.name.starts_with(family)));
    let quiet = neighbour(&engine).await?;
    let stop = Arc::new(AtomicBool::new(false));
    let mut attackers = JoinSet::new();
    let scripts = Arc::new(scripts);
    for first in 0..ATTACKERS {
        attackers.spawn(attack(Arc::clone(&scripts), first, Arc::clone(&stop)));
    }
    let attacked = neighbour(&engine).await?;
    stop.store(true, Ordering::Relaxed);
    let mut ran = 0;
    while let Some(attacker) = attackers.join_next().await {
        ran += attacker??;
    }
    ensure!(ran > ATTACKERS, "no hostile script ran");
    Ok(vec![Row::tails("a small cell beside 2 hostile sessions", &attacked, "alone", &quiet, "p99 ≤ 2")])
}

async fn attack(scripts: Arc<Vec<Script>>, first: usize, stop: Arc<AtomicBool>) -> anyhow::Result<usize> {
    let mut ran = 0;
    for script in scripts.iter().cycle().skip(first).step_by(ATTACKERS) {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        hostile::run(script).await?;
        ran += 1;
    }
    Ok(ran)
}

/// Latencies of a client's evals, in a task of the runtime, as a session's actor is one.
async fn neighbour(engine: &Engine) -> anyhow::Result<Samples> {
    let mut instance = engine.create(&SETTINGS)?;
    let task = tokio::spawn(async move {
        let cell =
            CellSource { code: "globalThis.n = (globalThis.n | 0) + 1".to_owned(), filename: "bench.js".to_owned(), is_async: false };
        let mut took = Vec::with_capacity(EVALS);
        for _ in 0..EVALS {
            tokio::time::sleep(PAUSE).await;
            let asked = Instant::now();
            // A request reaches a session as a task that the runtime has to pick up.
            tokio::task::yield_now().await;
            let turn = instance.eval(&cell, &Budget::default()).await?;
            ensure!(turn.cell.is_some_and(|end| end.ok), "the neighbour's cell failed");
            took.push(asked.elapsed());
        }
        Ok(took)
    });
    Ok(Samples::of(task.await.context("the neighbour's task")??))
}
