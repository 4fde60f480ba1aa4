//! The process around a [`Broker`]: flags, files that change, probes.

use std::{net::SocketAddr, path::Path, path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context as _;
use dormouse_crds::broker::ToolBrokerSpec;
use dormouse_erasure::clusters::{Joined, TenantPrefix};
use dormouse_kms::{KeyLocationError, KmsArgs};
use dormouse_protocol::broker::BROKER_PORT;
use dormouse_service::{
    AdminArgs, Gate, Metrics, Readiness, TlsArgs,
    admin::AdminServer,
    memory::{Memory, MemoryArgs},
    tls::{Process, TlsFiles},
};
use dormouse_store::{S3, S3Args, SnapshotStore};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{Broker, BrokerStore, ConfigError, LivingPools, Secrets};

/// How often the configuration is looked at.
const CONFIG_CHECK: Duration = Duration::from_secs(5);
/// How often it is looked for the tools that the spec names elsewhere, when all of them were had.
const SOURCES_CHECK: Duration = Duration::from_secs(300);
/// How long the end waits for a probe of the store that is under way.
const LAST_PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Flags of `dormouse-broker`.
#[derive(Debug, Clone, clap::Parser)]
#[command(
    name = "dormouse-broker",
    version,
    about = "Holds a ToolBroker's secrets and does what its sessions may ask of the world.",
    mut_arg("s3_endpoint", |arg| arg.required(false).help("URL of the S3 service where the journal of calls is kept; without it, the journal is in memory")),
    mut_arg("s3_bucket", |arg| arg.required(false))
)]
pub struct Args {
    /// Address of the mTLS server for kernel pods.
    #[arg(long, env = "DORMOUSE_LISTEN", default_value_t = SocketAddr::from(([0, 0, 0, 0], BROKER_PORT)))]
    pub listen: SocketAddr,
    /// The ToolBroker's spec as YAML; taken up when it changes.
    #[arg(long, env = "DORMOUSE_CONFIG", default_value = "/etc/dormouse/broker.yaml")]
    pub config: PathBuf,
    /// Folder with a file <secret>/<key> for every key of every Secret.
    #[arg(long, env = "DORMOUSE_SECRETS_DIR", default_value = "/etc/dormouse/secrets")]
    pub secrets_dir: PathBuf,
    /// Folder with a file <config map>/<key> for every document that is in one.
    #[arg(long, env = "DORMOUSE_CONFIG_MAPS_DIR", default_value = "/etc/dormouse/config-maps")]
    pub config_maps_dir: PathBuf,
    /// File that says which KernelPools there are: certificates of others are refused. Without it, those of all pools are taken.
    #[arg(long, env = "DORMOUSE_POOLS_FILE")]
    pub pools_file: Option<PathBuf>,
    /// Namespace of the ToolBroker.
    #[arg(long, env = "DORMOUSE_NAMESPACE")]
    pub namespace: String,
    /// Name of the ToolBroker.
    #[arg(long, env = "DORMOUSE_NAME")]
    pub name: String,
    /// Name of the cluster in the object store: it is written there before anything else is. Empty: nothing is said of whose the calls are.
    #[arg(long, env = "DORMOUSE_CLUSTER", default_value = "")]
    pub cluster: String,
    /// Where the journal of calls is kept.
    #[command(flatten)]
    pub s3: Option<S3Args>,
    /// Folder with the keys that encrypt the journal; without it, the journal is not encrypted.
    #[arg(long, env = "DORMOUSE_ENCRYPTION_KEYS_DIR")]
    pub encryption_keys_dir: Option<PathBuf>,
    /// The key service that encrypts it, if one does.
    #[command(flatten)]
    pub kms: KmsArgs,
    /// How much memory there is.
    #[command(flatten)]
    pub memory: MemoryArgs,
    /// Certificate.
    #[command(flatten)]
    pub tls: TlsArgs,
    /// Probes and metrics.
    #[command(flatten)]
    pub admin: AdminArgs,
}

impl Args {
    /// Where these flags say that is stored what outlives the process.
    fn store(&self) -> Result<Option<BrokerStore>, KeyLocationError> {
        let Some(s3) = &self.s3 else { return Ok(None) };
        let mut store: Arc<dyn SnapshotStore> = Arc::new(S3::new(&s3.options()));
        if !self.cluster.is_empty() {
            let place = TenantPrefix { store_prefix: s3.s3_prefix.clone(), tenant: self.namespace.clone() };
            store = Arc::new(Joined::new(store, place, self.cluster.clone()));
        }
        let seal = dormouse_kms::seal(&self.namespace, self.encryption_keys_dir.as_deref(), &self.kms)?;
        let (namespace, broker) = (self.namespace.clone(), self.name.clone());
        Ok(Some(BrokerStore { store, prefix: s3.s3_prefix.clone(), namespace, broker, seal: Arc::new(seal) }))
    }
}

/// Runs the process until `shutdown`. A spec that cannot be served makes it not ready, with the reasons, until a better one arrives.
///
/// # Errors
/// A port cannot be listened on, the metrics cannot be registered, or the certificate cannot be used or names another process.
pub async fn run(args: Args, shutdown: CancellationToken) -> anyhow::Result<()> {
    let (readiness, metrics) = (Readiness::new(), Metrics::new());
    let store = args.store().context("--kms-url")?;
    let gate = readiness.gate("config");
    let _admin = AdminServer::start(&args.admin, readiness.clone(), metrics.clone()).await.context("admin listener")?;
    let tls = TlsFiles::load(&args.tls.tls_dir).context("certificate")?;
    let identity = tls.identity();
    let own = identity.is(Process::Broker, &args.namespace) && identity.name.as_ref().is_none_or(|name| *name == args.name);
    anyhow::ensure!(own, "the certificate names {identity}, not the broker {} of {}", args.name, args.namespace);
    let listener = TcpListener::bind(args.listen).await.with_context(|| format!("cannot listen on {}", args.listen))?;

    let stopping = shutdown.clone();
    tokio::spawn(async move {
        stopping.cancelled().await;
        readiness.stopping();
    });
    let Some((broker, text)) = first_config(&args, store, &metrics, &gate, &shutdown).await? else { return Ok(()) };
    tracing::info!(namespace = args.namespace, name = args.name, tools = broker.tools().len(), listen = %args.listen, "serving");
    let probe = tokio::spawn(probe_store(broker.clone(), shutdown.clone()));
    let follow = tokio::spawn(follow_config(args.config.clone(), broker.clone(), text, gate));
    let look = tokio::spawn(broker.clone().keep_looking());
    let pools = args.pools_file.map(LivingPools::file).unwrap_or_default();
    broker.serve_within(Memory::of_process(&args.memory), pools, listener, tls, shutdown).await;
    follow.abort();
    look.abort();
    // Cut off, it would leave objects in the store.
    let _ = tokio::time::timeout(LAST_PROBE_TIMEOUT, probe).await;
    Ok(())
}

async fn first_config(
    args: &Args,
    store: Option<BrokerStore>,
    metrics: &Metrics,
    gate: &Gate,
    shutdown: &CancellationToken,
) -> Result<Option<(Broker, String)>, ConfigError> {
    let secrets = Secrets::directory(&args.secrets_dir).with_config_maps_in(&args.config_maps_dir);
    loop {
        let made = read(&args.config).and_then(|text| {
            let spec = yaml_serde::from_str::<ToolBrokerSpec>(&text)?;
            let broker = Broker::with_store(&spec, secrets.clone(), metrics, store.clone())?;
            Ok((broker, text))
        });
        if let Ok((broker, _)) = &made {
            broker.look_now().await;
        }
        match made {
            Ok(made) => {
                gate.ready();
                return Ok(Some(made));
            }
            Err(error @ (ConfigError::Metrics(_) | ConfigError::Http(_))) => return Err(error),
            Err(error) => gate.not_ready(error.to_string()),
        }
        tokio::select! {
            () = shutdown.cancelled() => return Ok(None),
            () = tokio::time::sleep(CONFIG_CHECK) => {}
        }
    }
}

impl Broker {
    /// Looks for the tools that the spec names elsewhere, and says what cannot be had.
    pub async fn look_now(&self) -> bool {
        match self.look_for_tools().await {
            Ok(missing) => {
                missing.iter().for_each(|missing| tracing::warn!(missing, "tools are missing"));
                missing.is_empty()
            }
            Err(error) => {
                tracing::error!(%error, "what was found cannot be served; the old tools stay in force");
                false
            }
        }
    }

    /// The same for ever: soon again while something is missing.
    pub async fn keep_looking(self) {
        let mut wait = CONFIG_CHECK;
        loop {
            tokio::time::sleep(wait).await;
            wait = if self.look_now().await { SOURCES_CHECK } else { (wait * 2).min(SOURCES_CHECK) };
        }
    }
}

/// Until the journal's store has passed its probe, each call that needs it asks again; here it is asked before the first.
async fn probe_store(broker: Broker, shutdown: CancellationToken) {
    while let Err(error) = broker.probe_store().await {
        tracing::error!(%error, "calls that are not safe to repeat are refused");
        if shutdown.run_until_cancelled(tokio::time::sleep(CONFIG_CHECK)).await.is_none() {
            return;
        }
    }
}

/// Takes up changes of the file. One that cannot be served is logged, and the broker goes on with the one before.
async fn follow_config(path: PathBuf, broker: Broker, mut in_force: String, gate: Gate) {
    loop {
        tokio::time::sleep(CONFIG_CHECK).await;
        let Ok(text) = read(&path) else { continue };
        if text == in_force {
            continue;
        }
        let parsed = yaml_serde::from_str::<ToolBrokerSpec>(&text).map_err(ConfigError::from);
        let taken = match parsed {
            Ok(spec) => broker.reconfigure(&spec).await,
            Err(error) => Err(error),
        };
        match taken {
            Ok(()) => {
                gate.ready();
                tracing::info!(tools = broker.tools().len(), "the new configuration is in force");
                in_force = text;
            }
            Err(error) => tracing::error!(%error, "the new configuration cannot be served; the old one stays in force"),
        }
    }
}

fn read(path: &Path) -> Result<String, ConfigError> {
    Ok(std::fs::read_to_string(path)?)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::Args;

    const OWN: [&str; 5] = ["dormouse-broker", "--namespace", "team", "--name", "tools"];

    #[test]
    fn a_journal_is_stored_where_a_whole_bucket_is_named() {
        let s3 = |more: &[&str]| Args::try_parse_from(OWN.iter().chain(more)).map(|args| args.s3);
        assert!(s3(&[]).unwrap().is_none());
        let bucket = s3(&["--s3-endpoint", "http://s3", "--s3-bucket", "b", "--s3-prefix", "p/"]).unwrap().unwrap();
        assert_eq!((bucket.s3_endpoint.as_str(), bucket.s3_bucket.as_str(), bucket.s3_prefix.as_str()), ("http://s3", "b", "p/"));
        assert_eq!(bucket.s3_region, "us-east-1");
        for (half, missing) in [(["--s3-endpoint", "http://s3"], "s3_bucket"), (["--s3-bucket", "b"], "s3_endpoint")] {
            let error = s3(&half).unwrap_err().to_string();
            assert!(error.contains(missing), "{error}");
        }
    }
}
