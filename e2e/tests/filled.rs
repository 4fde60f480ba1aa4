//! Everything at once that fills what tenants share.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{Router, body::Body, routing::any};
use dormouse_client::Client;
use dormouse_protocol::{
    eval::EvalRequest,
    kernel::{KERNEL_PORT, ReportLine},
    session::CreateSession,
};
use dormouse_service::tls::Server;
use dormouse_testkit::{soak, wait::eventually};
use futures::StreamExt as _;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use crate::support::{
    attacks::{self, CELLS, Honest},
    fleet::{Fleet, TENANT, pod_address},
};

/// Sessions that run each of the hostile cells, and as many in a soak.
const EACH: u64 = 2;
const EACH_IN_SOAK: u64 = 5;
/// How long a client stays that reads nothing of its answer.
const HELD: Duration = Duration::from_secs(12);
/// Sessions whose specs are as large as they may be, in a namespace that has no pods, and as many in a soak. The API server takes four a second.
const LARGE_SPECS: u64 = 100;
const LARGE_SPECS_IN_SOAK: u64 = 600;
const SPEC_BYTES: usize = 256 << 10;
/// Connections that send half a request, and tokens that nobody knows.
const HALVES: usize = 400;
const TOKENS: usize = 2_000;
/// Namespaces of those who only attack.
const LARGE: &str = "large";
const EVIL: &str = "evil";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_tenants_share_is_filled_by_every_means_stays_small_and_serves_others() {
    let mut fleet = Fleet::start(&attacks::outside().await.0).await;
    for namespace in [LARGE, EVIL] {
        fleet.server.kubectl(&["create", "namespace", namespace]).unwrap();
    }
    let client = fleet.client();
    let over = Arc::new(AtomicBool::new(false));
    let mut honest = JoinSet::new();
    for number in 0..4 {
        let mut session = Honest::new(&client, &format!("honest-{number}")).await;
        let over = Arc::clone(&over);
        honest.spawn(async move {
            while !over.load(Ordering::Relaxed) {
                session.count().await;
            }
            session.count().await;
        });
    }
    hostile_pods(&fleet).await;
    let mut attacks = JoinSet::new();
    let large = usize::try_from(soak::count(LARGE_SPECS, LARGE_SPECS_IN_SOAK)).unwrap();
    attacks.spawn(large_specs(Client::new(&fleet.url, LARGE, Some(&fleet.token)).unwrap(), large));
    attacks.spawn(large_specs(Client::new(&fleet.url, EVIL, Some(&fleet.token)).unwrap(), 20));
    attacks.spawn(unknown_tokens(fleet.url.clone()));
    for number in 0..usize::try_from(soak::count(EACH, EACH_IN_SOAK)).unwrap() * CELLS.len() {
        attacks.spawn(hostile_session(client.clone(), fleet.url.clone(), fleet.token.clone(), number));
    }
    let held = half_requests(&fleet).await;
    while let Some(attack) = attacks.join_next().await {
        attack.unwrap();
    }
    for shared in fleet.processes() {
        shared.assert_small();
    }
    drop(held);
    over.store(true, Ordering::Relaxed);
    while let Some(session) = honest.join_next().await {
        session.unwrap();
    }
    // Neither is the operator held up.
    let status = async || {
        let args = ["get", "kernelsession", "honest-0", "-n", TENANT, "-o", "jsonpath={.status.conditions[?(@.type==\"Ready\")].status}"];
        fleet.server.kubectl(&args).unwrap() == "True"
    };
    eventually("the operator tells of who behaves", status).await;
    for shared in fleet.processes() {
        shared.assert_small();
    }
}

/// Runs one of the cells, and reads nothing of what is answered, or all of it.
async fn hostile_session(client: Client, url: String, token: String, number: usize) {
    let name = format!("hostile-{number}");
    attacks::create(&client, &name, json!({"heapBytes": 64 << 20, "outputBytes": 8 << 20, "evalTimeoutMs": 5_000, "toolCalls": 1_000}))
        .await;
    let cell = EvalRequest { code: CELLS[number % CELLS.len()].to_owned(), ..EvalRequest::default() };
    let asked = reqwest::Client::builder()
        .build()
        .unwrap()
        .post(format!("{url}/v1/namespaces/{TENANT}/sessions/{name}/eval"))
        .bearer_auth(token)
        .header("accept", if number.is_multiple_of(2) { "application/x-ndjson" } else { "application/json" })
        .json(&cell);
    let Ok(Ok(answer)) = tokio::time::timeout(HELD, asked.send()).await else { return };
    if number.is_multiple_of(3) {
        let _ = tokio::time::timeout(HELD, answer.bytes()).await;
    } else {
        tokio::time::sleep(HELD).await;
    }
}

async fn large_specs(client: Client, count: usize) {
    let code = "x".repeat(SPEC_BYTES);
    let client = &client;
    let made = (0..count).map(async |number| {
        let spec = serde_json::from_value(json!({"bootstrap": {"code": code}})).unwrap();
        let session = CreateSession { name: Some(format!("large-{number}")), labels: Default::default(), spec };
        client.create(&session).await.is_ok()
    });
    let made = futures::stream::iter(made).buffer_unordered(4).filter(|made| std::future::ready(*made)).count().await;
    assert!(made > count / 2, "{made} of {count} large specs are stored");
}

async fn unknown_tokens(url: String) {
    let (http, url) = (&reqwest::Client::builder().build().unwrap(), &format!("{url}/v1/namespaces/{TENANT}/sessions"));
    let asked = (0..TOKENS).map(async |number| http.get(url).bearer_auth(format!("nobody-{number}")).send().await);
    futures::stream::iter(asked).buffer_unordered(32).for_each(async |_| ()).await;
}

/// Clients of the gateway that send half a request, and of every door that send nothing.
async fn half_requests(fleet: &Fleet) -> Vec<TcpStream> {
    let gateway: SocketAddr = fleet.url.strip_prefix("http://").unwrap().parse().unwrap();
    let mut held = Vec::new();
    for number in 0..HALVES {
        let half = if number.is_multiple_of(2) {
            "GET / HTTP/1.1\r\nx: ".to_owned()
        } else {
            format!(
                "POST /v1/namespaces/{TENANT}/sessions HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {}\r\n\
                 content-type: application/json\r\ncontent-length: 8000000\r\n\r\n{{",
                fleet.token
            )
        };
        let mut stream = TcpStream::connect(gateway).await.unwrap();
        stream.write_all(half.as_bytes()).await.unwrap();
        held.push(stream);
        for door in [SocketAddr::from((pod_address(1), KERNEL_PORT)), fleet.broker_address] {
            held.push(TcpStream::connect(door).await.unwrap());
        }
    }
    held
}

/// Pods of a namespace whose tenant has taken them over: one never answers, one answers without an end, one reports sessions that nobody has made.
async fn hostile_pods(fleet: &Fleet) {
    let silent = listen(2).await;
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((mut stream, _)) = silent.accept().await {
            let _ = stream.read_u8().await;
            held.push(stream);
        }
    });
    let block = axum::body::Bytes::from(vec![b'x'; 1 << 16]);
    let endless = move || async move { Body::from_stream(futures::stream::repeat(block).map(Ok::<_, std::convert::Infallible>)) };
    let waiting = |number: u64| serde_json::to_string(&ReportLine::Waiting { uid: format!("nobody-{number}") }).unwrap() + "\n";
    let rumours = move || async move {
        Body::from_stream(futures::stream::iter(0..).map(move |number| Ok::<_, std::convert::Infallible>(waiting(number))))
    };
    for (number, name, routes) in
        [(3, "endless", Router::new().fallback(any(endless))), (4, "rumours", Router::new().fallback(any(rumours)))]
    {
        let files = fleet.kernel_certificate(EVIL, name);
        tokio::spawn(Server::new(files).serve(listen(number).await, routes, CancellationToken::new()));
        fleet.kernel_pod(EVIL, name, pod_address(number));
    }
    fleet.kernel_pod(EVIL, "silent", pod_address(2));
}

async fn listen(number: u8) -> TcpListener {
    let address: IpAddr = pod_address(number);
    TcpListener::bind((address, KERNEL_PORT)).await.unwrap()
}
