//! What a session feels of hostile ones in the same process.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use dormouse_conformance::hostile::{self, Script};
use dormouse_engine::thread_priority::{self, ThreadId};
use dormouse_engine::{Budget, CellSource, Engine, EngineOptions};
use dormouse_kernel::lanes::Lanes;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
};

use crate::{
    engine::SETTINGS,
    table::{Row, Samples},
};

/// Hostile scripts of one row, of every family.
const SCRIPTS: usize = 1000;
/// A step through all scripts that mixes the families; prime, so that it meets each once.
const STRIDE: usize = 1009;
/// Evals of the quiet neighbour, half of them before the hostile sessions and half after.
const QUIET_EVALS: usize = 2000;
/// Between two evals of the neighbour: a busy client, and the same one in both halves.
const PAUSE: Duration = Duration::from_millis(2);

/// The rows: a neighbour beside hostile scripts, beside threads that only spin, and alone.
pub async fn rows() -> anyhow::Result<Vec<Row>> {
    let (engine, lanes) = (Engine::new(EngineOptions::default())?, Arc::new(Lanes::start()?));
    let all = hostile::scripts()?;
    ensure!(!all.len().is_multiple_of(STRIDE) && all.len() >= SCRIPTS, "the stride does not meet every script");
    let scripts: Arc<Vec<Script>> = Arc::new((0..SCRIPTS).filter_map(|n| all.get(n * STRIDE % all.len()).cloned()).collect());
    // The first use compiles an engine of its own.
    dormouse_conformance::session::engine()?;
    let mut rows = Vec::new();
    for (what, attackers) in [("a small cell beside 2 hostile sessions", 2), ("a small cell beside 8 hostile sessions", 8)] {
        let (quiet, attacked) = compared(&engine, &lanes, &scripts, attackers).await?;
        rows.push(Row::tails(what, &attacked, "alone", &quiet, "p99 ≤ 2"));
    }
    for (what, spinners) in [
        ("a small cell beside 2 threads of the idle policy that only spin", 2),
        ("a small cell beside 8 threads of the idle policy that only spin", 8),
    ] {
        let (quiet, beside) = beside_spinners(&engine, &lanes, spinners).await?;
        rows.push(Row::tails(what, &beside, "alone", &quiet, "–"));
    }
    Ok(rows)
}

/// The neighbour alone, and while hostile sessions, so many at once, run all scripts.
async fn compared(engine: &Engine, lanes: &Arc<Lanes>, scripts: &Arc<Vec<Script>>, attackers: usize) -> anyhow::Result<(Samples, Samples)> {
    let half = |asked: usize| asked < QUIET_EVALS / 2;
    let mut quiet = neighbour(engine, lanes, half).await?;
    let next = Arc::new(AtomicUsize::new(0));
    let over = Arc::new(AtomicBool::new(false));
    let mut attacks = JoinSet::new();
    for _ in 0..attackers {
        attacks.spawn(attack(Arc::clone(lanes), Arc::clone(scripts), Arc::clone(&next)));
    }
    let watched = Arc::clone(&over);
    let attacked = neighbour(engine, lanes, move |_| !watched.load(Ordering::Relaxed));
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
    quiet.extend(neighbour(engine, lanes, half).await?);
    Ok((Samples::of(quiet), Samples::of(attacked)))
}

/// The neighbour alone, and beside threads that run no session: what the system grants to whom it is told to prefer.
async fn beside_spinners(engine: &Engine, lanes: &Arc<Lanes>, spinners: usize) -> anyhow::Result<(Samples, Samples)> {
    let half = |asked: usize| asked < QUIET_EVALS / 2;
    let mut quiet = neighbour(engine, lanes, half).await?;
    let over = Arc::new(AtomicBool::new(false));
    for _ in 0..spinners {
        let over = Arc::clone(&over);
        std::thread::Builder::new().spawn(move || {
            thread_priority::lower(ThreadId::current());
            while !over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        })?;
    }
    let beside = neighbour(engine, lanes, |asked| asked < QUIET_EVALS).await;
    over.store(true, Ordering::Relaxed);
    quiet.extend(neighbour(engine, lanes, half).await?);
    Ok((Samples::of(quiet), Samples::of(beside?)))
}

/// Runs scripts that nobody has run yet, each in a session of its own, as if no one had ever seen it.
async fn attack(lanes: Arc<Lanes>, scripts: Arc<Vec<Script>>, next: Arc<AtomicUsize>) -> anyhow::Result<usize> {
    let mut ran = 0;
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let Some(script) = scripts.get(number).cloned() else { return Ok(ran) };
        lanes.run(async move { hostile::run(&script).await }).await.context("the lanes have ended")??;
        ran += 1;
    }
}

/// Latencies of a client's evals: it asks a session that runs in the lanes, as a pod's do.
async fn neighbour(engine: &Engine, lanes: &Lanes, go_on: impl Fn(usize) -> bool) -> anyhow::Result<Vec<Duration>> {
    let mut instance = engine.create(&SETTINGS)?;
    let (mailbox, mut inbox) = mpsc::channel::<oneshot::Sender<bool>>(1);
    let session = tokio::spawn(lanes.run(async move {
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
    session.await?.context("the lanes have ended")?;
    Ok(took)
}
