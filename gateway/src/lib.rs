//! The gateway: the HTTP API, who may use it, and the way from a session's name to the process that runs it.
//!
//! [`routes`] parse and answer, [`service`], [`history`] and [`stream`] are the verbs, [`router`] finds or makes a place for a session, [`desires`] does the
//! wakes that nobody asked for, and a [`directory::Directory`] is where sessions are written down. It must never hold a session's state that a
//! crash would lose, run a cell, read storage, or hold a tool's secret: whatever it remembers only spares requests.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking"))]

use std::{sync::Arc, time::Duration};

use auth::{
    keys::{KeyStore, Keys},
    oidc,
};
use dormouse_service::{
    Clock, Ids, Metrics,
    memory::Memory,
    public::{Door, Limits},
    tls::{DoorCertificate, TlsFiles},
};
use peers::Peers;
use tally::Tally;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub mod access;
mod app;
pub mod approvals;
pub mod audit;
pub mod auth;
mod body;
mod bootstrap;
mod chain;
mod claim;
pub mod desires;
pub mod directory;
mod doors;
mod expiry;
pub mod files;
pub mod history;
pub mod in_flight;
pub mod jobs;
pub mod kernels;
mod lifetimes;
pub mod links;
mod local;
mod metrics;
mod names;
#[cfg(feature = "kubernetes")]
pub mod objects;
pub mod origins;
pub mod peers;
mod placement;
mod problem;
mod quota;
mod quotas;
mod resource;
mod rooms;
pub mod router;
pub mod routes;
#[cfg(feature = "kubernetes")]
pub mod run;
pub mod runs;
pub mod service;
mod single_flight;
mod sockets;
pub mod state;
mod stored;
pub mod stream;
pub mod tally;
pub mod usage;
pub mod webhooks;

pub use auth::Authenticator;
pub use body::BODY_BYTES_MAX;
pub use directory::Directory;
pub use kernels::Kernels;
pub use rooms::{ANSWERS_BYTES_MAX, BODIES_BYTES_MAX};
pub use routes::openapi;

/// How long requests may go on once the gateway stops.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(25);
/// How long sockets whose cells had that time may take to close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// A gateway over a directory of sessions, a client of kernel pods, and an authority on callers.
#[derive(Clone)]
pub struct Gateway {
    router: router::Router,
    authenticator: Arc<dyn Authenticator>,
    registry: Metrics,
    metrics: metrics::GatewayMetrics,
    door: Door,
    is_local: bool,
    memory: Memory,
    keys: Option<Arc<dyn KeyStore>>,
    origins: origins::Origins,
    resource: resource::Resource,
    links: Option<links::Links>,
    peers: Peers,
    beside: axum::Router,
    sockets: sockets::Sockets,
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
        let router = router::Router::new(directory, kernels, metrics.clone()).with_authority(Arc::clone(&authenticator));
        let limits = Limits { drain_timeout: DRAIN_TIMEOUT, ..Limits::default() };
        Self {
            router,
            authenticator,
            registry,
            metrics,
            door: Door::new(limits),
            is_local: false,
            memory: Memory::unlimited(),
            keys: None,
            origins: origins::Origins::default(),
            resource: resource::Resource::default(),
            links: None,
            peers: Peers::default(),
            beside: axum::Router::new(),
            sockets: sockets::Sockets::default(),
        }
    }

    /// Leaves to others of several gateways what they are to do first.
    #[must_use]
    pub fn with_peers(self, peers: Peers) -> Self {
        Self { peers, ..self }
    }

    /// Has one of several gateways count for all what is to be counted exactly.
    #[must_use]
    pub fn with_tally(self, tally: Tally) -> Self {
        Self { router: self.router.with_tally(tally), ..self }
    }

    /// Answers only requests to loopback hosts that no page of another origin sent.
    #[must_use]
    pub fn local(mut self) -> Self {
        self.is_local = true;
        self
    }

    /// Takes API keys that `store` has, beside the credentials that it takes anyway.
    #[must_use]
    pub fn with_keys(mut self, store: Arc<dyn KeyStore>) -> Self {
        let directory = Arc::clone(self.router.directory());
        self.authenticator = Arc::new(Keys::new(Arc::clone(&store), directory, self.authenticator));
        self.keys = Some(store);
        self
    }

    /// Takes tokens of an OpenID Connect issuer, beside the credentials that it takes anyway.
    ///
    /// # Errors
    /// The issuer cannot be asked.
    pub fn with_oidc(mut self, settings: oidc::Settings) -> Result<Self, oidc::OidcError> {
        self.resource.issuer = Some(settings.issuer.as_str().into());
        self.authenticator = Arc::new(oidc::Oidc::new(settings, self.authenticator)?);
        Ok(self)
    }

    /// Calls itself by this URL towards clients; without it by the name that they call it.
    #[must_use]
    pub fn with_public_url(mut self, url: &str) -> Self {
        self.resource.url = Some(url.into());
        self
    }

    /// Lets web pages of these origins call.
    #[must_use]
    pub fn with_origins(mut self, origins: origins::Origins) -> Self {
        self.origins = origins;
        self
    }

    /// Makes links with which people decide about calls that wait.
    #[must_use]
    pub fn with_links(mut self, links: links::Links) -> Self {
        self.links = Some(links);
        self
    }

    /// Serves these routes to anybody whom it would answer, too: whoever asks needs no token for them.
    #[must_use]
    pub fn beside(self, routes: axum::Router) -> Self {
        Self { beside: routes, ..self }
    }

    /// Speaks TLS to clients, and nothing else.
    #[must_use]
    pub fn with_certificate(mut self, certificate: DoorCertificate) -> Self {
        self.resource.is_tls = true;
        self.door.certificate = Some(certificate);
        self
    }

    /// What clients may take of the listener.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.door.limits = limits;
        self
    }

    /// Takes requests as long as there is room for them in this memory.
    #[must_use]
    pub fn within(mut self, memory: Memory) -> Self {
        self.memory = memory;
        self
    }

    /// The same by another clock.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { router: self.router.with_clock(clock), ..self }
    }

    /// The same with other names for what clients left unnamed.
    #[must_use]
    pub fn with_ids(self, ids: Ids) -> Self {
        Self { router: self.router.with_ids(ids), ..self }
    }

    /// What it counts.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.registry
    }

    /// Sends clients elsewhere once this is cancelled, some time before it is told to stop. See [`Door::leaving`].
    #[must_use]
    pub fn leaving_with(mut self, leaving: CancellationToken) -> Self {
        self.door.leaving = leaving;
        self
    }

    /// The routes of the HTTP API. Streams that would never end do so with `shutdown`.
    pub fn routes(&self, shutdown: CancellationToken) -> axum::Router {
        let app = app::App::new(app::Shared {
            router: self.router.clone(),
            authenticator: Arc::clone(&self.authenticator),
            metrics: self.metrics.clone(),
            shutdown,
            is_local: self.is_local,
            keys: self.keys.clone(),
            origins: self.origins.clone(),
            resource: self.resource.clone(),
            links: self.links.clone(),
            sockets: self.sockets.clone(),
            shut_kernels: app::App::shut_kernels(),
            rooms: rooms::Rooms::within(&self.memory),
        });
        routes::routes(app, self.memory.clone(), self.beside.clone())
    }

    /// The way to sessions.
    #[must_use]
    pub fn router(&self) -> &router::Router {
        &self.router
    }

    /// Does the wakes that nobody asked for, until `shutdown`.
    pub fn background_wakes(&self, shutdown: CancellationToken) -> impl Future<Output = ()> + Send + use<> {
        desires::run(self.router.clone(), self.metrics.clone(), self.peers.clone(), shutdown)
    }

    /// Has the status of quotas follow what is used, until `shutdown`.
    pub fn follow_quotas(&self, shutdown: CancellationToken) -> impl Future<Output = ()> + Send + use<> {
        quota::status::run(self.router.clone(), self.peers.clone(), shutdown)
    }

    /// Answers the other gateways, until `shutdown`.
    pub fn serve_peers(
        &self,
        tls: TlsFiles,
        listener: TcpListener,
        shutdown: CancellationToken,
    ) -> impl Future<Output = ()> + Send + use<> {
        let router = &self.router;
        let (tally, quotas, directory) = (router.tally().clone(), router.quotas().clone(), Arc::clone(router.directory()));
        let app = tally::server::App { tally, quotas, directory, clock: router.clock(), others: Default::default() };
        tally::server::serve(app, tls, listener, shutdown)
    }

    /// Serves the HTTP API and does what nobody asks for, until `shutdown`; then requests and sockets' cells under way have
    /// [`DRAIN_TIMEOUT`].
    pub async fn serve(&self, listener: TcpListener, shutdown: CancellationToken) {
        let (wakes, quotas) = (self.background_wakes(shutdown.clone()), self.follow_quotas(shutdown.clone()));
        let unasked = tokio::spawn(async move { tokio::join!(wakes, quotas) });
        let sockets = async {
            shutdown.cancelled().await;
            if tokio::time::timeout(DRAIN_TIMEOUT + CLOSE_TIMEOUT, self.sockets.left()).await.is_err() {
                tracing::warn!("sockets were still open when the time to stop was over");
            }
        };
        tokio::join!(self.door.clone().serve(listener, self.routes(shutdown.clone()), shutdown.clone()), sockets);
        unasked.abort();
    }
}
