//! Who trusts whom while one certificate authority follows another.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use crate::support::{Cluster, SYSTEM};
use axum::{Router, routing::get};
use dormouse_service::{
    ca::CertPem,
    tls::{Identity, PeerClient, Process, Server, TlsFiles, require},
};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use reqwest::Method;
use tokio_util::sync::CancellationToken;

/// More than a process takes to look at its files again, which is five seconds.
const FLAGS: [&str; 2] = ["--orphan-sweep-interval-seconds=0", "--trust-overlap-seconds=10"];
/// How often a mounted Secret is looked at, and a request is sent.
const EVERY: Duration = Duration::from_millis(50);

/// A Secret in files, as a kubelet keeps them.
struct Mounted {
    folder: tempfile::TempDir,
}

impl Mounted {
    async fn start(cluster: &Cluster, namespace: &str, name: &'static str) -> Self {
        let mounted = Self { folder: tempfile::tempdir().unwrap() };
        let api: Api<Secret> = Api::namespaced(cluster.client.clone(), namespace);
        cluster.until(name, async || api.get_opt(name).await.unwrap().is_some()).await;
        mount(&mounted.path(), &api.get(name).await.unwrap());
        let path = mounted.path();
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(EVERY);
            loop {
                ticks.tick().await;
                // The API server goes before this task does.
                let Ok(secret) = api.get(name).await else { return };
                mount(&path, &secret);
            }
        });
        mounted
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("mounted")
    }

    fn pem(&self) -> CertPem {
        let read = |file: &str| std::fs::read_to_string(self.path().join(file)).unwrap();
        CertPem { ca: read("ca.crt"), cert: read("tls.crt"), key: read("tls.key"), not_after: std::time::SystemTime::now() }
    }
}

/// All files change at once.
fn mount(path: &std::path::Path, secret: &Secret) {
    let version = secret.metadata.resource_version.as_ref().unwrap();
    let folder = path.with_file_name(version);
    if folder.exists() {
        return;
    }
    std::fs::create_dir(&folder).unwrap();
    for (file, bytes) in secret.data.as_ref().unwrap() {
        std::fs::write(folder.join(file), &bytes.0).unwrap();
    }
    let link = path.with_file_name("new");
    std::os::unix::fs::symlink(&folder, &link).unwrap();
    std::fs::rename(&link, path).unwrap();
}

async fn asks(files: TlsFiles, address: SocketAddr) -> Result<(), String> {
    let peer = Identity::kernel("team", "default", "k1");
    // A client of its own makes a connection of its own.
    let client = PeerClient::new(files).unwrap();
    let answer = client.request(Method::GET, &peer, &address.to_string(), "/").send().await.map_err(|error| format!("{error:?}"))?;
    answer.error_for_status().map(drop).map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn one_authority_follows_another_and_no_request_fails() {
    let cluster = Cluster::start(&FLAGS).await;
    cluster.session("a", "");
    let kernel = Mounted::start(&cluster, "team", "dormouse-kernel-default-tls").await;
    let gateway = Mounted::start(&cluster, SYSTEM, "dormouse-gateway-tls").await;
    let before = gateway.pem();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let routes = require(Router::new().route("/", get(async || "")), &[Process::Gateway]);
    let server = Server::new(TlsFiles::load(&kernel.path()).unwrap());
    tokio::spawn(server.serve(listener, routes, CancellationToken::new()));
    let files = TlsFiles::load(&gateway.path()).unwrap();
    asks(files.clone(), address).await.unwrap();

    let annotate = ["annotate", "secret", "dormouse-ca", "-n", SYSTEM, "dormouse.dev/rotate=now"];
    cluster.server.kubectl(&annotate).unwrap();
    let ends = Arc::new(CancellationToken::new());
    let asking = tokio::spawn({
        let ends = Arc::clone(&ends);
        async move {
            let (mut asked, mut failed) = (0, Vec::new());
            let mut ticks = tokio::time::interval(EVERY);
            while !ends.is_cancelled() {
                ticks.tick().await;
                failed.extend(asks(files.clone(), address).await.err());
                asked += 1;
            }
            (asked, failed)
        }
    });
    let authority = async || {
        let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), SYSTEM);
        secrets.get("dormouse-ca").await.unwrap().data.unwrap()
    };
    let has = async |key: &str| authority().await.contains_key(key);
    cluster.until("the next authority is announced", async || has("next.crt").await).await;
    cluster.until("it signs", async || has("previous.crt").await && !has("next.crt").await).await;
    cluster.until("the old one is gone", async || !has("previous.crt").await).await;
    let now = String::from_utf8(authority().await["ca.crt"].0.clone()).unwrap();
    assert_ne!(now, before.ca);
    cluster.until("everybody trusts the new one alone", async || gateway.pem().ca == now && kernel.pem().ca == now).await;
    let old = TlsFiles::from_pem(&before).unwrap();
    cluster.until("who shows a certificate of the old one is refused", async || asks(old.clone(), address).await.is_err()).await;
    ends.cancel();
    let (asked, failed) = asking.await.unwrap();
    assert!(asked > 100 && failed.is_empty(), "{} of {asked} requests failed: {:?}", failed.len(), failed.first());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authority_that_has_lived_two_thirds_of_its_life_is_followed_by_another() {
    let flags = ["--orphan-sweep-interval-seconds=0", "--trust-overlap-seconds=1", "--authority-seconds=30", "--certificate-seconds=9"];
    let cluster = Cluster::start(&flags).await;
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), SYSTEM);
    let signs = async || secrets.get_opt("dormouse-ca").await.unwrap().map(|secret| secret.data.unwrap()["ca.crt"].0.clone());
    cluster.until("there is an authority", async || signs().await.is_some()).await;
    let first = signs().await;
    cluster.until("another signs", async || signs().await != first).await;
}
