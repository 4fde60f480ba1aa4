//! What a KernelQuota limits by the second, counted by one gateway for all.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use dormouse_client::Error;
use dormouse_e2e::api::Api;
use futures::future::try_join_all;
use serde_json::json;

use super::world::{NAMESPACE, SYSTEM, World};

const LIMIT: u64 = 10;
const SESSION: &str = "counted";
/// Clients of each gateway.
const CLIENTS: usize = 3;
/// How soon a gateway has seen a quota.
const SEEN: Duration = Duration::from_secs(15);

/// Through two gateways together go as many cells a second as are allowed, and not twice as many.
pub async fn is_exact(world: &World) -> Result<()> {
    let pods = world.kube.get(&format!("pods -n {SYSTEM} -l dormouse.dev/component=gateway --field-selector=status.phase=Running")).await?;
    let items = pods["items"].as_array().context("items")?;
    let living = items.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    let addresses: Vec<&str> = living.filter_map(|pod| pod["status"]["podIP"].as_str()).collect();
    ensure!(addresses.len() == 2, "{addresses:?}");
    let token = world.kube.kubectl("create token app --audience dormouse").await?;
    let apis = addresses.iter().map(|address| Api::new(&format!("http://{address}:7777"), NAMESPACE, token.trim()));
    let apis: Vec<Api> = apis.collect::<Result<_>>()?;

    world.api.create(SESSION, json!({})).await?;
    world.api.value(SESSION, "1").await?;
    let quota =
        format!("apiVersion: dormouse.dev/v1alpha1\nkind: KernelQuota\nmetadata: {{name: counted}}\nspec: {{evalsPerSecond: {LIMIT}}}\n");
    world.kube.apply(&quota).await?;
    for api in &apis {
        until_limited(api).await?;
    }
    let (begun, until) = (second()?, second()? + 3);
    let clients = apis.iter().flat_map(|api| (0..CLIENTS).map(move |_| cells_until(api, until)));
    let cells: u64 = try_join_all(clients).await?.into_iter().sum();
    // One that was sent in the last second may have been counted in the next.
    let seconds = second()? - begun + 1;
    ensure!((2 * LIMIT..=seconds * LIMIT).contains(&cells), "{cells} cells in {seconds} s, of which {LIMIT} are allowed in each");
    world.kube.kubectl("delete kernelquota counted").await?;
    world.api.delete(SESSION).await
}

/// Until the gateway refuses more cells than are allowed.
async fn until_limited(api: &Api) -> Result<()> {
    let deadline = second()? + SEEN.as_secs();
    while try_join_all((0..=2 * LIMIT).map(|_| is_begun(api))).await?.into_iter().all(|begun| begun) {
        ensure!(second()? < deadline, "the quota is not in force");
    }
    Ok(())
}

/// Sends cells until that second. Answers how many were let through.
async fn cells_until(api: &Api, until: u64) -> Result<u64> {
    let mut begun = 0;
    while second()? < until {
        begun += u64::from(is_begun(api).await?);
    }
    Ok(begun)
}

async fn is_begun(api: &Api) -> Result<bool> {
    match api.eval(SESSION, "1").await {
        Ok(_) => Ok(true),
        Err(error) => match error.downcast_ref::<Error>() {
            Some(Error::Api { status: Some(429), .. }) => Ok(false),
            _ => Err(error),
        },
    }
}

fn second() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}
