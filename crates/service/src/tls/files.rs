//! A process's certificate, key and authority, and their rotation.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use rustls::{ClientConfig, RootCertStore, ServerConfig, server::WebPkiClientVerifier};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};

use super::PeerIdentity;
use crate::ca::CertPem;

/// How often a folder is looked at, at most: a rotated certificate is in use this much later.
const CHECK_EVERY: Duration = Duration::from_secs(5);
/// Protocols offered and accepted, best first.
const ALPN: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is not there or cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A text is not PEM of the right kind.
    #[error("{what}: {source}")]
    Pem {
        /// `ca.crt`, `tls.crt` or `tls.key`.
        what: &'static str,
        /// Why.
        source: rustls_pki_types::pem::Error,
    },
    /// The certificate, its key and the authority do not go together.
    #[error("certificate and key: {0}")]
    Unusable(#[from] rustls::Error),
    /// The authority cannot verify clients.
    #[error("ca.crt: {0}")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
    /// The certificate names no process of ours.
    #[error("tls.crt holds no name that ends in .dormouse.internal")]
    NoIdentity,
    /// The HTTP client cannot be made.
    #[error("HTTP client: {0}")]
    Client(#[from] reqwest::Error),
}

/// A process's certificate, key and authority. Clones share what was read last.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    directory: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    pem: Pem,
    loaded: Arc<Loaded>,
    checked: Instant,
}

#[derive(Clone, PartialEq, Eq)]
struct Pem {
    ca: Vec<u8>,
    cert: Vec<u8>,
    key: Vec<u8>,
}

impl From<&CertPem> for Pem {
    fn from(pem: &CertPem) -> Self {
        Self { ca: pem.ca.clone().into_bytes(), cert: pem.cert.clone().into_bytes(), key: pem.key.clone().into_bytes() }
    }
}

impl std::fmt::Debug for Pem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pem")
    }
}

/// What is made of one set of files.
#[derive(Debug)]
pub(super) struct Loaded {
    /// Grows with every reload.
    pub(super) generation: u64,
    pub(super) server: Arc<ServerConfig>,
    pub(super) client: ClientConfig,
    identity: PeerIdentity,
}

impl TlsFiles {
    /// Reads `ca.crt`, `tls.crt` and `tls.key`, and again whenever they change.
    ///
    /// # Errors
    /// They are not there or cannot be used. (A later set that cannot be used is logged, and the one before stays.)
    pub fn load(directory: &Path) -> Result<Self, TlsError> {
        Self::new(Some(directory.to_owned()), read(directory)?)
    }

    /// The same from memory, for ever.
    ///
    /// # Errors
    /// They cannot be used.
    pub fn from_pem(pem: &CertPem) -> Result<Self, TlsError> {
        Self::new(None, Pem::from(pem))
    }

    /// What is in force now, for ever or until it is [replaced](Self::replace): of a process that asks under another certificate than it answers under.
    ///
    /// # Errors
    /// It cannot be used.
    pub fn apart(&self) -> Result<Self, TlsError> {
        let pem = self.lock().pem.clone();
        Self::new(None, pem)
    }

    /// Puts another certificate, key and authority into force, for all clones. What was read from a folder comes back when its files change.
    ///
    /// # Errors
    /// They cannot be used; what was there before stays in force.
    pub fn replace(&self, pem: &CertPem) -> Result<(), TlsError> {
        let mut state = self.lock();
        let pem = Pem::from(pem);
        state.loaded = Arc::new(build(&pem, state.loaded.generation + 1)?);
        state.pem = pem;
        Ok(())
    }

    fn new(directory: Option<PathBuf>, pem: Pem) -> Result<Self, TlsError> {
        let loaded = Arc::new(build(&pem, 0)?);
        let state = Mutex::new(State { pem, loaded, checked: Instant::now() });
        Ok(Self { shared: Arc::new(Shared { directory, state }) })
    }

    /// Who this process is.
    #[must_use]
    pub fn identity(&self) -> PeerIdentity {
        self.current().identity.clone()
    }

    /// Looks at the files now. Returns whether they had changed.
    ///
    /// # Errors
    /// The new files cannot be used; what was read before stays in force.
    pub fn reload(&self) -> Result<bool, TlsError> {
        reload(self.shared.directory.as_deref(), &mut self.lock())
    }

    /// What is in force, after a look at the files if the last one is long ago. The files are three short reads from a memory file system.
    pub(super) fn current(&self) -> Arc<Loaded> {
        let mut state = self.lock();
        if self.shared.directory.is_some() && state.checked.elapsed() >= CHECK_EVERY {
            match reload(self.shared.directory.as_deref(), &mut state) {
                Ok(true) => tracing::info!("certificate reloaded"),
                Ok(false) => {}
                Err(error) => tracing::warn!(%error, "the new certificate cannot be used; the old one stays"),
            }
        }
        state.loaded.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn reload(directory: Option<&Path>, state: &mut State) -> Result<bool, TlsError> {
    state.checked = Instant::now();
    let Some(directory) = directory else { return Ok(false) };
    let pem = read(directory)?;
    if pem == state.pem {
        return Ok(false);
    }
    state.loaded = Arc::new(build(&pem, state.loaded.generation + 1)?);
    state.pem = pem;
    Ok(true)
}

fn read(directory: &Path) -> Result<Pem, TlsError> {
    let file = |name: &str| {
        let path = directory.join(name);
        std::fs::read(&path).map_err(|source| TlsError::Read { path, source })
    };
    Ok(Pem { ca: file("ca.crt")?, cert: file("tls.crt")?, key: file("tls.key")? })
}

fn certificates(what: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>().map_err(|source| TlsError::Pem { what, source })?;
    if all.is_empty() {
        return Err(TlsError::Pem { what, source: rustls_pki_types::pem::Error::NoItemsFound });
    }
    Ok(all)
}

fn build(pem: &Pem, generation: u64) -> Result<Loaded, TlsError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = RootCertStore::empty();
    for certificate in certificates("ca.crt", &pem.ca)? {
        roots.add(certificate)?;
    }
    let roots = Arc::new(roots);
    let chain = certificates("tls.crt", &pem.cert)?;
    let key = PrivateKeyDer::from_pem_slice(&pem.key).map_err(|source| TlsError::Pem { what: "tls.key", source })?;
    let identity = chain.first().and_then(PeerIdentity::of_certificate).ok_or(TlsError::NoIdentity)?;

    let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone()).build()?;
    let mut server = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain.clone(), key.clone_key())?;
    server.alpn_protocols = ALPN.map(<[u8]>::to_vec).to_vec();

    let mut client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)?;
    client.alpn_protocols = ALPN.map(<[u8]>::to_vec).to_vec();
    Ok(Loaded { generation, server: Arc::new(server), client, identity })
}
