//! Requests to our own processes.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use reqwest::{
    Method, RequestBuilder, Response,
    dns::{Addrs, Name, Resolve, Resolving},
};

use super::{Identity, TlsError, TlsFiles, files::Loaded};
use crate::{
    origin,
    wire::{SendError, Wire},
};

/// How long a peer may take to accept a connection and prove who it is.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long an unused connection stays open.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// A connection on which nothing arrives for this long is asked for a sign of life, so that a request to a vanished pod fails …
const PING_INTERVAL: Duration = Duration::from_secs(5);
/// … when the sign does not come within this time.
const PING_TIMEOUT: Duration = Duration::from_secs(5);
/// Flow-control window of a stream, in bytes.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
/// Flow-control window of a connection, in bytes: streams that nobody reads must not fill it, or they would stop all others.
const CONNECTION_WINDOW_BYTES: u32 = 1 << 30;
/// Peers whose connections are remembered; beyond it all are forgotten and made again as needed.
const PEERS_MAX: usize = 4_096;

/// Sends requests to identities at addresses. Clones share the connections.
#[derive(Debug, Clone)]
pub struct PeerClient {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    way: Way,
    /// Carries the errors of requests that cannot even be formed.
    fallback: reqwest::Client,
}

#[derive(Debug)]
enum Way {
    Network { tls: TlsFiles, peers: Mutex<Peers> },
    Wire(Arc<dyn Wire>),
}

/// One HTTP client per (identity, address): a pool that was shared would reuse an identity's connection to an address it has left.
#[derive(Debug, Default)]
struct Peers {
    generation: u64,
    clients: HashMap<(String, String), reqwest::Client>,
}

impl PeerClient {
    /// A client with this process's certificate.
    ///
    /// # Errors
    /// The HTTP client cannot be made.
    pub fn new(tls: TlsFiles) -> Result<Self, TlsError> {
        let fallback = build(&tls.current(), Target::default())?;
        Ok(Self { shared: Arc::new(Shared { way: Way::Network { tls, peers: Mutex::default() }, fallback }) })
    }

    /// A client whose requests something else than the network carries; the URL's host is the peer's identity. `client` only forms them.
    #[must_use]
    pub fn over(client: reqwest::Client, wire: Arc<dyn Wire>) -> Self {
        Self { shared: Arc::new(Shared { way: Way::Wire(wire), fallback: client }) }
    }

    /// Sends what [`Self::request`] has formed.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn send(&self, request: RequestBuilder) -> Result<Response, SendError> {
        match &self.shared.way {
            Way::Network { .. } => Ok(request.send().await?),
            Way::Wire(wire) => wire.carry(request.build()?).await,
        }
    }

    /// A request to `peer` at `address` (`host:port`, where host is an IP address or a DNS name). `path` begins with `/` and may hold a query.
    /// Sending fails unless the other end proves to be `peer`. There is no timeout but for connecting: set one on the request.
    /// It says on behalf of which client's request it is made ([`origin`]).
    pub fn request(&self, method: Method, peer: &Identity, address: &str, path: &str) -> RequestBuilder {
        origin::carry(self.form(method, peer, address, path))
    }

    fn form(&self, method: Method, peer: &Identity, address: &str, path: &str) -> RequestBuilder {
        let Some(target) = Target::parse(address) else {
            return self.shared.fallback.request(method, format!("https://{address}{path}:not-host-and-port"));
        };
        let url = format!("https://{}:{}{path}", peer.dns_name(), target.port);
        let Way::Network { tls, peers } = &self.shared.way else { return self.shared.fallback.request(method, url) };
        match client(tls, peers, peer, address, target) {
            Ok(client) => client.request(method, url),
            Err(error) => {
                tracing::error!(%error, "no HTTP client");
                self.shared.fallback.request(method, url)
            }
        }
    }
}

fn client(tls: &TlsFiles, peers: &Mutex<Peers>, peer: &Identity, address: &str, target: Target) -> Result<reqwest::Client, TlsError> {
    let loaded = tls.current();
    let mut peers = peers.lock().unwrap_or_else(PoisonError::into_inner);
    if peers.generation != loaded.generation || peers.clients.len() >= PEERS_MAX {
        *peers = Peers { generation: loaded.generation, clients: HashMap::new() };
    }
    let key = (peer.dns_name(), address.to_owned());
    if let Some(client) = peers.clients.get(&key) {
        return Ok(client.clone());
    }
    let client = build(&loaded, target)?;
    peers.clients.insert(key, client.clone());
    Ok(client)
}

fn build(loaded: &Loaded, target: Target) -> Result<reqwest::Client, TlsError> {
    crate::telemetry::install_tls_provider();
    let client = reqwest::Client::builder()
        .tls_backend_preconfigured(loaded.client.clone())
        .https_only(true)
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .dns_resolver(Arc::new(target))
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .http2_initial_stream_window_size(STREAM_WINDOW_BYTES)
        .http2_initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .http2_keep_alive_interval(PING_INTERVAL)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .build()?;
    Ok(client)
}

/// Where a peer is. Stands in for DNS, as the name in the URL is the peer's identity and not its address.
#[derive(Debug, Clone, Default)]
struct Target {
    host: String,
    port: u16,
}

impl Target {
    fn parse(address: &str) -> Option<Self> {
        if let Ok(address) = address.parse::<SocketAddr>() {
            return Some(Self { host: address.ip().to_string(), port: address.port() });
        }
        let (host, port) = address.rsplit_once(':')?;
        let named = !host.is_empty() && !host.contains([':', '/', '@']);
        Some(Self { host: named.then(|| host.to_owned())?, port: port.parse().ok()? })
    }
}

impl Resolve for Target {
    fn resolve(&self, _: Name) -> Resolving {
        let target = self.clone();
        Box::pin(async move {
            let addresses: Vec<SocketAddr> = tokio::net::lookup_host((target.host, target.port)).await?.collect();
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}
