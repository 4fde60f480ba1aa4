//! Flags that every process has. Each is an environment variable too.

use std::{net::SocketAddr, path::PathBuf};

/// Where probes and metrics are served.
#[derive(Debug, Clone, clap::Args)]
pub struct AdminArgs {
    /// Address of /livez, /readyz and /metrics.
    #[arg(long, env = "DORMOUSE_ADMIN_LISTEN", default_value = "0.0.0.0:8080")]
    pub admin_listen: SocketAddr,
}

/// Where this process finds its certificate.
#[derive(Debug, Clone, clap::Args)]
pub struct TlsArgs {
    /// Folder with ca.crt, tls.crt and tls.key; read again when they change.
    #[arg(long, env = "DORMOUSE_TLS_DIR", default_value = "/etc/dormouse/tls")]
    pub tls_dir: PathBuf,
}
