//! What lies between the operator and the API server: it counts what passes, ends the operator behind one of its writes, brings news late, or brings none.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{Method, StatusCode, header::HOST},
    response::{IntoResponse as _, Response},
};
use dormouse_testkit::apiserver::ApiServer;
use futures::StreamExt as _;
use tokio::sync::watch;

/// How late news is.
const LATE: Duration = Duration::from_millis(1_500);
/// After so long a watch that brings nothing is told to begin anew.
const SILENT: Duration = Duration::from_millis(500);
/// What an API server says of an object whose kind its MutatingAdmissionPolicies do not know yet.
const TOO_EARLY: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Resource kind not found","reason":"ServiceUnavailable","code":503}"#;
/// What an API server says of a watch that begins before what it still knows.
const EXPIRED: &str = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version","reason":"Expired","code":410}}"#;

/// What the path of a watch has in it.
const WATCHES: &str = "watch=true";

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// The operator ends when so many of its writes were answered, before it hears of the last one.
    Crash(u64),
    /// It acts on what was a while ago.
    Late,
    /// It hears of nothing that happens between two lists.
    Missed,
    /// The API server's admission does not know the kinds yet.
    TooEarly,
}

/// A way to the API server, over plain HTTP.
#[derive(Clone)]
pub struct Between(Arc<Inner>);

struct Inner {
    url: String,
    server: String,
    client: reqwest::Client,
    fault: watch::Sender<Fault>,
    writes: AtomicU64,
    /// Paths of what was read, watches aside.
    reads: Mutex<Vec<String>>,
    is_dead: AtomicBool,
}

impl Between {
    pub async fn start(server: &ApiServer) -> Self {
        let authority = reqwest::Certificate::from_pem_bundle(&std::fs::read(server.ca()).unwrap()).unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let this = Self(Arc::new(Inner {
            url: format!("http://{}", listener.local_addr().unwrap()),
            server: server.url().to_owned(),
            client: reqwest::Client::builder().no_proxy().tls_certs_only(authority).build().unwrap(),
            fault: watch::Sender::new(Fault::None),
            writes: AtomicU64::new(0),
            reads: Mutex::default(),
            is_dead: AtomicBool::new(false),
        }));
        let routes = Router::new().fallback(pass).with_state(this.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        this
    }

    pub fn url(&self) -> &str {
        &self.0.url
    }

    /// Begins to count writes, and to do this. Every watch ends and is begun anew.
    pub fn does(&self, fault: Fault) {
        self.0.fault.send_replace(fault);
        self.0.writes.store(0, Ordering::SeqCst);
    }

    /// Writes since then that were answered, leases and Events aside.
    pub fn writes(&self) -> u64 {
        self.0.writes.load(Ordering::SeqCst)
    }

    /// What it has read from the beginning on whose path has this in it, watches aside.
    pub fn reads(&self, part: &str) -> Vec<String> {
        self.0.reads.lock().unwrap().iter().filter(|path| path.contains(part)).cloned().collect()
    }

    /// Whether the operator is to be ended: nothing of it passes any more.
    pub fn is_dead(&self) -> bool {
        self.0.is_dead.load(Ordering::SeqCst)
    }

    /// Its successor is there.
    pub fn revive(&self) {
        self.does(Fault::None);
        self.0.is_dead.store(false, Ordering::SeqCst);
    }

    fn fault(&self) -> Fault {
        *self.0.fault.borrow()
    }
}

async fn pass(State(between): State<Between>, request: Request) -> Response {
    if between.is_dead() {
        return std::future::pending().await;
    }
    let (parts, body) = request.into_parts();
    let to = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let is_write = !matches!(parts.method, Method::GET | Method::HEAD)
        && !["/leases", "/events", "reviews", "dryRun"].iter().any(|of| to.contains(of));
    if between.fault() == Fault::TooEarly && parts.method == Method::POST && to.contains("/kernelsessions?") {
        return (StatusCode::SERVICE_UNAVAILABLE, TOO_EARLY).into_response();
    }
    if parts.method == Method::GET && !to.contains(WATCHES) {
        between.0.reads.lock().unwrap().push(to.clone());
    }
    let mut headers = parts.headers;
    headers.remove(HOST);
    let sent = between.0.client.request(parts.method, format!("{}{to}", between.0.server)).headers(headers);
    let Ok(answer) = sent.body(reqwest::Body::wrap_stream(body.into_data_stream())).send().await else {
        return StatusCode::BAD_GATEWAY.into_response();
    };
    if is_write && answer.status().is_success() {
        let written = between.0.writes.fetch_add(1, Ordering::SeqCst) + 1;
        if between.fault() == Fault::Crash(written) {
            between.0.is_dead.store(true, Ordering::SeqCst);
        }
    }
    if between.is_dead() {
        return std::future::pending().await;
    }
    let mut response = Response::builder().status(answer.status());
    if let Some(kind) = answer.headers().get("content-type") {
        response = response.header("content-type", kind);
    }
    if !to.contains(WATCHES) {
        return response.body(Body::from_stream(answer.bytes_stream())).unwrap();
    }
    let mut changes = between.0.fault.subscribe();
    let fault = *changes.borrow_and_update();
    let news = answer.bytes_stream().take_until(async move { changes.changed().await });
    let body = match fault {
        Fault::Late => Body::from_stream(news.then(|chunk| async move {
            tokio::time::sleep(LATE).await;
            chunk
        })),
        Fault::Missed => Body::from_stream(futures::stream::once(async {
            tokio::time::sleep(SILENT).await;
            Ok::<_, std::convert::Infallible>(format!("{EXPIRED}\n"))
        })),
        Fault::None | Fault::Crash(_) | Fault::TooEarly => Body::from_stream(news),
    };
    response.body(body).unwrap()
}
