//! `dormouse dev`: gateway, kernel pod and brokers in one process, on a folder or a bucket.
//!
//! The same libraries as in a cluster; what they send to each other is handed over inside the process, and sessions are written down as files. What
//! the operator does in a cluster that matters on a laptop (status from reports, the end of a deleted session) is the folder directory's.

mod brokers;
mod cleanup;
mod folder;
mod orphans;
mod sessions;
mod storage;
mod values;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, bail};
use dormouse_broker::BrokerStore;
use dormouse_durable::{System, replace};
use dormouse_engine::{EngineOptions, Engines};
use dormouse_erasure::clusters::{Joined, TenantPrefix};
use dormouse_gateway::{
    Directory, Gateway, Kernels,
    auth::{keys::file::KeyFile, loopback::Loopback},
    directory::{
        files::name_of,
        folder::{FolderDirectory, POOL, StaticPod},
    },
    links::Links,
};
use dormouse_kernel::{BrokerTools, Pod, PodConfig};
use dormouse_kms::KmsArgs;
use dormouse_protocol::{broker::BROKER_PORT, kernel::KERNEL_PORT};
use dormouse_seal::{Keyring, Seal};
use dormouse_service::{admin, in_process::InProcess, telemetry, tls::Identity};
use dormouse_store::SnapshotStore;
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use brokers::Brokers;
use cleanup::StoreCleanup;
use storage::StorageArgs;

/// Name of the one kernel pod.
const POD: &str = "dev";
/// Before every key in the store.
const STORE_PREFIX: &str = "";
/// The namespace that gateway and operator have in a cluster.
const SYSTEM: &str = "dormouse-system";
/// Where the gateway listens, and where the client's verbs look for it.
const DEFAULT_LISTEN: &str = "127.0.0.1:7777";
/// Where API keys are kept, without their secrets.
const KEYS_FILE: &str = "keys.json";
/// The key of links to calls that wait.
const LINKS_KEY_FILE: &str = "links.key";
/// Live sessions that fit.
const SLOTS: u32 = 10_000;
/// Where the pod is said to listen: nothing connects to it.
const NOWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), KERNEL_PORT);
/// How long answers may take to leave after every session is stored.
const LAST_ANSWERS_TIMEOUT: Duration = Duration::from_secs(3);
/// Bytes for copies of sleeping sessions.
const CACHE_BYTES: u64 = 256 << 20;

/// Flags of `dormouse dev`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Address of the HTTP API. Loopback only: whoever reaches it may do everything, unless --token-file is given.
    #[arg(long, env = "DORMOUSE_LISTEN", default_value = DEFAULT_LISTEN)]
    pub listen: SocketAddr,
    /// Where sessions and what they need is kept.
    #[arg(long, env = "DORMOUSE_DATA", default_value = ".dormouse")]
    pub data: PathBuf,
    /// File with a token that every request must bring; the client's verbs read theirs from DORMOUSE_TOKEN.
    #[arg(long, env = "DORMOUSE_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The bucket, when it is not that folder.
    #[command(flatten)]
    storage: StorageArgs,
    /// Folder with keys to encrypt what is stored: a file of 32 random bytes, raw or in base64, for each, and a file `current` with the name of
    /// the one for new objects.
    #[arg(long, env = "DORMOUSE_ENCRYPTION_KEYS_DIR", value_name = "FOLDER")]
    encryption_keys: Option<PathBuf>,
    /// The key service, if one has the key.
    #[command(flatten)]
    kms: KmsArgs,
    /// A manifest with ToolBrokers and the Secrets that they name; may be given several times.
    #[arg(long = "broker", value_name = "FILE")]
    brokers: Vec<PathBuf>,
    /// A manifest with KernelSessions and the ConfigMaps that they name, made at the start; may be given several times.
    #[arg(long = "session", value_name = "FILE")]
    sessions: Vec<PathBuf>,
}

/// Serves the sessions of `namespace` until `shutdown`; then every session is put to sleep.
///
/// # Errors
/// A manifest, the store, a certificate or a port cannot be used.
pub async fn run(args: Args, namespace: String, shutdown: CancellationToken) -> anyhow::Result<()> {
    if !args.listen.ip().is_loopback() {
        bail!("`dormouse dev` listens on loopback only: use --listen 127.0.0.1:{}", args.listen.port());
    }
    let callers = callers(args.token_file.as_deref())?;
    // Sessions are files here, also when their heaps are in a bucket: two processes would overwrite each other's.
    let _lock = folder::lock(&args.data)?;
    let engines = tokio::task::spawn_blocking(|| Engines::new(EngineOptions::for_user())).await?.context("cannot load the engine")?;
    let sessions_dir = args.data.join("sessions");
    let cluster = name_of(&System, &sessions_dir)?;
    let (plain, folder) = args.storage.open(&args.data)?;
    let place = TenantPrefix { store_prefix: STORE_PREFIX.to_owned(), tenant: namespace.clone() };
    let store: Arc<dyn SnapshotStore> = Arc::new(Joined::new(Arc::clone(&plain), place, cluster.clone()));
    let within = InProcess::new(brokers::unknown());
    telemetry::install_tls_provider();
    let forms = reqwest::Client::builder().no_proxy().build()?;
    // The gateway stops first; what it talks to outlives the requests under way.
    let inner = CancellationToken::new();
    let inner_tasks = TaskTracker::new();

    let store_of_brokers = BrokerStore {
        store: Arc::clone(&store),
        prefix: STORE_PREFIX.to_owned(),
        namespace: namespace.clone(),
        broker: String::new(),
        seal: Arc::new(seal(&args, &namespace).await?),
    };
    let Brokers { names: brokers, metrics: of_brokers } =
        brokers::start(&args.brokers, &namespace, &store_of_brokers, &within, &inner, &inner_tasks).await?;
    let config = PodConfig {
        pod: POD.to_owned(),
        namespace: namespace.clone(),
        pool: POOL.to_owned(),
        slots: SLOTS,
        cache_bytes: CACHE_BYTES,
        store_prefix: STORE_PREFIX.to_owned(),
        role: dormouse_kernel::Role::Shared,
    };
    let identity = Identity::kernel(&namespace, POOL, POD);
    let tools = BrokerTools::new(within.client(forms.clone(), &identity), format!("{{name}}.{{namespace}}:{BROKER_PORT}"));
    let pod = Pod::sealing(config, engines, Arc::clone(&store), Arc::new(tools), seal(&args, &namespace).await?)?;
    let static_pod = StaticPod { pod: POD.to_owned(), namespace: namespace.clone(), address: NOWHERE, boot: pod.info().boot };
    let stop = CancellationToken::new();
    within.serve(&identity, pod.routes(stop.clone()));
    inner_tasks.spawn({
        let (pod, inner, within) = (pod.clone(), inner.clone(), within.clone());
        async move {
            inner.cancelled().await;
            pod.drain().await;
            stop.cancel();
            within.end(&identity, LAST_ANSWERS_TIMEOUT).await;
        }
    });

    let kernels = Kernels::new(within.client(forms.clone(), &Identity::gateway(SYSTEM)));
    // Reports and forgetting are the operator's right; here the directory does that work.
    let reports = Kernels::new(within.client(forms, &Identity::operator(SYSTEM)));
    let manifests: Vec<PathBuf> = args.sessions.iter().chain(&args.brokers).cloned().collect();
    let config_maps = sessions::config_maps(&manifests, &namespace)?;
    let cleanup = Arc::new(StoreCleanup { store, brokers: reports.clone() });
    let directory = FolderDirectory::open(System::shared(), sessions_dir, vec![static_pod], reports, Some(cleanup)).await?;
    directory.set_config_maps(config_maps);
    directory.set_limits(sessions::limits(&manifests, &namespace)?);
    inner_tasks.spawn({
        let collected = orphans::collect(plain, namespace.clone(), cluster, Arc::clone(&directory), brokers.clone());
        let inner = inner.clone();
        async move {
            inner.run_until_cancelled(collected).await;
        }
    });
    let keys = Arc::new(KeyFile::open(&args.data.join(KEYS_FILE)).context("cannot read the API keys")?);
    let listener = TcpListener::bind(args.listen).await.with_context(|| format!("cannot listen on {}", args.listen))?;
    let address = listener.local_addr()?;
    let links = Links::new(&links_key(&args.data)?, &format!("http://{address}"))?;
    let metrics = pod.metrics();
    metrics.include(of_brokers)?;
    let whole = Arc::clone(&directory) as Arc<dyn Directory>;
    let gateway = Gateway::with_metrics(whole, kernels, Arc::new(callers), metrics.clone()).with_keys(keys).local();
    let gateway = gateway.with_links(links).beside(admin::router(pod.readiness(), metrics));
    sessions::apply(&args.sessions, &namespace, directory.as_ref()).await?;
    greet(address, &namespace, &brokers, &args);
    gateway.serve(listener, shutdown).await;
    inner.cancel();
    inner_tasks.close();
    inner_tasks.wait().await;
    directory.close().await.context("cannot write the status of sessions")?;
    if let Some(folder) = folder {
        folder.flush().await?;
    }
    Ok(())
}

/// The key of links, made when there is none.
fn links_key(data: &Path) -> anyhow::Result<Vec<u8>> {
    let path = data.join(LINKS_KEY_FILE);
    match std::fs::read(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let key = format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
            replace(&System, &path, key.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
            Ok(key.into_bytes())
        }
        read => read.with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Who may call.
fn callers(token_file: Option<&Path>) -> anyhow::Result<Loopback> {
    let Some(file) = token_file else { return Ok(Loopback::default()) };
    let token = std::fs::read_to_string(file).with_context(|| format!("--token-file {}", file.display()))?;
    match token.trim() {
        "" => bail!("--token-file {}: the file is empty; write a token into it", file.display()),
        token => Ok(Loopback::with_token(token.to_owned())),
    }
}

/// What encrypts. Here somebody is there to be told at once that there are no keys.
async fn seal(args: &Args, namespace: &str) -> anyhow::Result<Seal> {
    let folder = args.encryption_keys.as_deref();
    if let Some(folder) = folder {
        Keyring::read(folder).with_context(|| format!("--encryption-keys {}", folder.display()))?;
    }
    let seal = dormouse_kms::seal(namespace, folder, &args.kms).context("--kms-url")?;
    seal.writer().await?;
    Ok(seal)
}

/// Says what is served and how to try it.
#[expect(clippy::print_stdout, reason = "what it serves is the answer of this command")]
fn greet(address: SocketAddr, namespace: &str, brokers: &[String], args: &Args) {
    let sessions = format!("http://{address}/v1/namespaces/{namespace}/sessions");
    let program = std::env::args().next().unwrap_or_else(|| "dormouse".to_owned());
    let server = if address.to_string() == DEFAULT_LISTEN { String::new() } else { format!(" --server http://{address}") };
    println!("dormouse dev serves http://{address}, keeps {}", args.storage.describe(&args.data));
    if !brokers.is_empty() {
        println!("ToolBrokers: {}", brokers.join(", "));
    }
    if args.token_file.is_some() {
        println!(
            "Every request needs the token: export DORMOUSE_TOKEN for the verbs below, -H \"Authorization: Bearer $DORMOUSE_TOKEN\" for curl"
        );
    }
    println!("Try it:");
    println!("  {program}{server} repl");
    println!("  curl -s {sessions} --json '{{\"name\":\"first\"}}'");
    println!("  curl -s {sessions}/first/eval --json '{{\"code\":\"let n: number = 41; n + 1\"}}'");
    println!("Ctrl-C puts every session to sleep and ends it.");
}
