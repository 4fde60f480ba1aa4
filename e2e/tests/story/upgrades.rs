//! Step 6: the release is upgraded under load, and gone back from. Every process is replaced each time, and no client has a failure to handle.

use anyhow::{Result, ensure};
use futures::future::try_join_all;

use dormouse_testkit::soak;

use super::{
    clients::{Client, Patience, wait_for_cells, work_during},
    world::{NAMESPACE, SYSTEM, WAIT_SECONDS, World},
};

/// Clients, each with a session of its own.
const CLIENTS: usize = 4;
/// Upgrades of a story, and of a soak; each is gone back from.
const UPGRADES: u64 = 1;
const SOAK_UPGRADES: u64 = 10;
/// Cells that every client has had answered before what comes next.
const CELLS_BETWEEN: u64 = 5;

/// What the next release has otherwise: something of every process, and the version that objects are stored as.
const NEXT: &str = "--set gateway.podAnnotations.release=next --set operator.podAnnotations.release=next --set crds.storedVersion=v1beta1 \
                    --set kernel.diskCacheBytes=536870912 --set broker.resources.requests.cpu=11m";
/// What the operator makes of it, by Deployment: where that stands, in the next release and in this one. The limit of a kernel pod's cache, and what a
/// broker requests.
const MADE: [(&str, &str, &str, &str); 2] = [
    ("dormouse-kernel-default", "{.spec.template.spec.volumes[?(@.name==\"disk-cache\")].emptyDir.sizeLimit}", "603979776", "1140850688"),
    ("tools-broker", "{.spec.template.spec.containers[0].resources.requests.cpu}", "11m", "50m"),
];

/// There and back again under load.
pub async fn nobody_notices(world: &World) -> Result<()> {
    let upgrades = soak::count(UPGRADES, SOAK_UPGRADES);
    let made = (0..CLIENTS).map(|number| Client::new(world, format!("upgraded-{number}"), Patience::None));
    let clients = try_join_all(made).await?;
    let rounds = async {
        for _ in 0..upgrades {
            wait_for_cells(&clients, CELLS_BETWEEN).await?;
            replaced(world, Way::There).await?;
            wait_for_cells(&clients, CELLS_BETWEEN).await?;
            replaced(world, Way::Back).await?;
        }
        wait_for_cells(&clients, CELLS_BETWEEN).await
    };
    let cells = work_during(&clients, rounds).await?;
    soak::report(&format!("{upgrades} upgrades under load, each gone back from: {cells} cells answered, none sent twice"));
    Ok(())
}

/// From the release to the next one, or back.
#[derive(Clone, Copy)]
enum Way {
    There,
    Back,
}

/// Has helm go, and waits until nothing of before runs any more.
async fn replaced(world: &World, way: Way) -> Result<()> {
    let before = pods(world).await?;
    let command = match way {
        Way::There => format!("upgrade dormouse charts/dormouse --values e2e/manifests/values.yaml {NEXT}"),
        Way::Back => "rollback dormouse".to_owned(),
    };
    world.kube.helm(&format!("{command} --namespace {SYSTEM} --wait --timeout {WAIT_SECONDS}s")).await?;
    for (deployment, path, next, former) in MADE {
        let wanted = match way {
            Way::There => next,
            Way::Back => former,
        };
        world.kube.wait(&format!("jsonpath={path}={wanted}"), &format!("deployment/{deployment}"), WAIT_SECONDS).await?;
        world.kube.kubectl(&format!("rollout status deployment/{deployment} --timeout={WAIT_SECONDS}s")).await?;
    }
    are_gone(world, before).await
}

/// Waits until none of these pods is there.
pub async fn are_gone(world: &World, pods: Vec<(&'static str, String)>) -> Result<()> {
    for (namespace, pod) in pods {
        world.kube.kubectl(&format!("wait --for=delete pod/{pod} -n {namespace} --timeout={WAIT_SECONDS}s")).await?;
    }
    Ok(())
}

/// Every pod of the product, by namespace and name.
pub async fn pods(world: &World) -> Result<Vec<(&'static str, String)>> {
    let mut all = Vec::new();
    for (namespace, component) in [(SYSTEM, "operator"), (SYSTEM, "gateway"), (NAMESPACE, "kernel"), (NAMESPACE, "broker")] {
        let found = world.pods_of(namespace, component).await?;
        ensure!(!found.is_empty(), "no {component} runs");
        all.extend(found.into_iter().map(|pod| (namespace, pod)));
    }
    Ok(all)
}
