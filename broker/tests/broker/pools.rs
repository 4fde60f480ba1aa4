//! Pools of one namespace at a broker: none speaks for another's sessions, none that is deleted is let in, and a pod of one session speaks for no other.
use std::{net::SocketAddr, time::Duration};

use crate::world::{broker, call, with_body};
use dormouse_broker::LivingPools;
use dormouse_protocol::{
    ErrorBody, ErrorCode,
    broker::{FETCH, ToolAnswer, ToolCall},
};
use dormouse_service::{
    ca::{Ca, End, LEAF_VALIDITY},
    memory::Memory,
    tls::{Identity, Incarnation, PeerClient, Process, TlsFiles, session_name},
};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// A client with a certificate of `pool`, made at that second for the object with this uid.
fn pod(ca: &Ca, pool: &str, uid: &str, seconds: u64) -> PeerClient {
    let names = [Identity::of_pool("team-a", pool), Incarnation::dated(&Incarnation::undated(uid), seconds)];
    PeerClient::new(TlsFiles::from_pem(&ca.issue(&names, LEAF_VALIDITY).unwrap()).unwrap()).unwrap()
}

async fn served(ca: &Ca, pools: LivingPools) -> (crate::world::World, SocketAddr) {
    let (world, broker) = broker().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let own = Identity::new(Process::Broker, "team-a", "tools").dns_name();
    let tls = TlsFiles::from_pem(&ca.issue(&[own], LEAF_VALIDITY).unwrap()).unwrap();
    tokio::spawn(broker.serve_within(Memory::unlimited(), pools, listener, tls, CancellationToken::new()));
    (world, address)
}

async fn post(client: &PeerClient, address: SocketAddr, call: &ToolCall) -> reqwest::Response {
    let own = Identity::new(Process::Broker, "team-a", "tools");
    client.request(Method::POST, &own, &address.to_string(), "/v1/call").timeout(Duration::from_secs(30)).json(call).send().await.unwrap()
}

fn widget(epoch: u64, id: &str) -> ToolCall {
    ToolCall { epoch, ..call(1, "getWidget", json!({"id": id})) }
}

#[tokio::test]
async fn a_pod_of_another_pool_that_names_a_sessions_uid_means_another_session() {
    let ca = Ca::generate().unwrap();
    let (world, address) = served(&ca, LivingPools::default()).await;
    let (small, large) = (pod(&ca, "small", "s", 1), pod(&ca, "large", "l", 1));
    let first: ToolAnswer = post(&small, address, &widget(5, "7")).await.json().await.unwrap();
    // Of the same session this would be refused: the epoch is over, and call 1 was another one.
    let theirs: ToolAnswer = post(&large, address, &widget(1, "8")).await.json().await.unwrap();
    assert!(matches!(&theirs, ToolAnswer::Ok { value } if value["id"] == "8"), "{theirs:?}");
    let body = post(&small, address, &widget(1, "8")).await.json::<ErrorBody>().await.unwrap();
    assert_eq!(body.error.code, ErrorCode::SessionGone);
    // A higher epoch of the other pool ends nothing, and the answer is in the journal of who asked.
    assert_eq!(post(&large, address, &widget(9, "8")).await.status(), 200);
    let again: ToolAnswer = post(&small, address, &ToolCall { repeated: true, ..widget(5, "7") }).await.json().await.unwrap();
    assert_eq!(again, first);
    assert_eq!(world.seen().len(), 2, "each was made once");
}

#[tokio::test]
async fn the_certificate_of_a_pool_that_is_deleted_is_refused_and_that_of_a_new_one_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pools");
    std::fs::write(&path, "1000\nthere\n").unwrap();
    let ca = Ca::generate().unwrap();
    let (world, address) = served(&ca, LivingPools::file(path)).await;
    // One of the name is there, which is another object.
    let deleted = post(&pod(&ca, "small", "gone", 999), address, &widget(1, "7")).await;
    assert_eq!(deleted.status(), 403);
    let error = deleted.json::<ErrorBody>().await.unwrap().error;
    assert_eq!((error.code, error.message.as_str()), (ErrorCode::Forbidden, "the KernelPool of this pod's certificate is deleted"));
    assert!(world.seen().is_empty());
    for client in [pod(&ca, "small", "there", 1), pod(&ca, "new", "unheard-of", 1000)] {
        assert_eq!(post(&client, address, &widget(1, "7")).await.status(), 200);
    }
}

/// A client with a certificate of the pool `strict` for this end of a connection, and for these sessions.
fn strict_pod(ca: &Ca, end: End, sessions: &[&str]) -> PeerClient {
    let own = [Identity::kernel("team-a", "strict", "strict-1").dns_name(), Incarnation::dated(&Incarnation::undated("s"), 1)];
    let names: Vec<String> = own.into_iter().chain(sessions.iter().map(|uid| session_name(uid))).collect();
    PeerClient::new(TlsFiles::from_pem(&ca.issue_for(end, &names, LEAF_VALIDITY).unwrap()).unwrap()).unwrap()
}

/// What is sent to each route that names a session, of the session with this uid.
fn sent_for(uid: &str) -> Vec<(&'static str, Value)> {
    let of = |number, tool: &str, args| ToolCall { session_uid: uid.to_owned(), ..call(number, tool, args) };
    vec![
        ("/v1/call", json!(of(1, "getWidget", json!({"id": "7"})))),
        ("/v1/fetch", json!({"call": of(2, FETCH, json!({"method": "GET", "url": "http://a.example/"})), "allow": []})),
        ("/v1/body", json!({"namespace": "team-a", "sessionUid": uid, "epoch": 1, "stream": 1, "part": 0})),
        ("/v1/close", json!({"namespace": "team-a", "sessionUid": uid, "epoch": 1, "call": 1})),
        ("/v1/modules", json!({"namespace": "team-a", "session": "a", "sessionUid": uid, "specifier": "npm:leaf", "pinned": []})),
        (
            "/v1/notices",
            json!({"namespace": "team-a", "session": "a", "sessionUid": uid, "number": 1, "event": "failed", "time": "", "data": {}}),
        ),
    ]
}

/// Asks each of them for a session, and tells which refused it for not being the pod's own.
async fn refusals(client: &PeerClient, address: SocketAddr, uid: &str) -> Vec<&'static str> {
    let own = Identity::new(Process::Broker, "team-a", "tools");
    let to = |path| client.request(Method::POST, &own, &address.to_string(), path).timeout(Duration::from_secs(30));
    let mut asked: Vec<_> = sent_for(uid).into_iter().map(|(path, body)| (path, to(path).json(&body))).collect();
    let upload = ToolCall { session_uid: uid.to_owned(), ..call(1, "getWidget", json!({"id": "7"})) };
    asked.push(("/v1/upload", to("/v1/upload").body(with_body(&upload, b"the body"))));
    let mut refused = Vec::new();
    for (path, request) in asked {
        // What was let in may have an error, too, but another: this broker has no registry of packages.
        if let Ok(ErrorBody { error }) = request.send().await.unwrap().json().await
            && error.code == ErrorCode::Forbidden
        {
            assert!(error.message.starts_with("the pod of one session asks for that session only"), "{path}: {error}");
            refused.push(path);
        }
    }
    refused
}

#[tokio::test]
async fn the_pod_of_one_session_asks_for_that_session_and_no_other_on_every_route() {
    let ca = Ca::generate().unwrap();
    let (world, address) = served(&ca, LivingPools::default()).await;
    let its = strict_pod(&ca, End::Client, &["u-1"]);
    let every = ["/v1/call", "/v1/fetch", "/v1/body", "/v1/close", "/v1/modules", "/v1/notices", "/v1/upload"];
    // Nor what has its own uid in it, or its pool's name.
    for other in ["u-2", "u-11", "u-1.", "U-1", "", "strict_u-1"] {
        assert_eq!(refusals(&its, address, other).await, every, "{other:?}");
    }
    assert!(world.seen().is_empty(), "nothing was done for another session");
    assert_eq!(refusals(&its, address, "u-1").await, [""; 0]);
    assert_eq!(world.seen().len(), 1, "its own call was made");
    // What names no session it may ask, too.
    let own = Identity::new(Process::Broker, "team-a", "tools");
    let tools = its.request(Method::GET, &own, &address.to_string(), "/v1/tools").send().await.unwrap();
    let events = its.request(Method::POST, &own, &address.to_string(), "/v1/events").json(&json!({"namespace": "team-a"}));
    assert_eq!((tools.status().as_u16(), events.send().await.unwrap().status().as_u16()), (200, 200));
    // A certificate of the pool that names no session is good for all of them, as those of shared pools are.
    let shared = strict_pod(&ca, End::Both, &[]);
    for uid in ["u-1", "u-2"] {
        assert_eq!(refusals(&shared, address, uid).await, [""; 0], "{uid}");
    }
}

#[tokio::test]
async fn a_certificate_that_is_for_answers_only_asks_a_broker_nothing() {
    let ca = Ca::generate().unwrap();
    let (world, address) = served(&ca, LivingPools::default()).await;
    let own = Identity::new(Process::Broker, "team-a", "tools");
    let ask = async |client: &PeerClient| {
        let request = client.request(Method::POST, &own, &address.to_string(), "/v1/call").timeout(Duration::from_secs(30));
        request.json(&widget(1, "7")).send().await
    };
    // A pod that runs no session yet has such a one: all pods of its pool do.
    for sessions in [&[][..], &["u-1"]] {
        assert!(ask(&strict_pod(&ca, End::Server, sessions)).await.is_err(), "no connection");
    }
    assert!(world.seen().is_empty());
    assert_eq!(ask(&strict_pod(&ca, End::Client, &["u-1"])).await.unwrap().status(), 200);
}
