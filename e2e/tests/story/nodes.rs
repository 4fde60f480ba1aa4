//! Two nodes, of which one is drained, and later lost, as by a power failure. Kernel pods are on both.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;

use dormouse_e2e::{cluster::Cluster, kube::Kube, steps::Steps};
use dormouse_testkit::soak;

use super::{
    clients::{Client, Patience, wait_for_cells, work_during},
    install,
    world::{NAMESPACE, WAIT_SECONDS, World},
};

/// How many nodes there are.
pub const NODES: u32 = 2;
/// Clients, each with a session of its own: enough that both nodes have some.
const CLIENTS: usize = 8;
/// Cells that every client has had answered before what comes next.
const CELLS_BETWEEN: u64 = 5;
/// Pause between two looks.
const POLL: Duration = Duration::from_millis(100);
/// What is not to be lost with the second node: a client of a gateway that is gone with its node waits as long as Kubernetes sends it there.
const ON_THE_FIRST: &str =
    "--set gateway.nodeSelector.kubernetes\\.io/hostname=node1 --set operator.nodeSelector.kubernetes\\.io/hostname=node1";

/// Installs, drains, loses.
pub async fn come_and_go(cluster: &Cluster, kube: Kube, steps: &mut Steps) -> Result<()> {
    kube.kubectl("cordon node2").await?;
    steps.run("an S3 store and an HTTP service", install::surroundings(&kube)).await?;
    steps.run("helm install", install::helm(&kube, ON_THE_FIRST)).await?;
    steps.run("the README's files", install::apply_examples(&kube)).await?;
    let world = World::new(cluster, kube).await.context("a client of the gateway")?;
    steps.run("a kernel pod on each node", spread(&world)).await?;
    steps.run("a node is drained under load", drained(&world)).await?;
    steps.run("a kernel pod on each node", spread(&world)).await?;
    steps.run("a node is lost under load", lost(cluster, &world)).await
}

/// Names of the kernel pods on a node that are not on their way out.
async fn kernel_pods_on(world: &World, node: &str) -> Result<Vec<String>> {
    let pods =
        world.kube.get(&format!("pods -n {NAMESPACE} -l dormouse.dev/component=kernel --field-selector=spec.nodeName={node}")).await?;
    let living = pods["items"].as_array().context("items")?.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    Ok(living.filter_map(|pod| pod["metadata"]["name"].as_str().map(str::to_owned)).collect())
}

/// Two pods, of which one is on each node, ready.
async fn spread(world: &World) -> Result<()> {
    world.kube.kubectl("uncordon node2").await?;
    world
        .kube
        .kubectl_args(&["patch", "kernelpool", "default", "--type=merge", "-p", r#"{"spec":{"warmPods":2,"slotsPerPod":20}}"#])
        .await?;
    let deadline = Instant::now() + Duration::from_secs(u64::from(WAIT_SECONDS));
    while kernel_pods_on(world, "node2").await?.is_empty() {
        // What is there when a node comes stays where it is: one has to go for another to come there.
        if let [pod, _, ..] = kernel_pods_on(world, "node1").await?.as_slice() {
            world.kube.kubectl("cordon node1").await?;
            world.kube.kubectl(&format!("delete pod {pod} --timeout={WAIT_SECONDS}s")).await?;
            world.kube.kubectl("uncordon node1").await?;
        }
        ensure!(Instant::now() < deadline, "no kernel pod on node2 after {WAIT_SECONDS} s");
        tokio::time::sleep(POLL).await;
    }
    world.kube.kubectl(&format!("rollout status deployment/dormouse-kernel-default --timeout={WAIT_SECONDS}s")).await?;
    Ok(())
}

/// Clients with sessions of their own, some of which are on the second node.
async fn clients<'a>(world: &'a World, name: &str, patience: Patience) -> Result<Vec<Client<'a>>> {
    let clients = try_join_all((0..CLIENTS).map(|number| Client::new(world, format!("{name}-{number}"), patience))).await?;
    work_during(&clients, wait_for_cells(&clients, 1)).await?;
    let pods = kernel_pods_on(world, "node2").await?;
    let placed = try_join_all(clients.iter().map(|client| world.api.session(client.session()))).await?;
    let there = placed.iter().filter(|session| session.status.placement.as_ref().is_some_and(|placement| pods.contains(&placement.pod)));
    ensure!(there.count() > 0, "no session is on node2, on {pods:?}");
    Ok(clients)
}

/// `kubectl drain`: no client has a failure to handle.
async fn drained(world: &World) -> Result<()> {
    let clients = clients(world, "drained", Patience::None).await?;
    let drain = async {
        wait_for_cells(&clients, CELLS_BETWEEN).await?;
        world.kube.kubectl(&format!("drain node2 --ignore-daemonsets --delete-emptydir-data --timeout={WAIT_SECONDS}s")).await?;
        ensure!(kernel_pods_on(world, "node2").await?.is_empty(), "a drained node has a kernel pod");
        wait_for_cells(&clients, CELLS_BETWEEN).await
    };
    let cells = work_during(&clients, drain).await?;
    soak::report(&format!("a node drained under load: {cells} cells answered, none sent twice"));
    Ok(())
}

/// A power failure: what was answered is there, each cell once.
async fn lost(cluster: &Cluster, world: &World) -> Result<()> {
    let clients = clients(world, "lost", Patience::Insists).await?;
    let mut silent = Duration::ZERO;
    let lose = async {
        wait_for_cells(&clients, CELLS_BETWEEN).await?;
        cluster.lose(NODES)?;
        let began = Instant::now();
        // One answer may have been on its way.
        wait_for_cells(&clients, 2).await?;
        silent = began.elapsed();
        wait_for_cells(&clients, CELLS_BETWEEN).await
    };
    let cells = work_during(&clients, lose).await?;
    soak::report(&format!(
        "a node lost under load: {cells} cells answered, each once; after {:.1} s every client has an answer",
        silent.as_secs_f64()
    ));
    Ok(())
}
