//! The gateway: the HTTP API, who may use it, and the way from a session's name to the process that runs it.
//!
//! [`routes`] parse and answer, [`service`], [`history`] and [`stream`] are the verbs, [`router`] finds or makes a place for a session, [`desires`] does the
//! wakes that nobody asked for, and a [`directory::Directory`] is where sessions are written down. It must never hold a session's state that a
//! crash would lose, run a cell, read storage, or hold a tool's secret: whatever it remembers only spares requests.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking"))]

use std::{future::IntoFuture as _, sync::Arc, time::Duration};

use axum::serve::ListenerExt as _;
use dormouse_service::{Clock, Metrics};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub mod auth;
mod claim;
pub mod desires;
pub mod directory;
pub mod files;
pub mod history;
pub mod journey;
pub mod kernels;
mod metrics;
mod placement;
mod problem;
pub mod router;
pub mod routes;
#[cfg(feature = "kubernetes")]
pub mod run;
pub mod service;
mod single_flight;
pub mod state;
pub mod stream;

pub use auth::Authenticator;
pub use directory::Directory;
pub use kernels::Kernels;
pub use routes::openapi;

/// How long requests may go on once the gateway stops.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(25);

/// A gateway over a directory of sessions, a client of kernel pods, and an authority on callers.
#[derive(Clone)]
pub struct Gateway {
    router: router::Router,
    authenticator: Arc<dyn Authenticator>,
    registry: Metrics,
    metrics: metrics::GatewayMetrics,
}

impl Gateway {
    /// A gateway that does nothing yet.
    #[must_use]
    pub fn new(directory: Arc<dyn Directory>, kernels: Kernels, authenticator: Arc<dyn Authenticator>) -> Self {
        Self::with_metrics(directory, kernels, authenticator, Metrics::new())
    }

    /// The same, counting in `registry`.
    #[must_use]
    pub fn with_metrics(directory: Arc<dyn Directory>, kernels: Kernels, authenticator: Arc<dyn Authenticator>, registry: Metrics) -> Self {
        let metrics = metrics::GatewayMetrics::register(&registry);
        let router = router::Router::new(directory, kernels, metrics.clone());
        Self { router, authenticator, registry, metrics }
    }

    /// The same by another clock.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { router: self.router.with_clock(clock), ..self }
    }

    /// What it counts.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.registry
    }

    /// The routes of the HTTP API. Streams that would never end do so with `shutdown`.
    pub fn routes(&self, shutdown: CancellationToken) -> axum::Router {
        let app = routes::App {
            router: self.router.clone(),
            authenticator: Arc::clone(&self.authenticator),
            metrics: self.metrics.clone(),
            shutdown,
        };
        routes::routes(app)
    }

    /// Does the wakes that nobody asked for, until `shutdown`.
    pub fn background_wakes(&self, shutdown: CancellationToken) -> impl Future<Output = ()> + Send + use<> {
        desires::run(self.router.clone(), self.metrics.clone(), shutdown)
    }

    /// Serves the HTTP API and does the wakes that nobody asked for, until `shutdown`; then requests under way have [`DRAIN_TIMEOUT`].
    pub async fn serve(&self, listener: TcpListener, shutdown: CancellationToken) -> std::io::Result<()> {
        let listener = listener.tap_io(|connection| {
            // Small answers must not wait for more to come; a connection without it only is slower.
            let _ = connection.set_nodelay(true);
        });
        let desires = tokio::spawn(self.background_wakes(shutdown.clone()));
        let served = axum::serve(listener, self.routes(shutdown.clone())).with_graceful_shutdown(shutdown.clone().cancelled_owned());
        let drained = async {
            shutdown.cancelled().await;
            tokio::time::sleep(DRAIN_TIMEOUT).await;
        };
        let outcome = tokio::select! {
            outcome = served.into_future() => outcome,
            () = drained => {
                tracing::warn!("requests were still running when the time to stop was over");
                Ok(())
            }
        };
        desires.abort();
        outcome
    }
}
