//! The kernel pod: many sessions in one process.
//!
//! A [`Pod`] holds an engine, a store and the way to tools; each session is a task of its own ([`session`]) that owns its instance, commits
//! before it acks, and goes to sleep when nobody asks. [`Pod::serve`] puts the API of `dormouse_protocol::kernel` before it.
//! It must not know the Kubernetes API, clients, or a tool's secret; it reaches storage and brokers only.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking"))]

mod broker_tools;
mod cache;
mod claim;
mod claimed;
pub mod config;
mod contents;
mod dedicated;
mod difference;
pub mod disk;
mod environment;
mod events;
mod files;
mod metrics;
mod modules;
mod pod;
mod record;
mod references;
mod registry;
mod report;
mod role;
pub mod scheduler;
mod sealed;
mod server;
mod session;
mod slots;
mod storage;
mod stored;
mod streamed;
mod tools;
mod usage;

pub use broker_tools::BrokerTools;
pub use claim::Claim;
pub use dedicated::{GrantedStore, Grants};
pub use environment::{Environment, Threads, growth};
pub use pod::{Pod, PodConfig, PodError, Running};
pub use role::Role;
pub use tools::{BodyParts, Tools};

use dormouse_service::tls::TlsFiles;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// The runtime of a process with sessions, with a thread for each core. Sessions are tasks of it: see [`scheduler`].
///
/// # Errors
/// When the system gives no threads.
pub fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()
}

impl Pod {
    /// The routes of the pod's API, for requests that carry the `PeerIdentity` of their sender. Streams that would never end do so with `stop`.
    pub fn routes(&self, stop: CancellationToken) -> axum::Router {
        server::router(self.clone(), stop)
    }

    /// Serves until `shutdown` is cancelled; then stores every session and ends within a bound. Only gateways and the operator are obeyed.
    pub async fn serve(&self, listener: TcpListener, tls: TlsFiles, shutdown: CancellationToken) {
        server::serve(self.clone(), listener, tls, shutdown).await;
    }
}
