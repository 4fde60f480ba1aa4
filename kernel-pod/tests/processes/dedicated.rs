//! A dedicated process ends when its session sleeps, so the next session has another one, which knows nothing of the one before.

use dormouse_protocol::ErrorCode;
use dormouse_testkit::wait::eventually;
use http::Method;
use serde_json::json;

use super::client::eval;
use super::kernel::{Cluster, Kernel, Target};

/// Puts the process's session to sleep, and waits until the process has ended by itself.
async fn sleeps_and_ends(cluster: &Cluster, kernel: &mut Kernel, target: &Target, uid: &str) {
    let request = cluster.client.request(Method::POST, &target.peer, &target.address, "/v1/hibernate");
    let answer = request.json(&target.assignment(uid)).send().await.unwrap();
    assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
    eventually("its process ends", async || !kernel.process.is_alive()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dedicated_process_runs_one_session_and_ends_and_the_next_begins_anew() {
    let cluster = Cluster::start().await;
    let mut kernel = cluster.dedicated("a").await;
    let first = kernel.target(1);
    let value = async |target: &Target, uid: &str, code: &str, key: &str| {
        eval(&cluster, target, uid, code, key).await.unwrap().map(|result| result.value.unwrap())
    };
    assert_eq!(value(&first, "u1", "let n = 1; n", "k1").await, Ok(json!(1)));
    assert_eq!(value(&first, "u2", "1", "k1").await, Err(ErrorCode::CapacityExhausted), "it has its session");
    assert_eq!(value(&first, "u1", "++n", "k2").await, Ok(json!(2)));
    let info = cluster.info(&first).await;
    assert_eq!((info.slots, info.used, info.idle), (1, 1, 0));
    sleeps_and_ends(&cluster, &mut kernel, &first, "u1").await;

    cluster.restart(&mut kernel).await;
    let second = kernel.target(1);
    assert_ne!(cluster.info(&second).await.boot, info.boot, "another process");
    assert_eq!(value(&second, "u2", "typeof n", "k1").await, Ok(json!("undefined")), "another session");
    assert_eq!(value(&first, "u1", "n", "k3").await, Err(ErrorCode::SessionGone), "who asks for the process before");
    let moved = kernel.target(2);
    assert_eq!(value(&moved, "u1", "n", "k3").await, Err(ErrorCode::CapacityExhausted), "it has its session, too");
    sleeps_and_ends(&cluster, &mut kernel, &second, "u2").await;

    cluster.restart(&mut kernel).await;
    assert_eq!(value(&kernel.target(2), "u1", "n", "k3").await, Ok(json!(2)), "the first one, out of storage");
}
