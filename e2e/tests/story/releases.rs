//! The release before this one runs, is followed by this one under load, and comes back. `cargo xtask soak upgrade` makes its images.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use serde_json::json;
use tokio::process::Command;

use dormouse_e2e::{cluster::Cluster, kube::Kube, steps::Steps};
use dormouse_testkit::soak;

use super::{
    clients::{Client, Patience, wait_for_cells, work_during},
    install,
    upgrades::{are_gone, pods},
    world::{NAMESPACE, SYSTEM, WAIT_SECONDS, World, service_address},
};

/// Clients, each with a session of its own.
const CLIENTS: usize = 4;
/// Cells that every client has had answered before what comes next.
const CELLS_BETWEEN: u64 = 5;
/// The session that sleeps while releases follow one another.
const SLEEPER: &str = "sleeper";

/// Of the two releases, where the chart and the command line are.
pub struct Releases {
    before: (PathBuf, PathBuf),
    now: (PathBuf, PathBuf),
}

impl Releases {
    /// Those in the folder of images, if the one before is there.
    pub fn found(images: &Path) -> Option<Self> {
        let before = (images.join("chart-before"), images.join("dormouse-before"));
        let now = (PathBuf::from("charts/dormouse"), images.join("../../release/dormouse"));
        before.0.exists().then_some(Self { before, now })
    }
}

/// Installs the release before, and has this one follow it, and it this one, twice.
pub async fn follow(releases: &Releases, cluster: &Cluster, kube: Kube, steps: &mut Steps) -> Result<()> {
    steps.run("an S3 store and an HTTP service", install::surroundings(&kube)).await?;
    kube.kubectl(&format!("create namespace {SYSTEM}")).await?;
    steps.run("the release before", helm(&kube, "install", &releases.before.0, "before")).await?;
    steps.run("the README's files", install::apply_examples(&kube)).await?;
    let world = World::new(cluster, kube).await.context("a client of the gateway")?;
    world.api.create(SLEEPER, json!({})).await?;
    world.api.value(SLEEPER, "var next = (n => () => ++n)(0); next()").await?;
    let made = (0..CLIENTS).map(|number| Client::new(&world, format!("upgraded-{number}"), Patience::None));
    let clients = try_join_all(made).await?;
    let mut counted = 1;
    let rounds = async {
        for (chart, tag, name) in [
            (&releases.now.0, "dev", "this release follows"),
            (&releases.before.0, "before", "the one before follows"),
            (&releases.now.0, "dev", "this release follows again"),
        ] {
            // It sleeps where one release put it, and wakes in the other, as each command line asks.
            world.api.hibernate(SLEEPER).await?;
            wait_for_cells(&clients, CELLS_BETWEEN).await?;
            steps.run(name, replaced(&world, chart, tag)).await?;
            for client in [&releases.before.1, &releases.now.1] {
                counted += 1;
                let said = asks(&world, client, "next()").await?;
                ensure!(said.trim() == counted.to_string(), "{}: {said}", client.display());
            }
        }
        wait_for_cells(&clients, CELLS_BETWEEN).await
    };
    let cells = work_during(&clients, rounds).await?;
    soak::report(&format!("two releases followed one another three times under load: {cells} cells answered, none sent twice"));
    Ok(())
}

async fn helm(kube: &Kube, verb: &str, chart: &Path, tag: &str) -> Result<()> {
    let chart = chart.display();
    let values = format!("--values e2e/manifests/values.yaml --set image.tag={tag}");
    kube.helm(&format!("{verb} dormouse {chart} --namespace {SYSTEM} {values} --wait --timeout {WAIT_SECONDS}s")).await?;
    Ok(())
}

/// Has helm go, and waits until nothing of before runs any more.
async fn replaced(world: &World, chart: &Path, tag: &str) -> Result<()> {
    let before = pods(world).await?;
    helm(&world.kube, "upgrade", chart, tag).await?;
    are_gone(world, before).await
}

/// What a command line prints of a cell of the sleeper.
async fn asks(world: &World, client: &Path, code: &str) -> Result<String> {
    let gateway = service_address(&world.kube, SYSTEM, "dormouse-gateway").await?;
    let token = world.kube.kubectl("create token app --audience dormouse").await?;
    let mut command = Command::new(client);
    command.args(["eval", "--session", SLEEPER, "--namespace", NAMESPACE, code]);
    command.env("DORMOUSE_SERVER", format!("http://{gateway}")).env("DORMOUSE_TOKEN", token.trim());
    let said = command.output().await.with_context(|| format!("start {}", client.display()))?;
    ensure!(said.status.success(), "{}: {}", client.display(), String::from_utf8_lossy(&said.stderr));
    Ok(String::from_utf8(said.stdout)?)
}
