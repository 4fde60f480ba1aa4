//! What a process makes of its flags: its store, and as whom it asks brokers. Both come of its own files, or of what it is given once it has a
//! session.

use std::sync::Arc;
use std::time::SystemTime;

use dormouse_erasure::clusters::{Joined, TenantPrefix};
use dormouse_kernel::config::{Args, IsolationArg};
use dormouse_kernel::disk::{self, DiskCacheMetrics};
use dormouse_kernel::{GrantedStore, Grants, Role};
use dormouse_protocol::kernel::Grant;
use dormouse_protocol::{ApiError, ErrorCode};
use dormouse_service::ca::CertPem;
use dormouse_service::tls::{TlsError, TlsFiles};
use dormouse_store::{CredentialSource, Credentials, S3, S3Args, S3Options, SnapshotStore};

/// What a process has at its start.
pub struct Given {
    /// What it is for.
    pub role: Role,
    /// Where sessions are stored.
    pub store: Arc<dyn SnapshotStore>,
    /// As whom it asks brokers.
    pub client: TlsFiles,
}

impl Given {
    /// What a process of these flags has, whose server answers under `tls`.
    ///
    /// # Errors
    /// The certificate cannot be used.
    pub fn new(args: &Args, tls: &TlsFiles, disk_metrics: &DiskCacheMetrics) -> Result<Self, TlsError> {
        let mut given = Self::of_role(args, tls)?;
        if let Some(options) = args.disk_cache() {
            given.store = Arc::new(disk::cached(given.store, options, disk_metrics.clone()));
        }
        if !args.cluster.is_empty() {
            let place = TenantPrefix { store_prefix: args.s3.s3_prefix.clone(), tenant: args.namespace.clone() };
            given.store = Arc::new(Joined::new(given.store, place, args.cluster.clone()));
        }
        Ok(given)
    }

    fn of_role(args: &Args, tls: &TlsFiles) -> Result<Self, TlsError> {
        let role = match args.isolation {
            IsolationArg::Shared => Role::Shared,
            IsolationArg::Reader => Role::Reader,
            IsolationArg::Dedicated => {
                let (store, client) = (Arc::new(GrantedStore::default()), tls.apart()?);
                let grants = Replaced { s3: args.s3.clone(), store: Arc::clone(&store), client: client.clone() };
                return Ok(Self { role: Role::Dedicated(Arc::new(grants)), store, client });
            }
        };
        Ok(Self { role, store: Arc::new(S3::new(&args.s3.options())), client: tls.clone() })
    }
}

/// What every grant replaces.
struct Replaced {
    s3: S3Args,
    store: Arc<GrantedStore>,
    client: TlsFiles,
}

impl Grants for Replaced {
    fn apply(&self, grant: &Grant) -> Result<(), ApiError> {
        let (storage, certificate) = (grant.storage.clone(), grant.certificate.clone());
        // How long it is good is the operator's matter.
        let pem = CertPem { ca: certificate.ca, cert: certificate.cert, key: certificate.key, not_after: SystemTime::UNIX_EPOCH };
        let unusable = |error| ApiError::new(ErrorCode::InvalidRequest, format!("the certificate cannot be used: {error}"));
        self.client.replace(&pem).map_err(unusable)?;
        let credentials = Credentials {
            access_key_id: storage.access_key_id,
            secret_access_key: storage.secret_access_key,
            session_token: storage.session_token,
            expiration: storage.expiration,
        };
        let options = S3Options { credentials: CredentialSource::Static(credentials), ..self.s3.options() };
        self.store.replace(Arc::new(S3::new(&options)));
        Ok(())
    }
}
