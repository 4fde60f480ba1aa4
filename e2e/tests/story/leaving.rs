//! Steps 13 and 14: namespaces whose pools name a bucket go together, and a release goes before what it looks after.

use anyhow::{Context, Result, ensure};

use super::{
    defaults::{HELPED, Installed, TEAMS, VALUES},
    removal,
    world::{SYSTEM, WAIT_SECONDS},
};

/// Tenants that go together, and one that stays for longer.
const TOGETHER: [&str; 5] = ["tenant-0", "tenant-1", "tenant-2", "tenant-3", "tenant-4"];
const LAST: &str = "tenant-last";
const TENANT: &str = include_str!("../../manifests/tenant.yaml");

/// Where the page says what is to be done.
const HEADING: &str = "### When the release was uninstalled first";
/// What a session and a pool wait for.
const FINALIZERS: [&str; 2] = ["dormouse.dev/storage", "dormouse.dev/sessions"];

/// Each has a session that sleeps and one that is live.
pub async fn come(installed: &Installed<'_>) -> Result<()> {
    let Installed { kube, tenants, .. } = installed;
    tenants.create().await?;
    let all = || TOGETHER.into_iter().chain([LAST]);
    let manifests: Vec<String> = all().map(|tenant| TENANT.replace("TENANT", tenant)).collect();
    kube.apply(&manifests.join("\n---\n")).await?;
    for tenant in all() {
        kube.wait("condition=Hibernated", &format!("kernelsession/asleep -n {tenant}"), WAIT_SECONDS).await?;
        kube.wait("condition=Ready", &format!("kernelsession/awake -n {tenant}"), WAIT_SECONDS).await?;
        let stored = tenants.of_tenant(tenant).await?;
        ensure!(stored.iter().any(|key| key.ends_with("/head")), "nothing is stored of {tenant}: {stored:?}");
    }
    Ok(())
}

/// `kubectl delete namespace` of all of them: their Secrets go, and nothing stays in the bucket.
pub async fn go_together(installed: &Installed<'_>) -> Result<()> {
    let Installed { kube, tenants, .. } = installed;
    kube.kubectl(&format!("delete namespace {} --timeout={WAIT_SECONDS}s", TOGETHER.join(" "))).await?;
    for tenant in TOGETHER {
        let left = tenants.of_tenant(tenant).await?;
        ensure!(left.is_empty(), "left in the bucket: {left:?}");
    }
    ensure!(!tenants.of_tenant(LAST).await?.is_empty(), "somebody else's objects are gone, too");
    Ok(())
}

/// What is deleted without an operator stays, with all that is stored of it, and its namespace says what it waits for.
pub async fn release_goes_first(installed: &Installed<'_>) -> Result<()> {
    let Installed { kube, bucket, tenants, .. } = installed;
    let [_, team] = TEAMS;
    kube.helm(&format!("uninstall dormouse -n {SYSTEM}")).await?;
    let operators = format!("pod -n {SYSTEM} -l dormouse.dev/component=operator");
    kube.kubectl(&format!("wait --for=delete {operators} --timeout={WAIT_SECONDS}s")).await?;
    kube.kubectl(&format!("delete kernelsession {HELPED} -n {team} --wait=false")).await?;
    kube.kubectl(&format!("delete namespace {LAST} --wait=false")).await?;
    kube.wait("condition=NamespaceFinalizersRemaining", &format!("namespace/{LAST}"), WAIT_SECONDS).await?;
    let namespace = kube.get(&format!("namespace {LAST}")).await?;
    let conditions = namespace["status"]["conditions"].as_array().context("conditions")?;
    let remaining = conditions.iter().find(|condition| condition["type"] == "NamespaceFinalizersRemaining").context("the condition")?;
    let message = remaining["message"].as_str().unwrap_or_default();
    ensure!(FINALIZERS.iter().all(|finalizer| message.contains(finalizer)), "{message}");
    let session = kube.get(&format!("kernelsession {HELPED} -n {team}")).await?;
    let waits = session["metadata"]["finalizers"].as_array().is_some_and(|all| all.iter().any(|it| it == FINALIZERS[0]));
    ensure!(waits && session["metadata"]["deletionTimestamp"].is_string(), "{session}");
    let uid = session["metadata"]["uid"].as_str().context("uid")?;
    ensure!(bucket.head(uid).await?.is_some(), "it is not stored any more");
    ensure!(!tenants.of_tenant(LAST).await?.is_empty(), "nothing is stored of {LAST} any more");
    Ok(())
}

/// What the page says: the same release again, which ends what was begun. The tenant's Secret is gone by then.
pub async fn release_is_back(installed: &Installed<'_>) -> Result<()> {
    let Installed { kube, bucket, tenants, .. } = installed;
    let [_, team] = TEAMS;
    let session = kube.get(&format!("kernelsession {HELPED} -n {team}")).await?;
    let uid = session["metadata"]["uid"].as_str().context("uid")?;
    removal::follow(kube, HEADING, VALUES).await?;
    kube.wait("delete", &format!("kernelsession/{HELPED} -n {team}"), WAIT_SECONDS).await?;
    kube.wait("delete", &format!("namespace/{LAST}"), WAIT_SECONDS).await?;
    ensure!(bucket.head(uid).await?.is_none(), "it is still stored");
    let left = tenants.objects().await?;
    ensure!(left.is_empty(), "left in the bucket: {:?}", left.keys());
    Ok(())
}
