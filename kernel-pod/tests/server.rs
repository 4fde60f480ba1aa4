//! The API behind mTLS: who may ask what, and how answers look.

use std::net::SocketAddr;

use crate::common::{World, assign, call};
use dormouse_kernel::Pod;
use dormouse_protocol::event::{Event, EventBody};
use dormouse_protocol::kernel::{CLAIM_HEADER, PodInfo, ReportLine};
use dormouse_protocol::{ErrorBody, ErrorCode};
use dormouse_service::ca::{Ca, LEAF_VALIDITY};
use dormouse_service::tls::{Identity, PeerClient, Process, TlsFiles};
use dormouse_testkit::wait::eventually;
use http::Method;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

struct Served {
    ca: Ca,
    address: SocketAddr,
    shutdown: CancellationToken,
    serving: JoinHandle<()>,
}

impl Served {
    async fn start(pod: &Pod) -> Self {
        dormouse_service::telemetry::install_tls_provider();
        let ca = Ca::generate().unwrap();
        let tls = files(&ca, &Identity::of_pool("team", "default"));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, shutdown) = (listener.local_addr().unwrap(), CancellationToken::new());
        let (pod, stop) = (pod.clone(), shutdown.clone());
        let serving = tokio::spawn(async move { pod.serve(listener, tls, stop).await });
        Self { ca, address, shutdown, serving }
    }

    fn client(&self, process: Process) -> PeerClient {
        let namespace = if process == Process::Broker { "team" } else { "dormouse-system" };
        let identity = match process {
            Process::Kernel => Identity::kernel("team", "default", "someone"),
            _ => Identity::new(process, namespace, "someone"),
        };
        PeerClient::new(files(&self.ca, &identity.dns_name())).unwrap()
    }

    fn request(&self, process: Process, method: Method, path: &str) -> reqwest::RequestBuilder {
        let kernel = Identity::kernel("team", "default", "a");
        self.client(process).request(method, &kernel, &self.address.to_string(), path)
    }
}

fn files(ca: &Ca, san: &str) -> TlsFiles {
    TlsFiles::from_pem(&ca.issue(&[san.to_owned()], LEAF_VALIDITY).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn gateways_and_the_operator_are_obeyed_and_nobody_else() {
    let pod = World::default().pod("a");
    let served = Served::start(&pod).await;
    for process in [Process::Gateway, Process::Operator] {
        let info: PodInfo = served.request(process, Method::GET, "/v1/info").send().await.unwrap().json().await.unwrap();
        assert_eq!(info, pod.info());
    }
    for (process, method, path) in [
        (Process::Broker, Method::GET, "/v1/info"),
        (Process::Kernel, Method::GET, "/v1/report"),
        (Process::Gateway, Method::GET, "/v1/report"),
        (Process::Gateway, Method::POST, "/v1/forget"),
        (Process::Gateway, Method::POST, "/v1/grant"),
        (Process::Kernel, Method::POST, "/v1/grant"),
        (Process::Operator, Method::POST, "/v1/eval"),
    ] {
        let answer = served.request(process, method, path).json(&json!({})).send().await.unwrap();
        assert_eq!(answer.status(), 403, "{process} {path}");
        assert_eq!(answer.json::<ErrorBody>().await.unwrap().error.code, ErrorCode::Forbidden);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_is_answered_whole_or_as_lines() {
    let pod = World::default().pod("a");
    let served = Served::start(&pod).await;
    let session = assign(&pod, "u1", 1);
    let eval = || served.request(Process::Gateway, Method::POST, "/v1/eval");
    let whole: serde_json::Value = eval().json(&call(&session, "40 + 2", "k1")).send().await.unwrap().json().await.unwrap();
    assert_eq!((&whole["ok"], &whole["value"]), (&json!(true), &json!(42)));

    let request = eval().header("accept", "application/x-ndjson").json(&call(&session, "console.log('x'); 7", "k2"));
    let lines = request.send().await.unwrap().text().await.unwrap();
    let events: Vec<Event> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(events.iter().any(|event| matches!(&event.body, EventBody::Log { text, .. } if text == "x")));
    let EventBody::Final { result } = &events.last().unwrap().body else { panic!("the last line is {:?}", events.last()) };
    assert_eq!(result.value, Some(json!(7)));

    let refused = eval().json(&json!({ "assignment": 1 })).send().await.unwrap();
    assert_eq!(refused.status(), 400);
    let mut elsewhere = call(&session, "1", "k3");
    elsewhere.assignment.boot = "another".to_owned();
    let gone = eval().json(&elsewhere).send().await.unwrap();
    assert_eq!((gone.status().as_u16(), gone.json::<ErrorBody>().await.unwrap().error.code), (410, ErrorCode::SessionGone));
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_stores_every_session_and_ends_the_streams() {
    let world = World::default();
    let pod = world.pod("a");
    let served = Served::start(&pod).await;
    crate::common::value(&pod, &assign(&pod, "u1", 1), "let n = 1; setTimeout(() => { n++ }, 1e9); n").await;
    let report = served.request(Process::Operator, Method::GET, "/v1/report").send().await.unwrap();
    served.shutdown.cancel();
    let lines = report.text().await.unwrap();
    let lines: Vec<ReportLine> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().any(|line| matches!(line, ReportLine::Pod(info) if info.draining)));
    let asleep = |line: &ReportLine| matches!(line, ReportLine::Session(s) if s.state == dormouse_protocol::session::State::Hibernated);
    assert!(lines.iter().any(asleep), "{lines:?}");
    assert_eq!(lines.last(), Some(&ReportLine::Drained), "nothing follows, and whoever reads knows it");
    served.serving.await.unwrap();
    let other = world.pod("b");
    assert_eq!(crate::common::value(&other, &assign(&other, "u1", 2), "n").await, json!(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_body_confirms_a_claim_and_a_cut_withdraws_it() {
    let world = World::default();
    let pod = world.pod("a");
    let served = Served::start(&pod).await;
    let send = |key: &str, session: &dormouse_protocol::kernel::Assignment| {
        let (chunks, body) = tokio::sync::mpsc::channel::<Result<Vec<u8>, std::io::Error>>(4);
        let mut json = serde_json::to_vec(&call(session, "6 * 7", key)).unwrap();
        json.push(b'\n');
        chunks.try_send(Ok(json)).unwrap();
        let body = futures::stream::unfold(body, |mut body| async move { Some((body.recv().await?, body)) });
        let request = served.request(Process::Gateway, Method::POST, "/v1/eval").header(CLAIM_HEADER, "1");
        (chunks, tokio::spawn(request.body(reqwest::Body::wrap_stream(body)).send()))
    };
    let session = assign(&pod, "u1", 1);
    let (open, cut) = send("k1", &session);
    // Another claim has to wait for what becomes of this one.
    eventually("the pod has the call", async || pod.info().used > 0).await;
    open.send(Err(std::io::ErrorKind::ConnectionAborted.into())).await.unwrap();
    assert!(cut.await.unwrap().is_err());
    eventually("the claim has ended with its request", async || pod.info().used == 0).await;
    let (open, whole) = send("k2", &session);
    drop(open);
    let answer: serde_json::Value = whole.await.unwrap().unwrap().json().await.unwrap();
    assert_eq!((&answer["value"], &answer["cell"]), (&json!(42), &json!(1)), "the first cell never was");
}
