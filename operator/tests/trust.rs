//! Who trusts whom while one certificate authority follows another.

use std::{collections::HashSet, net::SocketAddr, path::PathBuf, time::Duration};

use crate::support::{Cluster, SYSTEM, apply};
use axum::{Router, routing::get};
use dormouse_service::{
    ca::CertPem,
    tls::{Identity, PeerClient, Process, Server, TlsFiles, require},
};
use dormouse_testkit::{soak, wait::PATIENCE};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use reqwest::Method;
use tokio::task::JoinHandle;
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

/// A kernel pod that serves, and a gateway that asks, each with the certificate that its mounted Secret has.
struct Pair {
    kernel: Mounted,
    gateway: Mounted,
    files: TlsFiles,
    address: SocketAddr,
}

impl Pair {
    async fn start(cluster: &Cluster) -> Self {
        let kernel = Mounted::start(cluster, "team", "dormouse-kernel-default-tls").await;
        let gateway = Mounted::start(cluster, SYSTEM, "dormouse-gateway-tls").await;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let routes = require(Router::new().route("/", get(async || "")), &[Process::Gateway]);
        let server = Server::new(TlsFiles::load(&kernel.path()).unwrap());
        tokio::spawn(server.serve(listener, routes, CancellationToken::new()));
        let files = TlsFiles::load(&gateway.path()).unwrap();
        Self { kernel, gateway, files, address }
    }

    async fn asks(&self) -> Result<(), String> {
        asks(self.files.clone(), self.address).await
    }

    fn keep_asking(&self) -> Asking {
        let ends = CancellationToken::new();
        let (files, address, ended) = (self.files.clone(), self.address, ends.clone());
        let asking = tokio::spawn(async move {
            let (mut asked, mut failed) = (0, Vec::new());
            let mut ticks = tokio::time::interval(EVERY);
            while !ended.is_cancelled() {
                ticks.tick().await;
                failed.extend(asks(files.clone(), address).await.err());
                asked += 1;
            }
            (asked, failed)
        });
        Asking { ends, asking }
    }
}

/// Requests one after the other, each on a connection of its own.
struct Asking {
    ends: CancellationToken,
    asking: JoinHandle<(usize, Vec<String>)>,
}

impl Asking {
    /// How many there were, of which none may have failed.
    async fn none_failed(self) -> usize {
        self.ends.cancel();
        let (asked, failed) = self.asking.await.unwrap();
        assert!(failed.is_empty(), "{} of {asked} requests failed: {:?}", failed.len(), failed.first());
        asked
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_authority_follows_another_and_no_request_fails() {
    let cluster = Cluster::start(&FLAGS).await;
    cluster.session("a", "");
    let pair = Pair::start(&cluster).await;
    let before = pair.gateway.pem();
    pair.asks().await.unwrap();

    let annotate = ["annotate", "secret", "dormouse-ca", "-n", SYSTEM, "dormouse.dev/rotate=now"];
    cluster.server.kubectl(&annotate).unwrap();
    let asking = pair.keep_asking();
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
    cluster.until("everybody trusts the new one alone", async || pair.gateway.pem().ca == now && pair.kernel.pem().ca == now).await;
    let old = TlsFiles::from_pem(&before).unwrap();
    cluster.until("who shows a certificate of the old one is refused", async || asks(old.clone(), pair.address).await.is_err()).await;
    assert!(asking.none_failed().await > 100);
}

/// A tenant may write Secrets of its namespace: one that says of itself what it was made for, and the one of its pool, that nobody can write any more.
#[tokio::test(flavor = "multi_thread")]
async fn what_tenants_write_into_secrets_is_signed_for_nobody_and_holds_up_no_authority() {
    let cluster = Cluster::start(&FLAGS).await;
    cluster.session("a", "");
    let teams: Api<Secret> = Api::namespaced(cluster.client.clone(), "team");
    let pools = "dormouse-kernel-default-tls";
    cluster.until("the pool's certificate", async || teams.get_opt(pools).await.unwrap().is_some()).await;
    let forged = format!("x gateway.{SYSTEM}.gateway.dormouse.internal");
    apply(
        &cluster.server,
        &format!(
            "apiVersion: v1\nkind: Secret\ntype: kubernetes.io/tls\nmetadata:\n  name: mine\n  namespace: team\n  labels: \
             {{app.kubernetes.io/managed-by: dormouse-operator}}\n  annotations: {{dormouse.dev/made-for: \"{forged}\"}}\nstringData: {{tls.crt: mine, tls.key: mine}}\n"
        ),
    );
    let kept = teams.get(pools).await.unwrap().data;
    cluster.server.kubectl(&["patch", "secret", pools, "-n", "team", "--type=merge", "-p", r#"{"immutable":true}"#]).unwrap();

    cluster.server.kubectl(&["annotate", "secret", "dormouse-ca", "-n", SYSTEM, "dormouse.dev/rotate=now"]).unwrap();
    let systems: Api<Secret> = Api::namespaced(cluster.client.clone(), SYSTEM);
    let has = async |key: &str| systems.get("dormouse-ca").await.unwrap().data.unwrap().contains_key(key);
    cluster.until("another authority signs", async || has("previous.crt").await && !has("next.crt").await).await;
    cluster.until("the old one is gone", async || !has("previous.crt").await).await;
    assert_eq!(teams.get(pools).await.unwrap().data, kept, "nobody can write it");
    let mine = teams.get("mine").await.unwrap();
    assert_eq!(mine.data.unwrap()["tls.key"].0, b"mine");
    assert_eq!(mine.metadata.annotations.unwrap()["dormouse.dev/made-for"], forged);
}

/// Certificates of a process that follow one another in a year: each lives for a week, and is followed at two thirds of that.
const OF_A_YEAR: u64 = 78;
/// How long a certificate lives where a year takes an hour, and in a test, in seconds. A third of it is more than what a process takes to read it.
const CERTIFICATE_SECONDS: (u64, u64) = (69, 24);
/// How long the authority lives: a year, and in a test as long as two certificates.
const AUTHORITY_SECONDS: (u64, u64) = (3_600, 48);

#[tokio::test(flavor = "multi_thread")]
async fn certificates_and_authorities_follow_one_another_at_two_thirds_of_their_lives_and_no_request_fails() {
    let of = |(whole, small)| soak::count(small, whole);
    let lives = [format!("--certificate-seconds={}", of(CERTIFICATE_SECONDS)), format!("--authority-seconds={}", of(AUTHORITY_SECONDS))];
    let cluster = Cluster::start(&[FLAGS[0], FLAGS[1], &lives[0], &lives[1]]).await;
    cluster.session("a", "");
    let pair = Pair::start(&cluster).await;
    pair.asks().await.unwrap();
    let asking = pair.keep_asking();
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), SYSTEM);
    let signs = async || secrets.get("dormouse-ca").await.unwrap().data.unwrap()["ca.crt"].0.clone();
    let (mut shown, first) = (HashSet::new(), signs().await);
    let (wanted, mut ticks) = (soak::count(1, OF_A_YEAR), tokio::time::interval(EVERY));
    let seen = async {
        while shown.len() as u64 <= wanted || signs().await == first {
            ticks.tick().await;
            shown.insert(pair.kernel.pem().cert);
        }
    };
    let in_time = tokio::time::timeout(PATIENCE + Duration::from_secs(of(AUTHORITY_SECONDS)), seen).await;
    in_time.expect("all have followed one another within the life of the first authority");
    let asked = asking.none_failed().await;
    assert!(asked > 100);
    soak::report(&format!("{} certificates of a pod, one after the other, and {asked} connections, of which none failed", shown.len()));
}
