//! Very many sessions and pods that are only objects: what they cost the API server, the operator and a gateway, and whether anybody else notices.

use std::{
    convert::Infallible,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use axum::{Json, Router, body::Body, routing::get};
use dormouse_protocol::kernel::{KERNEL_PORT, PodInfo, ReportLine};
use dormouse_service::tls::Server;
use dormouse_testkit::{soak, wait::eventually};
use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::support::{
    admin::Admin,
    attacks,
    fleet::{Fleet, TENANT},
};

/// Another number of sessions than the test and the soak have.
const SESSIONS_ENV: &str = "DORMOUSE_SESSIONS";
/// Sessions of one namespace.
const OF_NAMESPACE: u64 = 1_000;
/// Sessions of one page.
const PAGE: usize = 500;
/// Times that something is measured.
const PAGES: usize = 200;
const WAKES: usize = 30;
/// What the operator and a gateway may have.
const PROCESS_BYTES_MAX: u64 = 512 << 20;
/// What etcd may grow by.
const ETCD_BYTES_MAX: u64 = 1 << 30;
/// What the API server's objects may take where it serves one version: of each session, as docs/scale.md says, and of what else the test makes.
const SERVER_SESSION_BYTES_MAX: u64 = 10_000;
const SERVER_REST_BYTES_MAX: u64 = 128 << 20;
/// What the API server's process may take of each session at rest, as docs/scale.md says, and etcd's file; of what else a soak makes. While very many are
/// made at once the process may take twice as much.
const PROCESS_SESSION_BYTES_MAX: u64 = 15_000;
const PROCESS_REST_BYTES_MAX: u64 = 2 * SERVER_REST_BYTES_MAX;
const ETCD_SESSION_BYTES_MAX: u64 = 2_000;
const ETCD_REST_BYTES_MAX: u64 = 64 << 20;
/// When Go collects: by default when its heap has grown by so many hundredths, for which those bounds are.
const GOGC_ENV: &str = "GOGC";
const GOGC: u32 = 100;
/// Looks at whether the API server rests, and how many in a row have to see that it gives no memory back any more.
const RESTS_MAX: u64 = 240;
const RESTED: u64 = 12;
const REST_LOOK: Duration = Duration::from_secs(10);
/// Writes between two looks that are leases only.
const REST_WRITES_MAX: u64 = 20;
/// How often a pod that has nothing to tell says so.
const ALIVE: Duration = Duration::from_secs(5);
/// How long anything may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);
/// Namespace of the pods.
const PODS: &str = "pods";

fn address(number: u64) -> IpAddr {
    let process = std::process::id().to_le_bytes()[0] % 32;
    IpAddr::V4(Ipv4Addr::new(127, 32 + process, (number / 250) as u8, (number % 250 + 1) as u8))
}

/// A pod that has told everything, and has nothing.
async fn serve_pod(fleet: &Fleet, number: u64) {
    let name = format!("p{number}");
    let info = PodInfo {
        pod: name.clone(),
        namespace: PODS.to_owned(),
        boot: format!("boot-{number}"),
        slots: 500,
        used: 0,
        idle: 0,
        engine_digest: "e".to_owned(),
        draining: false,
        exhausted: false,
    };
    let first = [ReportLine::Pod(info.clone()), ReportLine::Picture, ReportLine::Complete];
    let line = |line: &ReportLine| Ok::<_, Infallible>(serde_json::to_string(line).unwrap() + "\n");
    let report = move || async move {
        let alive = futures::stream::unfold((), |()| async {
            tokio::time::sleep(ALIVE).await;
            Some((ReportLine::Alive, ()))
        });
        Body::from_stream(futures::stream::iter(first).chain(alive).map(move |told| line(&told)))
    };
    let routes = Router::new().route("/v1/report", get(report)).route("/v1/info", get(async move || Json(info)));
    let listener = TcpListener::bind(SocketAddr::from((address(number), KERNEL_PORT))).await.unwrap();
    tokio::spawn(Server::new(fleet.kernel_certificate(PODS, &name)).serve(listener, routes, CancellationToken::new()));
}

async fn make_pod(admin: &Admin, number: u64) {
    let (name, ip) = (format!("p{number}"), address(number).to_string());
    let labels = json!({"dormouse.dev/component": "kernel", "dormouse.dev/pool": "default"});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{"name": "kernel", "image": "k"}]}});
    let path = format!("/api/v1/namespaces/{PODS}/pods");
    admin.post(&path, &pod).await;
    let status = json!({"status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
        "conditions": [{"type": "Ready", "status": "True"}]}});
    admin.send(reqwest::Method::PATCH, &format!("{path}/{name}/status"), "application/merge-patch+json", &status).await;
}

async fn make_session(admin: &Admin, number: u64) {
    let path = format!("/apis/dormouse.dev/v1alpha1/namespaces/scale-{}/kernelsessions", number / OF_NAMESPACE);
    let metadata = json!({"name": format!("s{number}"), "finalizers": ["dormouse.dev/storage"], "labels": {"app": "scale"}});
    let spec = json!({"operatingMode": "Hibernated"});
    admin.post(&path, &json!({"apiVersion": "dormouse.dev/v1alpha1", "kind": "KernelSession", "metadata": metadata, "spec": spec})).await;
}

/// Does it for all numbers, some at a time.
async fn each<F: Future<Output = ()>>(count: u64, make: impl Fn(u64) -> F) -> Duration {
    let began = Instant::now();
    futures::stream::iter(0..count).map(make).buffer_unordered(16).for_each(async |()| ()).await;
    began.elapsed()
}

/// Milliseconds of the median, and of 99 in a hundred.
fn parts(mut took: Vec<Duration>) -> (f64, f64) {
    took.sort();
    let at = |hundredth: usize| took[(took.len() * hundredth / 100).min(took.len() - 1)].as_secs_f64() * 1_000.0;
    (at(50), at(99))
}

/// The API server's memory when the operator has told all that it has to tell, and nothing was written for some minutes.
async fn at_rest(fleet: &Fleet, admin: &Admin) -> u64 {
    let look = || fleet.server.costs().unwrap().server_bytes;
    let mut looks = 0..RESTS_MAX;
    let mut revision = 0;
    for _ in looks.by_ref() {
        let now = admin.revision().await;
        if now - std::mem::replace(&mut revision, now) <= REST_WRITES_MAX {
            break;
        }
        tokio::time::sleep(REST_LOOK).await;
    }
    let (mut least, mut same) = (look(), 0);
    for _ in looks {
        tokio::time::sleep(REST_LOOK).await;
        let now = look();
        same = if now < least * 99 / 100 { 0 } else { same + 1 };
        least = least.min(now);
        if same >= RESTED {
            break;
        }
    }
    least
}

/// Whether Go collects as early as by default, or earlier.
fn go_collects() -> bool {
    let Ok(percent) = std::env::var(GOGC_ENV) else { return true };
    percent.parse::<u32>().is_ok_and(|percent| percent <= GOGC)
}

fn http() -> reqwest::Client {
    reqwest::Client::builder().timeout(ANSWER_TIMEOUT).build().unwrap()
}

/// How long a sleeping session takes to answer.
async fn wakes(fleet: &Fleet) -> (f64, f64) {
    let (http, url) = (http(), format!("{}/v1/namespaces/{TENANT}/sessions/awake", fleet.url));
    let post = async |verb: &str, body: Value| {
        let answer = http.post(format!("{url}/{verb}")).bearer_auth(&fleet.token).json(&body).send().await.unwrap();
        let status = answer.status();
        assert!(status.is_success(), "{verb}: {status}: {}", answer.text().await.unwrap());
    };
    let mut took = Vec::new();
    for _ in 0..WAKES {
        post("hibernate", json!({})).await;
        let began = Instant::now();
        post("eval", json!({"code": "1"})).await;
        took.push(began.elapsed());
    }
    parts(took)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_and_pods_that_are_only_objects_cost_little_and_nobody_else_notices() {
    let asked = std::env::var(SESSIONS_ENV).ok().map(|number| number.parse().unwrap());
    let sessions = asked.unwrap_or(soak::count(1_000, 100_000));
    let pods = (sessions / 100).max(20);
    let mut fleet = Fleet::start(&attacks::outside().await.0).await;
    let admin = Admin::new(&fleet);
    admin.serve_one_version().await;
    attacks::create(&fleet.client(), "awake", json!({})).await;
    let woke_before = wakes(&fleet).await;
    let (before, live_before) = (fleet.server.costs().unwrap(), admin.object_bytes().await);

    let namespaces = sessions.div_ceil(OF_NAMESPACE);
    for name in (0..namespaces).map(|number| format!("scale-{number}")).chain([PODS.to_owned()]) {
        admin.post("/api/v1/namespaces", &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await;
    }
    for number in 0..pods {
        serve_pod(&fleet, number).await;
    }
    let pods_took = each(pods, |number| make_pod(&admin, number)).await;
    let sessions_took = each(sessions, |number| make_session(&admin, number)).await;
    let streams = async || fleet.operator.metrics().await.contains(&format!("dormouse_operator_report_streams {}\n", pods + 1));
    eventually("the operator follows every pod", streams).await;

    let http = http();
    let page = async |namespace: u64| {
        let url = format!("{}/v1/namespaces/scale-{namespace}/sessions?limit={PAGE}", fleet.url);
        let answer: Value = http.get(url).bearer_auth(&fleet.token).send().await.unwrap().json().await.unwrap();
        answer["items"].as_array().map_or(0, Vec::len)
    };
    eventually("the gateway has all", async || page(namespaces - 1).await == PAGE).await;
    let mut took = Vec::new();
    for number in 0..PAGES {
        let began = Instant::now();
        assert_eq!(page(number as u64 % namespaces).await, PAGE);
        took.push(began.elapsed());
    }
    let (half, most) = parts(took);
    let woke = wakes(&fleet).await;
    let (after, live) = (fleet.server.costs().unwrap(), admin.object_bytes().await);
    let mib = |bytes: u64| bytes >> 20;
    let (operator, gateway) = (fleet.operator.peak_bytes(), fleet.gateway.peak_bytes());
    soak::report(&format!(
        "{sessions} sessions in {namespaces} namespaces, {pods} pods: made in {:.0} s and {:.0} s; a page of {PAGE} {half:.0} ms, p99 {most:.0} ms; \
         a wake {:.0} ms, p99 {:.0} ms, before {:.0} and {:.0} ms; operator {} MiB, gateway {} MiB; API server {} MiB, before {} MiB, of which \
         objects {} MiB and {} MiB; etcd's file {} MiB, before {} MiB",
        sessions_took.as_secs_f64(),
        pods_took.as_secs_f64(),
        woke.0,
        woke.1,
        woke_before.0,
        woke_before.1,
        mib(operator),
        mib(gateway),
        mib(after.server_bytes),
        mib(before.server_bytes),
        mib(live),
        mib(live_before),
        mib(after.etcd_bytes),
        mib(before.etcd_bytes),
    ));
    if soak::is_whole() {
        let rested = at_rest(&fleet, &admin).await;
        let (woke, objects) = (wakes(&fleet).await, admin.object_bytes().await);
        soak::report(&format!(
            "at rest: API server {} MiB, of which objects {} MiB; a wake {:.0} ms, p99 {:.0} ms",
            mib(rested),
            mib(objects),
            woke.0,
            woke.1
        ));
        assert!(most <= soak::PAGE_P99_MS_MAX, "p99 of a page: {most:.0} ms");
        let process = |bytes: u64| bytes.saturating_sub(before.server_bytes);
        let bound = |of_session: u64| sessions * of_session + PROCESS_REST_BYTES_MAX;
        if go_collects() {
            let (made, at_rest) = (process(after.server_bytes), process(rested));
            assert!(made <= bound(2 * PROCESS_SESSION_BYTES_MAX), "the API server grew by {} MiB", mib(made));
            assert!(at_rest <= bound(PROCESS_SESSION_BYTES_MAX), "the API server grew by {} MiB, at rest", mib(at_rest));
        }
        let etcd = after.etcd_bytes.saturating_sub(before.etcd_bytes);
        assert!(etcd <= sessions * ETCD_SESSION_BYTES_MAX + ETCD_REST_BYTES_MAX, "etcd's file grew by {} MiB", mib(etcd));
    }
    assert!(operator < PROCESS_BYTES_MAX && gateway < PROCESS_BYTES_MAX, "operator {} MiB, gateway {} MiB", mib(operator), mib(gateway));
    let grown = after.etcd_bytes.saturating_sub(before.etcd_bytes);
    assert!(grown <= ETCD_BYTES_MAX, "etcd's file grew by {} MiB", mib(grown));
    let grown = live.saturating_sub(live_before);
    assert!(grown <= sessions * SERVER_SESSION_BYTES_MAX + SERVER_REST_BYTES_MAX, "the API server's objects are {} MiB more", mib(grown));
    for shared in fleet.processes() {
        shared.assert_small();
    }
}
