//! Cells of a second, counted by one gateway for all.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
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
use dormouse_service::tls::{PeerClient, Process};
use dormouse_testkit::wait::eventually;
use serde_json::json;
use tokio::{net::TcpListener, sync::watch::Sender};
use tokio_util::sync::CancellationToken;

use crate::support::{Client, Trust, directory, serve_routes};

const LIMIT: u64 = 20;
const GATEWAYS: [&str; 3] = ["one", "two", "three"];

struct Replica {
    name: &'static str,
    client: Client,
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
    let (tls, port) = (trust.files(Process::Gateway, "gateway"), listener.local_addr().unwrap().port());
    let tally = Tally::shared(peers.clone(), PeerClient::new(tls.clone()).unwrap(), "default", port);
    let gateway = Gateway::new(directory.clone(), trust.kernels(), Arc::new(Loopback::default())).with_peers(peers).with_tally(tally);
    let shutdown = CancellationToken::new();
    tokio::spawn(gateway.serve_peers(tls, listener, shutdown.clone()));
    Replica { name, client: serve_routes(gateway).await, members, shutdown }
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
    let first = TcpListener::bind((address("one"), 0)).await.unwrap();
    let port = first.local_addr().unwrap().port();
    let mut replicas = vec![replica(&trust, &directory, "one", first).await];
    for name in ["two", "three"] {
        replicas.push(replica(&trust, &directory, name, TcpListener::bind((address(name), port)).await.unwrap()).await);
    }
    let all: Vec<&Replica> = replicas.iter().collect();
    tell(&all, &GATEWAYS);
    let (status, body) = all[0].client.json("POST", "/v1/namespaces/default/sessions", json!({ "name": "a" })).await;
    assert_eq!(status, 201, "{body}");

    let (done, seconds) = hammer(&all).await;
    let sum: u64 = done.iter().sum();
    assert!((2 * LIMIT..=seconds * LIMIT).contains(&sum), "{done:?} in {seconds} s");

    // The one that counts is gone, and nobody has noticed yet: each of the others has its part.
    let keeper = precedence::first("default", GATEWAYS).unwrap();
    let (gone, left): (Vec<&Replica>, Vec<&Replica>) = replicas.iter().partition(|replica| replica.name == keeper);
    gone[0].shutdown.cancel();
    eventually("it does not listen", async || tokio::net::TcpStream::connect((address(keeper), port)).await.is_err()).await;
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
