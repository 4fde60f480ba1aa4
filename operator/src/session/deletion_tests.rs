use std::sync::{Arc, Mutex, RwLock};

use axum::{
    Json, Router,
    extract::{Request, State},
    http::{Method, StatusCode},
    response::{IntoResponse as _, Response},
};
use clap::Parser as _;
use dormouse_control::writes::Writes;
use dormouse_crds::labels::STORAGE_FINALIZER;
use dormouse_service::{Metrics, tls::PeerClient};
use kube::{
    Client,
    runtime::{events::Recorder, reflector::store::Writer},
};
use serde_json::{Value, json};

use super::*;
use crate::{
    ca::Authority,
    config::Config,
    context::{Caches, OperatorMetrics},
    hub::Hub,
    owned::Owned,
    storage::Stores,
};

/// Where nobody listens: to ask this store for anything is an error.
const NO_STORE: &str = "http://127.0.0.1:1";

/// An API server that knows one session, or none.
#[derive(Default)]
struct Server {
    session: Option<Value>,
    /// Requests about sessions.
    seen: Mutex<Vec<String>>,
}

async fn answer(State(server): State<Arc<Server>>, request: Request) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    if path.contains("/kernelsessions/") {
        server.seen.lock().unwrap().push(format!("{method} {path}"));
    }
    match (&server.session, method) {
        (Some(session), Method::GET) if path.contains("/kernelsessions/") => Json(session.clone()).into_response(),
        // What is made is as it was asked for.
        (_, Method::POST) => {
            let made = axum::body::to_bytes(request.into_body(), usize::MAX).await.unwrap();
            (StatusCode::CREATED, Json(serde_json::from_slice::<Value>(&made).unwrap())).into_response()
        }
        _ => {
            let status =
                json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "message": "", "code": 404 });
            (StatusCode::NOT_FOUND, Json(status)).into_response()
        }
    }
}

/// A session as the watch brought it while it was being deleted.
fn deleted(uid: &str, finalizers: &[&str]) -> Value {
    json!({
        "apiVersion": "dormouse.dev/v1alpha1", "kind": "KernelSession",
        "metadata": {
            "name": "a", "namespace": "team", "uid": uid, "resourceVersion": "7", "finalizers": finalizers,
            "deletionTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {},
    })
}

async fn context(server: Arc<Server>) -> Context {
    dormouse_service::telemetry::install_tls_provider();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().fallback(answer).with_state(server);
    tokio::spawn(async move { axum::serve(listener, router).await });
    let client = Client::try_from(kube::Config::new(url.parse().unwrap())).unwrap();
    let endpoint = format!("--s3-endpoint={NO_STORE}");
    let flags = ["dormouse-operator", "--pod=op", "--kernel-image=k", "--broker-image=b", &endpoint, "--s3-bucket=sessions"];
    let config = Config::parse_from(flags);
    let authority = Authority::load(client.clone(), "dormouse-system", Default::default(), config.certificates).await.unwrap();
    let (tls, _) = authority.operator_tls().unwrap();
    Context {
        config,
        scope: Default::default(),
        shard: Default::default(),
        peers: RwLock::new(PeerClient::new(tls.clone()).unwrap()),
        tls: tokio::sync::watch::Sender::new(tls),
        authority,
        checked: Default::default(),
        stores: Stores::default(),
        hub: Hub::new(tokio::sync::mpsc::channel(1).0, None),
        http: reqwest::Client::builder().no_proxy().build().unwrap(),
        recorder: Recorder::new(client.clone(), "test".into()),
        metrics: OperatorMetrics::register(&Metrics::new()).unwrap(),
        revisions: std::sync::Arc::default(),
        caches: Caches {
            sessions: Writer::default().as_reader(),
            pools: Writer::default().as_reader(),
            brokers: Writer::default().as_reader(),
            pods: Writer::default().as_reader(),
            quotas: Writer::default().as_reader(),
            of_pools: Owned::unwatched(),
            of_brokers: Owned::unwatched(),
        },
        pool_triggers: tokio::sync::mpsc::channel(1).0,
        writes: Writes::default(),
        index: Mutex::default(),
        sizes: Mutex::default(),
        unread: Default::default(),
        grants: Default::default(),
        client,
    }
}

/// Reconciles what the cache still holds while the API server holds `now`. Answers the outcome and what was asked about sessions.
async fn reconciled(now: Option<Value>) -> (Outcome, Vec<String>) {
    let server = Arc::new(Server { session: now, seen: Mutex::default() });
    let context = context(Arc::clone(&server)).await;
    let cached: KernelSession = serde_json::from_value(deleted("u", &[STORAGE_FINALIZER])).unwrap();
    let outcome = reconcile(&cached, &context).await;
    let seen = server.seen.lock().unwrap().clone();
    (outcome, seen)
}

#[tokio::test]
async fn a_deletion_that_ended_does_not_begin_again_from_a_stale_cache() {
    let gone = None;
    let another = Some(deleted("v", &[STORAGE_FINALIZER]));
    let done = Some(deleted("u", &["somebody/else"]));
    for now in [gone, another, done] {
        let (outcome, seen) = reconciled(now.clone()).await;
        assert_eq!(outcome.unwrap(), Action::await_change(), "{now:?}: neither the store nor a pod is asked");
        assert_eq!(seen, ["GET /apis/dormouse.dev/v1alpha1/namespaces/team/kernelsessions/a"], "{now:?}");
    }
}

/// Without this the test above would show nothing.
#[tokio::test]
async fn a_deletion_that_has_not_ended_asks_the_store() {
    let (outcome, seen) = reconciled(Some(deleted("u", &[STORAGE_FINALIZER]))).await;
    assert_eq!(outcome.unwrap(), Action::requeue(BLOCKED_RETRY));
    let path = "/apis/dormouse.dev/v1alpha1/namespaces/team/kernelsessions/a";
    assert_eq!(seen, [format!("GET {path}"), format!("PATCH {path}/status")], "the finalizer stays, and a condition says why");
}

#[test]
fn a_pod_that_is_to_have_a_session_no_more_is_told_nothing_of_its_spec() {
    let mut object = deleted("u", &[STORAGE_FINALIZER]);
    object["metadata"]["generation"] = json!(7);
    object["spec"] = json!({ "pool": "p", "bootstrap": { "code": "const secret = 1" } });
    let session: KernelSession = serde_json::from_value(object).unwrap();
    let placement = Placement { pod: "k".to_owned(), pod_uid: "k-u".to_owned(), boot: "b".to_owned(), epoch: 3 };
    let told = assignment(&session, placement);
    assert_eq!((told.uid.as_str(), told.epoch, told.boot.as_str()), ("u", 3, "b"));
    assert_eq!((told.generation, told.spec), (0, KernelSessionSpec::default()), "older than what a process that has it knows");
}
