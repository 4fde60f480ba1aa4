//! What a session feels of hostile ones in the same process.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use dormouse_conformance::hostile::{self, Script};
use dormouse_engine::{Budget, CellSource, Engine, EngineOptions};
use dormouse_kernel::scheduler::Scheduler;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
};

use crate::{
    engine::SETTINGS,
    table::{Row, Samples},
};

/// Rounds of each row; the row is the one whose p99 is the median, so that a moment in which the machine itself stands still does not decide.
const ROUNDS: usize = 5;
/// Hostile scripts of one row, of every family.
const SCRIPTS: usize = 1000;
/// A step through all scripts that mixes the families; prime, so that it meets each once.
const STRIDE: usize = 1009;
/// Evals of the quiet neighbour in a round, half of them before the hostile sessions and half after.
const QUIET_EVALS: usize = 1000;
/// What a session has to be quiet for until what it used before is forgotten, and some more.
const REST: Duration = Duration::from_millis(150);
/// Between two evals of the neighbour: a busy client, and the same one in both halves.
const PAUSE: Duration = Duration::from_millis(2);

/// Who is beside the neighbour: sessions that run scripts, so many at once, each in a session of its own that has been there for a while.
#[derive(Clone, Copy)]
struct Hostile {
    sessions: usize,
    rest: Duration,
}

/// The rows: a neighbour beside hostile scripts, and alone.
pub async fn rows() -> anyhow::Result<Vec<Row>> {
    let (engine, scheduler) = (Engine::new(EngineOptions::default())?, Scheduler::new());
    let all = hostile::scripts()?;
    ensure!(!all.len().is_multiple_of(STRIDE) && all.len() >= SCRIPTS, "the stride does not meet every script");
    let scripts: Vec<Script> = (0..SCRIPTS).filter_map(|n| all.get(n * STRIDE % all.len()).cloned()).collect();
    // The first use compiles an engine of its own.
    dormouse_conformance::session::engine()?;
    let mut rows = Vec::new();
    for (what, beside, aim) in [
        ("a small cell beside 2 hostile sessions", Hostile { sessions: 2, rest: Duration::ZERO }, "p99 ≤ 2"),
        ("a small cell beside 8 hostile sessions", Hostile { sessions: 8, rest: Duration::ZERO }, "p99 ≤ 2"),
        ("a small cell beside 8 hostile sessions that rested before", Hostile { sessions: 8, rest: REST }, "p99 ≤ 2"),
    ] {
        let (mut alone, mut besides) = (Vec::new(), Vec::new());
        for scripts in scripts.chunks(SCRIPTS / ROUNDS) {
            let half = |asked: usize| asked < QUIET_EVALS / 2;
            let mut quiet = neighbour(&engine, &scheduler, half).await?;
            besides.push(Samples::of(beside_hostile(&engine, &scheduler, scripts, beside).await?));
            quiet.extend(neighbour(&engine, &scheduler, half).await?);
            alone.push(Samples::of(quiet));
        }
        rows.push(Row::tails(what, &median(besides)?, "alone", &median(alone)?, aim));
    }
    Ok(rows)
}

/// The round whose p99 is the median.
fn median(mut rounds: Vec<Samples>) -> anyhow::Result<Samples> {
    rounds.sort_by_key(Samples::p99);
    let middle = rounds.len() / 2;
    rounds.into_iter().nth(middle).context("no rounds")
}

/// The neighbour while hostile sessions, so many at once, run all scripts.
async fn beside_hostile(engine: &Engine, scheduler: &Scheduler, scripts: &[Script], beside: Hostile) -> anyhow::Result<Vec<Duration>> {
    let left = Arc::new(Mutex::new(scripts.to_vec()));
    let over = Arc::new(AtomicBool::new(false));
    let mut attacks = JoinSet::new();
    for _ in 0..beside.sessions {
        attacks.spawn(attack(scheduler.clone(), Arc::clone(&left), beside.rest));
    }
    let watched = Arc::clone(&over);
    let attacked = neighbour(engine, scheduler, move |_| !watched.load(Ordering::Relaxed));
    let ended = async {
        let mut ran = 0;
        while let Some(attack) = attacks.join_next().await {
            ran += attack??;
        }
        over.store(true, Ordering::Relaxed);
        ensure!(ran == scripts.len(), "{ran} scripts ran");
        Ok(())
    };
    let (attacked, ()) = tokio::try_join!(attacked, ended)?;
    Ok(attacked)
}

/// Runs scripts that nobody has run yet, each in a session of its own, as if no one had ever seen it, that has been there for `rest`.
async fn attack(scheduler: Scheduler, left: Arc<Mutex<Vec<Script>>>, rest: Duration) -> anyhow::Result<usize> {
    let mut ran = 0;
    loop {
        let next = left.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let Some(script) = next else { return Ok(ran) };
        let rested = async move {
            if !rest.is_zero() {
                tokio::time::sleep(rest).await;
            }
            hostile::run(&script, hostile::WALL).await
        };
        tokio::spawn(scheduler.run(rested)).await??;
        ran += 1;
    }
}

/// Latencies of a client's evals: it asks a session that takes turns, as a pod's do.
async fn neighbour(engine: &Engine, scheduler: &Scheduler, go_on: impl Fn(usize) -> bool) -> anyhow::Result<Vec<Duration>> {
    let mut instance = engine.create(&SETTINGS)?;
    let (mailbox, mut inbox) = mpsc::channel::<oneshot::Sender<bool>>(1);
    let session = tokio::spawn(scheduler.run(async move {
        let cell =
            CellSource { code: "globalThis.n = (globalThis.n | 0) + 1".to_owned(), filename: "bench.js".to_owned(), is_async: false };
        while let Some(reply) = inbox.recv().await {
            let turn = instance.eval(&cell, &Budget::default()).await;
            let _ = reply.send(turn.is_ok_and(|turn| turn.cell.is_some_and(|end| end.ok)));
        }
    }));
    let mut took = Vec::new();
    while go_on(took.len()) {
        tokio::time::sleep(PAUSE).await;
        let (reply, answer) = oneshot::channel();
        let asked = Instant::now();
        mailbox.send(reply).await?;
        ensure!(answer.await?, "the neighbour's cell failed");
        took.push(asked.elapsed());
    }
    drop(mailbox);
    session.await?;
    Ok(took)
}
