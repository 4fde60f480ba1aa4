//! What the steps share.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use dormouse_e2e::{api::Api, bucket::Bucket, cluster::Cluster, kube::Kube, pods::Pods, table};

/// Where the README's files are applied.
pub const NAMESPACE: &str = "default";
/// Where the product is installed.
pub const SYSTEM: &str = "dormouse-system";
/// The README's session.
pub const SESSION: &str = "analyst";
/// The README's broker.
pub const BROKER: &str = "tools";
/// The secret of the HTTP service; it must not be anywhere but in the broker.
pub const TOKEN: &str = "widgets-token-7f3c9a41e5";
/// How long anything may take before a step gives up.
pub const WAIT_SECONDS: u32 = 120;

/// Pause between two looks.
const POLL: Duration = Duration::from_millis(100);

/// A running product.
pub struct World {
    pub kube: Kube,
    pub api: Api,
    pub bucket: Bucket,
    pub pods: Pods,
    widgets: String,
    http: reqwest::Client,
}

impl World {
    /// Clients of the gateway, the bucket and the HTTP service.
    pub async fn new(cluster: &Cluster, kube: Kube) -> Result<Self> {
        let gateway = service_address(&kube, SYSTEM, "dormouse-gateway").await?;
        let widgets = service_address(&kube, NAMESPACE, "widgets").await?;
        let token = kube.kubectl("create token app --audience dormouse").await?;
        let api = Api::new(&format!("http://{gateway}"), NAMESPACE, token.trim())?;
        let bucket = Bucket::open(&kube).await?;
        let pods = Pods::new(&cluster.folder());
        let http = reqwest::Client::builder().build()?;
        Ok(Self { kube, api, bucket, pods, widgets, http })
    }

    /// How often the HTTP service was called: with the right token, with a wrong one.
    pub async fn widget_calls(&self) -> Result<(u64, u64)> {
        let calls: Value = self.http.get(format!("http://{}/calls", self.widgets)).send().await?.json().await?;
        Ok((calls["served"].as_u64().context("served")?, calls["refused"].as_u64().context("refused")?))
    }

    /// The row of `kubectl get kernelsessions -o wide` for a session: what a person sees.
    pub async fn row(&self, session: &str) -> Result<BTreeMap<String, String>> {
        let text = self.kube.kubectl(&format!("get kernelsessions {session} -o wide")).await?;
        table::parse(&text).pop().with_context(|| format!("no row in {text}"))
    }

    /// The first row that is as wanted: for what `kubectl wait` cannot express, such as a field that goes away.
    pub async fn row_until(&self, session: &str, wanted: impl Fn(&BTreeMap<String, String>) -> bool) -> Result<BTreeMap<String, String>> {
        let deadline = Instant::now() + Duration::from_secs(u64::from(WAIT_SECONDS));
        loop {
            let row = self.row(session).await?;
            if wanted(&row) {
                return Ok(row);
            }
            ensure!(Instant::now() < deadline, "after {WAIT_SECONDS} s it is still {row:?}");
            tokio::time::sleep(POLL).await;
        }
    }

    /// Names of the kernel pods of the namespace that are not on their way out.
    pub async fn kernel_pods(&self) -> Result<Vec<String>> {
        self.pods_of(NAMESPACE, "kernel").await
    }

    /// Names of the pods of a component that are not on their way out.
    pub async fn pods_of(&self, namespace: &str, component: &str) -> Result<Vec<String>> {
        let pods = self.kube.get(&format!("pods -n {namespace} -l dormouse.dev/component={component}")).await?;
        let items = pods["items"].as_array().context("items")?;
        let living = items.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        Ok(living.filter_map(|pod| pod["metadata"]["name"].as_str().map(str::to_owned)).collect())
    }

    /// The uid of a session's object.
    pub async fn uid(&self, session: &str) -> Result<String> {
        let object = self.kube.get(&format!("kernelsession {session}")).await?;
        Ok(object["metadata"]["uid"].as_str().context("uid")?.to_owned())
    }

    /// Waits for a condition of a session.
    pub async fn wait(&self, condition: &str, session: &str) -> Result<()> {
        self.kube.wait(condition, &format!("kernelsession/{session}"), WAIT_SECONDS).await
    }
}

/// `ADDRESS:PORT` of a Service.
pub async fn service_address(kube: &Kube, namespace: &str, name: &str) -> Result<String> {
    let service = kube.get(&format!("service {name} -n {namespace}")).await?;
    let address = service["spec"]["clusterIP"].as_str().context("clusterIP")?;
    let port = service["spec"]["ports"][0]["port"].as_u64().context("port")?;
    Ok(format!("{address}:{port}"))
}
