//! What the pods of a dedicated pool have, and what each is given for the one session that it runs.

use std::{collections::BTreeSet, net::SocketAddr, time::SystemTime};

use crate::support::{Cluster, FakePod, SYSTEM, apply, is_denied, pool};
use axum::{Router, routing::get};
use bytes::Bytes;
use dormouse_crds::session::SnapshotStatus;
use dormouse_lifecycle::SessionKey;
use dormouse_protocol::{
    kernel::{Grant, StoredStatus},
    session::State,
};
use dormouse_service::{
    ca::{CertPem, LEAF_VALIDITY},
    tls::{Identity, PeerClient, PeerIdentity, Process, Server, TlsFiles, require},
};
use dormouse_store::{Condition, CredentialSource, Credentials, S3, S3Options, SnapshotStore as _, StoreError};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use reqwest::Method;
use tokio_util::sync::CancellationToken;

const FLAGS: [&str; 1] = ["--orphan-sweep-interval-seconds=0"];
/// It has pods for all sessions of a test, so that it gets no smaller in between.
const DEDICATED: &str = "isolation: Dedicated, warmPods: 3";
const READER: [&str; 2] = ["deployment", "dormouse-reader-default"];
const SESSIONS: [&str; 2] = ["deployment", "dormouse-kernel-default"];
const VACANT: &str = "dormouse-vacant-default-tls";
const ROLE: &str = "{.spec.template.metadata.labels.dormouse\\.dev/role}";

fn key(uid: &str) -> SessionKey {
    let (tenant, pool) = ("team".to_owned(), "default".to_owned());
    SessionKey { store_prefix: String::new(), tenant, pool, uid: uid.to_owned(), name: String::new() }
}

/// The operator's store with what a pod was given.
fn store(cluster: &Cluster, grant: &Grant) -> S3 {
    let given = grant.storage.clone();
    let key = Credentials::new(given.access_key_id, given.secret_access_key);
    let credentials = Credentials { session_token: given.session_token, expiration: given.expiration, ..key };
    S3::new(&S3Options { credentials: CredentialSource::Static(credentials), ..cluster.minio.options("sessions") })
}

fn identity(grant: &Grant) -> PeerIdentity {
    let given = grant.certificate.clone();
    let pem = CertPem { ca: given.ca, cert: given.cert, key: given.key, not_after: SystemTime::now() };
    TlsFiles::from_pem(&pem).unwrap().identity()
}

/// The last thing that a pod was given, once that is for the session `uid`.
async fn given(cluster: &Cluster, pod: &FakePod, uid: &str) -> Grant {
    let last = || pod.granted.lock().unwrap().last().cloned();
    cluster.until("its pod has what the session needs", async || last().is_some_and(|grant| grant.uid == uid)).await;
    last().unwrap()
}

fn note(cluster: &Cluster, pod: &FakePod) -> String {
    cluster.get(&["pod", &pod.name], "{.metadata.annotations.dormouse\\.dev/granted}")
}

/// The Secrets that the pods of a Deployment mount.
fn secrets(cluster: &Cluster, deployment: &[&str]) -> BTreeSet<String> {
    let names = cluster.get(deployment, "{.spec.template.spec.volumes[*].secret.secretName}");
    names.split_whitespace().map(str::to_owned).collect()
}

/// How often the operator has written to a pod.
fn notes(cluster: &Cluster) -> usize {
    cluster.written(0).iter().filter(|write| write.resource == "pods" && write.code == 200).count()
}

/// Answers requests of `peers` under this certificate.
async fn serves(files: TlsFiles, peers: &'static [Process]) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let routes = require(Router::new().route("/", get(async || "")), peers);
    tokio::spawn(Server::new(files).serve(listener, routes, CancellationToken::new()));
    address
}

async fn asks(files: TlsFiles, peer: &Identity, address: SocketAddr) -> bool {
    let client = PeerClient::new(files).unwrap();
    let answer = client.request(Method::GET, peer, &address.to_string(), "/").send().await;
    answer.is_ok_and(|answer| answer.status().is_success())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pods_of_a_dedicated_pool_begin_with_nothing_and_one_of_them_reads_what_is_stored() {
    let cluster = Cluster::start(&FLAGS).await;
    apply(&cluster.server, &pool(DEDICATED));
    cluster.until("it has a reader", async || cluster.get(&READER, "{.spec.replicas}") == "1").await;
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
    assert_eq!((secrets(&cluster, &SESSIONS), cluster.get(&SESSIONS, ROLE)), (names(&[VACANT]), "session".to_owned()));
    assert_eq!(
        (secrets(&cluster, &READER), cluster.get(&READER, ROLE)),
        (names(&["dormouse-reader-default", VACANT]), "reader".to_owned())
    );
    assert_eq!(cluster.get(&SESSIONS, "{.spec.selector.matchLabels.dormouse\\.dev/role}"), "", "of before there were roles, too");
    assert_eq!(cluster.get(&READER, "{.spec.selector.matchLabels.dormouse\\.dev/role}"), "reader");
    for name in ["dormouse-storage-default", "dormouse-kernel-default-tls"] {
        assert_eq!(cluster.get(&["secret", name], "{.metadata.uid}"), "", "{name}");
    }

    let head = key("0b9f2c1e-6a57-4d3e-8f10-2c7a5b1d9e01").head();
    cluster.bucket.put(&head, Bytes::from_static(b"stored"), Condition::Absent).await.unwrap();
    let reader = cluster.store_by("dormouse-reader-default").await;
    assert_eq!(reader.get(&head).await.unwrap().unwrap().bytes, Bytes::from_static(b"stored"));
    let put = reader.put(&head, Bytes::from_static(b"mine"), Condition::None).await;
    assert!(is_denied(&put), "a reader reads: {put:?}");

    let (ca, pod) = (cluster.authority().await, Identity::kernel("team", "default", "k1"));
    let files = |name: String| TlsFiles::from_pem(&ca.issue(&[name], LEAF_VALIDITY).unwrap()).unwrap();
    let gateway = Identity::gateway(SYSTEM);
    let api: Api<Secret> = Api::namespaced(cluster.client.clone(), "team");
    let data = api.get(VACANT).await.unwrap().data.unwrap();
    let text = |key: &str| String::from_utf8(data[key].0.clone()).unwrap();
    let pem = CertPem { ca: text("ca.crt"), cert: text("tls.crt"), key: text("tls.key"), not_after: SystemTime::now() };
    let vacant = TlsFiles::from_pem(&pem).unwrap();
    assert!(asks(files(gateway.dns_name()), &pod, serves(vacant.clone(), &[Process::Gateway]).await).await, "it can be asked");
    let other = serves(files(gateway.dns_name()), &[Process::Kernel]).await;
    assert!(asks(files(pod.dns_name()), &gateway, other).await);
    assert!(!asks(vacant, &gateway, other).await, "and asks nobody");

    let shared = r#"{"spec":{"isolation":"Shared"}}"#;
    cluster.server.kubectl(&["patch", "kernelpool", "default", "-n", "team", "--type=merge", "-p", shared]).unwrap();
    cluster.until("its reader goes", async || cluster.get(&READER, "{.spec.replicas}") == "0").await;
    cluster.until("its pods do both", async || cluster.get(&SESSIONS, ROLE).is_empty()).await;
    assert_eq!(secrets(&cluster, &SESSIONS), names(&["dormouse-storage-default", "dormouse-kernel-default-tls"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dedicated_pod_is_given_what_reaches_its_session_and_no_other() {
    let cluster = Cluster::start(&FLAGS).await;
    apply(&cluster.server, &pool(DEDICATED));
    cluster.reader(9).await;
    let (one, two) = (cluster.dedicated_pod(1, "containerd://1").await, cluster.dedicated_pod(2, "containerd://2").await);
    let (a, b) = (cluster.session("a", ""), cluster.session("b", ""));
    cluster.place("a", &one, 1);
    let grant = given(&cluster, &one, &a).await;
    assert_eq!((grant.boot.as_str(), note(&cluster, &one)), ("boot-k1", format!("containerd://1 {a}")));
    assert_eq!(notes(&cluster), 1, "a wake in a dedicated pod costs the operator one write");

    let of_a = store(&cluster, &grant);
    of_a.put(&key(&a).head(), Bytes::from_static(b"mine"), Condition::Absent).await.unwrap();
    cluster.bucket.put(&key(&b).head(), Bytes::from_static(b"theirs"), Condition::Absent).await.unwrap();
    let get = of_a.get(&key(&b).head()).await;
    assert!(matches!(get, Err(StoreError::Denied { .. })), "{get:?}");
    let put = of_a.put(&key(&b).head(), Bytes::from_static(b"mine"), Condition::None).await;
    assert!(is_denied(&put), "{put:?}");
    let list = of_a.list("t/team/s/default/").await;
    assert!(matches!(list, Err(StoreError::Denied { .. })), "{list:?}");

    let who = identity(&grant);
    assert_eq!((who.namespace.as_str(), who.pool.as_deref(), who.name.as_deref()), ("team", Some("default"), Some("k1")));
    assert_eq!(who.session.as_deref(), Some(a.as_str()));
    assert_eq!(who.incarnation.unwrap().uid, cluster.get(&["kernelpool", "default"], "{.metadata.uid}"));

    let fork = cluster.session("fork", "source: {session: a}");
    cluster.place("fork", &two, 1);
    let of_fork = store(&cluster, &given(&cluster, &two, &fork).await);
    assert_eq!(of_fork.get(&key(&a).head()).await.unwrap().unwrap().bytes, Bytes::from_static(b"mine"), "what it is forked from");
    let put = of_fork.put(&key(&a).head(), Bytes::from_static(b"x"), Condition::None).await;
    assert!(is_denied(&put), "{put:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_is_given_to_one_session_also_by_an_operator_that_begins_anew_and_goes_when_its_process_ends() {
    let mut cluster = Cluster::start(&FLAGS).await;
    apply(&cluster.server, &pool(DEDICATED));
    cluster.reader(9).await;
    let pod = cluster.dedicated_pod(1, "containerd://1").await;
    let (a, _) = (cluster.session("a", ""), cluster.session("b", ""));
    cluster.place("a", &pod, 1);
    given(&cluster, &pod, &a).await;
    cluster.restart(&FLAGS, async {}).await;
    cluster.until("it is given again", async || pod.granted.lock().unwrap().len() > 1).await;
    assert_eq!((notes(&cluster), note(&cluster, &pod)), (1, format!("containerd://1 {a}")), "it stands there already");

    // Whatever the process says of itself: it is placed another session.
    cluster.unplace("a");
    cluster.place("b", &pod, 1);
    let refused = async || crate::support::metrics::metric(&cluster.admin, "grants_refused_total", "").await > 0;
    cluster.until("it is refused", refused).await;
    assert!(pod.granted.lock().unwrap().iter().all(|grant| grant.uid == a), "and is given nothing");
    assert_eq!(note(&cluster, &pod), format!("containerd://1 {a}"));

    let uid = || cluster.get(&["pod", &pod.name], "{.metadata.uid}");
    assert_eq!(uid(), pod.uid);
    cluster.runs_in(&pod, "containerd://2");
    cluster.until("it is deleted: its process has ended", async || uid().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_given_before_a_reader_has_probed_the_store() {
    let cluster = Cluster::start(&FLAGS).await;
    apply(&cluster.server, &pool(DEDICATED));
    let pod = cluster.dedicated_pod(1, "containerd://1").await;
    let uid = cluster.session("a", "");
    cluster.place("a", &pod, 1);
    cluster
        .until("the operator has heard of it", async || !cluster.get(&["kernelsession", "a"], "{.metadata.finalizers}").is_empty())
        .await;
    assert!(pod.granted.lock().unwrap().is_empty() && note(&cluster, &pod).is_empty());
    cluster.reader(9).await;
    given(&cluster, &pod, &uid).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dedicated_pod_is_told_whom_to_trust_while_one_authority_follows_another() {
    let cluster = Cluster::start(&FLAGS).await;
    apply(&cluster.server, &pool(DEDICATED));
    cluster.reader(9).await;
    let pod = cluster.dedicated_pod(1, "containerd://1").await;
    let uid = cluster.session("a", "");
    cluster.place("a", &pod, 1);
    let authorities = |pem: &str| pem.matches("BEGIN CERTIFICATE").count();
    assert_eq!(authorities(&given(&cluster, &pod, &uid).await.certificate.ca), 1);
    cluster.server.kubectl(&["annotate", "secret", "dormouse-ca", "-n", SYSTEM, "dormouse.dev/rotate=now"]).unwrap();
    let both = async || authorities(&pod.granted.lock().unwrap().last().unwrap().certificate.ca) == 2;
    cluster.until("it trusts the next one, too", both).await;
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), "team");
    let vacant = async || {
        let data = secrets.get(VACANT).await.unwrap().data.unwrap();
        authorities(std::str::from_utf8(&data["ca.crt"].0).unwrap()) == 2
    };
    cluster.until("so do those that have nothing yet", vacant).await;
    assert_eq!(notes(&cluster), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dedicated_pod_was_given_is_given_anew_before_it_ends() {
    let cluster = Cluster::start(&[FLAGS[0], "--certificate-seconds=9"]).await;
    apply(&cluster.server, &pool(DEDICATED));
    cluster.reader(9).await;
    let pod = cluster.dedicated_pod(1, "containerd://1").await;
    let uid = cluster.session("a", "");
    cluster.place("a", &pod, 1);
    cluster.until("it is given again and again", async || pod.granted.lock().unwrap().len() > 2).await;
    let granted = pod.granted.lock().unwrap().clone();
    assert!(granted.iter().all(|grant| grant.uid == uid && grant.boot == pod.boot));
    let certificates: BTreeSet<&str> = granted.iter().map(|grant| grant.certificate.cert.as_str()).collect();
    assert_eq!((certificates.len(), notes(&cluster)), (granted.len(), 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dedicated_pod_that_is_gone_had_stored_its_pools_reader_tells() {
    let cluster = Cluster::start(&FLAGS).await;
    apply(&cluster.server, &pool(DEDICATED));
    let (one, two) = (cluster.dedicated_pod(1, "containerd://1").await, cluster.dedicated_pod(2, "containerd://2").await);
    let reader = cluster.reader(3).await;
    let told = |due: &str| {
        let (engine_digest, time) = ("e".to_owned(), "2026-01-02T00:00:00Z".to_owned());
        let snapshot = SnapshotStatus { epoch: 1, sequence: 9, bytes: 10, engine_digest, time, encrypted: false };
        Some(StoredStatus { snapshot: Some(snapshot), next_wake_time: Some(due.to_owned()), ..StoredStatus::default() })
    };
    *two.stored.lock().unwrap() = told("2031-01-01T00:00:00Z");
    *reader.stored.lock().unwrap() = told("2032-01-01T00:00:00Z");
    let uid = cluster.session("a", "");
    cluster.place("a", &one, 1);
    one.report("a", &uid, |report| report.state = State::Hibernated);
    cluster.server.kubectl(&["wait", "--for=condition=Hibernated", "kernelsession", "a", "-n", "team", "--timeout=120s"]).unwrap();
    cluster.server.kubectl(&["delete", "pod", &one.name, "-n", "team", "--force", "--grace-period=0"]).unwrap();
    let placement = || cluster.get(&["kernelsession", "a"], "{.status.placement.pod}");
    cluster.until("the placement is cleared", async || placement().is_empty()).await;
    let due = cluster.get(&["kernelsession", "a"], "{.status.nextWakeTime}");
    assert_eq!(due, "2032-01-01T00:00:00Z", "and not another pod that runs a session");
}
