//! Cells of a second and sessions that are being made, counted by one gateway for all.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use dormouse_control::precedence;
use dormouse_crds::quota::KernelQuotaSpec;
use dormouse_gateway::{
    Gateway,
    auth::loopback::Loopback,
    directory::folder::FolderDirectory,
    peers::{Members, Peers},
    tally::Tally,
};
use dormouse_service::tls::{Identity, PeerClient, Process};
use dormouse_testkit::wait::eventually;
use reqwest::Method;
use serde_json::json;
use tokio::{net::TcpListener, sync::watch::Sender};
use tokio_util::sync::CancellationToken;

use crate::support::{Client, Trust, directory, serve_routes};

const LIMIT: u64 = 20;
const GATEWAYS: [&str; 3] = ["one", "two", "three"];

struct Replica {
    name: &'static str,
    client: Client,
    /// Where it answers the others.
    address: SocketAddr,
    members: Sender<Members>,
    /// Ends what answers the others.
    shutdown: CancellationToken,
}

fn address(name: &str) -> IpAddr {
    let number = GATEWAYS.iter().position(|it| *it == name).unwrap();
    Ipv4Addr::new(127, 0, 0, 2 + u8::try_from(number).unwrap()).into()
}

async fn replica(trust: &Trust, directory: &Arc<FolderDirectory>, name: &'static str, listener: TcpListener) -> Replica {
    let (peers, members) = Peers::new(name);
    let (tls, address) = (trust.files(Process::Gateway, "gateway"), listener.local_addr().unwrap());
    let tally = Tally::shared(peers.clone(), PeerClient::new(tls.clone()).unwrap(), "default", address.port());
    let gateway = Gateway::new(directory.clone(), trust.kernels(), Arc::new(Loopback::default())).with_peers(peers).with_tally(tally);
    let shutdown = CancellationToken::new();
    tokio::spawn(gateway.serve_peers(tls, listener, shutdown.clone()));
    Replica { name, client: serve_routes(gateway).await, address, members, shutdown }
}

/// Three of them, who know each other.
async fn three(trust: &Trust, directory: &Arc<FolderDirectory>) -> Vec<Replica> {
    let first = TcpListener::bind((address("one"), 0)).await.unwrap();
    let port = first.local_addr().unwrap().port();
    let mut replicas = vec![replica(trust, directory, "one", first).await];
    for name in ["two", "three"] {
        replicas.push(replica(trust, directory, name, TcpListener::bind((address(name), port)).await.unwrap()).await);
    }
    tell(&replicas.iter().collect::<Vec<_>>(), &GATEWAYS);
    replicas
}

fn tell(replicas: &[&Replica], names: &[&str]) {
    let names: BTreeMap<String, IpAddr> = names.iter().map(|name| ((*name).to_owned(), address(name))).collect();
    for replica in replicas {
        replica.members.send_if_modified(|members| members.change(names.clone()));
    }
}

fn second() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Sends cells through all of `replicas` for two whole seconds of the clock and the rest of this one, more than any of them may begin. Answers how many
/// each of them has let through, and in how many seconds that was.
async fn hammer(replicas: &[&Replica]) -> (Vec<u64>, u64) {
    const CLIENTS: usize = 4;
    let (begun, until) = (second(), second() + 3);
    let one = |replica: &Replica| {
        let client = replica.client.clone();
        async move {
            let mut done = 0;
            while second() < until {
                let (status, body) = client.json("POST", "/v1/namespaces/default/sessions/a/eval", json!({ "code": "1" })).await;
                match status {
                    200 => done += 1,
                    _ => assert_eq!((status, &body["error"]["details"]["resource"]), (429, &json!("evalsPerSecond")), "{body}"),
                }
            }
            done
        }
    };
    let all = replicas.iter().flat_map(|replica| (0..CLIENTS).map(|_| one(replica)));
    let done: Vec<u64> = futures::future::join_all(all).await;
    // One that was sent in the last second may have been counted in the next.
    (done.chunks(CLIENTS).map(|of_one| of_one.iter().sum()).collect(), second() - begun + 1)
}

#[tokio::test(flavor = "multi_thread")]
async fn through_three_gateways_go_as_many_cells_a_second_as_are_allowed_and_not_three_times_as_many() {
    let trust = Trust::new();
    let pod = trust.pod("one", 8).await;
    let (_folder, directory) = directory(&trust, &[&pod]).await;
    directory.set_limits(KernelQuotaSpec { evals_per_second: Some(LIMIT), ..KernelQuotaSpec::default() });
    let replicas = three(&trust, &directory).await;
    let all: Vec<&Replica> = replicas.iter().collect();
    let (status, body) = all[0].client.json("POST", "/v1/namespaces/default/sessions", json!({ "name": "a" })).await;
    assert_eq!(status, 201, "{body}");

    let (done, seconds) = hammer(&all).await;
    let sum: u64 = done.iter().sum();
    assert!((2 * LIMIT..=seconds * LIMIT).contains(&sum), "{done:?} in {seconds} s");

    // The one that counts is gone, and nobody has noticed yet: each of the others has its part.
    let keeper = precedence::first("default", GATEWAYS).unwrap();
    let (gone, left): (Vec<&Replica>, Vec<&Replica>) = replicas.iter().partition(|replica| replica.name == keeper);
    gone[0].shutdown.cancel();
    eventually("it does not listen", async || tokio::net::TcpStream::connect(gone[0].address).await.is_err()).await;
    let (done, seconds) = hammer(&left).await;
    let part = LIMIT.div_ceil(3);
    for done in &done {
        assert!((2 * part..=seconds * part).contains(done), "{done} in {seconds} s");
    }

    // The two know that they are two: one of them counts.
    let names: Vec<&str> = left.iter().map(|replica| replica.name).collect();
    tell(&left, &names);
    let (done, seconds) = hammer(&left).await;
    let sum: u64 = done.iter().sum();
    assert!((2 * LIMIT..=seconds * LIMIT).contains(&sum), "{done:?} in {seconds} s");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_yet_to_hear_that_it_counts_is_asked_again() {
    let trust = Trust::new();
    let pod = trust.pod("one", 8).await;
    let pair = ["one", "two"];
    let counts = precedence::first("default", pair).unwrap();
    let asks = pair.into_iter().find(|name| *name != counts).unwrap();
    // What each of them knows of the quotas: a cell that begins was counted by the one that counts.
    let (_folder, allows) = directory(&trust, &[&pod]).await;
    allows.set_limits(KernelQuotaSpec { evals_per_second: Some(1_000_000), ..KernelQuotaSpec::default() });
    let (_folder, refuses) = directory(&trust, &[&pod]).await;
    refuses.set_limits(KernelQuotaSpec { evals_per_second: Some(0), ..KernelQuotaSpec::default() });
    let listener = TcpListener::bind((address(counts), 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let counts = replica(&trust, &allows, counts, listener).await;
    let asks = replica(&trust, &refuses, asks, TcpListener::bind((address(asks), port)).await.unwrap()).await;
    assert_eq!(asks.client.json("POST", "/v1/namespaces/default/sessions", json!({ "name": "a" })).await.0, 201);
    tell(&[&asks], &pair);
    tell(&[&counts], &[asks.name]);
    let eval = || asks.client.json("POST", "/v1/namespaces/default/sessions/a/eval", json!({ "code": "1" }));
    assert_eq!(eval().await.0, 429, "the lists differ for too long");
    let mut waits = std::pin::pin!(eval());
    assert!(tokio::time::timeout(Duration::from_millis(500), waits.as_mut()).await.is_err(), "it is asked again and again");
    tell(&[&counts], &pair);
    assert_eq!(waits.await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn through_three_gateways_as_many_sessions_are_made_as_are_allowed_and_each_that_goes_makes_room_at_once() {
    const SESSIONS: &str = "/v1/namespaces/default/sessions";
    let trust = Trust::new();
    let pod = trust.pod("one", 8).await;
    let (_folder, directory) = directory(&trust, &[&pod]).await;
    directory.set_limits(KernelQuotaSpec { sessions: Some(7), ..KernelQuotaSpec::default() });
    let replicas = three(&trust, &directory).await;
    let make = |number: usize| {
        let client = &replicas[number % 3].client;
        async move { client.json("POST", SESSIONS, json!({ "name": format!("s{number}") })).await }
    };
    let answers = futures::future::join_all((0..60).map(make)).await;
    let made: Vec<&str> = answers.iter().filter(|(status, _)| *status == 201).map(|(_, body)| body["name"].as_str().unwrap()).collect();
    assert_eq!(made.len(), 7, "{answers:?}");
    let refused = answers.iter().find(|(status, _)| *status != 201).unwrap();
    assert_eq!((refused.0, &refused.1["error"]["details"]["resource"]), (429, &json!("sessions")));
    // One at a time, so that there is room for each; whichever gateway is asked.
    let mut last = made[0].to_owned();
    for number in 100..109 {
        let deleted = replicas[0].client.request("DELETE", &format!("{SESSIONS}/{last}")).send().await.unwrap();
        assert!(deleted.status().is_success());
        let (status, body) = make(number).await;
        assert_eq!(status, 201, "{number}: {body}");
        last = format!("s{number}");
    }
    assert_eq!(make(200).await.0, 429);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_was_not_made_counts_no_more_and_nobody_but_a_gateway_is_answered() {
    let trust = Trust::new();
    let (_folder, directory) = directory(&trust, &[]).await;
    directory.set_limits(KernelQuotaSpec { sessions: Some(1), ..KernelQuotaSpec::default() });
    let replicas = three(&trust, &directory).await;
    let counts = precedence::first("default", GATEWAYS).unwrap();
    let counts = replicas.iter().find(|replica| replica.name == counts).unwrap();
    let ask = async |who: Process, path: &str, name: &str| {
        let client = PeerClient::new(trust.files(who, "gateway")).unwrap();
        let gateway = Identity::gateway("default");
        let request = client.request(Method::POST, &gateway, &counts.address.to_string(), path);
        let answer = client.send(request.json(&json!({ "namespace": "default", "name": name }))).await.unwrap();
        (answer.status().as_u16(), answer.json::<serde_json::Value>().await.unwrap())
    };
    let make = async |name| ask(Process::Gateway, "/v1/sessions/make", name).await.1["counted"]["used"].clone();
    assert_eq!((make("a").await, make("b").await), (json!(null), json!(1)));
    assert_eq!(ask(Process::Gateway, "/v1/sessions/unmade", "a").await.0, 200);
    eventually("there is room for another", async || make("b").await == json!(null)).await;
    for who in [Process::Kernel, Process::Broker] {
        assert_eq!(ask(who, "/v1/sessions/unmade", "b").await.0, 403);
    }
    assert_eq!(make("c").await, json!(1));
}
