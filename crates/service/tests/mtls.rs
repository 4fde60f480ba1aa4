//! Two processes of ours over real sockets: who may talk to whom.

use std::{net::SocketAddr, path::Path};

use axum::{Router, routing::get};
use dormouse_service::{
    ca::{Ca, CertPem, End, LEAF_VALIDITY},
    tls::{Identity, PeerClient, PeerIdentity, Process, Server, TlsFiles, require, session_name},
};
use reqwest::Method;
use tokio_util::sync::CancellationToken;

fn issue(ca: &Ca, name: String) -> CertPem {
    ca.issue(&[name], LEAF_VALIDITY).unwrap()
}

fn files(ca: &Ca, name: String) -> TlsFiles {
    TlsFiles::from_pem(&issue(ca, name)).unwrap()
}

fn gateway() -> Identity {
    Identity::gateway("dormouse-system")
}

fn pod() -> Identity {
    Identity::kernel("team-a", "default", "pod-1")
}

struct Running {
    address: SocketAddr,
    shutdown: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

async fn serve(tls: TlsFiles) -> Running {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/who", get(|peer: PeerIdentity| async move { peer.to_string() }));
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(Server::new(tls).serve(listener, require(router, &[Process::Gateway, Process::Operator]), shutdown.clone()));
    Running { address, shutdown, task }
}

async fn ask(client: &PeerClient, peer: &Identity, address: &str) -> Result<(u16, String), reqwest::Error> {
    let response = client.request(Method::GET, peer, address, "/who").send().await?;
    Ok((response.status().as_u16(), response.text().await?))
}

fn write(directory: &Path, pem: &CertPem) {
    for (name, text) in [("ca.crt", &pem.ca), ("tls.crt", &pem.cert), ("tls.key", &pem.key)] {
        std::fs::write(directory.join(name), text).unwrap();
    }
}

#[tokio::test]
async fn both_ends_know_each_other() {
    let ca = Ca::generate().unwrap();
    let server = serve(files(&ca, Identity::of_pool("team-a", "default"))).await;
    let client = PeerClient::new(files(&ca, gateway().dns_name())).unwrap();
    for host in ["127.0.0.1", "localhost"] {
        let (status, body) = ask(&client, &pod(), &format!("{host}:{}", server.address.port())).await.unwrap();
        assert_eq!((status, body.as_str()), (200, "gateway.dormouse-system.gateway.dormouse.internal"));
    }
    let response = client.request(Method::GET, &pod(), &server.address.to_string(), "/who").send().await.unwrap();
    assert_eq!(response.version(), reqwest::Version::HTTP_2);
    server.shutdown.cancel();
    server.task.await.unwrap();
}

#[tokio::test]
async fn another_process_is_forbidden() {
    let ca = Ca::generate().unwrap();
    let server = serve(files(&ca, pod().dns_name())).await;
    let client = PeerClient::new(files(&ca, Identity::of_pool("team-b", "default"))).unwrap();
    let (status, body) = ask(&client, &pod(), &server.address.to_string()).await.unwrap();
    assert_eq!(status, 403);
    assert!(body.contains("Forbidden"), "{body}");
}

#[tokio::test]
async fn a_server_that_is_not_the_one_asked_for_is_refused() {
    let ca = Ca::generate().unwrap();
    let server = serve(files(&ca, Identity::of_pool("team-b", "default"))).await;
    let client = PeerClient::new(files(&ca, gateway().dns_name())).unwrap();
    assert!(ask(&client, &pod(), &server.address.to_string()).await.unwrap_err().is_connect());
    let other = Identity::kernel("team-b", "default", "pod-1");
    assert_eq!(ask(&client, &other, &server.address.to_string()).await.unwrap().0, 200);
}

#[tokio::test]
async fn another_authority_is_refused_by_both_ends() {
    let (ca, other) = (Ca::generate().unwrap(), Ca::generate().unwrap());
    let server = serve(files(&ca, pod().dns_name())).await;
    let stranger = PeerClient::new(files(&other, gateway().dns_name())).unwrap();
    assert!(ask(&stranger, &pod(), &server.address.to_string()).await.is_err());

    // Trusts the server, but holds a certificate of the other authority.
    let mut mixed = issue(&other, gateway().dns_name());
    mixed.ca = ca.cert_pem().to_owned();
    let mixed = PeerClient::new(TlsFiles::from_pem(&mixed).unwrap()).unwrap();
    assert!(ask(&mixed, &pod(), &server.address.to_string()).await.is_err());

    let bare = reqwest::Client::builder().tls_certs_only([]).tls_danger_accept_invalid_certs(true).build().unwrap();
    assert!(bare.get(format!("https://{}/who", server.address)).send().await.is_err());
}

#[tokio::test]
async fn rotated_files_are_picked_up_and_broken_ones_are_not() {
    let (old, new) = (Ca::generate().unwrap(), Ca::generate().unwrap());
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), &issue(&old, pod().dns_name()));
    let tls = TlsFiles::load(directory.path()).unwrap();
    let server = serve(tls.clone()).await;
    let address = server.address.to_string();
    let client = PeerClient::new(files(&new, gateway().dns_name())).unwrap();
    assert!(ask(&client, &pod(), &address).await.is_err());

    assert!(!tls.reload().unwrap());
    std::fs::write(directory.path().join("tls.key"), "half a file").unwrap();
    assert!(tls.reload().is_err());
    let old_client = PeerClient::new(files(&old, gateway().dns_name())).unwrap();
    assert_eq!(ask(&old_client, &pod(), &address).await.unwrap().0, 200);

    write(directory.path(), &issue(&new, pod().dns_name()));
    assert!(tls.reload().unwrap());
    assert_eq!(ask(&client, &pod(), &address).await.unwrap().0, 200);
}

#[tokio::test]
async fn an_identity_that_moved_is_asked_at_its_new_address() {
    let ca = Ca::generate().unwrap();
    let client = PeerClient::new(files(&ca, gateway().dns_name())).unwrap();
    let first = serve(files(&ca, pod().dns_name())).await;
    let second = serve(files(&ca, Identity::of_pool("team-b", "default"))).await;
    assert_eq!(ask(&client, &pod(), &first.address.to_string()).await.unwrap().0, 200);
    assert!(ask(&client, &pod(), &second.address.to_string()).await.is_err(), "a pooled connection to the first address was used");
    for address in ["nowhere", "", "host:port", "a@b:1"] {
        assert!(ask(&client, &pod(), address).await.is_err(), "{address}");
    }
}

#[tokio::test]
async fn a_stored_authority_goes_on_issuing() {
    let ca = Ca::generate().unwrap();
    let again = Ca::from_pem(ca.cert_pem(), &ca.key_pem()).unwrap();
    let server = serve(files(&ca, pod().dns_name())).await;
    let client = PeerClient::new(files(&again, gateway().dns_name())).unwrap();
    assert_eq!(ask(&client, &pod(), &server.address.to_string()).await.unwrap().0, 200);
    assert!(Ca::from_pem("nonsense", &ca.key_pem()).is_err());
}

#[tokio::test]
async fn probes_say_why() {
    let readiness = dormouse_service::Readiness::new();
    let gate = readiness.gate("store");
    gate.not_ready("the bucket `x` does not exist");
    let metrics = dormouse_service::Metrics::new();
    metrics.counter("test_total", "A test.").unwrap().inc();
    let args = dormouse_service::AdminArgs { admin_listen: "127.0.0.1:0".parse().unwrap() };
    let admin = dormouse_service::admin::AdminServer::start(&args, readiness, metrics).await.unwrap();
    dormouse_service::telemetry::install_tls_provider();
    let get = |path: &str| reqwest::get(format!("http://{}{path}", admin.local_addr()));
    let answer = get("/readyz").await.unwrap();
    assert_eq!(answer.status(), 503);
    let body: serde_json::Value = answer.json().await.unwrap();
    assert_eq!(body["reasons"][0]["reason"], "the bucket `x` does not exist");
    gate.ready();
    assert_eq!(get("/readyz").await.unwrap().status(), 200);
    assert_eq!(get("/livez").await.unwrap().status(), 200);
    assert!(get("/metrics").await.unwrap().text().await.unwrap().contains("dormouse_test_total 1"));
}

#[tokio::test]
async fn a_certificate_for_one_end_is_good_for_no_other() {
    let ca = Ca::generate().unwrap();
    let of = |end, name: String| TlsFiles::from_pem(&ca.issue_for(end, &[name], LEAF_VALIDITY).unwrap()).unwrap();
    let serves = serve(of(End::Server, Identity::of_pool("team-a", "default"))).await;
    let asks = serve(of(End::Client, Identity::of_pool("team-a", "default"))).await;
    for (end, server, answered) in
        [(End::Client, &serves, true), (End::Both, &serves, true), (End::Server, &serves, false), (End::Client, &asks, false)]
    {
        let client = PeerClient::new(of(end, gateway().dns_name())).unwrap();
        let answer = ask(&client, &pod(), &server.address.to_string()).await;
        assert_eq!(answer.as_ref().map(|(status, _)| *status).ok(), answered.then_some(200), "{end:?}: {answer:?}");
    }
}

#[tokio::test]
async fn a_process_asks_under_another_certificate_once_it_is_given_one() {
    let ca = Ca::generate().unwrap();
    let server = serve(files(&ca, Identity::of_pool("team-a", "default"))).await;
    let own = TlsFiles::from_pem(&ca.issue_for(End::Server, &[gateway().dns_name()], LEAF_VALIDITY).unwrap()).unwrap();
    let asked_as = own.apart().unwrap();
    let client = PeerClient::new(asked_as.clone()).unwrap();
    let address = server.address.to_string();
    assert!(ask(&client, &pod(), &address).await.is_err(), "its own is for answers only");
    let names = [gateway().dns_name(), session_name("u-1")];
    asked_as.replace(&ca.issue_for(End::Client, &names, LEAF_VALIDITY).unwrap()).unwrap();
    assert_eq!(ask(&client, &pod(), &address).await.unwrap().0, 200);
    assert_eq!((asked_as.identity().session.as_deref(), own.identity().session), (Some("u-1"), None));
}
