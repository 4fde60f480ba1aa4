//! Packages of npm for sessions: found in a registry, resolved with all that they need, verified, and unpacked.
//!
//! A session asks for a package once and keeps what it got, so nothing here is remembered for it. Which version a range means is asked of the
//! registry anew each time; what a version consists of is kept by the integrity of its tarball, for whoever asks next.
//!
//! It must not run anything of a package (there are no install scripts), nor believe a byte that its integrity does not vouch for.

mod cache;
mod packument;
mod registry;
mod resolve;
mod tarball;

use std::sync::{Arc, PoisonError};

use dormouse_crds::modules::Specifier;
use dormouse_protocol::{
    ApiError, ErrorCode,
    broker::{ModulesAnswer, ModulesCall, Package},
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use tokio::sync::Semaphore;

pub(crate) use registry::Source;

use self::{cache::Cache, registry::Registry, resolve::Chosen, tarball::Unpacked};
use crate::{Secrets, net::FetchClients};

/// Packages that are being resolved at one time; further ones wait.
const LOADS_IN_FLIGHT_MAX: usize = 16;
/// Tarballs that one load fetches at a time.
const DOWNLOADS_MAX: usize = 6;
/// Bytes of sources that one answer holds.
const ANSWER_BYTES_MAX: usize = 48 << 20;

/// What loads share.
#[derive(Debug)]
pub(crate) struct Modules {
    clients: FetchClients,
    slots: Semaphore,
    cache: std::sync::Mutex<Cache>,
}

impl Modules {
    pub(crate) fn new(clients: FetchClients) -> Self {
        Self { clients, slots: Semaphore::new(LOADS_IN_FLIGHT_MAX), cache: std::sync::Mutex::default() }
    }

    /// Finds a package and all that it needs.
    pub(crate) async fn load(&self, source: &Source, secrets: &Secrets, call: &ModulesCall) -> Result<ModulesAnswer, ApiError> {
        let specifier = Specifier::parse(&call.specifier)
            .ok_or_else(|| ApiError::new(ErrorCode::InvalidRequest, "specifier: write NAME or npm:NAME@RANGE"))?;
        let _slot = self.slots.acquire().await;
        let registry = Registry::new(&self.clients, source, secrets, call.into()).await?;
        let graph = resolve::resolve(&registry, specifier, &call.pinned).await?;
        let unpacked: Vec<(Chosen, Arc<Unpacked>)> = stream::iter(graph.packages)
            .map(|chosen| async {
                let unpacked = self.unpacked(&registry, &chosen).await?;
                Ok::<_, ApiError>((chosen, unpacked))
            })
            .buffered(DOWNLOADS_MAX)
            .try_collect()
            .await?;
        let bytes: usize = unpacked.iter().map(|(_, unpacked)| unpacked.bytes).sum();
        if bytes > ANSWER_BYTES_MAX {
            let message = format!("{} and what it needs have {bytes} bytes of sources; at most {ANSWER_BYTES_MAX} fit", graph.root);
            return Err(ApiError::new(ErrorCode::SizeAdmissionError, message));
        }
        let packages = unpacked.into_iter().map(|(chosen, unpacked)| Package {
            id: chosen.id(),
            manifest: unpacked.manifest.clone(),
            files: unpacked.files.clone(),
            integrity: chosen.integrity,
            dependencies: chosen.dependencies,
        });
        Ok(ModulesAnswer { root: graph.root, packages: packages.collect() })
    }

    /// What the version consists of: from the cache, or fetched, verified and unpacked.
    async fn unpacked(&self, registry: &Registry<'_>, chosen: &Chosen) -> Result<Arc<Unpacked>, ApiError> {
        if let Some(known) = self.cached().find(&chosen.integrity) {
            return Ok(known);
        }
        let bytes = registry.tarball(&chosen.id(), &chosen.tarball).await?;
        let (id, integrity) = (chosen.id(), chosen.integrity.clone());
        let unpacked = tokio::task::spawn_blocking(move || {
            tarball::verify(&id, &integrity, &bytes)?;
            tarball::unpack(&id, &bytes)
        });
        let lost = |_| ApiError::new(ErrorCode::Internal, "unpacking ended in a panic");
        let unpacked = Arc::new(unpacked.await.map_err(lost)??);
        self.cached().keep(&chosen.integrity, &unpacked);
        Ok(unpacked)
    }

    fn cached(&self) -> std::sync::MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
