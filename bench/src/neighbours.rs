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

/// Rounds of each row; the row is the one whose p99 is the median, so that a moment in which the machine itself stands still does not decide.
const ROUNDS: usize = 5;
/// Hostile scripts of one row, of every family.
const SCRIPTS: usize = 1000;
/// A step through all scripts that mixes the families; prime, so that it meets each once.
const STRIDE: usize = 1009;
/// Evals of the quiet neighbour in a round, half of them before the hostile sessions and half after.
const QUIET_EVALS: usize = 1000;
/// What a session has to be quiet for until the lanes think well of it, and some more.
const REST: Duration = Duration::from_millis(150);
/// Between two evals of the neighbour: a busy client, and the same one in both halves.
const PAUSE: Duration = Duration::from_millis(2);

/// Who is beside the neighbour.
#[derive(Clone, Copy)]
enum Beside {
    /// Sessions that run scripts, so many at once, each in a session of its own that has been there for a while.
    Hostile { sessions: usize, rest: Duration },
    /// Threads that run no session: what the system grants to whom it is told to prefer.
    Spinners(usize),
}

/// The rows: a neighbour beside hostile scripts, beside threads that only spin, and alone.
pub async fn rows() -> anyhow::Result<Vec<Row>> {
    let (engine, lanes) = (Engine::new(EngineOptions::default())?, Arc::new(Lanes::start()?));
    let all = hostile::scripts()?;
    ensure!(!all.len().is_multiple_of(STRIDE) && all.len() >= SCRIPTS, "the stride does not meet every script");
    let scripts: Vec<Script> = (0..SCRIPTS).filter_map(|n| all.get(n * STRIDE % all.len()).cloned()).collect();
    // The first use compiles an engine of its own.
    dormouse_conformance::session::engine()?;
    let mut rows = Vec::new();
    for (what, beside, aim) in [
        ("a small cell beside 2 hostile sessions", Beside::Hostile { sessions: 2, rest: Duration::ZERO }, "p99 ≤ 2"),
        ("a small cell beside 8 hostile sessions", Beside::Hostile { sessions: 8, rest: Duration::ZERO }, "p99 ≤ 2"),
        ("a small cell beside 8 hostile sessions that rested before", Beside::Hostile { sessions: 8, rest: REST }, "p99 ≤ 2"),
        ("a small cell beside 2 threads of the idle policy that only spin", Beside::Spinners(2), "–"),
        ("a small cell beside 8 threads of the idle policy that only spin", Beside::Spinners(8), "–"),
    ] {
        let (mut alone, mut besides) = (Vec::new(), Vec::new());
        for scripts in scripts.chunks(SCRIPTS / ROUNDS) {
            let half = |asked: usize| asked < QUIET_EVALS / 2;
            let mut quiet = neighbour(&engine, &lanes, half).await?;
            besides.push(Samples::of(match beside {
                Beside::Hostile { sessions, rest } => beside_hostile(&engine, &lanes, scripts, sessions, rest).await?,
                Beside::Spinners(threads) => beside_spinners(&engine, &lanes, threads).await?,
            }));
            quiet.extend(neighbour(&engine, &lanes, half).await?);
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
async fn beside_hostile(
    engine: &Engine,
    lanes: &Arc<Lanes>,
    scripts: &[Script],
    sessions: usize,
    rest: Duration,
) -> anyhow::Result<Vec<Duration>> {
    let left = Arc::new(Mutex::new(scripts.to_vec()));
    let over = Arc::new(AtomicBool::new(false));
    let mut attacks = JoinSet::new();
    for _ in 0..sessions {
        attacks.spawn(attack(Arc::clone(lanes), Arc::clone(&left), rest));
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
    Ok(attacked)
}

async fn beside_spinners(engine: &Engine, lanes: &Arc<Lanes>, spinners: usize) -> anyhow::Result<Vec<Duration>> {
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
    beside
}

/// Runs scripts that nobody has run yet, each in a session of its own, as if no one had ever seen it, that has been there for `rest`.
async fn attack(lanes: Arc<Lanes>, left: Arc<Mutex<Vec<Script>>>, rest: Duration) -> anyhow::Result<usize> {
    let mut ran = 0;
    loop {
        let next = left.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let Some(script) = next else { return Ok(ran) };
        let rested = async move {
            if !rest.is_zero() {
                tokio::time::sleep(rest).await;
            }
            hostile::run(&script).await
        };
        lanes.run(rested).await.context("the lanes have ended")??;
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
