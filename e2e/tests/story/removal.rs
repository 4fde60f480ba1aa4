//! Steps 8 and 9: a tenant goes with its namespace, and then everything, as the page says.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use dormouse_e2e::{bucket::Bucket, cluster::root, kube::Kube};

use super::world::{WAIT_SECONDS, World};

/// Pause between two looks.
const POLL: Duration = Duration::from_millis(100);
const TENANT: &str = "leaving";

/// Stores something when it is made, and sleeps.
const SESSION: &str = "
apiVersion: dormouse.dev/v1alpha1
kind: KernelSession
metadata: {name: last, namespace: leaving}
spec: {idleSeconds: 1, bootstrap: {code: \"globalThis.kept = 'x'.repeat(100000); 1\"}}
";

/// Where it is said how.
const PAGE: &str = "docs/installing.md";
const HEADING: &str = "## Remove";
/// The values of whoever reads it.
const VALUES: &str = "my-values.yaml";

/// Kinds that no namespace has.
const OF_THE_CLUSTER: &str =
    "clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings,customresourcedefinitions,namespaces";
/// Kinds that the operator makes for tenants.
const OF_TENANTS: &str = "deployments,pods,services,secrets,configmaps,networkpolicies,poddisruptionbudgets,serviceaccounts";

/// `kubectl delete namespace`: nothing of it is left in the bucket.
pub async fn a_tenant_goes_with_its_namespace(world: &World) -> Result<()> {
    world.kube.kubectl(&format!("create namespace {TENANT}")).await?;
    world.kube.apply(SESSION).await?;
    world.kube.wait("condition=Hibernated", &format!("kernelsession/last -n {TENANT}"), WAIT_SECONDS).await?;
    let stored = world.bucket.of_tenant(TENANT).await?;
    ensure!(stored.iter().any(|key| key.ends_with("/head")), "nothing is stored of it: {stored:?}");
    world.kube.kubectl(&format!("delete namespace {TENANT} --timeout={WAIT_SECONDS}s")).await?;
    let left = world.bucket.of_tenant(TENANT).await?;
    ensure!(left.is_empty(), "left in the bucket: {left:?}");
    Ok(())
}

/// What the page says, line by line: nothing of the product is left in the cluster, and nothing of a session in the bucket.
pub async fn everything_goes(kube: &Kube, bucket: &Bucket) -> Result<()> {
    follow(kube, HEADING, VALUES).await?;
    let left = bucket.sessions().await?;
    ensure!(left.is_empty(), "left in the bucket: {left:?}");
    let of_the_cluster = kube.kubectl(&format!("get {OF_THE_CLUSTER} -o name")).await?;
    let left: Vec<&str> = of_the_cluster.lines().filter(|name| name.contains("dormouse")).collect();
    ensure!(left.is_empty(), "left in the cluster: {left:?}");
    // What a pool or a broker owns goes after it.
    let deadline = Instant::now() + Duration::from_secs(u64::from(WAIT_SECONDS));
    loop {
        let left = kube.kubectl(&format!("get {OF_TENANTS} -A -l app.kubernetes.io/managed-by=dormouse-operator -o name")).await?;
        if left.is_empty() {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "left of tenants: {left}");
        tokio::time::sleep(POLL).await;
    }
}

/// Runs the first commands below a heading of the page, with the values of this file.
pub async fn follow(kube: &Kube, heading: &str, values: &str) -> Result<()> {
    let page = std::fs::read_to_string(root().join(PAGE))?;
    let commands = page.split_once(heading).and_then(|(_, rest)| rest.split("```").nth(1)).context("no commands")?;
    for line in commands.lines().skip(1) {
        match line.split_once(' ') {
            Some(("kubectl", args)) => kube.kubectl(&format!("{args} --timeout={WAIT_SECONDS}s")).await?,
            Some(("helm", args)) => kube.helm(&args.replace(VALUES, values)).await?,
            _ => bail!("{PAGE}: what is `{line}`?"),
        };
    }
    Ok(())
}
