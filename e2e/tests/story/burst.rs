//! Many sessions at once, in a pool without pods whose pods take one session each.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use serde_json::json;

use dormouse_e2e::{cluster::Cluster, kube::Kube, steps::Steps};
use dormouse_testkit::soak;

use super::{
    install,
    world::{NAMESPACE, WAIT_SECONDS, World},
};

/// How many sessions begin at once: more than the candidates that a gateway once looked at.
const SESSIONS: usize = 34;
/// Pods of one session each, so small that a machine of two cores has room for all of them.
const POOL: &str = r#"
apiVersion: dormouse.dev/v1beta1
kind: KernelPool
metadata: {name: single, namespace: NAMESPACE}
spec: {slotsPerPod: 1, warmPods: 0, maxPods: 40, resources: {requests: {cpu: 1m, memory: 64Mi}, limits: {memory: 512Mi}}}
"#;

/// Installs, and begins them.
pub async fn begins(cluster: &Cluster, kube: Kube, steps: &mut Steps) -> Result<()> {
    steps.run("an S3 store and an HTTP service", install::surroundings(&kube)).await?;
    steps.run("helm install", install::helm(&kube, "")).await?;
    steps.run("the README's files", install::apply_examples(&kube)).await?;
    let world = World::new(cluster, kube).await.context("a client of the gateway")?;
    world.kube.apply(&POOL.replace("NAMESPACE", NAMESPACE)).await?;
    steps.run(&format!("{SESSIONS} sessions of a pod each begin"), all_at_once(&world)).await?;
    steps.run("all of them deleted, the pool has no pod any more", no_pod_is_left(&world)).await
}

/// Each is made and answered, once.
async fn all_at_once(world: &World) -> Result<()> {
    let names: Vec<String> = (0..SESSIONS).map(|number| format!("burst-{number}")).collect();
    let began = Instant::now();
    let times = try_join_all(names.iter().map(async |name| {
        world.api.create(name, json!({"pool": "single"})).await?;
        let value = world.api.insist(name, "globalThis.n = (globalThis.n ?? 0) + 1", "first", u64::from(WAIT_SECONDS)).await?;
        ensure!(value == 1, "{name}: {value}");
        anyhow::Ok(began.elapsed())
    }))
    .await?;
    soak::report(&says(times));
    Ok(())
}

async fn no_pod_is_left(world: &World) -> Result<()> {
    world.kube.kubectl(&format!("delete kernelsession --all --wait --timeout={WAIT_SECONDS}s")).await?;
    let empty = r#"jsonpath={.status.conditions[?(@.type=="Ready")].reason}=ScaledToZero"#;
    world.kube.wait(empty, "kernelpool/single", WAIT_SECONDS).await
}

fn says(mut times: Vec<Duration>) -> String {
    times.sort();
    let seconds = |at: usize| times.get(at).unwrap_or(&Duration::ZERO).as_secs_f64();
    let (first, middle, last) = (seconds(0), seconds(times.len() / 2), seconds(times.len() - 1));
    format!(
        "{} sessions of a pod each at once: the first answer after {first:.1} s, half after {middle:.1} s, all after {last:.1} s",
        times.len()
    )
}
