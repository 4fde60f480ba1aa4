//! Default-deny network: what a kernel pod, and somebody beside it, can reach.

use anyhow::{Context, Result, ensure};

use dormouse_e2e::pods::Pods;

use super::world::{BROKER, NAMESPACE, SYSTEM, World, service_address};

/// Ports of a kernel pod: sessions, probes.
const KERNEL_PORTS: [u16; 2] = [7443, 8080];

/// A kernel pod reaches storage and its namespace's brokers and nothing else; a pod beside it reaches neither it nor the broker.
///
/// Each forbidden connection has one beside it that opens, from the same pod or to the same address, so that a refusal is the policy's.
pub async fn is_closed(world: &World) -> Result<()> {
    let kernel = one_pod(world, "dormouse.dev/component=kernel", "kernel").await?;
    let broker = one_pod(world, "dormouse.dev/component=broker", "broker").await?;
    let widgets = one_pod(world, "app=widgets", "widgets").await?;
    let minio = service_address(&world.kube, "storage", "minio").await?;
    let broker_service = service_address(&world.kube, NAMESPACE, &format!("{BROKER}-broker")).await?;
    let widgets_service = service_address(&world.kube, NAMESPACE, "widgets").await?;
    let gateway = service_address(&world.kube, SYSTEM, "dormouse-gateway").await?;
    let api_server = service_address(&world.kube, NAMESPACE, "kubernetes").await?;

    let mut opens = vec![(&kernel, minio.clone()), (&kernel, broker_service.clone()), (&broker, widgets_service.clone())];
    // Its journal of calls is there.
    opens.push((&broker, minio.clone()));
    opens.extend([(&widgets, minio), (&widgets, gateway.clone()), (&widgets, api_server.clone())]);
    let mut closed = vec![(&kernel, widgets_service), (&kernel, gateway), (&kernel, api_server), (&widgets, broker_service)];
    closed.extend(KERNEL_PORTS.map(|port| (&widgets, format!("{}:{port}", kernel.ip))));
    let gateway_pod = one_pod_of(world, SYSTEM, "dormouse.dev/component=gateway", "gateway").await?;
    opens.push((&widgets, format!("{}:7777", gateway_pod.ip)));
    closed.extend([&widgets, &kernel].map(|from| (from, format!("{}:7446", gateway_pod.ip))));

    for (wanted, pairs) in [(true, opens), (false, closed)] {
        for (from, to) in pairs {
            let connected = Pods::connects(from.pid, &to)?;
            ensure!(connected == wanted, "{} -> {to}: connected is {connected}", from.name);
        }
    }
    Ok(())
}

struct Pod {
    name: String,
    ip: String,
    pid: u32,
}

async fn one_pod(world: &World, selector: &str, container: &str) -> Result<Pod> {
    one_pod_of(world, NAMESPACE, selector, container).await
}

async fn one_pod_of(world: &World, namespace: &str, selector: &str, container: &str) -> Result<Pod> {
    let pods = world.kube.get(&format!("pods -n {namespace} -l {selector} --field-selector=status.phase=Running")).await?;
    let items = pods["items"].as_array().context("items")?;
    let pod = items.iter().find(|pod| pod["metadata"]["deletionTimestamp"].is_null()).with_context(|| format!("no pod {selector}"))?;
    let name = pod["metadata"]["name"].as_str().context("name")?.to_owned();
    let ip = pod["status"]["podIP"].as_str().context("podIP")?.to_owned();
    let pid = world.pods.pid(namespace, &name, container)?;
    Ok(Pod { name, ip, pid })
}
