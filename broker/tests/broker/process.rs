//! The broker as its neighbours see it: who may call, what a bad spec is told, the process's probes.
use std::{
    net::SocketAddr,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::world::{World, broker, call, secrets, spec, with_body};
use clap::Parser as _;
use dormouse_broker::{Args, Broker, ConfigError, LivingPools, ProblemKind};
use dormouse_crds::webhooks::EventKind;
use dormouse_protocol::{
    ErrorBody, ErrorCode,
    broker::{FETCH, SESSION_NOTICES, ToolAnswer, ToolCall, ToolDescription, WANTED_EVENTS},
};
use dormouse_service::{
    ca::{Ca, CertPem, LEAF_VALIDITY},
    memory::Memory,
    tls::{Identity, PeerClient, Process, TlsFiles},
};
use dormouse_testkit::{process::free_port, wait::eventually};
use reqwest::Method;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

fn issue(ca: &Ca, name: String) -> CertPem {
    ca.issue(&[name], LEAF_VALIDITY).unwrap()
}

fn client(ca: &Ca, process: Process, namespace: &str) -> PeerClient {
    let name = match process {
        Process::Kernel => Identity::of_pool(namespace, "default"),
        _ => Identity::new(process, namespace, "any").dns_name(),
    };
    PeerClient::new(TlsFiles::from_pem(&issue(ca, name)).unwrap()).unwrap()
}

fn own() -> Identity {
    Identity::new(Process::Broker, "team-a", "tools")
}

/// Where a broker is served, with a certificate of this authority.
async fn door() -> (Ca, TcpListener, SocketAddr, TlsFiles) {
    let ca = Ca::generate().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tls = TlsFiles::from_pem(&issue(&ca, own().dns_name())).unwrap();
    (ca, listener, address, tls)
}

async fn post(client: &PeerClient, address: SocketAddr, call: &ToolCall) -> reqwest::Response {
    client.request(Method::POST, &own(), &address.to_string(), "/v1/call").json(call).send().await.unwrap()
}

static USED: AtomicU64 = AtomicU64::new(0);

#[tokio::test]
async fn a_broker_whose_memory_is_in_use_makes_no_call_and_says_so() {
    let (world, broker) = broker().await;
    let (ca, listener, address, tls) = door().await;
    let memory = Memory::with_reading(100 << 20, || Some(USED.load(Ordering::SeqCst)));
    tokio::spawn(broker.serve_within(memory.clone(), LivingPools::default(), listener, tls, CancellationToken::new()));
    let kernel = client(&ca, Process::Kernel, "team-a");
    USED.store(90 << 20, Ordering::SeqCst);
    let refused = post(&kernel, address, &call(1, "getWidget", json!({"id": "7"}))).await;
    assert_eq!(refused.json::<ErrorBody>().await.unwrap().error.code, ErrorCode::CapacityExhausted);
    assert!(world.seen().is_empty());
    USED.store(0, Ordering::SeqCst);
    memory.look_again();
    assert_eq!(post(&kernel, address, &call(1, "getWidget", json!({"id": "7"}))).await.status(), 200);
}

#[tokio::test]
async fn only_kernel_pods_of_the_namespace_are_served() {
    let (world, broker) = broker().await;
    let (ca, listener, address, tls) = door().await;
    let shutdown = CancellationToken::new();
    let server = tokio::spawn(broker.serve(listener, tls, shutdown.clone()));

    let kernel = client(&ca, Process::Kernel, "team-a");
    let answer: ToolAnswer = post(&kernel, address, &call(1, "getWidget", json!({"id": "7"}))).await.json().await.unwrap();
    assert_eq!(answer, ToolAnswer::Ok { value: json!({"id": "7", "price": 12}) });
    let tools: Vec<ToolDescription> =
        kernel.request(Method::GET, &own(), &address.to_string(), "/v1/tools").send().await.unwrap().json().await.unwrap();
    assert!(tools.iter().any(|tool| tool.name == "getWidget" && tool.input["required"] == json!(["id"])));

    let mut foreign = call(2, "getWidget", json!({"id": "7"}));
    foreign.namespace = "team-b".to_owned();
    assert_eq!(post(&kernel, address, &foreign).await.status(), 403);
    for stranger in [client(&ca, Process::Kernel, "team-b"), client(&ca, Process::Gateway, "team-a")] {
        let response = post(&stranger, address, &call(3, "getWidget", json!({"id": "7"}))).await;
        assert_eq!(response.status(), 403);
        assert_eq!(response.json::<ErrorBody>().await.unwrap().error.code, ErrorCode::Forbidden);
    }
    // Nor is anyone else's fetch made, read or given up.
    for (path, body) in [
        ("/v1/fetch", json!({"call": call(4, FETCH, json!({"method": "GET", "url": "http://a.example/"})), "allow": []})),
        ("/v1/body", json!({"namespace": "team-a", "sessionUid": "u-1", "epoch": 1, "stream": 1, "part": 0})),
        ("/v1/close", json!({"namespace": "team-a", "sessionUid": "u-1", "epoch": 1, "call": 1})),
        ("/v1/events", json!({"namespace": "team-a"})),
        (
            "/v1/notices",
            json!({"namespace": "team-a", "session": "a", "sessionUid": "u-1", "number": 1, "event": "failed", "time": "", "data": {}}),
        ),
    ] {
        let send = |client: &PeerClient, body: &serde_json::Value| {
            client.request(Method::POST, &own(), &address.to_string(), path).json(body).send()
        };
        assert_eq!(send(&client(&ca, Process::Kernel, "team-b"), &body).await.unwrap().status(), 403, "{path}");
        assert_eq!(send(&kernel, &body).await.unwrap().status(), 200, "{path}");
        let foreign = body.to_string().replace("team-a", "team-b").parse().unwrap();
        assert_eq!(send(&kernel, &foreign).await.unwrap().status(), 403, "{path}");
    }
    // Nor is a body passed on with anyone else's call.
    let framed = |call: &ToolCall| with_body(call, b"the body");
    let upload =
        |client: &PeerClient, body: Vec<u8>| client.request(Method::POST, &own(), &address.to_string(), "/v1/upload").body(body).send();
    let answered = call(1, "getWidget", json!({"id": "7"}));
    assert_eq!(upload(&client(&ca, Process::Kernel, "team-b"), framed(&answered)).await.unwrap().status(), 403);
    assert_eq!(upload(&kernel, framed(&foreign)).await.unwrap().status(), 403);
    assert_eq!(upload(&kernel, framed(&answered)).await.unwrap().status(), 200, "it has its answer, and needs no body");
    assert_eq!(upload(&kernel, b"none".to_vec()).await.unwrap().status(), 400);
    let mut older = call(5, "getWidget", json!({"id": "7"}));
    older.epoch = 0;
    assert_eq!(post(&kernel, address, &older).await.status(), 410);
    assert_eq!(world.seen().len(), 1);

    // A call in flight is finished when the process is told to stop.
    let slow = tokio::spawn(async move { post(&kernel, address, &call(6, "getWidget", json!({"id": "slow"}))).await.status() });
    world.arrived.notified().await;
    shutdown.cancel();
    world.go.notify_one();
    assert_eq!(slow.await.unwrap(), 200);
    server.await.unwrap();
}

#[tokio::test]
async fn only_gateways_give_orders_and_for_sessions_of_the_namespace_only() {
    let (world, broker) = broker().await;
    let (ca, listener, address, tls) = door().await;
    tokio::spawn(broker.serve(listener, tls, CancellationToken::new()));
    let of_job = json!({ "namespace": "team-a", "sessionUid": "u-1", "call": 1, "lease": "l" });
    let with = |more: serde_json::Value| {
        let mut body = of_job.clone();
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let orders = [
        (
            "/v1/decide",
            with(json!({ "session": "analyst", "epoch": 1, "tool": "make", "digest": "d", "id": "i", "approve": true, "by": "somebody" })),
        ),
        ("/v1/jobs/claim", json!({ "namespace": "team-a", "capabilities": ["browser"], "runner": "r" })),
        ("/v1/jobs/heartbeat", of_job.clone()),
        ("/v1/jobs/answer", with(json!({ "answer": { "value": 1 }, "by": "somebody" }))),
        ("/v1/deliveries", json!({ "namespace": "team-a", "limit": 10 })),
        ("/v1/redeliver", json!({ "namespace": "team-a", "id": "m" })),
    ];
    let send = async |client: &PeerClient, path: &str, body: &serde_json::Value| {
        client.request(Method::POST, &own(), &address.to_string(), path).json(body).send().await
    };
    let code = async |response: reqwest::Response| response.json::<ErrorBody>().await.map(|body| body.error.code).ok();
    let gateway = client(&ca, Process::Gateway, "dormouse-system");
    // Of the installation, but not who may.
    let strangers = [
        (Process::Kernel, "team-a"),
        (Process::Kernel, "team-b"),
        (Process::Broker, "team-a"),
        (Process::Broker, "team-b"),
        (Process::Operator, "dormouse-system"),
    ];
    // Of another installation.
    let foreign = client(&Ca::generate().unwrap(), Process::Gateway, "dormouse-system");
    for (path, body) in &orders {
        for (process, namespace) in strangers {
            let refused = send(&client(&ca, process, namespace), path, body).await.unwrap();
            assert_eq!(refused.status(), 403, "{path} for {process} of {namespace}");
            assert_eq!(code(refused).await, Some(ErrorCode::Forbidden));
        }
        assert!(send(&foreign, path, body).await.is_err(), "{path}: no connection");
        let elsewhere = body.to_string().replace("team-a", "team-b").parse().unwrap();
        assert_eq!(send(&gateway, path, &elsewhere).await.unwrap().status(), 403, "{path}: of another namespace");
        // This broker has no store for what is asked: it was let in, and told so.
        let told = code(send(&gateway, path, body).await.unwrap()).await;
        assert!(!matches!(told, Some(ErrorCode::Forbidden | ErrorCode::InvalidRequest)), "{path}: {told:?}");
    }
    // Nor does a gateway make calls.
    for path in ["/v1/call", "/v1/upload", "/v1/fetch", "/v1/notices", "/v1/events"] {
        assert_eq!(send(&gateway, path, &json!({})).await.unwrap().status(), 403, "{path}");
    }
    assert!(world.seen().is_empty());
    // What becomes of a session that no pod has, the operator tells as well, and neither tells what a pod does.
    let operator = client(&ca, Process::Operator, "dormouse-system");
    let notice = |namespace: &str, event: &str, key: Option<&str>| {
        json!({ "namespace": namespace, "session": "analyst", "sessionUid": "default_u-1", "number": 0, "key": key, "event": event,
            "time": "2030-01-01T00:00:00Z", "data": {} })
    };
    let deleted = notice("team-a", "session_deleted", Some("session_deleted"));
    for (process, namespace) in [(Process::Kernel, "team-a"), (Process::Broker, "team-a")] {
        for path in [SESSION_NOTICES, WANTED_EVENTS] {
            assert_eq!(send(&client(&ca, process, namespace), path, &deleted).await.unwrap().status(), 403, "{path} for {process}");
        }
    }
    for teller in [&gateway, &operator] {
        assert_eq!(send(teller, SESSION_NOTICES, &deleted).await.unwrap().status(), 200, "nobody is to be told");
        let wanted = send(teller, WANTED_EVENTS, &json!({ "namespace": "team-a" })).await.unwrap();
        assert_eq!(wanted.json::<Vec<EventKind>>().await.unwrap(), []);
        for refused in [
            notice("team-b", "session_deleted", Some("k")),
            notice("team-a", "session_woken", Some("k")),
            notice("team-a", "completed", Some("k")),
            notice("team-a", "session_deleted", None),
        ] {
            assert_eq!(send(teller, SESSION_NOTICES, &refused).await.unwrap().status(), 403, "{refused}");
        }
    }
}

#[test]
fn every_problem_of_a_spec_is_told_with_its_path() {
    let bad = serde_json::from_value(json!({
        "services": [
            {"name": "a", "baseUrl": "ftp://x", "auth": {"type": "bearer"}, "allowedMethods": ["GET", "FETCH"], "allowedPaths": ["x"]},
            {"name": "a", "baseUrl": "http://u:p@x", "auth": {"type": "header", "headerName": "Host", "secretRef": {"name": "s", "key": "k"}}},
            {"name": "b", "baseUrl": "http://x", "auth": {"type": "basic", "secretRef": {"name": "widgets"}}, "requestBytesMax": (1 << 30) + 1, "responseBytesMax": 0},
        ],
        "tools": [
            {"name": "", "service": "nowhere", "path": "x"},
            {"name": "t", "service": "b", "method": "POST", "path": "/x", "input": {"type": "thing"}, "timeoutMs": 0},
            {"name": "t", "service": "a", "path": "/x/{", "output": {"$ref": "http://elsewhere/schema.json"}},
        ],
    }))
    .unwrap();
    let Err(ConfigError::Problems(problems)) = Broker::new(bad, secrets()) else { panic!("accepted") };
    let paths: Vec<_> = problems.iter().map(|problem| problem.path.as_str()).collect();
    let expected = [
        "services[0].baseUrl",
        "services[0].auth.secretRef",
        "services[0].allowedMethods[1]",
        "services[0].allowedPaths[0]",
        "services[1].name",
        "services[1].baseUrl",
        "services[1].auth.headerName",
        "services[2].auth.secretRef",
        "services[2].requestBytesMax",
        "services[2].responseBytesMax",
        "tools[0].name",
        "tools[0].service",
        "tools[0].path",
        "tools[1].input",
        "tools[1].method",
        "tools[1].timeoutMs",
        "tools[2].path",
        "tools[2].output",
    ];
    assert_eq!(paths, expected);
    let text = problems.iter().find(|problem| problem.path == "services[2].auth.secretRef").unwrap().to_string();
    assert_eq!(text, "spec.services[2].auth.secretRef: the Secret `widgets` has no key `user`");
    assert!(problems.iter().any(|problem| matches!(&problem.kind, ProblemKind::UnknownService(name) if name == "nowhere")));
}

fn write(directory: &Path, name: &str, text: &str) {
    let path = directory.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn free_address() -> SocketAddr {
    ([127, 0, 0, 1], free_port().unwrap()).into()
}

async fn until_status(url: &str, status: u16) -> String {
    let mut text = String::new();
    let answered = async || match reqwest::get(url).await {
        Ok(response) if response.status() == status => {
            text = response.text().await.unwrap();
            true
        }
        _ => false,
    };
    eventually(&format!("{url} answers {status}"), answered).await;
    text
}

#[tokio::test]
async fn the_process_says_why_it_is_not_ready_and_recovers() {
    let world = World::default();
    let spec = spec(&world.start().await);
    dormouse_service::telemetry::install_tls_provider();
    let (ca, directory) = (Ca::generate().unwrap(), tempfile::tempdir().unwrap());
    let pem = issue(&ca, own().dns_name());
    for (name, text) in [("ca.crt", &pem.ca), ("tls.crt", &pem.cert), ("tls.key", &pem.key)] {
        write(directory.path(), &format!("tls/{name}"), text);
    }
    write(directory.path(), "broker.yaml", &yaml_serde::to_string(&spec).unwrap());
    write(directory.path(), "secrets/widgets/token", "from-a-file\n");

    let (listen, admin) = (free_address(), free_address());
    let path = |name: &str| directory.path().join(name).display().to_string();
    let args = Args::parse_from([
        "dormouse-broker",
        "--listen",
        &listen.to_string(),
        "--admin-listen",
        &admin.to_string(),
        "--config",
        &path("broker.yaml"),
        "--secrets-dir",
        &path("secrets"),
        "--tls-dir",
        &path("tls"),
        "--namespace",
        "team-a",
        "--name",
        "tools",
    ]);
    let shutdown = CancellationToken::new();
    let process = tokio::spawn(dormouse_broker::run(args, shutdown.clone()));
    let body = until_status(&format!("http://{admin}/readyz"), 503).await;
    assert!(body.contains("spec.services[2].auth.secretRef: the Secret `login` has no key `user`"), "{body}");

    write(directory.path(), "secrets/login/user", "admin");
    write(directory.path(), "secrets/login/password", "from-a-file");
    until_status(&format!("http://{admin}/readyz"), 200).await;
    let kernel = client(&ca, Process::Kernel, "team-a");
    assert_eq!(post(&kernel, listen, &call(1, "getWidget", json!({"id": "7"}))).await.status(), 200);
    assert_eq!(world.last().authorization.as_deref(), Some("Bearer from-a-file"));
    write(directory.path(), "secrets/widgets/token", "rotated");
    assert_eq!(post(&kernel, listen, &call(2, "getWidget", json!({"id": "7"}))).await.status(), 200);
    assert_eq!(world.last().authorization.as_deref(), Some("Bearer rotated"));
    // Names that code makes up are no labels.
    for number in 3..6 {
        assert_eq!(post(&kernel, listen, &call(number, &format!("made-up-{number}"), json!({}))).await.status(), 200);
    }
    assert_eq!(post(&kernel, listen, &call(6, "tools.list", json!({}))).await.status(), 200);
    let metrics = reqwest::get(format!("http://{admin}/metrics")).await.unwrap().text().await.unwrap();
    for line in [
        r#"dormouse_broker_calls_total{outcome="ok",tool="getWidget"} 2"#,
        r#"dormouse_broker_calls_total{outcome="ToolNotFound",tool="other"} 3"#,
        r#"dormouse_broker_calls_total{outcome="ok",tool="tools.list"} 1"#,
        r#"dormouse_broker_call_seconds_count{tool="getWidget"} 2"#,
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    assert!(!metrics.contains("made-up"), "{metrics}");
    shutdown.cancel();
    process.await.unwrap().unwrap();
}
