//! Pools of one namespace at a broker: none speaks for another's sessions, and none that is deleted is let in.
use std::{net::SocketAddr, time::Duration};

use crate::world::{broker, call};
use dormouse_broker::LivingPools;
use dormouse_protocol::{
    ErrorBody, ErrorCode,
    broker::{ToolAnswer, ToolCall},
};
use dormouse_service::{
    ca::{Ca, LEAF_VALIDITY},
    memory::Memory,
    tls::{Identity, Incarnation, PeerClient, Process, TlsFiles},
};
use reqwest::Method;
use serde_json::json;
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
