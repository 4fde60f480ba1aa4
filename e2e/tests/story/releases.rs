//! The release before this one runs, is followed by this one under load, and comes back, with the sessions that were made meanwhile.
//! `cargo xtask soak upgrade` makes its images.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

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
/// A session that this release makes with the engine of the one before.
const NEW: &str = "new";
/// A session that this release makes with its newest engine.
const NEWEST: &str = "newest";
/// A cell that makes a counter, and counts.
const COUNTER: &str = "var next = (n => () => ++n)(0); next()";

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

/// A release as it is installed.
struct Release<'a> {
    chart: &'a Path,
    tag: &'a str,
    /// Digest of the engine that its new sessions get, unless that is its newest.
    engine: Option<&'a str>,
}

impl<'a> Release<'a> {
    fn before(releases: &'a Releases) -> Self {
        Self { chart: &releases.before.0, tag: "before", engine: None }
    }

    fn now(releases: &'a Releases, engine: Option<&'a str>) -> Self {
        Self { chart: &releases.now.0, tag: "dev", engine }
    }
}

/// Installs the release before, and has this one follow it, and it this one, twice.
pub async fn follow(releases: &Releases, cluster: &Cluster, kube: Kube, steps: &mut Steps) -> Result<()> {
    steps.run("an S3 store and an HTTP service", install::surroundings(&kube)).await?;
    kube.kubectl(&format!("create namespace {SYSTEM}")).await?;
    steps.run("the release before", helm(&kube, "install", &Release::before(releases))).await?;
    steps.run("the README's files", install::apply_examples(&kube)).await?;
    let world = World::new(cluster, kube).await.context("a client of the gateway")?;
    world.api.create(SLEEPER, json!({})).await?;
    world.api.value(SLEEPER, COUNTER).await?;
    let earlier = world.api.engine(SLEEPER).await?;
    let made = (0..CLIENTS).map(|number| Client::new(&world, format!("upgraded-{number}"), Patience::None));
    let clients = try_join_all(made).await?;
    let (mut counted, mut meanwhile, mut tag) = (1, BTreeMap::new(), "before");
    let rounds = async {
        for (release, name) in [
            (Release::now(releases, Some(&earlier)), "this release follows"),
            (Release::before(releases), "the one before follows"),
            (Release::now(releases, None), "this release follows, with its newest engine"),
            (Release::now(releases, Some(&earlier)), "with the engine of the one before"),
            (Release::before(releases), "the one before follows again"),
        ] {
            // It sleeps where one release put it, and wakes in the other, as each command line asks.
            world.api.hibernate(SLEEPER).await?;
            wait_for_cells(&clients, CELLS_BETWEEN).await?;
            steps.run(name, replaced(&world, &release, tag == release.tag)).await?;
            tag = release.tag;
            for client in [&releases.before.1, &releases.now.1] {
                counted += 1;
                let said = asks(&world, client, "next()").await?;
                ensure!(said.trim() == counted.to_string(), "{}: {said}", client.display());
            }
            made_meanwhile(&world, &release, &earlier, &mut meanwhile).await.context(name)?;
        }
        wait_for_cells(&clients, CELLS_BETWEEN).await
    };
    let cells = work_during(&clients, rounds).await?;
    soak::report(&format!("two releases followed one another four times under load: {cells} cells answered, none sent twice"));
    Ok(())
}

/// Makes sessions in this release, and asks those that were made, which have counted so far. One with the newest engine moves to the one of before.
async fn made_meanwhile(world: &World, release: &Release<'_>, earlier: &str, counted: &mut BTreeMap<&str, u64>) -> Result<()> {
    let made = match (release.tag, release.engine) {
        ("dev", Some(_)) => Some(NEW),
        ("dev", None) => Some(NEWEST),
        _ => None,
    };
    if let Some(name) = made.filter(|name| !counted.contains_key(name)) {
        world.api.create(name, json!({})).await?;
        world.api.value(name, COUNTER).await?;
        let has_earlier = world.api.engine(name).await? == earlier;
        ensure!(has_earlier == release.engine.is_some(), "{name} has another engine than is said");
        counted.insert(name, 1);
    }
    for (name, count) in counted {
        if release.engine.is_some() && world.api.engine(name).await? != earlier {
            world.api.migrate(name).await?;
        }
        *count += 1;
        let said = world.api.value(name, "next()").await?;
        ensure!(said == json!(count), "{name} counts {said} and not {count}");
        world.api.hibernate(name).await?;
    }
    Ok(())
}

async fn helm(kube: &Kube, verb: &str, release: &Release<'_>) -> Result<()> {
    let Release { chart, tag, engine } = release;
    let engine = engine.map(|digest| format!(" --set kernel.engine={digest}")).unwrap_or_default();
    let values = format!("--values e2e/manifests/values.yaml --set image.tag={tag}{engine}");
    kube.helm(&format!("{verb} dormouse {} --namespace {SYSTEM} {values} --wait --timeout {WAIT_SECONDS}s", chart.display())).await?;
    Ok(())
}

/// Has helm go, and waits until nothing of before runs any more. `same_images`: only kernel pods are others then.
async fn replaced(world: &World, release: &Release<'_>, same_images: bool) -> Result<()> {
    let mut before = pods(world).await?;
    if same_images {
        let kernels = world.pods_of(NAMESPACE, "kernel").await?;
        before.retain(|(_, pod)| kernels.contains(pod));
    }
    helm(&world.kube, "upgrade", release).await?;
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
