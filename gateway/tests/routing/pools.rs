//! Which of a pool's pods a session goes to, and when a pool grows.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use dormouse_gateway::{Directory, directory::Key};
use futures::future::join_all;
use serde_json::json;

use super::{
    EVAL, SESSIONS, create,
    directories::{Different, Growing},
};
use crate::support::{Client, FakePod, Trust, directory, serve};

async fn one_slot_pods(trust: &Trust, count: usize) -> Vec<Arc<FakePod>> {
    let mut pods = Vec::new();
    for number in 0..count {
        let pod = trust.pod(Box::leak(format!("pod-{number:02}").into_boxed_str()), 1).await;
        pod.strict.store(true, Ordering::SeqCst);
        pods.push(pod);
    }
    pods
}

/// Makes so many sessions, and runs a cell in each of them at once, by turns through each of the gateways.
async fn all_at_once(gateways: &[Client], sessions: usize) {
    for number in 0..sessions {
        let (status, body) = gateways[0].json("POST", SESSIONS, json!({ "name": format!("s{number}") })).await;
        assert_eq!(status, 201, "{body}");
    }
    let evals = (0..sessions).map(|number| {
        let client = gateways[number % gateways.len()].clone();
        async move { client.json("POST", &format!("{SESSIONS}/s{number}/eval"), json!({"code": "1"})).await }
    });
    for (status, body) in join_all(evals).await {
        assert_eq!(status, 200, "{body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_four_sessions_that_start_at_once_grow_a_pool_of_one_slot_pods_and_all_answer() {
    const SESSIONS_AT_ONCE: usize = 34;
    let trust = Trust::new();
    let pods = one_slot_pods(&trust, SESSIONS_AT_ONCE).await;
    let (_folder, folder) = directory(&trust, &pods.iter().collect::<Vec<_>>()).await;
    let growing = Arc::new(Different(folder, Growing(pods.clone())));
    let gateways = [serve(&trust, growing.clone()).await, serve(&trust, growing.clone()).await];
    tokio::time::timeout(Duration::from_secs(50), all_at_once(&gateways, SESSIONS_AT_ONCE))
        .await
        .expect("within their time to find a place");
    assert_eq!(growing.1.shown(), SESSIONS_AT_ONCE, "the pool knew of everybody who waited");
    assert!(pods.iter().all(|pod| pod.held.lock().unwrap().len() == 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_without_memory_is_passed_over_and_its_pool_grows() {
    const SESSIONS_AT_ONCE: usize = 8;
    let trust = Trust::new();
    let pods = [trust.pod("short", 100).await, trust.pod("grown", 100).await];
    let (_folder, folder) = directory(&trust, &pods.iter().collect::<Vec<_>>()).await;
    let growing = Arc::new(Different(folder, Growing(pods.to_vec())));
    let (first, others) =
        (serve(&trust, growing.clone()).await, [serve(&trust, growing.clone()).await, serve(&trust, growing.clone()).await]);
    let [short, grown] = &pods;
    create(&first).await;
    let (status, body) = first.json("POST", EVAL, json!({"code": "1"})).await;
    assert_eq!((status, body["preview"].as_str()), (200, Some("short")), "{body}");
    let epochs = |name: &str| growing.get(&Key::new("default", name)).unwrap().status.last_epoch;

    short.exhausted.store(true, Ordering::SeqCst);
    assert_eq!(growing.1.shown(), 1, "nobody waits yet");
    // Through gateways that have not heard of its room before.
    all_at_once(&others, SESSIONS_AT_ONCE).await;
    assert_eq!((short.evals().len(), grown.evals().len()), (1, SESSIONS_AT_ONCE), "whatever slots it has");
    for number in 0..SESSIONS_AT_ONCE {
        assert_eq!(epochs(&format!("s{number}")), Some(1), "who waits costs no placement");
    }
    // Who is placed there finds no room either: it goes elsewhere, and is placed once for that.
    let (status, body) = first.json("POST", EVAL, json!({"code": "1"})).await;
    assert_eq!((status, body["preview"].as_str()), (200, Some("grown")), "{body}");
    assert_eq!(epochs("a"), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_free_slot_of_a_pool_is_found_wherever_it_is() {
    const PODS: usize = 40;
    let trust = Trust::new();
    let pods = one_slot_pods(&trust, PODS).await;
    let (_folder, directory) = directory(&trust, &pods.iter().collect::<Vec<_>>()).await;
    let client = serve(&trust, directory).await;
    for pod in &pods[..PODS - 1] {
        pod.held.lock().unwrap().insert("another".to_owned());
    }
    create(&client).await;
    let (status, body) = client.json("POST", EVAL, json!({"code": "1"})).await;
    assert_eq!((status, body["preview"].as_str()), (200, Some("pod-39")), "{body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_with_room_is_not_asked_pod_by_pod() {
    const PODS: usize = 40;
    let trust = Trust::new();
    let pods = one_slot_pods(&trust, PODS).await;
    let (_folder, directory) = directory(&trust, &pods.iter().collect::<Vec<_>>()).await;
    let client = serve(&trust, directory).await;
    create(&client).await;
    let (status, body) = client.json("POST", EVAL, json!({"code": "1"})).await;
    assert_eq!(status, 200, "{body}");
    let asked: usize = pods.iter().map(|pod| pod.infos.load(Ordering::SeqCst)).sum();
    assert!((1..=8).contains(&asked), "{asked} questions");
}
