//! Step 6: what the product runs on is killed under load, one process after the other. Nothing that was answered is lost, done twice or told otherwise
//! later.
//!
//! A story kills as often as it takes to meet every kind of process twice; a soak (`cargo xtask soak story`) every ten
//! seconds for twenty minutes.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures::future::try_join_all;

use dormouse_e2e::pods::Pods;
use dormouse_testkit::soak;

use super::{
    clients::{Client, Patience, wait_for_cells, work_during},
    world::{NAMESPACE, SYSTEM, WAIT_SECONDS, World},
};

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

/// How often it is looked whether a process runs.
const POLL: Duration = Duration::from_millis(100);

/// Kills under load; then every session is looked at.
pub async fn nothing_is_lost(world: &World) -> Result<()> {
    let kills = soak::count(KILLS, SOAK_KILLS);
    let soak = kills == SOAK_KILLS;
    let clients = try_join_all((0..CLIENTS).map(|number| Client::new(world, format!("killed-{number}"), Patience::Insists))).await?;
    let rounds = async {
        for number in 0..kills {
            wait(&clients, soak).await?;
            kill(world, number).await?;
        }
        wait(&clients, false).await
    };
    let cells = work_during(&clients, rounds).await?;
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
    wait_for_cells(clients, CELLS_BETWEEN).await
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
