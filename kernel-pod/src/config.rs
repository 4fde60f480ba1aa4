//! Flags of `dormouse-kernel`. Each is an environment variable too.

use std::net::SocketAddr;
use std::path::PathBuf;

use dormouse_kms::{KeyLocationError, KmsArgs};
use dormouse_protocol::broker::BROKER_PORT;
use dormouse_protocol::kernel::KERNEL_PORT;
use dormouse_seal::Seal;
use dormouse_service::{AdminArgs, TlsArgs, memory::MemoryArgs};
use dormouse_store::{DiskCacheOptions, S3Args};

use crate::{PodConfig, Role};

/// What the pod is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum IsolationArg {
    /// Sessions that share the process.
    #[default]
    Shared,
    /// One session in the process's life.
    Dedicated,
    /// What is stored of sessions.
    Reader,
}

/// Runs the sessions of one namespace's pool.
#[derive(Debug, Clone, clap::Parser)]
#[command(name = "dormouse-kernel", version)]
pub struct Args {
    /// Address of the mTLS API.
    #[arg(long, env = "DORMOUSE_LISTEN", default_value_t = SocketAddr::from(([0, 0, 0, 0], KERNEL_PORT)))]
    pub listen: SocketAddr,
    /// Name of this pod.
    #[arg(long, env = "DORMOUSE_POD")]
    pub pod: String,
    /// Namespace of this pod: the tenant whose sessions run here.
    #[arg(long, env = "DORMOUSE_NAMESPACE")]
    pub namespace: String,
    /// Name of the KernelPool.
    #[arg(long, env = "DORMOUSE_POOL", default_value = "default")]
    pub pool: String,
    /// Name of the cluster in the object store: it is written there before anything else is. Empty: nothing is said of whose the sessions are.
    #[arg(long, env = "DORMOUSE_CLUSTER", default_value = "")]
    pub cluster: String,
    /// Live sessions that fit.
    #[arg(long, env = "DORMOUSE_SLOTS", default_value_t = 500)]
    pub slots: u32,
    /// Bytes of memory for the pod's own copies of sleeping sessions.
    #[arg(long, env = "DORMOUSE_CACHE_BYTES", default_value_t = 256 << 20)]
    pub cache_bytes: u64,
    /// Folder for a cache of segments, which only this process may write.
    #[arg(long, env = "DORMOUSE_DISK_CACHE_DIR", default_value = "/var/cache/dormouse")]
    pub disk_cache_dir: PathBuf,
    /// Bytes of that cache; 0: none.
    #[arg(long, env = "DORMOUSE_DISK_CACHE_BYTES", default_value_t = 0)]
    pub disk_cache_bytes: u64,
    /// What sessions share: `dedicated` runs one in the process's life, with one slot and no caches, and is given the credentials for it by the
    /// operator; `reader` tells what is stored of those, and runs none.
    #[arg(long, env = "DORMOUSE_ISOLATION", value_enum, default_value_t)]
    pub isolation: IsolationArg,
    /// Where sessions are stored.
    #[command(flatten)]
    pub s3: S3Args,
    /// Folder with the keys that sessions are encrypted with where they are stored: a file a key, and `current` with the name of the one for new
    /// objects; read again when they change. Absent: nothing is encrypted.
    #[arg(long, env = "DORMOUSE_ENCRYPTION_KEYS_DIR")]
    pub encryption_keys_dir: Option<PathBuf>,
    /// The key service, if one has the key.
    #[command(flatten)]
    pub kms: KmsArgs,
    /// Address of a ToolBroker; {name} and {namespace} are replaced.
    #[arg(long, env = "DORMOUSE_BROKER_ADDRESS", default_value_t = format!("{{name}}-broker.{{namespace}}.svc:{BROKER_PORT}"))]
    pub broker_address: String,
    /// Folder for compiled engine code, which nobody but root and this process's user may write. The image names the one that it has; absent: compile
    /// at every start.
    #[arg(long, env = "DORMOUSE_ENGINE_CACHE_DIR")]
    pub engine_cache_dir: Option<PathBuf>,
    /// Digest of the engine that new sessions get, which the image has to have; empty: its newest one.
    #[arg(long, env = "DORMOUSE_ENGINE", default_value = "")]
    pub engine: String,
    /// How much memory there is.
    #[command(flatten)]
    pub memory: MemoryArgs,
    /// Where probes and metrics are served.
    #[command(flatten)]
    pub admin: AdminArgs,
    /// Where the certificate is.
    #[command(flatten)]
    pub tls: TlsArgs,
}

impl Args {
    /// The pod that these flags describe, for what `--isolation` says.
    #[must_use]
    pub fn pod_config(&self, role: Role) -> PodConfig {
        PodConfig {
            pod: self.pod.clone(),
            namespace: self.namespace.clone(),
            pool: self.pool.clone(),
            slots: self.slots,
            cache_bytes: self.cache_bytes,
            store_prefix: self.s3.s3_prefix.clone(),
            role,
        }
    }

    /// What encrypts, as these flags say.
    ///
    /// # Errors
    /// The key service's place is none.
    pub fn seal(&self) -> Result<Seal, KeyLocationError> {
        dormouse_kms::seal(&self.namespace, self.encryption_keys_dir.as_deref(), &self.kms)
    }

    /// The cache on disk that these flags describe, if there is to be one.
    #[must_use]
    pub fn disk_cache(&self) -> Option<DiskCacheOptions> {
        let options = DiskCacheOptions { folder: self.disk_cache_dir.clone(), bytes_max: self.disk_cache_bytes };
        (self.disk_cache_bytes > 0 && self.isolation == IsolationArg::Shared).then_some(options)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::Args;
    use crate::Role;

    #[test]
    fn a_pod_is_given_a_bucket() {
        let parse = |flags: &[&str]| Args::try_parse_from(["dormouse-kernel", "--pod", "p", "--namespace", "team"].iter().chain(flags));
        let args = parse(&["--s3-endpoint", "http://s3", "--s3-bucket", "b", "--s3-prefix", "p/"]).unwrap();
        assert_eq!((args.s3.options().bucket.as_str(), args.pod_config(Role::Shared).store_prefix.as_str()), ("b", "p/"));
        for missing in [["--s3-endpoint", "http://s3"], ["--s3-bucket", "b"]] {
            assert_eq!(parse(&missing).unwrap_err().kind(), clap::error::ErrorKind::MissingRequiredArgument);
        }
    }
}
