//! The certificate that a listener for anybody shows: one of a public authority or of the cluster's, rotated without a restart.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use rustls::ServerConfig;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};

use super::files::TlsError;

/// How often the files are looked at, at most: a rotated certificate is shown this much later.
pub const CHECK_EVERY: Duration = Duration::from_secs(5);
/// Protocols accepted, best first.
const ALPN: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// A certificate and its key in files. Clones share what was read last.
#[derive(Debug, Clone)]
pub struct DoorCertificate {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    directory: PathBuf,
    check_every: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    files: Files,
    config: Arc<ServerConfig>,
    checked: Instant,
}

#[derive(PartialEq, Eq)]
struct Files {
    chain: Vec<u8>,
    key: Vec<u8>,
}

impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Files")
    }
}

impl DoorCertificate {
    /// Reads `tls.crt` and `tls.key`, and again when they have changed, as a mounted Secret does.
    ///
    /// # Errors
    /// They are not there or cannot be used. (Later ones that cannot be used are logged, and those before stay.)
    pub fn load(directory: &Path) -> Result<Self, TlsError> {
        Self::checked_every(directory, CHECK_EVERY)
    }

    /// The same, looking at the files so often at most.
    ///
    /// # Errors
    /// As for [`Self::load`].
    pub fn checked_every(directory: &Path, check_every: Duration) -> Result<Self, TlsError> {
        let files = Files::read(directory)?;
        let config = files.config()?;
        let state = Mutex::new(State { files, config, checked: Instant::now() });
        Ok(Self { shared: Arc::new(Shared { directory: directory.to_owned(), check_every, state }) })
    }

    /// What the next connection is accepted with.
    pub fn config(&self) -> Arc<ServerConfig> {
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.checked.elapsed() >= self.shared.check_every {
            state.checked = Instant::now();
            if let Err(error) = state.reload(&self.shared.directory) {
                tracing::error!(%error, "the new certificate of the door cannot be used; the one before stays");
            }
        }
        Arc::clone(&state.config)
    }
}

impl State {
    fn reload(&mut self, directory: &Path) -> Result<(), TlsError> {
        let files = Files::read(directory)?;
        if files != self.files {
            self.config = files.config()?;
            self.files = files;
            tracing::info!("the door shows a new certificate");
        }
        Ok(())
    }
}

impl Files {
    fn read(directory: &Path) -> Result<Self, TlsError> {
        let file = |name: &str| {
            let path = directory.join(name);
            std::fs::read(&path).map_err(|source| TlsError::Read { path, source })
        };
        Ok(Self { chain: file("tls.crt")?, key: file("tls.key")? })
    }

    fn config(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.chain).collect();
        let chain = chain.map_err(|source| TlsError::Pem { what: "tls.crt", source })?;
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|source| TlsError::Pem { what: "tls.key", source })?;
        let mut config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
        config.alpn_protocols = ALPN.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(Arc::new(config))
    }
}
