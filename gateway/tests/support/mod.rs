//! A gateway on a folder, with kernel pods that answer as they are told over real mutual TLS.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod issuer;
mod pod;

use std::{sync::Arc, time::Duration};

use dormouse_gateway::{
    Directory, Gateway, Kernels,
    auth::{Authenticator, loopback::Loopback},
    directory::folder::{FolderDirectory, StaticPod},
};
use dormouse_service::{
    ca::{Ca, LEAF_VALIDITY},
    telemetry::install_tls_provider,
    tls::{Identity, PeerClient, Process, TlsFiles},
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

#[allow(unused_imports, reason = "each test file uses its part")]
pub use pod::{Answer, FakePod};

/// One trust domain, with a certificate for whoever asks.
pub struct Trust(Ca);

impl Trust {
    pub fn new() -> Self {
        install_tls_provider();
        Self(Ca::generate().unwrap())
    }

    pub fn files(&self, process: Process, name: &str) -> TlsFiles {
        let name = match process {
            Process::Kernel => Identity::kernel("default", "default", name),
            _ => Identity::new(process, "default", name),
        }
        .dns_name();
        TlsFiles::from_pem(&self.0.issue(&[name], LEAF_VALIDITY).unwrap()).unwrap()
    }

    pub fn kernels(&self) -> Kernels {
        Kernels::new(PeerClient::new(self.files(Process::Gateway, "gateway")).unwrap())
    }

    /// The client that a folder follows pods with.
    pub fn operator(&self) -> Kernels {
        Kernels::new(PeerClient::new(self.files(Process::Operator, "operator")).unwrap())
    }
}

/// A folder of sessions whose pods are these.
pub async fn directory(trust: &Trust, pods: &[&Arc<FakePod>]) -> (tempfile::TempDir, Arc<FolderDirectory>) {
    let folder = tempfile::tempdir().unwrap();
    let pods = pods
        .iter()
        .map(|pod| StaticPod { pod: pod.name.to_owned(), namespace: "default".to_owned(), address: pod.address, boot: pod.boot.clone() })
        .collect();
    let directory = FolderDirectory::open(dormouse_durable::System::shared(), folder.path(), pods, trust.operator(), None).await.unwrap();
    (folder, directory)
}

/// A gateway's HTTP API on a port of its own. Without the loop of wakes that nobody asked for.
pub async fn serve(trust: &Trust, directory: Arc<dyn Directory>) -> Client {
    serve_with(trust, directory, Arc::new(Loopback::default())).await
}

/// The same as `dormouse dev` serves it.
pub async fn serve_local(trust: &Trust, directory: Arc<dyn Directory>) -> Client {
    serve_routes(Gateway::new(directory, trust.kernels(), Arc::new(Loopback::default())).local()).await
}

pub async fn serve_with(trust: &Trust, directory: Arc<dyn Directory>, authenticator: Arc<dyn Authenticator>) -> Client {
    serve_routes(Gateway::new(directory, trust.kernels(), authenticator)).await
}

/// The routes of this gateway on a port of its own.
pub async fn serve_routes(gateway: Gateway) -> Client {
    serve_routes_until(gateway, CancellationToken::new()).await
}

/// The same. Streams that would never end do so with `shutdown`.
pub async fn serve_routes_until(gateway: Gateway, shutdown: CancellationToken) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let routes = gateway.routes(shutdown);
    tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    Client::new(base)
}

#[derive(Clone)]
pub struct Client {
    pub base: String,
    pub http: reqwest::Client,
}

impl Client {
    pub fn new(base: String) -> Self {
        Self { base, http: reqwest::Client::builder().timeout(Duration::from_secs(20)).build().unwrap() }
    }

    pub fn request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        self.http.request(method, format!("{}{path}", self.base))
    }

    pub async fn json(&self, method: &str, path: &str, body: serde_json::Value) -> (u16, serde_json::Value) {
        let response = self.request(method, path).json(&body).send().await.unwrap();
        let status = response.status().as_u16();
        (status, response.json().await.unwrap_or_default())
    }

    pub async fn get(&self, path: &str) -> (u16, serde_json::Value) {
        let response = self.request("GET", path).send().await.unwrap();
        let status = response.status().as_u16();
        (status, response.json().await.unwrap_or_default())
    }
}

/// The whole gateway, with the loop of wakes that nobody asked for, until the token is cancelled.
pub async fn serve_whole(trust: &Trust, directory: Arc<dyn Directory>) -> (Client, CancellationToken) {
    let gateway = Gateway::new(directory, trust.kernels(), Arc::new(Loopback::default()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let shutdown = CancellationToken::new();
    let until = shutdown.clone();
    tokio::spawn(async move { gateway.serve(listener, until).await });
    (Client::new(base), shutdown)
}

/// Lets time pass for the gateway's clocks, and no other way.
pub async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

/// Waits until `fits` holds of the directory.
pub async fn until(directory: &dyn Directory, what: &str, fits: impl Fn() -> bool) {
    let mut changes = directory.changes();
    let waiting = async {
        while !fits() {
            // A lag means: look again.
            let _ = changes.recv().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
}
