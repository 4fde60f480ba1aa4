//! A dedicated process begins with nothing, gets what it needs for one session and reaches no other, and ends when that sleeps: so the next session
//! has another one, which knows nothing of the one before.

use bytes::Bytes;
use dormouse_protocol::history::JournalPage;
use dormouse_protocol::kernel::{Assignment, JournalCall, StoredCall};
use dormouse_protocol::{ErrorBody, ErrorCode};
use dormouse_store::{Condition, PutError, S3, SnapshotStore as _, StoreError};
use dormouse_testkit::process::free_port;
use dormouse_testkit::wait::eventually;
use http::Method;
use serde_json::{Value, json};

use super::client::eval;
use super::effects::{Service, spec};
use super::kernel::{Cluster, Kernel, Target};

/// Puts the process's session to sleep, and waits until the process has ended by itself.
async fn sleeps_and_ends(cluster: &Cluster, kernel: &mut Kernel, target: &Target, uid: &str) {
    let request = cluster.client.request(Method::POST, &target.peer, &target.address, "/v1/hibernate");
    let answer = request.json(&target.assignment(uid)).send().await.unwrap();
    assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
    eventually("its process ends", async || !kernel.process.is_alive()).await;
}

async fn cell(cluster: &Cluster, target: &Target, uid: &str, code: &str, key: &str) -> Result<Value, ErrorCode> {
    eval(cluster, target, uid, code, key).await.unwrap().map(|result| result.value.unwrap())
}

/// What a process tells of a session's journal.
async fn journal(cluster: &Cluster, target: &Target, session: &Assignment) -> Result<JournalPage, ErrorCode> {
    let of = StoredCall { namespace: session.namespace.clone(), name: session.name.clone(), uid: session.uid.clone(), anchor: None };
    let call = JournalCall { session: of, after: 0, limit: 10 };
    let request = cluster.client.request(Method::POST, &target.peer, &target.address, "/v1/stored/journal");
    let answer = request.json(&call).send().await.unwrap();
    if answer.status().is_success() {
        return Ok(answer.json().await.unwrap());
    }
    Err(answer.json::<ErrorBody>().await.unwrap().error.code)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dedicated_process_runs_one_session_and_ends_and_the_next_begins_anew() {
    let cluster = Cluster::start().await;
    let mut kernel = cluster.dedicated("a").await;
    let first = kernel.target(1);
    assert_eq!(journal(&cluster, &first, &first.assignment("u1")).await.err(), Some(ErrorCode::SessionGone), "it has nothing yet");
    cluster.grant(&kernel, "u1").await;
    assert_eq!(cell(&cluster, &first, "u1", "let n = 1; n", "k1").await, Ok(json!(1)));
    assert_eq!(cell(&cluster, &first, "u2", "1", "k1").await, Err(ErrorCode::CapacityExhausted), "it has its session");
    cluster.grant(&kernel, "u1").await;
    assert_eq!(cell(&cluster, &first, "u1", "++n", "k2").await, Ok(json!(2)), "with the credentials that came after");
    let info = cluster.info(&first).await;
    assert_eq!((info.slots, info.used, info.idle), (1, 1, 0));
    sleeps_and_ends(&cluster, &mut kernel, &first, "u1").await;
    let sheets = cluster.root().list("t/team/usage/").await.unwrap();
    assert!(sheets.iter().any(|key| key.contains(&info.boot)), "it has told what its session used: {sheets:?}");

    cluster.restart(&mut kernel).await;
    let second = kernel.target(1);
    assert_ne!(cluster.info(&second).await.boot, info.boot, "another process");
    cluster.grant(&kernel, "u2").await;
    assert_eq!(cell(&cluster, &second, "u2", "typeof n", "k1").await, Ok(json!("undefined")), "another session");
    assert_eq!(cell(&cluster, &first, "u1", "n", "k3").await, Err(ErrorCode::SessionGone), "who asks for the process before");
    let moved = kernel.target(2);
    assert_eq!(cell(&cluster, &moved, "u1", "n", "k3").await, Err(ErrorCode::CapacityExhausted), "it has its session, too");
    sleeps_and_ends(&cluster, &mut kernel, &second, "u2").await;

    cluster.restart(&mut kernel).await;
    cluster.grant(&kernel, "u1").await;
    assert_eq!(cell(&cluster, &kernel.target(2), "u1", "n", "k3").await, Ok(json!(2)), "the first one, out of storage");
}

/// Every way to this key is refused; `own` is an object that the store may read.
async fn refused(store: &S3, own: &str, key: &str) {
    let get = store.get(key).await;
    assert!(matches!(get, Err(StoreError::Denied { .. })), "{key}: {get:?}");
    let put = store.put(key, Bytes::from_static(b"x"), Condition::None).await;
    assert!(matches!(put, Err(PutError::Failed(StoreError::Denied { .. }))), "{key}: {put:?}");
    for (from, to) in [(key, format!("{own}-copy")), (own, key.to_owned())] {
        let copy = store.copy(from, &to).await;
        assert!(matches!(copy, Err(StoreError::Denied { .. })), "{from} to {to}: {copy:?}");
    }
    let delete = store.delete(key).await;
    assert!(matches!(delete, Err(StoreError::Denied { .. })), "{key}: {delete:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_process_is_given_for_its_session_gets_at_nothing_of_another() {
    let cluster = Cluster::start().await;
    let (kernel, other) = (cluster.dedicated("a").await, cluster.dedicated("b").await);
    cluster.grant(&other, "u2").await;
    cell(&cluster, &other.target(1), "u2", "let secret = 42; secret", "k1").await.unwrap();
    let credentials = cluster.grant(&kernel, "u1").await;
    let own = kernel.target(1);
    cell(&cluster, &own, "u1", "1", "k1").await.unwrap();

    assert!(!journal(&cluster, &own, &own.assignment("u1")).await.unwrap().entries.is_empty());
    assert_eq!(journal(&cluster, &own, &own.assignment("u2")).await.err(), Some(ErrorCode::SessionGone));

    let (root, store) = (cluster.root(), cluster.store(credentials));
    let theirs = root.list("t/team/s/default/u2/").await.unwrap();
    assert!(theirs.iter().any(|key| key.ends_with("/head")), "{theirs:?}");
    let head = "t/team/s/default/u1/head";
    assert!(store.get(head).await.unwrap().is_some());
    let beside = [
        "t/team/s/default/u2/absent",
        "t/team/b/default_u1/calls",
        "t/team/usage/2030-01-01/another-1.json",
        "t/team/clusters",
        "t/other/clusters",
    ];
    for key in theirs.iter().map(String::as_str).chain(beside) {
        refused(&store, head, key).await;
    }
    for prefix in ["", "t/team/", "t/team/s/", "t/team/s/default/", "t/team/s/default/u2/", "t/team/usage/", "t/team/b/"] {
        let list = store.list(prefix).await;
        assert!(matches!(list, Err(StoreError::Denied { .. })), "{prefix}: {list:?}");
    }
    for key in &theirs {
        assert!(root.get(key).await.unwrap().is_some(), "{key} is as it was");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dedicated_process_asks_brokers_with_the_certificate_that_it_is_given() {
    let cluster = Cluster::start().await;
    let (_service, url) = Service::start().await;
    let port = free_port().unwrap();
    let _broker = cluster.broker("broker", port, &spec(&url, 5_000)).await;
    let kernel = cluster.dedicated_with("a", &format!("127.0.0.1:{port}")).await;
    cluster.grant(&kernel, "u1").await;
    let target = kernel.target(1);
    let call = async |token: u64, key: &str| {
        let code = format!("(await callTool('post', {{ token: {token} }})).seen");
        cell(&cluster, &target, "u1", &code, key).await
    };
    assert_eq!(call(1, "k1").await, Ok(json!(1)));
    cluster.grant(&kernel, "u1").await;
    assert_eq!(call(2, "k2").await, Ok(json!(1)), "with the certificate that came after");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_tells_what_a_dedicated_process_has_stored() {
    let cluster = Cluster::start().await;
    let mut kernel = cluster.dedicated("a").await;
    cluster.grant(&kernel, "u1").await;
    let target = kernel.target(1);
    cell(&cluster, &target, "u1", "let n = 1; n", "k1").await.unwrap();
    sleeps_and_ends(&cluster, &mut kernel, &target, "u1").await;
    let process = cluster.reader("r").await;
    let reader = process.target(2);
    let session = reader.assignment("u1");
    let mut told = Err(ErrorCode::StorageUnavailable);
    eventually("the store is probed", async || {
        told = journal(&cluster, &reader, &session).await.map(|page| page.entries.len());
        told != Err(ErrorCode::StorageUnavailable)
    })
    .await;
    assert!(told.unwrap() > 0);
    assert_eq!(cell(&cluster, &reader, "u1", "n", "k2").await, Err(ErrorCode::CapacityExhausted));
}
