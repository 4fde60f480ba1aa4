//! Flags of the operator. Each is an environment variable too.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use dormouse_crds::pool::Resources;
use dormouse_protocol::broker::BROKER_PORT;
use dormouse_service::{AdminArgs, memory::MemoryArgs};
use dormouse_store::sts::DURATION_MIN;
use dormouse_watch::WatchArgs;
use k8s_openapi::api::networking::v1::NetworkPolicyPeer;

/// Where kernel pods get their storage credentials from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum CredentialsSource {
    /// The operator mints short-lived ones, scoped to the namespace's prefix, by STS AssumeRole.
    #[default]
    Sts,
    /// An administrator has made a Secret or a role for each pool, and the pool names it.
    Static,
}

/// A JSON list of NetworkPolicyPeers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Peers(pub Vec<NetworkPolicyPeer>);

impl std::str::FromStr for Peers {
    type Err = serde_json::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.trim().is_empty() { Ok(Self::default()) } else { serde_json::from_str(text).map(Self) }
    }
}

/// Resources as JSON.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PodResources(pub Resources);

impl std::str::FromStr for PodResources {
    type Err = serde_json::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.trim().is_empty() { Ok(Self::default()) } else { serde_json::from_str(text).map(Self) }
    }
}

/// Flags of the operator.
#[derive(Debug, Clone, clap::Parser)]
#[command(
    name = "dormouse-operator",
    version,
    about = "Turns KernelSession, ToolBroker and KernelPool objects into pods, policies and status."
)]
pub struct Config {
    /// Namespace of the operator and the gateways.
    #[arg(long, env = "DORMOUSE_SYSTEM_NAMESPACE", default_value = "dormouse-system")]
    pub system_namespace: String,
    /// Name of this pod: who holds the lease.
    #[arg(long, env = "DORMOUSE_POD")]
    pub pod: String,
    /// What it looks after.
    #[command(flatten)]
    pub scope: WatchArgs,
    /// Among how many operators at work the namespaces are divided. All of them must have the same number; those beyond it stand by.
    #[arg(long, env = "DORMOUSE_SHARDS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub shards: u32,
    /// Image of kernel pods whose pool names none.
    #[arg(long, env = "DORMOUSE_KERNEL_IMAGE")]
    pub kernel_image: String,
    /// Image of brokers.
    #[arg(long, env = "DORMOUSE_BROKER_IMAGE")]
    pub broker_image: String,
    /// Pull policy of both.
    #[arg(long, env = "DORMOUSE_IMAGE_PULL_POLICY", default_value = "IfNotPresent")]
    pub image_pull_policy: String,
    /// Digest of the engine that new sessions get; empty: the newest of the image.
    #[arg(long, env = "DORMOUSE_KERNEL_ENGINE", default_value = "")]
    pub kernel_engine: String,
    /// Resources (JSON) of kernel pods whose pool names none.
    #[arg(long, env = "DORMOUSE_KERNEL_RESOURCES", default_value = "")]
    pub kernel_resources: PodResources,
    /// Bytes of each kernel pod's cache of segments on its node's disk; 0: none.
    #[arg(long, env = "DORMOUSE_KERNEL_DISK_CACHE_BYTES", default_value_t = 1 << 30)]
    pub kernel_disk_cache_bytes: u64,
    /// Resources (JSON) of brokers.
    #[arg(long, env = "DORMOUSE_BROKER_RESOURCES", default_value = "")]
    pub broker_resources: PodResources,
    /// The object store.
    #[command(flatten)]
    pub storage: StorageArgs,
    /// What kernel pods and brokers may reach.
    #[command(flatten)]
    pub network: NetworkArgs,
    /// Milliseconds after which the status tells that a session is, or was, busy, and how many sessions a pool's pods run. What somebody may wait for
    /// (ready, asleep, failed) is written at once.
    #[arg(long, env = "DORMOUSE_STATUS_INTERVAL_MS", default_value_t = 60_000)]
    pub status_interval_ms: u64,
    /// Seconds between two sweeps of the stores for what is left of sessions that do not exist any more; 0: never.
    #[arg(long, env = "DORMOUSE_ORPHAN_SWEEP_INTERVAL_SECONDS", default_value_t = 3_600)]
    pub orphan_sweep_interval_seconds: u64,
    /// Address at which gateways ask the operator that leads for sessions that have left etcd. Absent: there is no archive, and none leaves.
    #[arg(long, env = "DORMOUSE_ARCHIVE_LISTEN")]
    pub archive_listen: Option<SocketAddr>,
    /// Address of a ToolBroker, which is told of sessions that are deleted; {name} and {namespace} are replaced.
    #[arg(long, env = "DORMOUSE_BROKER_ADDRESS", default_value_t = format!("{{name}}-broker.{{namespace}}.svc:{BROKER_PORT}"))]
    pub broker_address: String,
    /// DNS names that clients know the gateways by, with commas between them: a certificate for them is kept in the Secret dormouse-gateway-door. Empty:
    /// none is made.
    #[arg(long, env = "DORMOUSE_DOOR_NAMES", value_delimiter = ',')]
    pub door_names: Vec<String>,
    /// How much memory there is.
    #[command(flatten)]
    pub memory: MemoryArgs,
    /// How long certificates live.
    #[command(flatten)]
    pub certificates: CertificateArgs,
    /// Probes and metrics.
    #[command(flatten)]
    pub admin: AdminArgs,
}

/// How long the certificates live with which processes know each other. What is due is made anew at two thirds of its life.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct CertificateArgs {
    /// Seconds that the certificate authority lives. Another one follows it at two thirds of that.
    #[arg(long, env = "DORMOUSE_AUTHORITY_SECONDS", default_value_t = 31_536_000, value_parser = clap::value_parser!(u64).range(1..=315_360_000))]
    pub authority_seconds: u64,
    /// Seconds that the certificate of a process lives.
    #[arg(long, env = "DORMOUSE_CERTIFICATE_SECONDS", default_value_t = 604_800, value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub certificate_seconds: u64,
    /// Seconds that every process has to read what it is to trust, before the next step of a change of authorities: kubelets take up to two minutes.
    #[arg(long, env = "DORMOUSE_TRUST_OVERLAP_SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub trust_overlap_seconds: u64,
}

impl CertificateArgs {
    /// Life of the authority.
    #[must_use]
    pub const fn authority(self) -> Duration {
        Duration::from_secs(self.authority_seconds)
    }

    /// Life of a process's certificate.
    #[must_use]
    pub const fn certificate(self) -> Duration {
        Duration::from_secs(self.certificate_seconds)
    }

    /// Time to read what is to be trusted.
    #[must_use]
    pub const fn overlap(self) -> Duration {
        Duration::from_secs(self.trust_overlap_seconds)
    }
}

/// The object store that pools use unless they name another.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct StorageArgs {
    /// URL of the S3-compatible service; absent: every pool must name its storage.
    #[arg(long, env = "DORMOUSE_S3_ENDPOINT")]
    pub s3_endpoint: Option<String>,
    /// Bucket.
    #[arg(long, env = "DORMOUSE_S3_BUCKET")]
    pub s3_bucket: Option<String>,
    /// Region.
    #[arg(long, env = "DORMOUSE_S3_REGION", default_value = "us-east-1")]
    pub s3_region: String,
    /// Before every key: empty, or ending in `/`.
    #[arg(long, env = "DORMOUSE_S3_PREFIX", default_value = "")]
    pub s3_prefix: String,
    /// Name of this cluster in object stores, which others may use, too. Absent: the uid of the namespace kube-system. Two clusters that come
    /// from one backup of etcd need a name each.
    #[arg(id = "storage_cluster", long = "storage-cluster", env = "DORMOUSE_STORAGE_CLUSTER")]
    pub cluster: Option<String>,
    /// Folder with accessKeyId and secretAccessKey (and sessionToken) of the operator itself; read again when they change.
    #[arg(long, env = "DORMOUSE_S3_CREDENTIALS_DIR")]
    pub s3_credentials_dir: Option<PathBuf>,
    /// File with a token of the operator's ServiceAccount that the store's STS takes for the role (AssumeRoleWithWebIdentity). With it no access key is
    /// needed anywhere.
    #[arg(long, env = "DORMOUSE_S3_WEB_IDENTITY_TOKEN_FILE")]
    pub s3_web_identity_token_file: Option<PathBuf>,
    /// URL of the STS service. Absent: at AWS the one of the region, elsewhere the object store itself.
    #[arg(long, env = "DORMOUSE_STS_ENDPOINT")]
    pub sts_endpoint: Option<String>,
    /// Where kernel pods get their credentials from.
    #[arg(long, env = "DORMOUSE_STORAGE_CREDENTIALS", value_enum, default_value = "sts")]
    pub storage_credentials: CredentialsSource,
    /// Role to assume; MinIO needs none from who has an access key.
    #[arg(long, env = "DORMOUSE_STORAGE_ROLE_ARN")]
    pub storage_role_arn: Option<String>,
    /// Seconds that minted credentials live.
    #[arg(long, env = "DORMOUSE_STORAGE_CREDENTIALS_SECONDS", default_value_t = 3_600)]
    pub storage_credentials_seconds: u64,
}

impl StorageArgs {
    /// How long minted credentials live.
    #[must_use]
    pub fn credentials_validity(&self) -> Duration {
        Duration::from_secs(self.storage_credentials_seconds).max(DURATION_MIN)
    }
}

/// What the default-deny policies leave open.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct NetworkArgs {
    /// NetworkPolicyPeers (JSON list) of the object store. Empty: guessed from its URL.
    #[arg(long, env = "DORMOUSE_STORAGE_EGRESS", default_value = "")]
    pub storage_egress: Peers,
    /// Port on which those peers serve, when it is not the one of the URL.
    #[arg(long, env = "DORMOUSE_STORAGE_EGRESS_PORT")]
    pub storage_egress_port: Option<u16>,
    /// NetworkPolicyPeers (JSON list) of what scrapes the metrics of kernel pods and brokers. Empty: nobody does.
    #[arg(long, env = "DORMOUSE_METRICS_INGRESS", default_value = "")]
    pub metrics_ingress: Peers,
    /// NetworkPolicyPeers (JSON list) of the cluster's DNS.
    #[arg(
        long,
        env = "DORMOUSE_DNS_EGRESS",
        default_value = r#"[{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"kube-system"}}}]"#
    )]
    pub dns_egress: Peers,
    /// URL of the collector that kernel pods and brokers send traces to, by OTLP over HTTP. Empty: there are none.
    #[arg(long, env = "DORMOUSE_TRACES_ENDPOINT", default_value = "")]
    pub traces_endpoint: String,
    /// Which part of the requests has a trace, 0 to 1, where their clients do not say it.
    #[arg(long, env = "DORMOUSE_TRACES_RATIO", default_value = "0.01")]
    pub traces_ratio: String,
}
