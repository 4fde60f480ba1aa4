//! A wake on another pod, whole path: a real API server, a real S3 server, two kernel pods and a gateway, beside what such a wake cannot do without.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use dormouse_client::Client;
use dormouse_crds::session::{KernelSession, KernelSessionSpec, Placement};
use dormouse_engine::{EngineOptions, Engines};
use dormouse_gateway::{
    Directory, Gateway, Kernels,
    auth::loopback::Loopback,
    directory::{Key, NewSession, kubernetes::KubernetesDirectory},
};
use dormouse_kernel::{Pod, PodConfig};
use dormouse_protocol::{
    eval::{EvalRequest, Woke},
    kernel::{Assignment, KERNEL_PORT},
};
use dormouse_service::{
    ca::{Ca, LEAF_VALIDITY},
    tls::{Identity, PeerClient, TlsFiles},
};
use dormouse_store::{Condition, S3, S3Options, SnapshotStore};
use dormouse_testkit::{apiserver::ApiServer, distance::Distance, minio::Minio};
use kube::api::{Api, Patch, PatchParams};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::{
    engine::TYPICAL,
    storage::{NoTools, ONE_WAY},
    table::{Row, Samples},
};

const RUNS: usize = 100;
const NAMESPACE: &str = "team";
/// Loopback addresses of the pods: a pod's port is the same everywhere.
const PODS: [(&str, &str); 2] = [("k1", "127.77.0.2"), ("k2", "127.77.0.3")];

struct Cluster {
    server: ApiServer,
    _minio: Minio,
    /// Between the store and everybody, if it is far away.
    _relay: Option<Distance>,
    store: Arc<S3>,
    pods: Vec<Pod>,
    serving: Vec<JoinHandle<()>>,
    directory: Arc<KubernetesDirectory>,
    api: Api<KernelSession>,
    client: Client,
    shutdown: CancellationToken,
}

/// All rows of this part.
pub async fn rows() -> anyhow::Result<Vec<Row>> {
    let (near, far) = (Measured::take(None).await?, Measured::take(Some(ONE_WAY)).await?);
    let floor = "the slower of one status patch and of head GET, segment GETs and conditional PUT";
    let both = "both at once, on the cores that the servers share with the client";
    let storage = "the requests to storage, one after the other";
    Ok(vec![
        Row::times("wake on another pod, one cell, commit, through the gateway", &near.wakes, floor, &near.floors, "≤ 1.3"),
        Row::times("the same", &near.wakes, both, &near.together, "–"),
        Row::times("of that floor: a status patch", &near.patches, storage, &near.requests, "–"),
        Row::times("wake on another pod, one cell, commit, storage 10 ms away", &far.wakes, floor, &far.floors, "≤ 1.3"),
        Row::times("the same, storage 10 ms away", &far.wakes, both, &far.together, "–"),
        Row::times("of that floor, storage 10 ms away: a status patch", &far.patches, storage, &far.requests, "–"),
    ])
}

/// What the rows are made of, with one store.
struct Measured {
    wakes: Samples,
    /// The slower of a patch and the requests to storage, of each run.
    floors: Samples,
    patches: Samples,
    requests: Samples,
    together: Samples,
}

impl Measured {
    async fn take(one_way: Option<Duration>) -> anyhow::Result<Self> {
        let cluster = Cluster::start(one_way).await?;
        let (moved, floor) = (Key::new(NAMESPACE, "moved"), Key::new(NAMESPACE, "floor"));
        for key in [&moved, &floor] {
            let new = NewSession { key: key.clone(), labels: Default::default(), spec: KernelSessionSpec::default() };
            cluster.directory.create(new).await?;
        }
        ensure!(cluster.eval(TYPICAL).await?.ok, "the first cell failed");
        let mut etag = None;
        let (mut wakes, mut floors, mut patches, mut requests, mut together) = (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let place = |epoch| Placement { pod: "k1".into(), pod_uid: "u".into(), boot: "b".into(), epoch };
        for run in 0..RUNS as u64 {
            let start = Instant::now();
            let seen = cluster.directory.read(&floor).await?;
            let placement = place(2 * run + 1);
            let read = start.elapsed();
            cluster.directory.assign(&seen, placement).await?;
            let patch = start.elapsed().saturating_sub(read);
            let start = Instant::now();
            etag = Some(cluster.touch_storage(&moved, etag).await?);
            let storage = start.elapsed();
            let seen = cluster.directory.read(&floor).await?;
            let start = Instant::now();
            let (assigned, touched) =
                tokio::join!(cluster.directory.assign(&seen, place(2 * run + 2)), cluster.touch_storage(&moved, etag.take()));
            together.push(start.elapsed());
            assigned?;
            etag = Some(touched?);
            floors.push(patch.max(storage));
            patches.push(patch);
            requests.push(storage);

            cluster.lose(&moved).await?;
            let start = Instant::now();
            let result = cluster.eval("closures[0]()").await?;
            wakes.push(start.elapsed());
            ensure!(result.ok && result.stats.woke == Woke::Storage, "{:?}", result.stats.woke);
        }
        cluster.stop().await?;
        Ok(Self {
            wakes: Samples::of(wakes),
            floors: Samples::of(floors),
            patches: Samples::of(patches),
            requests: Samples::of(requests),
            together: Samples::of(together),
        })
    }
}

impl Cluster {
    async fn start(one_way: Option<Duration>) -> anyhow::Result<Self> {
        let server = ApiServer::start().await?;
        let crds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crds/yaml");
        server.kubectl(&["apply", "-f", crds.to_str().context("a path")?])?;
        server.kubectl(&["wait", "--for=condition=Established", "crd", "--all"])?;
        server.kubectl(&["create", "namespace", NAMESPACE])?;
        let minio = Minio::start().await?;
        minio.create_bucket("moves").await?;
        let relay = one_way.map(|one_way| Distance::before(&minio.endpoint(), one_way)).transpose()?;
        let endpoint = relay.as_ref().map_or_else(|| minio.endpoint(), Distance::endpoint);
        let store = Arc::new(S3::new(&S3Options { endpoint, ..minio.options("moves") }));
        let ca = Ca::generate()?;
        let shutdown = CancellationToken::new();
        let engines = tokio::task::spawn_blocking(|| Engines::new(EngineOptions::default())).await??;
        let (mut pods, mut serving) = (Vec::new(), Vec::new());
        for (name, address) in PODS {
            let config = PodConfig {
                pod: name.into(),
                namespace: NAMESPACE.into(),
                pool: "default".to_owned(),
                slots: 10,
                cache_bytes: 64 << 20,
                store_prefix: String::new(),
                role: dormouse_kernel::Role::Shared,
            };
            let pod = Pod::new(config, engines.clone(), Arc::clone(&store) as Arc<dyn SnapshotStore>, Arc::new(NoTools))?;
            let listener = TcpListener::bind((address, KERNEL_PORT)).await.with_context(|| format!("port {KERNEL_PORT} of {address}"))?;
            let tls = files(&ca, &Identity::of_pool(NAMESPACE, "default"))?;
            let (served, stop) = (pod.clone(), shutdown.clone());
            serving.push(tokio::spawn(async move { served.serve(listener, tls, stop).await }));
            apply_pod(&server, name, address)?;
            pods.push(pod);
        }
        let kubeconfig = kube::config::Kubeconfig::read_from(server.kubeconfig())?;
        let kube = kube::Client::try_from(kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await?)?;
        let directory = KubernetesDirectory::start(kube.clone(), dormouse_watch::WatchScope::default(), &shutdown);
        let api = Api::namespaced(kube, NAMESPACE);
        let mut changes = directory.changes();
        while directory.pods(NAMESPACE, "default").iter().filter(|pod| pod.ready).count() < PODS.len() || !directory.pending().is_empty() {
            let _ = changes.recv().await;
        }
        let kernels = Kernels::new(PeerClient::new(files(&ca, &Identity::gateway("dormouse-system").dns_name())?)?);
        let gateway = Gateway::new(Arc::clone(&directory) as Arc<dyn Directory>, kernels, Arc::new(Loopback::default()));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let client = Client::new(&format!("http://{}", listener.local_addr()?), NAMESPACE, None)?;
        let routes = gateway.routes(shutdown.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Ok(Self { server, _minio: minio, _relay: relay, store, pods, serving, directory, api, client, shutdown })
    }

    /// Ends the pods, so that their addresses are free.
    async fn stop(self) -> anyhow::Result<()> {
        self.shutdown.cancel();
        for serving in self.serving {
            serving.await?;
        }
        Ok(())
    }

    async fn eval(&self, code: &str) -> anyhow::Result<dormouse_protocol::eval::EvalResult> {
        let request = EvalRequest { code: code.to_owned(), ..EvalRequest::default() };
        self.client.eval("moved", &request).await.with_context(|| format!("through the gateway, with {}", self.server.url()))
    }

    /// The requests that a wake makes: reads head and segments, and puts the bytes of the head elsewhere under a condition.
    async fn touch_storage(&self, session: &Key, etag: Option<String>) -> anyhow::Result<String> {
        let uid = &self.directory.get(session).context("the session")?.uid;
        let head = self.store.get(&format!("t/{NAMESPACE}/s/default/{uid}/head")).await?.context("its head")?;
        for segment in dormouse_lifecycle::Head::decode(&head.bytes)?.segments {
            self.store.get(&segment.key).await?.context("a segment")?;
        }
        let condition = etag.map_or(Condition::None, Condition::Matches);
        self.store.put("bare", head.bytes, condition).await.map_err(|error| anyhow::anyhow!("{error:?}"))
    }

    /// The session's pod forgets it without a word, and the operator clears the placement.
    async fn lose(&self, session: &Key) -> anyhow::Result<()> {
        let record = self.directory.get(session).context("the session")?;
        let placement = record.status.placement.clone().context("its place")?;
        let pod = self.pods.iter().find(|pod| pod.info().boot == placement.boot).context("its pod")?;
        let assignment = Assignment {
            namespace: session.namespace.clone(),
            name: session.name.clone(),
            uid: record.uid.clone(),
            epoch: placement.epoch,
            boot: placement.boot,
            generation: record.generation,
            spec: record.spec.clone(),
            source_uid: None,
            anchor: None,
            source_anchor: None,
        };
        pod.forget(assignment).await?;
        let mut changes = self.directory.changes();
        let patch = serde_json::json!({ "status": { "placement": null } });
        self.api.patch_status(&session.name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        while self.directory.get(session).is_some_and(|record| record.status.placement.is_some()) {
            changes.recv().await?;
        }
        Ok(())
    }
}

fn files(ca: &Ca, name: &str) -> anyhow::Result<TlsFiles> {
    Ok(TlsFiles::from_pem(&ca.issue(&[name.to_owned()], LEAF_VALIDITY)?)?)
}

/// A pod as the kubelet would say it runs.
fn apply_pod(server: &ApiServer, name: &str, address: &str) -> anyhow::Result<()> {
    let labels = "{dormouse.dev/component: kernel, dormouse.dev/pool: default}";
    let yaml = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: {NAMESPACE}, labels: {labels}}}\n\
         spec: {{containers: [{{name: kernel, image: none}}]}}\n"
    );
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), yaml)?;
    server.kubectl(&["apply", "-f", file.path().to_str().context("a path")?])?;
    let status = serde_json::json!({ "status": {
        "phase": "Running", "podIP": address, "podIPs": [{ "ip": address }], "conditions": [{ "type": "Ready", "status": "True" }],
    } });
    server.kubectl(&["patch", "pod", "-n", NAMESPACE, name, "--subresource=status", "--type=merge", "-p", &status.to_string()])?;
    Ok(())
}
