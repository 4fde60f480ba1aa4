//! Step 6: what the product runs on is killed under load, one process after the other. Nothing that was answered is lost, done twice or told otherwise
//! later.
//!
//! A story kills as often as it takes to meet every kind of process twice; a soak (`DORMOUSE_SOAK=1 cargo xtask test --story`) every ten
//! seconds for twenty minutes.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use futures::future::{join, try_join_all};
use serde_json::json;

use dormouse_e2e::pods::Pods;
use dormouse_protocol::event::{Event, EventBody};
use dormouse_testkit::soak;

use super::world::{NAMESPACE, SYSTEM, WAIT_SECONDS, World};

/// Clients, each with a session of its own, which do nothing but run cells.
const CLIENTS: usize = 4;

/// What is killed in turn: the namespace of its pods, their component, which is the container's name too.
const KILLED: [(&str, &str); 3] = [(NAMESPACE, "kernel"), (SYSTEM, "gateway"), (SYSTEM, "operator")];

/// Kills of a story, and of a soak.
const KILLS: u64 = 6;
const SOAK_KILLS: u64 = 120;

/// Time between two kills of a soak.
const SOAK_PAUSE: Duration = Duration::from_secs(10);

/// Cells that every client has had answered between two kills of a story.
const CELLS_BETWEEN: u64 = 5;

/// How often it is looked whether they have.
const POLL: Duration = Duration::from_millis(100);

/// A client, and what it was answered.
struct Client<'a> {
    world: &'a World,
    session: String,
    answered: AtomicU64,
}

impl<'a> Client<'a> {
    async fn new(world: &'a World, number: usize) -> Result<Self> {
        let session = format!("killed-{number}");
        world.api.create(&session, json!({})).await?;
        Ok(Self { world, session, answered: AtomicU64::default() })
    }

    fn answered(&self) -> u64 {
        self.answered.load(Ordering::SeqCst)
    }

    /// Runs one cell after the other until it is told to stop. Each must be answered in time, and find what all before it did, once.
    async fn work(&self, stop: &AtomicBool) -> Result<()> {
        while !stop.load(Ordering::SeqCst) {
            let number = self.answered();
            let code = format!("globalThis.log ??= []; log.push({number}); console.log('cell {number}'); log.length");
            let value = self.world.api.insist(&self.session, &code, &format!("cell-{number}"), u64::from(WAIT_SECONDS)).await?;
            ensure!(value == number + 1, "{}: cell {number} found {value} where it should be the {}th", self.session, number + 1);
            self.answered.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }

    /// The session has each cell once, in order; and so do its events, as far back as they are kept.
    async fn check(&self) -> Result<()> {
        let cells = self.answered();
        let log = self.world.api.value(&self.session, "log").await?;
        ensure!(log == json!((0..cells).collect::<Vec<_>>()), "{}: {log}", self.session);
        let told = self.world.api.events(&self.session).await?;
        let seqs: Vec<u64> = told.iter().map(|event| event.seq).collect();
        let first = *seqs.first().context("no event")?;
        ensure!(seqs.iter().zip(first..).all(|(seq, expected)| *seq == expected), "{}: a gap or a double in {seqs:?}", self.session);
        let printed = |event: &Event| match &event.body {
            EventBody::Log { text, .. } => Some(text.clone()),
            _ => None,
        };
        let printed: Vec<String> = told.iter().filter_map(printed).collect();
        let expected: Vec<String> = (0..cells).map(|number| format!("cell {number}")).collect();
        ensure!(!printed.is_empty() && expected.ends_with(&printed), "{}: {printed:?}", self.session);
        Ok(())
    }
}

/// Kills under load; then every session is looked at.
pub async fn nothing_is_lost(world: &World) -> Result<()> {
    let kills = soak::count(KILLS, SOAK_KILLS);
    let soak = kills == SOAK_KILLS;
    let clients = try_join_all((0..CLIENTS).map(|number| Client::new(world, number))).await?;
    let stop = AtomicBool::new(false);
    let killing = async {
        let rounds = async {
            for number in 0..kills {
                wait(&clients, soak).await?;
                kill(world, number).await?;
            }
            wait(&clients, false).await
        };
        let killed = rounds.await;
        stop.store(true, Ordering::SeqCst);
        killed
    };
    let (killed, worked) = join(killing, try_join_all(clients.iter().map(|client| client.work(&stop)))).await;
    worked?;
    killed?;
    for client in &clients {
        client.check().await?;
    }
    let cells: u64 = clients.iter().map(Client::answered).sum();
    soak::report(&format!("{kills} kills under load, {cells} cells answered, each once"));
    let available = format!("wait --for=condition=Available --timeout={WAIT_SECONDS}s deployment --all -n {SYSTEM}");
    world.kube.kubectl(&available).await.map(drop)
}

/// Until the next kill: what is to be killed must have been worked with.
async fn wait(clients: &[Client<'_>], soak: bool) -> Result<()> {
    if soak {
        tokio::time::sleep(SOAK_PAUSE).await;
        return Ok(());
    }
    let before: Vec<u64> = clients.iter().map(Client::answered).collect();
    let deadline = Instant::now() + Duration::from_secs(u64::from(WAIT_SECONDS));
    while clients.iter().zip(&before).any(|(client, before)| client.answered() < before + CELLS_BETWEEN) {
        ensure!(Instant::now() < deadline, "no {CELLS_BETWEEN} cells in {WAIT_SECONDS} s");
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

/// SIGKILL of a process; its pod goes with it, as with its node, so that kubelet does not hold the next one back.
async fn kill(world: &World, number: u64) -> Result<()> {
    let number = usize::try_from(number)?;
    let (namespace, component) = KILLED[number % KILLED.len()];
    let deadline = Instant::now() + Duration::from_secs(u64::from(WAIT_SECONDS));
    // One that has just been made may not run yet.
    let (pod, pid) = loop {
        let pods = world.pods_of(namespace, component).await?;
        let running = pods.into_iter().filter_map(|pod| world.pods.pid(namespace, &pod, component).ok().map(|pid| (pod, pid)));
        match running.min_by_key(|(_, pid)| *pid) {
            Some(oldest) => break oldest,
            None => ensure!(Instant::now() < deadline, "no {component} runs after {WAIT_SECONDS} s"),
        }
        tokio::time::sleep(POLL).await;
    };
    Pods::kill(pid)?;
    world.kube.kubectl(&format!("delete pod {pod} -n {namespace} --grace-period=0 --force --wait=false")).await.map(drop)
}
